"""The package as a whole: its version, what importing it does, its documents, its wheel."""

from __future__ import annotations

import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import numba
import numpy as np
import pytest
from packaging.version import Version

import hera_fast

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# Older versions of matplotlib use names that newer ones of pyparsing deprecate.
draws = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def run_python(code, tmp_path, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def module_names():
    modules = pkgutil.walk_packages(hera_fast.__path__, "hera_fast.")
    return ["hera_fast", *(module.name for module in modules)]


def test_version():
    assert str(Version(hera_fast.__version__)) == hera_fast.__version__


def test_version_of_the_installation():
    try:
        installed = metadata.version("hera-fast")
    except metadata.PackageNotFoundError:
        pytest.skip("hera-fast is not installed")
    assert installed == hera_fast.__version__


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="without compilation there is no dispatcher")
def test_import_compiles_nothing(tmp_path):
    code = f"""
import importlib
from numba.core.dispatcher import Dispatcher
modules = [importlib.import_module(name) for name in {module_names()}]
functions = {{value for module in modules for value in vars(module).values()
             if isinstance(value, Dispatcher)}}
assert functions, "no compiled function was found"
for function in functions:
    assert not function.signatures, function
"""
    run = run_python(code, tmp_path)
    assert run.returncode == 0, run.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled, nothing is cached")
@pytest.mark.parametrize(("switch", "cached"), [("0", False), ("1", True)])
def test_cache_switch(switch, cached, tmp_path):
    code = """
import numpy as np
from hera_fast.kernels import project_simplex
out = np.empty((1, 2))
project_simplex(np.zeros((1, 2)), np.ones((1, 2)), out)
assert out.tolist() == [[0.5, 0.5]]
"""
    run = run_python(code, tmp_path, HERA_FAST_CACHE=switch)
    assert run.returncode == 0, run.stderr
    assert any(tmp_path.rglob("*.nbi")) == cached


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(document):
    for block in blocks(document, "python"):
        subprocess.run([sys.executable, "-W", "error", "-c", block], cwd=ROOT, check=True)


def test_readme_says_what_its_example_prints():
    example, *_ = blocks(ROOT / "README.md", "python")
    (printed,) = blocks(ROOT / "README.md", "text")
    run = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert run.stdout == printed


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def run_example(path, monkeypatch):
    """Run a script without arguments, and with few folds if it has folds."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "argv", [str(path)])
    names = runpy.run_path(str(path))
    if "N_FOLDS" in names:
        monkeypatch.setitem(names["main"].__globals__, "N_FOLDS", 3)
    names["main"]()


def write_data_sets(folder):
    """Write small sets of the names and the layout that the examples look for."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for name in ("lost", "msrcv2", "birdsong", "fg-net"):
        y = rng.integers(4, size=60)
        Y = np.eye(4, dtype=np.uint8)[y] | (rng.random((60, 4)) < 0.3)
        X = np.asfortranarray(rng.normal(size=(60, 3)) + np.eye(4)[y, :3])
        np.savez(folder / f"{name}.npz", X=X, Y=Y, y=y)


@draws
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_makes_a_picture(example, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    write_data_sets(tmp_path / "realworld")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path))
    run_example(example, monkeypatch)
    pictures = list(tmp_path.rglob("*.png"))
    assert pictures
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


@draws
@pytest.mark.parametrize("folder", [None, "empty"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_without_data_sets(example, folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HERA_FAST_DATA", raising=False)
    if folder is not None:
        monkeypatch.setenv("HERA_FAST_DATA", folder)
    run_example(example, monkeypatch)
    needs_data = "HERA_FAST_DATA" in example.read_text("utf-8")
    assert any(tmp_path.rglob("*.png")) != needs_data
    assert (".npz" in capsys.readouterr().out) == needs_data


def test_wheel(tmp_path):
    try:
        setuptools = metadata.version("setuptools")
    except metadata.PackageNotFoundError:
        setuptools = "0"
    if Version(setuptools) < Version("77"):
        pytest.skip("building a wheel without an index needs setuptools 77 or newer here")
    tree = tmp_path / "tree"
    # Built from a copy, because building writes into the tree.
    shutil.copytree(
        ROOT,
        tree,
        symlinks=True,
        ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "out", "*.egg-info"),
    )
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    build = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "-w", tmp_path, tree],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"hera_fast-{hera_fast.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for pattern in (
            *("*.*", "baselines/*.py", "cli/*.py", "experiments/*.py"),
            *("plotting/*.py", "report/*.*"),
        )
        for path in (ROOT / "hera_fast").glob(pattern)
    } | {f"hera_fast/kernels/{path.name}" for path in (ROOT / "kernels").glob("*.py")}
    assert {"hera_fast/py.typed", "hera_fast/kernels/__init__.py"} <= sources
    assert {name for name in names if ".dist-info/" not in name} == sources
    assert {"hera_fast/report/page.css", "hera_fast/report/page.js"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    (points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "hera-fast = hera_fast.cli:main" in zipfile.ZipFile(wheel).read(points).decode()


def tracked_files():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, or no git")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        # For example because the checkout belongs to another user.
        pytest.skip(f"git does not list the files: {listing.stderr.strip()}")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_no_paths_of_one_machine():
    patterns = [rb"/(?:home|Users|root)/\w", rb"[A-Z]:\\Users"]
    # A folder such as /out has nothing personal, and would be found in many files.
    if len(ROOT.relative_to(ROOT.anchor).parts) >= 2:
        patterns.append(re.escape(os.fsencode(ROOT)) + b"/")
    personal = re.compile(b"|".join(patterns))
    files = [path for path in tracked_files() if path.is_file()]
    assert [path for path in files if personal.search(path.read_bytes())] == []

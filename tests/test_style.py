"""Rules that a reader relies on and no other tool checks."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from hera_fast import kernels

ROOT = Path(__file__).parent.parent
KERNEL_FILES = sorted((ROOT / "kernels").glob("*.py"))
# The kernels are also reachable through a link inside hera_fast.
PACKAGE_FILES = [
    path
    for path in sorted((ROOT / "hera_fast").rglob("*.py"))
    if "kernels" not in path.relative_to(ROOT).parts
]
SOURCES = {path.relative_to(ROOT).as_posix(): path for path in KERNEL_FILES + PACKAGE_FILES}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}

JIT = "kernels/_jit.py"
SHARED = "kernels/_inline.py"
COMPILERS = {"cfunc", "guvectorize", "jit", "jitclass", "njit", "prange", "stencil", "vectorize"}

every_source = pytest.mark.parametrize("name", TREES)
every_kernel_module = pytest.mark.parametrize(
    "name", [name for name in TREES if name.startswith("kernels/")]
)
every_public_kernel = pytest.mark.parametrize("name", kernels.__all__)


def functions(tree):
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


DECORATORS = {name for name in functions(TREES[JIT]) if not name.startswith("_")}


def compiled_functions(tree):
    return {
        name: node
        for name, node in functions(tree).items()
        if any(isinstance(used, ast.Name) and used.id in DECORATORS for used in node.decorator_list)
    }


def imports(tree):
    """Map every imported name to where it comes from."""
    origins = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            origins |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = ("hera_fast.kernels." if node.level else "") + (node.module or "")
            origins |= {alias.asname or alias.name: module for alias in node.names}
    return origins


def test_there_is_something_to_check():
    assert kernels.__all__
    assert len(KERNEL_FILES) > 5
    assert {"kernel", "helper"} <= DECORATORS
    assert any(compiled_functions(tree) for tree in TREES.values())


@every_source
def test_compilation_in_one_place_only(name):
    used = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(TREES[name])
        if isinstance(node, (ast.Name, ast.Attribute))
    }
    used |= set(imports(TREES[name]))
    assert used & COMPILERS == ({"njit"} if name == JIT else set())


@every_kernel_module
def test_compiled_functions_call_compiled_functions_of_their_module(name):
    """Numba's cache does not notice edits in other files; the shared file has a digest instead."""
    tree = TREES[name]
    origins = imports(tree)
    compiled = compiled_functions(tree)
    for function in compiled.values():
        for call in ast.walk(function):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            called = call.func.id
            if called in functions(tree):
                assert called in compiled, f"{function.name} calls {called}, which is not compiled"
            origin = origins.get(called, "")
            if origin.startswith("hera_fast"):
                assert origin == "hera_fast.kernels._inline", f"{function.name} calls {called}"


@every_kernel_module
def test_modules_with_kernels_carry_the_digest_of_what_they_share(name):
    if SOURCES[name].stem.startswith("_"):
        return
    shared = b"".join(SOURCES[path].read_bytes() for path in ("kernels/_jit.py", SHARED))
    digest = hashlib.sha256(shared).hexdigest()[:16]
    module = import_module(f"hera_fast.kernels.{SOURCES[name].stem}")
    assert getattr(module, "SHARED_DIGEST", None) == digest, (
        f"set SHARED_DIGEST to {digest!r} in every module with compiled functions"
    )


@every_kernel_module
def test_kernels_know_nothing_of_the_package_around_them(name):
    for origin in imports(TREES[name]).values():
        assert not origin.startswith("hera_fast") or origin.startswith("hera_fast.kernels.")
        assert not origin.startswith("sklearn")


def test_modules_import_what_stands_below_them():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("| module | what it does |\n", 1)[1].split("\n\n", 1)[0]
    order = re.findall(r"^\| `([\w.]+)` \|", table, re.M)
    trees = {
        ".".join(path.relative_to(ROOT / "hera_fast").with_suffix("").parts): TREES[
            path.relative_to(ROOT).as_posix()
        ]
        for path in PACKAGE_FILES
        if not path.stem.startswith("_")
    }
    assert set(order) == set(trees)
    for rank, name in enumerate(order):
        origins = {origin.removeprefix("hera_fast.") for origin in imports(trees[name]).values()}
        assert not origins & set(order[: rank + 1]), name


@every_source
def test_no_printing(name):
    prints = [
        node.lineno
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not prints, f"print in line(s) {prints}"


@every_source
def test_numba_settings_belong_to_the_user(name):
    for node in ast.walk(TREES[name]):
        targets = node.targets if isinstance(node, ast.Assign) else []
        assert not any("numba.config" in ast.unparse(target) for target in targets)


@every_public_kernel
def test_public_kernels_have_twins_with_the_same_arguments(name):
    function = getattr(kernels, name)
    module = function.__module__.rpartition(".")[2]
    twin = getattr(import_module(f"naive_{module}"), name)
    assert list(inspect.signature(twin).parameters) == list(inspect.signature(function).parameters)


@every_public_kernel
def test_public_kernels_are_documented(name):
    function = getattr(kernels, name)
    text = inspect.getdoc(function)
    assert text
    assert "\nParameters\n----------\n" in text
    for parameter in inspect.signature(function).parameters:
        assert parameter in text.split("\nParameters\n", 1)[1], f"{parameter} is not described"


@every_public_kernel
def test_public_kernels_return_nothing(name):
    assert inspect.signature(getattr(kernels, name)).return_annotation in (None, "None")


def test_public_names_are_sorted():
    assert kernels.__all__ == sorted(kernels.__all__)

"""What the Tab key adds."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from absent import hide
from commands import run, said, said_json

pytest.importorskip("shtab", reason="completion needs shtab")


@pytest.fixture
def script(tmp_path, capsys):
    path = tmp_path / "completion.bash"
    path.write_text(said(capsys, "completion", "bash").out, encoding="utf-8")
    return path


def completed(script, *words):
    """What bash offers for the last of the words."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    line = " ".join(words)
    code = f"""
source {script.name}
COMP_WORDS=({line or "''"}{" ''" if words[-1] == "" else ""})
COMP_CWORD={len(words) - 1}
COMP_LINE='{line}' COMP_POINT={len(line)}
_shtab_hera_fast
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    process = subprocess.run(
        ["bash", "--norc", "-c", code],
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.stderr == ""
    return {word.strip() for word in process.stdout.split("\n") if word.strip()}


def test_commands(script):
    assert completed(script, "hera-fast", "di") == {"disambiguate"}
    assert {"info", "fit", "predict", "tune"} <= completed(script, "hera-fast", "")


def test_options_and_their_values(script):
    assert "--set" in completed(script, "hera-fast", "fit", "--s")
    assert completed(script, "hera-fast", "fit", "--method", "hera-") == {"hera-paper"}
    assert completed(script, "hera-fast", "completion", "z") == {"zsh"}


def test_files(script):
    (script.parent / "faces.csv").write_text("")
    assert completed(script, "hera-fast", "info", "fac") == {"faces.csv"}
    assert completed(script, "hera-fast", "fit", "x.csv", "--out", "fac") == {"faces.csv"}
    assert completed(script, "hera-fast", "predict", "fac") == {"faces.csv"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells(shell, capsys):
    result = said_json(capsys, "completion", shell)
    assert result["shell"] == shell
    assert "disambiguate" in result["script"]


def test_without_shtab(capsys, monkeypatch):
    hide(monkeypatch, "shtab")
    import importlib

    original = importlib.import_module

    def refuse(name, *arguments):
        if name == "shtab":
            raise ImportError("hidden")
        return original(name, *arguments)

    monkeypatch.setattr("hera_fast.extras.import_module", refuse)
    assert run("completion", "bash") == 1
    assert "completion needs shtab: pip install 'hera-fast[cli]'" in capsys.readouterr().err

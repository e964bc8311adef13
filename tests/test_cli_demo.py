"""The demonstration: what it finds, what it shows, what it draws."""

from __future__ import annotations

import contextlib
import io
import json
import sys

import pytest

from hera_fast.cli import main

pytestmark = pytest.mark.filterwarnings(
    # Older versions of matplotlib use names that newer ones of pyparsing deprecate.
    "ignore::DeprecationWarning"
)


@pytest.fixture
def without_matplotlib(monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def result(folder):
    """What the command says in a folder of its own."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        assert main(["demo", "--json"]) == 0
    return json.loads(printed.getvalue())


def test_hera_finds_the_labels(result):
    assert result["rows"] == {"training": 1257, "held_out": 540}
    assert result["candidates_per_row"] == 3
    assert result["preparation_seconds"] > 0
    chance, naive, hera, informed = result["methods"]
    assert [method["method"] for method in result["methods"]] == [
        "random choice",
        "logistic regression",
        "HERA",
        "logistic regression",
    ]
    assert chance["training"] < 0.4
    assert chance["held_out"] is None
    assert informed["training"] is None
    assert naive["held_out"] + 0.2 < hera["held_out"]
    assert informed["held_out"] - 0.05 < hera["held_out"]
    assert naive["training"] + 0.15 < hera["training"]


def test_examples_and_levels(result):
    assert [example["title"] for example in result["examples"]] == ["clear", "in doubt", "wrong"]
    for example in result["examples"]:
        assert len(example["candidates"]) == 3
        assert example["truth"] in example["candidates"]
        assert sum(example["confidence"]) == pytest.approx(1)
        picked = example["candidates"][example["confidence"].index(max(example["confidence"]))]
        assert (picked == example["truth"]) == (example["title"] != "wrong")
    levels = result["confidence"]
    assert sum(level["rows"] for level in levels) == result["rows"]["training"]
    found = sum(level["right"] for level in levels) / result["rows"]["training"]
    assert found == pytest.approx(result["methods"][2]["training"])


def test_picture_is_in_the_current_folder(folder, result):
    pytest.importorskip("matplotlib")
    assert [path.name for path in folder.iterdir()] == [result["picture"]]
    assert (folder / result["picture"]).read_bytes().startswith(b"\x89PNG")


def test_text_and_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "hera.SVG"
    assert main(["demo", "--out", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert max(map(len, captured.out.split("Picture:")[0].splitlines())) <= 80
    assert f"Picture: {path}" in captured.out
    assert "row 1: clear" in captured.out
    assert captured.out.count("* ") >= 4  # three true labels, and what the mark means
    assert path.read_bytes().startswith(b"<?xml")


def test_without_matplotlib(tmp_path, monkeypatch, capsys, without_matplotlib):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    captured = capsys.readouterr()
    assert "no picture" in captured.err
    assert "hera-fast[plot]" in captured.err
    assert "HERA" in captured.out
    assert list(tmp_path.iterdir()) == []


def test_wrong_file_is_told_before_the_work(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["demo", "--out", "hera.gif"])
    assert end.value.code == 2
    assert ".png" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path / "missing" / "hera.png")]) == 1
    captured = capsys.readouterr()
    assert "does not exist" in captured.err
    assert captured.out == ""

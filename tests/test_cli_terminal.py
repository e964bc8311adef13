"""What is written where, and how it looks."""

from __future__ import annotations

import io
import json
import sys

import pytest
from commands import assert_clean

from hera_fast.cli.terminal import Output, aligned, bars, percent, printable

BOLD = "\x1b[1m"


class Screen(io.StringIO):
    """A terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def open_screens(monkeypatch):
    """Replaces the streams when it is called: pytest does so after the fixtures."""

    def replace():
        monkeypatch.setenv("COLUMNS", "40")
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, Screen())
        return sys.stdout, sys.stderr

    return replace


WORDS = "a rather long sentence about nothing in particular, which goes on and on"


def test_messages_fit_the_terminal(open_screens):
    stdout, stderr = open_screens()
    out = Output()
    out.warn(WORDS)
    out.error(f"{WORDS}\nand more")
    lines = stderr.getvalue().splitlines()
    assert len(lines) == 7
    assert max(map(len, lines)) <= 40
    assert lines[-1] == "and more"
    assert stdout.getvalue() == ""


def test_messages_elsewhere_are_lines(capsys):
    Output().warn(WORDS)
    assert capsys.readouterr().err == f"hera-fast: warning: {WORDS}\n"


def test_text_beside_its_beginning(open_screens):
    stdout, _ = open_screens()
    Output().beside("   1  ", WORDS)
    lines = stdout.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("   1  a rather")
    assert all(line.startswith("      ") for line in lines[1:])


def test_titles_are_bold_on_a_terminal_only(open_screens):
    stdout, _ = open_screens()
    Output().text("title", strong=True)
    assert BOLD in stdout.getvalue()


def test_titles_elsewhere(capsys):
    Output().table(["a", "b"], [["1", "2"]], title="title")
    assert capsys.readouterr().out.startswith("title\na")


def test_notes_are_for_those_who_watch(open_screens):
    _, stderr = open_screens()
    Output().note("look")
    Output(quiet=True).note("not now")
    assert stderr.getvalue() == "look\n"


def test_no_notes_without_a_terminal(capsys):
    out = Output()
    out.note("look")
    assert not out.shows_progress
    assert capsys.readouterr() == ("", "")


def test_programs_get_one_object(capsys):
    out = Output(as_json=True)
    out.text("hello")
    out.table(["a"], [["b"]])
    out.beside("a", "b")
    out.data(first=float("nan"), second="\x1b")
    out.close()
    assert json.loads(capsys.readouterr().out) == {"first": None, "second": "\x1b"}


def test_tables_go_below_each_other():
    text = aligned(["", "first", "second"], [["row", "1", "2"]], width=12)
    assert text == "     first\n----------\nrow      1\n\n     second\n-----------\nrow       2"


def test_nothing_raw_reaches_the_terminal(open_screens):
    stdout, stderr = open_screens()
    evil = "a\x1b[2Jb\x07\u202ec\r"
    out = Output()
    out.table([evil], [[evil]])
    out.text(bars([evil], [3]))
    out.warn(evil)
    assert_clean(stdout.getvalue())
    assert_clean(stderr.getvalue())
    assert printable(evil) == "a\\x1b[2Jb\\x07\\u202ec\\r"


def test_terminals_that_know_few_characters(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    Output().text("größe")
    assert stream.buffer.getvalue() == b"gr??e\n"


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0%"), (1, "100.0%"), (0.5, "50.0%"), (0.00042, "0.042%")]
)
def test_percent(share, text):
    assert percent(share) == text

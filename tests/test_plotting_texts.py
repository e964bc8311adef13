"""Texts: drawn as they are, no longer than there is room."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from hera_fast.plotting.texts import add_legend, add_texts, metric_label, name_ticks, shorten


@given(st.text(st.characters()), st.integers(5, 40))
def test_shortened_names(text, most):
    short = shorten(text, most)
    assert len(short) <= most
    assert len(short.splitlines()) <= 1
    short.encode()
    assert shorten(short, most) == short


def test_names_keep_both_ends():
    assert shorten("abc", 3) == "abc"
    assert shorten("abcdefghijklm", 7) == "abcd…lm"
    assert shorten(" a\n\tb ", 7) == "a b"
    assert shorten(12.0, 7) == "12.0"
    assert shorten("a\x00\ud800b", 7) == "a��b"


def test_axis_labels_keep_their_lines():
    ax = Figure().subplots()
    add_texts(ax, title="a\nb", x_label="$x$", y_label="\x07")
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("a\nb", "$x$", "�")
    assert not ax.title.get_parse_math()
    add_texts(ax)
    assert ax.get_title() == "a\nb"


@pytest.mark.parametrize("axis", ["x", "y"])
def test_ticks_do_not_touch(axis):
    figure = Figure(figsize=(4.2, 2.8))
    ax = figure.subplots()
    ax.set(xlim=(-0.5, 19.5), ylim=(-0.5, 19.5))
    name_ticks(ax, axis, [f"a long name, the one of number {i}" for i in range(20)])
    figure.draw_without_rendering()
    labels = ax.get_xticklabels() if axis == "x" else ax.get_yticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert len({label.get_text() for label in labels}) == 20
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


def test_short_names_below_the_axes_are_not_turned():
    ax = Figure().subplots()
    name_ticks(ax, "x", range(10))
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {0}
    name_ticks(ax, "x", ["a rather long label"] * 10)
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {90}
    name_ticks(ax, "x", [])
    assert ax.get_xticklabels() == []


def test_large_legends_stand_beside_the_axes():
    for count, is_inside in ((4, True), (5, False)):
        figure = Figure(layout="constrained")
        ax = figure.subplots()
        artists = {f"_$name$ {i}": ax.plot([1, 2])[0] for i in range(count)}
        add_legend(ax, artists)
        figure.draw_without_rendering()
        legend = ax.get_legend()
        assert [text.get_text() for text in legend.get_texts()] == list(artists)
        assert (legend.get_window_extent().x1 < ax.get_window_extent().x1) == is_inside
        assert legend.get_window_extent().x1 < figure.bbox.x1


def test_metrics():
    assert metric_label("log_loss") == "log loss"
    assert metric_label("my own") == "my own"

"""Demšar's diagram: groups by his rule, and texts that do not overlap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from hera_fast import compare
from hera_fast.plotting import CriticalDifferenceDisplay
from hera_fast.significance import critical_difference

ranks_of_methods = st.lists(st.integers(4, 48).map(lambda rank: rank / 4), min_size=2, max_size=12)


def naive_groups(names, ranks, difference):
    """All sets of methods that do not differ, without those that are part of another one."""
    order = sorted(range(len(names)), key=lambda i: ranks[i])
    groups = [
        part
        for size in range(2, len(names) + 1)
        for part in (order[i : i + size] for i in range(len(order) - size + 1))
        if all(abs(ranks[i] - ranks[j]) < difference for i, j in itertools.combinations(part, 2))
    ]
    largest = [one for one in groups if not any(set(one) < set(other) for other in groups)]
    return sorted([names[i] for i in group] for group in largest)


@given(ranks_of_methods, st.integers(0, 30).map(lambda difference: difference / 4))
def test_groups(ranks, difference):
    names = [f"method {i}" for i in range(len(ranks))]
    display = CriticalDifferenceDisplay(names, ranks, difference)
    assert sorted(display.groups) == naive_groups(names, ranks, difference)


def test_the_example_of_the_paper():
    """Demšar, section 3.2.2: C4.5 is worse than two others, and nothing is known of C4.5+cf."""
    difference = critical_difference(4, 14, 0.10)
    names, ranks = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"], [3.143, 2.000, 2.893, 1.964]
    display = CriticalDifferenceDisplay(names, ranks, difference, n_blocks=14)
    assert round(difference, 2) == 1.12
    assert display.groups == [["C4.5+m+cf", "C4.5+m", "C4.5+cf"], ["C4.5+cf", "C4.5"]]


def test_bars_span_their_groups_and_do_not_overlap():
    ranks = np.array([1.0, 1.5, 2.5, 4.0, 4.5, 5.5, 7.0])
    display = CriticalDifferenceDisplay(list("abcdefg"), ranks, 1.2).plot(Figure().subplots())
    assert display.groups == [["a", "b"], ["b", "c"], ["d", "e"], ["e", "f"]]
    ends = [bar.get_xdata() for bar in display.bars_]
    np.testing.assert_allclose(ends, [(1, 1.5), (1.5, 2.5), (4, 4.5), (4.5, 5.5)], atol=0.1)
    bars = [(*bar.get_xdata(), bar.get_ydata()[0]) for bar in display.bars_]
    for one, other in itertools.combinations(bars, 2):
        assert one[2] != other[2] or one[1] < other[0] or other[1] < one[0]
    assert len({height for *_, height in bars}) == 2


def test_lines_lead_from_ranks_to_names():
    names, ranks = ["worst", "best", "middle"], [2.75, 1.25, 2.0]
    display = CriticalDifferenceDisplay(names, ranks, 0.5, n_blocks=8).plot(Figure().subplots())
    texts = {text.get_text(): text for text in display.ax_.texts}
    lines = {line.get_xdata()[0]: line for line in display.ax_.lines[:3]}
    left, right = display.ax_.get_xlim()
    for name, rank in zip(names, ranks, strict=True):
        x, y = lines[rank].get_data()
        assert x[1] == rank
        assert y[0] == 0
        assert y[1] == y[2] == texts[name].get_position()[1]
        assert left < x[2] < 1 if name != "worst" else 3 < x[2] < right
    assert texts["best"].get_position()[1] < texts["middle"].get_position()[1]
    assert texts["average rank over 8 blocks, 1 is best"]
    assert [display.ax_.transData.transform((rank, 0))[0] for rank in sorted(ranks)] == sorted(
        display.ax_.transData.transform((rank, 0))[0] for rank in ranks
    )


def length_of_the_bar(display):
    """The horizontal line above the axis."""
    return [
        (line.get_xdata()[0], line.get_xdata()[-1])
        for line in display.ax_.lines
        if line.get_ydata()[0] == line.get_ydata()[-1] < 0
    ]


def test_the_critical_difference_is_drawn():
    ax = Figure().subplots()
    display = CriticalDifferenceDisplay(["a", "b", "c"], [1, 2, 3], 1.25).plot(ax)
    assert length_of_the_bar(display) == [(1, 2.25)]
    texts = [text.get_text() for text in ax.texts]
    assert "critical difference 1.25" in texts
    assert "average rank, 1 is best" in texts
    display = CriticalDifferenceDisplay(["a", "b"], [1, 2], 7, n_blocks=1).plot(Figure().subplots())
    assert length_of_the_bar(display) == [(1, 2)]
    texts = [text.get_text() for text in display.ax_.texts]
    assert "critical difference 7.00, beyond the axis" in texts
    assert "average rank over 1 block, 1 is best" in texts
    display = CriticalDifferenceDisplay(["a", "b"], [1, 1], np.nan).plot(Figure().subplots())
    assert length_of_the_bar(display) == display.groups == display.bars_ == []


@pytest.mark.parametrize("layout", ["constrained", None])
@pytest.mark.parametrize("size", [(4.2, 2.8), (6.4, 4.8)])
@pytest.mark.parametrize("width", [2, 9, 40])
@pytest.mark.parametrize("n_methods", range(2, 13))
def test_texts_do_not_overlap(n_methods, width, size, layout):
    rng = np.random.default_rng(n_methods)
    ranks = np.sort(rng.random((30, n_methods)) + np.arange(n_methods) / 5, axis=1)
    ranks = rng.permuted(ranks, axis=1).argsort(axis=1).argsort(axis=1).mean(axis=0) + 1
    names = [f"{i:x}" + "m" * (width - 1) for i in range(n_methods)]
    figure = Figure(figsize=size, layout=layout)
    difference = critical_difference(n_methods, 30, 0.05)
    display = CriticalDifferenceDisplay(names, ranks, difference, n_blocks=30)
    display.plot(figure.subplots())
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    assert len(boxes) > n_methods
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert 0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert 0 <= box.y0 <= box.y1 <= figure.bbox.y1
    assert min(text.get_fontsize() for text in display.ax_.texts) >= 5


def make_results(figures):
    return {
        "estimator": [name for name, folds in figures.items() for _ in folds],
        "fold": [fold for folds in figures.values() for fold in range(len(folds))],
        "inductive": [figure for folds in figures.values() for figure in folds],
    }


def test_comparisons():
    figures = {"a": [0.5, 0.6, 0.7], "b": [0.6, 0.7, 0.8], "lost": [np.nan] * 3}
    comparison = compare(make_results(figures), reference="a")
    ax = Figure().subplots()
    display = CriticalDifferenceDisplay.from_comparison(comparison, ax, colors={"a": "red"})
    assert display.names == ["a", "b"]
    assert display.ranks.tolist() == [2, 1]
    assert display.n_blocks == 3
    assert display.critical_difference == comparison.critical_difference
    assert display.ax_.lines[1].get_color() == "red"


def test_too_few_ranks():
    with pytest.raises(ValueError, match="1 of 2 estimators have a rank, but at least 2"):
        CriticalDifferenceDisplay.from_comparison(
            compare(make_results({"a": [0.5, 0.6], "b": [np.nan] * 2}))
        )
    with pytest.raises(ValueError, match="at least 2 methods are needed, got 1"):
        CriticalDifferenceDisplay(["a"], [1], 1)
    with pytest.raises(ValueError, match=r"ranks must have the shape \(2,\), got \(3,\)"):
        CriticalDifferenceDisplay(["a", "b"], [1, 2, 3], 1)
    with pytest.raises(ValueError, match="ranks must be finite"):
        CriticalDifferenceDisplay(["a", "b"], [1, np.nan], 1)
    with pytest.raises(ValueError, match="critical_difference must not be negative, got -1"):
        CriticalDifferenceDisplay(["a", "b"], [1, 2], -1)

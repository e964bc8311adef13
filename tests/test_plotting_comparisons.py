"""Bars of methods and differences to a reference: what is drawn, and intervals against SciPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from absent import hide
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy import stats

from hera_fast import compare
from hera_fast.plotting import COLORS, DifferenceDisplay, MethodsDisplay


def make_results(figures):
    rows = [
        {"dataset": dataset, "estimator": name, "fold": fold, "inductive": figure}
        for dataset, by_name in figures.items()
        for name, folds in by_name.items()
        for fold, figure in enumerate(folds)
    ]
    return pd.DataFrame(rows)


def draws(n_datasets=3, n_folds=5, names=("a", "b", "c")):
    rng = np.random.default_rng(0)
    return {f"set {d}": {n: rng.random(n_folds) for n in names} for d in range(n_datasets)}


def tick_texts(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_bars():
    display = MethodsDisplay(["a", "b", "c"], [0.5, np.nan, 0.25], [0.1, 0.1, np.nan], title="t")
    ax = display.plot(Figure().subplots()).ax_
    assert [bar.get_width() for bar in display.bars_][::2] == [0.5, 0.25]
    assert [bar.get_y() + bar.get_height() / 2 for bar in display.bars_] == [0, 1, 2]
    assert to_hex(display.bars_[0].get_facecolor()) == COLORS[0].lower()
    assert to_hex(display.bars_[2].get_facecolor()) != COLORS[0].lower()
    assert tick_texts(ax) == ["a", "b", "c"]
    low, high = ax.get_ylim()
    assert low > high
    (segments,) = [lines.get_segments() for lines in ax.collections]
    np.testing.assert_allclose(segments, [[(0.4, 0), (0.6, 0)]])
    assert (ax.get_title(), ax.get_xlabel()) == ("t", "held-out accuracy")
    assert ax.get_legend() is None
    display.figure_.draw_without_rendering()


def test_published_figures():
    published = {"b": 0.75, "elsewhere": 0.5}
    display = MethodsDisplay(["a", "b"], [0.5, 0.25], None, published=published)
    ax = display.plot(Figure().subplots(), color="red").ax_
    (diamonds,) = ax.lines
    np.testing.assert_array_equal(diamonds.get_xdata(), [np.nan, 0.75])
    assert diamonds.get_ydata().tolist() == [0, 1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["published"]
    assert to_hex(display.bars_[0].get_facecolor()) == "#ff0000"
    assert not ax.collections


def test_bars_of_a_comparison():
    figures = draws()
    comparison = compare(make_results(figures), reference="b")
    ax = Figure().subplots()
    display = MethodsDisplay.from_comparison(comparison, "set 1", {"c": 0.5}, ax)
    assert display.names == ["b", "a", "c"]
    assert display.title == "set 1"
    for name, mean, sd in zip(display.names, display.means, display.sds, strict=True):
        np.testing.assert_allclose(mean, np.mean(figures["set 1"][name]))
        np.testing.assert_allclose(sd, np.std(figures["set 1"][name], ddof=1))
    assert display.ax_ is ax
    display = MethodsDisplay.from_comparison(
        comparison, "set 1", ax=Figure().subplots(), title="", color="red"
    )
    assert display.ax_.get_title() == ""
    assert to_hex(display.bars_[0].get_facecolor()) == "#ff0000"


def test_the_only_data_set_needs_no_name(monkeypatch):
    results = make_results(draws(1)).drop(columns="dataset").to_dict("list")
    hide(monkeypatch, "pandas")
    comparison = compare({**results, "fit_seconds": results["inductive"]}, metric="fit_seconds")
    display = MethodsDisplay.from_comparison(comparison, ax=Figure().subplots())
    assert display.names[0] == comparison.reference
    assert display.title is None
    assert display.ax_.get_xlabel() == "seconds to fit"


def test_wrong_data_sets():
    comparison = compare(make_results(draws(2)))
    with pytest.raises(ValueError, match=r"several data sets, name one: \['set 0', 'set 1'\]"):
        MethodsDisplay.from_comparison(comparison)
    with pytest.raises(ValueError, match="there is no data set 'x', but only"):
        MethodsDisplay.from_comparison(comparison, "x")


def test_wrong_bars():
    with pytest.raises(ValueError, match=r"means must have the shape \(1,\), got \(2,\)"):
        MethodsDisplay(["a"], [1, 2], None)
    with pytest.raises(ValueError, match=r"sds must have the shape"):
        MethodsDisplay(["a"], [1], [1, 2])
    with pytest.raises(ValueError, match="names has no methods"):
        MethodsDisplay([], [], [])


def test_differences():
    intervals = [[-0.2, 0.1], [np.nan, np.nan]]
    display = DifferenceDisplay(["a", "b"], [-0.1, 0.2], intervals, title="t")
    ax = display.plot(Figure().subplots()).ax_
    assert display.points_.get_xdata().tolist() == [-0.1, 0.2]
    assert display.points_.get_ydata().tolist() == [0, 1]
    np.testing.assert_array_equal(ax.collections[0].get_segments()[0], [(-0.2, 0), (0.1, 0)])
    assert ax.lines[0].get_xdata() == [0, 0]
    assert tick_texts(ax) == ["a", "b"]
    assert (ax.get_title(), ax.get_xlabel()) == ("t", "difference to the reference")
    display.figure_.draw_without_rendering()
    display = DifferenceDisplay(["a"], [1.0]).plot(Figure().subplots(), color="red")
    assert not display.ax_.collections
    assert display.points_.get_color() == "red"


def interval(differences):
    return stats.ttest_1samp(differences, 0).confidence_interval(0.95)


def test_differences_over_data_sets():
    figures = draws(4)
    comparison = compare(make_results(figures), reference="b")
    display = DifferenceDisplay.from_comparison(comparison, Figure().subplots())
    assert display.names == ["a", "c"]
    for name, mean, ends in zip(display.names, display.differences, display.intervals, strict=True):
        differences = [np.mean(each[name] - each["b"]) for each in figures.values()]
        np.testing.assert_allclose(mean, np.mean(differences))
        np.testing.assert_allclose(ends, interval(differences))
    assert display.ax_.get_xlabel() == "held-out accuracy\nminus that of b"


@pytest.mark.parametrize("n_folds", [2, 5, 30])
def test_differences_over_folds(n_folds):
    ((name, figures),) = draws(1, n_folds).items()
    comparison = compare(make_results({name: figures}), reference="a", alpha=0.2)
    display = DifferenceDisplay.from_comparison(comparison, Figure().subplots(), title="t")
    assert display.title == "t"
    for name, mean, ends in zip(display.names, display.differences, display.intervals, strict=True):
        differences = figures[name] - figures["a"]
        np.testing.assert_allclose(mean, np.mean(differences))
        np.testing.assert_allclose(ends, interval(differences), rtol=1e-6)


def test_intervals_that_are_not_known():
    figures = {
        "reference": [0.5, 0.6, 0.7, 0.8],
        "same": [0.5, 0.6, 0.7, 0.8],
        "shifted": [0.25, 0.35, 0.45, 0.55],
        "balanced": [0.6, 0.5, 0.8, 0.7],
        "noisy": [0.7, 0.6, 0.6, 0.8],
    }
    comparison = compare(make_results({"x": figures}), reference="reference")
    display = DifferenceDisplay.from_comparison(comparison, Figure().subplots())
    same, shifted, balanced, noisy = display.intervals
    assert np.isnan([same, balanced]).all()
    np.testing.assert_allclose(shifted, -0.25)
    np.testing.assert_allclose(noisy, interval(np.subtract(figures["noisy"], figures["reference"])))
    # Who lacks a fold shares the rest; of others it is not known which they have.
    figures["noisy"][0] = np.nan
    comparison = compare(make_results({"x": figures}), reference="reference")
    display = DifferenceDisplay.from_comparison(comparison, Figure().subplots())
    assert np.isnan(display.intervals[1]).all()
    differences = np.subtract(figures["noisy"], figures["reference"])[1:]
    np.testing.assert_allclose(display.intervals[3], interval(differences))
    display.figure_.draw_without_rendering()


def test_single_folds_have_no_interval():
    comparison = compare(make_results({"x": {"a": [0.5], "b": [0.75]}}))
    display = DifferenceDisplay.from_comparison(comparison, Figure().subplots())
    assert display.differences.tolist() == [-0.25]
    assert np.isnan(display.intervals).all()
    two = {"x": {"a": [0.5], "b": [0.75]}, "y": {"a": [0.5], "c": [0.25]}}
    comparison = compare(make_results(two), reference="a")
    display = DifferenceDisplay.from_comparison(comparison, Figure().subplots())
    assert (display.names, display.differences.tolist()) == (["b", "c"], [0.25, -0.25])
    assert np.isnan(display.intervals).all()


def test_wrong_differences():
    with pytest.raises(ValueError, match="nothing has folds in common with the reference 'a'"):
        DifferenceDisplay.from_comparison(compare(make_results({"x": {"a": [0.5, 0.6]}})))
    with pytest.raises(ValueError, match=r"intervals must have the shape \(1, 2\), got \(2,\)"):
        DifferenceDisplay(["a"], [1], [0, 1])
    with pytest.raises(ValueError, match=r"differences must have the shape \(1,\)"):
        DifferenceDisplay(["a"], [1, 2])
    with pytest.raises(ValueError, match="intervals must have their lower ends first"):
        DifferenceDisplay(["a"], [1], [[2, 0]])

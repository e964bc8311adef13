"""All displays alike: hostile names, colours of the page, new figures, and no matplotlib."""

from __future__ import annotations

import io
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from hera_fast import plotting
from hera_fast.plotting import (
    ConfidenceDisplay,
    ConvergenceDisplay,
    CoOccurrenceDisplay,
    CriticalDifferenceDisplay,
    CurveDisplay,
    DifferenceDisplay,
    MethodsDisplay,
    NoiseFactorsDisplay,
    method_styles,
)

PLAIN = ["HERA", "PL-KNN", "PL-SVM", "CLPL", "LSB-CMM", "PALOC"]
HOSTILE = ["$\\frac$", "<script>alert('&')</script>", "_\\$a$", "x" * 300, "a\nb\x00\t\ud800", ""]


def displays(names):
    """One display of each kind."""
    n = len(names)
    rng = np.random.default_rng(0)
    figures = rng.random((n, 4))
    text = names[0]
    return [
        CurveDisplay(
            np.arange(4),
            dict(zip(names, figures, strict=True)),
            dict(zip(names, figures / 10, strict=True)),
            x_label=text,
            y_label=text,
            title=text,
        ),
        ConvergenceDisplay({"change": [np.nan, 0.1, 0.01]}, title=text),
        CriticalDifferenceDisplay(names, np.linspace(1, n, n), 1.5, n_blocks=9),
        MethodsDisplay(
            names,
            figures[:, 0],
            figures[:, 1] / 10,
            published={names[1]: 0.5},
            title=text,
            x_label=text,
        ),
        ConfidenceDisplay([0, 0.5, 1], [3, 5], wrong=[1, 0], title=text),
        CoOccurrenceDisplay(rng.random((n, n)), names, title=text),
        NoiseFactorsDisplay([2.0, 1.0], rng.random((2, n)), names, title=text),
        DifferenceDisplay(
            names, figures[:, 0], figures[:, :1] + [[-0.1, 0.1]], title=text, x_label=text
        ),
    ]


def kind(display):
    return type(display).__name__


def svg(figure):
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True)
    return file.getvalue()


def test_there_is_a_display_of_each_kind():
    kinds = {name for name in plotting.__all__ if name.endswith("Display")}
    assert {kind(display) for display in displays(PLAIN)} == kinds
    assert plotting.__all__ == sorted(plotting.__all__)


@pytest.mark.parametrize("fonts", ["path", "none"])
@pytest.mark.parametrize("layout", ["constrained", None])
@pytest.mark.parametrize("display", displays(HOSTILE), ids=kind)
def test_hostile_names_are_drawn(display, layout, fonts):
    figure = Figure(figsize=(4.2, 2.8), layout=layout)
    with matplotlib.rc_context({"svg.fonttype": fonts}):
        assert display.plot(figure.subplots()) is display
        text = svg(figure)
    assert "<script" not in text
    ElementTree.fromstring(text)


@pytest.mark.parametrize("display", displays(PLAIN), ids=kind)
def test_texts_and_lines_have_the_colours_of_the_settings(display):
    """Whoever replaces one colour in the file can show it on any ground."""
    names = ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"]
    with matplotlib.rc_context(dict.fromkeys(names, "#010203")):
        figure = Figure()
        display.plot(figure.subplots())
        text = svg(figure).lower()
    assert "#010203" in text
    for color in ("#000000", "#ffffff", "black", "white", "gray", "#808080", "#cccccc"):
        assert color not in text


@pytest.mark.parametrize("display", displays(PLAIN), ids=kind)
def test_new_figures_and_given_axes(display):
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    try:
        assert display.plot() is display
        assert display.figure_ is display.ax_.figure
        assert pyplot.get_fignums() == [display.figure_.number]
        display.figure_.canvas.draw()
    finally:
        pyplot.close("all")
    ax = Figure().subplots()
    assert display.plot(ax=ax).ax_ is ax
    assert display.figure_ is ax.figure
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("display", displays(PLAIN), ids=kind)
def test_several_in_one_figure(display):
    figure = Figure(layout="constrained")
    inner, _ = figure.subfigures(1, 2)
    for ax in inner.subplots(2, 1):
        display.plot(ax)
    assert display.figure_ is inner
    svg(figure)


@pytest.mark.parametrize("display", displays(PLAIN), ids=kind)
def test_without_matplotlib(display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        ImportError, match=r"^a plot needs matplotlib: pip install 'hera-fast\[plot"
    ):
        display.plot()


def test_matplotlib_is_imported_when_something_is_drawn():
    code = "import sys, hera_fast.plotting; print('matplotlib' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True).stdout.split() == [b"False"]


def test_methods_look_the_same_in_all_figures():
    styles = method_styles(PLAIN)
    few = {name: [0.1, 0.2] for name in PLAIN[:3:2]}
    curves = CurveDisplay([1, 2], few, x_label="", y_label="")
    lines = curves.plot(Figure().subplots(), colors=styles).lines_
    ranks = CriticalDifferenceDisplay(PLAIN, range(6), 1).plot(Figure().subplots(), colors=styles)
    elbows = ranks.ax_.lines[: len(PLAIN)]
    for name in few:
        assert lines[name].get_color() == styles[name].color
        assert lines[name].get_marker() == styles[name].marker
        assert elbows[PLAIN.index(name)].get_color() == styles[name].color

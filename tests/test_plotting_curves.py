"""Curves and the course of a fit: what is drawn, on linear and logarithmic axes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier, HERAClassifierCV
from hera_fast.baselines import CLPLClassifier
from hera_fast.plotting import COLORS, ConvergenceDisplay, CurveDisplay, MethodStyle

X = np.array([[0.0], [1.0], [0.1], [1.1], [0.2], [1.2]])
Y = [{"a"}, {"b"}, {"a", "b"}, {"b"}, {"a"}, {"b", "a"}]


def curves(x=(1, 2, 3), means=None, sds=None, **options):
    means = {"a": [0.5, np.nan, 0.75]} if means is None else means
    return CurveDisplay(x, means, sds, **{"x_label": "r", "y_label": "accuracy"} | options)


def draw(display, **style):
    figure = Figure()
    display.plot(figure.subplots(), **style)
    figure.draw_without_rendering()
    return display


def band(display, place=0):
    """Lower and upper ends at each x of the band."""
    ends = {}
    for path in display.ax_.collections[place].get_paths():
        for x, y in path.vertices:
            ends.setdefault(x, []).append(y)
    return {x: (min(ys), max(ys)) for x, ys in ends.items()}


def test_lines():
    display = draw(curves(means={"a": [0.5, np.nan, 0.75], "b": [1, 2, 3]}, title="t"))
    np.testing.assert_array_equal(display.lines_["a"].get_ydata(), [0.5, np.nan, 0.75])
    np.testing.assert_array_equal(display.lines_["b"].get_xdata(), [1, 2, 3])
    assert [line.get_color() for line in display.lines_.values()] == list(COLORS[:2])
    ax = display.ax_
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("r", "accuracy", "t")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert not ax.collections
    assert all(tick == int(tick) for tick in ax.get_xticks())


def test_style():
    colors = {"a": "red", "c": MethodStyle("green", "x", ":")}
    means = {name: [1, 2, 3] for name in "abc"}
    display = draw(curves(means=means), colors=colors, legend=False, markers=False)
    lines = display.lines_
    assert [lines[name].get_color() for name in "abc"] == ["red", COLORS[1], "green"]
    assert lines["c"].get_linestyle() == ":"
    assert lines["a"].get_marker() == "None"
    assert display.ax_.get_legend() is None
    assert draw(display, colors=colors).lines_["c"].get_marker() == "x"


def test_bands():
    means = {"a": [1, 2, 3], "b": [1, 2, 3]}
    display = draw(curves(means=means, sds={"b": [0.5, 0.25, np.nan]}))
    assert len(display.ax_.collections) == 1
    assert band(display) == {1: (0.5, 1.5), 2: (1.75, 2.25)}
    assert to_hex(display.ax_.collections[0].get_facecolor()[0]) == COLORS[1].lower()


@pytest.mark.parametrize("values", [[1, 0.1, 0.01], [0, -1, np.nan], [np.inf, 0, 1]])
@pytest.mark.parametrize("x", [[1, 2, 3], [0, -1, np.nan], [0, 1, 10]])
def test_logarithmic_axes_leave_out_what_is_not_positive(x, values):
    sds = {"a": [0.2, 0.2, np.nan]}
    display = draw(curves(x, {"a": values}, sds, x_scale="log", y_scale="log"))
    line, values, x = display.lines_["a"], np.array(values), np.array(x)
    drawn = np.isfinite(values) & (values > 0)
    np.testing.assert_array_equal(line.get_ydata(), np.where(drawn, values, np.nan))
    np.testing.assert_array_equal(line.get_xdata(), np.where(x > 0, x, np.nan))
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"


def test_bands_on_logarithmic_axes_have_an_end():
    display = draw(curves(means={"a": [1, 0.1, 0.5]}, sds={"a": [2, 1, 0.25]}, y_scale="log"))
    assert band(display) == {1: (0.05, 3), 2: (0.05, 1.1), 3: (0.25, 0.75)}


def test_wrong_curves():
    with pytest.raises(ValueError, match=r"means\['a'\] must have the shape \(3,\), got \(2,\)"):
        curves(means={"a": [1, 2]})
    with pytest.raises(ValueError, match=r"sds\['a'\] must have the shape"):
        curves(sds={"a": [1, 2]})
    with pytest.raises(ValueError, match="sds has the method 'b', which means does not have"):
        curves(sds={"b": [1, 2, 3]})
    with pytest.raises(ValueError, match="at least 1 is needed"):
        curves(means={})
    with pytest.raises(ValueError, match="x must be numbers"):
        curves(x=["p", "q", "r"])
    with pytest.raises(ValueError, match="y_scale must be 'linear' or 'log', got 'logit'"):
        curves(y_scale="logit")


RESULTS = {
    "estimator": ["a", "a", "b", "a", "a", "b", "b", "a"],
    "fold": [0, 1, 0, 0, 1, 0, 1, 0],
    "r": [2, 2, 2, 1, 1, 1, 1, np.nan],
    "inductive": [0.5, 1.0, 0.25, 0.5, 0.5, np.nan, 0.75, 9.0],
}


@pytest.mark.parametrize("form", [dict, pd.DataFrame])
def test_results(form):
    display = CurveDisplay.from_results(
        form(RESULTS), "r", ax=Figure().subplots(), title="Lost", legend=False
    )
    assert display.x.tolist() == [1, 2]
    assert {name: mean.tolist() for name, mean in display.means.items()} == {
        "a": [0.5, 0.75],
        "b": [0.75, 0.25],
    }
    np.testing.assert_allclose(display.sds["a"], [0, np.std([0.5, 1], ddof=1)])
    assert np.isnan(display.sds["b"]).all()
    assert display.ax_.get_ylabel() == "held-out accuracy"
    assert (display.ax_.get_xlabel(), display.ax_.get_title()) == ("r", "Lost")
    assert display.ax_.get_legend() is None


def test_results_with_labels_of_their_own():
    display = CurveDisplay.from_results(
        RESULTS, "r", x_label="x", y_label="y", x_scale="log", ax=Figure().subplots()
    )
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x", "y")
    assert display.ax_.get_xscale() == "log"


def test_wrong_results():
    with pytest.raises(ValueError, match="the results have no column 'p', but only"):
        CurveDisplay.from_results(RESULTS, "p")
    with pytest.raises(ValueError, match="no column 'lift'"):
        CurveDisplay.from_results(RESULTS, "r", metric="lift")
    twice = pd.concat([pd.DataFrame(RESULTS)] * 2)
    with pytest.raises(ValueError, match="fold 0 of 'a' is there more than once for r = 2"):
        CurveDisplay.from_results(twice, "r")
    with pytest.raises(ValueError, match="no row has a value in the column 'r'"):
        CurveDisplay.from_results({**RESULTS, "r": [np.nan] * 8}, "r")


def models():
    single = HERAClassifier(calibration="gaussian", nu=0.1)
    return [
        single,
        make_pipeline(StandardScaler(), single),
        HERAClassifierCV({"shrinkage": [0.1]}, estimator=single, cv=2, random_state=0),
    ]


@pytest.mark.parametrize("model", models(), ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("figure", ["change", "primal_residual", "objective", "rank", "mass"])
def test_course_of_a_fit(model, figure):
    model.fit(X, Y)
    display = ConvergenceDisplay.from_estimator(model, figure=figure, ax=Figure().subplots())
    values = display.history[figure]
    assert len(values) > 3
    assert display.line_.get_xdata().tolist() == list(range(1, len(values) + 1))
    is_log = figure in ("change", "primal_residual")
    assert display.ax_.get_yscale() == ("log" if is_log else "linear")
    drawn = values > 0 if is_log else np.full(len(values), True)
    np.testing.assert_array_equal(display.line_.get_ydata(), np.where(drawn, values, np.nan))
    display.figure_.draw_without_rendering()


def test_history_is_that_of_the_model():
    model = HERAClassifier().fit(X, Y)
    display = ConvergenceDisplay.from_estimator(model, ax=Figure().subplots(), title="fit")
    np.testing.assert_array_equal(display.history["change"], model.history_["change"])
    assert display.ax_.get_title() == "fit"
    assert display.ax_.get_ylabel() == "relative change of the objective"


def test_other_classifiers_have_a_history_too():
    model = CLPLClassifier().fit(X, Y)
    display = ConvergenceDisplay.from_estimator(
        model, figure="gradient_norm", ax=Figure().subplots()
    )
    assert display.ax_.get_yscale() == "log"
    with pytest.raises(ValueError, match="the history has no 'change', but only"):
        ConvergenceDisplay.from_estimator(model)


def test_nothing_positive_has_a_linear_axis():
    display = ConvergenceDisplay({"dual_residual": [0.0, 0.0], "change": [np.nan]})
    assert display.plot(Figure().subplots(), figure="dual_residual").ax_.get_yscale() == "linear"
    assert display.line_.get_ydata().tolist() == [0, 0]
    display.plot(Figure().subplots()).figure_.draw_without_rendering()


def test_wrong_histories():
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(HERAClassifier())
    with pytest.raises(ValueError, match=r"history\['change'\] must have the shape \(n,\)"):
        ConvergenceDisplay({"change": [[1.0]]})

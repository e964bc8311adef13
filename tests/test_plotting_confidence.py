"""Histograms of confidences: the rows that are counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier
from hera_fast.baselines import CLPLClassifier, PLKNNClassifier
from hera_fast.plotting import ConfidenceDisplay


def make_data(n=60, labels=("owl", "cat", "dog")):
    """Candidates in a data frame, whose columns are not sorted."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, len(labels), n)
    X = rng.normal(size=(n, 2)) + 2 * np.eye(len(labels), 2)[truth]
    Y = rng.random((n, len(labels))) < 0.4
    Y[np.arange(n), truth] = True
    return X, pd.DataFrame(Y, columns=list(labels)), np.array(labels)[truth]


def test_bars():
    display = ConfidenceDisplay([0, 0.5, 1], [4, 6], title="t").plot(Figure().subplots())
    (bars,) = display.bars_
    assert [bar.get_height() for bar in bars] == [4, 6]
    assert [bar.get_x() for bar in bars] == [0, 0.5]
    assert display.ax_.get_legend() is None
    assert display.ax_.get_title() == "t"


def test_wrong_rows_stand_on_the_right_ones():
    display = ConfidenceDisplay([0, 0.5, 1], [4, 6], wrong=[3, 1]).plot(Figure().subplots())
    right, wrong = display.bars_
    assert [bar.get_height() for bar in right] == [1, 5]
    assert [(bar.get_y(), bar.get_height()) for bar in wrong] == [(1, 3), (5, 1)]
    assert right[0].get_facecolor() != wrong[0].get_facecolor()
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["right", "wrong"]


@pytest.mark.parametrize("model", [HERAClassifier(calibration="gaussian"), PLKNNClassifier()])
def test_rows_are_counted(model):
    X, Y, truth = make_data()
    pipeline = make_pipeline(StandardScaler(), model).fit(X, Y)
    ax = Figure().subplots()
    display = ConfidenceDisplay.from_estimator(pipeline, y_true=truth, bins=8, ax=ax)
    np.testing.assert_allclose(display.edges, np.linspace(0, 1, 9))
    picked = [model.classes_.tolist().index(label) for label in model.transduction_]
    confidence = model.confidence_[np.arange(len(X)), picked]
    places = np.minimum((confidence * 8).astype(int), 7)
    is_wrong = model.transduction_ != truth
    assert is_wrong.any()
    assert display.counts.tolist() == [np.sum(places == k) for k in range(8)]
    assert display.wrong.tolist() == [np.sum(is_wrong & (places == k)) for k in range(8)]
    display = ConfidenceDisplay.from_estimator(model, ax=Figure().subplots(), title="t")
    assert display.wrong is None
    assert len(display.counts) == 20


def test_confidences_beyond_one_are_counted():
    model = PLKNNClassifier().fit(*make_data()[:2])
    model.confidence_ = 3 * model.confidence_ - 1
    display = ConfidenceDisplay.from_estimator(model, ax=Figure().subplots())
    assert display.counts.sum() == len(model.confidence_)


def test_wrong_models():
    X, Y, truth = make_data()
    with pytest.raises(NotFittedError):
        ConfidenceDisplay.from_estimator(HERAClassifier())
    with pytest.raises(TypeError, match="CLPLClassifier has no confidence_"):
        ConfidenceDisplay.from_estimator(CLPLClassifier().fit(X, Y))
    model = PLKNNClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="found 3 true labels for 60 training rows"):
        ConfidenceDisplay.from_estimator(model, y_true=truth[:3])
    with pytest.raises(ValueError, match="'fish', which is none of the 3 classes"):
        ConfidenceDisplay.from_estimator(model, y_true=["fish"] * 60)


def test_wrong_bins():
    with pytest.raises(ValueError, match=r"counts must have the shape \(2,\), got \(3,\)"):
        ConfidenceDisplay([0, 0.5, 1], [1, 2, 3])
    with pytest.raises(ValueError, match=r"wrong must have the shape \(2,\)"):
        ConfidenceDisplay([0, 0.5, 1], [1, 2], wrong=[1])
    with pytest.raises(ValueError, match="wrong has more rows than counts"):
        ConfidenceDisplay([0, 0.5, 1], [1, 2], wrong=[2, 2])
    for edges in ([1], [0, 0], [0, np.nan]):
        with pytest.raises(ValueError, match="edges must be 2 or more increasing numbers"):
            ConfidenceDisplay(edges, [1])

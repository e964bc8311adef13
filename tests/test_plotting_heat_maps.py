"""Heat maps: co-occurrence against plain counting, factors against NumPy's SVD."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier
from hera_fast.baselines import PLKNNClassifier
from hera_fast.plotting import CoOccurrenceDisplay, NoiseFactorsDisplay


def draw(kind, *arguments):
    figure = Figure()
    display = kind(*arguments).plot(figure.subplots())
    figure.draw_without_rendering()
    return display


def tick_texts(ax):
    return [[label.get_text() for label in axis.get_ticklabels()] for axis in (ax.xaxis, ax.yaxis)]


def some_candidates(n=50, q=8):
    rng = np.random.default_rng(0)
    Y = rng.random((n, q)) < np.linspace(0.1, 0.6, q)
    Y[:, -1] |= ~Y.any(axis=1)
    Y[:, 3] = False
    return Y


def naive_shares(rows, labels):
    return [
        [np.mean([other in row for row in rows if label in row]) for other in labels]
        for label in labels
    ]


def test_cells_are_where_their_names_are():
    display = draw(CoOccurrenceDisplay, [[1.0, 0.5], [0.25, np.nan]], ["cat", 7])
    cells = display.mesh_.get_array().filled(9)
    assert cells.tolist() == [[1, 0.5], [0.25, 9]]
    assert tick_texts(display.ax_) == [["cat", "7"]] * 2
    low, high = display.ax_.get_ylim()
    assert low > high  # the first row is at the top
    assert display.mesh_.get_clim() == (0, 0.5)  # the diagonal says nothing
    assert len(display.figure_.axes) == 2


def test_labels_that_are_never_together_have_a_scale():
    for matrix in ([[1.0]], np.eye(3)):
        display = draw(CoOccurrenceDisplay, matrix, ["a", "b", "c"][: len(matrix)])
        assert display.mesh_.get_clim() == (0, 1)


def forms():
    Y = some_candidates()
    names = [f"label {j}" for j in range(8)]
    rows = [{names[j] for j in np.flatnonzero(row)} for row in Y]
    return {
        "dense": (Y, names),
        "numbers": (Y.astype(float), names),
        "sparse": (sparse.csr_array(Y), names),
        "frame": (pd.DataFrame(Y, columns=names), None),
        "sets": (rows, None),
    }


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("form", forms())
def test_shares(form, most):
    candidates, labels = forms()[form]
    rows = forms()["sets"][0]
    display = CoOccurrenceDisplay.from_candidates(
        candidates, labels=labels, most=most, ax=Figure().subplots(), title="t"
    )
    counts = {label: sum(label in row for row in rows) for label in forms()["dense"][1]}
    frequent = sorted((label for label in counts if counts[label]), key=lambda name: -counts[name])
    assert display.labels == frequent[:most]
    np.testing.assert_allclose(display.matrix, naive_shares(rows, display.labels))
    assert display.ax_.get_title() == "t"


def test_many_sparse_candidates_stay_sparse():
    n, q = 50_000, 400
    rng = np.random.default_rng(0)
    columns = rng.integers(0, q, (n, 2))
    columns[:, 1] = (columns[:, 0] + 1 + columns[:, 1] % (q - 1)) % q
    Y = sparse.csr_array(
        (np.ones(2 * n, bool), (np.repeat(np.arange(n), 2), columns.ravel())), shape=(n, q)
    )
    tracemalloc.start()
    display = CoOccurrenceDisplay.from_candidates(Y, most=100, ax=Figure().subplots())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * q
    np.testing.assert_array_equal(np.diag(display.matrix), 1)


def test_wrong_candidates():
    Y = some_candidates()
    with pytest.raises(ValueError, match="labels must be 8 names, got 2"):
        CoOccurrenceDisplay.from_candidates(Y, labels=["a", "b"])
    with pytest.raises(ValueError, match="most must be at least 1, got 0"):
        CoOccurrenceDisplay.from_candidates(Y, most=0)
    with pytest.raises(ValueError, match=r"matrix must have the shape \(2, 2\), got \(2, 3\)"):
        CoOccurrenceDisplay(np.ones((2, 3)), ["a", "b"])


class Noisy(HERAClassifier):
    """A classifier with a given noise."""

    def fit(self, noise, classes):
        self.noise_, self.classes_, self.coef_ = noise, np.asarray(classes), None
        return self


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [3, 200, 40_000])
def test_factors(n, dtype):
    rng = np.random.default_rng(n)
    noise = (rng.random((n, 6)) @ np.diag([1, 2, 4, 8, 16, 32])).astype(dtype)
    model = make_pipeline(StandardScaler(), Noisy().fit(noise, list("abcdef")))
    display = NoiseFactorsDisplay.from_estimator(model, n_factors=3, ax=Figure().subplots())
    _, values, vectors = np.linalg.svd(noise.astype(float), full_matrices=False)
    np.testing.assert_allclose(display.singular_values, values[:3], rtol=1e-6)
    for mine, theirs in zip(display.loadings, vectors, strict=False):
        assert mine[np.abs(mine).argmax()] > 0
        np.testing.assert_allclose(mine, theirs * np.sign(mine @ theirs), atol=1e-6)
    assert display.labels == list("abcdef")
    cells = display.mesh_.get_array()
    np.testing.assert_array_equal(cells, display.loadings)
    low, high = display.mesh_.get_clim()
    assert -low == high == np.abs(display.loadings).max()
    columns, rows = tick_texts(display.ax_)
    assert columns == list("abcdef")
    assert rows == [f"{i + 1} ({value:.3g})" for i, value in enumerate(values[:3])]


def test_labels_with_the_largest_loadings_are_kept():
    noise = np.zeros((5, 4))
    noise[:3, 3], noise[3:, 1] = 2, 1
    model = Noisy().fit(noise, [10, 20, 30, 40])
    display = NoiseFactorsDisplay.from_estimator(model, most=2, ax=Figure().subplots(), title="t")
    assert display.labels == [20, 40]
    np.testing.assert_allclose(display.loadings, [[0, 1], [1, 0]], atol=1e-12)
    np.testing.assert_allclose(display.singular_values, [2 * np.sqrt(3), np.sqrt(2)])
    assert display.title == "t"


def test_factors_of_a_fit():
    rng = np.random.default_rng(0)
    Y = some_candidates()
    model = HERAClassifier(calibration="gaussian", nu=0.1).fit(rng.normal(size=(50, 3)), Y)
    display = NoiseFactorsDisplay.from_estimator(model, ax=Figure().subplots())
    values = np.linalg.svd(model.noise_, compute_uv=False)
    np.testing.assert_allclose(display.singular_values, values[:5])


def test_scale_of_zeros():
    assert draw(NoiseFactorsDisplay, [0.0], [[0.0, 0.0]], ["a", "b"]).mesh_.get_clim() == (-1, 1)


def test_wrong_factors():
    with pytest.raises(NotFittedError):
        NoiseFactorsDisplay.from_estimator(HERAClassifier())
    with pytest.raises(ValueError, match="the noise of this model is zero"):
        NoiseFactorsDisplay.from_estimator(Noisy().fit(np.zeros((3, 2)), ["a", "b"]))
    with pytest.raises(TypeError, match="PLKNNClassifier has no noise_"):
        NoiseFactorsDisplay.from_estimator(
            PLKNNClassifier(n_neighbors=1).fit([[0.0], [1.0]], [{"a"}, {"b"}])
        )
    for name in ("n_factors", "most"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            NoiseFactorsDisplay.from_estimator(HERAClassifier(), **{name: 0})
    with pytest.raises(ValueError, match=r"loadings must have the shape \(1, 2\), got \(2, 2\)"):
        NoiseFactorsDisplay([1], np.eye(2), ["a", "b"])
    with pytest.raises(ValueError, match="loadings must not be empty"):
        NoiseFactorsDisplay([], np.empty((0, 2)), ["a", "b"])

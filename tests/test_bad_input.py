"""Bad and odd input: a clear error that says where, or a correct and finite result.

The list is the parameters of the two tests `test_bad_input_is_refused` and
`test_odd_input_is_understood`. Everything in the first one ends with an error whose message says
what is wrong, and in which row and column if it is an entry. Everything in the second one works:
predictions are finite, and right wherever the input says what is right.
"""

from __future__ import annotations

import numpy as np
import pytest
from problems import clusters, hybrid
from scipy import sparse
from sklearn.base import clone

from hera_fast import HERAClassifier, hera

# The runs are short, and small problems of the paper's formulation may collapse.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

n, d, q = 60, 4, 3
X, Y, y = clusters(n, d, q, noise=0.3, spread=0.5)

SETTINGS = {
    "default": HERAClassifier(random_state=0),
    "mixture, low rank": HERAClassifier(nu=0.1, n_components=30, random_state=0),
    "gaussian": hybrid(),
    "linear": hybrid(prediction="linear"),
    "neighbors": hybrid(prediction="neighbors"),
    "least squares": hybrid(calibration=None),
    "no intercept": hybrid(calibration=None, fit_intercept=False, beta=0.0),
    "low rank": hybrid(nu=0.1),
    "rbf": hybrid(kernel="rbf", n_components=30, random_state=0),
    "paper": HERAClassifier.paper(max_iter=60),
}
each_setting = pytest.mark.parametrize("model", SETTINGS.values(), ids=SETTINGS)
each_kind = pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])


def changed(array, *changes):
    """A copy with other entries: (row, column, value)."""
    array = array.copy()
    for row, column, value in changes:
        array[row, column] = value
    return array


def with_weight(value):
    weights = np.ones(n)
    weights[7] = value
    return weights


SETS = [set(np.flatnonzero(row).tolist()) for row in Y]
INTS = Y.astype(int)

# name: X, Y, sample_weight, and what the error says
REFUSED = {
    "NaN": (changed(X, (5, 2, np.nan)), Y, None, r"NaN.*row 5, column 2"),
    "inf": (changed(X, (5, 2, np.inf)), Y, None, r"infinity.*row 5, column 2; there are 1"),
    "-inf": (changed(X, (9, 1, -np.inf), (30, 0, -np.inf)), Y, None, r"row 9, column 1; .* 2"),
    "NaN, CSR": (sparse.csr_array(changed(X, (5, 2, np.nan))), Y, None, r"NaN.*row 5, column 2"),
    "inf, CSR": (sparse.csr_matrix(changed(X, (5, 2, np.inf))), Y, None, r"inf.*row 5, column 2"),
    "NaN, float32": (changed(X, (5, 2, np.nan)).astype(np.float32), Y, None, r"row 5, column 2"),
    "huge": (changed(X, (5, 2, -1e200)), Y, None, r"-1e\+200 in row 5, column 2.*Scale"),
    "huge, CSR": (sparse.csr_array(changed(X, (5, 2, 1e300))), Y, None, r"row 5, column 2.*Scale"),
    "huge, float32": (
        *(changed(X, (5, 2, 1e30)).astype(np.float32), Y, None),
        r"1e\+30 in row 5, column 2\. In float32 .*Scale",
    ),
    "largest": (np.full_like(X, np.finfo(float).max), Y, None, "row 0, column 0.*Scale"),
    "tiny": (X * 1e-200, Y, None, r"largest absolute value of X is .*e-200.*at least 1e-140"),
    "tiny, CSR": (sparse.csr_matrix(X * 1e-200), Y, None, "at least 1e-140"),
    "tiny, float32": ((X * 1e-30).astype(np.float32), Y, None, "at least 1e-14"),
    "complex": (X + 1j, Y, None, "Complex data not supported"),
    "text": (np.full(X.shape, "a"), Y, None, "could not convert string to float"),
    "objects": (np.full(X.shape, {}, object), Y, None, "float"),
    "one dimension": (X[:, 0], Y, None, "Expected 2D array, got 1D array"),
    "three dimensions": (X[:, :, np.newaxis], Y, None, "dim 3"),
    "no rows": (X[:0], Y[:0], None, r"0 sample\(s\)"),
    "no features": (X[:, :0], Y, None, r"0 feature\(s\)"),
    "no candidates": (X, None, None, "requires y to be passed"),
    "empty set": (X, [*SETS[:8], set(), *SETS[9:]], None, "1 of 60 rows have no candidates: row 8"),
    "empty row": (X, Y & (np.arange(n) != 8)[:, None], None, "have no candidates: row 8"),
    "no label anywhere": (X, np.zeros_like(Y), None, "60 of 60 rows have no candidates: row 0, 1"),
    "no columns": (X, Y[:, :0], None, "no columns"),
    "entry 2": (X, changed(INTS, (4, 1, 2)), None, "got 2 in row 4, column 1"),
    "entry 2, sparse": (X, sparse.csr_array(changed(INTS, (4, 1, 2))), None, "row 4, column 1"),
    "entry -1": (X, changed(INTS, (4, 1, -1)), None, "got -1 in row 4, column 1"),
    "entry 0.5": (X, changed(Y.astype(float), (4, 1, 0.5)), None, r"got 0\.5 in row 4, column 1"),
    "entry NaN": (X, changed(Y.astype(float), (4, 1, np.nan)), None, "NaN.*row 4, column 1"),
    "label NaN": (X, [*SETS[:8], {np.nan}, *SETS[9:]], None, "NaN: row 8"),
    "mixed labels": (X, [*SETS[:8], {"a"}, *SETS[9:]], None, "labels of different types"),
    "too few rows of Y": (X, Y[1:], None, "59 rows of candidates for 60 rows of X"),
    "too many sets": (X, [*SETS, {0}], None, "61 rows of candidates for 60 rows of X"),
    "transposed Y": (X, Y.T, None, "looks transposed: pass Y.T"),
    "continuous labels": (X, X[:, 0], None, "Unknown label type: continuous"),
    "negative weight": (X, Y, with_weight(-1.0), "[Nn]egative"),
    "NaN weight": (X, Y, with_weight(np.nan), "NaN"),
    "infinite weight": (X, Y, with_weight(np.inf), "infinity"),
    "huge weight": (X, Y, with_weight(1e300), r"sample_weight is 1e\+300.*1e\+14"),
    "tiny weights": (X, Y, np.full(n, 1e-300), "sample_weight is 1e-300"),
    "no weight": (X, Y, np.zeros(n), "zero"),
    "too few weights": (X, Y, np.ones(n - 1), "shape"),
    "matrix of weights": (X, Y, np.ones((n, 2)), "1D"),
}


@pytest.mark.parametrize(
    ("rows", "candidates", "weights", "message"), REFUSED.values(), ids=REFUSED
)
@pytest.mark.parametrize("model", [HERAClassifier(), HERAClassifier.paper(kernel="rbf")])
def test_bad_input_is_refused(model, rows, candidates, weights, message):
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        clone(model).fit(rows, candidates, sample_weight=weights)
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        hera(rows, candidates, sample_weight=weights)


BAD_QUERIES = {
    "NaN": (changed(X, (5, 2, np.nan)), r"NaN.*row 5, column 2"),
    "inf": (changed(X, (5, 2, np.inf)), r"infinity.*row 5, column 2"),
    "-inf, CSR": (sparse.csr_array(changed(X, (5, 2, -np.inf))), r"infinity.*row 5, column 2"),
    "huge": (changed(X, (5, 2, 1e200)), r"row 5, column 2.*Scale"),
    "complex": (X + 1j, "Complex data not supported"),
    "one dimension": (X[0], "Expected 2D array, got 1D array"),
    "no rows": (X[:0], r"0 sample\(s\)"),
    "too many features": (np.hstack([X, X]), "8 features, but HERAClassifier is expecting 4"),
    "too few features": (X[:, :3], "3 features, but HERAClassifier is expecting 4"),
}


@pytest.mark.parametrize(("rows", "message"), BAD_QUERIES.values(), ids=BAD_QUERIES)
def test_bad_queries_are_refused(rows, message):
    model = HERAClassifier().fit(X, Y)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match=f"(?s){message}"):
            method(rows)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        model.score(rows, Y[: rows.shape[0]])


def test_queries_beyond_single_precision_are_refused():
    model = HERAClassifier().fit(X.astype(np.float32), Y)
    with pytest.raises(ValueError, match=r"row 5, column 2"):
        model.predict(changed(X, (5, 2, 1e20)))
    # 1e200 is infinite in float32, and NumPy warns of that.
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"row 5, column 2"):
        model.predict(changed(X, (5, 2, 1e200)))


def test_features_are_named_if_they_have_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["red", "green", "blue", "grey"])
    model = HERAClassifier().fit(frame, Y)
    for value, message in ((np.nan, "NaN"), (1e200, "1e\\+200")):
        bad = frame.copy()
        bad.loc[5, "blue"] = value
        where = rf"(?s){message}.*row 5, column 2 \('blue'\)"
        with pytest.raises(ValueError, match=where):
            HERAClassifier().fit(bad, Y)
        with pytest.raises(ValueError, match=where):
            model.predict(bad)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array):
    return np.repeat(np.repeat(array, 2, axis=0), 2, axis=1)[::2, ::2]


# What changes nothing: the same predictions as from X and Y.
SAME = {
    "Fortran order": (np.asfortranarray(X), np.asfortranarray(Y)),
    "not contiguous": (strided(X), strided(Y)),
    "reversed": (X[::-1].copy()[::-1], Y[::-1].copy()[::-1]),
    "read-only": (read_only(X), read_only(Y)),
    "objects": (X.astype(object), Y.astype(object)),
    "lists": (X.tolist(), [sorted(labels) for labels in SETS]),
    "big-endian": (X.astype(">f8"), INTS.astype(">i4")),
    "matrix": (sparse.csc_matrix(X).toarray(), sparse.lil_matrix(INTS)),
}


@each_setting
@pytest.mark.parametrize(("rows", "candidates"), SAME.values(), ids=SAME)
def test_how_numbers_are_stored_makes_no_difference(model, rows, candidates):
    expected = clone(model).fit(X, Y)
    found = clone(model).fit(rows, candidates)
    np.testing.assert_array_equal(found.confidence_, expected.confidence_)
    np.testing.assert_array_equal(found.predict_proba(rows), expected.predict_proba(X))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.bool_, np.float16])
def test_other_numbers_become_float64(dtype):
    rows = np.clip(np.round(10 * np.abs(X)), 0, 100).astype(dtype)
    found = HERAClassifier().fit(rows, Y)
    expected = HERAClassifier().fit(rows.astype(np.float64), Y)
    assert found.coef_.dtype == np.float64
    np.testing.assert_array_equal(found.predict_proba(rows), expected.predict_proba(rows))


ONE_ROW = X[:1]

# name: X, Y, and the right predictions for X where there are some
ODD = {
    "plain": (X, Y, y),
    "one label": (X, np.zeros(n, int), np.zeros(n)),
    "two labels": (X, (y > 0).astype(int), y > 0),
    "one candidate each": (X, y, y),
    "all labels are candidates": (X, np.ones_like(Y), None),
    "all but one row know nothing": (
        X,
        changed(np.ones_like(Y), (0, 1, False), (0, 2, False)),
        None,
    ),
    "labels never candidates": (X, np.hstack([Y, np.zeros((n, 2), bool)]), y),
    "constant feature": (np.hstack([X, np.full((n, 1), 0.1)]), Y, y),
    "large constant feature": (np.hstack([X, np.full((n, 1), 12345.678)]), Y, y),
    "zero feature": (np.hstack([X, np.zeros((n, 1))]), Y, y),
    "the same feature twice": (np.hstack([X, X[:, :1]]), Y, y),
    "tiny feature": (np.hstack([X, 1e-161 * X[:, :1]]), Y, y),
    "subnormal feature": (np.hstack([X, 5e-324 * np.sign(X[:, :1])]), Y, y),
    "constant rows": (np.ones_like(X), y % 2, None),
    "zero rows": (np.zeros_like(X), y % 2, None),
    "duplicate rows": (
        np.repeat(X[:20], 3, axis=0),
        np.repeat(Y[:20], 3, axis=0),
        np.repeat(y[:20], 3),
    ),
    "duplicate rows, other candidates": (np.repeat(X[:30], 2, axis=0), Y, None),
    "fewer rows than neighbours": (X[:6], Y[:6], None),
    "one row": (ONE_ROW, Y[:1], None),
    "one row, one label": (ONE_ROW, np.array(["a"]), np.array(["a"])),
    "two rows": (X[:2], np.array(["a", "b"]), np.array(["a", "b"])),
    "one feature": (2.0 * y[:, None] + 0.1 * X[:, :1], Y, y),
    "more features than rows": (np.hstack([X] * 30)[:40], Y[:40], y[:40]),
    "large": (X * 1e100, Y, y),
    "small": (X * 1e-100, Y, y),
    "far away": (X + 1e6, Y, y),
    "large, float32": ((X * 1e10).astype(np.float32), Y, y),
    "small, float32": ((X * 1e-10).astype(np.float32), Y, y),
    "tiny feature, float32": (np.hstack([X, 1e-40 * X[:, :1]]).astype(np.float32), Y, y),
    "one outlier": (changed(X, (0, 0, 1e9)), Y, None),
}


@each_setting
@each_kind
@pytest.mark.parametrize(("rows", "candidates", "truth"), ODD.values(), ids=ODD)
def test_odd_input_is_understood(model, kind, rows, candidates, truth):
    model = clone(model).fit(kind(rows), candidates)
    probabilities = model.predict_proba(kind(rows))
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.isfinite(model.decision_function(kind(rows))).all()
    for name in ("coef_", "confidence_", "noise_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert not np.isnan(model.intercept_).any()
    # The paper's settings promise no accuracy after so few iterations.
    if truth is not None and model.fit_intercept:
        assert model.score(kind(rows), truth) >= 0.9


@each_setting
@each_kind
@pytest.mark.parametrize("name", ["constant rows", "zero rows"])
def test_equal_rows_get_the_most_frequent_label(model, kind, name):
    rows = kind(ODD[name][0])
    labels = np.where(np.arange(n) % 4 == 0, "rare", "usual")
    model = clone(model).set_params(n_neighbors=n).fit(rows, labels)
    assert (model.predict(rows) == "usual").all()


@each_kind
@pytest.mark.parametrize("value", [0.1, 12345.678, 1e-30, -7e13])
def test_a_constant_feature_changes_no_prediction(kind, value):
    constant = kind(np.hstack([X, np.full((n, 1), value)]))
    for calibration in ("gaussian", None):
        model = hybrid(calibration=calibration, prediction="linear")
        expected = clone(model).fit(kind(X), Y).predict_proba(kind(X))
        model.fit(constant, Y)
        np.testing.assert_allclose(model.predict_proba(constant), expected, rtol=0, atol=1e-7)
        # Nothing was learned about other values.
        other = kind(np.hstack([X, np.full((n, 1), value * (1 + 1e-6))]))
        np.testing.assert_allclose(model.predict_proba(other), expected, rtol=0, atol=1e-7)


@each_kind
@pytest.mark.parametrize("value", [0.1, 12345.678, 1e-30, -7e13])
def test_a_constant_feature_changes_no_prediction_of_a_mixture(kind, value):
    if kind is not np.asarray and abs(value) > 1e6:
        pytest.skip("distances of sparse rows come from products, which drown in such numbers")
    constant = kind(np.hstack([X, np.full((n, 1), value)]))
    model = HERAClassifier(random_state=0)
    expected = clone(model).fit(kind(X), Y).predict_proba(kind(X))
    found = model.fit(constant, Y).predict_proba(constant)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_the_scale_of_all_features_together_does_not_matter_to_a_mixture():
    model = HERAClassifier(random_state=0)
    expected = clone(model).fit(X, Y).predict_proba(X)
    for scale in (1e-130, 1e-9, 1e9, 1e130):
        found = clone(model).fit(X * scale, Y).predict_proba(X * scale)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_the_scale_of_features_does_not_matter_to_the_gaussian_model():
    model = hybrid(prediction="linear")
    expected = clone(model).fit(X, Y).predict_proba(X)
    for scale in (1e-130, 1e-9, 1e9, 1e130):
        found = clone(model).fit(X * scale, Y).predict_proba(X * scale)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_queries_far_from_all_training_rows():
    for model in SETTINGS.values():
        for dtype, far in ((np.float64, 1e140), (np.float32, 1e14)):
            fitted = clone(model).fit(X.astype(dtype), Y)
            probabilities = fitted.predict_proba(np.array([[far] * d, [-far] * d], dtype))
            assert np.isfinite(probabilities).all()
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


def test_weights_of_any_size_are_fine():
    for scale in (1e-10, 1.0, 1e10):
        weights = scale * np.arange(n)
        model = HERAClassifier().fit(X, Y, sample_weight=weights)
        assert model.score(X, y) > 0.9


def test_input_is_not_changed():
    rows, candidates, weights = X.copy(), Y.copy(), np.arange(1.0, n + 1)
    for model in SETTINGS.values():
        fitted = clone(model).fit(rows, candidates, sample_weight=weights)
        fitted.predict_proba(rows, candidates=candidates)
        fitted.score(rows, candidates)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(candidates, Y)
    np.testing.assert_array_equal(weights, np.arange(1.0, n + 1))

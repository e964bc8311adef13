"""HERAClassifier: what fit leaves behind, predictions, scores, sparse rows, options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
from itertools import pairwise, product
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import clusters, hybrid, problems
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from hera_fast import HERAClassifier, classifier, hera, load_digits_partial, mixture
from hera_fast.run import FIGURES, State

SETTINGS = {
    "default": HERAClassifier(random_state=0),
    "mixture, low rank": HERAClassifier(nu=0.1, prediction="hybrid", random_state=0),
    "mixture, landmarks": HERAClassifier(n_components=3, random_state=0),
    "gaussian": hybrid(),
    "linear": hybrid(prediction="linear"),
    "neighbors": hybrid(prediction="neighbors"),
    "least squares": hybrid(calibration=None),
    "low rank": hybrid(nu=0.1, mu=0.2),
    "rbf": hybrid(kernel="rbf", n_components=20, random_state=0),
    "paper": HERAClassifier.paper(max_iter=60),
}
each_setting = pytest.mark.parametrize("model", SETTINGS.values(), ids=SETTINGS)

n, d, q = 90, 5, 4
X, Y, y = clusters(n, d, q, noise=0.4)
queries = clusters(50, d, q, seed=1)[0]
weights = np.random.default_rng(2).integers(0, 4, n).astype(float)

# The runs of these tests are short. Warnings that matter are asked for with pytest.warns.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---- fit ---------------------------------------------------------------------------------------


def as_lists(Y):
    return [np.flatnonzero(row).tolist() for row in Y]


def as_object_array(Y):
    rows = np.empty(len(Y), object)
    rows[:] = [set(row) for row in as_lists(Y)]
    return rows


FORMS = {
    "int": lambda Y: Y.astype(int),
    "float": lambda Y: Y.astype(float),
    "uint8": lambda Y: Y.astype(np.uint8),
    "csr_matrix": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "coo_array": lambda Y: sparse.coo_array(Y.astype(int)),
    "lists": as_lists,
    "tuples": lambda Y: tuple(map(tuple, as_lists(Y))),
    "sets": lambda Y: list(map(set, as_lists(Y))),
    "frozensets": lambda Y: list(map(frozenset, as_lists(Y))),
    "arrays": lambda Y: list(map(np.array, as_lists(Y))),
    "object array": as_object_array,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_all_forms_of_candidates_give_the_same_fit(form):
    expected = hybrid(nu=0.1).fit(X, Y)
    found = hybrid(nu=0.1).fit(X, form(Y))
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    for name in ("coef_", "intercept_", "confidence_", "noise_", "transduction_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.predict_proba(queries), expected.predict_proba(queries))


@pytest.mark.parametrize("labels", [np.array(["d", "a", "c", "b"]), np.array([3, -1, 7, 100])])
def test_a_vector_of_labels_is_supervised_learning(labels):
    single = labels[y]
    model = HERAClassifier().fit(X, single)
    np.testing.assert_array_equal(model.classes_, np.sort(labels))
    np.testing.assert_array_equal(model.confidence_, single[:, np.newaxis] == model.classes_)
    np.testing.assert_array_equal(model.transduction_, single)
    assert model.score(X, single) > 0.8


@each_setting
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_attributes(model, dtype):
    model = clone(model).fit(X.astype(dtype), Y)
    width = 20 if model.kernel == "rbf" else d
    shapes = {
        "coef_": (q, width),
        "intercept_": (q,),
        "confidence_": (n, q),
        "noise_": (n, q),
    }
    for name, shape in shapes.items():
        array = getattr(model, name)
        assert type(array) is np.ndarray
        assert (array.shape, array.dtype) == (shape, dtype), name
        assert np.isfinite(array).all(), name
    np.testing.assert_array_equal(model.classes_, range(q))
    assert model.transduction_.shape == (n,)
    assert model.n_features_in_ == d
    assert not hasattr(model, "feature_names_in_")
    assert isinstance(model.n_iter_, int)
    assert model.history_.keys() == FIGURES.keys()
    for name, figures in model.history_.items():
        assert (figures.shape, figures.dtype) == ((model.n_iter_,), FIGURES[name])
    assert 1 <= model.n_iter_ <= model.max_iter
    for method in (model.predict_proba, model.decision_function):
        assert method(queries.astype(dtype)).dtype == dtype
        # Queries of the other kind are converted.
        assert method(queries).dtype == dtype


@each_setting
def test_single_precision_predicts_nearly_the_same(model):
    double = clone(model).fit(X, Y)
    single = clone(model).fit(X.astype(np.float32), Y)
    np.testing.assert_allclose(
        single.predict_proba(queries), double.predict_proba(queries), rtol=0, atol=2e-3
    )


def test_single_precision_keeps_features_far_from_zero():
    # In float32, neighbours of 2^16 are 2^-7 apart, so these features have few digits left. Their
    # mean has more, and must not be rounded.
    far = (X + 2.0**16).astype(np.float32)
    model = hybrid(prediction="linear").fit(far, Y)
    centred = far.astype(np.float64) - 2.0**16
    exact = hybrid(prediction="linear").fit(centred, Y)
    np.testing.assert_allclose(
        model.predict_proba(far), exact.predict_proba(centred), rtol=0, atol=1e-4
    )


def test_coefficients_and_intercept_are_the_linear_model():
    model = hybrid(calibration=None, prediction="linear").fit(X, Y)
    expected = queries @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(queries), expected, rtol=0, atol=1e-12)


def test_coefficients_and_intercept_are_log_odds_of_the_gaussian_model():
    model = hybrid(prediction="linear").fit(X, Y)
    odds = queries @ model.coef_.T + model.intercept_
    odds = np.exp(odds - odds.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(queries), odds, rtol=0, atol=1e-12)


@pytest.mark.parametrize("calibration", ["mixture", "gaussian"])
def test_labels_that_are_nobodys_candidate_are_never_predicted(calibration):
    wider = np.insert(Y, 1, False, axis=1)
    model = HERAClassifier(calibration=calibration).fit(X, wider)
    assert model.intercept_[1] == -np.inf
    assert (model.predict_proba(queries)[:, 1] == 0).all()
    assert not (model.predict(queries) == 1).any()


MODELS = st.sampled_from(
    [
        HERAClassifier(max_iter=15, random_state=0),
        HERAClassifier(random_state=0),
        HERAClassifier(n_components=2, prediction="hybrid", nu=0.1, max_iter=15, random_state=0),
        hybrid(max_iter=15),
        hybrid(calibration=None, max_iter=15),
        hybrid(nu=0.1, mu=0.5, max_iter=15),
        hybrid(prediction="linear", ranking=False, max_iter=15),
        hybrid(prediction="neighbors", n_neighbors=2, max_iter=15),
        hybrid(kernel="rbf", n_components=3, max_iter=15, random_state=0),
        HERAClassifier.paper(max_iter=100),
    ]
)


@given(problem=problems(), model=MODELS, dtype=st.sampled_from([np.float32, np.float64]))
@settings(max_examples=200)
def test_every_fit_is_feasible_and_predicts_probabilities(problem, model, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rows = problem.X.astype(dtype)
        rows = sparse.csr_array(rows) if problem.is_sparse else rows
        counts = problem.weights if problem.weights is None or problem.weights.any() else None
        model = clone(model)
        # A single column would be taken for labels.
        candidates = problem.Y if problem.Y.shape[1] > 1 else np.zeros(len(problem.Y), int)
        model.fit(rows, candidates, sample_weight=counts)
    positions = model.transduction_
    assert problem.Y[np.arange(len(positions)), positions].all()
    P = model.confidence_
    assert np.isfinite(P).all()
    assert (P >= 0).all()
    if model.formulation == "simplex":
        assert (P[~problem.Y] == 0).all()
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(P.argmax(axis=1), positions)
    check_predictions(model, rows)


# ---- predictions -------------------------------------------------------------------------------


def check_predictions(model, rows):
    """Probabilities are some, and all methods agree on the best label."""
    probabilities = model.predict_proba(rows)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    best = model.predict(rows)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], best)
    scores = model.decision_function(rows)
    if len(model.classes_) == 2:
        assert scores.shape == (rows.shape[0],)
        np.testing.assert_array_equal(model.classes_[(scores > 0).astype(int)], best)
    else:
        assert scores.shape == probabilities.shape
        np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], best)


@each_setting
@pytest.mark.parametrize("n_labels", [1, 2, 4])
def test_all_predictions_agree(model, n_labels):
    rows, candidates, _ = clusters(60, d, n_labels, seed=3)
    # A single column would be taken for labels.
    candidates = candidates if n_labels > 1 else np.zeros(60, int)
    check_predictions(clone(model).fit(rows, candidates), queries)


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e-17, 1.0, 1e20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_agree_with_scores_that_they_cannot_tell_apart(scale, dtype, monkeypatch):
    model = hybrid(calibration=None).fit(X.astype(dtype), Y)
    scores = (np.array([[1, 2, 3, 2], [4, 3, 3, 1], [1, 1, 1, 1.5]]) * scale).astype(dtype)
    monkeypatch.setattr(model, "_scores", lambda X: scores.copy())
    check_predictions(model, X[:3])
    candidates = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1]], bool)
    found = model.predict_proba(X[:3], candidates=candidates).argmax(axis=1)
    np.testing.assert_array_equal(found, model.predict(X[:3], candidates=candidates))


def test_a_score_of_one_label_is_certain():
    model = HERAClassifier().fit(X, np.full(n, "only"))
    assert (model.predict(queries) == "only").all()
    np.testing.assert_array_equal(model.predict_proba(queries), 1)


@each_setting
@pytest.mark.parametrize("form", [FORMS["sets"], np.asarray, sparse.csr_matrix])
def test_rows_with_candidates_get_one_of_them(model, form):
    model = clone(model).fit(X, Y)
    candidates = clusters(50, d, q, seed=4)[1]
    candidates[::5] = False
    free = ~candidates.any(axis=1)
    found = model.predict(queries, candidates=form(candidates))
    restricted = candidates[np.arange(50), found] | free
    assert restricted.all()
    np.testing.assert_array_equal(found[free], model.predict(queries)[free])
    probabilities = model.predict_proba(queries, candidates=form(candidates))
    assert (probabilities[~free][~candidates[~free]] == 0).all()
    np.testing.assert_array_equal(probabilities[free], model.predict_proba(queries)[free])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), found)


def test_candidates_divide_the_probability_in_proportion():
    model = HERAClassifier().fit(X, Y)
    unrestricted = model.predict_proba(queries)
    found = model.predict_proba(queries, candidates=[{0, 2}] * 50)
    expected = unrestricted[:, [0, 2]] / unrestricted[:, [0, 2]].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[:, [0, 2]], expected, rtol=1e-9, atol=1e-12)


def test_unknown_candidates_are_named():
    model = HERAClassifier().fit(X, np.array(["a", "b", "c", "d"])[y])
    candidates = [{"a"}] * 49 + [{"a", "zebra"}]
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="row 49 has the label 'zebra'"):
            method(queries, candidates=candidates)
        with pytest.raises(ValueError, match="49 rows of candidates for 50 rows of X"):
            method(queries, candidates=candidates[:49])
        with pytest.raises(ValueError, match="found 3 columns of candidates, expected 4"):
            method(queries, candidates=np.ones((50, 3)))


def test_score_against_true_labels_is_the_accuracy():
    model = HERAClassifier().fit(X, Y)
    new, _, truth = clusters(50, d, q, seed=5)
    found = model.predict(new)
    assert model.score(new, truth) == accuracy_score(truth, found)
    scale = np.arange(50.0)
    assert model.score(new, truth, scale) == accuracy_score(truth, found, sample_weight=scale)
    # A label that was never seen is wrong, not an error.
    unseen = np.where(np.arange(50) < 10, 99, truth)
    assert model.score(new, unseen) == accuracy_score(unseen, found)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_score_against_candidates_is_the_covering_rate(form):
    model = HERAClassifier().fit(X, Y)
    new, candidates, _ = clusters(50, d, q, seed=6)
    covered = candidates[np.arange(50), model.predict(new)]
    assert model.score(new, form(candidates)) == covered.mean()
    scale = np.arange(50.0)
    assert model.score(new, form(candidates), scale) == np.average(covered, weights=scale)


def test_score_with_unusable_weights_is_an_error():
    model = HERAClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="zero"):
        model.score(X, Y, sample_weight=np.zeros(n))
    with pytest.raises(ValueError, match="shape"):
        model.score(X, Y, sample_weight=np.ones(n - 1))


@each_setting
def test_parameters_changed_after_fit_do_not_change_what_the_coefficients_mean(model):
    model = clone(model).fit(X, Y)
    expected = model.predict_proba(queries)
    other = {"paper": "simplex", "simplex": "paper"}[model.formulation]
    model.set_params(
        formulation=other,
        calibration=None if model.calibration else "gaussian",
        kernel=None if model.kernel == "rbf" else "rbf",
        fit_intercept=not model.fit_intercept,
    )
    np.testing.assert_array_equal(model.predict_proba(queries), expected)


def test_the_kind_of_prediction_may_change_after_fit():
    model = HERAClassifier(prediction="hybrid", random_state=0).fit(X, Y)
    for prediction in ("linear", "neighbors"):
        fresh = HERAClassifier(prediction=prediction, random_state=0).fit(X, Y)
        model.set_params(prediction=prediction)
        np.testing.assert_array_equal(model.predict_proba(queries), fresh.predict_proba(queries))
    fresh = HERAClassifier(prediction="linear").fit(X, Y)
    with pytest.raises(ValueError, match=r"prediction='hybrid' needs the training rows"):
        fresh.set_params(prediction="hybrid").predict(queries)


def test_the_weight_of_neighbours_runs_from_model_to_neighbours():
    parts = {}
    for prediction in ("linear", "neighbors"):
        model = hybrid(prediction=prediction).fit(X, Y)
        parts[prediction] = model.decision_function(queries)
    for weight in (0.0, 0.5, 3.0):
        model = hybrid(neighbor_weight=weight).fit(X, Y)
        expected = (parts["linear"] + weight * parts["neighbors"]) / (1 + weight)
        np.testing.assert_allclose(model.decision_function(queries), expected, atol=1e-14)


def test_the_paper_adds_linear_part_and_neighbours():
    parts = []
    for prediction in ("linear", "neighbors", "hybrid"):
        model = HERAClassifier.paper(max_iter=20, prediction=prediction).fit(X, Y)
        parts.append(model.decision_function(queries))
    np.testing.assert_allclose(parts[2], parts[0] + parts[1], atol=1e-14)


@each_setting
def test_integer_weights_count_as_repeated_rows(model):
    model = clone(model).set_params(n_neighbors=7)
    repeated = clone(model).fit(*(np.repeat(A, weights.astype(int), axis=0) for A in (X, Y)))
    weighted = clone(model).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(
        weighted.predict_proba(queries), repeated.predict_proba(queries), rtol=0, atol=1e-6
    )
    unweighted = clone(model).fit(X, Y)
    assert np.abs(weighted.predict_proba(queries) - unweighted.predict_proba(queries)).max() > 1e-4


# ---- sparse rows, blocks of rows ---------------------------------------------------------------


def thinned(rows, share=0.5):
    return np.where(np.random.default_rng(7).random(rows.shape) < share, rows, 0)


@each_setting
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
def test_sparse_rows_give_the_same_as_dense_ones(model, container):
    rows, new = thinned(X), thinned(queries)
    dense = clone(model).fit(rows, Y, sample_weight=weights)
    thin = clone(model).fit(container(rows), Y, sample_weight=weights)
    np.testing.assert_allclose(thin.confidence_, dense.confidence_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-6, atol=1e-6)
    expected = dense.predict_proba(new)
    # The kinds of training rows and queries may differ.
    for fitted, kind in product((dense, thin), (np.asarray, container)):
        np.testing.assert_allclose(fitted.predict_proba(kind(new)), expected, rtol=0, atol=1e-8)


@each_setting
def test_sparse_rows_need_not_be_sorted(model):
    rows = sparse.csr_array(thinned(X))
    backwards = np.concatenate([np.arange(*ends)[::-1] for ends in pairwise(rows.indptr)])
    parts = rows.data[backwards], rows.indices[backwards].astype(np.int64), rows.indptr
    shuffled = sparse.csr_array(parts, shape=rows.shape)
    before = shuffled.indices.copy()
    expected = clone(model).fit(rows, Y)
    found = clone(model).fit(shuffled, Y)
    np.testing.assert_allclose(
        found.predict_proba(shuffled), expected.predict_proba(rows), rtol=0, atol=1e-8
    )
    np.testing.assert_array_equal(shuffled.indices, before)


@each_setting
def test_sparse_rows_are_never_made_dense(model, monkeypatch):
    n_rows, width = 30_000, 400
    candidates, _ = clusters(n_rows, 2, 3)[1:]
    rows = sparse.random(n_rows, width, density=0.01, format="csr", random_state=0)
    model = clone(model).set_params(max_iter=3, n_components=20)

    def guarded(self, *arguments, **keywords):
        # Products such as X'X have other shapes.
        assert self.shape[1] != width or self.shape[0] == width, f"{self.shape} made dense"
        return toarray(self, *arguments, **keywords)

    toarray = sparse.csr_array.toarray
    monkeypatch.setattr(sparse.csr_array, "toarray", guarded)
    monkeypatch.setattr(sparse.csr_matrix, "toarray", guarded)
    tracemalloc.start()
    try:
        model.fit(rows, candidates)
        model.predict(rows[:300])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n_rows * width * 8 / 2


@each_setting
@pytest.mark.parametrize("is_sparse", [False, True])
def test_no_block_size_changes_a_prediction(model, is_sparse, monkeypatch):
    make = sparse.csr_array if is_sparse else np.asarray
    model = clone(model).fit(make(X), Y)
    rows = make(np.tile(queries, (3, 1)))
    candidates = np.tile(clusters(50, d, q, seed=4)[1], (3, 1))
    expected = model.predict_proba(rows, candidates=candidates)
    scores = model.decision_function(rows)
    for size in (1, 7, 64, 150):
        monkeypatch.setattr(classifier, "_BLOCK_ROWS", size)
        monkeypatch.setattr(classifier, "_BLOCK_NUMBERS", 1)
        found = model.predict_proba(rows, candidates=candidates)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.decision_function(rows), scores, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(model.predict(rows), scores.argmax(axis=1))


@pytest.mark.parametrize(
    "parameters",
    [
        {"calibration": "gaussian", "prediction": "hybrid"},
        {"calibration": "gaussian", "kernel": "rbf", "n_components": 100},
        {"n_components": 100},
    ],
    ids=["neighbors", "rbf", "mixture"],
)
def test_many_queries_need_no_matrix_of_queries_and_training_rows(parameters):
    rows, candidates, _ = clusters(500, 3, 4)
    model = HERAClassifier(random_state=0, **parameters).fit(rows, candidates)
    m = 200_000
    many = np.random.default_rng(0).standard_normal((m, 3))
    assert_little_memory(lambda: model.predict(many), m * 100 * 8 / 2)


def test_sparse_queries_of_a_dense_model_are_made_dense_in_blocks_only():
    rows, candidates, _ = clusters(100, 300, 3)
    model = HERAClassifier().fit(rows, candidates)
    m = 40_000
    thin = sparse.random(m, 300, density=0.01, format="csr", random_state=0)
    assert_little_memory(lambda: model.predict(thin), m * 300 * 8 / 2)


def assert_little_memory(work, limit):
    tracemalloc.start()
    try:
        work()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


# ---- options -----------------------------------------------------------------------------------


SWITCHES = [
    pytest.param(formulation, calibration, alpha, beta, mu, nu, ranking)
    for formulation, calibration, alpha, beta, mu, nu, ranking in product(
        *(["simplex", "paper"], ["mixture", "gaussian", None]),
        *([0, 1], [0, 0.1], [0, 0.3], [0, 0.1], [0, 1]),
    )
    if not (formulation == "simplex" and mu > alpha)
    if not (formulation == "paper" and calibration)
    if not (calibration == "mixture" and beta)  # which is not for it
]


@pytest.mark.parametrize(
    ("formulation", "calibration", "alpha", "beta", "mu", "nu", "ranking"), SWITCHES
)
def test_every_part_of_the_objective_can_be_left_out(
    formulation, calibration, alpha, beta, mu, nu, ranking
):
    model = HERAClassifier(
        *(alpha, beta, mu, nu),
        formulation=formulation,
        calibration=calibration,
        ranking=bool(ranking),
        prediction="hybrid",
        max_iter=25,
    ).fit(X, Y)
    P, E = model.confidence_, model.noise_
    assert (P >= 0).all()
    assert (E >= 0).all()
    assert np.isfinite(E).all()
    assert np.isfinite(model.history_["objective"]).all()
    if formulation == "simplex":
        assert (P[~Y] == 0).all()
        np.testing.assert_allclose(P.sum(axis=1), 1)
        if nu == 0:
            np.testing.assert_allclose(P + E, Y, atol=1e-15)
    else:
        assert np.isfinite(P).all()
    check_predictions(model, queries)


def test_mu_must_be_less_than_alpha():
    for mu in (1.0, 2.0):
        with pytest.raises(ValueError, match=rf"mu={mu} and alpha=1.0.*smaller mu or a larger alp"):
            HERAClassifier(alpha=1.0, mu=mu).fit(X, Y)
    HERAClassifier.paper(mu=2.0, max_iter=2).fit(X, Y)


@pytest.mark.parametrize(
    "parameters",
    [
        {"alpha": -1.0},
        {"beta": "large"},
        {"mu": np.nan},
        {"nu": -0.1},
        {"formulation": "convex"},
        {"calibration": "isotonic"},
        {"ranking": 2},
        {"shrinkage": 0.0},
        {"prediction": "both"},
        {"n_neighbors": 0},
        {"n_neighbors": 2.5},
        {"neighbor_weight": -1},
        {"neighbor_rank": 0},
        {"kernel": "linear"},
        {"gamma": 0.0},
        {"gamma": "scale"},
        {"n_components": 0},
        {"fit_intercept": "yes"},
        {"max_iter": 0},
        {"tol": -1e-3},
        {"penalty": 0.0},
        {"penalty_growth": 0.5},
        {"max_penalty": 0.0},
        {"split_penalty": -1.0},
        {"max_split_penalty": 0.0},
        {"inner_iter": 0},
        {"step_size": 0.0},
        {"init": "random"},
        {"svd": "exact"},
        {"n_threads": 0},
        {"random_state": "seed"},
        {"warm_start": "no"},
        {"verbose": -1},
        {"callback": "print"},
    ],
    ids=str,
)
def test_invalid_parameters_are_named(parameters):
    (name,) = parameters
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of HERAClassifier"):
        HERAClassifier(**parameters).fit(X, Y)


def test_too_many_threads_are_an_error():
    most = numba.config.NUMBA_NUM_THREADS
    with pytest.raises(ValueError, match=f"n_threads must be from 1 to {most} .*got {most + 1}"):
        HERAClassifier(n_threads=most + 1).fit(X, Y)
    fitted = HERAClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="n_threads must be from 1"):
        fitted.set_params(n_threads=most + 1).predict(X)


@pytest.mark.parametrize(
    ("settings", "n_rows", "least"),
    [
        ({}, 60, 0.65),
        ({}, 400, 0.87),
        ({"calibration": "gaussian", "kernel": "rbf"}, 400, 0.85),
        ({"calibration": None, "kernel": "rbf"}, 400, 0.83),
    ],
)
def test_digits_are_learned_from_few_rows_and_from_more(settings, n_rows, least):
    digits = load_digits_partial()
    scaler = StandardScaler().fit(digits.data[:n_rows])
    model = HERAClassifier(random_state=0, **settings)
    model.fit(scaler.transform(digits.data[:n_rows]), digits.candidates[:n_rows])
    assert model.score(scaler.transform(digits.data[n_rows:]), digits.target[n_rows:]) > least


def test_weights_that_sum_to_one_are_as_good_as_none():
    digits = load_digits_partial()
    rows, candidates = digits.data[:300], digits.candidates[:300]
    model = HERAClassifier(kernel=None).fit(rows, candidates, sample_weight=np.full(300, 1 / 300))
    expected = HERAClassifier(kernel=None).fit(rows, candidates)
    np.testing.assert_allclose(model.confidence_, expected.confidence_, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("calibration", "kernel"),
    [("mixture", "auto"), ("mixture", "laplacian"), ("gaussian", "rbf"), (None, "laplacian")],
)
def test_random_state_decides_on_the_kernel_map(calibration, kernel):
    def fitted(random_state):
        model = HERAClassifier(
            calibration=calibration, kernel=kernel, n_components=10, random_state=random_state
        )
        return model.fit(X, Y).predict_proba(queries)

    np.testing.assert_array_equal(fitted(0), fitted(0))
    assert (fitted(0) != fitted(1)).any()
    random = np.random.RandomState(0)
    first, second = fitted(random), fitted(random)
    assert (first != second).any()
    np.testing.assert_array_equal(first, fitted(np.random.RandomState(0)))


def test_the_randomized_svd_is_repeatable():
    model = hybrid(nu=0.1, svd="randomized", random_state=3)
    first, second = (clone(model).fit(X, Y).confidence_ for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("return_intercept", [False, True])
@pytest.mark.parametrize(
    "parameters",
    [
        {"calibration": "gaussian"},
        {"calibration": None, "nu": 0.1},
        {"calibration": "mixture", "random_state": 0},
    ],
    ids=str,
)
def test_the_function_returns_what_the_estimator_finds(parameters, return_intercept):
    model = HERAClassifier(**parameters).fit(X, Y, sample_weight=weights)
    found = hera(X, Y, sample_weight=weights, return_intercept=return_intercept, **parameters)
    assert len(found) == 4 + return_intercept
    W, P, E, history = found[:4]
    np.testing.assert_array_equal(W, model.coef_.T)
    assert W.flags.c_contiguous
    np.testing.assert_array_equal(P, model.confidence_)
    np.testing.assert_array_equal(E, model.noise_)
    np.testing.assert_array_equal(history["objective"], model.history_["objective"])
    if return_intercept:
        np.testing.assert_array_equal(found[4], model.intercept_)


def test_the_function_takes_one_discriminant_unless_told_otherwise():
    model = HERAClassifier(calibration="gaussian").fit(X, Y)
    np.testing.assert_array_equal(hera(X, Y)[0], model.coef_.T)


def test_the_function_takes_the_papers_settings():
    model = HERAClassifier.paper(max_iter=5)
    found = hera(X, Y, **model.get_params())
    np.testing.assert_array_equal(found[1], model.fit(X, Y).confidence_)


def test_the_papers_preset_can_be_changed():
    model = HERAClassifier.paper(alpha=0.5)
    assert (model.formulation, model.alpha, model.mu, model.nu) == ("paper", 0.5, 0.1, 1.0)


# ---- warm start --------------------------------------------------------------------------------


@each_setting
def test_a_warm_start_goes_on_where_the_last_fit_ended(model):
    model = clone(model).set_params(tol=0.0)
    once = clone(model).set_params(max_iter=8).fit(X, Y)
    twice = clone(model).set_params(max_iter=4, warm_start=True).fit(X, Y)
    first, kept = twice.confidence_, twice.confidence_.copy()
    twice.fit(X, Y)
    np.testing.assert_allclose(twice.confidence_, once.confidence_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(twice.coef_, once.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(first, kept)


def test_a_warm_start_of_a_mixture_goes_on_exactly():
    """Within a stage, and where one ends."""
    once = HERAClassifier(random_state=0).fit(X, Y)
    assert once.n_iter_ >= 10
    for n_first in range(1, once.n_iter_):
        twice = HERAClassifier(max_iter=n_first, warm_start=True, random_state=0).fit(X, Y)
        first = twice.history_["objective"]
        twice.set_params(max_iter=200).fit(X, Y)
        objective = np.append(first, twice.history_["objective"])
        np.testing.assert_array_equal(objective, once.history_["objective"])
        np.testing.assert_array_equal(twice.confidence_, once.confidence_)
        np.testing.assert_array_equal(twice.predict_proba(queries), once.predict_proba(queries))


def test_a_mixture_that_has_come_to_its_end_goes_on_from_its_best_stage():
    model = HERAClassifier(warm_start=True, random_state=0).fit(X, Y)
    n_iter, accuracy = model.n_iter_, model.score(X, y)
    model.fit(X, Y)
    assert model.n_iter_ <= n_iter
    assert model.score(X, y) >= accuracy - 0.05
    check_predictions(model, queries)


def test_a_mixture_with_few_iterations_says_so():
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=5 iterations"):
        HERAClassifier(max_iter=5).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HERAClassifier(tol=0.0).fit(X, Y)


def test_without_warm_start_fit_begins_anew():
    model = HERAClassifier(max_iter=4, tol=0.0, random_state=0).fit(X, Y)
    first = model.confidence_
    np.testing.assert_array_equal(model.fit(X, Y).confidence_, first)


def test_a_warm_start_goes_on_after_a_cold_one():
    model = hybrid(max_iter=4, tol=0.0).fit(X, Y)
    model.set_params(warm_start=True).fit(X, Y)
    once = hybrid(max_iter=8, tol=0.0).fit(X, Y)
    np.testing.assert_allclose(model.confidence_, once.confidence_, rtol=0, atol=1e-9)


def test_a_warm_start_refuses_another_kernel_map():
    model = HERAClassifier(kernel="rbf", gamma=1.0, n_components=10, warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"gamma was 1\.0 then and is 5\.0 now"):
        model.set_params(gamma=5.0).fit(X, Y)
    with pytest.raises(ValueError, match="n_components was 10 then and is 20 now"):
        model.set_params(gamma=1.0, n_components=20).fit(X, Y)


@pytest.mark.parametrize("calibration", ["mixture", "gaussian"])
def test_discriminants_do_not_mind_where_the_origin_is(calibration):
    expected = hybrid(calibration=calibration, random_state=0).fit(X, Y)
    model = clone(expected).set_params(fit_intercept=False).fit(X + 100, Y)
    np.testing.assert_allclose(model.confidence_, expected.confidence_, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X + 100), expected.predict(X))


def test_a_score_against_unknown_labels_comes_with_a_warning():
    model = HERAClassifier().fit(X, np.array(list("abcd"))[y])
    with pytest.warns(UserWarning, match="No label in y is one of classes_"):
        assert model.score(X, y) == 0


def test_a_warm_start_keeps_the_random_kernel_map():
    model = HERAClassifier(n_components=10, warm_start=True, max_iter=5).fit(X, Y)
    before = [member.feature_map for member in model._members]
    assert [feature_map is None for feature_map in before] == [True, False, False]
    model.fit(X, Y)
    for member, feature_map in zip(model._members, before, strict=True):
        assert member.feature_map is feature_map


@pytest.mark.parametrize("nu", [(0.0, 0.1), (0.1, 0.0)])
@pytest.mark.parametrize("calibration", ["mixture", "gaussian"])
def test_a_warm_start_may_change_the_weights_of_the_objective(calibration, nu):
    model = HERAClassifier(calibration=calibration, nu=nu[0], warm_start=True, max_iter=5)
    model.fit(X, Y)
    model.set_params(nu=nu[1], alpha=2.0).fit(X, Y)
    np.testing.assert_allclose(model.confidence_.sum(axis=1), 1)
    assert (model.noise_ >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.fit(X[1:], Y[1:]), "the number of rows was 90 then and is 89 now"),
        (lambda m: m.fit(X[:, 1:], Y), "the number of features was 5 then and is 4 now"),
        (
            lambda m: m.fit(X, np.hstack([Y, Y])),
            r"classes_ was \[0, 1, 2, 3\] then and is \[.*\] now",
        ),
        (lambda m: m.fit(X, np.array(list("abcd"))[y]), "classes_ was .* then and is .*'a'"),
        (
            lambda m: m.fit(X.astype(np.float32), Y),
            "the dtype of X was 'float64' then and is 'float32' now",
        ),
        (
            lambda m: m.set_params(formulation="paper").fit(X, Y),
            "formulation was 'simplex' then and is 'paper' now",
        ),
        (
            lambda m: m.set_params(calibration=None).fit(X, Y),
            "calibration was 'mixture' then and is None now",
        ),
        (lambda m: m.set_params(kernel="rbf").fit(X, Y), "kernel was 'auto' then and is 'rbf' now"),
        (lambda m: m.set_params(n_components=4).fit(X, Y), "n_components was 1000 then and is 4"),
        (
            lambda m: m.set_params(fit_intercept=False).fit(X, Y),
            "fit_intercept was True then and is False now",
        ),
    ],
)
def test_a_warm_start_refuses_what_it_cannot_go_on_with(change, message):
    model = HERAClassifier(warm_start=True, max_iter=3).fit(X, Y)
    with pytest.raises(ValueError, match=f"warm_start=True.*{message}.*warm_start=False"):
        change(model)


# ---- callback, progress, interrupts ------------------------------------------------------------


@pytest.mark.parametrize("make", [HERAClassifier, hybrid, HERAClassifier.paper])
def test_a_callback_sees_every_iteration(make):
    states = []
    model = make(max_iter=6, tol=0.0, callback=states.append).fit(X, Y)
    assert all(type(state) is State for state in states)
    assert [state.iteration for state in states] == [1, 2, 3, 4, 5, 6]
    assert states[-1].max_iter == 6
    for name in FIGURES:
        found = np.array([getattr(state, name) for state in states])
        np.testing.assert_array_equal(found, model.history_[name])
    np.testing.assert_array_equal(states[-1].confidence, model.confidence_)


@pytest.mark.parametrize("make", [HERAClassifier, hybrid, HERAClassifier.paper])
def test_a_callback_may_end_the_run_without_a_warning(make):
    model = make(callback=lambda state: state.iteration == 3, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y)
    assert model.n_iter_ == 3
    check_predictions(model, queries)


def test_exceptions_of_a_callback_pass_through():
    def fail(state):
        raise ZeroDivisionError("mine")

    model = HERAClassifier(callback=fail)
    with pytest.raises(ZeroDivisionError, match="mine"):
        model.fit(X, Y)


@pytest.mark.parametrize("make", [HERAClassifier, hybrid, HERAClassifier.paper])
def test_an_interrupt_leaves_a_fitted_classifier(make):
    def interrupt(state):
        if state.iteration == 2:
            raise KeyboardInterrupt

    model = make(callback=interrupt, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="interrupted after 2 of at most") as caught:
        model.fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.n_iter_ == 2
    check_predictions(model, queries)


def interrupt_update(self, P, Z):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("calibration", "name"),
    [("mixture", "mixture.Mixture"), ("gaussian", "models.GaussianDiscriminant")],
)
def test_an_interrupt_before_the_first_iteration_leaves_a_fitted_classifier(
    calibration, name, monkeypatch
):
    monkeypatch.setattr(f"hera_fast.{name}.update", interrupt_update)
    with pytest.warns(ConvergenceWarning, match="interrupted after 0 of"):
        model = hybrid(calibration=calibration, nu=0.1).fit(X, Y)
    assert model.n_iter_ == 0
    check_predictions(model, queries)


@pytest.mark.parametrize(
    ("calibration", "name"),
    [("mixture", "mixture.Mixture"), ("gaussian", "models.GaussianDiscriminant")],
)
def test_an_interrupt_before_the_first_iteration_of_a_warm_start_changes_nothing(
    calibration, name, monkeypatch
):
    model = HERAClassifier(calibration=calibration, warm_start=True, max_iter=2).fit(X, Y)
    expected = model.predict_proba(queries)
    monkeypatch.setattr(f"hera_fast.{name}.update", interrupt_update)
    with pytest.warns(ConvergenceWarning, match="interrupted after 0 of"):
        model.fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(queries), expected)


@pytest.mark.parametrize(
    "place", ["held_out_scores", "softmax", "candidate_mass", "condition_on_candidates"]
)
def test_an_interrupt_within_an_iteration_of_a_mixture_leaves_the_one_before(place, monkeypatch):
    last, is_late = 7, False
    stopped = HERAClassifier(random_state=0, callback=lambda state: state.iteration == last)
    stopped.fit(X, Y)
    original = getattr(mixture, place)

    def interrupt(*arguments):
        if is_late:
            raise KeyboardInterrupt
        original(*arguments)

    def wait(state):
        nonlocal is_late
        is_late = state.iteration == last

    monkeypatch.setattr(mixture, place, interrupt)
    with pytest.warns(ConvergenceWarning, match=f"interrupted after {last} of"):
        model = HERAClassifier(random_state=0, callback=wait).fit(X, Y)
    is_late = False
    np.testing.assert_array_equal(model.confidence_, stopped.confidence_)
    np.testing.assert_array_equal(model.predict_proba(queries), stopped.predict_proba(queries))


INTERRUPTED = """
    import signal, sys, warnings
    import numpy as np
    from hera_fast import HERAClassifier

    # A process in the background may have been started with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 20))
    Y = rng.random((20_000, 10)) < 0.3
    Y[:, 0] = True

    def announce(state):
        if state.iteration == 2:
            print("running", flush=True)

    model = HERAClassifier(
        calibration="gaussian", nu=0.1, tol=0.0, max_iter=10**6, callback=announce
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y)
    assert "interrupted after" in str(caught[0].message), caught
    assert 2 <= model.n_iter_ < 10**6
    assert np.isfinite(model.confidence_).all()
    np.testing.assert_allclose(model.confidence_.sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1)
    print("usable")
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_real_interrupt_leaves_a_fitted_classifier():
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    finally:
        child.kill()
    assert (output, child.returncode) == ("usable\n", 0), errors


def test_progress_goes_to_standard_error(capfd):
    model = HERAClassifier(max_iter=3, tol=0.0, verbose=1).fit(X, Y)
    output, errors = capfd.readouterr()
    assert output == ""
    lines = errors.splitlines()
    assert lines[0].startswith("1/3  objective ")
    assert lines[-1].startswith("3/3  objective ")
    model.set_params(verbose=0).fit(X, Y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_progress_ends_its_line_when_a_callback_fails(capfd):
    def fail(state):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        HERAClassifier(verbose=1, callback=fail).fit(X, Y)
    assert capfd.readouterr().err.endswith("\n")

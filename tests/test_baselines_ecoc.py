from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import clusters
from problems import problems as small_problems
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from strategies import dtypes, seeds

from hera_fast.baselines.ecoc import (
    PLECOCClassifier,
    _decode,
    _draw_columns,
    _entries,
    _performance,
    _sides,
    _tells_apart,
)

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

X, Y, y = clusters(120, 5, 4, noise=0.5)
WIDE = clusters(150, 8, 12, seed=1, noise=0.3)


def naive_sides(Y, code):
    sides = np.zeros((len(Y), code.shape[1]), int)
    for i, candidates in enumerate(Y):
        for column in range(code.shape[1]):
            found = {code[j, column] for j in np.flatnonzero(candidates)}
            if len(found) == 1:
                sides[i, column] = found.pop()
    return sides


def naive_performance(Y, code, scores):
    H = np.zeros(code.shape)
    for j in range(code.shape[0]):
        rows = np.flatnonzero(Y[:, j])
        for column in range(code.shape[1]):
            votes = [1 if scores[i, column] > 0 else -1 for i in rows]
            H[j, column] = votes.count(code[j, column]) / max(len(rows), 1)
        if len(rows) and H[j].sum() == 0:
            H[j] = 1
        if H[j].sum() > 0:
            H[j] /= H[j].sum()
    return H


def naive_losses(scores, code, H):
    losses = np.zeros((len(scores), len(code)))
    for i, j in itertools.product(range(len(scores)), range(len(code))):
        for column in range(code.shape[1]):
            exponent = -np.clip(float(scores[i, column]), -50, 50) * code[j, column]
            losses[i, j] += H[j, column] * np.exp(exponent)
    return losses


@st.composite
def codes(draw):
    """Candidates, a code with 0 for labels that are nobody's candidate, scores of machines."""
    rng = np.random.default_rng(draw(seeds))
    n, q, length = draw(st.integers(1, 8)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    Y = rng.random((n, q)) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    Y[np.arange(n), rng.integers(0, q, n)] = True
    code = rng.choice([-1, 1], size=(q, length)).astype(np.int8)
    code[~Y.any(axis=0)] = 0
    scores = rng.normal(size=(n, length)) * draw(st.sampled_from([0.0, 1.0, 100.0, 1e6]))
    return Y, code, scores.astype(draw(dtypes))


def as_rows(Y):
    return sparse.csr_array(Y, dtype=np.float32)


@given(codes())
def test_rows_of_machines_agree_with_the_twin(problem):
    Y, code, scores = problem
    sides = _sides(as_rows(Y), code)
    ref = naive_sides(Y, code)
    np.testing.assert_array_equal(sides, ref)
    offsets, rows, signs = _entries(sides, scores.dtype)
    assert signs.dtype == scores.dtype
    for column in range(code.shape[1]):
        entries = slice(offsets[column], offsets[column + 1])
        np.testing.assert_array_equal(rows[entries], np.flatnonzero(ref[:, column]))
        np.testing.assert_array_equal(signs[entries], ref[rows[entries], column])


@given(codes())
def test_performance_agrees_with_the_twin(problem):
    Y, code, scores = problem
    H = _performance(as_rows(Y), Y.sum(axis=0), code, scores)
    np.testing.assert_allclose(H, naive_performance(Y, code, scores), rtol=1e-12)
    np.testing.assert_allclose(H.sum(axis=1), Y.any(axis=0), rtol=1e-12)


@given(codes())
def test_decoding_agrees_with_the_twin(problem):
    Y, code, scores = problem
    H = naive_performance(Y, code, scores).astype(scores.dtype)
    ref = naive_losses(scores, code, H)
    comp = _decode(scores.copy(), code, H)
    assert comp.dtype == scores.dtype
    assert np.isfinite(comp).all()
    rtol = 1e-4 if scores.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(-comp, ref, rtol=rtol)


@given(seeds, st.integers(2, 12), st.integers(1, 30), st.sampled_from([1, 5]))
@settings(max_examples=50)
def test_columns_are_good_and_distinct(seed, q, length, least_side):
    rng = np.random.default_rng(seed)
    n = 60
    Y = rng.random((n, q)) < 0.1
    Y[np.arange(n), np.arange(n) % q] = True
    columns, is_all = _draw_columns(as_rows(Y), length, 6, least_side, np.random.RandomState(0))
    assert columns.shape[0] == q
    assert columns.shape[1] <= length
    code = np.where(columns, 1, -1)
    sides = naive_sides(Y, code)
    assert ((sides != 0).sum(axis=0) >= 6).all()
    assert ((sides == 1).sum(axis=0) >= least_side).all()
    assert ((sides == -1).sum(axis=0) >= least_side).all()
    # Neither equal nor opposite.
    assert (np.abs(code.T @ code - q * np.eye(code.shape[1])) < q).all()
    if is_all:
        every = np.array(list(itertools.product([-1, 1], repeat=q - 1))).T.reshape(q - 1, -1)
        every = np.vstack([-np.ones(every.shape[1], int), every])
        sides = naive_sides(Y, every)
        n_sides = [(sides == sign).sum(axis=0) for sign in (1, -1)]
        good = (sum(n_sides) >= 6) & (np.minimum(*n_sides) >= least_side)
        assert columns.shape[1] == min(good.sum(), length)


def test_the_code():
    model = PLECOCClassifier(random_state=0).fit(WIDE[0], WIDE[1])
    assert model.code_.dtype == np.int8
    assert model.code_.shape == (12, 72)  # ceil(20 log2 12)
    assert set(np.unique(model.code_)) == {-1, 1}
    assert PLECOCClassifier(code_length=9, random_state=0).fit(*WIDE[:2]).code_.shape == (12, 9)


def test_few_labels_have_all_columns():
    model = PLECOCClassifier(random_state=0).fit(X, y)
    assert model.code_.shape == (4, 7)
    assert len(np.unique(model.code_ * model.code_[0], axis=1).T) == 7


def test_rows_needed():
    model = PLECOCClassifier(min_rows=0.5, code_length=5, random_state=0).fit(*WIDE[:2])
    used = (naive_sides(WIDE[1], model.code_) != 0).mean(axis=0)
    assert (used >= 0.5).all()


def test_model_agrees_with_its_parts():
    model = PLECOCClassifier(random_state=0).fit(X, Y)
    scores = model._machine_scores(X)
    H = naive_performance(Y, model.code_, scores)
    np.testing.assert_allclose(model.performance_, H, rtol=1e-12)
    losses = naive_losses(scores, model.code_, H)
    np.testing.assert_allclose(model.decision_function(X), -losses, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), losses.argmin(axis=1))
    np.testing.assert_array_equal(model.transduction_, np.where(Y, losses, np.inf).argmin(axis=1))


def test_learns():
    model = PLECOCClassifier(random_state=0).fit(X, Y)
    assert model.score(X, y) > 0.85
    assert (model.transduction_ == y).mean() > 0.9
    wide = PLECOCClassifier(random_state=0).fit(*WIDE[:2])
    assert wide.score(WIDE[0], WIDE[2]) > 0.85


def test_machines_separate_their_rows():
    model = PLECOCClassifier(C=100.0, gamma=0.1, random_state=0).fit(X, Y)
    sides = naive_sides(Y, model.code_)
    votes = np.where(model._machine_scores(X) > 0, 1, -1)
    assert (votes == sides)[sides != 0].mean() > 0.97


ESTIMATORS = {
    "linear": LinearSVC(C=0.1),
    "kernel": SVC(C=10, gamma="auto"),
    "logistic": LogisticRegression(),
    "tree": DecisionTreeClassifier(max_depth=4),
}
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


@each_estimator
def test_estimators_of_users(estimator):
    model = PLECOCClassifier(estimator, random_state=0).fit(X, Y)
    assert len(model.estimators_) == model.code_.shape[1]
    assert not hasattr(model, "coef_")
    assert model.score(X, y) > 0.8
    ref = model.decision_function(X)
    one = PLECOCClassifier(estimator, random_state=0, n_threads=1).fit(X, Y)
    np.testing.assert_array_equal(one.decision_function(X), ref)
    scores = model._machine_scores(X)
    losses = naive_losses(scores, model.code_, naive_performance(Y, model.code_, scores))
    np.testing.assert_allclose(ref, -losses, rtol=1e-10)


def test_own_machines_are_close_to_scikit_learns():
    """The squared loss and the kernel's features make little difference."""
    own = PLECOCClassifier(gamma="auto", random_state=0).fit(X, Y)
    theirs = PLECOCClassifier(SVC(C=10, gamma="auto"), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(own.code_, theirs.code_)
    assert (own.predict(X) == theirs.predict(X)).mean() > 0.95


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_features=1)])
def test_the_seed_decides(estimator):
    models = [
        PLECOCClassifier(estimator, code_length=10, random_state=seed).fit(*WIDE[:2])
        for seed in (0, 0, 1)
    ]
    first, again, other = (model.decision_function(WIDE[0]) for model in models)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(models[0].code_, models[2].code_)


@both_dtypes
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_the_number_of_threads_changes_no_bit(dtype, container):
    rows = container(np.tile(WIDE[0], (9, 1)).astype(dtype))
    rows = rows + rows if sparse.issparse(rows) else rows * 2
    candidates = np.tile(WIDE[1], (9, 1))
    models = [
        PLECOCClassifier(n_components=50, random_state=0, n_threads=n).fit(rows, candidates)
        for n in (1, None)
    ]
    one, several = (model.decision_function(rows) for model in models)
    assert one.tobytes() == several.tobytes()
    assert models[0].coef_.tobytes() == models[1].coef_.tobytes()
    assert models[0].performance_.tobytes() == models[1].performance_.tobytes()


@pytest.mark.parametrize("estimator", [None, LinearSVC()])
def test_single_precision(estimator):
    model = PLECOCClassifier(estimator, random_state=0).fit(X.astype(np.float32), Y)
    scores = model.decision_function(X)
    assert scores.dtype == np.float32
    assert model.performance_.dtype == np.float32
    if estimator is None:
        assert model.coef_.dtype == model.intercept_.dtype == np.float32
    double = PLECOCClassifier(estimator, random_state=0).fit(X, Y)
    assert double.decision_function(X).dtype == np.float64
    assert (model.predict(X) == double.predict(X)).mean() > 0.97


@pytest.mark.parametrize("estimator", [None, LinearSVC()])
def test_sparse_rows(estimator):
    rows = np.where(np.abs(X) > 1, X, 0)
    dense = PLECOCClassifier(estimator, random_state=0, tol=1e-6).fit(rows, Y)
    thin = PLECOCClassifier(estimator, random_state=0, tol=1e-6).fit(sparse.csr_matrix(rows), Y)
    np.testing.assert_array_equal(dense.code_, thin.code_)
    comp, ref = thin.decision_function(sparse.csr_matrix(rows)), dense.decision_function(rows)
    np.testing.assert_allclose(comp, ref, rtol=0.05 if estimator else 1e-4)


def test_labels_that_are_nobodys_candidates():
    wider = np.insert(Y, [0, 2, 4], False, axis=1)
    model = PLECOCClassifier(random_state=0).fit(X, wider)
    never = ~wider.any(axis=0)
    assert (model.code_[never] == 0).all()
    assert (model.performance_[never] == 0).all()
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert not never[model.predict(X)].any()
    assert (scores[:, never].max(axis=1) < scores[:, ~never].min(axis=1)).all()
    narrow = PLECOCClassifier(code_length=model.code_.shape[1], random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.code_[~never], narrow.code_)


def test_rows_with_all_labels_are_not_used():
    more = np.vstack([X, X[:20]]), np.vstack([Y, np.ones((20, 4), bool)])
    model = PLECOCClassifier(random_state=0).fit(*more)
    assert model.score(X, y) > 0.85
    assert len(model.transduction_) == 140


def test_one_label():
    model = PLECOCClassifier(random_state=0).fit(X, ["a"] * 120)
    assert model.code_.shape == (1, 0)
    assert model.predict(X).tolist() == ["a"] * 120
    assert model.decision_function(X).shape == (120, 1)


def test_one_row():
    model = PLECOCClassifier(random_state=0).fit(X[:1], [["a"]])
    assert model.predict(X).tolist() == ["a"] * 120
    with pytest.warns(UserWarning, match="found 0 of code_length=20"):
        model = PLECOCClassifier(random_state=0).fit(X[:1], [["a", "b"]])
    assert model.predict(X).tolist() == ["a"] * 120


@pytest.mark.parametrize("estimator", [None, LinearSVC()])
def test_two_labels(estimator):
    labels = np.where(y < 2, "a", "b")
    model = PLECOCClassifier(estimator, random_state=0).fit(X, labels)
    assert model.code_.shape == (2, 1)
    assert model.score(X, labels) > 0.75
    assert model.decision_function(X).shape == (120,)


def test_small_sides():
    """Three rows of a label are fewer than five, yet it gets a code of its own."""
    rows = np.array([0.0, 0.1, 0.2, 5, 5.1, 5.2, 10, 10.1, 10.2])[:, np.newaxis]
    labels = np.repeat(["a", "b", "c"], 3)
    model = PLECOCClassifier(random_state=0).fit(rows, labels)
    assert model.code_.shape == (3, 3)
    assert model.predict(rows).tolist() == labels.tolist()


def test_large_candidate_sets():
    """Of columns of coins hardly any would be good: neighbours have to be on the same side."""
    n, q = 400, 60
    truth = np.random.default_rng(0).integers(0, q, n)
    distance = np.abs(np.arange(q) - truth[:, np.newaxis])
    candidates = np.minimum(distance, q - distance) <= 4
    coins = np.random.default_rng(1).choice([-1, 1], size=(q, 500))
    assert ((_sides(as_rows(candidates), coins) != 0).mean(axis=0) >= 0.1).mean() < 0.01
    angles = 2 * np.pi * truth / q
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    model = PLECOCClassifier(random_state=0).fit(rows, candidates)
    assert model.code_.shape[1] == 119
    away = np.abs(model.predict(rows) - truth)
    assert np.median(np.minimum(away, q - away)) <= 4


def test_columns_that_cannot_be_found():
    """All rows have the candidate 0, so that no column has rows on both sides."""
    candidates = Y.copy()
    candidates[:, 0] = True
    with pytest.warns(UserWarning, match=r"found 0 of code_length=40 .* Only 1 of 4 labels") as log:
        model = PLECOCClassifier(random_state=0).fit(X, candidates)
    assert log[0].filename == __file__
    assert (model.predict(X) == 0).all()
    np.testing.assert_allclose(model.decision_function(X)[0], candidates.mean(axis=0))
    assert (model.transduction_ == 0).all()


def test_columns_that_are_too_few():
    with pytest.warns(UserWarning, match=r"found \d+ of code_length=72 columns"):
        model = PLECOCClassifier(min_rows=0.6, random_state=0).fit(*WIDE[:2])
    assert 0 < model.code_.shape[1] < 72


def test_a_run_that_is_too_short():
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 .* of 5 machines") as log:
        model = PLECOCClassifier(max_iter=2, tol=1e-6, random_state=0).fit(X, Y)
    assert log[0].filename == __file__
    assert model.n_iter_ == 2
    assert 2 < PLECOCClassifier(random_state=0).fit(X, Y).n_iter_ < 1000


def test_a_fitted_model_does_not_depend_on_its_parameters():
    model = PLECOCClassifier(random_state=0).fit(X, Y)
    ref = model.decision_function(X)
    model.set_params(estimator=LinearSVC(), gamma=3.0, code_length=5)
    np.testing.assert_array_equal(model.decision_function(X), ref)
    np.testing.assert_array_equal(clone(model).fit(X, Y).predict(X), model.fit(X, Y).predict(X))


@given(small_problems(most_labels=5))
@settings(max_examples=30)
def test_every_input_can_be_fitted(problem):
    rows = sparse.csr_matrix(problem.X) if problem.is_sparse else problem.X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sets = [np.flatnonzero(row).tolist() for row in problem.Y]
        model = PLECOCClassifier(random_state=0).fit(rows, sets)
    scores = model._scores(model._validated(rows, reset=False))
    assert np.isfinite(scores).all()
    assert problem.Y[np.arange(len(problem.Y)), model.transduction_].all()


@pytest.mark.parametrize(
    "changes",
    [
        {"estimator": "svm"},
        {"code_length": 0},
        {"min_rows": 1.5},
        {"C": 0.0},
        {"gamma": "mean"},
        {"n_components": 0},
        {"max_iter": 0},
        {"tol": -1.0},
        {"n_threads": 0},
    ],
)
def test_bad_parameters_are_named(changes):
    with pytest.raises(ValueError, match=f"The '{next(iter(changes))}' parameter"):
        PLECOCClassifier(**changes).fit(X, Y)


def test_codes_apart():
    assert _tells_apart(np.array([[True, False], [True, True]]))
    assert not _tells_apart(np.array([[True, False], [True, False]]))
    assert not _tells_apart(np.empty((2, 0), bool))
    assert _tells_apart(np.empty((1, 0), bool))

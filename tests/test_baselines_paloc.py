from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import clusters
from problems import problems as small_problems
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from strategies import candidate_matrices, dtypes, seeds

from hera_fast import kernel_maps
from hera_fast.baselines import PALOCClassifier
from hera_fast.baselines.machines import fit_kernel_map, kernel_features
from hera_fast.baselines.paloc import (
    _count_votes,
    _label_entries,
    _pair_entries,
    _pairs,
    _refine,
    _root,
    _votes_of,
)
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

X, Y, y = clusters(120, 5, 4, noise=0.5)
queries = clusters(40, 5, 4, noise=0.5, seed=3)[0]


def naive_pairs(q):
    return [(j, k) for j in range(q) for k in range(j + 1, q)]


def naive_sides(Y, j, k):
    """Rows that the machine of a pair learns from, the positive ones first."""
    positive = [i for i in range(len(Y)) if Y[i, j] and not Y[i, k]]
    negative = [i for i in range(len(Y)) if Y[i, k] and not Y[i, j]]
    return positive, negative


def naive_votes(pair_scores, q):
    votes, totals = np.zeros((2, len(pair_scores), q))
    for i in range(len(pair_scores)):
        for (j, k), score in zip(naive_pairs(q), pair_scores[i].tolist(), strict=True):
            votes[i, j] += score > 0
            votes[i, k] += score < 0
            totals[i, j] += score
            totals[i, k] -= score
    return votes, totals


def naive_refined(Y, votes, totals):
    refined = Y.copy()
    for i in range(len(Y)):
        order = [vote + t / (3 * abs(t) + 3) for vote, t in zip(votes[i], totals[i], strict=True)]
        best = order.index(max(order))
        if Y[i, best]:
            refined[i] = np.arange(Y.shape[1]) == best
    return refined


def naive_scores(votes, h, mu):
    scores = np.zeros(votes.shape)
    for i, j in np.ndindex(*votes.shape):
        scores[i, j] = votes[i, j] + h[i, j] / (3 * abs(h[i, j]) + 3)
        if h[i, j] > 0:
            scores[i, j] += mu
    return scores


def naive_machine(make, rows, signs):
    """A function that scores rows: 0 if there are no rows of one sign."""
    if len(set(signs)) < 2:
        return lambda rows: np.zeros(len(rows))
    return make().fit(rows, signs).decision_function


def naive_paloc(make_pair, make_stack, X, Y, queries, mu=10.0):
    """Refined candidates, and scores of the queries, with every stacked row written down."""
    q = Y.shape[1]
    columns, query_columns = [], []
    for j, k in naive_pairs(q):
        positive, negative = naive_sides(Y, j, k)
        signs = [1] * len(positive) + [-1] * len(negative)
        machine = naive_machine(make_pair, X[positive + negative], signs)
        columns.append(machine(X))
        query_columns.append(machine(queries))
    refined = naive_refined(Y, *naive_votes(np.array(columns).T, q))
    stacked = np.column_stack([X, *columns])
    stacked_queries = np.column_stack([queries, *query_columns])
    h = np.zeros((len(queries), q))
    for j in range(q):
        machine = naive_machine(make_stack, stacked, np.where(refined[:, j], 1, -1))
        h[:, j] = machine(stacked_queries)
    votes, _ = naive_votes(np.array(query_columns).T, q)
    return refined, naive_scores(votes, h, mu)


class KernelMachine:
    """A support vector machine with the squared hinge loss, from scikit-learn."""

    def __init__(self, rows, gamma, C=1.0, class_weight=None):
        self.feature_map = fit_kernel_map(rows, gamma=gamma, n_components=len(rows), random_state=0)
        self.model = LinearSVC(
            C=C, fit_intercept=False, class_weight=class_weight, tol=1e-9, max_iter=1_000_000
        )

    def fit(self, rows, signs):
        self.model.fit(kernel_features(self.feature_map, rows), signs)
        return self

    def decision_function(self, rows):
        return self.model.decision_function(kernel_features(self.feature_map, rows))


@st.composite
def candidates(draw):
    n, q = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    return draw(candidate_matrices(n, q))


@given(candidates(), dtypes)
def test_entries_of_pairs_agree_with_the_twin(Y, dtype):
    q = Y.shape[1]
    rows_of = [np.flatnonzero(column) for column in Y.T]
    n_found = 0
    for j in range(q - 1):
        offsets, rows, signs = _pair_entries(Y, rows_of, j, np.dtype(dtype))
        assert (offsets.dtype, rows.dtype, signs.dtype) == (np.int64, np.int64, dtype)
        pairs = naive_pairs(q)[_pairs(j, q)]
        assert [pair[0] for pair in pairs] == [j] * (q - 1 - j)
        assert len(offsets) == len(pairs) + 1
        for e, pair in enumerate(pairs):
            entries = slice(offsets[e], offsets[e + 1])
            positive, negative = naive_sides(Y, *pair)
            assert rows[entries].tolist() == positive + negative
            assert signs[entries].tolist() == [1] * len(positive) + [-1] * len(negative)
        n_found += len(pairs)
    assert n_found == len(naive_pairs(q))


@given(candidates(), dtypes)
def test_entries_of_labels(Y, dtype):
    offsets, rows, signs = _label_entries(Y, np.dtype(dtype))
    assert (offsets.dtype, rows.dtype, signs.dtype) == (np.int64, np.int64, dtype)
    for j in range(Y.shape[1]):
        entries = slice(offsets[j], offsets[j + 1])
        assert rows[entries].tolist() == list(range(len(Y)))
        assert signs[entries].tolist() == [1 if chosen else -1 for chosen in Y[:, j]]


@given(seeds, st.integers(0, 8), st.integers(1, 7), dtypes)
def test_votes_agree_with_the_twin(seed, n, q, dtype):
    rng = np.random.default_rng(seed)
    # Of small integers, so that sums are exact and some scores are zero.
    features = rng.integers(-2, 3, size=(n, 4)).astype(dtype)
    coef = rng.integers(-2, 3, size=(len(naive_pairs(q)), 4)).astype(dtype)
    coef[rng.random(len(coef)) < 0.2] = 0
    ref_votes, ref_totals = naive_votes(features @ coef.T, q)
    for votes, totals in (_count_votes(features, coef, q), _votes_of(features @ coef.T, q)):
        assert votes.dtype == totals.dtype == dtype
        np.testing.assert_array_equal(votes, ref_votes)
        np.testing.assert_array_equal(totals, ref_totals)


@given(candidates(), seeds)
def test_refining_agrees_with_the_twin(Y, seed):
    rng = np.random.default_rng(seed)
    votes = rng.integers(0, 3, Y.shape).astype(float)
    totals = rng.integers(-1, 2, Y.shape) * 100.0
    before = Y.copy()
    refined = _refine(Y, votes, totals)
    np.testing.assert_array_equal(refined, naive_refined(Y, votes, totals))
    np.testing.assert_array_equal(Y, before)
    assert not (refined & ~Y).any()
    assert refined.any(axis=1).all()


def test_a_tie_does_not_outweigh_a_vote():
    candidates = np.ones((2, 2), dtype=bool)
    votes, totals = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[-1e9, 1e9], [-1.0, 1.0]])
    assert _refine(candidates, votes, totals).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("n_pairs", [0, 3, 6, 7, 30])
def test_the_root_is_small_and_has_the_same_products(n_pairs):
    coef = np.random.default_rng(0).normal(size=(n_pairs, 6))
    coef[::4] = 0
    root = _root(coef)
    assert root.shape == (6, min(n_pairs, 6))
    np.testing.assert_allclose(root @ root.T, coef.T @ coef, atol=1e-12)


def squared_distances(rows):
    return ((rows[:, np.newaxis] - rows) ** 2).sum(axis=2)


@pytest.mark.parametrize("n_components", [3, 120])
@both_dtypes
def test_stacked_rows_have_the_distances_of_those_written_down(n_components, dtype):
    rows = X.astype(dtype)
    model = PALOCClassifier(n_components=n_components, random_state=0).fit(rows, Y)
    features = kernel_features(model._feature_map, rows)
    # Fewer columns than there are pairs, where that is possible.
    stacked = model._stack(rows, features)
    assert stacked.shape == (120, 5 + min(6, n_components + 1))
    assert stacked.dtype == dtype
    expected = squared_distances(np.hstack([rows, features @ model._pair_coef.T]))
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(squared_distances(stacked), expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("q", [2, 3, 5])
def test_the_default_agrees_with_the_twin(balanced, q):
    X, Y, _ = clusters(60, 3, q, noise=0.5, seed=q)
    new = clusters(30, 3, q, noise=0.5, seed=9)[0]
    options = {"C": 2.0, "gamma": 0.3, "balanced": balanced, "mu": 1.5}
    model = PALOCClassifier(**options, tol=1e-9, max_iter=100_000, random_state=0).fit(X, Y)

    def make_pair():
        return KernelMachine(X, 0.3, 2.0, "balanced" if balanced else None)

    features = kernel_features(model._feature_map, X)
    stacked = np.hstack([X, features @ model._pair_coef.T])

    def make_stack():
        return KernelMachine(stacked, "median", 2.0)

    refined, expected = naive_paloc(make_pair, make_stack, X, Y, new, mu=1.5)
    np.testing.assert_array_equal(model.refined_, refined)
    found = model.decision_function(new)
    if q == 2:
        expected = expected[:, 1] - expected[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_classifiers_of_users_agree_with_the_twin(C, container):
    model = PALOCClassifier(LogisticRegression(C=C), mu=0.7).fit(container(X), Y)

    def make():
        return LogisticRegression(C=C)

    refined, expected = naive_paloc(make, make, X, Y, queries, mu=0.7)
    np.testing.assert_array_equal(model.refined_, refined)
    np.testing.assert_allclose(model.decision_function(container(queries)), expected, atol=1e-4)
    assert [len(model.estimators_), len(model.stack_estimators_)] == [6, 4]
    assert not hasattr(model, "n_iter_")


@pytest.mark.parametrize(
    "estimator", [SVC(), LinearSVC(), DecisionTreeClassifier(max_depth=3)], ids=str
)
def test_classifiers_of_users(estimator):
    model = PALOCClassifier(estimator, random_state=0).fit(X, Y)
    assert np.mean(model.predict(X) == y) > 0.75
    assert np.mean(model.transduction_ == y) > 0.8
    again = PALOCClassifier(estimator, random_state=0, n_threads=1).fit(X, Y)
    np.testing.assert_array_equal(
        again.decision_function(queries), model.decision_function(queries)
    )
    assert not hasattr(estimator, "classes_")


@given(small_problems(most_rows=8, most_features=3, most_labels=4))
@settings(max_examples=15)
def test_classifiers_of_users_whatever_the_candidates(problem):
    rows = sparse.csr_array(problem.X) if problem.is_sparse else problem.X
    model = PALOCClassifier(DecisionTreeClassifier(), random_state=0)
    model.fit(rows, sparse.csr_array(problem.Y))
    assert np.isfinite(model.decision_function(rows)).all()
    picked = np.searchsorted(model.classes_, model.transduction_)
    assert problem.Y[np.arange(len(problem.Y)), picked].all()
    for (j, k), machine in zip(naive_pairs(problem.Y.shape[1]), model.estimators_, strict=True):
        positive, negative = naive_sides(problem.Y, j, k)
        assert (machine is None) == (not positive or not negative)


def test_pairs_without_rows_on_either_side_do_not_vote():
    # Whoever has label 1 has label 0, labels 2 and 3 are always together, 4 is never there.
    candidates = np.zeros((6, 5), dtype=bool)
    candidates[:3, 0] = candidates[1:3, 1] = candidates[3:, 2:4] = True
    rows = np.arange(6.0)[:, np.newaxis]
    model = PALOCClassifier(random_state=0).fit(rows, candidates)
    idle = np.flatnonzero(~model._pair_coef.any(axis=1))
    assert [naive_pairs(5)[pair] for pair in idle] == [
        (0, 1),
        (0, 4),
        (1, 4),
        (2, 3),
        (2, 4),
        (3, 4),
    ]
    features = kernel_features(model._feature_map, rows)
    votes, _ = _count_votes(features, model._pair_coef, 5)
    np.testing.assert_array_equal(votes.sum(axis=1), 4)
    assert (votes[:, 4] == 0).all()
    assert (model.predict(rows) // 2).tolist() == [0, 0, 0, 1, 1, 1]


def test_candidates_that_say_nothing():
    model = PALOCClassifier(random_state=0).fit(X, np.ones_like(Y))
    assert not model._pair_coef.any()
    assert (model.decision_function(queries) == 0).all()
    assert (model.predict(queries) == 0).all()
    assert (model.transduction_ == 0).all()
    assert model.n_iter_ == 0


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_one_label(estimator):
    model = PALOCClassifier(estimator, random_state=0).fit(X, ["a"] * len(X))
    assert set(model.predict(queries)) == {"a"}
    assert model.decision_function(queries).shape == (40, 1)
    assert model.refined_.all()


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_one_row(estimator):
    model = PALOCClassifier(estimator, random_state=0).fit([[1.0, 2.0]], [{"b", "c"}])
    assert model.predict([[1.0, 2.0]]).tolist() == ["b"]


def test_labels_of_pairs_that_are_certain():
    """Without ambiguity refining changes nothing, and it is one against one."""
    model = PALOCClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.refined_, np.eye(4, dtype=bool)[y])
    reference = SVC(gamma=model._feature_map.gamma, C=10.0).fit(X, y).predict(queries)
    assert np.mean(model.predict(queries) == reference) > 0.9


def test_refined_candidates_are_candidates():
    model = PALOCClassifier(random_state=0).fit(X, Y)
    assert model.refined_.dtype == bool
    assert not (model.refined_ & ~Y).any()
    refined = model.refined_.sum(axis=1) < Y.sum(axis=1)
    assert refined.sum() > 20
    assert np.mean(model.refined_[refined].argmax(axis=1) == y[refined]) > 0.8


def test_balanced_sides_help_rare_labels():
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.zeros(190, int), np.ones(10, int)])
    rows = labels[:, np.newaxis] + rng.normal(size=(200, 1))
    found = []
    for balanced in (True, False):
        model = PALOCClassifier(balanced=balanced, mu=0.0, random_state=0).fit(rows, labels)
        found.append(model.predict(rows).mean())
    assert found[0] > 0.1 > found[1]


def test_without_mu_the_pairs_decide():
    model = PALOCClassifier(mu=0.0, random_state=0).fit(X, Y)
    features = kernel_features(model._feature_map, queries)
    votes, _ = _count_votes(features, model._pair_coef, 4)
    assert (np.abs(model.decision_function(queries) - votes) < 0.5).all()


def test_the_seed_matters_for_few_components_only():
    def scores(**options):
        return PALOCClassifier(**options).fit(X, Y).decision_function(queries)

    few = [scores(n_components=5, random_state=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(few[0], few[1])
    assert (few[0] != few[2]).any()
    np.testing.assert_array_equal(scores(random_state=0), scores(random_state=1))


@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    # Fewer pairs than features, and more.
    rows, candidates, _ = clusters(1500, 4, 9, noise=0.3, seed=1)
    rows = rows.astype(dtype)
    for n_components in (60, 20):
        found = []
        for n_threads in (1, None):
            with threads(n_threads):
                model = PALOCClassifier(n_components=n_components, random_state=0)
                model.fit(rows, candidates)
                found.append((model.decision_function(rows), model._pair_coef, model._stack_coef))
        for one, two in zip(*found, strict=True):
            assert one.dtype == dtype
            assert one.tobytes() == two.tobytes()


def test_memory_is_not_that_of_all_pairs(monkeypatch):
    # The distances between these rows are of no interest here.
    monkeypatch.setattr(kernel_maps, "_SAMPLE", 50)
    n, q, n_components = 2000, 60, 40
    rows, candidates, _ = clusters(n, 4, q, noise=0.02)
    model = PALOCClassifier(n_components=n_components, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tracemalloc.start()
        try:
            model.fit(rows, candidates).predict(rows)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    # Some matrices of scores and of features, far less than scores of all pairs.
    assert peak < 8 * n * 6 * (q + n_components) < 8 * n * q * (q - 1) / 2 / 2


def test_the_warning_counts_machines():
    with pytest.warns(ConvergenceWarning, match=r"That concerns \d+ of 10 machines") as caught:
        model = PALOCClassifier(max_iter=2, random_state=0).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.n_iter_ == 2


def test_a_kernel_by_name():
    gammas = [
        PALOCClassifier(gamma=gamma, random_state=0).fit(X, Y)._feature_map.gamma
        for gamma in ("auto", "scale", 0.7)
    ]
    assert gammas == pytest.approx([0.2, 0.2 / X.var(), 0.7])

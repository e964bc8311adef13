from __future__ import annotations

import joblib
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import clusters
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier
from strategies import candidate_matrices, dtypes, seeds

from hera_fast.baselines.knn import PLKNNClassifier

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
X, Y, y = clusters(80, 4, 5, noise=0.4)


def naive_votes(points, Y, queries, k, weights, *, leave_out=False):
    votes = np.zeros((len(queries), Y.shape[1]))
    for i, x in enumerate(queries):
        distances = np.sqrt(((points.astype(np.float64) - x) ** 2).sum(axis=1))
        order = [j for j in np.argsort(distances, kind="stable") if not (leave_out and j == i)][:k]
        total = sum(distances[j] for j in order)
        for j in order:
            is_weighted = weights == "distance" and len(order) > 1 and total > 0
            votes[i, Y[j]] += 1 - distances[j] / total if is_weighted else 1
    return votes


def naive_confidence(points, Y, k, weights):
    confidence = naive_votes(points, Y, points, k, weights, leave_out=True) * Y
    for i, row in enumerate(confidence):
        if not row.any():
            row[:] = Y[i]
    return confidence / confidence.sum(axis=1, keepdims=True)


@st.composite
def problems(draw):
    """Small problems; integers make many ties and equal rows."""
    rng = np.random.default_rng(draw(seeds))
    n, m, d = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rows = rng.normal(size=(n + m, d))
    if draw(st.booleans()):
        rows = np.round(rows)
    rows = rows.astype(draw(dtypes))
    Y = draw(candidate_matrices(n, draw(st.integers(2, 7))))
    weights = draw(st.sampled_from(["distance", "uniform"]))
    model = PLKNNClassifier(draw(st.integers(1, 15)), weights)
    return rows[:n], Y, rows[n:], model, draw(st.sampled_from([np.asarray, sparse.csr_array]))


@given(problems())
def test_agrees_with_a_loop(problem):
    points, Y, queries, model, kind = problem
    model.fit(kind(points), Y)
    votes = naive_votes(points, Y, queries, model.n_neighbors, model.weights)
    tolerance = 1e-12 if points.dtype == np.float64 else 1e-5
    found = model._scores(kind(queries))
    assert found.dtype == model.confidence_.dtype == points.dtype
    np.testing.assert_allclose(found, votes, atol=tolerance)
    probabilities = model.predict_proba(kind(queries))
    assert probabilities.dtype == points.dtype
    ref = votes / votes.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, ref, atol=tolerance)
    best = model.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(best, model.predict(kind(queries)))
    confidence = naive_confidence(points, Y, model.n_neighbors, model.weights)
    np.testing.assert_allclose(model.confidence_, confidence, atol=tolerance)


@given(problems())
def test_confidences_are_distributions_over_the_candidates(problem):
    points, Y, _, model, kind = problem
    confidence = model.fit(kind(points), Y).confidence_
    assert (confidence >= 0).all()
    assert (confidence[~Y] == 0).all()
    np.testing.assert_allclose(confidence.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.transduction_, model.classes_[confidence.argmax(axis=1)])


@pytest.mark.parametrize("k", [1, 3, 10])
def test_known_labels_make_it_the_ordinary_classifier(k):
    queries = clusters(50, 4, 5, seed=3)[0]
    model = PLKNNClassifier(k, weights="uniform").fit(X, y)
    ref = KNeighborsClassifier(k).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(queries), ref.predict_proba(queries), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(queries), ref.predict(queries))


def test_it_learns_from_candidates():
    model = PLKNNClassifier().fit(X, Y)
    assert (model.transduction_ == y).mean() > 0.9
    assert (model.predict(X) == y).mean() > 0.9


def test_one_neighbor_has_a_vote():
    model = PLKNNClassifier(1).fit([[0.0], [1.0]], [{"a"}, {"b", "c"}])
    np.testing.assert_array_equal(model.predict_proba([[0.9]]), [[0, 0.5, 0.5]])


def test_neighbors_at_distance_zero_vote_alike():
    model = PLKNNClassifier(3).fit([[1.0]] * 3, [{"a"}, {"b"}, {"b"}])
    np.testing.assert_allclose(model.predict_proba([[1.0]]), [[1 / 3, 2 / 3]])


def test_weights_by_distance():
    model = PLKNNClassifier(2).fit([[0.0], [4.0], [9.0]], [{"a"}, {"b"}, {"c"}])
    np.testing.assert_allclose(model.predict_proba([[1.0]]), [[0.75, 0.25, 0]])


def test_rows_whose_neighbors_say_nothing_of_their_candidates_get_equal_shares():
    model = PLKNNClassifier(2).fit([[0.0], [1.0], [2.0]], [{"a", "b"}, {"c"}, {"c"}])
    np.testing.assert_array_equal(model.confidence_[0], [0.5, 0.5, 0])
    assert model.transduction_.tolist() == ["a", "c", "c"]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_one_row(kind):
    model = PLKNNClassifier().fit(kind(np.ones((1, 2))), [{"a", "b"}])
    np.testing.assert_array_equal(model.confidence_, [[0.5, 0.5]])
    np.testing.assert_array_equal(model.predict_proba(kind(np.zeros((1, 2)))), [[0.5, 0.5]])


def test_one_label():
    model = PLKNNClassifier().fit(X, [{"a"}] * 80)
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((80, 1)))


def test_labels_that_are_nobodys_candidate_are_never_predicted():
    matrix = np.hstack([np.zeros((80, 1), bool), Y])
    model = PLKNNClassifier().fit(X, matrix)
    assert (model.predict_proba(X)[:, 0] == 0).all()
    np.testing.assert_array_equal(model.predict(X), PLKNNClassifier().fit(X, Y).predict(X) + 1)


def test_rows_for_which_all_labels_are_candidates():
    model = PLKNNClassifier().fit(X, np.ones((80, 5), bool))
    np.testing.assert_allclose(model.predict_proba(X), 0.2)
    np.testing.assert_allclose(model.confidence_, 0.2)


def test_probabilities_among_candidates_that_got_no_vote():
    model = PLKNNClassifier(2).fit([[0.0], [1.0], [9.0], [9.5]], [{"a"}, {"a"}, {"b"}, {"c"}])
    found = model.predict_proba([[0.5]], candidates=[{"b", "c"}])
    np.testing.assert_array_equal(found, [[0, 0.5, 0.5]])


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    rows, matrix, _ = clusters(900, 60, 9)
    found = []
    for n_threads in (1, 2):
        model = PLKNNClassifier(n_threads=n_threads).fit(rows.astype(dtype), matrix)
        found.append((model.confidence_, model.predict_proba(rows[::-1].astype(dtype))))
    for first, second in zip(*found, strict=True):
        assert first.tobytes() == second.tobytes()


def test_training_rows_and_queries_may_be_of_different_kinds():
    rows = np.where(np.abs(X) > 1, X, 0)
    expected = PLKNNClassifier().fit(rows, Y).predict_proba(rows)
    for fitted, asked in [(np.asarray, sparse.csr_array), (sparse.csr_array, np.asarray)]:
        model = PLKNNClassifier().fit(fitted(rows), Y)
        np.testing.assert_allclose(model.predict_proba(asked(rows)), expected, atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_it_works_from_a_memory_map(kind, tmp_path):
    model = PLKNNClassifier().fit(kind(X), Y)
    joblib.dump(model, tmp_path / "model.joblib")
    twin = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    np.testing.assert_array_equal(twin.predict_proba(kind(X)), model.predict_proba(kind(X)))


@pytest.mark.parametrize("change", [{"n_neighbors": 0}, {"weights": "other"}, {"n_threads": 0}])
def test_bad_parameters_are_named(change):
    with pytest.raises(ValueError, match=f"The '{next(iter(change))}' parameter"):
        PLKNNClassifier(**change).fit(X, Y)

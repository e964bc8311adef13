"""Synthetic data have the shape, the candidates and the clusters that their arguments say."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from hera_fast import synthetic
from hera_fast.synthetic import make_partial_classification
from hera_fast.threads import threads

UNLIKELY = 1e-3  # seeds are fixed, so a test that passes goes on passing
N = 20_000

SIZES = {
    "lost": (1122, 108, 16, 2.23),
    "msrcv2": (1758, 48, 23, 3.16),
    "fg-net": (1002, 262, 78, 7.48),
    "birdsong": (4998, 38, 13, 2.18),
    "soccer-player": (17472, 279, 171, 2.09),
    "yahoo-news": (22991, 163, 219, 1.91),
}


def false_matrix(Y, y):
    """The false candidates alone, dense."""
    Y = Y.toarray()
    rows = np.arange(len(y))
    assert Y[rows, y].all(), "the true label is a candidate"
    Y[rows, y] = False
    return Y


def false_counts(Y, y):
    """How often column k is a false candidate of a row of label j."""
    counts = np.zeros((Y.shape[1], Y.shape[1]), int)
    np.add.at(counts, y, false_matrix(Y, y))
    return counts


def companions_of(q, n, seed):
    """Rows with as many false candidates as a label has companions show which these are."""
    k = min(8, q - 1)
    _, Y, y = make_partial_classification(n, 1, q, 1 + k, co_occurrence=1, random_state=seed)
    false = false_matrix(Y, y)
    full = np.flatnonzero(false.sum(axis=1) == k)
    shown = np.zeros((q, q), bool)
    for label in range(q):
        rows = false[full[y[full] == label]]
        assert len(rows) > 1
        assert (rows == rows[0]).all()
        shown[label] = rows[0]
    return shown


def unbent(X):
    return np.where(X < 0, X / 0.3, X)


# Shapes and seeds


@given(
    n=st.integers(1, 40),
    d=st.integers(1, 5),
    q=st.integers(2, 15),
    share=st.floats(0, 1),
    co_occurrence=st.sampled_from([0, 0.4, 1]),
    imbalance=st.sampled_from([0, 0.5, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_forms(n, d, q, share, co_occurrence, imbalance, seed):
    n_candidates = min(1 + share * (q - 1), q)
    options = {"co_occurrence": co_occurrence, "imbalance": imbalance, "random_state": seed}
    X, Y, y = make_partial_classification(n, d, q, n_candidates, **options)
    assert X.shape == (n, d)
    assert X.dtype == np.float64
    assert np.isfinite(X).all()
    assert isinstance(Y, sparse.csr_array)
    assert Y.shape == (n, q)
    assert Y.dtype == np.bool_
    assert Y.has_canonical_format
    assert Y.data.all()
    assert y.shape == (n,)
    assert y.dtype == np.int64
    assert Y.toarray()[np.arange(n), y].all()


def test_defaults():
    X, Y, y = make_partial_classification(random_state=0)
    assert X.shape == (1000, 20)
    assert Y.shape == (1000, 5)
    explicit = make_partial_classification(
        1000, 20, 5, 2.0, imbalance=0, co_occurrence=0.5, class_sep=1, random_state=0
    )
    np.testing.assert_array_equal(explicit[0], X)
    np.testing.assert_array_equal(explicit[1].toarray(), Y.toarray())
    np.testing.assert_array_equal(explicit[2], y)


def test_seeds():
    def together(random_state):
        X, Y, y = make_partial_classification(50, random_state=random_state)
        return np.column_stack([X, Y.toarray(), y])

    first = together(0)
    np.testing.assert_array_equal(together(0), first)
    assert (together(1) != first).any()
    random = np.random.RandomState(0)
    np.testing.assert_array_equal(together(random), first)
    assert (together(random) != first).any()


def test_threads_and_blocks_make_no_difference(monkeypatch):
    expected, _, _ = make_partial_classification(300, random_state=0)
    with threads(1):
        X, _, _ = make_partial_classification(300, random_state=0)
    np.testing.assert_array_equal(X, expected)
    monkeypatch.setattr(synthetic, "_BLOCK_ROWS", 7)
    X, _, _ = make_partial_classification(300, random_state=0)
    np.testing.assert_array_equal(X, expected)


@pytest.mark.parametrize("dtype", [np.float32, "float32", np.dtype("f4")])
def test_single_precision(dtype):
    X, _, _ = make_partial_classification(50, random_state=0)
    single, _, _ = make_partial_classification(50, dtype=dtype, random_state=0)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, X.astype(np.float32))


# Labels and candidates


@pytest.mark.parametrize("imbalance", [0, 0.7, 2])
def test_shares_of_the_labels(imbalance):
    _, _, y = make_partial_classification(N, 1, 8, imbalance=imbalance, random_state=0)
    shares = np.arange(1, 9.0) ** -imbalance
    expected = N * shares / shares.sum()
    assert stats.chisquare(np.bincount(y, minlength=8), expected).pvalue > UNLIKELY


@pytest.mark.parametrize(("q", "n_candidates"), [(4, 1.5), (4, 3.7), (12, 2.25), (300, 2)])
@pytest.mark.parametrize("co_occurrence", [0, 0.6, 1])
def test_numbers_of_candidates_are_binomial(q, n_candidates, co_occurrence):
    options = {"co_occurrence": co_occurrence, "random_state": 0}
    _, Y, _ = make_partial_classification(N, 1, q, n_candidates, **options)
    sizes = np.diff(Y.indptr)
    distribution = stats.binom(q - 1, (n_candidates - 1) / (q - 1))
    tolerance = 4 * distribution.std() / np.sqrt(N)
    assert abs(sizes.mean() - n_candidates) < tolerance
    probabilities = distribution.pmf(np.arange(q))
    common = probabilities * N > 5
    expected = np.append(probabilities[common], probabilities[~common].sum()) * N
    counts = np.bincount(sizes - 1, minlength=q)
    found = np.append(counts[common], counts[~common].sum())
    keep = expected > 0
    expected = expected[keep] * N / expected[keep].sum()
    assert stats.chisquare(found[keep], expected).pvalue > UNLIKELY


@pytest.mark.parametrize("q", [2, 9, 30])
def test_one_candidate_and_all_candidates(q):
    _, Y, _ = make_partial_classification(100, 1, q, 1, random_state=0)
    assert (np.diff(Y.indptr) == 1).all()
    for co_occurrence in (0, 0.5, 1):
        options = {"co_occurrence": co_occurrence, "random_state": 0}
        _, Y, _ = make_partial_classification(100, 1, q, q, **options)
        assert Y.nnz == 100 * q


@pytest.mark.parametrize("q", [4, 30])
def test_without_co_occurrence_all_false_labels_are_alike(q):
    _, Y, y = make_partial_classification(N, 1, q, 1.8, co_occurrence=0, random_state=0)
    counts = false_counts(Y, y)
    for label in range(q):
        others = np.delete(counts[label], label)
        # Those of one row exclude each other, which makes the test a little cautious.
        assert stats.chisquare(others).pvalue > UNLIKELY


@pytest.mark.parametrize("q", [2, 5, 9, 10, 20])
def test_companions(q):
    companions = companions_of(q, N, 0)
    assert (companions.sum(axis=1) == min(8, q - 1)).all()
    # With fewer candidates there are no others either.
    _, Y, y = make_partial_classification(N, 1, q, 1.5, co_occurrence=1, random_state=0)
    false = false_matrix(Y, y)
    few = false.sum(axis=1) <= 8
    assert not (false & ~companions[y])[few].any()


def test_companions_are_random_in_every_place():
    random = np.random.RandomState(0)
    drawn = np.array([synthetic._draw_companions(4, random)[0] for _ in range(600)])
    for place in range(3):
        counts = np.bincount(drawn[:, place], minlength=4)
        assert counts[0] == 0
        assert stats.chisquare(counts[1:]).pvalue > UNLIKELY


def test_each_companion_comes_half_as_often_as_the_one_before():
    _, Y, y = make_partial_classification(2 * N, 1, 20, 1.5, co_occurrence=1, random_state=0)
    false = false_matrix(Y, y)
    alone = false.sum(axis=1) == 1
    counts = np.zeros((20, 20), int)
    np.add.at(counts, y[alone], false[alone])
    by_rank = np.sort(counts, axis=1)[:, ::-1].sum(axis=0)[:5]
    expected = 0.5 ** np.arange(5)
    assert stats.chisquare(by_rank, expected / expected.sum() * by_rank.sum()).pvalue > UNLIKELY


@pytest.mark.parametrize("co_occurrence", [0.2, 0.5, 0.9])
def test_share_of_companions(co_occurrence):
    q = 40
    companions = companions_of(q, N, 0)
    # They are drawn before anything that depends on the share.
    options = {"n_features": 1, "co_occurrence": co_occurrence, "random_state": 0}
    _, Y, y = make_partial_classification(N, n_classes=q, n_candidates=1.5, **options)
    false = false_matrix(Y, y)
    alone = np.flatnonzero(false.sum(axis=1) == 1)
    drawn = false[alone].argmax(axis=1)
    near = companions[y[alone], drawn]
    probability = co_occurrence + (1 - co_occurrence) * 8 / (q - 1)
    assert stats.binomtest(int(near.sum()), len(near), probability).pvalue > UNLIKELY


def test_more_false_labels_than_companions():
    companions = companions_of(20, N, 0)
    _, Y, y = make_partial_classification(N, 1, 20, 14, co_occurrence=1, random_state=0)
    false = false_matrix(Y, y)
    many = false.sum(axis=1) >= 8
    assert many.mean() > 0.9
    assert not (companions[y] & ~false)[many].any()


# Features


def test_distance_of_clusters():
    q, sep = 150, 1000.0  # so far apart that the noise does not matter
    X, _, y = make_partial_classification(3000, 30, q, class_sep=sep, random_state=0)
    X = unbent(X) / sep
    squares = ((X[:, None] - X[None, ::10]) ** 2).sum(axis=2)
    other = y[:, None] != y[None, ::10]
    np.testing.assert_allclose(np.sqrt(squares[other].mean()), 8, rtol=0.05)
    same_label = squares[~other & (squares > 0)]
    same_cluster = same_label < 0.1
    # Three equally likely clusters, at half of the squared distance.
    np.testing.assert_allclose(same_cluster.mean(), 1 / 3, rtol=0.05)
    np.testing.assert_allclose(np.sqrt(same_label[~same_cluster].mean()), 8 / np.sqrt(2), rtol=0.05)


def test_few_directions_tell_labels_apart():
    X, _, _ = make_partial_classification(2000, 40, 400, class_sep=1000.0, random_state=0)
    spread = unbent(X).std(axis=0)
    np.testing.assert_allclose(spread[10:20] / spread[:10], np.exp(-1), rtol=0.25)
    np.testing.assert_allclose(spread[30:] / spread[:10], np.exp(-3), rtol=0.25)


def test_noise_is_stretched_in_a_direction_of_each_label():
    X, _, y = make_partial_classification(N, 10, 4, class_sep=0, random_state=0)
    X = unbent(X)
    directions = []
    for label in range(4):
        values, vectors = np.linalg.eigh(np.cov(X[y == label].T))
        np.testing.assert_allclose(values[:-1], 1, atol=0.15)
        assert values[-1] > 2
        directions.append(vectors[:, -1])
    overlap = np.abs(np.array(directions) @ np.transpose(directions))
    assert overlap[~np.eye(4, dtype=bool)].max() < 0.9


def test_negative_features_are_smaller():
    X, _, _ = make_partial_classification(N, 5, class_sep=0, random_state=0)
    np.testing.assert_allclose(-X[X < 0].mean() / X[X > 0].mean(), 0.3, rtol=0.05)


def test_labels_can_be_learned():
    def accuracy(class_sep):
        X, _, y = make_partial_classification(class_sep=class_sep, random_state=0)
        return cross_val_score(LogisticRegression(max_iter=500), X, y, cv=3).mean()

    nothing, little, much = accuracy(0), accuracy(0.4), accuracy(1)
    assert nothing < 0.3
    assert nothing + 0.2 < little < much - 0.1
    assert much > 0.8


# Presets


@pytest.mark.parametrize("name", SIZES)
def test_presets(name):
    n, d, q, n_candidates = SIZES[name]
    X, Y, y = make_partial_classification(like=name, random_state=0)
    assert X.shape == (n, d)
    assert Y.shape == (n, q)
    assert abs(Y.nnz / n - n_candidates) < 0.2
    counts = np.bincount(y, minlength=q)
    assert counts[0] > 3 * np.median(counts)
    X, Y, _ = make_partial_classification(60, like=name, n_candidates=1.0, random_state=0)
    assert X.shape == (60, d)
    assert Y.nnz == 60
    _, _, y = make_partial_classification(
        2000, 1, like=name, n_classes=20, n_candidates=1, imbalance=0, random_state=0
    )
    assert stats.chisquare(np.bincount(y, minlength=20)).pvalue > UNLIKELY


@pytest.mark.parametrize("name", ["lost", "msrcv2", "fg-net", "birdsong"])
def test_presets_are_like_the_real_sets(name):
    folder = os.environ.get("HERA_FAST_DATA")
    if not folder:
        pytest.skip("HERA_FAST_DATA does not say where the data sets are")
    path = Path(folder, "realworld", f"{name}.npz")
    if not path.exists():
        pytest.skip(f"no {path}")

    def facts(X, Y, y):
        counts = false_counts(Y, y)
        share = np.sort(counts, axis=1)[:, -3:].sum() / counts.sum()
        return share, np.bincount(y).max() / len(y)

    with np.load(path, allow_pickle=False) as data:
        real = facts(data["X"], sparse.csr_array(data["Y"].astype(bool)), data["y"])
    made = facts(*make_partial_classification(like=name, random_state=0))
    np.testing.assert_allclose(made, real, atol=0.1)


# Memory and mistakes


def test_no_matrix_of_all_labels():
    tracemalloc.start()
    try:
        make_partial_classification(2000, 2, 100_000, random_state=0)  # 200 MB if dense
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 0}, r"n_samples must be at least 1, got 0"),
        ({"n_features": 0}, r"n_features must be at least 1, got 0"),
        ({"n_classes": 1}, r"n_classes must be at least 2, got 1"),
        ({"n_candidates": 0.5}, r"n_candidates must be from 1 to 5, the number of classes; got"),
        ({"n_candidates": 5.1}, r"n_candidates must be from 1 to 5, the number of classes; got"),
        ({"like": "fg-net", "n_classes": 5}, r"n_candidates must be from 1 to 5, .* got 7\.48"),
        ({"imbalance": -1}, r"imbalance must be at least 0; got -1"),
        ({"imbalance": np.inf}, r"imbalance must be at least 0; got inf"),
        ({"co_occurrence": 1.5}, r"co_occurrence must be from 0 to 1; got 1\.5"),
        ({"co_occurrence": np.nan}, r"co_occurrence must be from 0 to 1; got nan"),
        ({"class_sep": -0.1}, r"class_sep must be at least 0; got -0\.1"),
        ({"dtype": int}, r"dtype must be float64 or float32, got .*int"),
        (
            {"like": "found"},
            r"like must be one of 'lost', 'msrcv2', 'fg-net', 'birdsong', 'soccer-player', "
            r"'yahoo-news'; got 'found'",
        ),
    ],
)
def test_wrong_values(options, message):
    with pytest.raises(ValueError, match=message):
        make_partial_classification(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 10.0}, r"n_samples must be an integer, got 10\.0"),
        ({"n_classes": True}, r"n_classes must be an integer, got True"),
        ({"n_candidates": "2"}, r"n_candidates must be a number, got '2'"),
        ({"class_sep": True}, r"class_sep must be a number, got True"),
    ],
)
def test_wrong_types(options, message):
    with pytest.raises(TypeError, match=message):
        make_partial_classification(**options)

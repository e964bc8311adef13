"""Artificial candidates: exact numbers, the right probabilities, and nothing left to chance."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import partial_labels
from hera_fast.partial_labels import draw_subsets, make_partial_labels, mark_candidates
from hera_fast.threads import threads

UNLIKELY = 1e-3  # seeds are fixed, so a test that passes goes on passing
N = 20_000


def false_labels(Y, y):
    """Columns of the false labels, for rows that all have equally many."""
    Y = Y.copy()
    rows = np.arange(len(y))
    assert Y[rows, y].all(), "the true label is a candidate"
    Y[rows, y] = False
    return np.nonzero(Y)[1].reshape(len(y), -1)


def assert_frequencies(counts, probabilities):
    """Chi-square test; what cannot happen must not have happened."""
    counts, probabilities = np.asarray(counts), np.asarray(probabilities)
    possible = probabilities > 0
    assert (counts[~possible] == 0).all()
    expected = probabilities[possible] / probabilities.sum() * counts.sum()
    assert expected.min() > 5, "too few draws for the test"
    if len(expected) > 1:
        assert stats.chisquare(counts[possible], expected).pvalue > UNLIKELY


def coupled_labels(q, coupling, seed):
    """With probability 1 for the coupled label, the result shows which one it is."""
    options = {"epsilon": 1, "coupling": coupling, "classes": range(q)}
    Y = make_partial_labels(np.arange(q), **options, random_state=seed)
    return false_labels(Y, np.arange(q))[:, 0]


class Posterior(ClassifierMixin, BaseEstimator):
    """The posterior of a row is the one of its first feature, whatever it was fitted to."""

    def __init__(self, table):
        self.table = table

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.asarray(self.table)[np.asarray(X)[:, 0].astype(int)]


# Number of rows and of labels


@given(
    n=st.integers(1, 60),
    q=st.integers(2, 7),
    r=st.integers(1, 6),
    p=st.sampled_from([0, 0.1, 0.25, 1 / 3, 0.5, 0.7, 0.95, 1]),
    seed=st.integers(0, 2**32 - 1),
)
def test_numbers_are_exact(n, q, r, p, seed):
    r = min(r, q - 1)
    y = np.random.RandomState(seed).randint(q, size=n)
    Y = make_partial_labels(y, p=p, r=r, classes=range(q), random_state=seed)
    assert Y.dtype == np.bool_
    assert Y.shape == (n, q)
    assert Y[np.arange(n), y].all()
    sizes = Y.sum(axis=1)
    assert set(sizes) <= {1, 1 + r}
    assert (sizes == 1 + r).sum() == round(n * p)


@given(
    n=st.integers(1, 60),
    q=st.integers(3, 7),
    epsilon=st.sampled_from([0, 0.3, 1]),
    coupling=st.sampled_from(["independent", "matching"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_coupling_gives_each_row_one_false_label(n, q, epsilon, coupling, seed):
    y = np.random.RandomState(seed).randint(q, size=n)
    options = {"epsilon": epsilon, "coupling": coupling, "classes": range(q)}
    Y = make_partial_labels(y, **options, random_state=seed)
    assert Y[np.arange(n), y].all()
    assert (Y.sum(axis=1) == 2).all()


def test_halves_round_to_the_even_number():
    for n, rows in [(1, 0), (3, 2), (5, 2), (7, 4)]:
        Y = make_partial_labels(np.arange(n), p=0.5, classes=range(8), random_state=0)
        assert Y.sum() == n + rows


# Probabilities


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_sets_of_false_labels_are_equally_likely(r):
    y = np.repeat(np.arange(5), N // 5)
    drawn = false_labels(make_partial_labels(y, p=1, r=r, random_state=1), y)
    for label in range(5):
        others = [other for other in range(5) if other != label]
        sets, counts = np.unique(drawn[y == label], axis=0, return_counts=True)
        assert sets.tolist() == [list(subset) for subset in itertools.combinations(others, r)]
        assert_frequencies(counts, np.ones(len(sets)))


def test_rows_are_equally_likely_to_be_chosen():
    y = np.arange(6) % 3
    random = np.random.RandomState(0)
    chosen = [
        tuple(np.flatnonzero(make_partial_labels(y, p=1 / 3, random_state=random).sum(1) == 2))
        for _ in range(1500)
    ]
    pairs = list(itertools.combinations(range(6), 2))
    assert_frequencies([chosen.count(pair) for pair in pairs], np.ones(len(pairs)))


@pytest.mark.parametrize("coupling", ["independent", "matching"])
@pytest.mark.parametrize("epsilon", [0, 0.1, 0.7, 1])
def test_coupled_label_has_probability_epsilon(epsilon, coupling):
    q = 6
    y = np.repeat(np.arange(q), N // q)
    options = {"coupling": coupling, "random_state": 3}
    drawn = false_labels(make_partial_labels(y, epsilon=epsilon, **options), y)[:, 0]
    # The coupling is drawn first, so the same seed shows it.
    coupled = coupled_labels(q, coupling, 3)
    for label in range(q):
        probabilities = np.full(q, (1 - epsilon) / (q - 2))
        probabilities[coupled[label]] = epsilon
        probabilities[label] = 0
        counts = np.bincount(drawn[y == label], minlength=q)
        assert_frequencies(counts, probabilities)
        successes = counts[coupled[label]]
        interval = stats.binomtest(successes, counts.sum()).proportion_ci(1 - UNLIKELY)
        assert interval.low <= epsilon <= interval.high


@pytest.mark.parametrize("q", [3, 4, 7, 8])
def test_independent_coupling(q):
    drawn = np.array([coupled_labels(q, "independent", seed) for seed in range(700)])
    for label in range(q):
        others = np.arange(q) != label
        assert_frequencies(np.bincount(drawn[:, label], minlength=q), others)
    # Independent: some labels are coupled with several classes.
    assert any(len(set(row)) < q for row in drawn)


@pytest.mark.parametrize("q", [4, 6, 26])
def test_matching_pairs_classes(q):
    for seed in range(20):
        partner = coupled_labels(q, "matching", seed)
        assert (partner != np.arange(q)).all()
        assert (partner[partner] == np.arange(q)).all()


@pytest.mark.parametrize("q", [3, 7])
def test_matching_of_an_odd_number_leaves_one_class_over(q):
    left_over = []
    for seed in range(100):
        partner = coupled_labels(q, "matching", seed)
        assert (partner != np.arange(q)).all()
        unpaired = np.flatnonzero(partner[partner] != np.arange(q))
        assert len(unpaired) == 1
        left_over.extend(unpaired)
    assert set(left_over) == set(range(q))


def test_all_matchings_are_equally_likely():
    partners = [coupled_labels(4, "matching", seed)[0] for seed in range(600)]
    assert_frequencies(np.bincount(partners, minlength=4), [0, 1, 1, 1])


def test_draw_subsets():
    random = np.random.RandomState(0)
    assert draw_subsets(3, 4, 0, random).shape == (3, 0)
    assert draw_subsets(0, 4, 2, random).shape == (0, 2)
    assert (np.sort(draw_subsets(50, 9, 9, random), axis=1) == np.arange(9)).all()
    subsets = np.sort(draw_subsets(N, 6, 3, random), axis=1)
    found, counts = np.unique(subsets, axis=0, return_counts=True)
    assert found.tolist() == [list(subset) for subset in itertools.combinations(range(6), 3)]
    assert_frequencies(counts, np.ones(20))


# Seeds


@pytest.mark.parametrize(
    "options",
    [
        {"p": 0.5, "r": 2},
        {"epsilon": 0.5},
        {"epsilon": 0.5, "coupling": "matching"},
        {"p": 0.5, "r": 2, "noise": "instance", "X": np.arange(200.0)[:, None] % 7},
    ],
    ids=lambda options: "-".join(options),
)
def test_seeds(options):
    y = np.arange(200) % 5
    first = make_partial_labels(y, **options, random_state=0)
    np.testing.assert_array_equal(make_partial_labels(y, **options, random_state=0), first)
    assert (make_partial_labels(y, **options, random_state=1) != first).any()
    random = np.random.RandomState(0)
    np.testing.assert_array_equal(make_partial_labels(y, **options, random_state=random), first)
    assert (make_partial_labels(y, **options, random_state=random) != first).any()
    as_sparse = make_partial_labels(y, **options, random_state=0, sparse_output=True)
    np.testing.assert_array_equal(as_sparse.toarray(), first)


# Forms of labels and of the result


def test_columns_belong_to_the_classes():
    y = np.array(["owl", "cat", "owl"])
    assert make_partial_labels(y, p=0).tolist() == [[False, True], [True, False], [False, True]]
    classes = ["owl", "dog", "cat"]
    Y = make_partial_labels(y, p=0, classes=classes)
    assert Y.astype(int).tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]
    Y = make_partial_labels(y, p=1, r=2, classes=classes)
    assert Y.all()


@pytest.mark.parametrize(
    "form", [list, tuple, np.array, pd.Series, lambda y: np.array(y, object), pd.Categorical]
)
@pytest.mark.parametrize("labels", [["b", "a", "c"], [3, 7, 5], [1.0, 2.0, 0.0]])
def test_forms_of_labels(form, labels):
    y = [labels[i] for i in (0, 1, 2, 0, 1)]
    expected = make_partial_labels(np.array(y), p=0.6, random_state=0)
    found = make_partial_labels(form(y), p=0.6, random_state=0)
    np.testing.assert_array_equal(found, expected)


def test_sparse_output():
    Y = make_partial_labels([2, 0, 1, 1], p=1, r=1, sparse_output=True, random_state=0)
    assert isinstance(Y, sparse.csr_array)
    assert Y.dtype == np.bool_
    assert Y.has_canonical_format
    assert Y.data.all()


def test_sparse_output_makes_no_dense_matrix():
    n, q = 20_000, 10_000  # 200 MB as a dense matrix
    y = np.arange(n) % q
    tracemalloc.start()
    try:
        for options in ({"p": 1, "r": 3}, {"epsilon": 0.5}):
            make_partial_labels(y, **options, sparse_output=True, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 15e6


def test_mark_candidates():
    for sparse_output in (False, True):
        Y = mark_candidates(
            np.array([1, 0]), np.array([0, 0]), np.array([3, 0]), 4, sparse_output=sparse_output
        )
        assert sparse.issparse(Y) == sparse_output
        dense = Y.toarray() if sparse_output else Y
        assert dense.astype(int).tolist() == [[1, 1, 0, 1], [1, 0, 0, 0]]


# Confusable labels


def test_instance_noise_has_the_probabilities_of_the_posterior():
    table = np.array([[0.4, 0.3, 0.2, 0.1], [0.0, 0.5, 0.1, 0.4]])
    kind = np.arange(N) % 2
    y = np.arange(N) // 2 % 4
    options = {"noise": "instance", "X": kind[:, None], "estimator": Posterior(table)}
    Y = make_partial_labels(y, p=1, r=1, **options, random_state=0)
    drawn = false_labels(Y, y)[:, 0]
    for which, label in itertools.product(range(2), range(4)):
        probabilities = table[which].copy()
        probabilities[label] = 0
        found = drawn[(kind == which) & (y == label)]
        assert_frequencies(np.bincount(found, minlength=4), probabilities)


def test_instance_noise_draws_without_replacement():
    weights = np.array([0.0, 0.6, 0.3, 0.1])
    y = np.zeros(N, int)
    y[:3] = 1, 2, 3  # so that all classes are known
    options = {"noise": "instance", "X": np.zeros((N, 1)), "estimator": Posterior([weights])}
    Y = make_partial_labels(y, p=1, r=2, **options, random_state=0)
    pairs, counts = np.unique(false_labels(Y, y)[3:], axis=0, return_counts=True)
    probabilities = [
        weights[a] * weights[b] / (1 - weights[a]) + weights[b] * weights[a] / (1 - weights[b])
        for a, b in pairs
    ]
    assert np.isclose(sum(probabilities), 1)
    assert_frequencies(counts, probabilities)


def test_labels_with_posterior_zero_come_last_and_are_equally_likely():
    # Only classes 1 and 3 of 0 to 5 occur; rows of class 1 have 3 as the only likely false label.
    y = np.where(np.arange(N) % 2, 3, 1)
    tiny = np.finfo(float).smallest_subnormal
    options = {"noise": "instance", "X": np.zeros((N, 1)), "classes": range(6)}
    table = [[1 - tiny, tiny]]
    Y = make_partial_labels(y, p=1, r=1, **options, estimator=Posterior(table), random_state=0)
    assert Y[:, [1, 3]].all()
    Y = make_partial_labels(y, p=1, r=2, **options, estimator=Posterior(table), random_state=0)
    assert Y[:, [1, 3]].all()
    assert_frequencies(Y[:, [0, 2, 4, 5]].sum(axis=0), np.ones(4))


def test_instance_noise_keeps_the_numbers():
    X, y = load_iris(return_X_y=True)
    for r in (1, 2):
        Y = make_partial_labels(y, p=0.3, r=r, noise="instance", X=X, random_state=0)
        assert Y[np.arange(150), y].all()
        assert np.bincount(Y.sum(axis=1)).tolist() == [0, 105, *[0] * (r - 1), 45]


def test_default_estimator_finds_what_is_confusable():
    X, y = load_iris(return_X_y=True)
    Y = make_partial_labels(y, p=1, noise="instance", X=X, random_state=0)
    # Virginica looks like versicolor, and never like setosa.
    assert Y[y == 2, 1].mean() > 0.95
    as_sparse = make_partial_labels(y, p=1, noise="instance", X=sparse.csr_array(X), random_state=0)
    assert as_sparse[y == 2, 1].mean() > 0.95


def test_estimator_of_the_user_is_cloned():
    X, y = load_iris(as_frame=True, return_X_y=True)
    names = pd.Series(["setosa", "versicolor", "virginica"])[y].to_numpy()
    estimator = make_pipeline(StandardScaler(), KNeighborsClassifier(15))
    options = {"noise": "instance", "X": X, "estimator": estimator, "random_state": 0}
    Y = make_partial_labels(names, p=0.5, **options)
    assert not hasattr(estimator, "classes_")
    numbers = make_partial_labels(y, p=0.5, **options)
    np.testing.assert_array_equal(Y, numbers)
    order = ["virginica", "setosa", "versicolor"]
    moved = make_partial_labels(names, p=1, r=2, classes=order, **options)
    assert moved.all()
    moved = make_partial_labels(names, p=0, classes=order, **options)
    np.testing.assert_array_equal(moved.argmax(axis=1), np.array([1, 2, 0])[y])


def test_blocks_make_no_difference(monkeypatch):
    X, y = load_iris(return_X_y=True)
    options = {"p": 0.8, "r": 1, "noise": "instance", "X": X, "random_state": 0}
    options["estimator"] = KNeighborsClassifier(15)
    expected = make_partial_labels(y, **options)
    monkeypatch.setattr(partial_labels, "_BLOCK_ENTRIES", 22)
    np.testing.assert_array_equal(make_partial_labels(y, **options), expected)


def test_threads_make_no_difference():
    X, y = load_iris(return_X_y=True)
    options = {"p": 1, "r": 1, "noise": "instance", "X": X, "random_state": 0}
    expected = make_partial_labels(y, **options)
    with threads(1):
        np.testing.assert_array_equal(make_partial_labels(y, **options), expected)


def test_posteriors_that_make_no_sense():
    options = {"p": 1, "noise": "instance", "X": np.arange(3)[:, None], "random_state": 0}
    for wrong in (np.nan, -0.1):
        table = np.full((3, 3), 1 / 3)
        table[1, 2] = wrong
        with pytest.raises(ValueError, match=r"returned NaN or a negative number for row 1 of X"):
            make_partial_labels([0, 1, 2], **options, estimator=Posterior(table))
    with pytest.raises(ValueError, match=r"shape \(3, 2\) for 3 rows and 3 classes"):
        make_partial_labels([0, 1, 2], **options, estimator=Posterior(np.ones((3, 2))))


def test_missing_features():
    X, y = load_iris(return_X_y=True)
    X[5, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        make_partial_labels(y, p=1, noise="instance", X=X)


# Mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^give p, .*, or epsilon"),
        ({"p": -0.1}, r"p must be from 0 to 1, got -0\.1"),
        ({"p": 1.5}, r"p must be from 0 to 1, got 1\.5"),
        ({"p": np.nan}, r"p must be from 0 to 1, got nan"),
        ({"p": 0.5, "r": 0}, r"r must be at least 1, got 0"),
        ({"p": 0.5, "r": 4}, r"r must be at most 3, as there are 4 classes; got 4"),
        ({"epsilon": 1.1}, r"epsilon must be from 0 to 1, got 1\.1"),
        ({"epsilon": 0.5, "p": 0.9}, r"epsilon implies p=1 and r=1, got p=0\.9 and r=1"),
        ({"epsilon": 0.5, "r": 2}, r"epsilon implies p=1 and r=1, got p=None and r=2"),
        ({"epsilon": 0.5, "noise": "instance", "X": np.eye(4)}, r"cannot be combined"),
        ({"p": 0.5, "coupling": "matching"}, r"coupling='matching' needs epsilon"),
        ({"p": 0.5, "coupling": "pairs"}, r"coupling must be .* got 'pairs'"),
        ({"p": 0.5, "noise": "some"}, r"noise must be 'uniform' or 'instance', got 'some'"),
        ({"p": 0.5, "noise": "instance"}, r"needs the features X"),
        ({"p": 0.5, "X": np.eye(4)}, r"noise='instance' only"),
        ({"p": 0.5, "estimator": KNeighborsClassifier()}, r"noise='instance' only"),
        ({"p": 0.5, "noise": "instance", "X": np.eye(3)}, r"numbers of samples: \[3, 4\]"),
        ({"p": 0.5, "classes": [0, 1, 2]}, r"row 3 has the label 3, which is none of the 3"),
    ],
)
def test_wrong_values(options, message):
    with pytest.raises(ValueError, match=message):
        make_partial_labels(np.arange(4), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": "half"}, r"p must be a number from 0 to 1, got 'half'"),
        ({"p": True}, r"p must be a number from 0 to 1, got True"),
        ({"p": 0.5, "r": 1.5}, r"r must be an integer, got 1\.5"),
        ({"p": 0.5, "r": True}, r"r must be an integer, got True"),
        ({"epsilon": [0.5]}, r"epsilon must be a number from 0 to 1"),
        (
            {"p": 0.5, "noise": "instance", "X": np.eye(4), "estimator": Perceptron()},
            r"must have a method predict_proba, which Perceptron\(\) has not",
        ),
    ],
)
def test_wrong_types(options, message):
    with pytest.raises(TypeError, match=message):
        make_partial_labels(np.arange(4), **options)


def test_epsilon_may_come_with_what_it_implies():
    y = np.arange(6) % 3
    expected = make_partial_labels(y, epsilon=0.5, random_state=0)
    np.testing.assert_array_equal(
        make_partial_labels(y, epsilon=0.5, p=1.0, r=1, random_state=0), expected
    )


def test_too_few_classes():
    with pytest.raises(ValueError, match="epsilon needs at least 3 classes, got 2"):
        make_partial_labels([0, 1], epsilon=0.5)
    with pytest.raises(ValueError, match="r must be at most 0, as there are 1 classes"):
        make_partial_labels([0, 0], p=0.5)


@pytest.mark.parametrize("y", [np.eye(3), sparse.csr_array(np.eye(3)), np.zeros((3, 1))])
def test_truth_is_one_dimensional(y):
    with pytest.raises(ValueError, match=r"y must be 1-d, .* got the shape \(3, [13]\)"):
        make_partial_labels(y, p=0.5)


def test_truth_is_one_label_per_row():
    with pytest.raises(ValueError, match="but row 1 has several"):
        make_partial_labels([{"a"}, {"a", "b"}], p=0.5)
    with pytest.raises(ValueError, match="NaN"):
        make_partial_labels([0.0, np.nan], p=0.5)

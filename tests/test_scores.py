"""Scores without truth: against loops over rows, in every form, inside scikit-learn's searches."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from problems import clusters
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from strategies import candidate_matrices, seeds

from hera_fast import HERAClassifier
from hera_fast.scores import MEASURES, candidate_lift, candidate_log_loss, candidate_score

SCORERS = [candidate_score, candidate_lift, candidate_log_loss]
each_scorer = pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: scorer.__name__)
ANIMALS = np.array(["cat", "dog", "owl"])

X, Y, y = clusters(60, 4, 3, noise=0.6)
MODEL = HERAClassifier(n_neighbors=3)


def label_sets(matrix, labels):
    return [{labels[j] for j in np.flatnonzero(row)} for row in matrix]


def fitted(probabilities, classes):
    """A classifier whose rows are numbers of rows of these probabilities."""
    classes = np.asarray(classes)
    return SimpleNamespace(
        classes_=classes,
        predict=lambda rows: classes[probabilities[rows].argmax(axis=1)],
        predict_proba=lambda rows: probabilities[rows],
    )


def naive_score(estimator, rows, sets, weights):
    hits = [
        w * (label in labels)
        for w, label, labels in zip(weights, estimator.predict(rows), sets, strict=True)
    ]
    return sum(hits) / sum(weights)


def naive_lift(estimator, rows, sets, weights):
    """Compare the candidates of a row with those of every row, also itself."""
    total = 0.0
    for w, label, own in zip(weights, estimator.predict(rows), sets, strict=True):
        for other_w, other in zip(weights, sets, strict=True):
            total += w * other_w * (float(label in own) - float(label in other))
    return total / sum(weights) ** 2


def naive_log_loss(estimator, rows, sets, weights):
    total = 0.0
    for w, row, labels in zip(weights, estimator.predict_proba(rows), sets, strict=True):
        mass = sum(
            p for p, label in zip(row, estimator.classes_.tolist(), strict=True) if label in labels
        )
        total += w * math.log(min(max(mass, 1e-15), 1.0))
    return total / sum(weights)


@st.composite
def scored_rows(draw):
    n, q = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    matrix = draw(candidate_matrices(n, q))
    rng = np.random.default_rng(draw(seeds))
    scores = draw(st.sampled_from([0.0, 1.0, 50.0])) * rng.standard_normal((n, q))
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    weights = rng.integers(1, 4, n) if draw(st.booleans()) else None
    return matrix, probabilities, weights


@given(scored_rows())
def test_loops_over_rows_say_the_same(problem):
    matrix, probabilities, weights = problem
    n, q = matrix.shape
    estimator = fitted(probabilities, [f"label {j}" for j in range(q)])
    sets = label_sets(matrix, estimator.classes_.tolist())
    plain = np.ones(n) if weights is None else weights
    rows = np.arange(n)
    score = candidate_score(estimator, rows, sets, sample_weight=weights)
    loss = candidate_log_loss(estimator, rows, sets, sample_weight=weights)
    assert score == pytest.approx(naive_score(estimator, rows, sets, plain), abs=1e-12)
    assert loss == pytest.approx(naive_log_loss(estimator, rows, sets, plain), abs=1e-12)
    lift = candidate_lift(estimator, rows, sets, sample_weight=weights)
    assert lift == pytest.approx(naive_lift(estimator, rows, sets, plain), abs=1e-12)
    assert 0 <= score <= 1
    assert -1 <= lift <= 1
    assert math.log(1e-15) <= loss <= 0
    best = probabilities.argmax(axis=1)
    for scorer, value in ((candidate_score, score), (candidate_lift, lift)):
        for form in (matrix, sparse.csr_array(matrix)):
            measured = MEASURES[scorer.__name__](best, probabilities, form, weights)
            assert measured == pytest.approx(value, abs=1e-12)
    for form in (matrix, sparse.csr_array(matrix)):
        measured = MEASURES["candidate_log_loss"](best, probabilities, form, weights)
        assert measured == pytest.approx(loss, abs=1e-12)
    assert (type(score), type(loss)) == (float, float)


@each_scorer
def test_a_weight_counts_copies(scorer):
    model = MODEL.fit(X, Y)
    copies = np.random.default_rng(0).integers(0, 4, len(X))
    repeated = scorer(model, np.repeat(X, copies, axis=0), np.repeat(Y, copies, axis=0))
    assert scorer(model, X, Y, sample_weight=copies) == pytest.approx(repeated, rel=1e-12)
    with pytest.raises(ValueError, match="sample_weight"):
        scorer(model, X, Y, sample_weight=copies[1:])


@each_scorer
def test_every_form_of_candidates(scorer):
    pandas = pytest.importorskip("pandas")
    sets = label_sets(Y, ANIMALS)
    model = MODEL.fit(X, sets)
    expected = scorer(model, X, sets)
    frame = pandas.DataFrame(Y[:, [2, 0, 1]], columns=ANIMALS[[2, 0, 1]])
    forms = [
        Y,
        Y.astype(np.uint8),
        sparse.csr_array(Y),
        sparse.coo_matrix(Y.astype(float)),
        [sorted(row) for row in sets],
        pandas.Series(sets),
        frame,
    ]
    for form in forms:
        assert scorer(model, X, form) == pytest.approx(expected, rel=1e-12)
    truth = ANIMALS[y]
    assert scorer(model, X, truth) == scorer(model, X, np.eye(3)[y])
    assert candidate_score(model, X, truth) == model.score(X, truth)
    assert candidate_score(model, X, sets) == model.score(X, sets)


def test_labels_that_the_estimator_does_not_know():
    probabilities = np.array([[0.75, 0.25], [0.0, 1.0]])
    estimator = fitted(probabilities, ["cat", "dog"])
    known = [{"cat", "cow"}, {"cow"}]
    assert candidate_score(estimator, [0, 1], known) == 0.5
    expected = (math.log(0.75) + math.log(1e-15)) / 2
    assert candidate_log_loss(estimator, [0, 1], known) == pytest.approx(expected)
    assert candidate_score(estimator, [0, 1], [set(), {"dog"}]) == 0.5
    assert candidate_score(estimator, [0, 1], np.array([[0, 0], [0, 1]])) == 0.5


@each_scorer
def test_no_label_that_the_estimator_knows(scorer):
    estimator = fitted(np.eye(2), ["cat", "dog"])
    with pytest.warns(UserWarning, match=r"begin with .*cat.* as they were given to fit") as caught:
        worst = scorer(estimator, [0, 1], [{0}, {1}])
    assert worst == pytest.approx(math.log(1e-15) if scorer is candidate_log_loss else 0)
    assert caught[0].filename == __file__


def test_rounded_probabilities_never_make_the_logarithm_positive():
    probabilities = np.full((1, 10), 0.1, np.float32)
    probabilities[0, 0] = np.nextafter(probabilities[0, 0], np.float32(1))
    estimator = fitted(probabilities, range(10))
    assert probabilities.astype(float).sum() > 1
    assert candidate_log_loss(estimator, [0], np.ones((1, 10))) == 0


def test_classifiers_of_scikit_learn():
    labels = ANIMALS[y]
    model = LogisticRegression().fit(X, labels)
    assert candidate_score(model, X, labels) == model.score(X, labels)
    everything = np.ones((len(X), 3))
    assert candidate_score(model, X, everything) == 1
    assert candidate_log_loss(model, X, everything) == pytest.approx(0, abs=1e-12)


def test_estimators_that_do_not_fit():
    machine = LinearSVC().fit(X, y)
    assert candidate_score(machine, X, y) == machine.score(X, y)
    with pytest.raises(TypeError, match=r"LinearSVC has no predict_proba.*use candidate_score"):
        candidate_log_loss(machine, X, y)
    many = KNeighborsClassifier().fit(X, Y.astype(int))
    with pytest.raises(ValueError, match=r"KNeighborsClassifier.predict.*\(60, 3\).*multi-label"):
        candidate_score(many, X, Y)
    with pytest.raises(ValueError, match="59 rows of candidates for 60 rows"):
        candidate_score(machine, X, Y[1:])


@each_scorer
@pytest.mark.parametrize("candidates", [Y, sparse.csr_matrix(Y), label_sets(Y, ANIMALS)], ids=type)
def test_searches(scorer, candidates):
    pipeline = make_pipeline(StandardScaler(), MODEL)
    grid = {"heraclassifier__prediction": ["linear", "hybrid"]}
    cv = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, grid, scoring=scorer, cv=cv).fit(X, candidates)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    chosen = RandomizedSearchCV(pipeline, grid, n_iter=2, scoring=scorer, cv=cv, random_state=0)
    chosen.fit(X, candidates)
    assert chosen.best_params_ == search.best_params_
    assert chosen.score(X, candidates) == scorer(chosen, X, candidates)
    assert scorer(search, X, candidates) == scorer(search.best_estimator_, X, candidates)
    # Of these, only the searches take a sparse matrix for y.
    dense = Y if sparse.issparse(candidates) else candidates
    splits = cross_val_score(search.best_estimator_, X, dense, scoring=scorer, cv=cv)
    assert splits.mean() == pytest.approx(search.best_score_, rel=1e-12)


@pytest.mark.parametrize("routing", [False, True])
def test_several_scorers_at_once(routing):
    scoring = {"covering": candidate_score, "log_loss": candidate_log_loss}
    with sklearn.config_context(enable_metadata_routing=routing):
        scores = cross_validate(MODEL, X, Y, cv=3, scoring=scoring, params={})
    for name, scorer in scoring.items():
        alone = cross_val_score(MODEL, X, Y, cv=3, scoring=scorer)
        np.testing.assert_array_equal(scores[f"test_{name}"], alone)


@each_scorer
def test_a_fold_with_labels_that_the_others_lack(scorer):
    rows = [[0.0], [0.1], [1.0], [1.1], [5.0], [5.1]]
    sets = [{"a", "b"}, {"a"}, {"b", "a"}, {"b"}, {"c", "b"}, {"c"}]
    folds = [([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1])]
    scores = cross_val_score(HERAClassifier(n_neighbors=1), rows, sets, cv=folds, scoring=scorer)
    assert np.isfinite(scores).all()
    if scorer is candidate_score:
        assert scores.tolist() == [0.5, 0.5]

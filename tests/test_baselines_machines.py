from __future__ import annotations

import numpy as np
import pytest
import sklearn
from problems import clusters
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from hera_fast.baselines.machines import (
    estimator_scores,
    fit_estimators,
    fit_kernel_map,
    fit_machines,
    kernel_features,
)
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

X, _, Y = clusters(60, 4, 3)
# Each label against the others; one machine without rows, one with a single sign.
OFFSETS = np.array([0, 60, 120, 180, 180, 182])
ROWS = np.concatenate([np.arange(60), np.arange(60)[::-1], np.arange(60), [0, 1]])
SIGNS = np.concatenate([np.where(Y == 0, 1, -1), np.where(Y[::-1] == 1, 1, -1)])
SIGNS = np.concatenate([SIGNS, np.where(Y == 2, 1, -1), [1, 1]]).astype(float)


def exact_scores(C=10.0, gamma=0.1, **changes):
    options = {"n_components": 60, "random_state": 0} | changes
    features = kernel_features(fit_kernel_map(X, gamma=gamma, **options), X)
    coef, n_iter = fit_machines(features, OFFSETS, ROWS, SIGNS, C=C, tol=1e-6, max_iter=10_000)
    return features @ coef.T, n_iter


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
@both_dtypes
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_gamma_is_that_of_scikit_learn(gamma, dtype, container):
    rows = container(X.astype(dtype))
    ref = SVC(gamma=gamma).fit(rows, Y)
    comp = fit_kernel_map(rows, gamma=gamma, n_components=5, random_state=0)
    assert comp.gamma == pytest.approx(ref._gamma, rel=1e-5)


def test_gamma_of_equal_entries():
    rows = np.full((4, 2), 3.0)
    assert fit_kernel_map(rows, gamma="scale", n_components=2, random_state=0).gamma == 0.5


def test_gamma_of_the_median():
    rows = np.array([[0.0], [2.0]])
    assert fit_kernel_map(rows, gamma="median", n_components=2, random_state=0).gamma == 0.25


@both_dtypes
def test_features_are_those_of_the_kernel_and_a_constant(dtype):
    rows = X.astype(dtype)
    features = kernel_features(
        fit_kernel_map(rows, gamma=0.5, n_components=60, random_state=0), rows
    )
    assert features.dtype == dtype
    assert features.flags.c_contiguous
    squares = ((X[:, np.newaxis] - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(features @ features.T - 1, np.exp(-0.5 * squares), atol=1e-4)


def test_machines_solve_the_kernel_problem():
    """With the kernel matrix itself, without any features."""
    scores, n_iter = exact_scores(C=2.0)
    assert (n_iter > 0).tolist() == [True, True, True, False, False]
    squares = ((X[:, np.newaxis] - X) ** 2).sum(axis=2)
    K = np.exp(-0.1 * squares) + 1
    signs = SIGNS[:60]
    # At the minimum the function is sum_i a_i s_i k(x_i, x), with a_i twice C times the loss.
    duals = 2 * 2.0 * np.maximum(1 - signs * scores[:, 0], 0)
    np.testing.assert_allclose(K @ (duals * signs), scores[:, 0], atol=1e-3)


def test_machines_are_close_to_support_vector_machines():
    scores, _ = exact_scores()
    for k in range(3):
        entries = slice(OFFSETS[k], OFFSETS[k + 1])
        ref = SVC(C=10.0, gamma=0.1).fit(X[ROWS[entries]], SIGNS[entries]).decision_function(X)
        assert ((ref > 0) == (scores[:, k] > 0)).mean() > 0.95
        assert np.corrcoef(ref, scores[:, k])[0, 1] > 0.95


def test_scores_of_machines_with_one_side_are_zero():
    scores, _ = exact_scores()
    assert (scores[:, 3:] == 0).all()


class NearestMean(ClassifierMixin, BaseEstimator):
    """Has predictions and nothing else."""

    def fit(self, X, y):
        self.means_ = [X[y == sign].mean(axis=0) for sign in (-1, 1)]
        return self

    def predict(self, X):
        distances = [((X - mean) ** 2).sum(axis=1) for mean in self.means_]
        return np.where(distances[1] < distances[0], 1, -1)


CLASSIFIERS = {
    "decision function": LinearSVC(C=0.1),
    "kernel": SVC(),
    "logistic": LogisticRegression(),
    "probabilities": DecisionTreeClassifier(max_depth=2),
    "forest": RandomForestClassifier(5),
    "predictions": NearestMean(),
    "pipeline": make_pipeline(StandardScaler(), SVC()),
}
each_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS.values(), ids=CLASSIFIERS)


def fitted(classifier, rows=X, seed=0):
    random_state = np.random.RandomState(seed)
    return fit_estimators(classifier, rows, OFFSETS, ROWS, SIGNS, random_state=random_state)


@each_classifier
def test_classifiers_of_users(classifier):
    estimators = fitted(classifier)
    assert estimators[3:] == [None, None]
    scores = estimator_scores(estimators, X)
    assert scores.shape == (60, 5)
    assert (scores[:, 3:] == 0).all()
    for k in range(3):
        np.testing.assert_array_equal(
            np.where(scores[:, k] > 0, 1, -1), estimators[k].predict(X), err_msg=str(k)
        )
        assert ((scores[:, k] > 0) == (k == Y)).mean() > 0.75
    assert not hasattr(classifier, "classes_")


@each_classifier
def test_the_number_of_threads_changes_no_bit(classifier):
    results = []
    for n_threads in (1, None):
        with threads(n_threads):
            results.append(estimator_scores(fitted(classifier), X))
    assert results[0].tobytes() == results[1].tobytes()


def test_scores_are_what_the_classifier_has():
    tree = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, np.where(Y == 0, 1, -1))
    p = tree.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(estimator_scores([tree], X)[:, 0], 2 * p - 1)
    svc = SVC().fit(X, np.where(Y == 0, 1, -1))
    np.testing.assert_array_equal(estimator_scores([svc], X)[:, 0], svc.decision_function(X))


@both_dtypes
def test_sparse_rows_and_precision(dtype):
    rows = sparse.csr_array(X.astype(dtype))
    scores = estimator_scores(fitted(LinearSVC(), rows), rows)
    assert scores.dtype == dtype
    ref = estimator_scores(fitted(LinearSVC(), rows.toarray()), rows.toarray())
    np.testing.assert_allclose(scores, ref, atol=1e-3)


def test_seeds():
    """Each copy has its own, the same in every run, whatever the classifier's own seed is."""
    first = fitted(make_pipeline(StandardScaler(), LinearSVC(random_state=7)))[:3]
    again = fitted(make_pipeline(StandardScaler(), LinearSVC()))[:3]
    other = fitted(make_pipeline(StandardScaler(), LinearSVC()), seed=1)[:3]
    seeds = [
        [model.get_params()["linearsvc__random_state"] for model in models]
        for models in (first, again, other)
    ]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0] + seeds[2])) == 6


class Witness(ClassifierMixin, BaseEstimator):
    """Notes what scikit-learn is set to while it is fitted."""

    def fit(self, X, y):
        self.setting_ = sklearn.get_config()["assume_finite"]
        return self

    def predict(self, X):
        return np.ones(X.shape[0])


def test_settings_of_scikit_learn_hold_on_all_threads():
    with sklearn.config_context(assume_finite=True):
        assert all(model.setting_ for model in fitted(Witness())[:3])
    assert not any(model.setting_ for model in fitted(Witness())[:3])


def test_errors_of_classifiers_arrive():
    with pytest.raises(ValueError, match="C"):
        fitted(LinearSVC(C=-1.0))

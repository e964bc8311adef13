"""Small partial-label classifiers that take a matrix of candidates, for tests of evaluations."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression


class AverageLogistic(ClassifierMixin, BaseEstimator):
    """Logistic regression on every candidate; those of a row share its weight.

    It knows only labels that are somebody's candidate, and picks nothing for the training rows.
    """

    def fit(self, X, Y):
        rows, labels = np.nonzero(Y)
        weights = 1 / Y.sum(axis=1)
        self.model_ = LogisticRegression().fit(X[rows], labels, sample_weight=weights[rows])
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class Constant(ClassifierMixin, BaseEstimator):
    """Always the same label, and no scores."""

    def __init__(self, label=0):
        self.label = label

    def fit(self, X, Y):
        self.classes_ = np.arange(Y.shape[1])
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.label)


class Scored(Constant):
    """Scores that are the features of a row, as a decision function."""

    def predict(self, X):
        return self.classes_[np.asarray(X).argmax(axis=1)]

    def decision_function(self, X):
        X = np.asarray(X)
        return X[:, 1] - X[:, 0] if len(self.classes_) == 2 else X

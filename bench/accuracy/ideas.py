"""What was tried and is not part of the default, measured like its ingredients.

    HERA_FAST_DATA=folder python bench/accuracy/ideas.py

The sets, folds and candidates of ``ablation.py``. Takes about a quarter of an hour on two
processors.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from study import print_versions
from variants import DEFAULT, Variant, measure, print_changes

from hera_fast import kernel_maps, mixture, solver

SEED = 2000
N_BAGS = 3
N_NEIGHBORS = 10
LANDMARKS = kernel_maps._landmarks
SET_SHRINKAGE = mixture._Discriminant.set_shrinkage


class _Labels(ClassifierMixin, BaseEstimator):
    """Predicts the label with the largest probability."""

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


class Bagged(_Labels):
    """Mean probabilities of models that each count the rows at random."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, Y):
        self.classes_ = np.arange(Y.shape[1])
        self.models_ = []
        for bag in range(N_BAGS):
            drawn = np.random.default_rng(bag).integers(0, len(X), len(X))
            weight = np.bincount(drawn, minlength=len(X)).astype(float)
            model = clone(self.estimator).set_params(random_state=bag)
            self.models_.append(model.fit(X, Y, sample_weight=weight))
        return self

    def predict_proba(self, X):
        return np.mean([model.predict_proba(X) for model in self.models_], axis=0)


class Distilled(_Labels):
    """Fitted a second time, to the labels that the first fit picked."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, Y):
        self.classes_ = np.arange(Y.shape[1])
        picked = clone(self.estimator).fit(X, Y).transduction_
        self.model_ = clone(self.estimator).fit(X, self.classes_ == picked[:, np.newaxis])
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class SoftmaxLink(_Labels):
    """Confidences and a logistic regression on them, in turn."""

    def __init__(self, estimator, n_rounds=10):
        self.estimator = estimator
        self.n_rounds = n_rounds

    def fit(self, X, Y):
        self.classes_ = np.arange(Y.shape[1])
        rows, labels = np.nonzero(Y)
        P = Y / Y.sum(axis=1, keepdims=True)
        self.model_ = LogisticRegression(max_iter=100)
        for _ in range(self.n_rounds):
            self.model_.fit(X[rows], labels, sample_weight=P[rows, labels])
            P = np.maximum(self.predict_proba(X), 1e-12) * Y
            P /= P.sum(axis=1, keepdims=True)
        return self

    def predict_proba(self, X):
        out = np.zeros((len(X), len(self.classes_)))
        out[:, self.model_.classes_] = self.model_.predict_proba(X)
        return out


class Smoothed(mixture.Mixture):
    """Half of what a row believes is what its nearest rows believed before."""

    def __init__(self, features, Y, state=None):
        super().__init__(features, Y, state)
        rows = features[0].centred.X
        n_neighbors = min(N_NEIGHBORS, len(rows) - 1)
        self._neighbors = NearestNeighbors(n_neighbors=n_neighbors).fit(rows).kneighbors()[1]

    def update(self, P, Z):
        super().update(P, Z)
        near = P[self._neighbors].mean(axis=1) * self._Y
        near += 1e-3 * self._Y
        Z += near / near.sum(axis=1, keepdims=True)
        Z /= 2


def centres(X, numbers, n_components, random, rows):
    """K-means instead of random landmarks, where not all rows are landmarks."""
    if len(numbers) <= n_components:
        return LANDMARKS(X, numbers, n_components, random, rows)
    seed = random.randint(2**31 - 1)
    kmeans = MiniBatchKMeans(n_components, random_state=seed, n_init=1, max_iter=20)
    return kmeans.fit(X[numbers]).cluster_centers_, numbers[:n_components]


def oracle_approximating(self, shrinkage):
    """The shrinkage of Chen et al. (OAS) instead of a given one, relative to all variance."""
    s, d = self._values, len(self._values)
    square, spread = s.mean() ** 2, max(np.mean(s**2) - s.mean() ** 2, 1e-12 * np.mean(s**2))
    rho = min(1.0, (np.mean(s**2) + d * square) / ((self._n_rows + 1) * spread))
    SET_SHRINKAGE(self, rho / max(1 - rho, 1e-3) / d)


IDEAS = {
    "rows scaled to length 1": Variant(wrap=lambda model: make_pipeline(Normalizer(), model)),
    f"{N_BAGS} bags": Variant(wrap=Bagged),
    "fitted again to the labels picked": Variant(wrap=Distilled),
    "smoothed over neighbours": Variant(replaced=((solver, "Mixture", Smoothed),)),
    "k-means landmarks": Variant(replaced=((kernel_maps, "_landmarks", centres),)),
    "shrinkage by OAS": Variant(
        replaced=(
            (mixture._Discriminant, "set_shrinkage", oracle_approximating),
            (mixture, "STAGES", (1.0,)),
        )
    ),
    "drawn to one candidate, mu = 0.9": Variant({"mu": 0.9}),
    "features only": Variant({"kernel": None}),
    "features only, logistic regression": Variant(wrap=SoftmaxLink),
}


def main():
    print_changes("Ideas", measure({DEFAULT: Variant(), **IDEAS}, SEED))
    print_versions()


if __name__ == "__main__":
    main()

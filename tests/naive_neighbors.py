"""Plain NumPy twins of :mod:`hera_fast.kernels.neighbors`."""

from __future__ import annotations

import numpy as np


def squared_distances(x, points):
    """Sum the squared differences in float64, one feature after the other."""
    total = np.zeros(len(points))
    for feature in range(len(x)):
        difference = np.float64(x[feature]) - points[:, feature].astype(np.float64)
        total += difference * difference
    return total


def nearest_neighbors(queries, points, distances, indices):
    k = distances.shape[1]
    for i, x in enumerate(queries):
        found = squared_distances(x, points)
        order = np.argsort(found, kind="stable")[:k]
        distances[i], indices[i] = found[order], order


def self_neighbors(points, distances, indices):
    k = distances.shape[1]
    for i, x in enumerate(points):
        found = squared_distances(x, points)
        order = np.argsort(found, kind="stable")
        order = order[order != i][:k]
        distances[i], indices[i] = found[order], order


def neighbor_similarity(queries, points, indices, order, similarities):
    for i, x in enumerate(queries):
        group = np.vstack([points[indices[i]], x]).astype(np.float64) / 2
        differences = group[:, np.newaxis] - group
        unit = np.abs(differences).max() or 1.0
        squares = ((differences / unit) ** 2).sum(axis=2)
        distances = np.sqrt(squares)
        # Column 0 of the sorted rows is the point itself.
        sigma = np.sort(distances, axis=1)[:, order].mean()
        from_query = distances[-1, :-1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            weights = np.exp(-((from_query / sigma) ** 2))
        similarities[i] = np.where(from_query == 0, 1, weights)

"""Plain NumPy twin of ``hera_fast.mixture``: every row is left out by another regression."""

from __future__ import annotations

import naive_co_occurrence
import naive_held_out
import numpy as np


def total_variance(X, w):
    mean = w @ X / w.sum()
    return float((w @ (X - mean) ** 2).sum() / w.sum())


def ridge(X, w, P, penalty):
    """Minimise ``sum_i w_i |P_i - b - X_i B|^2 + penalty |B|^2`` over b and B; returns both.

    The intercept b is free, so that the origin of X does not matter.
    """
    d = X.shape[1]
    roots = np.sqrt(w)[:, np.newaxis]
    design = np.vstack(
        [roots * np.insert(X, 0, 1, axis=1), np.sqrt(penalty) * np.eye(d + 1)[1:]],
    )
    target = np.vstack([roots * P, np.zeros((d, P.shape[1]))])
    solution, *_ = np.linalg.lstsq(design, target, rcond=None)
    return solution[0], solution[1:]


def held_out_fits(X, w, P, shrinkage):
    """What the regression on all rows but one says about this row.

    Of a row with a weight above 1, one copy is left out; the others are there still. The penalty
    is the only thing that knows all rows.
    """
    # Without changing anything, this keeps the digits of rows that are far from the origin.
    X = X - w @ X / w.sum()
    penalty = w.sum() * shrinkage * total_variance(X, w)
    fits = np.empty(P.shape)
    for i in range(len(X)):
        others = w.copy()
        others[i] -= min(w[i], 1)
        b, B = ridge(X, others, P, penalty)
        fits[i] = b + X[i] @ B
    return fits


def link(explained, shares, least=1e-2):
    """The inverse of ``diag(shares) - explained``, made symmetric.

    Relative to the shares, its eigenvalues count as `least` at least.
    """
    roots = np.diag(np.sqrt(shares))
    residue = np.diag(shares) - (explained + explained.T) / 2
    relative = np.linalg.inv(roots) @ residue @ np.linalg.inv(roots)
    values, vectors = np.linalg.eigh((relative + relative.T) / 2)
    relative = vectors @ np.diag(np.maximum(values, least)) @ vectors.T
    return np.linalg.inv(roots @ relative @ roots)


def n_rows(w):
    """How many rows weights stand for: their sum, unless they are small."""
    return max(w.sum(), w.sum() ** 2 / (w**2).sum())


def scores(X, w, P, shrinkage, added=10.0):
    """Log-odds without the offsets. Every label has confidence.

    The means of the labels are those of their rows and of some `added` average rows, no more than
    labels have themselves on average; the most frequent label is as it would be without these.
    """
    shares = w @ P / w.sum()
    fits = held_out_fits(X, w, P, shrinkage) - shares
    explained = P.T @ (w[:, np.newaxis] * fits) / w.sum()
    rows = n_rows(w) * shares
    own = rows / (rows + min(added, rows.mean()))
    return fits @ link(explained, shares) * own / own.max()


def probabilities(values):
    values = np.exp(values - values.max(axis=1, keepdims=True))
    return values / values.sum(axis=1, keepdims=True)


def match_shares(values, w, shares, offset, n_steps=10):
    for _ in range(n_steps):
        offset = offset + np.log(shares / (w @ probabilities(values + offset) / w.sum()))
    return offset


def candidate_masses(values, Y, temperature):
    return (probabilities(temperature * values) * Y).sum(axis=1)


def log_mass(values, w, Y, temperature):
    return w @ np.log(candidate_masses(values, Y, temperature)) / w.sum()


def next_temperature(values, w, Y, temperature):
    parts = np.empty((len(Y), 3))
    naive_held_out.candidate_mass(values, np.zeros(Y.shape[1]), Y, temperature, parts)
    _, first, second = w @ parts / w.sum()
    # Derivatives by the logarithm of the temperature.
    slope, curvature = temperature * first, temperature**2 * second + temperature * first
    step = np.clip(-slope / curvature, -0.5, 0.5) if curvature < 0 else 0.5 * np.sign(slope)
    return float(np.clip(temperature * np.exp(step), 0.05, 3))


def likelihood(masses, row_weight, weights):
    return float(row_weight @ np.log(masses @ weights))


def mixing_weights(masses, row_weight, n_steps=15):
    n, n_members = masses.shape
    weights = np.full(n_members, 1 / n_members)
    for _ in range(n_steps):
        parts = masses * weights
        parts /= parts.sum(axis=1, keepdims=True)
        weights = np.array(
            [sum(row_weight[i] * parts[i, v] for i in range(n)) for v in range(n_members)]
        )
    return weights


def update(feature_sets, w, Y, P, shrinkage, offsets, temperatures):
    """One iteration: new confidences, offsets, temperatures, weights, and the log-likelihood."""
    row_weight, shares = w / w.sum(), w @ P / w.sum()
    members, masses = [], []
    for X, offset, temperature in zip(feature_sets, offsets, temperatures, strict=True):
        values = scores(X, w, P, shrinkage)
        offset = match_shares(values, w, shares, offset)
        values = values + offset
        masses.append(candidate_masses(values, Y, temperature))
        members.append((values, offset, next_temperature(values, w, Y, temperature)))
    masses = np.transpose(masses)
    weights = mixing_weights(masses, row_weight)
    Z = sum(
        weight * probabilities(values)
        for weight, (values, _, _) in zip(weights, members, strict=True)
    )
    pairs, labels = naive_co_occurrence.scores(Y, n_rows(w) * row_weight, P)
    naive_held_out.condition_on_candidates(Y, pairs, labels, Z)
    _, offsets, temperatures = zip(*members, strict=True)
    return Z, offsets, temperatures, weights, likelihood(masses, row_weight, weights)

"""The W step of the default: several discriminants, judged by rows that they have not seen.

A flexible model that is fitted to confidences agrees with them, false ones included. So the scores
of a row come from all rows but itself. For ridge regression on features F, centred and rotated so
that F'F/n is diagonal with entries s, that costs nothing:

    fits                    H = F (s + t)^-1 F'P / n
    without the row itself  H_i <- (H_i - h_i (P_i - pi)) / (1 - h_i),   pi the mean of P,
                            h_i = (1 + sum_k F_ik^2 / (s_k + t)) / n

A Gaussian discriminant with the covariance S + t I is a linear map of such fits. Its log-odds are
H (diag(pi) - P'H/n)^-1, here with the held-out fits, plus an offset for each label. The offsets
are such that the mean probability of each label is its share pi. The mean of a rare label is known
badly: its log-odds are those of a mean to which a few average rows contribute, relative to what
these do to the most frequent label.

There is a discriminant for each kernel. The mixture gives them the weights, and each of them the
temperature, with which the candidates are most likely:

    maximise  sum_i log sum_v weight_v sum_{j in S_i} softmax(temperature_v * log-odds_v)_ij

The shrinkage t falls in stages, each of which begins with the confidences of the one before: first
the coarse structure decides, then the fine one. What is coarse depends on the number of rows. The
stage with the largest likelihood remains.
The confidences are the probabilities of the mixture given the candidates of the row, at
temperature 1: :mod:`hera_fast.co_occurrence` has its say there. The temperatures are for new rows.

A row's scores do not depend on its own confidence, but by way of the other rows' confidences they
do depend on earlier ones of its own. Only the first likelihood is that of rows never seen; the
later ones are too large, and serve for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from hera_fast.co_occurrence import CoOccurrence
from hera_fast.features import Features, make_features
from hera_fast.kernels import (
    candidate_mass,
    condition_on_candidates,
    held_out_scores,
    softmax,
)
from hera_fast.models import Member, Support
from hera_fast.products import (
    column_sums,
    cross_product,
    each_block,
    multiply_rows,
    sum_blocks,
)
from hera_fast.threads import on_threads

__all__ = ["Mixture", "MixtureState"]

_Array = np.ndarray[Any, Any]

#: Shrinkage of the first stage, in rows: divided by the number of rows it is the part of the
#: variance of all features together that is added to that of each.
FIRST_SHRINKAGE = 20.0
#: With few rows it is this part.
LARGEST_SHRINKAGE = 0.03
#: Shrinkage of the stages, relative to that of the first.
STAGES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)
#: Most iterations of the first stage, which begins with nothing, and of the others.
FIRST_ITERATIONS, ITERATIONS = 10, 4
#: A stage ends when the log-likelihood changes by no more, relative to its size.
TOLERANCE = 5e-3
#: The shrinkage falls until that has not helped this many times.
PATIENCE = 2

# As many average rows are added to the rows of each label, but no more than labels have on average.
_COMMON_ROWS = 10.0
# Share of a label that has lost all confidence: it can come back.
_LEAST_SHARE = 1e-6
# Part of a label that the fits leave unexplained at least, or log-odds would have no bounds.
_LEAST_RESIDUE = 1e-2
# A row that decides alone about its fit has nothing else to be judged by.
_LARGEST_LEVERAGE = 0.999
_SHARE_STEPS = 10
_WEIGHT_STEPS = 15
_COLDEST, _HOTTEST = 0.05, 3.0
_LARGEST_STEP = 0.5
_RATIOS = (1e-3, 1e3)
_LEAST_LOG = -700.0


class _Fit(NamedTuple):
    """What a stage ended with."""

    stage: int
    likelihood: float
    P: _Array
    members: tuple[Member, ...]


@dataclass
class MixtureState:
    """How far a mixture is; all that another run needs to go on beside the confidences."""

    stage: int = 0
    iterations: int = 0
    failures: int = 0
    likelihood: float = -math.inf
    offsets: tuple[_Array, ...] = ()
    temperatures: tuple[float, ...] = ()
    best: _Fit | None = None


class Mixture:
    """Probabilities of a mixture of discriminants, given the candidates.

    Parameters
    ----------
    features : sequence of Features
        One for each discriminant, of the same rows and weights.
    Y : ndarray of shape (n, q), bool
        The candidates.
    state : MixtureState, optional
        Go on from here.

    Attributes
    ----------
    W, offset : ndarray
        Coefficients of the first discriminant.
    members : tuple of Member
        All discriminants.
    state : MixtureState
        How far it is.
    is_settled : bool
        Whether the last stage is over.
    """

    def __init__(
        self,
        features: Sequence[Features],
        Y: _Array,
        state: MixtureState | None = None,
    ) -> None:
        first = features[0]
        self._Y = Y
        self._total = first.total_weight
        weight = np.ones(len(Y)) if first.sample_weight is None else first.sample_weight
        self._row_weight = weight / self._total
        # Whole weights count rows. If they are smaller than that, their size says nothing.
        self._n_rows = max(self._total, 1 / float(self._row_weight @ self._row_weight))
        self._free_arrays: list[_Array] = []
        self._support = Support(Y, first.dtype)
        self._co_occurrence = CoOccurrence(
            *(Y, first.dtype),
            None if first.sample_weight is None else self._n_rows * self._row_weight,
        )
        self._discriminants = on_threads(
            lambda each: _Discriminant(each, Y, self._n_rows), features
        )
        # What is left if the user interrupts the first update.
        q, part = Y.shape[1], 1 / len(features)
        self.members = tuple(Member(np.zeros((f.shape[1], q)), np.zeros(q), part) for f in features)
        self.W, self.offset = self.members[0].W, self.members[0].offset
        self.state: Any = MixtureState() if state is None else state
        self.is_settled: bool | None = False
        if self.state.best is not None and self.state.stage == len(STAGES):
            # That run had come to its end, and to its best stage.
            self.state = MixtureState(
                stage=self.state.best.stage,
                offsets=self.state.offsets,
                temperatures=self.state.temperatures,
            )
        kept = zip(self._discriminants, self.state.offsets, self.state.temperatures, strict=False)
        for discriminant, offset, temperature in kept:
            discriminant.offset, discriminant.temperature = offset, temperature
        self._set_shrinkage()

    def update(self, P: _Array, Z: _Array) -> None:
        """Fit all discriminants; write the probabilities of the candidates to `Z`."""
        confidence = self._support.take(P)
        shares = np.maximum(column_sums(confidence, self._row_weight), _LEAST_SHARE)

        def fit(discriminant: _Discriminant) -> _Array:
            with self._workspace(P) as workspace:
                discriminant.fit(P, confidence, shares, workspace)
            return discriminant.temper(self._row_weight)

        masses = np.column_stack(on_threads(fit, self._discriminants))
        weights, likelihood = _mixing_weights(masses, self._row_weight)
        Z.fill(0)
        with self._workspace(P) as workspace:
            for weight, discriminant in zip(weights, self._discriminants, strict=True):
                discriminant.add_probabilities(weight, workspace, Z)
        condition_on_candidates(self._Y, *self._co_occurrence.scores(P), Z)
        members = tuple(
            discriminant.member(weight)
            for weight, discriminant in zip(weights, self._discriminants, strict=True)
        )
        self._finish_iteration(likelihood, members)

    @contextmanager
    def _workspace(self, like: _Array) -> Iterator[_Array]:
        """Lend an array. There are as many as members that are fitted at the same time."""
        try:
            array = self._free_arrays.pop()
        except IndexError:
            array = np.empty_like(like)
        yield array
        self._free_arrays.append(array)

    def _finish_iteration(self, likelihood: float, members: tuple[Member, ...]) -> None:
        self._previous, self.state.likelihood = self.state.likelihood, likelihood
        self.state.iterations += 1
        self.state.offsets = tuple(each.offset for each in self._discriminants)
        self.state.temperatures = tuple(each.temperature for each in self._discriminants)
        self.members, self.W, self.offset = members, members[0].W, members[0].offset

    def penalty(self) -> float:
        """Minus the log-likelihood of the candidates."""
        return -self._total * float(self.state.likelihood)

    def advance(self, P: _Array) -> None:
        """End the stage if it is time to; `P` are the confidences it would end with."""
        state = self.state
        change = abs(state.likelihood - self._previous)
        most = ITERATIONS if state.stage else FIRST_ITERATIONS
        if state.iterations < most and change > TOLERANCE * abs(state.likelihood):
            return
        if state.best is None or state.likelihood > state.best.likelihood:
            state.best = _Fit(state.stage, state.likelihood, P.copy(), self.members)
            state.failures = 0
        else:
            state.failures += 1
        state.stage, state.iterations = state.stage + 1, 0
        self.is_settled = state.stage == len(STAGES) or state.failures == PATIENCE
        if self.is_settled:
            state.stage = len(STAGES)
        else:
            self._set_shrinkage()

    def _set_shrinkage(self) -> None:
        first = min(FIRST_SHRINKAGE / self._n_rows, LARGEST_SHRINKAGE)
        for discriminant in self._discriminants:
            discriminant.set_shrinkage(STAGES[self.state.stage] * first)

    def finish(self, P: _Array) -> _Array:
        """Go back to the best stage, if all are over, and return its confidences."""
        best = self.state.best
        if not self.is_settled or best is None:
            return P
        self.members, self.W, self.offset = best.members, best.members[0].W, best.members[0].offset
        P = best.P
        return P


def _mixing_weights(masses: _Array, row_weight: _Array) -> tuple[_Array, float]:
    """Weights that make the candidates likely, by expectation maximisation; the log-likelihood.

    `masses` has the probability of the candidates, for each row and each discriminant.
    """
    weights = np.full(masses.shape[1], 1 / masses.shape[1])
    for _ in range(_WEIGHT_STEPS if len(weights) > 1 else 0):
        joint = masses * weights
        weights = (row_weight / joint.sum(axis=1)) @ joint
    weights /= weights.sum()
    return weights, float(row_weight @ np.log(masses @ weights))


class _Discriminant:
    """A Gaussian discriminant whose scores of a row come from the other rows.

    Parameters
    ----------
    features : Features
    Y : ndarray of shape (n, q), bool
        The candidates.
    n_rows : float
        How many rows the weights of the features stand for.
    """

    def __init__(self, features: Features, Y: _Array, n_rows: float) -> None:
        (n, d), q = features.shape, Y.shape[1]
        self._Y = Y
        self._n_rows = n_rows
        self._seen = Y.any(axis=0)
        self._total = features.total_weight
        # Faster than the default where all eigenvectors are wanted.
        values, self._rotation = linalg.eigh(
            features.gram() / self._total, overwrite_a=True, driver="evd"
        )
        self._values = np.maximum(values, 0)
        self._rows = np.empty((n, d), features.dtype)
        features.scores(self._rotation, np.zeros(d), self._rows)
        if not self._values.any():
            # All features are constant, and this would be rounding errors.
            self._rows.fill(0)
        self._features = make_features(
            self._rows, fit_intercept=False, sample_weight=features.sample_weight
        )
        self._scores = np.empty((n, q), features.dtype)
        self._row_parts = np.empty((n, 3))
        # Nobody's candidates get no probability anywhere.
        self.offset = np.where(self._seen, 0.0, -np.inf)
        self.temperature = 1.0

    def set_shrinkage(self, shrinkage: float) -> None:
        """Add this part of the variance of all features to that of each of them."""
        limits = np.finfo(self._rows.dtype)
        variance = max(float(self._values.sum()), float(limits.tiny / limits.eps))
        self._inverse = 1 / (self._values + shrinkage * variance)
        leverages = np.empty(len(self._rows))

        def square(rows: slice) -> None:
            leverages[rows] = np.square(self._rows[rows], dtype=np.float64) @ self._inverse

        each_block(square, *self._rows.shape)
        leverages = (1 + leverages) / self._total
        # One of several equal rows is left out, not all of them.
        if self._features.sample_weight is not None:
            leverages *= np.minimum(self._features.sample_weight, 1)
        leverages = np.minimum(leverages, _LARGEST_LEVERAGE)
        self._leverages = leverages.astype(self._rows.dtype)
        self._other_weight = 1 / (1 - leverages)
        if self._features.sample_weight is not None:
            self._other_weight *= self._features.sample_weight
        self._own_weight = self._other_weight * leverages

    def fit(self, P: _Array, confidence: Any, shares: _Array, workspace: _Array) -> None:
        """Fit to the confidences, which are `P` in both forms."""
        features = self._features
        W = self._inverse[:, np.newaxis] * features.correlate(confidence) / self._total
        # P'H for the held-out fits H, without making them: their map is known only afterwards.
        explained = cross_product(self._rows, confidence, self._other_weight).T @ W
        explained -= cross_product(P, confidence, self._own_weight)
        explained += np.outer(column_sums(confidence, self._own_weight), shares)
        rows = self._n_rows * shares
        own = rows / (rows + min(_COMMON_ROWS, self._n_rows / len(rows)))
        link = _link(explained / self._total, shares) * (own / own.max())
        self._W = W @ link
        no_offset = np.zeros(len(shares))
        features.scores(self._W, no_offset, self._scores)
        multiply_rows(confidence, link.astype(workspace.dtype), workspace, no_offset)
        held_out_scores(
            *(self._scores, workspace, self._leverages),
            *((shares @ link).astype(workspace.dtype), self._scores),
        )
        self._match_shares(shares, workspace)

    def _match_shares(self, shares: _Array, workspace: _Array) -> None:
        """Move the offsets towards where the mean probability of each label is its share."""
        self._write_probabilities(workspace)
        weight, (n, q) = self._features.sample_weight, workspace.shape
        factors = np.ones(q)

        def add(rows: slice, total: _Array) -> None:
            block = workspace[rows]
            scale = 1 / (block @ factors.astype(block.dtype))
            total += (scale if weight is None else scale * weight[rows]) @ block

        for _ in range(_SHARE_STEPS):
            means = factors * sum_blocks(add, n, (q,), q) / self._total
            ratios = shares / np.maximum(means, float(np.finfo(np.float64).tiny))
            factors *= np.where(self._seen, np.clip(ratios, *_RATIOS), 1)
        self.offset = self.offset + np.log(factors)

    def _write_probabilities(self, out: _Array) -> None:
        out[...] = self._scores
        softmax(self.offset.astype(out.dtype), out)

    def temper(self, row_weight: _Array) -> _Array:
        """Move the temperature, and return the probability of each row's candidates before that."""
        offset = self.offset.astype(self._scores.dtype)
        candidate_mass(self._scores, offset, self._Y, self.temperature, self._row_parts)
        _, slope, curvature = row_weight @ self._row_parts
        # Newton's method for the logarithm of the temperature, in small steps.
        slope *= self.temperature
        curvature = self.temperature**2 * curvature + slope
        step = -slope / curvature if curvature < 0 else math.copysign(_LARGEST_STEP, slope)
        step = min(max(step, -_LARGEST_STEP), _LARGEST_STEP)
        self.temperature = min(max(self.temperature * math.exp(step), _COLDEST), _HOTTEST)
        return np.exp(np.maximum(self._row_parts[:, 0], _LEAST_LOG))

    def add_probabilities(self, weight: float, workspace: _Array, Z: _Array) -> None:
        """Add this part of the probabilities, at temperature 1, to `Z`."""
        self._write_probabilities(workspace)

        def add(rows: slice) -> None:
            workspace[rows] *= weight
            Z[rows] += workspace[rows]

        each_block(add, *Z.shape)

    def member(self, weight: float) -> Member:
        """The discriminant in the features as they came, at its temperature."""
        W = self._rotation @ self._W
        return Member(self.temperature * W, self.temperature * self.offset, float(weight))


def _link(explained: _Array, shares: _Array) -> _Array:
    """The inverse of what the fits leave unexplained of the labels' covariance.

    `explained` is P'H/n. Relative to the shares, no direction counts as explained completely.
    """
    roots = np.sqrt(shares)
    scale = np.outer(roots, roots)
    residue = np.eye(len(shares)) - (explained + explained.T) / (2 * scale)
    values, vectors = linalg.eigh(residue, overwrite_a=True)
    link: _Array = (vectors / np.maximum(values, _LEAST_RESIDUE)) @ vectors.T / scale
    return link

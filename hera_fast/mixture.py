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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from hera_fast.co_occurrence import CoOccurrence
from hera_fast.features import DenseRows, Features
from hera_fast.kernels import (
    candidate_mass,
    condition_on_candidates,
    held_out_scores,
    softmax,
)
from hera_fast.kernels.held_out import MASS_PARTS
from hera_fast.models import Member, Support, scores_like
from hera_fast.products import (
    column_sums,
    cross_product,
    each_block,
    multiply_rows,
    sum_blocks,
)
from hera_fast.rows import WHOLE, Rows

__all__ = ["Mixture", "MixtureState", "StageFit"]

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
# Numbers that are sent at once rather than asked about again and again.
_FEW = 1 << 20


class StageFit(NamedTuple):
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
    best: StageFit | None = None


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
        self._rows = rows = first.rows
        self._Y = Y
        self._shape, self._dtype, self._total = first.shape, first.dtype, first.total_weight
        self._free_arrays: list[_Array] = []
        self._row_weight = rows.make(_shares_of_rows, Y, first.sample_weight, self._total)
        # Whole weights count rows. If they are smaller than that, their size says nothing.
        self._n_rows = max(self._total, 1 / float(rows.sum(_squared_norm, self._row_weight)))
        self._support = rows.make(Support, Y, first.dtype)
        counts = None
        if first.sample_weight is not None:
            counts = rows.make(np.multiply, self._n_rows, self._row_weight)
        self._co_occurrence = CoOccurrence(Y, first.dtype, counts, rows)
        self._discriminants = rows.together(
            lambda each: _Discriminant(each, Y, self._n_rows), features
        )
        if not rows.is_whole:
            # Nobody else uses these features, and rotated they are there once more.
            for each in features:
                each.release()
        # What is left if the user interrupts the first update.
        q, part = len(self._discriminants[0].offset), 1 / len(features)
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
        rows = self._rows
        confidence = rows.scratch(Support.take, self._support, P)
        shares = np.maximum(rows.sum(column_sums, confidence, self._row_weight), _LEAST_SHARE)

        def fit(discriminant: _Discriminant) -> Any:
            with self._workspace() as workspace:
                discriminant.fit(P, confidence, shares, workspace)
            return discriminant.temper(self._row_weight)

        # What false candidates look like does not depend on the members.
        questions = [partial(fit, each) for each in self._discriminants]
        *masses, patterns = rows.together(
            _call, [*questions, partial(self._co_occurrence.scores, P)]
        )
        masses = rows.make(_side_by_side, masses)
        weights, likelihood = _mixing_weights(
            *(masses, self._row_weight, len(self._discriminants), rows, self._shape[0])
        )
        rows.do(np.ndarray.fill, Z, 0)
        with self._workspace() as workspace:
            for weight, discriminant in zip(weights, self._discriminants, strict=True):
                discriminant.add_probabilities(weight, workspace, Z)
        rows.do(condition_on_candidates, self._Y, *patterns, Z)
        members = tuple(
            discriminant.member(weight)
            for weight, discriminant in zip(weights, self._discriminants, strict=True)
        )
        self._finish_iteration(likelihood, members)

    @contextmanager
    def _workspace(self) -> Iterator[_Array]:
        """Lend an array. There are as many as members that are fitted at the same time."""
        try:
            array = self._free_arrays.pop()
        except IndexError:
            array = self._rows.make(scores_like, self._Y, self._dtype)
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
            P = self._rows.copy(P)
            state.best = StageFit(state.stage, state.likelihood, P, self.members)
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


def _call(question: Callable[[], Any]) -> Any:
    return question()


def _mixing_weights(
    masses: _Array,
    row_weight: _Array,
    n_members: int,
    rows: Rows = WHOLE,
    n_rows: int = 0,
) -> tuple[_Array, float]:
    """Weights that make the candidates likely, by expectation maximisation; the log-likelihood.

    `masses` has the probability of the candidates, for each row and each discriminant.
    """
    if not rows.is_whole and n_rows * n_members <= _FEW:
        # That many numbers travel faster than questions and answers for each step.
        masses, row_weight = (
            np.concatenate(rows.gather(_itself, array)) for array in (masses, row_weight)
        )
        rows = WHOLE
    weights = np.full(n_members, 1 / n_members)
    for _ in range(_WEIGHT_STEPS if n_members > 1 else 0):
        weights = rows.sum(_expected_weights, masses, weights, row_weight)
    weights = weights / weights.sum()
    return weights, float(rows.sum(_log_likelihood, masses, weights, row_weight))


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
        self._rows = rows = features.rows
        self._Y = Y
        self._n_rows = n_rows
        self._seen = rows.sum(_count_candidates, Y) > 0
        self._total = features.total_weight
        # Faster than the default where all eigenvectors are wanted.
        values, self._rotation = linalg.eigh(
            features.gram() / self._total, overwrite_a=True, driver="evd"
        )
        self._values = np.maximum(values, 0)
        # If all features are constant, rotating them would show rounding errors.
        self._features = features.rotated(self._rotation, keep=bool(self._values.any()))
        self._scores = rows.make(scores_like, Y, features.dtype)
        self._row_parts = rows.make(_row_parts, Y)
        # Nobody's candidates get no probability anywhere.
        self.offset = np.where(self._seen, 0.0, -np.inf)
        self.temperature = 1.0

    def set_shrinkage(self, shrinkage: float) -> None:
        """Add this part of the variance of all features to that of each of them."""
        limits = np.finfo(self._features.dtype)
        variance = max(float(self._values.sum()), float(limits.tiny / limits.eps))
        self._inverse = 1 / (self._values + shrinkage * variance)
        features = self._features
        self._leverages = self._rows.make(
            _leverages, features.centred, features.sample_weight, self._inverse, self._total
        )

    def fit(self, P: _Array, confidence: Any, shares: _Array, workspace: _Array) -> None:
        """Fit to the confidences, which are `P` in both forms."""
        correlation, other_correlation, own_products, own_mass = self._rows.sum(
            _fit_sums, self._features.centred, self._leverages, P, confidence
        )
        W = self._inverse[:, np.newaxis] * correlation / self._total
        # P'H for the held-out fits H, without making them: their map is known only afterwards.
        explained = other_correlation.T @ W
        explained -= own_products
        explained += np.outer(own_mass, shares)
        rows = self._n_rows * shares
        own = rows / (rows + min(_COMMON_ROWS, self._n_rows / len(rows)))
        link = _link(explained / self._total, shares) * (own / own.max())
        self._W = W @ link
        self._rows.do(
            *(_judge, self._features.centred, self._leverages, confidence),
            *(self._W, link, shares @ link, self._scores, workspace),
        )
        self._match_shares(shares, workspace)

    def _match_shares(self, shares: _Array, workspace: _Array) -> None:
        """Move the offsets towards where the mean probability of each label is its share."""
        rows = self._rows
        rows.do(_write_probabilities, self._scores, self.offset, workspace)
        factors = np.ones(len(shares))
        for _ in range(_SHARE_STEPS):
            sums = rows.sum(_share_sums, workspace, self._features.sample_weight, factors)
            means = factors * sums / self._total
            ratios = shares / np.maximum(means, float(np.finfo(np.float64).tiny))
            factors = factors * np.where(self._seen, np.clip(ratios, *_RATIOS), 1)
        self.offset = self.offset + np.log(factors)

    def temper(self, row_weight: _Array) -> Any:
        """Move the temperature, and return the probability of each row's candidates before that."""
        rows = self._rows
        _, slope, curvature = rows.sum(
            *(_mass_sums, self._scores, self.offset, self._Y, self.temperature),
            *(row_weight, self._row_parts),
        )
        # Newton's method for the logarithm of the temperature, in small steps.
        slope *= self.temperature
        curvature = self.temperature**2 * curvature + slope
        step = -slope / curvature if curvature < 0 else math.copysign(_LARGEST_STEP, slope)
        step = min(max(step, -_LARGEST_STEP), _LARGEST_STEP)
        self.temperature = min(max(self.temperature * math.exp(step), _COLDEST), _HOTTEST)
        return rows.make(_masses, self._row_parts)

    def add_probabilities(self, weight: float, workspace: _Array, Z: _Array) -> None:
        """Add this part of the probabilities, at temperature 1, to `Z`."""
        self._rows.do(_add_probabilities, self._scores, self.offset, weight, workspace, Z)

    def member(self, weight: float) -> Member:
        """The discriminant in the features as they came, at its temperature."""
        W = self._rotation @ self._W
        return Member(self.temperature * W, self.temperature * self.offset, float(weight))


# ---- what is done where the rows are ------------------------------------------------------------


class _Leverages(NamedTuple):
    """How much rows decide about their own fits, and what follows from that."""

    leverages: _Array
    other_weight: _Array
    own_weight: _Array


def _row_parts(Y: _Array) -> _Array:
    return np.empty((len(Y), len(MASS_PARTS)))


def _count_candidates(Y: _Array) -> _Array:
    counts: _Array = Y.sum(axis=0)
    return counts


def _shares_of_rows(Y: _Array, weights: _Array | None, total: float) -> _Array:
    return (np.ones(len(Y)) if weights is None else weights) / total


def _squared_norm(row_weight: _Array) -> float:
    return float(row_weight @ row_weight)


def _leverages(
    centred: DenseRows, weights: _Array | None, inverse: _Array, total: float
) -> _Leverages:
    F = centred.X
    leverages = np.empty(len(F))

    def square(rows: slice) -> None:
        leverages[rows] = np.square(F[rows], dtype=np.float64) @ inverse

    each_block(square, *F.shape)
    leverages = (1 + leverages) / total
    # One of several equal rows is left out, not all of them.
    if weights is not None:
        leverages *= np.minimum(weights, 1)
    leverages = np.minimum(leverages, _LARGEST_LEVERAGE)
    other_weight = 1 / (1 - leverages)
    if weights is not None:
        other_weight *= weights
    return _Leverages(leverages.astype(F.dtype), other_weight, other_weight * leverages)


def _fit_sums(
    centred: DenseRows, leverages: _Leverages, P: _Array, confidence: Any
) -> tuple[_Array, ...]:
    """Return F'P, the same with the weights of others, and what rows say about themselves."""
    return (
        centred.correlate(confidence),
        cross_product(centred.X, confidence, leverages.other_weight),
        cross_product(P, confidence, leverages.own_weight),
        column_sums(confidence, leverages.own_weight),
    )


def _judge(
    centred: DenseRows,
    leverages: _Leverages,
    confidence: Any,
    W: _Array,
    link: _Array,
    subtracted: _Array,
    scores: _Array,
    workspace: _Array,
) -> None:
    """Write what the other rows say about each row."""
    no_offset = np.zeros(len(link))
    centred.scores(W, no_offset, scores)
    multiply_rows(confidence, link.astype(workspace.dtype), workspace, no_offset)
    held_out_scores(
        *(scores, workspace, leverages.leverages),
        *(subtracted.astype(workspace.dtype), scores),
    )


def _write_probabilities(scores: _Array, offset: _Array, out: _Array) -> None:
    out[...] = scores
    softmax(offset.astype(out.dtype), out)


def _share_sums(probabilities: _Array, weights: _Array | None, factors: _Array) -> _Array:
    """Sum the probabilities of each label if its odds are multiplied, but for the factor."""
    n, q = probabilities.shape

    def add(rows: slice, total: _Array) -> None:
        block = probabilities[rows]
        scale = 1 / (block @ factors.astype(block.dtype))
        total += (scale if weights is None else scale * weights[rows]) @ block

    return sum_blocks(add, n, (q,), q)


def _mass_sums(
    scores: _Array,
    offset: _Array,
    Y: _Array,
    temperature: float,
    row_weight: _Array,
    row_parts: _Array,
) -> _Array:
    candidate_mass(scores, offset.astype(scores.dtype), Y, temperature, row_parts)
    return row_weight @ row_parts


def _masses(row_parts: _Array) -> _Array:
    return np.exp(np.maximum(row_parts[:, 0], _LEAST_LOG))


def _itself(array: _Array) -> _Array:
    return array


def _side_by_side(masses: list[_Array]) -> _Array:
    return np.column_stack(masses)


def _expected_weights(masses: _Array, weights: _Array, row_weight: _Array) -> _Array:
    joint = masses * weights
    expected: _Array = (row_weight / joint.sum(axis=1)) @ joint
    return expected


def _log_likelihood(masses: _Array, weights: _Array, row_weight: _Array) -> float:
    return float(row_weight @ np.log(masses @ weights))


def _add_probabilities(
    scores: _Array, offset: _Array, weight: float, workspace: _Array, Z: _Array
) -> None:
    _write_probabilities(scores, offset, workspace)

    def add(rows: slice) -> None:
        workspace[rows] *= weight
        Z[rows] += workspace[rows]

    each_block(add, *Z.shape)


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

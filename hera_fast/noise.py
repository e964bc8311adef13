"""The E step: explain the false candidates by a matrix of low rank, and keep the constraint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hera_fast.features import Features
from hera_fast.kernels import low_rank_target, update_multipliers
from hera_fast.kernels.updates import UPDATE_PARTS
from hera_fast.products import column_sums, cross_product
from hera_fast.rows import WHOLE, Rows
from hera_fast.run import Options, Residuals, Solution
from hera_fast.svd import shrink_singular_values

__all__ = ["LowRankNoise", "WeightedShrinkage", "norm_of_candidates", "zeros_like"]

_Array = np.ndarray[Any, Any]


class WeightedShrinkage:
    """Singular value thresholding of a matrix whose rows count as often as their weights say.

    Repeating a row w times is the same as multiplying it by sqrt(w).

    Parameters
    ----------
    sample_weight : ndarray of shape (n,) or None
    options : Options
    rows : Rows, default=WHOLE
        Where the rows are.
    """

    def __init__(self, sample_weight: _Array | None, options: Options, rows: Rows = WHOLE) -> None:
        self._options = options
        self._rows = rows
        self._roots: Any = None
        if sample_weight is not None:
            # A row of weight zero does not count, but its noise is wanted all the same.
            least = 1e-18 * max(rows.gather(np.max, sample_weight))
            self._roots = rows.make(_roots, sample_weight, least)

    def shrink(self, A: _Array, threshold: float, out: _Array) -> tuple[int, float]:
        """Write the result to `out`, return its rank and nuclear norm. `A` is used up."""
        rows = self._rows
        if self._roots is not None:
            rows.do(_multiply_rows, A, self._roots)
        rank, nuclear_norm = shrink_singular_values(
            *(A, threshold, self._options.svd, out, self._options.random_state), rows=rows
        )
        if self._roots is not None:
            rows.do(_divide_rows, out, self._roots)
        return rank, nuclear_norm


def _roots(weights: _Array, least: float) -> _Array:
    return np.sqrt(np.maximum(weights, least))[:, np.newaxis]


def _multiply_rows(A: _Array, factors: _Array) -> None:
    A *= factors


def _divide_rows(A: _Array, factors: _Array) -> None:
    A /= factors


class LowRankNoise:
    """Noise E = Y - P of low rank, with multiplier and penalty of the constraint.

    Without ``nu`` there is no wish for low rank: E simply is Y - P, nothing is stored, and the
    penalty is zero.

    Parameters
    ----------
    features : Features
        For the weights of the rows.
    Y : ndarray of shape (n, q), bool
        The candidates.
    P : ndarray of shape (n, q)
        The first confidences: equal ones for all candidates of a row.
    workspace : ndarray of shape (n, q)
        Overwritten in each update.
    options : Options
    start : Solution or None
        Continue from its noise and multiplier.
    """

    def __init__(
        self,
        features: Features,
        Y: _Array,
        P: _Array,
        workspace: _Array,
        options: Options,
        start: Solution | None,
    ) -> None:
        self.penalty = self.objective = 0.0
        self.rank = 0
        # Not read while the penalty is zero.
        self.E = self.M = workspace
        self._options = options
        self._rows = rows = features.rows
        self._Y = Y
        self.is_active = options.nu > 0
        if not self.is_active:
            return
        self._low_rank = workspace if rows.is_whole else rows.make(zeros_like, P)
        self._target = rows.make(np.subtract, Y, P)
        self._row_parts = rows.make(_row_parts, Y)
        self._weight = features.sample_weight
        self._shrinkage = WeightedShrinkage(self._weight, options, rows)
        first_penalty = min(options.penalty or 0.1 * (options.alpha or 1.0), options.max_penalty)
        gram = rows.sum(cross_product, self._target, self._target, self._weight)
        largest = math.sqrt(max(float(np.linalg.eigvalsh(gram)[-1]), 0.0))
        self._nu = options.nu * first_penalty * largest
        self._norm_Y = norm_of_candidates(rows, Y, self._weight)
        if start is None or not start.multipliers:
            self.E, self.M = rows.make(zeros_like, P), rows.make(zeros_like, P)
            self.penalty = first_penalty
        else:
            (self.M,) = start.multipliers
            self.E, self.penalty = start.E, min(start.penalty, options.max_penalty)

    @property
    def multipliers(self) -> tuple[_Array, ...]:
        return (self.M,) if self.is_active else ()

    def update(self, P: _Array) -> Residuals:
        """Take the E step and the multiplier's step for new confidences."""
        if not self.is_active:
            return Residuals(0.0, 0.0)
        o, rows = self._options, self._rows
        rows.do(low_rank_target, self._Y, P, self.M, self.penalty, self._target)
        self.rank, nuclear_norm = self._shrinkage.shrink(
            self._target, self._nu / self.penalty, self._low_rank
        )
        self.objective = self._nu * nuclear_norm
        rows.do(
            *(update_multipliers, self._Y, P, self._low_rank, self.penalty),
            *(self.E, self.M, self._row_parts),
        )
        primal, dual, multiplier = np.sqrt(rows.sum(column_sums, self._row_parts, self._weight))
        scale = max(multiplier, o.alpha * self._norm_Y)
        return Residuals(
            float(primal / self._norm_Y), float(self.penalty * dual / scale) if scale else 0.0
        )

    def adapt_penalty(self, residuals: Residuals) -> None:
        """Choose the next penalty."""
        o = self._options
        self.penalty = o.next_penalty(self.penalty, residuals, o.max_penalty)


def norm_of_candidates(rows: Rows, Y: _Array, weights: _Array | None) -> float:
    """Return the Frobenius norm of the candidates."""
    return math.sqrt(float(rows.sum(_count_candidates, Y, weights)))


def zeros_like(P: _Array) -> _Array:
    """Allocate zeros of the same kind."""
    return np.zeros_like(P)


def _count_candidates(Y: _Array, weights: _Array | None) -> _Array:
    return column_sums(Y.sum(axis=1), weights)


def _row_parts(Y: _Array) -> _Array:
    return np.empty((len(Y), len(UPDATE_PARTS)))

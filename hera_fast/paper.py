"""The optimisation as the paper prints it: OP(4), solved step by step.

    minimise    L_rank(XW, P) + alpha/2 |P - XW|^2 + beta |W|^2 + mu |J|_1 + nu |E|_*
    subject to  Y = P + E,  P = J,  P >= 0,  E >= 0

with the multipliers M and N of the constraints and their penalties lambda and rho. The gradients
are the correct ones where the printed ones are not; docs/errata.md lists the differences.

Nothing in this problem fixes the scale of P, and with the printed parameters the l1 norm outweighs
the nuclear norm: a run to convergence ends near P = 0, E = Y.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hera_fast.features import Features
from hera_fast.kernels import (
    fit_gradient,
    low_rank_target,
    ranking_confidence_gradient,
    ranking_loss,
    update_multipliers_paper,
)
from hera_fast.kernels.updates import PAPER_UPDATE_PARTS
from hera_fast.models import GradientDescent, scores_like
from hera_fast.noise import WeightedShrinkage, norm_of_candidates, zeros_like
from hera_fast.products import column_sums
from hera_fast.run import FIT_CALLER, Keep, Observer, Options, Recorder, Residuals, Solution
from hera_fast.solver import equal_confidence

__all__ = ["solve_paper"]

_Array = np.ndarray[Any, Any]

_FIRST_PENALTY = 1e-6
# P counts as collapsed when less than this part of its mass is left.
_COLLAPSED = 0.1


def solve_paper(
    features: Features,
    Y: _Array,
    options: Options,
    start: Solution | None = None,
    observe: Observer | None = None,
    keep: Keep | None = None,
) -> Solution:
    """Run the printed algorithm; parameters and result are those of :func:`hera_fast.solver.solve`.

    The run ends when the loss changes by `tol` at most, but not before the penalties act: as long
    as they are so small that J and E are thresholded to zero, the loss stands still without
    anything having converged. Where J or E belongs at zero, small residuals show that they act.
    """
    o = options
    rows, dtype = features.rows, features.dtype
    first_confidence = equal_confidence if o.init == "equal" else _as_numbers
    P = rows.make(first_confidence, Y, dtype)
    Z, gradient = (rows.make(scores_like, Y, dtype) for _ in range(2))
    model = GradientDescent(
        *(features, rows.gather(np.shape, Y)[0][1], gradient),
        alpha=o.alpha,
        beta=o.beta,
        ranking=o.ranking,
        n_steps=o.inner_iter,
        step_size=o.step_size,
    )
    splitting = Splitting(features, Y, P, gradient, o)
    first_mass = splitting.mass
    if start is not None:
        P, model.W = start.P, start.W
        splitting.resume(start)
    recorder = Recorder(o, features, observe, keep, start)

    def reached() -> Solution:
        return Solution(
            *(model.W, model.offset, P, splitting.E, splitting.multipliers),
            *(splitting.penalty, splitting.split_penalty),
            history=recorder.history(),
            members=model.members,
            model_state=splitting.acts,
        )

    # After an interrupt in the first iteration there must be something to return.
    rows.flush()
    try:
        while recorder.goes_on:
            model.update(P, Z)
            splitting.descend(Z, P)
            residuals = splitting.update(Z, P)
            recorder.record(
                *(model, P, splitting.E),
                objective=splitting.loss + model.penalty(),
                residuals=residuals,
                rank=splitting.rank,
                penalty=splitting.penalty,
                mass=splitting.mass,
                scale=1.0,
                settled=splitting.acts,
            )
            splitting.adapt_penalties(residuals)
            recorder.keep(reached)
    except KeyboardInterrupt:
        recorder.interrupted()
    recorder.warn_unless_ended()
    if splitting.mass < _COLLAPSED * first_mass:
        _warn_of_collapse(splitting.mass, first_mass, o, explained=splitting.acts)
    return replace(reached(), interrupted=recorder.was_interrupted)


class Splitting:
    """All variables but W and P: J, E, the multipliers M and N, the penalties lambda and rho.

    Parameters
    ----------
    features : Features
        For the weights of the rows.
    Y, P : ndarray of shape (n, q)
        Candidates and first confidences.
    workspace : ndarray of shape (n, q)
        Overwritten by all methods.
    options : Options
    """

    def __init__(
        self, features: Features, Y: _Array, P: _Array, workspace: _Array, options: Options
    ) -> None:
        self._rows = rows = features.rows
        self._most = options.max_penalty, options.max_split_penalty or options.max_penalty
        first = options.penalty or _FIRST_PENALTY
        penalties = first, options.split_penalty or first
        self.penalty, self.split_penalty = map(min, penalties, self._most)
        self.E, self._J, self._M, self._N = (rows.make(zeros_like, P) for _ in range(4))
        self.loss, self.rank, self.acts = math.nan, 0, False
        self._options = options
        self._weight, self._total = features.sample_weight, features.total_weight
        self.mass = self._mass(P)
        self._Y = Y
        self._n_labels = rows.gather(np.shape, Y)[0][1]
        self._norm_Y = norm_of_candidates(rows, Y, self._weight)
        self._shrinkage = WeightedShrinkage(self._weight, options, rows)
        self._work, self._low_rank = workspace, rows.make(zeros_like, P)
        self._row_loss = rows.make(_row_loss, Y, features.dtype)
        self._row_parts = rows.make(_row_parts, Y)

    @property
    def multipliers(self) -> tuple[_Array, ...]:
        """What a later run needs beside E to go on."""
        return self._J, self._M, self._N

    def resume(self, start: Solution) -> None:
        """Go on where another run ended."""
        self.E = start.E
        self._J, self._M, self._N = start.multipliers
        self.acts = start.goes_on and start.model_state
        penalties = start.penalty, start.split_penalty
        self.penalty, self.split_penalty = map(min, penalties, self._most)

    def descend(self, Z: _Array, P: _Array) -> None:
        """Step 2: gradient descent on P, projected to P >= 0. The step cannot raise the loss."""
        o = self._options
        # Everything but the ranking loss amounts to pull/2 |P - target|^2.
        pull = o.alpha + self.penalty + self.split_penalty
        step = o.step_size or 1 / (pull + o.ranking * 4 * math.log(2) / self._n_labels)
        self._rows.do(
            *(_descend, Z, P, self._Y, self.E, self._J, self._M, self._N),
            *((o.alpha, self.penalty, self.split_penalty), step, o.inner_iter, o.ranking),
            *(self._work, self._low_rank),
        )

    def update(self, Z: _Array, P: _Array) -> Residuals:
        """Steps 3 and 4, then the multipliers; also the loss, but for the term with W."""
        o, rows = self._options, self._rows
        rows.do(low_rank_target, self._Y, P, self._M, self.penalty, self._work)
        self.rank, nuclear_norm = self._shrinkage.shrink(
            self._work, o.nu / self.penalty, self._low_rank
        )
        rows.do(
            *(update_multipliers_paper, self._Y, P, Z, self._low_rank, self.penalty),
            *(self.split_penalty, o.mu, self.E, self._J, self._M, self._N, self._row_parts),
        )
        if o.ranking:
            rows.do(ranking_loss, Z, P, self._row_loss)
        row_sums, losses = rows.sum(_sums, self._row_parts, self._row_loss, self._weight)
        parts = dict(zip(PAPER_UPDATE_PARTS, row_sums.tolist(), strict=True))
        self.loss = (
            float(losses)
            + (o.alpha / 2 * parts["fit"] + o.mu * parts["sparsity"] + o.nu * nuclear_norm)
            + (parts["multiplier"] + self.penalty / 2 * parts["primal"])
            + (parts["split_multiplier"] + self.split_penalty / 2 * parts["split_primal"])
        )
        self.mass = self._mass(P)
        primal = math.sqrt(parts["primal"] + parts["split_primal"])
        is_sparse, is_low_rank = parts["sparsity"] > 0 or o.mu == 0, self.rank > 0 or o.nu == 0
        self.acts |= (is_sparse and is_low_rank) or primal <= o.tol * self._norm_Y
        dual = math.hypot(
            self.penalty * math.sqrt(parts["dual"]),
            self.split_penalty * math.sqrt(parts["split_dual"]),
        )
        return Residuals(primal / self._norm_Y, dual / self._norm_Y)

    def adapt_penalties(self, residuals: Residuals) -> None:
        """Choose the next penalties."""
        o, (most, most_split) = self._options, self._most
        self.penalty = o.next_penalty(self.penalty, residuals, most)
        self.split_penalty = o.next_penalty(self.split_penalty, residuals, most_split)

    def _mass(self, P: _Array) -> float:
        return float(self._rows.sum(column_sums, P, self._weight).sum()) / self._total


def _as_numbers(Y: _Array, dtype: np.dtype[Any]) -> _Array:
    return Y.astype(dtype)


def _row_loss(Y: _Array, dtype: np.dtype[Any]) -> _Array:
    return np.zeros(len(Y), dtype)


def _row_parts(Y: _Array) -> _Array:
    return np.empty((len(Y), len(PAPER_UPDATE_PARTS)))


def _sums(row_parts: _Array, row_loss: _Array, weights: _Array | None) -> tuple[_Array, _Array]:
    return column_sums(row_parts, weights), column_sums(row_loss, weights)


def _descend(
    Z: _Array,
    P: _Array,
    Y: _Array,
    E: _Array,
    J: _Array,
    M: _Array,
    N: _Array,
    weights: tuple[float, float, float],
    step: float,
    n_steps: int,
    ranking: bool,
    gradient: _Array,
    target: _Array,
) -> None:
    alpha, penalty, split_penalty = weights
    pull = sum(weights)
    np.subtract(Y, E, out=target)
    target *= penalty
    for weight, array in ((alpha, Z), (split_penalty, J)):
        np.multiply(array, weight, out=gradient)
        target += gradient
    target += M
    target -= N
    target /= pull
    for _ in range(n_steps):
        if ranking:
            ranking_confidence_gradient(Z, P, gradient)
        else:
            gradient.fill(0)
        fit_gradient(P, target, pull, gradient)
        gradient *= step
        # An interrupt must not find P half way.
        np.subtract(P, gradient, out=gradient)
        np.maximum(gradient, 0, out=P)


def _warn_of_collapse(mass: float, first_mass: float, o: Options, *, explained: bool) -> None:
    if explained:
        weights = {"the l1 norm (mu)": o.mu, "the fit (alpha)": o.alpha}
        pull = " and ".join(part for part, weight in weights.items() if weight)
        nuclear = "The nuclear norm (nu) is outweighed by" if o.nu else "No nuclear norm resists"
        reason = f"{nuclear} {pull or 'the ranking loss'}, so the noise E explains all candidates"
        advice = (
            f"{'a smaller mu, ' * (o.mu > 0)}a larger nu, or a smaller max_iter, since the paper's "
            "figures are those of a run that is stopped early"
        )
    else:
        zero = " or ".join(["E"] * (o.nu > 0) + ["J"] * (o.mu > 0))
        reason = f"Nothing fixes their scale while the penalties are so small that {zero} is zero"
        advice = "a larger penalty or more iterations"
    warnings.warn(
        f"The confidences collapsed: a row of P sums to {mass:.1g} on average, down from "
        f"{first_mass:.2g}. {reason}. Use formulation='simplex', which cannot collapse; or "
        f"{advice}.",
        ConvergenceWarning,
        stacklevel=FIT_CALLER,
    )

"""The augmented Lagrangian method for HERA with confidences on the simplex.

    minimise    L_rank(Z, P) + alpha/2 |P - Z|^2 - mu/2 |P|^2 + beta |W|^2 + nu |E|_*
    subject to  Y = P + E,  each row of P on the simplex over the row's candidates

E >= 0 follows from these constraints, so that lowering singular values solves the E step exactly.
Before convergence E may have entries a little below zero.
The scores are Z = XW or, with ``calibration="gaussian"``, the probabilities of a Gaussian
discriminant fitted to P; with ``calibration="mixture"``, those of a mixture of discriminants given
the candidates. The steps are those of the paper: W, P, E, multiplier, penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hera_fast.features import Features
from hera_fast.kernels import confidence_step
from hera_fast.mixture import Mixture
from hera_fast.models import GaussianDiscriminant, LeastSquares, Model, scores_like
from hera_fast.noise import LowRankNoise
from hera_fast.products import column_sums
from hera_fast.run import Keep, Observer, Options, Recorder, Solution

__all__ = ["equal_confidence", "solve"]

_Array = np.ndarray[Any, Any]


def solve(
    features: Features,
    Y: _Array,
    options: Options,
    start: Solution | None = None,
    observe: Observer | None = None,
    more_features: Sequence[Features] = (),
    keep: Keep | None = None,
) -> Solution:
    """Run the method until it converges, `observe` ends it, or the user interrupts it.

    Parameters
    ----------
    features : Features
        Those of the model, or of its first member.
    Y : ndarray of shape (n, q), bool
        The candidates; at least one in each row.
    options : Options
    start : Solution, optional
        Go on from here. Its arrays are overwritten.
    observe : callable, optional
        Called with a `State` after each iteration; ends the run by returning something true.
    more_features : sequence of Features
        Those of the other members of a mixture, of the same rows.
    keep : callable, optional
        Called after each iteration but the last with a function that returns what was reached.

    Returns
    -------
    Solution
    """
    o, rows, dtype = options, features.rows, features.dtype
    P = rows.at_candidates(Y, equal_confidence, Y, dtype)
    Z, workspace = rows.scratch(scores_like, Y, dtype), rows.scratch(scores_like, Y, dtype)
    row_objective = rows.scratch(_row_numbers, Y)
    noise = LowRankNoise(features, Y, P, workspace, o, start)
    model = make_model((features, *more_features), Y, workspace, o, start)
    if start is not None:
        P = start.P
    # Rows need a little curvature when neither the fit nor the constraint gives them some.
    fit = max(o.alpha, 1e-12)
    recorder = Recorder(o, features, observe, keep, start)

    def reached() -> Solution:
        return Solution(
            *(model.W, model.offset, P, noise.E, noise.multipliers, noise.penalty, 0.0),
            history=recorder.history(),
            members=model.members,
            model_state=model.state,
        )

    # After an interrupt in the first iteration there must be something to return.
    rows.flush()
    try:
        while recorder.goes_on:
            model.update(P, Z)
            rows.do(
                *(confidence_step, Z, Y, noise.E, noise.M, fit, o.mu, noise.penalty, o.ranking),
                *(P, row_objective),
            )
            loss = float(rows.sum(column_sums, row_objective, features.sample_weight))
            residuals = noise.update(P)
            model.advance(P)
            recorder.record(
                *(model, P, noise.E if noise.is_active else None),
                objective=loss + model.penalty() + noise.objective,
                residuals=residuals,
                rank=noise.rank,
                penalty=noise.penalty,
            )
            noise.adapt_penalty(residuals)
            recorder.keep(reached)
    except KeyboardInterrupt:
        recorder.interrupted()
    recorder.warn_unless_ended()
    if not noise.is_active:
        P = model.finish(P)
        if rows.is_whole:  # in blocks, it takes no more space than P to store both
            np.subtract(Y, P, out=noise.E)
    return replace(reached(), interrupted=recorder.was_interrupted)


def equal_confidence(Y: _Array, dtype: np.dtype[Any]) -> _Array:
    """Give all candidates of a row the same confidence."""
    P = Y.astype(dtype)
    P /= P.sum(axis=1, keepdims=True)
    return P


def _row_numbers(Y: _Array) -> _Array:
    return np.empty(len(Y))


def make_model(
    features: Sequence[Features],
    Y: _Array,
    workspace: _Array,
    options: Options,
    start: Solution | None,
) -> Model:
    """Set up the model that the options ask for."""
    if options.calibration == "mixture":
        state = None if start is None else start.model_state
        mixture = Mixture(features, Y, state)
        if start is not None:
            mixture.members, mixture.W, mixture.offset = start.members, start.W, start.offset
        return mixture
    model: Model
    if options.calibration == "gaussian":
        model = GaussianDiscriminant(features[0], Y, shrinkage=options.shrinkage)
    else:
        model = LeastSquares(
            *(features[0], features[0].rows.gather(np.shape, Y)[0][1], workspace),
            alpha=options.alpha,
            beta=options.beta,
            ranking=options.ranking,
            fit_intercept=options.fit_intercept,
        )
    if start is not None:
        model.W, model.offset = start.W, start.offset
    return model

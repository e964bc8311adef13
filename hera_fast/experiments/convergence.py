"""How a fit comes to its end: the steps on W alone, the steps on P alone, the whole."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hera_fast.candidates import check_candidates
from hera_fast.estimator import HERAClassifier
from hera_fast.features import make_features
from hera_fast.kernels import ranking_loss
from hera_fast.models import GradientDescent
from hera_fast.paper import Splitting
from hera_fast.solver import equal_confidence

__all__ = ["trace_convergence"]

_Array = np.ndarray[Any, Any]

# Steps on W alone and on P alone.
_STEPS = 100


def trace_convergence(model: HERAClassifier, X: _Array, candidates: Any) -> dict[str, list[float]]:
    """Fit to all rows and say by how much the loss changes from step to step.

    Parameters
    ----------
    model : HERAClassifier
        It is fitted.
    X : ndarray of shape (n, d)
        Rows.
    candidates : array-like
        Their candidates.

    Returns
    -------
    curves : dict of str to list of float
        ``whole``, the change of the loss in each iteration, and ``mass``, the mean sum of a row
        of P. With ``formulation="paper"`` also ``W`` and ``P``: the change of the loss in each
        step of gradient descent on one of them: on W from the start of the algorithm with P
        fixed, then on P with the W that was found.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.experiments.convergence import trace_convergence
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> Y = [{"a"}, {"a", "b"}, {"b"}, {"a", "b"}]
    >>> curves = trace_convergence(HERAClassifier.paper(max_iter=20, tol=0), X, Y)
    >>> len(curves["W"]), len(curves["whole"])
    (100, 20)
    """
    with warnings.catch_warnings():
        # Of the collapse, which is what the curves are to show.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, candidates)
    # The first iteration has nothing to be compared with.
    curves = {
        "whole": np.nan_to_num(model.history_["change"], nan=0.0),
        "mass": model.history_["mass"],
    }
    if model.formulation == "paper":
        curves |= _trace_steps(model, X, check_candidates(candidates)[0])
    return {name: np.asarray(curve).tolist() for name, curve in curves.items()}


def _trace_steps(model: HERAClassifier, X: _Array, Y: _Array) -> dict[str, _Array]:
    options = replace(model._options(), inner_iter=1)
    features = make_features(np.ascontiguousarray(X, np.float64), fit_intercept=False)
    P = equal_confidence(Y, features.dtype)
    Z, gradient = np.zeros_like(P), np.empty_like(P)
    descent = GradientDescent(
        *(features, Y.shape[1], gradient),
        alpha=options.alpha,
        beta=options.beta,
        ranking=options.ranking,
        n_steps=1,
        step_size=options.step_size,
    )

    def loss() -> float:
        rows = np.zeros(len(P))
        if options.ranking:
            ranking_loss(Z, P, rows)
        return float(rows.sum() + options.alpha / 2 * np.sum((P - Z) ** 2))

    W_losses = [loss()]
    for _ in range(_STEPS):
        descent.update(P, Z)
        W_losses.append(loss() + descent.penalty())
    # E, J and the multipliers are zero at the start.
    splitting = Splitting(features, Y, P, gradient, options)

    def constrained_loss() -> float:
        penalties = splitting.penalty * np.sum((Y - P) ** 2) + splitting.split_penalty * np.sum(
            P**2
        )
        return loss() + float(penalties) / 2

    P_losses = [constrained_loss()]
    for _ in range(_STEPS):
        splitting.descend(Z, P)
        P_losses.append(constrained_loss())
    return {"W": np.abs(np.diff(W_losses)), "P": np.abs(np.diff(P_losses))}

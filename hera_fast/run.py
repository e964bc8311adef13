"""What goes into a run of the optimisation and what comes out: options, states, solution."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hera_fast.features import Features
from hera_fast.models import Member, Model

__all__ = ["FIGURES", "Keep", "Observer", "Options", "Recorder", "Residuals", "Solution", "State"]

_Array = np.ndarray[Any, Any]

#: What is recorded of each iteration.
FIGURES = {
    "objective": np.float64,
    "primal_residual": np.float64,
    "dual_residual": np.float64,
    "change": np.float64,
    "rank": np.int64,
    "penalty": np.float64,
    "mass": np.float64,
    "seconds": np.float64,
}

# Residual balancing: the penalty is doubled or halved when one residual is this many times the
# other one.
_BALANCE = 10.0
_BALANCE_STEP = 2.0

# From a warning up to the caller of fit.
FIT_CALLER = 8


class Residuals(NamedTuple):
    """How far the constraint and the multiplier are from where they should be."""

    primal: float
    dual: float


@dataclass(frozen=True)
class Options:
    """Parameters of the optimisation; :class:`hera_fast.HERAClassifier` describes them."""

    alpha: float
    beta: float
    mu: float
    nu: float
    ranking: bool
    calibration: str | None
    shrinkage: float
    fit_intercept: bool
    penalty: float | None
    penalty_growth: float | str
    max_penalty: float
    split_penalty: float | None
    max_split_penalty: float | None
    max_iter: int
    tol: float
    svd: str
    random_state: int
    inner_iter: int
    step_size: float | None
    init: str

    def next_penalty(self, penalty: float, residuals: Residuals, largest: float) -> float:
        """Let the penalty grow, or balance the residuals; `largest` is the most it may be."""
        growth = self.penalty_growth
        if isinstance(growth, str):
            growth = 1.0
            if residuals.primal > _BALANCE * residuals.dual:
                growth = _BALANCE_STEP
            elif residuals.dual > _BALANCE * residuals.primal:
                growth = 1 / _BALANCE_STEP
        return min(penalty * growth, largest)


@dataclass(frozen=True)
class State:
    """What a callback is told after each iteration.

    The arrays are those of the solver: copy what is to be kept, change nothing.

    Attributes
    ----------
    iteration, max_iter : int
        This iteration, counted from 1, and the last one allowed.
    objective : float
        The objective, without multiplier and penalty terms.
    primal_residual : float
        ``|Y - P - E| / |Y|``, in Frobenius norms.
    dual_residual : float
        ``penalty |E - previous E|``, relative to the larger of ``|M|`` and ``alpha |Y|``.
    change : float
        Change of the objective, relative to the larger of its first and its current value.
    rank : int
        Rank of E, 0 without ``nu``. With ``formulation="paper"`` the one before negative entries
        are cut.
    penalty : float
        The penalty of this iteration.
    mass : float
        Mean sum of a row of P.
    seconds : float
        Time since the start.
    confidence : ndarray of shape (n, q) or None
        P. None if the rows are in blocks.
    noise : ndarray of shape (n, q) or None
        E, of which some entries may be a little below zero before convergence. None when nobody
        wants a low rank (``nu=0``), where it simply is Y - P.
    coef : ndarray of shape (q, d)
        Coefficients of the linear model.
    intercept : ndarray of shape (q,)
        Its intercept.
    """

    iteration: int
    max_iter: int
    objective: float
    primal_residual: float
    dual_residual: float
    change: float
    rank: int
    penalty: float
    mass: float
    seconds: float
    confidence: _Array | None
    noise: _Array | None
    coef: _Array
    intercept: _Array


#: Called with the state after each iteration; something true ends the run.
Observer = Callable[[State], object]


#: Called after each iteration but the last with a function that returns the state.
Keep = Callable[[Callable[[], "Solution"]], None]


@dataclass
class Solution:
    """Where a run ended. It can be the start of another one.

    `W` and `offset` are those of the first of the `members`, which predictions are made of; the
    `model_state` is what a model with stages needs to go on. If it `goes_on`, a run that starts
    here is the same one, as if it had not been interrupted: its history is continued.
    """

    W: _Array
    offset: _Array
    P: _Array
    E: _Array
    multipliers: tuple[_Array, ...]
    penalty: float
    split_penalty: float
    history: dict[str, _Array]
    members: tuple[Member, ...] = ()
    interrupted: bool = False
    model_state: Any = None
    goes_on: bool = False


class Recorder:
    """Keeps the figures of all iterations, tells the observer, and knows when to stop."""

    def __init__(
        self,
        options: Options,
        features: Features,
        observe: Observer | None,
        keep: Keep | None = None,
        start: Solution | None = None,
    ) -> None:
        self.converged = False
        self._options = options
        self._mean, self._is_whole = features.mean, features.rows.is_whole
        self._observe, self._keep = observe, keep
        self._figures: list[dict[str, float]] = []
        self._start = time.perf_counter()
        if start is not None and start.goes_on:
            past = zip(*(start.history[name].tolist() for name in FIGURES), strict=True)
            self._figures = [dict(zip(FIGURES, figures, strict=True)) for figures in past]
            self._start -= self._figures[-1]["seconds"]
        self._stopped = False
        self._has_stages = False
        self.was_interrupted = False

    @property
    def goes_on(self) -> bool:
        """Whether there is to be another iteration."""
        ended = self.converged or self._stopped
        return not ended and len(self._figures) < self._options.max_iter

    def record(
        self,
        model: Model,
        P: _Array,
        E: _Array | None,
        *,
        objective: float,
        residuals: Residuals,
        rank: int,
        penalty: float,
        mass: float = 1.0,
        scale: float | None = None,
        settled: bool | None = None,
    ) -> None:
        """Take down the figures of an iteration and decide whether it was the last.

        The change of the objective is divided by `scale`; None stands for the larger one of its
        first and its current value. Small enough, it ends the run if everything else is
        `settled`; None asks for small residuals. A model with stages ends the run by itself.
        """
        past, tol = self._figures, self._options.tol
        if scale is None:
            first = past[0]["objective"] if past else objective
            scale = max(abs(objective), abs(first), float(np.finfo(np.float64).tiny))
        if settled is None:
            settled = max(residuals) <= tol
        last = past[-1]["objective"] if past else math.nan
        state = State(
            iteration=len(past) + 1,
            max_iter=self._options.max_iter,
            objective=objective,
            primal_residual=residuals.primal,
            dual_residual=residuals.dual,
            change=abs(objective - last) / scale,
            rank=rank,
            penalty=penalty,
            mass=mass,
            seconds=time.perf_counter() - self._start,
            confidence=P if self._is_whole else None,
            noise=E if self._is_whole else None,
            coef=model.W.T,
            intercept=model.offset - self._mean @ model.W,
        )
        past.append({name: getattr(state, name) for name in FIGURES})
        ended = model.is_settled
        self._has_stages = ended is not None
        self.converged = settled and state.change <= tol if ended is None else ended
        if self._observe is not None:
            self._stopped = bool(self._observe(state))

    def keep(self, reached: Callable[[], Solution]) -> None:
        """Offer the state at the end of an iteration, if there will be another one."""
        if self._keep is not None and self.goes_on:
            self._keep(reached)

    def interrupted(self) -> None:
        """Say that the user ended the run."""
        self._stopped = self.was_interrupted = True
        warnings.warn(
            f"HERA was interrupted after {len(self._figures)} of at most {self._options.max_iter} "
            "iterations. The estimator is fitted with what was reached; with warm_start=True, "
            "another call of fit goes on from there.",
            ConvergenceWarning,
            stacklevel=FIT_CALLER,
        )

    def warn_unless_ended(self) -> None:
        """Say what did not converge and what helps, unless something else ended the run."""
        if self.converged or self._stopped:
            return
        last, o = self._figures[-1], self._options
        residuals = ""
        advice = "" if self._has_stages else " or tol"
        if last["penalty"] > 0:  # else there is no constraint
            residuals = (
                f"primal residual {last['primal_residual']:.1e}, "
                f"dual residual {last['dual_residual']:.1e}, "
            )
            advice += (
                "; if the dual residual stays large, use penalty_growth='balance' or a smaller "
                "max_penalty"
            )
        warnings.warn(
            f"HERA did not converge in max_iter={o.max_iter} iterations: {residuals}change of the "
            f"objective {last['change']:.1e}, tol={o.tol:.1e}. Increase max_iter{advice}.",
            ConvergenceWarning,
            stacklevel=FIT_CALLER,
        )

    def history(self) -> dict[str, _Array]:
        """One array for each figure."""
        return {
            name: np.array([figures[name] for figures in self._figures], dtype=dtype)
            for name, dtype in FIGURES.items()
        }

"""How far a fit is, in a form that can be written to a file and gone on with.

Confidences are kept as their values at the candidates, row by row, whatever blocks the rows are
in: a fit on other workers, or with other blocks, can go on with them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hera_fast.blocks import AtCandidates, Candidates, WorkerLost, raw
from hera_fast.mixture import MixtureState, StageFit
from hera_fast.models import Member
from hera_fast.persistence import model_kind, read_model, write_model
from hera_fast.products import BLOCK_ROWS
from hera_fast.run import Solution
from hera_fast.training_rows import TrainingRows

__all__ = ["Checkpoint", "Keeper", "fingerprint"]

_Array = np.ndarray[Any, Any]

_KIND = "checkpoint of a fit"
# Seconds between two checkpoints at least, and how many times longer than taking one.
_INTERVAL = 5.0
_TIMES_LONGER = 20
# How often workers may die without any progress.
_MOST_IN_VAIN = 3
# Of SplitMix64; odd, so that nothing is lost.
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STATE = ("stage", "iterations", "failures", "likelihood", "temperatures")


class Checkpoint(NamedTuple):
    """A state of a fit.

    Attributes
    ----------
    header : dict
        Numbers.
    arrays : dict of ndarray
        Arrays.
    """

    header: dict[str, Any]
    arrays: dict[str, _Array]

    @property
    def n_iterations(self) -> int:
        """How many iterations are done."""
        return len(self.arrays["history_seconds"])

    @property
    def seed(self) -> int:
        """The seed of all that is random."""
        return int(self.header["seed"])

    @classmethod
    def take(cls, training: TrainingRows, solution: Solution, seed: int) -> Checkpoint:
        """Collect a state from where the rows are."""
        header: dict[str, Any] = {
            "penalty": solution.penalty,
            "split_penalty": solution.split_penalty,
            "n_multipliers": len(solution.multipliers),
            "weights": [member.weight for member in solution.members],
            "seed": seed,
        }
        arrays = {"W": solution.W, "offset": solution.offset}
        # Only the published problem, which has another penalty, lets P be positive anywhere.
        is_sparse = solution.split_penalty == 0
        arrays["P"] = _collected(training, solution.P, is_sparse)
        arrays |= {f"history_{name}": each for name, each in solution.history.items()}
        arrays |= _member_arrays("member", solution.members)
        if solution.multipliers:
            arrays["E"] = _collected(training, solution.E, False)
            for place, multiplier in enumerate(solution.multipliers):
                arrays[f"multiplier_{place}"] = _collected(training, multiplier, False)
        state = solution.model_state
        if isinstance(state, MixtureState):
            header["state"] = {name: getattr(state, name) for name in _STATE}
            arrays |= {f"offset_{place}": each for place, each in enumerate(state.offsets)}
            if state.best is not None:
                best = state.best
                header["best"] = {"stage": best.stage, "likelihood": best.likelihood}
                header["best"]["weights"] = [member.weight for member in best.members]
                arrays["best_P"] = _collected(training, best.P, is_sparse)
                arrays |= _member_arrays("best", best.members)
        elif state is not None:
            header["acts"] = bool(state)
        return cls(header, arrays)

    def restore(self, training: TrainingRows) -> Solution:
        """Put a state where the rows are now."""
        header, arrays = self.header, self.arrays
        history = {
            name.removeprefix("history_"): each
            for name, each in arrays.items()
            if name.startswith("history_")
        }
        solution = Solution(
            W=arrays["W"],
            offset=arrays["offset"],
            P=_spread(training, arrays["P"]),
            E=arrays["offset"][:0],  # none, without multipliers
            multipliers=(),
            penalty=header["penalty"],
            split_penalty=header["split_penalty"],
            history=history,
            members=_members("member", header["weights"], arrays),
            model_state=header.get("acts"),
            goes_on=True,
        )
        if header["n_multipliers"]:
            solution.E = _spread(training, arrays["E"])
            solution.multipliers = tuple(
                _spread(training, arrays[f"multiplier_{place}"])
                for place in range(header["n_multipliers"])
            )
        if "state" in header:
            state = MixtureState(**header["state"])
            state.temperatures = tuple(state.temperatures)
            state.offsets = tuple(
                arrays[f"offset_{place}"] for place in range(len(state.temperatures))
            )
            if "best" in header:
                best = header["best"]
                members = _members("best", best["weights"], arrays)
                P = _spread(training, arrays["best_P"])
                state.best = StageFit(best["stage"], best["likelihood"], P, members)
            solution.model_state = state
        return solution

    def write(self, path: str | PathLike[str], about: dict[str, Any]) -> None:
        """Write a file, which replaces another one when it is complete."""
        write_model(path, _KIND, {**self.header, "about": about}, self.arrays)

    @classmethod
    def read(cls, path: str | PathLike[str], about: dict[str, Any]) -> Checkpoint:
        """Read a file, and make sure that it belongs to this fit."""
        header, arrays = read_model(path, _KIND)
        then = header.pop("about")
        for name, value in about.items():
            if then.get(name) != value:
                raise ValueError(
                    f"{fspath(path)} is a checkpoint of another fit: {name} was "
                    f"{then.get(name)!r} then and is {value!r} now. Go on with the same data and "
                    "parameters, or use another file."
                )
        return cls(header, arrays)


def _is_checkpoint(path: str | PathLike[str]) -> bool:
    try:
        return model_kind(path) == _KIND
    except ValueError:
        return False


def _member_arrays(name: str, members: tuple[Member, ...]) -> dict[str, _Array]:
    arrays: dict[str, _Array] = {}
    for place, member in enumerate(members):
        arrays |= {f"{name}_W_{place}": member.W, f"{name}_offset_{place}": member.offset}
    return arrays


def _members(name: str, weights: list[float], arrays: dict[str, _Array]) -> tuple[Member, ...]:
    return tuple(
        Member(arrays[f"{name}_W_{place}"], arrays[f"{name}_offset_{place}"], weight)
        for place, weight in enumerate(weights)
    )


# ---- numbers that belong to rows ----------------------------------------------------------------


def _collected(training: TrainingRows, held: Any, is_sparse: bool) -> _Array:
    """Return an array of all rows; of one that is zero elsewhere, what is at the candidates."""
    rows = training.rows
    if rows.is_whole:
        values: _Array = held[training.Y] if is_sparse else held.copy()
        return values
    return np.concatenate(rows.gather(_values, raw(held)))


def _values(piece: Any) -> _Array:
    values: _Array = piece.values if isinstance(piece, AtCandidates) else piece
    return values


def _spread(training: TrainingRows, values: _Array) -> Any:
    rows = training.rows
    is_sparse = values.ndim == 1
    if rows.is_whole:
        return _at(training.Y, values) if is_sparse else values.copy()
    sizes = rows.gather(_size, raw(training.Y), is_sparse)
    # Copies, because the solver writes into them.
    pieces = rows.spread([each.copy() for each in np.split(values, np.cumsum(sizes)[:-1])])
    if is_sparse:
        return rows.at_candidates(training.Y, _at, training.Y, pieces)
    return pieces


def _size(candidates: Candidates, is_sparse: bool) -> int:
    return int(candidates.matrix.nnz) if is_sparse else candidates.shape[0]


def _at(Y: _Array, values: _Array) -> _Array:
    """Put values at the candidates, row by row."""
    array = np.zeros(Y.shape, values.dtype)
    array[Y] = values
    return array


def fingerprint(training: TrainingRows) -> str:
    """Tell data apart, whatever blocks they are in.

    Parameters
    ----------
    training : TrainingRows
        The rows.

    Returns
    -------
    fingerprint : str
    """
    rows = training.rows
    sums = rows.sum(
        *(_sums_of_bits, training.X, training.Y, training.sample_weight, rows.first_row)
    )
    return "-".join(f"{int(each):016x}" for each in sums)


def _sums_of_bits(X: Any, Y: _Array, weights: _Array | None, first_row: int) -> _Array:
    """Add up the bits of all numbers, mixed with where they are; zeros do not count."""
    with np.errstate(over="ignore"):
        places = _mixed(first_row + 1 + np.arange(X.shape[0], dtype=np.uint64))
        columns = _mixed(1 + np.arange(max(X.shape[1], Y.shape[1]), dtype=np.uint64))
        rows, labels = np.nonzero(Y)
        sums = [
            _sum_of_rows(X, places, columns),
            (places[rows] * columns[labels]).sum(dtype=np.uint64),
            0 if weights is None else (_mixed_bits(weights) * places).sum(dtype=np.uint64),
        ]
        return np.array(sums, dtype=np.uint64)


def _sum_of_rows(X: Any, places: _Array, columns: _Array) -> Any:
    if sparse.issparse(X):
        of_entries = np.repeat(places, np.diff(X.indptr)) * columns[X.indices]
        return (_mixed_bits(X.data) * of_entries).sum(dtype=np.uint64)
    total = np.uint64(0)
    for start in range(0, len(X), BLOCK_ROWS):
        block = _mixed_bits(X[start : start + BLOCK_ROWS]) * columns[: X.shape[1]]
        total += (block.sum(axis=1) * places[start : start + BLOCK_ROWS]).sum(dtype=np.uint64)
    return total


def _mixed_bits(numbers: _Array) -> _Array:
    return _mixed(np.ascontiguousarray(numbers, np.float64).view(np.uint64))


def _mixed(bits: _Array) -> _Array:
    """Spread the differences of 64-bit numbers over all bits; zero remains zero."""
    for factor in _FACTORS:
        bits = bits * factor
        bits ^= bits >> np.uint64(29)
    return bits


# ---- when checkpoints are taken -----------------------------------------------------------------


class Keeper:
    """Takes a checkpoint from time to time, and knows the last one.

    Parameters
    ----------
    path : str or path-like or None
        Where to write it. None keeps it in memory.
    seed : int
        The seed of all that is random.
    survives : bool
        Whether workers may die, so that a checkpoint is needed without a file, too.

    Attributes
    ----------
    last : Checkpoint or None
        The last one.
    """

    def __init__(self, path: str | PathLike[str] | None, seed: int, *, survives: bool) -> None:
        self.path, self.seed = path, seed
        self.last: Checkpoint | None = None
        self.is_active = survives or path is not None
        self._about: dict[str, Any] = {}
        self._due = time.monotonic() + _INTERVAL

    def open(self, about: dict[str, Any], *, resume: bool) -> None:
        """Prepare for a file; read the one that is there, if the fit is to go on from it.

        Parameters
        ----------
        about : dict
            What must be the same in all parts of the fit.
        resume : bool
            Whether to read the file.
        """
        if not self._about and self.path is not None and Path(self.path).exists():
            if resume:
                self.last = Checkpoint.read(self.path, about)
                self.seed = self.last.seed
            elif not _is_checkpoint(self.path):
                raise ValueError(
                    f"{fspath(self.path)} exists and is no intact checkpoint: remove it, or choose "
                    "another file"
                )
        self._about = about

    def start(self, training: TrainingRows) -> Solution | None:
        """Return what to go on from."""
        return None if self.last is None else self.last.restore(training)

    def keep(self, training: TrainingRows, reached: Callable[[], Solution]) -> None:
        """Take a checkpoint if it is time to."""
        started = time.monotonic()
        if not self.is_active or started < self._due:
            return
        self.last = Checkpoint.take(training, reached(), self.seed)
        if self.path is not None:
            self.last.write(self.path, self._about)
        now = time.monotonic()
        self._due = now + max(_INTERVAL, _TIMES_LONGER * (now - started))

    def attempts(self) -> Iterator[Attempt]:
        """Yield contexts for the same work until it is done without a worker dying in between.

        Raises
        ------
        RuntimeError
            If workers die again and again without any progress. There is a checkpoint then.
        """
        n_in_vain = 0
        while True:
            before = self._n_iterations()
            attempt = Attempt()
            yield attempt
            if attempt.error is None:
                return
            n_in_vain = 1 if self._n_iterations() > before else n_in_vain + 1
            if n_in_vain > _MOST_IN_VAIN:
                raise RuntimeError(self._farewell(n_in_vain)) from attempt.error

    def _n_iterations(self) -> int:
        return 0 if self.last is None else self.last.n_iterations

    def _farewell(self, n_in_vain: int) -> str:
        message = (
            f"{n_in_vain} times in a row, a worker died before the fit had come any further. Rows "
            "that are only in the memory of workers may be lost; workers that take too much memory "
            "are ended by Dask."
        )
        if self.last is None:
            return f"{message} No checkpoint had been taken yet: the fit begins anew."
        path = self.path
        if path is None:
            path = Path(tempfile.mkdtemp(prefix="hera-fast-"), "fit.checkpoint")
            self.last.write(path, self._about)
        return (
            f"{message} {self.last.n_iterations} iterations are done: go on with "
            f"fit(..., checkpoint={fspath(path)!r}, resume=True)."
        )

    def done(self) -> None:
        """Remove the file: the fit is over."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)


class Attempt:
    """A context that ends quietly when a worker dies in it."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> Attempt:
        """Begin."""
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        """Take note if a worker has died."""
        if not isinstance(error, WorkerLost):
            return False
        # With their frames, it and its cause would keep what belongs to the rows.
        error.__cause__ = error.__context__ = None
        self.error = error.with_traceback(None)
        return True

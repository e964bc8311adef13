"""Cells of the experiments: one method on one data set, computed once and kept in a file.

The file of a cell is named after a digest of all that decides the result: the data, the settings,
the sources of the library and the versions of the packages that compute. So a cell that is there
need not be computed again, and one that was computed by other code is not taken for it. It appears
when it is complete, whatever happens to the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count
from sklearn.pipeline import make_pipeline
from sklearn.utils.parallel import Parallel, delayed

from hera_fast.atomic import replacing
from hera_fast.evaluation import cross_validate_partial
from hera_fast.experiments.convergence import trace_convergence
from hera_fast.experiments.disambiguation import describe_fit
from hera_fast.experiments.methods import make_method
from hera_fast.experiments.plain import plain
from hera_fast.experiments.sources import Source, fingerprint, make_preparation
from hera_fast.partial_labels import make_partial_labels
from hera_fast.task_progress import task_progress

__all__ = ["Cell", "Result", "code_version", "compute", "run_cells"]

Result = dict[str, Any]

_FOLDER = "cells"
_FORMAT = "hera-fast cell"
# Columns that are the same for all cells, or said elsewhere.
_NOT_FIGURES = ("dataset", "estimator", "fold")
# Of this package; what shows results does not change them.
_COMPUTING = ("cells.py", "convergence.py", "disambiguation.py", "methods.py", "sources.py")
# Seconds for a fold of a thousand rows and ten labels, roughly: they decide what is computed first,
# and how much of the progress bar a cell is.
_COSTS = {"hera": 0.8, "hera-paper": 4.0, "hera-paper-100": 1.2, "lsb-cmm": 0.4, "paloc": 0.2}
_USUAL_COST = 0.1
_LEAST_COST = 0.1
# Between two looks of a worker whether its parent is alive.
_WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Cell:
    """A method on a data set.

    Parameters
    ----------
    source : Source
        The data set.
    method : str
        Its name, see :data:`hera_fast.experiments.methods.METHODS`.
    settings : tuple of (str, object)
        Parameters that differ from the method's defaults.
    candidates : tuple of (str, object) or None, default=None
        Options of :func:`hera_fast.make_partial_labels` for artificial candidates; None takes
        those of the data set.
    task : {"validate", "trace", "disambiguate"}, default="validate"
        Cross-validation; or the course of a fit to all rows; or what such a fit finds.
    folds : int, default=10
        Folds of the cross-validation.
    seed : int, default=0
        Shuffles the folds, draws candidates, and seeds methods.
    ordered : bool, default=False
        Whether labels are numbers on a scale.

    Examples
    --------
    >>> from hera_fast.experiments.cells import Cell, compute
    >>> from hera_fast.experiments.sources import Source
    >>> cell = Cell(Source("digits", subset=200), "pl-knn", folds=2)
    >>> len(compute(cell)["figures"]["inductive"])
    2
    """

    source: Source
    method: str
    settings: tuple[tuple[str, Any], ...] = ()
    candidates: tuple[tuple[str, Any], ...] | None = None
    task: str = "validate"
    folds: int = 10
    seed: int = 0
    ordered: bool = False

    def key(self) -> str:
        """Return a digest of all that decides the result."""
        settings = {**asdict(self), "source": fingerprint(self.source.load())}
        content = json.dumps(plain([settings, code_version()]), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def cost(self) -> float:
        """Guess how many seconds it takes, on one thread of some machine."""
        n_rows, n_labels = self.source.load().candidates.shape
        folds = self.folds if self.task == "validate" else 1
        size = folds * int(n_rows) * int(n_labels) / 1e4
        return _COSTS.get(self.method, _USUAL_COST) * size + _LEAST_COST


@cache
def code_version() -> dict[str, str]:
    """Return a digest of the sources that compute, and the versions of what they use.

    Examples
    --------
    >>> from hera_fast.experiments.cells import code_version
    >>> sorted(code_version())
    ['hera-fast', 'numba', 'numpy', 'scikit-learn', 'scipy']
    """
    digest = hashlib.sha256()
    root = files("hera_fast")
    folders = [(part, root / part) for part in ("", "kernels", "baselines", "experiments")]
    for part, folder in folders:
        for file in sorted(folder.iterdir(), key=lambda each: each.name):
            computes = file.name in _COMPUTING if part == "experiments" else True
            if file.name.endswith(".py") and computes:
                digest.update(f"{part}/{file.name}\0".encode() + file.read_bytes())
    packages = ("numba", "numpy", "scikit-learn", "scipy")
    return {
        "hera-fast": digest.hexdigest(),
        **{package: version(package) for package in packages},
    }


def compute(cell: Cell) -> Result:
    """Compute a cell.

    Parameters
    ----------
    cell : Cell

    Returns
    -------
    result : dict
        ``seconds``, and ``figures`` with a list for each figure of
        :func:`hera_fast.cross_validate_partial`; or the ``body`` of another task.
    """
    start = time.perf_counter()
    bunch = cell.source.load()
    X, Y, y = bunch.data, bunch.candidates, bunch.target
    estimator = make_method(cell.method, dict(cell.settings), cell.seed)
    if cell.candidates is not None:
        Y = make_partial_labels(y, random_state=_candidate_seed(cell.seed), **dict(cell.candidates))
    if cell.task == "validate":
        table = cross_validate_partial(
            {cell.method: estimator},
            *(X, Y, y),
            cv=cell.folds,
            scaler=make_preparation(X),
            ordered=cell.ordered,
            random_state=cell.seed,
        )
        columns = [name for name in table if name not in _NOT_FIGURES]
        result: Result = {"figures": {name: np.asarray(table[name]).tolist() for name in columns}}
    elif cell.task == "trace":
        result = {"body": trace_convergence(estimator, make_preparation(X).fit_transform(X), Y)}
    else:
        model = make_pipeline(make_preparation(X), estimator).fit(X, Y)
        result = {"body": describe_fit(model[-1], bunch)}
    return {**result, "seconds": time.perf_counter() - start}


def _candidate_seed(seed: int) -> int:
    """Return another seed: with the same one, folds would be drawn from the same permutation."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def run_cells(
    cells: list[Cell],
    run_dir: Path,
    *,
    n_jobs: int | None = None,
    what: str = "cells",
    is_shown: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> list[Result]:
    """Compute the cells that are not there yet, the longest first, and return all of them.

    Parameters
    ----------
    cells : list of Cell
        Those of several experiments may be the same.
    run_dir : Path
        Each cell is kept here as soon as it is done.
    n_jobs : int or None, default=None
        Number of processes. None is one for each processor.
    what : str, default="cells"
        What the progress bar says.
    is_shown : bool, default=False
        Whether there is a progress bar.
    note : callable
        Told how many cells are there already.

    Returns
    -------
    results : list of dict
        One for each cell, in their order.
    """
    folder = run_dir / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    paths = {cell: folder / f"{cell.key()}.json" for cell in dict.fromkeys(cells)}
    missing = [cell for cell, path in paths.items() if _read(path) is None]
    missing.sort(key=lambda cell: cell.cost(), reverse=True)
    if len(missing) < len(paths):
        note(f"{len(paths) - len(missing)} of {len(paths)} cells are there already")
    n_workers = max(1, min(n_jobs or cpu_count(), len(missing)))
    # Workers write the files themselves: what is finished survives the death of this process.
    parent = os.getpid() if n_workers > 1 else None
    done = Parallel(n_jobs=n_workers, return_as="generator_unordered")(
        delayed(_compute_and_write)(cell, paths[cell], code_version(), parent) for cell in missing
    )
    total = sum(cell.cost() for cell in missing)
    progress = task_progress(what, len(missing), is_shown=is_shown and bool(missing), total=total)
    try:
        with _closing_undisturbed(done), progress as advance:
            for cell in done:
                advance(cell.cost())
    except BrokenExecutor as error:
        raise RuntimeError(
            "a process that computed a cell died, perhaps for want of memory. What was finished is "
            f"kept in {run_dir}: run the same command again, with fewer --jobs, to go on"
        ) from error
    results = {cell: _read(path) for cell, path in paths.items()}
    for cell, result in results.items():
        if result is None:
            raise OSError(f"{paths[cell]} was written, but cannot be read. Is the disk in order?")
    return [results[cell] for cell in cells]  # type: ignore[misc]


@contextmanager
def _closing_undisturbed(results: Any) -> Iterator[None]:
    """End the workers in any case; a second Ctrl-C must not keep them alive."""
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
        try:
            results.close()
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)


def _compute_and_write(cell: Cell, path: Path, code: dict[str, str], parent: int | None) -> Cell:
    if parent is not None:
        _end_with(parent)
    if code_version() != code:
        raise RuntimeError("the sources of hera-fast have changed during the run: run it again")
    content = {"format": _FORMAT, "cell": asdict(cell), "code": code, **compute(cell)}
    with replacing(path, "cell") as file:
        file.write(json.dumps(plain(content), indent=1).encode())
    return cell


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent: nobody waits, and a new run may be working."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _read(path: Path) -> Result | None:
    """Return what is in the file of a cell, or None if it is not there, or damaged."""
    try:
        content = json.loads(path.read_bytes())
        is_whole = content["format"] == _FORMAT and content["code"] == code_version()
        part = "figures" if content["cell"]["task"] == "validate" else "body"
        is_whole = is_whole and isinstance(content[part], dict) and "seconds" in content
    except (LookupError, OSError, RecursionError, TypeError, ValueError):
        return None
    return content if is_whole else None

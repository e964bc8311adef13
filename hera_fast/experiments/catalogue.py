"""All experiments by name, run from the data to the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib import cpu_count

from hera_fast.experiments.cells import run_cells
from hera_fast.experiments.figures import (
    CONVERGENCE,
    DISAMBIGUATION,
    FIGURE_EPSILON,
    FIGURE_UCI,
    SENSITIVITY,
)
from hera_fast.experiments.plans import TITLES, Scope, make_source
from hera_fast.experiments.published import data_errors
from hera_fast.experiments.records import Record, about_run, describe_data, save_record
from hera_fast.experiments.tables import ABLATION, TABLE_REAL, TABLE_UCI

__all__ = ["EXPERIMENTS", "available_sets", "check_sets", "run_experiment"]

EXPERIMENTS = {
    "table-real": TABLE_REAL,
    "table-uci": TABLE_UCI,
    "figure-uci": FIGURE_UCI,
    "figure-epsilon": FIGURE_EPSILON,
    "sensitivity": SENSITIVITY,
    "convergence": CONVERGENCE,
    "ablation": ABLATION,
    "disambiguation": DISAMBIGUATION,
}


def check_sets(name: str, wanted: Sequence[str] | None) -> None:
    """Raise a ValueError that lists the data sets of an experiment if a wanted one is not there.

    Examples
    --------
    >>> from hera_fast.experiments.catalogue import check_sets
    >>> check_sets("convergence", ["lost"])
    """
    known = EXPERIMENTS[name].datasets(False)
    for each in wanted or ():
        if each not in known:
            raise ValueError(f"{name} has no data set {each!r}, but {', '.join(known)}")


def available_sets(
    name: str, *, fast: bool, wanted: Sequence[str] | None = None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Find out which data sets of an experiment are on this machine.

    Parameters
    ----------
    name : str
        The experiment.
    fast : bool
        Whether it is to be fast.
    wanted : sequence of str or None, default=None
        Only these.

    Returns
    -------
    found : tuple of str
        Their names.
    missing : dict of str to str
        Why others were not found.

    Raises
    ------
    ValueError
        If a wanted data set is not one of the experiment's.

    Examples
    --------
    >>> from hera_fast.experiments.catalogue import available_sets
    >>> found, missing = available_sets("convergence", fast=False)
    >>> sorted([*found, *missing])
    ['lost', 'msrcv2']
    """
    check_sets(name, wanted)
    names = EXPERIMENTS[name].datasets(fast and wanted is None)
    if wanted is not None:
        names = [each for each in names if each in wanted]
    found, missing = [], {}
    for each in names:
        try:
            make_source(each).load()
            found.append(each)
        except FileNotFoundError as error:
            missing[each] = str(error)
    return tuple(found), missing


def run_experiment(
    name: str,
    scope: Scope,
    run_dir: Path,
    *,
    command: str,
    n_jobs: int | None = None,
    is_shown: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> list[Record]:
    """Compute what is missing of an experiment, and keep its records in the run directory.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    scope : Scope
        How much of it.
    run_dir : Path
        Where cells and records are kept.
    command : str
        What the records say about how they were made.
    n_jobs : int or None, default=None
        Number of processes. None is one for each processor.
    is_shown : bool, default=False
        Whether there is a progress bar.
    note : callable
        Told how many cells are there already.

    Returns
    -------
    records : list of Record
        One or more.
    """
    experiment = EXPERIMENTS[name]
    cells = experiment.cells(scope)
    results = run_cells(cells, run_dir, n_jobs=n_jobs, what=name, is_shown=is_shown, note=note)
    datasets = [
        describe_data(each, TITLES[each], make_source(each).load()) for each in scope.datasets
    ]
    settings: dict[str, Any] = {"folds": scope.folds, "seed": scope.seed, "fast": scope.fast}
    about = about_run(command, settings)
    records = []
    for finding in experiment.find(scope, cells, results, n_jobs or cpu_count()):
        of = finding.body.get("dataset")
        record = Record(
            name=finding.name or name,
            kind=finding.kind,
            title=finding.title,
            body=finding.body,
            notes=[*finding.notes, *_data_notes(datasets)],
            about=about,
            datasets=[each for each in datasets if of in (None, each["name"])],
        )
        save_record(run_dir, record)
        records.append(record)
    return records


def _data_notes(datasets: list[dict[str, Any]]) -> Iterator[str]:
    errors = data_errors(datasets)
    if errors:
        yield "The data are not what the paper prints about them: " + "; ".join(errors) + "."

"""What a run directory keeps for the report: one JSON file for each result.

A record says what was computed and holds the figures themselves, so that tables and pictures can
be made from it without computing anything again. ``body`` depends on the ``kind``:

``comparison``, ``ablation``
    ``reference``; ``methods``, each with ``name`` and ``title``; ``results``, each with
    ``dataset``, ``group``, ``method`` and ``figures``, lists with an entry for each fold;
    ``published``, by data set and method, with ``mean``, ``sd``, ``mark`` and ``error``, or None.
``win-tie-loss``
    ``reference``; ``others``; ``rows``, each with ``dataset``, ``title``, ``counts`` and
    ``published``; ``sums``, ``published_sums``; ``errors`` of the published table;
    ``prediction``, how long the full grid will take, or None.
``curves``
    ``legend``; ``panels``, each with ``title``, ``group``, ``x``, ``x_label``, ``y_label``,
    ``x_scale``, ``y_scale`` and ``series`` of ``name``, ``y`` and ``sd``.
``disambiguation``
    ``dataset``, ``labels``, ``rows``, ``accuracy``, ``histogram``, ``co_occurrence``,
    ``factors``, ``history`` and ``doubtful`` rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from hera_fast._version import __version__
from hera_fast.atomic import replacing
from hera_fast.experiments.plain import plain
from hera_fast.experiments.sources import fingerprint

__all__ = [
    "KINDS",
    "Record",
    "about_run",
    "describe_data",
    "load_records",
    "name_record",
    "save_record",
]

KINDS = ("comparison", "ablation", "win-tie-loss", "curves", "disambiguation")

_FORMAT, _FORMAT_VERSION = "hera-fast record", 1
_FOLDER = "records"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
# The order of the paper; whatever else there is comes after it.
_ORDER = (
    *("table-real", "table-uci", "figure-uci", "figure-epsilon"),
    *("sensitivity", "convergence", "ablation"),
)


@dataclass(frozen=True)
class Record:
    """One result of a run.

    Parameters
    ----------
    name : str
        Names the file: small letters, digits, dots and dashes.
    kind : str
        One of `KINDS`.
    title : str
        What stands above the table or the figure.
    body : dict
        The figures; this module describes them.
    notes : list of str
        What has to be said about them.
    about : dict
        How they were made: ``command``, ``created``, ``settings``, ``versions``, ``machine``.
    datasets : list of dict
        ``name``, ``title``, ``rows``, ``features``, ``labels``, ``candidates``, ``sha256``.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> Record("mine", "curves", "A figure", {"legend": [], "panels": []}).title
    'A figure'
    """

    name: str
    kind: str
    title: str
    body: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    datasets: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot name a record: use letters, digits and dashes")
        if self.kind not in KINDS:
            raise ValueError(f"there are no records of the kind {self.kind!r}, but {KINDS}")


def save_record(run_dir: str | os.PathLike[str], record: Record) -> Path:
    """Write a record into a run directory, which is made if it is not there.

    Parameters
    ----------
    run_dir : str or path
        The run directory.
    record : Record
        It replaces one of the same name.

    Returns
    -------
    path : Path
        Its file.

    Examples
    --------
    >>> import tempfile
    >>> from hera_fast.experiments.records import Record, load_records, save_record
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_record(folder, Record("mine", "curves", "A figure", {"panels": []}))
    ...     [record.title for record in load_records(folder)]
    ['A figure']
    """
    folder = Path(run_dir, _FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.name}.json"
    content = {"format": _FORMAT, "format_version": _FORMAT_VERSION, **asdict(record)}
    with replacing(path, "record") as file:
        file.write(json.dumps(plain(content), indent=1, ensure_ascii=False).encode())
    return path


def load_records(run_dir: str | os.PathLike[str]) -> list[Record]:
    """Read all records of a run directory.

    Parameters
    ----------
    run_dir : str or path
        The run directory.

    Returns
    -------
    records : list of Record
        The paper's first, in its order, then the others by name.

    Raises
    ------
    FileNotFoundError
        If there are none.
    ValueError
        If a file is damaged or of a newer version. The message names it.
    """
    folder = Path(run_dir, _FOLDER)
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not paths:
        raise FileNotFoundError(
            f"{run_dir} is no run directory with results. `hera-fast reproduce --run-dir {run_dir} "
            "...`, or evaluate or disambiguate with this option, puts some there"
        )
    records = [_read(path) for path in paths]
    place = {name: number for number, name in enumerate(_ORDER)}
    return sorted(records, key=lambda record: (place.get(record.name, len(place)), record.name))


def _read(path: Path) -> Record:
    try:
        content = json.loads(path.read_bytes())
        if content.pop("format") != _FORMAT:
            raise ValueError(f"it is not a {_FORMAT}")
        if content.pop("format_version") != _FORMAT_VERSION:
            raise ValueError("it was written by another version of hera-fast")
        record = Record(**content)
        if not isinstance(record.body, dict):
            raise TypeError("its body is no object")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}. Remove it, or make it again") from error
    return record


def name_record(kind: str, data: str, *decisive: Any) -> str:
    """Make a name that tells results of other data or other settings apart.

    Parameters
    ----------
    kind : str
        What the name begins with.
    data : str
        The data set, of which the name shows what a file name may have.
    *decisive : object
        What makes it another result: digests, settings.

    Returns
    -------
    name : str

    Examples
    --------
    >>> from hera_fast.experiments.records import name_record
    >>> name_record("evaluate", "Café Birds", 10, 0)
    'evaluate-caf-birds-baa9da'
    """
    shown = re.sub(r"[^a-z0-9]+", "-", data.lower()).strip("-")[:60] or "data"
    digest = hashlib.sha256(json.dumps(plain(decisive), sort_keys=True).encode()).hexdigest()
    return f"{kind}-{shown}-{digest[:6]}"


def describe_data(name: str, title: str, bunch: Bunch) -> dict[str, Any]:
    """Say what a data set is like, for a record.

    Examples
    --------
    >>> from hera_fast import load_digits_partial
    >>> from hera_fast.experiments.records import describe_data
    >>> describe_data("digits", "Digits", load_digits_partial())["rows"]
    1797
    """
    return {
        "name": name,
        "title": title,
        "rows": int(bunch.data.shape[0]),
        "features": int(bunch.data.shape[1]),
        "labels": int(bunch.candidates.shape[1]),
        "candidates": float(np.asarray(bunch.candidates.sum(axis=1)).mean()),
        "sha256": fingerprint(bunch),
    }


def about_run(command: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Say how something is computed: the command, the settings, versions and the machine.

    Examples
    --------
    >>> from hera_fast.experiments.records import about_run
    >>> sorted(about_run("hera-fast evaluate digits", {"seed": 0}))
    ['command', 'created', 'machine', 'settings', 'versions']
    """
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    return {
        "command": command,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "settings": dict(settings),
        "versions": {
            "hera-fast": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in packages},
        },
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": _processor(),
            "processors": os.cpu_count(),
            "memory_gib": _memory(),
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None

"""``hera-fast predict``: labels of new rows."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from hera_fast.cli.csv_output import STANDARD_OUTPUT, write_csv
from hera_fast.cli.fitting import numbered_names
from hera_fast.cli.options import (
    UsageError,
    add_command,
    add_data_options,
    add_threads_option,
    check_output,
    source_of,
)
from hera_fast.cli.terminal import Output, percent, printable
from hera_fast.data_files import load_partial_labels
from hera_fast.pipeline_files import load_model
from hera_fast.threads import threads

__all__ = ["add_parser", "run"]

_Array = np.ndarray[Any, Any]

_SHOWN = 5
_SPARSE_TEXT = (".libsvm", ".svm", ".svmlight")
# Rows that are turned into text at a time.
_ROWS = 10_000


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "predict",
        run,
        summary="predict the labels of rows with a model that fit has written",
        description="New rows need no candidates. Columns with names are matched with those that "
        "the model was fitted to. Writes CSV with the columns row (from 0), label and probability.",
        examples=[
            ("predict model.hera new.csv --out labels.csv", "write a file"),
            ("predict model.hera new.csv | head", "to the standard output"),
            ("predict model.hera new.csv --probabilities --out p.csv", "of every label"),
            ("predict model.hera faces.csv --within-candidates", "one of the candidates"),
        ],
    )
    parser.add_argument("model", metavar="MODEL", help="a file that `hera-fast fit` has written")
    add_data_options(parser)
    parser.add_argument(
        *("-o", "--out"),
        type=Path,
        metavar="FILE",
        help="where the labels go (default: -, the standard output)",
    )
    parser.add_argument(
        "--probabilities", action="store_true", help="add a column for each label of the model"
    )
    parser.add_argument(
        "--within-candidates",
        action="store_true",
        help="choose among the candidates of each row, which DATA must have",
    )
    add_threads_option(parser)


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Run the command."""
    path: Path = arguments.out or STANDARD_OUTPUT
    if out.as_json and arguments.out == STANDARD_OUTPUT:
        raise UsageError("--json and --out - both want the standard output: name a file")
    if path != STANDARD_OUTPUT:
        check_output(path, arguments.model, arguments.data)
    model = _load_model(arguments.model)
    bunch = _load_rows(arguments)
    rows = _matched(bunch, model, arguments, out)
    _check_missing(rows, bunch, model, arguments.data)
    options = {}
    if arguments.within_candidates:
        options["candidates"] = _known_candidates(bunch, model.classes_, arguments.data)
    with threads(arguments.threads), warnings.catch_warnings():
        # They are matched with the names of the model above.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        probabilities = model.predict_proba(rows, **options)
    # The largest probability is that of the label that predict returns, also where two are close.
    best = probabilities.argmax(axis=1)
    labels = [str(label) for label in model.classes_.tolist()]
    accuracy = _accuracy(best, bunch, labels)
    out.data(source=arguments.data, model=arguments.model, rows=len(best), accuracy=accuracy)
    if out.as_json and path == STANDARD_OUTPUT:
        out.data(predictions=_predictions(best, probabilities, labels, arguments.probabilities))
    else:
        header = ["row", "label", "probability"]
        if arguments.probabilities:
            header += [f"probability of {label}" for label in labels]
        write_csv(path, header, _cells(best, probabilities, labels, arguments.probabilities))
    _report(path, len(best), accuracy, out)


def _load_model(path: str) -> Any:
    try:
        return load_model(path)
    except ValueError as error:
        raise ValueError(
            f"{error}. The model comes first, then the data; `hera-fast fit` writes models"
        ) from error


def _load_rows(arguments: argparse.Namespace) -> Bunch:
    source = source_of(arguments)
    if not source.is_file():
        return source.load()
    return load_partial_labels(
        source.name,
        candidate_column=source.candidate_column,
        target_column=source.target_column,
        separator=source.separator,
        needs_candidates=False,
    )


def _matched(bunch: Bunch, model: Any, arguments: argparse.Namespace, out: Output) -> Any:
    """Return the rows with the features that the model knows, in its order."""
    d = model.n_features_in_
    X, found = bunch.data, bunch.feature_names
    wanted = list(getattr(model, "feature_names_in_", numbered_names(d)))
    if found == wanted:
        return X
    if set(found) == set(wanted):
        place = {name: column for column, name in enumerate(found)}
        return X[:, [place[name] for name in wanted]]
    is_numbered = found == numbered_names(len(found)) or wanted == numbered_names(d)
    if is_numbered and len(found) == d:
        return X
    if is_numbered and len(found) < d and Path(arguments.data).suffix.lower() in _SPARSE_TEXT:
        # Of the last features, if they are zero in all rows, such a file does not know. It does
        # not say either whether it counts from 0, unless it has a feature 0.
        out.warn(
            f"{arguments.data} has {len(found)} features, {arguments.model} {d}: the last ones are "
            "taken for zero. If the file counts features from 0, one row must have the feature 0"
        )
        X = X.copy()
        X.resize((X.shape[0], d))
        return X
    if is_numbered:
        raise ValueError(
            f"{arguments.data} has {len(found)} features, but {arguments.model} was fitted to {d}"
        )
    missing = [name for name in wanted if name not in set(found)]
    extra = [name for name in found if name not in set(wanted)]
    faults = []
    if missing:
        faults.append(f"has no column {_listed(missing)}, which {arguments.model} needs")
    if extra:
        faults.append(f"has the column {_listed(extra)}, which {arguments.model} does not know")
    raise ValueError(f"{arguments.data} {', and '.join(faults)}. Rename, add or remove columns")


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")


def _check_missing(rows: Any, bunch: Bunch, model: Any, source: str) -> None:
    """Say what to do about missing values where the model has nothing to put there."""
    first = model[0] if hasattr(model, "steps") else model
    values = rows.data if sparse.issparse(rows) else rows
    if hasattr(first, "statistics_") or not np.isnan(values).any():
        return
    entries = sparse.coo_array(rows)
    place = int(np.argmax(np.isnan(entries.data)))
    names = getattr(model, "feature_names_in_", bunch.feature_names)
    raise ValueError(
        f"{source} has no value in row {entries.row[place]}, column "
        f"{names[entries.col[place]]!r}, and the model was fitted to rows without missing values, "
        "so that it has nothing to put there. Fill it in, or remove the row"
    )


def _known_candidates(bunch: Bunch, classes: _Array, source: str) -> Any:
    """Return the candidates with the columns of the model, without labels it does not know."""
    if bunch.candidates is None:
        raise ValueError(
            f"{source} has no candidates, which --within-candidates needs: leave it out"
        )
    place = {str(label): column for column, label in enumerate(classes.tolist())}
    names = [str(name) for name in bunch.target_names.tolist()]
    pairs = [(old, place[name]) for old, name in enumerate(names) if name in place]
    old, new = np.array(pairs, np.intp).reshape(-1, 2).T
    shape = len(names), len(classes)
    chosen = sparse.csr_array((np.ones(len(old), np.int64), (old, new)), shape=shape)
    known = sparse.csr_array(bunch.candidates.astype(np.int64) @ chosen)
    empty = np.flatnonzero(np.diff(known.indptr) == 0)
    if len(empty):
        own = bunch.candidates.indices[slice(*bunch.candidates.indptr[empty[0] : empty[0] + 2])]
        raise ValueError(
            f"{source}: row {empty[0]} has no candidate that the model knows, but "
            f"{_listed([names[i] for i in own])}. Correct it, or leave out --within-candidates"
        )
    unknown = [name for name in names if name not in place]
    if unknown:
        warnings.warn(
            f"the model does not know the candidates {_listed(unknown)}: it never chooses them",
            stacklevel=2,
        )
    return known.astype(np.bool_)


def _accuracy(best: _Array, bunch: Bunch, labels: list[str]) -> float | None:
    if bunch.target is None:
        return None
    place = {label: column for column, label in enumerate(labels)}
    columns = np.array([place.get(str(name), -1) for name in bunch.target_names.tolist()])
    return float((best == columns[bunch.target]).mean())


def _cells(
    best: _Array, probabilities: _Array, labels: list[str], with_all: bool
) -> Iterator[list[Any]]:
    for start in range(0, len(best), _ROWS):
        block = probabilities[start : start + _ROWS].tolist()
        columns = best[start : start + _ROWS].tolist()
        for row, (own, column) in enumerate(zip(block, columns, strict=True), start):
            yield [row, labels[column], own[column], *(own if with_all else [])]


def _predictions(
    best: _Array, probabilities: _Array, labels: list[str], with_all: bool
) -> list[dict[str, Any]]:
    found = []
    for row, label, probability, *others in _cells(best, probabilities, labels, with_all):
        found.append({"row": row, "label": label, "probability": probability})
        if with_all:
            found[-1]["probabilities"] = dict(zip(labels, others, strict=True))
    return found


def _report(path: Path, n_rows: int, accuracy: float | None, out: Output) -> None:
    is_file = path != STANDARD_OUTPUT
    # Nothing but the table goes to the standard output.
    say = out.text if is_file else out.note
    if is_file:
        say(f"{n_rows} labels: {printable(str(path))}")
    if accuracy is not None:
        say(f"accuracy: {percent(accuracy)}")

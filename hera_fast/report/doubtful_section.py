"""What a fit found in the rows it was fitted to, and which of them are doubtful."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hera_fast.experiments.records import Record
from hera_fast.report.formats import as_number, format_count, format_number
from hera_fast.report.html import Html, tag
from hera_fast.report.parts import figures_part, hidden, isolated
from hera_fast.report.results import dataset_titles
from hera_fast.report.tables import Cell, Column, count_cell, make_table, number_cell

__all__ = ["doubtful_section"]

# Candidates of a row that are shown at once.
_MOST_CANDIDATES = 5


def doubtful_section(record: Record) -> list[Html]:
    """Make the facts, figures and doubtful rows of a disambiguation.

    Parameters
    ----------
    record : Record

    Returns
    -------
    markup : list of Html

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.doubtful_section import doubtful_section
    >>> record = Record("a", "disambiguation", "A", {"dataset": "lost", "rows": 10, "labels": []})
    >>> doubtful_section(record)[0]
    '<p><bdi>lost</bdi>: 10 rows, 0 labels. The truth is not known.</p>'
    """
    body = record.body
    dataset = str(body.get("dataset") or "")
    accuracy = as_number(body.get("accuracy"))
    truth: Any = "The truth is not known."
    if accuracy == accuracy:
        truth = [tag("strong", f"{accuracy:.1%}"), " of the picked candidates are the true ones."]
    facts = [
        isolated(dataset_titles(record).get(dataset, dataset)),
        f": {format_count(as_number(body.get('rows')))} rows, ",
        f"{format_count(len(body.get('labels') or ()))} labels. ",
        truth,
    ]
    return [tag("p", facts), *figures_part(record), *_doubtful(body.get("doubtful") or [])]


def _doubtful(rows: list[Mapping[str, Any]]) -> list[Html]:
    heading = tag("h3", "Doubtful rows")
    if not rows:
        return [heading, tag("p", "No row has two candidates to doubt about.", class_="empty")]
    has_truth = any(row.get("truth") is not None for row in rows)
    columns = [
        Column("row"),
        Column("picked", numeric=False),
        *([Column("truth", numeric=False)] if has_truth else []),
        Column("confidence"),
        Column("runner-up", numeric=False),
        Column("margin"),
        Column("candidates", numeric=False),
    ]
    table = make_table(
        "Rows whose label is doubtful, the most doubtful first",
        columns,
        [_row(row, has_truth=has_truth) for row in rows],
    )
    explanation = (
        "The margin is how far the confidence in the picked label is above that in the runner-up. "
        "Look at these rows first: a few labels by hand help most here. Rows are counted from 0."
    )
    return [heading, tag("p", explanation), table]


def _row(row: Mapping[str, Any], *, has_truth: bool) -> list[Cell]:
    runner_up, truth = row.get("runner_up"), row.get("truth")
    candidates = [(str(name), as_number(share)) for name, share in row.get("candidates") or ()]
    return [
        count_cell(as_number(row["row"])),
        _name_cell(row["label"], strong=True),
        *([_truth_cell(truth, row["label"])] if has_truth else []),
        number_cell(as_number(row.get("confidence"))),
        Cell("–", "") if runner_up is None else _name_cell(runner_up),
        number_cell(as_number(row.get("margin"))),
        Cell(_bars(candidates), " ".join(name for name, _ in candidates)),
    ]


def _name_cell(name: Any, *, strong: bool = False) -> Cell:
    return Cell(isolated(name), str(name), strong=strong)


def _truth_cell(truth: Any, label: Any) -> Cell:
    if truth is None:
        return Cell("–", "")
    is_right = truth == label
    sign = tag("span", "✓" if is_right else "✗", aria_hidden="true")
    verdict = tag("span", sign, hidden(" right" if is_right else " wrong"))
    kind = "right" if is_right else "wrong"
    return Cell([isolated(truth), " ", tag("span", verdict, class_=kind)], str(truth))


def _bars(candidates: list[tuple[str, float]]) -> list[Html]:
    items = [
        tag(
            "li",
            tag("span", isolated(name), class_="name"),
            tag(
                "span",
                tag("span", style=f"width:{100 * np.clip(np.nan_to_num(share), 0, 1):.1f}%"),
                class_="bar",
                aria_hidden="true",
            ),
            tag("span", format_number(share, 2), class_="share"),
        )
        for name, share in candidates
    ]
    parts = [tag("ul", items[:_MOST_CANDIDATES], class_="bars")]
    if len(items) > _MOST_CANDIDATES:
        more = tag("summary", f"{len(items) - _MOST_CANDIDATES} more")
        parts.append(tag("details", more, tag("ul", items[_MOST_CANDIDATES:], class_="bars")))
    return parts

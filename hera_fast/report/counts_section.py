"""Wins, ties and losses beside the printed ones."""

from __future__ import annotations

from typing import Any

from hera_fast.experiments.records import Record
from hera_fast.report.formats import as_number, format_count, format_duration
from hera_fast.report.html import Html, tag
from hera_fast.report.parts import hidden, isolated, notes_part
from hera_fast.report.results import method_titles, reference_title
from hera_fast.report.tables import Cell, Column, make_table

__all__ = ["counts_section", "predicted_time", "read_counts", "total_counts"]

_Counts = tuple[int, int, int]


def read_counts(value: Any) -> _Counts | None:
    """Read wins, ties and losses of a record; None if there are none.

    Examples
    --------
    >>> from hera_fast.report.counts_section import read_counts
    >>> read_counts([23, 3, 2])
    (23, 3, 2)
    """
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"{value!r} are no wins, ties and losses")
    win, tie, loss = (int(as_number(number)) for number in value)
    return win, tie, loss


def total_counts(record: Record) -> _Counts:
    """Add up the wins, ties and losses of all rows.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.counts_section import total_counts
    >>> rows = [{"dataset": "glass", "counts": {"a": [1, 2, 3], "b": [1, 0, 0]}}]
    >>> total_counts(Record("mine", "win-tie-loss", "Mine", {"rows": rows}))
    (2, 2, 3)
    """
    cells = [read_counts(cell) for row in record.body["rows"] for cell in row["counts"].values()]
    known = [cell for cell in cells if cell is not None]
    return sum(c[0] for c in known), sum(c[1] for c in known), sum(c[2] for c in known)


def predicted_time(record: Record) -> Html | None:
    """Say how long the full grid will take, if that was predicted.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.counts_section import predicted_time
    >>> prediction = {"cells_done": 1, "cells_full": 2, "seconds_done": 6, "seconds_full": 12}
    >>> record = Record("a", "win-tie-loss", "A", {"prediction": prediction})
    >>> "1 of 2 cells of the full grid" in predicted_time(record)
    True
    """
    prediction = record.body.get("prediction")
    if not prediction:
        return None
    done, full = (as_number(prediction.get(f"cells_{part}")) for part in ("done", "full"))
    spent, whole = (as_number(prediction.get(f"seconds_{part}")) for part in ("done", "full"))
    processes = as_number(prediction.get("processes"))
    by = f" with {format_count(processes)} processes" if processes > 1 else ""
    return tag(
        "p",
        f"{format_count(done)} of {format_count(full)} cells of the full grid were computed, in "
        f"{format_duration(spent)}. All of them should take {format_duration(whole)}{by}.",
    )


def counts_section(record: Record) -> list[Html | None]:
    """Make the table of wins, ties and losses.

    Parameters
    ----------
    record : Record

    Returns
    -------
    markup : list of (Html or None)

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.counts_section import counts_section
    >>> counts_section(Record("a", "win-tie-loss", "A", {"rows": [], "others": []}))[0]
    '<p class="empty">There are no figures yet.</p>'
    """
    body = record.body
    rows, others = body["rows"], method_titles(body["others"])
    if not rows:
        return [tag("p", "There are no figures yet.", class_="empty"), predicted_time(record)]
    table_rows = []
    has_published = False
    for row in rows:
        title = str(row.get("title") or row["dataset"])
        printed = row.get("published") or {}
        has_published |= bool(printed)
        cells = [_cell(row["counts"].get(other), printed.get(other)) for other in others]
        table_rows.append([Cell(isolated(title), title), *cells])
    sums, printed = body.get("sums") or {}, body.get("published_sums") or {}
    footer = [Cell("Sum"), *(_cell(sums.get(other), printed.get(other)) for other in others)]
    reference = reference_title(record)
    errors = [str(error) for error in body.get("errors") or ()]
    explanation = [
        *("Wins/ties/losses of ", isolated(reference), " against the method of the column, "),
        "by paired t-tests over folds; one comparison for each kind of artificial candidates. ",
        "Sorted by wins minus losses. ",
        "Small figures are those of the paper. " if has_published or printed else None,
        "What does not add up in print:" if errors else None,
    ]
    header = [Column("data set", numeric=False), *map(Column, others.values())]
    caption = f"Wins, ties and losses of {reference}"
    return [
        make_table(caption, header, table_rows, footer=footer if sums or printed else ()),
        tag("p", explanation, class_="explanation"),
        notes_part(errors, class_="errata"),
        predicted_time(record),
    ]


def _cell(value: Any, published: Any) -> Cell:
    counts, printed = read_counts(value), read_counts(published)
    parts: list[Any] = ["–" if counts is None else _text(counts)]
    if counts is not None and any(counts):
        parts.append(_bar(counts))
    if printed is not None:
        parts.append(tag("small", hidden("printed "), _text(printed)))
    return Cell(parts, float("nan") if counts is None else counts[0] - counts[2])


def _text(counts: _Counts) -> Html:
    words = hidden("{} wins, {} ties, {} losses".format(*counts))
    return Html(tag("span", "/".join(map(str, counts)), aria_hidden="true") + words)


def _bar(counts: _Counts) -> Html:
    parts = [
        tag("span", class_=kind, style=f"flex-grow:{count}")
        for kind, count in zip(("win", "tie", "loss"), counts, strict=True)
        if count
    ]
    return tag("span", parts, class_="counts", aria_hidden="true")

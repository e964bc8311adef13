"""Tables that readers can sort, by mouse and by keyboard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hera_fast.report.formats import format_count, format_number
from hera_fast.report.html import Html, tag

__all__ = ["Cell", "Column", "count_cell", "make_table", "number_cell"]

# Longer tables scroll inside themselves.
_MOST_ROWS = 16


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    title : str
        What stands above it, and on the button that sorts by it.
    numeric : bool, default=True
        Whether it is sorted by numbers, and aligned at the right.

    Examples
    --------
    >>> from hera_fast.report.tables import Column
    >>> Column("accuracy").numeric
    True
    """

    title: str
    numeric: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Parameters
    ----------
    content : object
        What is shown: text, or markup.
    value : float, str or None, default=None
        What it is sorted by; None takes the text, NaN comes last.
    strong : bool, default=False
        Whether it is emphasised.

    Examples
    --------
    >>> from hera_fast.report.tables import Cell
    >>> Cell("12 s", 12.0).value
    12.0
    """

    content: Any
    value: float | str | None = None
    strong: bool = False


def number_cell(value: float, digits: int = 3) -> Cell:
    """Make a cell of a number.

    Examples
    --------
    >>> from hera_fast.report.tables import number_cell
    >>> number_cell(0.51).content
    '0.510'
    """
    return Cell(format_number(value, digits), value)


def count_cell(value: float) -> Cell:
    """Make a cell of a whole number.

    Examples
    --------
    >>> from hera_fast.report.tables import count_cell
    >>> count_cell(17472.0).content
    '17,472'
    """
    return Cell(format_count(value), value)


def make_table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    footer: Sequence[Cell] = (),
) -> Html:
    """Make a table whose rows can be sorted.

    Parameters
    ----------
    caption : str
        What it shows.
    columns : sequence of Column
        The first one names the rows.
    rows : sequence of sequence of Cell
        As many cells each as there are columns.
    footer : sequence of Cell, default=()
        A last row that stays where it is.

    Returns
    -------
    markup : Html

    Examples
    --------
    >>> from hera_fast.report.tables import Cell, Column, make_table, number_cell
    >>> columns = [Column("method", numeric=False), Column("accuracy")]
    >>> "<tbody>" in make_table("Accuracy", columns, [[Cell("HERA"), number_cell(0.9)]])
    True
    """
    head = [
        tag(
            "th",
            tag("button", column.title, type="button"),
            scope="col",
            class_="number" if column.numeric else None,
            data_type="number" if column.numeric else "text",
        )
        for column in columns
    ]
    table = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", head)),
        tag("tbody", [_row(columns, row) for row in rows]),
        tag("tfoot", _row(columns, footer)) if footer else None,
        class_="sortable",
    )
    return tag(
        "div",
        table,
        class_="scroll tall" if len(rows) > _MOST_ROWS else "scroll",
        role="region",
        tabindex="0",
        aria_label=caption,
    )


def _row(columns: Sequence[Column], cells: Sequence[Cell]) -> Html:
    row = []
    for place, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        value = cell.value
        if isinstance(value, (int, float)):
            value = repr(float(value)) if math.isfinite(value) else ""
        row.append(
            tag(
                "td" if place else "th",
                tag("strong", cell.content) if cell.strong else cell.content,
                scope=None if place else "row",
                class_="number" if column.numeric else None,
                data_value=value,
            )
        )
    return tag("tr", row)

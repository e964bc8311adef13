"""Curves, and the numbers behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.experiments.records import Record
from hera_fast.report.curve_panels import series_titles
from hera_fast.report.formats import as_numbers, format_mean
from hera_fast.report.html import Html, tag
from hera_fast.report.parts import details, figures_part, isolated
from hera_fast.report.tables import Cell, Column, make_table

__all__ = ["curve_section"]

# Columns of a table of numbers; of longer curves some points are left out.
_MOST_POINTS = 12


def curve_section(record: Record) -> list[Html]:
    """Make the figures of curves, with their numbers as tables.

    Parameters
    ----------
    record : Record

    Returns
    -------
    markup : list of Html

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.curve_section import curve_section
    >>> curve_section(Record("a", "curves", "A", {"legend": [], "panels": []}))
    ['<p class="empty">There are no figures yet.</p>']
    """
    figures = figures_part(record)
    if not figures:
        return [tag("p", "There are no figures yet.", class_="empty")]
    return [*figures, details("The numbers of these figures", *_tables(record))]


def _tables(record: Record) -> list[Html]:
    """Make a table for all panels with the same points."""
    titles = series_titles(record)
    tables: dict[tuple[Any, ...], list[list[Cell]]] = {}
    for panel in record.body["panels"]:
        x = as_numbers(panel["x"])
        kept = np.unique(np.linspace(0, max(len(x) - 1, 0), _MOST_POINTS).astype(int))[: len(x)]
        key = (panel.get("x_label") or "", panel.get("y_label") or "", tuple(x[kept]), len(x))
        rows = tables.setdefault(key, [])
        name = ", ".join(str(part) for part in (panel.get("title"), panel.get("group")) if part)
        for series in panel["series"]:
            y, sd = as_numbers(series["y"]), as_numbers(series.get("sd"))
            sd = sd if len(sd) else np.full(len(y), np.nan)
            line = titles[str(series["name"])]
            cells = [Cell(_format(y[i], sd[i]), float(y[i])) for i in kept]
            rows.append([Cell(isolated(name), name), Cell(isolated(line), line), *cells])
    found = []
    for (x_label, y_label, points, length), rows in tables.items():
        some = f"; {len(points)} of {length} points" if length > len(points) else ""
        header = [Column(f"{point:g}" if np.isfinite(point) else "–") for point in points]
        header = [Column("panel", numeric=False), Column("line", numeric=False), *header]
        found.append(make_table(f"{y_label} against {x_label}{some}", header, rows))
    return found


def _format(mean: float, sd: float) -> str:
    # Changes of a loss, for example, are far below any decimals.
    if mean and not 0.001 <= abs(mean) < 10000:
        return f"{mean:.2g}" if np.isfinite(mean) else "–"
    return format_mean(mean, sd)

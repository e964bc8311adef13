"""All figures of a record: its panels, their legend, or one picture."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hera_fast.atomic import replacing
from hera_fast.experiments.records import Record
from hera_fast.extras import require
from hera_fast.plotting import MethodStyle, method_styles
from hera_fast.report.curve_panels import curve_panels, series_titles
from hera_fast.report.label_panels import label_panels
from hera_fast.report.method_panels import ablation_panels, comparison_panels
from hera_fast.report.panel import Panel
from hera_fast.report.svg import plain_style

__all__ = ["draw_record", "legend_of", "panels_of"]

_FORMATS = ("pdf", "png", "svg")


def panels_of(record: Record) -> list[Panel]:
    """Make the figures of a record.

    Parameters
    ----------
    record : Record
        Of any kind.

    Returns
    -------
    panels : list of Panel
        Those of a group one after the other.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.figures import panels_of
    >>> series = [{"name": "hera", "y": [0.9, 0.8], "sd": None}]
    >>> panel = {"title": "Glass", "x": [1, 2], "x_label": "r", "y_label": "accuracy"}
    >>> body = {"legend": [], "panels": [{**panel, "series": series}]}
    >>> panels_of(Record("mine", "curves", "Mine", body))[0].description
    'accuracy against r, from 1 to 2. hera: 0.900 to 0.800.'
    """
    if record.kind == "comparison":
        return comparison_panels(record)
    if record.kind == "ablation":
        return ablation_panels(record)
    if record.kind == "curves":
        return curve_panels(record)
    if record.kind == "disambiguation":
        return label_panels(record)
    return []


def legend_of(record: Record) -> list[tuple[str, MethodStyle]]:
    """Return titles and styles of the lines that the panels of a record share.

    Parameters
    ----------
    record : Record
        Only curves have such lines.

    Returns
    -------
    legend : list of (str, MethodStyle)

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.figures import legend_of
    >>> body = {"legend": [{"name": "hera", "title": "HERA"}], "panels": []}
    >>> [title for title, _ in legend_of(Record("mine", "curves", "Mine", body))]
    ['HERA']
    """
    if record.kind != "curves":
        return []
    titles = series_titles(record)
    styles = method_styles(titles)
    return [(title, styles[name]) for name, title in titles.items()]


def draw_record(record: Record, path: str | os.PathLike[str]) -> None:
    """Draw all figures of a record into one picture.

    Parameters
    ----------
    record : Record
        Of any kind that has figures.
    path : str or path
        A file that ends with ``.png``, ``.svg`` or ``.pdf``. Its folder must exist.

    Raises
    ------
    ValueError
        If there is nothing to draw, or the name has another ending.

    Examples
    --------
    >>> import os, tempfile
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report import draw_record
    >>> panel = {"title": "Glass", "x": [1, 2], "x_label": "r", "y_label": "accuracy"}
    >>> panel["series"] = [{"name": "hera", "y": [0.9, 0.8], "sd": None}]
    >>> record = Record("mine", "curves", "Mine", {"legend": [], "panels": [panel]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_record(record, os.path.join(folder, "mine.png"))
    ...     os.listdir(folder)
    ['mine.png']
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in _FORMATS:
        raise ValueError(f"{path} must end with .png, .svg or .pdf")
    panels = panels_of(record)
    if all(panel.display is None for panel in panels):
        raise ValueError(f"the record {record.name!r} has nothing to draw")
    settings = {"font.size": 9, "savefig.dpi": 150, "svg.hashsalt": record.name}
    with plain_style(settings), replacing(path, "picture") as file:
        figure = _assemble(panels, legend_of(record))
        # Without the time, so that the same record makes the same picture.
        figure.savefig(
            file,
            format=kind,
            metadata=None if kind == "png" else {"Date" if kind == "svg" else "CreationDate": None},
        )


def _assemble(panels: Sequence[Panel], legend: Sequence[tuple[str, MethodStyle]]) -> Any:
    groups: dict[str, list[Panel]] = {}
    for panel in panels:
        groups.setdefault(panel.group, []).append(panel)
    columns = min(5, max(map(len, groups.values())))
    heights = [math.ceil(len(group) / columns) for group in groups.values()]
    figure = require("matplotlib.figure", "plot", "a picture").Figure(
        figsize=(3.4 * columns, 2.8 * sum(heights) + 0.4), layout="constrained"
    )
    parts = figure.subfigures(len(groups), squeeze=False, height_ratios=heights).ravel()
    for part, height, (title, group) in zip(parts, heights, groups.items(), strict=True):
        if title:
            part.suptitle(title, fontweight="bold", parse_math=False)
        axes = part.subplots(height, columns, squeeze=False).ravel()
        for panel, ax in zip(group, axes, strict=False):
            # At the left, because the right may have a legend.
            ax.set_title(panel.title, loc="left", parse_math=False)
            if panel.display is None:
                ax.set_axis_off()
            else:
                panel.draw(ax)
        for ax in axes[len(group) :]:
            ax.set_axis_off()
    if legend:
        lines = require("matplotlib.lines", "plot", "a picture")
        handles = [lines.Line2D([], [], **style._asdict()) for _, style in legend]
        names = figure.legend(
            handles,
            [str(number) for number in range(len(legend))],
            loc="outside lower center",
            ncols=min(len(legend), 3 * columns),
            frameon=False,
        )
        # Only now, because matplotlib would take dollars for formulas.
        for text, (title, _) in zip(names.get_texts(), legend, strict=True):
            text.set_parse_math(False)
            text.set_text(title)
    return figure

"""Figures of curves, such as accuracy against a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hera_fast.experiments.records import Record
from hera_fast.plotting import CurveDisplay, MethodStyle, method_styles
from hera_fast.report.formats import as_numbers
from hera_fast.report.panel import Panel, in_short
from hera_fast.report.results import method_titles

__all__ = ["curve_panels", "series_titles"]

_Array = np.ndarray[Any, Any]

# With more points, marks would hide the line.
_MOST_MARKERS = 30


def series_titles(record: Record) -> dict[str, str]:
    """Return titles of lines by their names: of the legend, then of lines that it lacks.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.curve_panels import series_titles
    >>> body = {"legend": [{"name": "hera", "title": "HERA"}], "panels": []}
    >>> series_titles(Record("mine", "curves", "Mine", body))
    {'hera': 'HERA'}
    """
    titles = method_titles(record.body.get("legend") or [])
    for panel in record.body["panels"]:
        for series in panel["series"]:
            titles.setdefault(str(series["name"]), str(series["name"]))
    return titles


def curve_panels(record: Record) -> list[Panel]:
    """Make the figures of curves, those of a group one after the other.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.curve_panels import curve_panels
    >>> panel = {"title": "Glass", "x": [1], "x_label": "r", "y_label": "accuracy", "series": []}
    >>> curve_panels(Record("mine", "curves", "Mine", {"panels": [panel]}))[0].description
    'There are no figures yet.'
    """
    titles = series_titles(record)
    styles = method_styles(titles)
    groups: dict[str, list[Panel]] = {}
    for panel in record.body["panels"]:
        made = _curve_panel(panel, titles, styles)
        groups.setdefault(made.group, []).append(made)
    return [panel for group in groups.values() for panel in group]


def _curve_panel(
    panel: Mapping[str, Any], titles: Mapping[str, str], styles: Mapping[str, MethodStyle]
) -> Panel:
    x = as_numbers(panel["x"])
    means = {str(series["name"]): as_numbers(series["y"]) for series in panel["series"]}
    sds = {
        str(series["name"]): as_numbers(series["sd"])
        for series in panel["series"]
        if series.get("sd") is not None
    }
    x_label, y_label = str(panel.get("x_label") or ""), str(panel.get("y_label") or "")
    x_scale, y_scale = panel.get("x_scale") or "linear", panel.get("y_scale") or "linear"
    title, group = str(panel.get("title") or ""), str(panel.get("group") or "")
    known = {name: _drawn(x, y, x_scale, y_scale) for name, y in means.items() if len(y) == len(x)}
    if len(known) == len(means) and not any(drawn.any() for drawn in known.values()):
        return Panel(title, "There are no figures yet.", None, group)
    display = CurveDisplay(
        x, means, sds, x_label=x_label, y_label=y_label, x_scale=x_scale, y_scale=y_scale
    )
    shown = x[np.any(list(known.values()), axis=0)]
    texts = [
        f"{titles[name]}: {in_short(means[name][drawn])}."
        for name, drawn in known.items()
        if any(drawn)
    ]
    description = f"{y_label} against {x_label}, from {shown[0]:g} to {shown[-1]:g}."
    options = {"colors": styles, "legend": False, "markers": len(x) <= _MOST_MARKERS}
    return Panel(title, " ".join([description, *texts]), display, group, options=options)


def _drawn(x: _Array, y: _Array, x_scale: str, y_scale: str) -> _Array:
    drawn: _Array = np.isfinite(x) & np.isfinite(y)
    if x_scale == "log":
        drawn &= x > 0
    if y_scale == "log":
        drawn &= y > 0
    return drawn

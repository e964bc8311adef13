"""How the records were made: commands, settings, seeds, versions, machines, data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hera_fast.experiments.records import Record
from hera_fast.report.formats import as_number
from hera_fast.report.html import Html, tag
from hera_fast.report.parts import isolated
from hera_fast.report.tables import Cell, Column, count_cell, make_table, number_cell

__all__ = ["provenance_section"]

_UNITS = {"memory_gib": ("memory", " GiB")}


def provenance_section(records: Sequence[Record]) -> list[Html | None]:
    """Say how the records were made.

    Parameters
    ----------
    records : sequence of Record

    Returns
    -------
    markup : list of (Html or None)

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.provenance import provenance_section
    >>> about = {"command": "hera-fast evaluate", "settings": {"seed": 0}}
    >>> "seed" in provenance_section([Record("a", "curves", "A", {}, about=about)])[1]
    True
    """
    return [
        tag("h3", "Commands, settings and seeds"),
        tag("div", _settings(records), class_="cards"),
        tag("h3", "Versions and machines"),
        tag("div", [*_common(records, "versions"), *_common(records, "machine")], class_="cards"),
        *_data(records),
    ]


def _settings(records: Sequence[Record]) -> list[Html]:
    """Show commands and settings, once if several records have the same."""
    groups = _grouped(
        records,
        lambda about: {
            part: about.get(part) for part in ("command", "settings") if about.get(part)
        },
    )
    cards = []
    for content, owners in groups:
        times = sorted({str(r.about["created"]) for r in owners if r.about.get("created")})
        span = " to ".join(dict.fromkeys([times[0], times[-1]])) if times else ""
        cards.append(
            tag(
                "div",
                tag("h4", _owners(owners, groups) or "All results"),
                tag("p", tag("code", content.get("command")), class_="command"),
                tag("p", "Made ", span, ".") if span else None,
                _pairs(content.get("settings") or {}),
                class_="card",
            )
        )
    return cards


def _common(records: Sequence[Record], part: str) -> list[Html]:
    """Show what records have in common once, and whose it is if they differ."""
    groups = _grouped(records, lambda about: about.get(part) or {})
    return [
        tag(
            "div",
            tag("h4", part.capitalize()),
            tag("p", "Of ", _owners(owners, groups), ".") if len(groups) > 1 else None,
            _pairs(content),
            class_="card",
        )
        for content, owners in groups
    ]


def _owners(owners: Sequence[Record], groups: Sequence[Any]) -> str:
    """Return whose a part is, unless it belongs to all."""
    return "; ".join(record.title for record in owners) if len(groups) > 1 else ""


def _grouped(
    records: Sequence[Record], choose: Callable[[dict[str, Any]], dict[str, Any]]
) -> list[tuple[dict[str, Any], list[Record]]]:
    """Return what is chosen of records, if it is anything, each with all that have the same."""
    groups: dict[str, tuple[dict[str, Any], list[Record]]] = {}
    for record in records:
        content = choose(record.about)
        if content:
            key = json.dumps(content, sort_keys=True)
            groups.setdefault(key, (content, []))[1].append(record)
    return list(groups.values())


def _pairs(content: Mapping[str, Any]) -> Html | None:
    items = []
    for name, value in content.items():
        shown, unit = _UNITS.get(name, (str(name).replace("_", " "), ""))
        items.append(tag("div", tag("dt", shown), tag("dd", f"{_value(value)}{unit}")))
    return tag("dl", items, class_="pairs") if items else None


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {_value(part)}" for name, part in value.items()) or "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value, value)) or "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _data(records: Sequence[Record]) -> list[Html]:
    found = {}
    for record in records:
        for data in record.datasets:
            found[str(data["name"]), str(data.get("sha256") or "")] = data
    if not found:
        return []
    columns = [
        Column("data set", numeric=False),
        *map(Column, ("rows", "features", "labels", "candidates per row")),
        Column("SHA-256 of the contents", numeric=False),
    ]
    rows = []
    for (name, digest), data in found.items():
        title = str(data.get("title") or name)
        rows.append(
            [
                Cell(isolated(title), title),
                *(count_cell(as_number(data.get(part))) for part in ("rows", "features", "labels")),
                number_cell(as_number(data.get("candidates")), 2),
                Cell(tag("code", digest, class_="digest") if digest else "–", digest),
            ]
        )
    return [tag("h3", "Data"), make_table("Data sets", columns, rows)]

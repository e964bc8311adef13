"""Parts that several sections of the report have: figures with a legend, notes, marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hera_fast.experiments.records import Record
from hera_fast.report.figures import legend_of, panels_of
from hera_fast.report.html import Html, tag
from hera_fast.report.panel import Panel
from hera_fast.report.svg import render, render_sample

__all__ = ["details", "figures_part", "hidden", "isolated", "mark_part", "notes_part"]

_MARKS = {"•": "worse", "◦": "better"}


def hidden(text: str) -> Html:
    """Make text that only screen readers tell.

    Examples
    --------
    >>> from hera_fast.report.parts import hidden
    >>> hidden("worse")
    '<span class="visually-hidden">worse</span>'
    """
    return tag("span", text, class_="visually-hidden")


def isolated(text: Any) -> Html:
    """Make a name from data that cannot turn the text around it, whatever its script.

    Examples
    --------
    >>> from hera_fast.report.parts import isolated
    >>> isolated("<b>")
    '<bdi>&lt;b&gt;</bdi>'
    """
    return tag("bdi", text)


def mark_part(mark: str, reference: str) -> Html:
    """Make a mark of significance that can be seen and heard, or leave its place.

    Parameters
    ----------
    mark : str
        ``"•"``, ``"◦"``, or nothing.
    reference : str
        The method that the mark refers to.

    Returns
    -------
    markup : Html

    Examples
    --------
    >>> from hera_fast.report.parts import mark_part
    >>> "worse than HERA" in mark_part("•", "HERA")
    True
    """
    words = hidden(f" ({_MARKS[mark]} than {reference})") if mark in _MARKS else None
    return tag(
        "span", tag("span", mark, aria_hidden="true") if words else None, words, class_="mark"
    )


def notes_part(notes: Iterable[Any], *, class_: str = "notes") -> Html | None:
    """Make a list of sentences, or nothing if there are none.

    Examples
    --------
    >>> from hera_fast.report.parts import notes_part
    >>> notes_part(["one", "two"])
    '<ul class="notes"><li>one</li><li>two</li></ul>'
    """
    items = [tag("li", note) for note in notes]
    return tag("ul", items, class_=class_) if items else None


def details(title: str, *children: Any) -> Html:
    """Make a part that opens on demand.

    Examples
    --------
    >>> from hera_fast.report.parts import details
    >>> details("more", "text")
    '<details><summary>more</summary>text</details>'
    """
    return tag("details", tag("summary", title), *children)


def figures_part(record: Record) -> list[Html]:
    """Draw all figures of a record, by groups, below the legend that they share.

    Parameters
    ----------
    record : Record

    Returns
    -------
    markup : list of Html
        Nothing if the record has no figures.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.parts import figures_part
    >>> figures_part(Record("mine", "curves", "Mine", {"legend": [], "panels": []}))
    []
    """
    panels = panels_of(record)
    if not panels:
        return []
    groups: dict[str, list[Html]] = {}
    for number, panel in enumerate(panels):
        groups.setdefault(panel.group, []).append(_figure(panel, f"{record.name}-{number}"))
    parts = [_legend(record)] if legend_of(record) else []
    for title, figures in groups.items():
        if title:
            parts.append(tag("h3", title))
        parts.append(tag("div", figures, class_="figures"))
    return parts


def _figure(panel: Panel, name: str) -> Html:
    if panel.display is None:
        content = tag("p", panel.description, class_="empty")
    else:
        content = render(
            panel.draw,
            name=name,
            title=panel.title,
            description=panel.description,
            size=panel.size,
        )
    return tag("figure", tag("figcaption", panel.title), content)


def _legend(record: Record) -> Html:
    items: Sequence[Html] = [
        tag("li", render_sample(style, name=f"{record.name}-legend-{number}"), isolated(title))
        for number, (title, style) in enumerate(legend_of(record))
    ]
    return tag("ul", items, class_="legend", aria_label="Legend of the figures")

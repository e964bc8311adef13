"""Displays as SVG inside a page: its letters, its colours, no clash of names."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from hera_fast.extras import require
from hera_fast.plotting import COLORS, MethodStyle
from hera_fast.report.html import Html, clean

__all__ = ["plain_style", "render", "render_sample"]

_PURPOSE = "a report"
# A colour that nothing else has; the page puts its own in place of it.
_INK = "#010203"
_FONT_SIZE = 9
_SETTINGS: dict[str, Any] = {
    "axes.facecolor": "none",
    "axes.labelsize": _FONT_SIZE,
    "axes.linewidth": 0.7,
    "figure.facecolor": "none",
    "font.size": _FONT_SIZE,
    "lines.linewidth": 1.4,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    **{
        f"{name}color": _INK
        for name in (
            *("axes.edge", "axes.label", "grid.", "patch.edge", "text."),
            *("xtick.", "xtick.label", "ytick.", "ytick.label"),
        )
    },
}
# Parts that the page does not need, or that would hold for all of it.
_DROPPED = ("metadata", "style")
_REFERENCE = re.compile(r"#([\w.-]+)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


@contextmanager
def plain_style(settings: Mapping[str, Any]) -> Iterator[None]:
    """Draw with matplotlib's own settings and these, whatever a user has chosen for other plots.

    Parameters
    ----------
    settings : mapping
        Of matplotlib's names to values.

    Examples
    --------
    >>> import matplotlib
    >>> from hera_fast.report.svg import plain_style
    >>> with plain_style({"font.size": 7}):
    ...     matplotlib.rcParams["font.size"]
    7.0
    """
    matplotlib = require("matplotlib", "plot", _PURPOSE)
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        # Browsers have more fonts than matplotlib, which only measures the text.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def render(
    draw: Callable[[Any], Any],
    *,
    name: str,
    title: str,
    description: str,
    size: tuple[float, float],
) -> Html:
    """Draw onto axes, and return the picture as an element of a page.

    Parameters
    ----------
    draw : callable
        Gets matplotlib's axes, such as the method `plot` of a display.
    name : str
        No other picture of the page has it.
    title : str
        What a screen reader calls it.
    description : str
        What it shows, for those who cannot see it.
    size : (float, float)
        Width and height in inches. The page scales it.

    Returns
    -------
    markup : Html

    Examples
    --------
    >>> from hera_fast.report.svg import render
    >>> text = {"title": "A line", "description": "It rises."}
    >>> svg = render(lambda ax: ax.plot([1, 2]), name="line", size=(3, 2), **text)
    >>> svg[:26], "<title" in svg
    ('<svg viewBox="0 0 216 144"', True)
    """
    root = _draw(draw, name, size, layout="constrained")
    labels = {"title": f"{name}-title", "desc": f"{name}-description"}
    root.set("role", "img")
    root.set("aria-labelledby", labels["title"])
    root.set("aria-describedby", labels["desc"])
    for place, (kind, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(kind, id=labels[kind])
        element.text = clean(text)
        root.insert(place, element)
    return _markup(root)


def render_sample(style: MethodStyle, *, name: str) -> Html:
    """Draw a short line with a marker, for a legend. Screen readers pass over it.

    Parameters
    ----------
    style : MethodStyle
        Colour, marker and kind of line.
    name : str
        No other picture of the page has it.

    Returns
    -------
    markup : Html

    Examples
    --------
    >>> from hera_fast.plotting import MethodStyle
    >>> from hera_fast.report.svg import render_sample
    >>> "aria-hidden" in render_sample(MethodStyle("#0072B2", "o", "-"), name="sample")
    True
    """

    def draw(ax: Any) -> None:
        ax.set(position=(0, 0, 1, 1), xlim=(0, 1))
        ax.set_axis_off()
        ax.plot([0.05, 0.5, 0.95], [0, 0, 0], markevery=[1], markersize=5, **style._asdict())

    root = _draw(draw, name, (0.42, 0.14), layout=None)
    root.set("aria-hidden", "true")
    return _markup(root)


def _draw(draw: Callable[[Any], Any], name: str, size: tuple[float, float], layout: Any) -> Any:
    figures = require("matplotlib.figure", "plot", _PURPOSE)
    backend = require("matplotlib.backends.backend_svg", "plot", _PURPOSE)
    content = io.BytesIO()
    # The salt makes names inside the picture the same every time, and others in other pictures.
    with plain_style({**_SETTINGS, "svg.hashsalt": name}):
        figure = figures.Figure(figsize=size, layout=layout)
        backend.FigureCanvasSVG(figure)
        draw(figure.subplots())
        figure.savefig(content, format="svg", metadata={"Date": None})
    return _adapted(ElementTree.fromstring(content.getvalue()))


def _adapted(root: Any) -> Any:
    """Make the root of an SVG file fit into a page."""
    colors = {color.lower(): f"var(--series-{i + 1})" for i, color in enumerate(COLORS)}
    colors |= {_INK: "currentColor", "#000000": "currentColor"}
    used = {
        name
        for element in root.iter()
        for value in element.attrib.values()
        for name in _REFERENCE.findall(value)
    }
    for element in list(root.iter()):
        # Inside a page, names of elements need no namespace.
        element.tag = element.tag.rpartition("}")[2]
        for child in [each for each in element if each.tag.rpartition("}")[2] in _DROPPED]:
            element.remove(child)
        attributes = {name.rpartition("}")[2]: text for name, text in element.attrib.items()}
        if attributes.get("id") not in used:
            attributes.pop("id", None)
        for name in {"d", "x", "y"} & set(attributes):
            attributes[name] = _shorter(attributes[name])
        if "style" in attributes:
            attributes["style"] = _style(attributes["style"], colors)
        element.attrib.clear()
        element.attrib.update(attributes)
        # Line breaks between elements would only make the page longer.
        element.tail = (element.tail or "").strip()
        if element.tag not in ("text", "tspan"):
            element.text = (element.text or "").strip()
    view_box = root.get("viewBox", "")
    root.attrib.clear()
    root.set("viewBox", view_box)
    return root


def _shorter(numbers: str) -> str:
    rounded = _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", numbers)
    return " ".join(rounded.split())


def _style(style: str, colors: dict[str, str]) -> str:
    """Leave the font to the page, and most of the colours."""
    parts = []
    for part in style.split(";"):
        name, _, value = (each.strip() for each in part.partition(":"))
        if name == "font":
            # Size and font in one, as some versions of matplotlib write it.
            size = re.search(r"[\d.]+px", value)
            name, value = "font-size", size[0] if size else f"{_FONT_SIZE}px"
        if name and name != "font-family":
            parts.append(f"{name}:{colors.get(value.lower(), value)}")
    return ";".join(parts)


def _markup(root: Any) -> Html:
    return Html(ElementTree.tostring(root, encoding="unicode"))

"""Names and other texts in figures: drawn as they are, and as large as there is room."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from hera_fast.extras import require

__all__ = ["add_legend", "add_texts", "length_in_points", "metric_label", "name_ticks", "shorten"]

_METRICS = {
    "inductive": "held-out accuracy",
    "transductive": "accuracy on training rows",
    "macro_f1": "macro F1",
    "log_loss": "log loss",
    "covering": "share of predictions that are candidates",
    "fit_seconds": "seconds to fit",
    "predict_seconds": "seconds to predict",
    "n_iter": "iterations",
}

# The part of the axes that a name beside them and a name in the legend may take, in letters of
# this width.
_NAME_SHARE, _LEGEND_SHARE = 0.42, 0.32
_LETTER_WIDTH = 0.6
_FEWEST_LETTERS, _MOST_LETTERS = 8, 32
_SMALLEST_FONT = 4.0


def add_legend(ax: Any, artists: Mapping[str, Any], **options: Any) -> None:
    """Explain artists by their names, beside the axes if there are many.

    Parameters
    ----------
    ax : matplotlib Axes
    artists : dict of str to artist
    **options
        For matplotlib's legend, instead of the place chosen here.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting.texts import add_legend
    >>> ax = Figure().subplots()
    >>> (line,) = ax.plot([1, 2])
    >>> add_legend(ax, {"_$a": line})
    >>> ax.get_legend().get_texts()[0].get_text()
    '_$a'
    """
    if not options and len(artists) > 4:
        options = {"loc": "upper left", "bbox_to_anchor": (1, 1), "borderaxespad": 0}
    numbers = [str(number) for number in range(len(artists))]
    # No frame, which would need a ground.
    legend = ax.legend(list(artists.values()), numbers, frameon=False, fontsize="small", **options)
    # Names only now: matplotlib would take dollars for formulas and drop a leading underscore.
    for text, name in zip(legend.get_texts(), artists, strict=True):
        text.set_parse_math(False)
        text.set_text(shorten(name, _letters(ax, "x", _LEGEND_SHARE, text.get_fontsize())))


def add_texts(
    ax: Any, *, title: str | None = None, x_label: str | None = None, y_label: str | None = None
) -> None:
    """Write title and axis labels as they are, dollars included.

    Parameters
    ----------
    ax : matplotlib Axes
    title, x_label, y_label : str or None, default=None
        None leaves what is there.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting.texts import add_texts
    >>> ax = Figure().subplots()
    >>> add_texts(ax, title="$100")
    >>> ax.get_title()
    '$100'
    """
    if title is not None:
        ax.set_title(_printable(title), parse_math=False)
    if x_label is not None:
        ax.set_xlabel(_printable(x_label), parse_math=False)
    if y_label is not None:
        ax.set_ylabel(_printable(y_label), parse_math=False)


def length_in_points(ax: Any, axis: str) -> float:
    """Return how long an axis is, in 1/72 inch.

    Parameters
    ----------
    ax : matplotlib Axes
    axis : {"x", "y"}

    Returns
    -------
    length : float

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting.texts import length_in_points
    >>> ax = Figure(figsize=(2, 1)).add_axes((0, 0, 1, 0.5))
    >>> round(length_in_points(ax, "x")), round(length_in_points(ax, "y"))
    (144, 36)
    """
    box = ax.get_window_extent()
    return float((box.width if axis == "x" else box.height) * 72 / ax.figure.dpi)


def metric_label(metric: str) -> str:
    """Return what a column of results is called beside an axis.

    Parameters
    ----------
    metric : str
        A column of :func:`~hera_fast.evaluation.cross_validate_partial`, or another one.

    Returns
    -------
    label : str

    Examples
    --------
    >>> from hera_fast.plotting.texts import metric_label
    >>> metric_label("inductive"), metric_label("mae3")
    ('held-out accuracy', 'mae3')
    """
    return _METRICS.get(metric, metric)


def name_ticks(ax: Any, axis: str, names: Iterable[Any]) -> None:
    """Write names at 0, 1, 2, ... of an axis, small enough that they do not touch.

    Parameters
    ----------
    ax : matplotlib Axes
    axis : {"x", "y"}
        Names below the axes are turned if they are too long.
    names : iterable
        Names, or labels of any kind. They are drawn as they are; what takes too much room is
        shortened.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting.texts import name_ticks
    >>> ax = Figure().subplots()
    >>> name_ticks(ax, "y", ["a", 2, "$x"])
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['a', '2', '$x']
    """
    names = list(names)
    along = length_in_points(ax, axis)
    usual = require("matplotlib.font_manager", "plot", "a plot").FontProperties(
        size=require("matplotlib", "plot", "a plot").rcParams[f"{axis}tick.labelsize"]
    )
    size = min(usual.get_size_in_points(), max(_SMALLEST_FONT, 0.8 * along / max(1, len(names))))
    most = _letters(ax, "y" if axis == "x" else "x", _NAME_SHARE, size)
    texts = [shorten(name, most) for name in names]
    longest = _LETTER_WIDTH * size * max(map(len, texts), default=0)
    is_turned = axis == "x" and longest > 0.9 * along / max(1, len(names))
    (ax.set_xticks if axis == "x" else ax.set_yticks)(
        range(len(names)),
        texts,
        fontsize=size,
        parse_math=False,
        rotation=90 if is_turned else 0,
    )
    ax.tick_params(axis, length=0)


def shorten(text: Any, most: int) -> str:
    """Return a name in one line of at most so many letters.

    Parameters
    ----------
    text : object
        The name, or a label that is a number.
    most : int
        Most letters. What is too much is replaced by an ellipsis, not at the end, where names
        often differ.

    Returns
    -------
    text : str

    Examples
    --------
    >>> from hera_fast.plotting.texts import shorten
    >>> shorten("HERA without the ranking loss", 16)
    'HERA witho… loss'
    """
    line = " ".join(_printable(text).split())
    if len(line) <= most:
        return line
    tail = (most - 1) // 3
    return line[: most - 1 - tail] + "…" + line[len(line) - tail :]


def _letters(ax: Any, axis: str, share: float, size: float) -> int:
    """Return how many letters of a size fit into a part of an axis."""
    letters = int(share * length_in_points(ax, axis) / (_LETTER_WIDTH * size))
    return min(max(letters, _FEWEST_LETTERS), _MOST_LETTERS)


def _printable(text: Any) -> str:
    """Replace what no file can hold or no font can show: control and unassigned characters."""
    return re.sub(
        r"[^\n]",
        lambda match: (
            "\N{REPLACEMENT CHARACTER}"
            if unicodedata.category(match[0]) in ("Cc", "Cn", "Co", "Cs") and match[0] != "\t"
            else match[0]
        ),
        str(text),
    )

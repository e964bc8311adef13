"""One colour and one marker for each method, in all figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hera_fast.extras import require

__all__ = ["COLORS", "MethodStyle", "method_styles", "neutral_color"]

#: Colours that the colour-blind tell apart, on white and on dark ground: those of Okabe and Ito
#: without yellow, which is too light for white, and black.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

# One more than colours, so that the pairs of both do not repeat soon.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINES = ("-", "--", "-.", ":")


class MethodStyle(NamedTuple):
    """How a method is drawn.

    Attributes
    ----------
    color, marker, linestyle : str
        As matplotlib understands them.

    Examples
    --------
    >>> from hera_fast.plotting import MethodStyle
    >>> MethodStyle("#0072B2", "o", "-").marker
    'o'
    """

    color: str
    marker: str
    linestyle: str


def method_styles(names: Iterable[str]) -> dict[str, MethodStyle]:
    """Give each method a colour, a marker and a kind of line.

    Hand the result to several displays, as their `colors`, and a method looks the same in all of
    them, also where others are missing.

    Parameters
    ----------
    names : iterable of str
        The methods. Colours repeat after six of them, together with markers after 42.

    Returns
    -------
    styles : dict of str to MethodStyle

    Examples
    --------
    >>> from hera_fast.plotting import method_styles
    >>> method_styles(["HERA", "PL-KNN"])["PL-KNN"]
    MethodStyle(color='#D55E00', marker='s', linestyle='-')
    """
    return {
        name: MethodStyle(
            COLORS[i % len(COLORS)],
            _MARKERS[i % len(_MARKERS)],
            _LINES[i // len(COLORS) % len(_LINES)],
        )
        for i, name in enumerate(dict.fromkeys(names))
    }


def neutral_color() -> str:
    """Return the colour of texts and lines that stand for no method.

    It is matplotlib's setting, so that a dark page can have light lines.

    Returns
    -------
    color : str

    Examples
    --------
    >>> import matplotlib
    >>> from hera_fast.plotting.colors import neutral_color
    >>> with matplotlib.rc_context({"text.color": "#eeeeee"}):
    ...     neutral_color()
    '#eeeeee'
    """
    color: str = require("matplotlib", "plot", "a plot").rcParams["text.color"]
    return color

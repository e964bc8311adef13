"""A figure of the report, and words for what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hera_fast.extras import require

__all__ = ["SQUARE", "Panel", "capital", "in_short"]

_Array = np.ndarray[Any, Any]

# Inches; text of 9 points can be read if a page shows this on 340 pixels.
_SIZE = (4.2, 3.0)
#: The size of a figure that is about as high as wide.
SQUARE = (4.2, 4.0)
# Between ticks.
_MOST_STEPS = 8


@dataclass(frozen=True)
class Panel:
    """A figure of a report.

    Parameters
    ----------
    title : str
        What stands above it.
    description : str
        What it shows, for those who cannot see it.
    display : object or None
        A display of :mod:`hera_fast.plotting`. None if there are no figures to draw.
    group : str, default=""
        Panels of a group stand under a common heading.
    size : (float, float)
        Width and height in inches.
    options : mapping
        For the method `plot` of the display.

    Examples
    --------
    >>> from hera_fast.report.panel import Panel
    >>> Panel("Glass", "nothing yet", None, group="r = 1").group
    'r = 1'
    """

    title: str
    description: str
    display: Any
    group: str = ""
    size: tuple[float, float] = _SIZE
    options: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, ax: Any) -> None:
        """Draw onto matplotlib's axes."""
        self.display.plot(ax, **self.options)
        locator = ax.xaxis.get_major_locator()
        # Numbers with many digits would touch. Other locators mark names, or powers of ten.
        if isinstance(locator, require("matplotlib.ticker", "plot", "a plot").MaxNLocator):
            locator.set_params(nbins=_MOST_STEPS)


def capital(text: str) -> str:
    """Begin a sentence.

    Examples
    --------
    >>> from hera_fast.report.panel import capital
    >>> capital("log loss")
    'Log loss'
    """
    return text[:1].upper() + text[1:]


def in_short(values: _Array) -> str:
    """Say how a line runs: its first and last value, and others if they are more or less.

    Parameters
    ----------
    values : ndarray
        At least one value; all are finite.

    Returns
    -------
    text : str

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.report.panel import in_short
    >>> in_short(np.array([0.5, 0.25, 0.3]))
    '0.500 to 0.300, between 0.250 and 0.500'
    """
    texts = [_number(value) for value in (values[0], values[-1], values.min(), values.max())]
    if len(values) == 1:
        return texts[0]
    first, last, least, most = texts
    extremes = "" if {least, most} <= {first, last} else f", between {least} and {most}"
    return f"{first} to {last}{extremes}"


def _number(value: float) -> str:
    return f"{value:.2g}" if value and not 0.001 <= abs(value) < 1000 else f"{value:.3f}"

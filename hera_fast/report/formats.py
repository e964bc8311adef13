"""Numbers as readers want them, and numbers of records, where None stands for NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "as_number",
    "as_numbers",
    "format_bytes",
    "format_count",
    "format_duration",
    "format_mean",
    "format_number",
    "join_words",
]

_Array = np.ndarray[Any, Any]

_NOTHING = "–"
_MINUS = "−"
_JOIN = "\N{NO-BREAK SPACE}"
_DURATIONS = ((86400.0, "d", 3600.0, "h"), (3600.0, "h", 60.0, "min"), (60.0, "min", 1.0, "s"))


def as_number(value: Any) -> float:
    """Read a number of a record.

    Parameters
    ----------
    value : int, float or None

    Returns
    -------
    number : float
        NaN for None.

    Raises
    ------
    TypeError
        If it is none of these.

    Examples
    --------
    >>> from hera_fast.report.formats import as_number
    >>> as_number(None), as_number(2)
    (nan, 2.0)
    """
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def as_numbers(values: Any) -> _Array:
    """Read a list of numbers of a record.

    Parameters
    ----------
    values : list of (int, float or None), or None

    Returns
    -------
    numbers : ndarray of float64
        Empty for None.

    Raises
    ------
    TypeError
        If it is something else.

    Examples
    --------
    >>> from hera_fast.report.formats import as_numbers
    >>> as_numbers([1, None])
    array([ 1., nan])
    """
    if not isinstance(values, (list, tuple, type(None))):
        raise TypeError(f"{values!r} is no list of numbers")
    return np.array([as_number(value) for value in values or ()], np.float64)


def format_number(value: float, digits: int = 3) -> str:
    """Write a number with so many decimals, and a dash for NaN.

    Examples
    --------
    >>> from hera_fast.report.formats import format_number
    >>> format_number(-0.1234), format_number(float("nan"))
    ('−0.123', '–')
    """
    if not math.isfinite(value):
        return _NOTHING
    text = f"{value:.{digits}f}"
    # What is rounded to zero has no sign.
    return text.replace("-", _MINUS if float(text) else "")


def format_mean(mean: float, sd: float, digits: int = 3) -> str:
    """Write a mean and, if there is one, its standard deviation.

    Examples
    --------
    >>> from hera_fast.report.formats import format_mean
    >>> format_mean(0.7123, 0.035), format_mean(0.5, float("nan"))
    ('0.712 ± 0.035', '0.500')
    """
    text = format_number(mean, digits)
    return f"{text} ± {format_number(sd, digits)}" if math.isfinite(mean + sd) else text


def format_count(value: float) -> str:
    """Write a whole number with separators of thousands.

    Examples
    --------
    >>> from hera_fast.report.formats import format_count
    >>> format_count(17472)
    '17,472'
    """
    return f"{value:,.0f}" if math.isfinite(value) else _NOTHING


def format_duration(seconds: float) -> str:
    r"""Write a time in units that suit it; no line ends between a number and its unit.

    Examples
    --------
    >>> from hera_fast.report.formats import format_duration
    >>> [format_duration(seconds) for seconds in (0.0123, 12.3, 200, 9999)]
    ['0.012\xa0s', '12\xa0s', '3\xa0min 20\xa0s', '2\xa0h 47\xa0min']
    """
    if not math.isfinite(seconds):
        return _NOTHING
    for large, large_name, small, small_name in _DURATIONS:
        # What is rounded up to the larger unit is written in it.
        if round(seconds / small) * small >= large:
            whole, rest = divmod(round(seconds / small), round(large / small))
            return f"{whole}{_JOIN}{large_name}" + (f" {rest}{_JOIN}{small_name}" if rest else "")
    return f"{seconds:.0f}{_JOIN}s" if seconds >= 10 else f"{seconds:.2g}{_JOIN}s"


def format_bytes(size: int) -> str:
    """Write the size of a file.

    Examples
    --------
    >>> from hera_fast.report.formats import format_bytes
    >>> format_bytes(812_345), format_bytes(2_500_000)
    ('812 kB', '2.5 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


def join_words(words: Sequence[str]) -> str:
    """List words as a sentence does.

    Examples
    --------
    >>> from hera_fast.report.formats import join_words
    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last

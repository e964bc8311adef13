"""No more memory for a compressed file than its size can justify."""

from __future__ import annotations

__all__ = ["check_expansion", "largest_expansion"]

_HARMLESS = 1 << 30
_MOST_TIMES = 100


def largest_expansion(stored: int) -> int:
    """How many bytes may come out of `stored` bytes.

    Parameters
    ----------
    stored : int
        Number of bytes in the file.

    Returns
    -------
    bytes : int
        A gibibyte at least, else a hundred times as many.

    Examples
    --------
    >>> from hera_fast.expansion import largest_expansion
    >>> largest_expansion(100), largest_expansion(10**9)
    (1073741824, 100000000000)
    """
    return max(_HARMLESS, _MOST_TIMES * stored)


def check_expansion(unfolded: int, stored: int, what: str) -> None:
    """Refuse to unfold a few bytes to gigabytes.

    Parameters
    ----------
    unfolded : int
        Number of bytes that the data take in memory.
    stored : int
        Number of bytes in the file.
    what : str
        What is unfolded, for the error message.

    Raises
    ------
    ValueError
        If that is out of proportion.

    Examples
    --------
    >>> from hera_fast.expansion import check_expansion
    >>> check_expansion(10**9, 10, "X")
    >>> try:
    ...     check_expansion(10**10, 10**6, "X")
    ... except ValueError as error:
    ...     print(str(error).partition(", ")[0])
    X would unfold from 1000000 bytes to 10000000000
    """
    if unfolded > largest_expansion(stored):
        raise ValueError(
            f"{what} would unfold from {stored} bytes to {unfolded}, which is out of proportion. "
            "If that is right, store it uncompressed or sparse"
        )

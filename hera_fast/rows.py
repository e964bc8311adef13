"""Where the rows of a problem are, and how work is done on them.

The solver never touches rows itself. It hands a function and its arguments to a :class:`Rows`,
which calls the function where the rows are. With :class:`Whole` all rows are in one place: the
arguments are plain arrays, and the function is simply called. With
:class:`hera_fast.blocks.Blocks` they are in many blocks, in memory, on disk or on the workers of a
cluster. There an argument that belongs to rows is a :class:`hera_fast.blocks.Held`, which stands
for a piece in every block, and the function is called once for each block with its pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hera_fast.threads import on_threads

__all__ = ["WHOLE", "Rows", "Whole"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Rows(Protocol):
    """Where rows are.

    The functions must be importable by name, because workers may be elsewhere. What they get must
    not be changed by the caller afterwards: the work may be done later, though always before a
    sum that is asked for later.
    """

    #: Whether all rows are in one place, as plain arrays.
    is_whole: bool
    #: Number of the first row of each block, as an argument.
    first_row: Any

    def make(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and keep what it returns, for the rows it belongs to."""

    def at_candidates(self, Y: Any, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do the same with an array that is zero outside the candidates `Y`, and remains so."""

    def scratch(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function for an array whose contents are not needed after the next sum."""

    def copy(self, held: Any) -> Any:
        """Copy something that is kept."""

    def do(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Call a function that writes into its arguments."""

    def sum(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and add up what it returns: numbers, arrays, or tuples of them.

        The order of the additions depends on the blocks alone, not on where they are.
        """

    def gather(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function and return what it returns, in the order of the rows."""

    def flush(self) -> None:
        """Do now what was put off."""

    def together(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Do work, which may ask for sums, for each of a few items at the same time."""


class Whole:
    """All rows in one place, as plain arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.rows import WHOLE
    >>> WHOLE.sum(np.sum, np.arange(4)).tolist()
    6
    """

    is_whole = True
    first_row = 0

    def make(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function."""
        return work(*arguments)

    scratch = sum = make

    def at_candidates(self, Y: Any, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function."""
        return work(*arguments)

    def copy(self, held: Any) -> Any:
        """Copy an array."""
        return held.copy()

    def do(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Call the function."""
        work(*arguments)

    def gather(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call the function."""
        return [work(*arguments)]

    def flush(self) -> None:
        """Do nothing: nothing is put off."""

    def together(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Use threads."""
        return on_threads(work, items)


#: All rows in one place.
WHOLE = Whole()

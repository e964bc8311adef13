"""Demšar's diagram of average ranks and the differences between them that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hera_fast.comparison import Comparison
from hera_fast.extras import require
from hera_fast.plotting.colors import MethodStyle, neutral_color
from hera_fast.plotting.display import Display, as_numbers
from hera_fast.plotting.texts import length_in_points, shorten

__all__ = ["CriticalDifferenceDisplay"]

# All heights are in rows of names, counted downwards from the axis of the ranks.
_CAPTION = 1.6  # from the last name to the lower end, with the caption between
_GROUP_STEP = 0.5
_BAR = -1.8  # the bar of the critical difference
_TOP = -3.2
_TICK = 0.25
# Rows are not taller than this many times the letters, however tall the axes are.
_TALLEST_ROW = 1.9
_LARGEST_LETTERS = 0.78  # in rows
_SMALLEST_FONT = 4.0
_FEWEST_LETTERS, _MOST_LETTERS = 10, 24
# Letters of a name at one side: as many as fit into this part of the width.
_NAME_SHARE = 0.28
_LETTER_WIDTH = 0.55
# Part of the width that is left for the axis of the ranks.
_AXIS_SHARE = 0.4


class CriticalDifferenceDisplay(Display):
    """Average ranks of methods, with bars that join those that do not differ significantly.

    The best rank, 1, is at the left. Ranks differ significantly if their difference is not less
    than the critical difference, whose length is drawn above the axis. The diagram is Demšar's
    [1]_.

    Parameters
    ----------
    names : list of str
        The methods, at least two.
    ranks : array-like of shape (n_methods,)
        Their average ranks.
    critical_difference : float
        By how much ranks must differ, see :func:`hera_fast.significance.critical_difference`. NaN
        if it is not known; then there are no bars.
    n_blocks : int or None, default=None
        The number of data sets or folds that ranks are averaged over, for the caption.

    Attributes
    ----------
    groups : list of list of str
        The largest groups of methods that do not differ significantly, best first.
    bars_ : list of matplotlib Line2D
        The bar of each group.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    References
    ----------
    .. [1] J. Demšar: Statistical comparisons of classifiers over multiple data sets. Journal of
       Machine Learning Research 7, 2006.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import CriticalDifferenceDisplay
    >>> display = CriticalDifferenceDisplay(["a", "b", "c", "d"], [3.1, 2.0, 1.3, 3.6], 1.25)
    >>> display.groups
    [['c', 'b'], ['b', 'a'], ['a', 'd']]
    >>> len(display.plot(Figure().subplots()).bars_)
    3
    """

    def __init__(
        self,
        names: list[str],
        ranks: Any,
        critical_difference: float,
        *,
        n_blocks: int | None = None,
    ) -> None:
        self.names = list(names)
        self.ranks = as_numbers("ranks", ranks, len(self.names))
        self.critical_difference = float(critical_difference)
        self.n_blocks = n_blocks
        if len(self.names) < 2:
            raise ValueError(f"at least 2 methods are needed, got {len(self.names)}")
        if not np.isfinite(self.ranks).all():
            raise ValueError("ranks must be finite: leave out methods without a rank")
        if self.critical_difference < 0:
            raise ValueError(f"critical_difference must not be negative, got {critical_difference}")
        self._order = np.argsort(self.ranks, kind="stable")
        self._spans = _joined(self.ranks[self._order], self.critical_difference)
        ordered = [self.names[i] for i in self._order]
        self.groups = [ordered[first : last + 1] for first, last in self._spans]

    @classmethod
    def from_comparison(
        cls,
        comparison: Comparison,
        ax: Any = None,
        *,
        colors: Mapping[str, Any] | None = None,
    ) -> CriticalDifferenceDisplay:
        """Draw the ranks of a comparison.

        Parameters
        ----------
        comparison : Comparison
            What :func:`hera_fast.compare` returned. Estimators without a rank are left out.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        colors : dict of str to colour or MethodStyle, or None, default=None
            As for :meth:`plot`.

        Returns
        -------
        display : CriticalDifferenceDisplay

        Raises
        ------
        ValueError
            If fewer than two estimators have a rank.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast import compare
        >>> from hera_fast.plotting import CriticalDifferenceDisplay
        >>> results = {"estimator": ["a", "a", "b", "b"], "fold": [0, 1, 0, 1]}
        >>> comparison = compare({**results, "inductive": [0.5, 0.75, 0.5, 0.5]})
        >>> display = CriticalDifferenceDisplay.from_comparison(comparison, Figure().subplots())
        >>> display.names, display.ranks.tolist()
        (['a', 'b'], [1.25, 1.75])
        """
        ranks = np.asarray(comparison.ranks["rank"], np.float64)
        names = np.asarray(comparison.ranks["estimator"]).tolist()
        ranked = np.flatnonzero(np.isfinite(ranks)).tolist()
        if len(ranked) < 2:
            raise ValueError(
                f"{len(ranked)} of {len(names)} estimators have a rank, but at least 2 are needed"
            )
        display = cls(
            [names[i] for i in ranked],
            ranks[ranked],
            comparison.critical_difference,
            n_blocks=comparison.n_blocks,
        )
        return display.plot(ax, colors=colors)

    def plot(
        self, ax: Any = None, *, colors: Mapping[str, Any] | None = None
    ) -> CriticalDifferenceDisplay:
        """Draw the diagram; it takes the whole axes.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        colors : dict of str to colour or MethodStyle, or None, default=None
            Colours of the lines to the methods. Those that are missing have the colour of texts.

        Returns
        -------
        self : CriticalDifferenceDisplay
        """
        ax = self._start(ax)
        ax.set_axis_off()
        levels = _levels(self.ranks[self._order], self._spans, pad=self._pad())
        first_row = 1.0 + _GROUP_STEP * (max(levels) + 1 if levels else 0)
        n_left = (len(self.names) + 1) // 2
        last_row = first_row + n_left - 1
        size = self._set_heights(ax, last_row)
        texts = self._write_names(ax, n_left, first_row, size)
        gap = self._set_widths(ax, texts, n_left)
        self._draw_elbows(ax, texts, gap, colors or {})
        self._draw_axis(ax, texts[0].get_fontsize())
        self.bars_ = [
            self._draw_group(ax, span, 0.6 + _GROUP_STEP * level)
            for span, level in zip(self._spans, levels, strict=True)
        ]
        over = "" if self.n_blocks is None else f" over {self.n_blocks} block"
        over += "s" if self.n_blocks not in (None, 1) else ""
        ax.text(
            sum(self._limits()) / 2,
            last_row + _CAPTION,
            f"average rank{over}, 1 is best",
            ha="center",
            va="bottom",
            fontsize=texts[0].get_fontsize(),
        )
        return self

    def _limits(self) -> tuple[float, float]:
        """Return the ends of the axis, those that average ranks of so many methods can have."""
        best, worst = np.floor(self.ranks.min()), np.ceil(self.ranks.max())
        return float(min(1.0, best)), float(max(len(self.names), worst))

    def _pad(self) -> float:
        low, high = self._limits()
        return 0.012 * (high - low)

    def _set_heights(self, ax: Any, last_row: float) -> float:
        """Make rows of names as tall as there is room, and return the size of their letters."""
        rc = require("matplotlib", "plot", "a plot").rcParams
        engine = self.figure_.get_layout_engine()
        if engine is not None:
            # It will give the diagram all the room that axis labels would have had.
            engine.execute(self.figure_.figure)
        top, bottom = _TOP, last_row + _CAPTION
        height = length_in_points(ax, "y")
        size = max(_SMALLEST_FONT, min(rc["font.size"], _LARGEST_LETTERS * height / (bottom - top)))
        spare = max(0.0, height / (_TALLEST_ROW * size) - (bottom - top)) / 2
        ax.set_ylim(bottom + spare, top - spare)
        return float(size)

    def _write_names(self, ax: Any, n_left: int, first_row: float, size: float) -> list[Any]:
        """Write the names in the order of the ranks; where they stand sideways comes later."""
        n_methods = len(self.names)
        letters = int(_NAME_SHARE * length_in_points(ax, "x") / (_LETTER_WIDTH * size))
        most = min(max(letters, _FEWEST_LETTERS), _MOST_LETTERS)
        return [
            ax.text(
                0,
                first_row + (place if place < n_left else n_methods - 1 - place),
                shorten(self.names[i], most),
                ha="right" if place < n_left else "left",
                va="center",
                fontsize=size,
                parse_math=False,
            )
            for place, i in enumerate(self._order)
        ]

    def _set_widths(self, ax: Any, texts: list[Any], n_left: int) -> float:
        """Leave room for the names at both sides, and return how far their lines reach there."""
        whole = ax.get_window_extent().width

        def sides() -> tuple[float, float]:
            widths = [text.get_window_extent().width / whole for text in texts]
            return max(widths[:n_left]), max(widths[n_left:])

        left, right = sides()
        if left + right > 1 - _AXIS_SHARE:
            size = texts[0].get_fontsize() * (1 - _AXIS_SHARE) / (left + right)
            for text in texts:
                text.set_fontsize(max(size, _SMALLEST_FONT))
            left, right = sides()
        low, high = self._limits()
        # The axis, and what it and the names leave: lines beyond its ends, a space before names.
        gap = 0.02
        scale = (high - low) / max(1 - left - right - 4 * gap, 0.1)
        ax.set_xlim(low - (left + 2 * gap) * scale, high + (right + 2 * gap) * scale)
        for place, text in enumerate(texts):
            text.set_x(low - 1.6 * gap * scale if place < n_left else high + 1.6 * gap * scale)
        return gap * scale

    def _draw_elbows(
        self, ax: Any, texts: list[Any], gap: float, colors: Mapping[str, Any]
    ) -> None:
        """Draw a line from each rank on the axis down and out to the name."""
        low, high = self._limits()
        for i, text in zip(self._order, texts, strict=True):
            color = colors.get(self.names[i], neutral_color())
            if isinstance(color, MethodStyle):
                color = color.color
            end = low - gap if text.get_ha() == "right" else high + gap
            rank, row = self.ranks[i], text.get_position()[1]
            ax.plot([rank, rank, end], [0, row, row], color=color, linewidth=1)

    def _draw_axis(self, ax: Any, size: float) -> None:
        """Draw the ranks, and above them how much of them makes a difference."""
        low, high = self._limits()
        line = {"color": neutral_color(), "linewidth": 1}
        ax.plot([low, high], [0, 0], **line)
        # Numbers of two digits with a space take about two letters.
        left, right = ax.get_xlim()
        room = length_in_points(ax, "x") * (high - low) / (right - left)
        step = int(np.ceil(2 * size * (high - low) / room))
        for rank in np.arange(low, high + 0.5, step):
            ax.plot([rank, rank], [0, -_TICK], **line)
            ax.text(rank, -1.4 * _TICK, f"{rank:g}", ha="center", va="bottom", fontsize=size)
        needed = self.critical_difference
        if not np.isfinite(needed):
            return
        fits = needed <= high - low
        end = low + needed if fits else high
        ax.plot([low, end], [_BAR, _BAR], **line)
        for x in [low, end] if fits else [low]:
            ax.plot([x, x], [_BAR - _TICK / 2, _BAR + _TICK / 2], **line)
        beyond = "" if fits else ", beyond the axis"
        text = f"critical difference {needed:.2f}{beyond}"
        ax.text(low, _BAR - _TICK, text, ha="left", va="bottom", fontsize=size)

    def _draw_group(self, ax: Any, span: tuple[int, int], height: float) -> Any:
        first, last = self.ranks[self._order][list(span)]
        (bar,) = ax.plot(
            [first - self._pad(), last + self._pad()],
            [height, height],
            color=neutral_color(),
            linewidth=3.5,
            solid_capstyle="butt",
        )
        return bar


def _joined(ranks: Any, critical_difference: float) -> list[tuple[int, int]]:
    """Return first and last place of the largest groups of sorted ranks that do not differ."""
    spans: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.flatnonzero(ranks - ranks[first] < critical_difference).max(initial=first))
        # A group that ends where the one before ends is part of it.
        if last > first and (not spans or last > spans[-1][1]):
            spans.append((first, last))
    return spans


def _levels(ranks: Any, spans: list[tuple[int, int]], pad: float) -> list[int]:
    """Put each bar on the highest level where it does not touch another one."""
    ends: list[float] = []
    levels = []
    for first, last in spans:
        free = [level for level, end in enumerate(ends) if end + 3 * pad < ranks[first]]
        level = free[0] if free else len(ends)
        ends[level : level + 1] = [ranks[last]]
        levels.append(level)
    return levels

"""Methods side by side: their figures, and what they differ by from a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from hera_fast.comparison import Comparison
from hera_fast.plotting.colors import COLORS, neutral_color
from hera_fast.plotting.display import Display, as_numbers
from hera_fast.plotting.texts import add_legend, add_texts, metric_label, name_ticks

__all__ = ["DifferenceDisplay", "MethodsDisplay"]

_Array = np.ndarray[Any, Any]

_CONFIDENCE = 0.95


class MethodsDisplay(Display):
    """A bar for the figure of each method, and what was published for it.

    Parameters
    ----------
    names : list of str
        The methods, from top to bottom. The first one is highlighted.
    means : array-like of shape (n_methods,)
        Their figures. There is no bar for NaN.
    sds : array-like of shape (n_methods,), or None
        Their standard deviations. NaN stands for none.
    published : dict of str to float, or None, default=None
        Published figures of methods, drawn as diamonds. Methods may be missing.
    title : str or None, default=None
        The title.
    x_label : str, default="held-out accuracy"
        What the figures are.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars that were drawn.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import MethodsDisplay
    >>> display = MethodsDisplay(["HERA", "PL-KNN"], [0.75, 0.5], [0.02, 0.03])
    >>> [float(bar.get_width()) for bar in display.plot(Figure().subplots()).bars_]
    [0.75, 0.5]
    """

    def __init__(
        self,
        names: list[str],
        means: Any,
        sds: Any,
        *,
        published: Mapping[str, float] | None = None,
        title: str | None = None,
        x_label: str = "held-out accuracy",
    ) -> None:
        self.names = _some_names(names)
        self.means = as_numbers("means", means, len(self.names))
        self.sds = None if sds is None else as_numbers("sds", sds, len(self.names))
        self.published = dict(published or {})
        self.title, self.x_label = title, x_label

    @classmethod
    def from_comparison(
        cls,
        comparison: Comparison,
        dataset: Any = None,
        published: Mapping[str, float] | None = None,
        ax: Any = None,
        *,
        title: str | None = None,
        color: Any = None,
    ) -> MethodsDisplay:
        """Draw means and standard deviations over folds, those of the reference first.

        Parameters
        ----------
        comparison : Comparison
            What :func:`hera_fast.compare` returned.
        dataset : object, default=None
            The data set to draw. None stands for the only one.
        published : dict of str to float, or None, default=None
            As for the class.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        title : str or None, default=None
            The title; None takes the name of the data set, if it has one.
        color : colour or None, default=None
            As for :meth:`plot`.

        Returns
        -------
        display : MethodsDisplay

        Raises
        ------
        ValueError
            If there is no such data set, or several of them and none is named.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast import compare
        >>> from hera_fast.plotting import MethodsDisplay
        >>> results = {"estimator": ["a", "a", "b", "b"], "fold": [0, 1, 0, 1]}
        >>> comparison = compare({**results, "inductive": [0.5, 0.5, 0.5, 0.75]})
        >>> display = MethodsDisplay.from_comparison(comparison, ax=Figure().subplots())
        >>> display.names, display.means.tolist()
        (['b', 'a'], [0.625, 0.5])
        """
        rows = _rows(comparison.summary)
        datasets = list(dict.fromkeys(row["dataset"] for row in rows))
        if dataset is None:
            if len(datasets) > 1:
                raise ValueError(f"there are several data sets, name one: {datasets}")
            (dataset,) = datasets
        elif dataset not in datasets:
            raise ValueError(f"there is no data set {dataset!r}, but only {datasets}")
        rows = [row for row in rows if row["dataset"] == dataset]
        rows.sort(key=lambda row: bool(row["estimator"] != comparison.reference))
        display = cls(
            [row["estimator"] for row in rows],
            [row["mean"] for row in rows],
            [row["sd"] for row in rows],
            published=published,
            title=dataset if title is None else title,
            x_label=metric_label(comparison.metric),
        )
        return display.plot(ax, color=color)

    def plot(self, ax: Any = None, *, color: Any = None) -> MethodsDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        color : colour or None, default=None
            Colour of the first bar. None takes the first of :data:`COLORS`.

        Returns
        -------
        self : MethodsDisplay
        """
        ax = self._start(ax)
        places = np.arange(len(self.names))
        neutral = neutral_color()
        means = np.where(np.isfinite(self.means), self.means, np.nan)
        self.bars_ = ax.barh(places, means, height=0.7, edgecolor="none")
        for place, bar in enumerate(self.bars_):
            # The others recede: the colour of texts, but pale.
            bar.set_facecolor((COLORS[0] if color is None else color) if place == 0 else neutral)
            bar.set_alpha(None if place == 0 else 0.35)
        if self.sds is not None:
            known = np.isfinite(means) & np.isfinite(self.sds)
            ax.errorbar(
                means[known],
                places[known],
                xerr=self.sds[known],
                fmt="none",
                ecolor=neutral,
                elinewidth=1,
                capsize=2,
            )
        printed = np.array([self.published.get(name, np.nan) for name in self.names], np.float64)
        diamonds = None
        if np.isfinite(printed).any():
            (diamonds,) = ax.plot(
                printed,
                places,
                linestyle="none",
                marker="D",
                markersize=5.5,
                color=COLORS[4],
                markeredgecolor=neutral,
                markeredgewidth=0.8,
            )
        _finish(ax, self.names)
        add_texts(ax, title=self.title, x_label=self.x_label)
        if diamonds is not None:
            # Above the axes, where no bar is; a title stands above it.
            above = {"loc": "lower right", "bbox_to_anchor": (1, 0.99), "borderpad": 0}
            add_legend(ax, {"published": diamonds}, **above)
            if self.title is not None:
                ax.set_title(ax.get_title(), pad=18)
        return self


class DifferenceDisplay(Display):
    """Differences of variants to a reference, around a line at zero, as of an ablation.

    Parameters
    ----------
    names : list of str
        The variants, from top to bottom.
    differences : array-like of shape (n_variants,)
        Variant minus reference.
    intervals : array-like of shape (n_variants, 2), or None, default=None
        Lower and upper ends of confidence intervals. NaN stands for none.
    title : str or None, default=None
        The title.
    x_label : str, default="difference to the reference"
        What the differences are.

    Attributes
    ----------
    points_ : matplotlib Line2D
        The points that were drawn.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import DifferenceDisplay
    >>> display = DifferenceDisplay(["no ranking"], [-0.01], [[-0.03, 0.01]])
    >>> display.plot(Figure().subplots()).points_.get_xdata().tolist()
    [-0.01]
    """

    def __init__(
        self,
        names: list[str],
        differences: Any,
        intervals: Any = None,
        *,
        title: str | None = None,
        x_label: str = "difference to the reference",
    ) -> None:
        self.names = _some_names(names)
        self.differences = as_numbers("differences", differences, len(self.names))
        self.intervals = (
            None if intervals is None else as_numbers("intervals", intervals, len(self.names), 2)
        )
        if self.intervals is not None and (self.intervals[:, 0] > self.intervals[:, 1]).any():
            raise ValueError("intervals must have their lower ends first")
        self.title, self.x_label = title, x_label

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, ax: Any = None, *, title: str | None = None
    ) -> DifferenceDisplay:
        """Draw by how much the other estimators differ from the reference of a comparison.

        Parameters
        ----------
        comparison : Comparison
            What :func:`hera_fast.compare` returned.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        title : str or None, default=None
            The title.

        Returns
        -------
        display : DifferenceDisplay
            Means over the data sets on which both have figures, with 95 % t-intervals. With a
            single data set means and intervals are over folds, and optimistic, as folds share
            training rows.

        Raises
        ------
        ValueError
            If there is nothing but the reference.

        Notes
        -----
        There is no interval for a single data set or fold. Over folds there is none either if the
        mean is zero, or if it is not known how many folds both have: a comparison keeps only the
        p values of its tests, from which the intervals are found again.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast import compare
        >>> from hera_fast.plotting import DifferenceDisplay
        >>> results = {"estimator": ["a", "a", "b", "b"], "fold": [0, 1, 0, 1]}
        >>> comparison = compare({**results, "inductive": [0.5, 0.5, 0.5, 0.75]})
        >>> display = DifferenceDisplay.from_comparison(comparison, Figure().subplots())
        >>> display.names, display.differences.tolist()
        (['a'], [-0.125])
        """
        tests = _rows(comparison.tests)
        if not tests:
            raise ValueError(
                f"nothing has folds in common with the reference {comparison.reference!r}"
            )
        names = list(dict.fromkeys(row["estimator"] for row in tests))
        one_set = len({row["dataset"] for row in _rows(comparison.summary)}) == 1
        if one_set:
            means = np.array([-row["difference"] for row in tests])
            widths = np.array([_half_width(comparison, row) for row in tests])
        else:
            by_name = [
                np.array([-row["difference"] for row in tests if row["estimator"] == name])
                for name in names
            ]
            means = np.array([each.mean() for each in by_name])
            widths = np.array([_t_half_width(each) for each in by_name])
        display = cls(
            names,
            means,
            np.column_stack([means - widths, means + widths]),
            title=title,
            x_label=f"{metric_label(comparison.metric)}\nminus that of {comparison.reference}",
        )
        return display.plot(ax)

    def plot(self, ax: Any = None, *, color: Any = None) -> DifferenceDisplay:
        """Draw points with intervals.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        color : colour or None, default=None
            Colour of points and intervals. None takes the first of :data:`COLORS`.

        Returns
        -------
        self : DifferenceDisplay
        """
        ax = self._start(ax)
        color = COLORS[0] if color is None else color
        places = np.arange(len(self.names))
        ax.axvline(0, color=neutral_color(), linewidth=1, linestyle=":")
        if self.intervals is not None:
            lower, upper = self.intervals.T
            ax.hlines(places, lower, upper, color=color, linewidth=2)
        (self.points_,) = ax.plot(
            self.differences, places, linestyle="none", marker="o", markersize=6, color=color
        )
        _finish(ax, self.names)
        add_texts(ax, title=self.title, x_label=self.x_label)
        return self


def _some_names(names: list[str]) -> list[str]:
    if not len(names):
        raise ValueError("names has no methods: at least 1 is needed")
    return list(names)


def _finish(ax: Any, names: list[str]) -> None:
    """Name the rows, the first at the top."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.spines[["top", "right", "left"]].set_visible(False)
    name_ticks(ax, "y", names)


def _rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table of a comparison; without data sets there is one, None."""
    columns = {name: np.asarray(table[name]).tolist() for name in getattr(table, "columns", table)}
    columns.setdefault("dataset", [None] * len(columns["estimator"]))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _t_half_width(values: _Array) -> float:
    """Return half of the t-interval of a mean."""
    if len(values) < 2:
        return float("nan")
    quantile = stats.t.isf((1 - _CONFIDENCE) / 2, len(values) - 1)
    return float(quantile * values.std(ddof=1) / np.sqrt(len(values)))


def _half_width(comparison: Comparison, test: dict[str, Any]) -> float:
    """Return half of the t-interval over the folds of the only data set."""
    n_folds = {row["estimator"]: row["n_folds"] for row in _rows(comparison.summary)}
    most = min(n_folds[test["estimator"]], n_folds[comparison.reference])
    # All have the folds that were ranked. If one of the two has no others, they share just these.
    if most != comparison.n_blocks or most < 2 or test["difference"] == 0:
        return float("nan")
    # The standard error follows from p, as the t-test divides the mean by it.
    t = stats.t.isf(test["t_test"] / 2, most - 1)
    return float(stats.t.isf((1 - _CONFIDENCE) / 2, most - 1) * abs(test["difference"]) / t)

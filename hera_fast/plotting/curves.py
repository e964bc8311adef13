"""Curves: figures against a setting of the experiment, and the course of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hera_fast.plotting.colors import COLORS, MethodStyle, method_styles
from hera_fast.plotting.display import Display, as_numbers, fitted_model
from hera_fast.plotting.texts import add_legend, add_texts, metric_label

__all__ = ["ConvergenceDisplay", "CurveDisplay"]

_Array = np.ndarray[Any, Any]

_SCALES = ("linear", "log")
# Figures of a fit whose size counts by its logarithm, and how figures are called.
_BY_MAGNITUDE = ("change", "dual_residual", "gradient_norm", "penalty", "primal_residual")
_FIGURES = {
    "change": "relative change of the objective",
    "gradient_norm": "norm of the gradient",
    "mass": "mean sum of a row of P",
    "rank": "rank of the noise",
}


class CurveDisplay(Display):
    """Figures of several methods against a setting, such as the number of false candidates.

    Parameters
    ----------
    x : array-like of shape (n,)
        Values of the setting.
    means : dict of str to array-like of shape (n,)
        The figures of each method, NaN where there is none.
    sds : dict of str to array-like of shape (n,), or None, default=None
        Their standard deviations, drawn as bands. Methods and entries may be missing.
    x_label, y_label : str
        What the axes show. All texts are drawn as they are, without formulas.
    title : str or None, default=None
        The title.
    x_scale, y_scale : {"linear", "log"}, default="linear"
        Scales of the axes. On a logarithmic one, what is not positive is left out.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
        The lines that were drawn.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import CurveDisplay
    >>> means = {"HERA": [0.9, 0.8], "PL-KNN": [0.8, 0.6]}
    >>> display = CurveDisplay([1, 2], means, x_label="r", y_label="accuracy")
    >>> display.plot(Figure().subplots()).lines_["HERA"].get_ydata().tolist()
    [0.9, 0.8]
    """

    def __init__(
        self,
        x: Any,
        means: Mapping[str, Any],
        sds: Mapping[str, Any] | None = None,
        *,
        x_label: str,
        y_label: str,
        title: str | None = None,
        x_scale: str = "linear",
        y_scale: str = "linear",
    ) -> None:
        self.x = as_numbers("x", x, None)
        self.means = _aligned("means", means, len(self.x))
        self.sds = {} if sds is None else _aligned("sds", sds, len(self.x))
        if not self.means:
            raise ValueError("means has no methods: at least 1 is needed")
        for name in self.sds:
            if name not in self.means:
                raise ValueError(f"sds has the method {name!r}, which means does not have")
        for name, scale in (("x_scale", x_scale), ("y_scale", y_scale)):
            if scale not in _SCALES:
                raise ValueError(f"{name} must be 'linear' or 'log', got {scale!r}")
        self.x_label, self.y_label, self.title = x_label, y_label, title
        self.x_scale, self.y_scale = x_scale, y_scale

    @classmethod
    def from_results(
        cls,
        results: Any,
        x: str,
        *,
        metric: str = "inductive",
        x_label: str | None = None,
        y_label: str | None = None,
        title: str | None = None,
        x_scale: str = "linear",
        y_scale: str = "linear",
        ax: Any = None,
        **style: Any,
    ) -> CurveDisplay:
        """Draw means and standard deviations over folds.

        Parameters
        ----------
        results : data frame, or dict of str to array-like
            As :func:`~hera_fast.evaluation.cross_validate_partial` returns it, one table after
            the other for all values of the setting, with the columns ``estimator``, ``fold``,
            `metric` and `x`.
        x : str
            The column with the setting. Rows where it is NaN are left out.
        metric : str, default="inductive"
            The column with the figures. NaN does not count.
        x_label, y_label : str or None, default=None
            What the axes show; None takes the names of the columns.
        title, x_scale, y_scale
            As for the class.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        **style
            Arguments of :meth:`plot`.

        Returns
        -------
        display : CurveDisplay

        Raises
        ------
        ValueError
            If a column is missing, or if a fold of an estimator is there twice for a value of
            the setting, as it is with several data sets.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast.plotting import CurveDisplay
        >>> results = {"estimator": ["a"] * 4, "fold": [0, 1, 0, 1], "r": [1, 1, 2, 2]}
        >>> results["inductive"] = [1.0, 0.5, 0.5, 0.5]
        >>> display = CurveDisplay.from_results(results, "r", ax=Figure().subplots())
        >>> display.x.tolist(), display.means["a"].tolist()
        ([1.0, 2.0], [0.75, 0.5])
        """
        figures = _by_setting(results, x, metric)
        values = sorted({value for _, value in figures})
        means: dict[str, list[float]] = {}
        sds: dict[str, list[float]] = {}
        for name in dict.fromkeys(name for name, _ in figures):
            cells = [np.array(list(figures.get((name, value), {}).values())) for value in values]
            cells = [cell[np.isfinite(cell)] for cell in cells]
            means[name] = [cell.mean() if len(cell) else np.nan for cell in cells]
            sds[name] = [cell.std(ddof=1) if len(cell) > 1 else np.nan for cell in cells]
        display = cls(
            values,
            means,
            sds,
            x_label=x if x_label is None else x_label,
            y_label=metric_label(metric) if y_label is None else y_label,
            title=title,
            x_scale=x_scale,
            y_scale=y_scale,
        )
        return display.plot(ax, **style)

    def plot(
        self,
        ax: Any = None,
        *,
        colors: Mapping[str, Any] | None = None,
        legend: bool = True,
        markers: bool = True,
    ) -> CurveDisplay:
        """Draw a line for each method, with a band of one standard deviation.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        colors : dict of str to colour or MethodStyle, or None, default=None
            Colours of methods. Those that are missing have the usual ones, see
            :func:`method_styles`.
        legend : bool, default=True
            Whether to name the lines. More than four names stand beside the axes, where a figure
            with ``layout="constrained"`` has room for them.
        markers : bool, default=True
            Whether to mark the points.

        Returns
        -------
        self : CurveDisplay
        """
        ax = self._start(ax)
        ax.set(xscale=self.x_scale, yscale=self.y_scale)
        x = _drawable(self.x, self.x_scale)
        usual = method_styles(self.means)
        self.lines_ = {}
        for name, mean in self.means.items():
            style = usual[name]
            given = (colors or {}).get(name, style.color)
            if isinstance(given, MethodStyle):
                style, given = given, given.color
            (self.lines_[name],) = ax.plot(
                x,
                _drawable(mean, self.y_scale),
                color=given,
                linestyle=style.linestyle,
                marker=style.marker if markers else None,
                markersize=5,
            )
            if name in self.sds:
                lower, upper = self._band(name)
                ax.fill_between(x, lower, upper, color=given, alpha=0.15, linewidth=0)
        if self.x_scale == "linear" and (self.x == np.rint(self.x)).all():
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.spines[["top", "right"]].set_visible(False)
        add_texts(ax, title=self.title, x_label=self.x_label, y_label=self.y_label)
        if legend:
            add_legend(ax, self.lines_)
        return self

    def _band(self, name: str) -> tuple[_Array, _Array]:
        mean = _drawable(self.means[name], self.y_scale)
        lower, upper = mean - self.sds[name], mean + self.sds[name]
        if self.y_scale == "log":
            # A band that reaches zero would have no end: half the lowest figure is low enough.
            drawn = np.concatenate([_drawable(each, "log") for each in self.means.values()])
            drawn = drawn[np.isfinite(drawn)]
            lower = np.maximum(lower, drawn.min() / 2 if len(drawn) else np.nan)
        return lower, upper


class ConvergenceDisplay(Display):
    """A figure of each iteration of a fit.

    Parameters
    ----------
    history : dict of str to array-like of shape (n_iter,)
        The figures, as in `history_` of a classifier.
    title : str or None, default=None
        The title.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The line that was drawn.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import ConvergenceDisplay
    >>> display = ConvergenceDisplay({"change": [float("nan"), 0.1, 0.01]})
    >>> display.plot(Figure().subplots()).line_.get_xdata().tolist()
    [1, 2, 3]
    """

    def __init__(self, history: Mapping[str, Any], *, title: str | None = None) -> None:
        self.history = {
            name: as_numbers(f"history[{name!r}]", figures, None)
            for name, figures in history.items()
        }
        self.title = title

    @classmethod
    def from_estimator(
        cls, model: Any, *, figure: str = "change", title: str | None = None, ax: Any = None
    ) -> ConvergenceDisplay:
        """Draw a figure of the iterations of a fitted classifier.

        Parameters
        ----------
        model : estimator
            A fitted :class:`~hera_fast.HERAClassifier` or another classifier with `history_`, a
            pipeline that ends with one, or a search with `best_estimator_`.
        figure : str, default="change"
            Which figure of the history.
        title : str or None, default=None
            The title.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : ConvergenceDisplay

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast import HERAClassifier
        >>> from hera_fast.plotting import ConvergenceDisplay
        >>> model = HERAClassifier().fit([[0.0], [1.0]], [{"a"}, {"a", "b"}])
        >>> display = ConvergenceDisplay.from_estimator(model, ax=Figure().subplots())
        >>> len(display.line_.get_xdata()) == model.n_iter_
        True
        """
        history = fitted_model(model, "history_").history_
        return cls(history, title=title).plot(ax, figure=figure)

    def plot(self, ax: Any = None, *, figure: str = "change") -> ConvergenceDisplay:
        """Draw a figure against the number of the iteration.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        figure : str, default="change"
            Which figure of the history. Changes, residuals and penalties have a logarithmic
            axis, unless none of them is positive.

        Returns
        -------
        self : ConvergenceDisplay
        """
        if figure not in self.history:
            raise ValueError(f"the history has no {figure!r}, but only {list(self.history)}")
        ax = self._start(ax)
        values = self.history[figure]
        scale = "log" if figure in _BY_MAGNITUDE and (values > 0).any() else "linear"
        ax.set_yscale(scale)
        iterations = np.arange(1, len(values) + 1)
        (self.line_,) = ax.plot(
            iterations, _drawable(values, scale), color=COLORS[0], marker="o", markersize=3
        )
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.spines[["top", "right"]].set_visible(False)
        label = _FIGURES.get(figure, figure.replace("_", " "))
        add_texts(ax, title=self.title, x_label="iteration", y_label=label)
        return self


def _aligned(what: str, figures: Mapping[str, Any], length: int) -> dict[str, _Array]:
    return {
        name: as_numbers(f"{what}[{name!r}]", values, length) for name, values in figures.items()
    }


def _drawable(values: _Array, scale: str) -> _Array:
    """Return the values, NaN where the scale has no place for them."""
    has_place = np.isfinite(values) & ((values > 0) if scale == "log" else True)
    return np.where(has_place, values, np.nan)


def _by_setting(results: Any, x: str, metric: str) -> dict[tuple[str, float], dict[Any, float]]:
    """Return the figures of the folds by estimator and setting."""
    columns = list(getattr(results, "columns", results))
    for column in ("estimator", "fold", metric, x):
        if column not in columns:
            raise ValueError(f"the results have no column {column!r}, but only {columns}")
    names, folds = (np.asarray(results[column]).tolist() for column in ("estimator", "fold"))
    settings = as_numbers(f"the column {x!r}", results[x], len(names))
    figures = as_numbers(f"the column {metric!r}", results[metric], len(names))
    found: dict[tuple[str, float], dict[Any, float]] = {}
    for name, fold, setting, figure in zip(
        names, folds, settings.tolist(), figures.tolist(), strict=True
    ):
        if np.isnan(setting):
            continue
        cell = found.setdefault((name, setting), {})
        if fold in cell:
            raise ValueError(
                f"fold {fold} of {name!r} is there more than once for {x} = {setting:g}: pass the "
                "rows of one data set, and of one value of what else varies"
            )
        cell[fold] = figure
    if not found:
        raise ValueError(f"no row has a value in the column {x!r}")
    return found

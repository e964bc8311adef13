"""Histograms of the confidence in labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.candidates import check_labels
from hera_fast.plotting.colors import COLORS
from hera_fast.plotting.display import Display, as_numbers, fitted_model
from hera_fast.plotting.texts import add_legend, add_texts

__all__ = ["ConfidenceDisplay"]


class ConfidenceDisplay(Display):
    """Histogram of the confidence in the labels that were picked for the training rows.

    Parameters
    ----------
    edges : array-like of shape (n_bins + 1,)
        Where the bins begin and end.
    counts : array-like of shape (n_bins,)
        Number of rows in each bin.
    wrong : array-like of shape (n_bins,), or None, default=None
        How many of them have a wrong label; drawn in another colour.
    title : str or None, default=None
        The title.

    Attributes
    ----------
    bars_ : list of matplotlib BarContainer
        The bars that were drawn: all rows, or right ones and wrong ones.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import ConfidenceDisplay
    >>> display = ConfidenceDisplay([0, 0.5, 1], [2, 10], wrong=[1, 2])
    >>> right, _ = display.plot(Figure().subplots()).bars_
    >>> [float(bar.get_height()) for bar in right]
    [1.0, 8.0]
    """

    def __init__(
        self, edges: Any, counts: Any, *, wrong: Any = None, title: str | None = None
    ) -> None:
        self.edges = as_numbers("edges", edges, None)
        if len(self.edges) < 2 or not (np.diff(self.edges) > 0).all():
            raise ValueError("edges must be 2 or more increasing numbers")
        self.counts = as_numbers("counts", counts, len(self.edges) - 1)
        self.wrong = None if wrong is None else as_numbers("wrong", wrong, len(self.counts))
        if self.wrong is not None and (self.wrong > self.counts).any():
            raise ValueError("wrong has more rows than counts in some bin")
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        y_true: Any = None,
        bins: int = 20,
        title: str | None = None,
        ax: Any = None,
    ) -> ConfidenceDisplay:
        """Draw the confidences of a fitted classifier.

        Parameters
        ----------
        model : estimator
            A fitted :class:`~hera_fast.HERAClassifier` or another classifier with `confidence_`
            and `transduction_`, a pipeline that ends with one, or a search with
            `best_estimator_`.
        y_true : array-like of shape (n,), or None, default=None
            The true labels of the training rows, as in `classes_`. They tell right from wrong.
        bins : int, default=20
            Number of bins between 0 and 1, or the largest confidence if that is more.
        title : str or None, default=None
            The title.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : ConfidenceDisplay

        Raises
        ------
        ValueError
            If there is not one true label for each row.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast import HERAClassifier
        >>> from hera_fast.plotting import ConfidenceDisplay
        >>> model = HERAClassifier().fit([[0.0], [0.1], [1.0]], [{"a"}, {"a", "b"}, {"b"}])
        >>> ax = Figure().subplots()
        >>> display = ConfidenceDisplay.from_estimator(model, y_true=["a", "a", "b"], ax=ax)
        >>> int(display.counts.sum()), int(display.wrong.sum())
        (3, 0)
        """
        model = fitted_model(model, "confidence_")
        picked, _ = check_labels(model.transduction_, classes=model.classes_)
        confidence = model.confidence_[np.arange(len(picked)), picked]
        span = min(0.0, float(confidence.min())), max(1.0, float(confidence.max()))
        counts, edges = np.histogram(confidence, bins=bins, range=span)
        wrong = None
        if y_true is not None:
            truth, _ = check_labels(y_true, classes=model.classes_)
            if len(truth) != len(picked):
                raise ValueError(f"found {len(truth)} true labels for {len(picked)} training rows")
            wrong, _ = np.histogram(confidence[picked != truth], bins=edges)
        return cls(edges, counts, wrong=wrong, title=title).plot(ax)

    def plot(self, ax: Any = None) -> ConfidenceDisplay:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        self : ConfidenceDisplay
        """
        ax = self._start(ax)
        right = self.counts if self.wrong is None else self.counts - self.wrong
        place = {"x": self.edges[:-1], "width": 0.92 * np.diff(self.edges), "align": "edge"}
        self.bars_ = [ax.bar(height=right, color=COLORS[0], **place)]
        if self.wrong is not None:
            self.bars_.append(ax.bar(height=self.wrong, bottom=right, color=COLORS[1], **place))
            add_legend(ax, dict(zip(("right", "wrong"), self.bars_, strict=True)))
        ax.spines[["top", "right"]].set_visible(False)
        label = "confidence in the picked label"
        add_texts(ax, title=self.title, x_label=label, y_label="training rows")
        return self

"""What all displays have in common: where they draw, and checks of what they draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hera_fast.extras import require
from hera_fast.fold import final_step

__all__ = ["Display", "as_numbers", "fitted_model"]

_Array = np.ndarray[Any, Any]


class Display:
    """A figure that is drawn from plain data.

    A subclass has a method `plot`, which calls :meth:`_start` and returns the display.

    Attributes
    ----------
    ax_ : matplotlib Axes
        What was drawn on.
    figure_ : matplotlib Figure
        The figure that it belongs to.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting.display import Display
    >>> ax = Figure().subplots()
    >>> display = Display()
    >>> display._start(ax) is display.ax_ is ax
    True
    """

    ax_: Any
    figure_: Any

    def _start(self, ax: Any) -> Any:
        """Return the axes to draw on, new ones if there are none."""
        if ax is None:
            pyplot = require("matplotlib.pyplot", "plot", "a plot")
            _, ax = pyplot.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def as_numbers(name: str, values: Any, *shape: int | None) -> _Array:
    """Return an array of floats after a look at its shape.

    Parameters
    ----------
    name : str
        What the error message calls them.
    values : array-like
    *shape : int or None
        The shape they must have; None stands for any length.

    Returns
    -------
    array : ndarray of float64

    Raises
    ------
    ValueError
        If they are no numbers or have another shape.

    Examples
    --------
    >>> from hera_fast.plotting.display import as_numbers
    >>> as_numbers("ranks", [1, 2], None).tolist()
    [1.0, 2.0]
    >>> as_numbers("ranks", [1, 2], 3)
    Traceback (most recent call last):
        ...
    ValueError: ranks must have the shape (3,), got (2,)
    """
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    fits = array.ndim == len(shape) and all(
        wanted is None or wanted == length
        for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("n" if length is None else str(length) for length in shape)
        raise ValueError(
            f"{name} must have the shape ({wanted}{',' if len(shape) == 1 else ''}), "
            f"got {array.shape}"
        )
    return array


def fitted_model(model: Any, attribute: str) -> Any:
    """Return the classifier inside a pipeline or a search that has a fitted attribute.

    Parameters
    ----------
    model : estimator
        A fitted classifier, a pipeline that ends with one, or a search with `best_estimator_`.
    attribute : str
        What the classifier must have, such as ``"history_"``.

    Returns
    -------
    classifier : estimator

    Raises
    ------
    NotFittedError
        If it is not fitted.
    TypeError
        If it has no such attribute.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.plotting.display import fitted_model
    >>> pipeline = make_pipeline(StandardScaler(), HERAClassifier())
    >>> model = fitted_model(pipeline.fit([[0.0], [1.0]], [{"a"}, {"a", "b"}]), "noise_")
    >>> model.noise_.shape
    (2, 2)
    """
    model = final_step(model)
    kind = type(model).__name__
    if isinstance(model, type) or not hasattr(model, "fit"):
        raise TypeError(f"model must be a fitted classifier, got {model!r}")
    check_is_fitted(model)
    if not hasattr(model, attribute):
        raise TypeError(f"{kind} has no {attribute}, from which the figure is drawn")
    return model

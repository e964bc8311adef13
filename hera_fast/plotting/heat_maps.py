"""Heat maps of labels: which are candidates together, and the factors of the noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from hera_fast.candidates import csr_candidates
from hera_fast.label_statistics import co_occurrence_shares, noise_factors
from hera_fast.plotting.display import Display, as_numbers, fitted_model
from hera_fast.plotting.texts import add_texts, name_ticks

__all__ = ["CoOccurrenceDisplay", "NoiseFactorsDisplay"]

_Array = np.ndarray[Any, Any]


class CoOccurrenceDisplay(Display):
    """Heat map of how often labels are candidates together.

    Parameters
    ----------
    matrix : array-like of shape (n_labels, n_labels)
        Share of the rows with the candidate i in which j is a candidate too.
    labels : list of n_labels labels
        Names of rows and columns.
    title : str or None, default=None
        The title.

    Attributes
    ----------
    mesh_ : matplotlib QuadMesh
        The cells that were drawn.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import CoOccurrenceDisplay
    >>> display = CoOccurrenceDisplay([[1.0, 0.5], [0.25, 1.0]], ["cat", "dog"])
    >>> display.plot(Figure().subplots()).mesh_.get_array().ravel().tolist()
    [1.0, 0.5, 0.25, 1.0]
    """

    def __init__(self, matrix: Any, labels: Any, *, title: str | None = None) -> None:
        self.labels = list(labels)
        self.matrix = as_numbers("matrix", matrix, len(self.labels), len(self.labels))
        self.title = title

    @classmethod
    def from_candidates(
        cls,
        candidates: Any,
        *,
        labels: Any = None,
        most: int = 20,
        title: str | None = None,
        ax: Any = None,
    ) -> CoOccurrenceDisplay:
        """Count which labels are candidates together, and draw it.

        Parameters
        ----------
        candidates : array, data frame, sparse matrix or sequence
            In any form that :func:`hera_fast.candidates.check_candidates` takes.
        labels : sequence of q names, or None, default=None
            Names of the columns, or of the sorted labels. None takes the labels themselves.
        most : int, default=20
            How many labels are drawn: the most frequent ones, the first of them first.
        title : str or None, default=None
            The title.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : CoOccurrenceDisplay

        Raises
        ------
        ValueError
            If there are not q names, or `most` is not positive.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast.plotting import CoOccurrenceDisplay
        >>> Y = [{"cat", "dog"}, {"dog"}, {"owl", "dog"}]
        >>> display = CoOccurrenceDisplay.from_candidates(Y, most=2, ax=Figure().subplots())
        >>> display.labels, display.matrix.round(2).tolist()
        (['dog', 'cat'], [[1.0, 0.33], [1.0, 1.0]])
        """
        _check_positive("most", most)
        matrix, classes = csr_candidates(candidates)
        names = _names(classes if labels is None else labels, len(classes))
        kept, shares = co_occurrence_shares(matrix, most)
        return cls(shares, [names[i] for i in kept], title=title).plot(ax)

    def plot(self, ax: Any = None, *, cmap: Any = "viridis") -> CoOccurrenceDisplay:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        cmap : str or matplotlib Colormap, default="viridis"
            The colours from 0 to the largest share off the diagonal.

        Returns
        -------
        self : CoOccurrenceDisplay
        """
        ax = self._start(ax)
        # The diagonal is 1 and would leave few colours to the rest.
        others = self.matrix[~np.eye(len(self.labels), dtype=bool)]
        largest = float(np.nan_to_num(others).max(initial=0)) or 1.0
        self.mesh_ = _heat_map(ax, self.matrix, self.labels, self.labels, cmap, (0, largest))
        extend = "max" if largest < 1 else "neither"
        self.figure_.colorbar(self.mesh_, ax=ax, label="share of rows", extend=extend)
        add_texts(ax, title=self.title, x_label="is a candidate too", y_label="with the candidate")
        return self


class NoiseFactorsDisplay(Display):
    """Heat map of the leading factors of the noise: labels that are false candidates together.

    Parameters
    ----------
    singular_values : array-like of shape (n_factors,)
        How much each factor counts.
    loadings : array-like of shape (n_factors, n_labels)
        How much each label has of it.
    labels : list of n_labels labels
        Names of the columns.
    title : str or None, default=None
        The title.

    Attributes
    ----------
    mesh_ : matplotlib QuadMesh
        The cells that were drawn.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from hera_fast.plotting import NoiseFactorsDisplay
    >>> display = NoiseFactorsDisplay([2.5], [[0.8, -0.6]], ["cat", "dog"])
    >>> display.plot(Figure().subplots()).mesh_.get_clim()
    (-0.8, 0.8)
    """

    def __init__(
        self, singular_values: Any, loadings: Any, labels: Any, *, title: str | None = None
    ) -> None:
        self.labels = list(labels)
        self.singular_values = as_numbers("singular_values", singular_values, None)
        shape = len(self.singular_values), len(self.labels)
        self.loadings = as_numbers("loadings", loadings, *shape)
        if not self.loadings.size:
            raise ValueError(f"loadings must not be empty, got the shape {shape}")
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        n_factors: int = 5,
        most: int = 20,
        title: str | None = None,
        ax: Any = None,
    ) -> NoiseFactorsDisplay:
        """Draw the leading right singular vectors of the noise E of a fitted classifier.

        Parameters
        ----------
        model : estimator
            A fitted :class:`~hera_fast.HERAClassifier`, a pipeline that ends with one, or a
            search with `best_estimator_`.
        n_factors : int, default=5
            How many factors are drawn, at most the rank of E.
        most : int, default=20
            How many labels are drawn: those with the largest loadings.
        title : str or None, default=None
            The title.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : NoiseFactorsDisplay
            The largest loading of each factor is positive.

        Raises
        ------
        ValueError
            If the noise is zero and has no factors.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from hera_fast import HERAClassifier
        >>> from hera_fast.plotting import NoiseFactorsDisplay
        >>> model = HERAClassifier().fit([[0.0], [0.1], [1.0]], [{"a"}, {"a", "b"}, {"b"}])
        >>> display = NoiseFactorsDisplay.from_estimator(model, ax=Figure().subplots())
        >>> display.labels, display.loadings.shape
        (['a', 'b'], (1, 2))
        """
        _check_positive("n_factors", n_factors)
        _check_positive("most", most)
        model = fitted_model(model, "noise_")
        values, kept, loadings = noise_factors(model.noise_, n_factors, most)
        if not len(values):
            raise ValueError("the noise of this model is zero: there are no factors to draw")
        names = model.classes_.tolist()
        display = cls(values, loadings, [names[i] for i in kept], title=title)
        return display.plot(ax)

    def plot(self, ax: Any = None, *, cmap: Any = "RdBu_r") -> NoiseFactorsDisplay:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        cmap : str or matplotlib Colormap, default="RdBu_r"
            Diverging colours, with zero in the middle.

        Returns
        -------
        self : NoiseFactorsDisplay
        """
        ax = self._start(ax)
        largest = float(np.nan_to_num(np.abs(self.loadings)).max()) or 1.0
        rows = [f"{i + 1} ({value:.3g})" for i, value in enumerate(self.singular_values)]
        self.mesh_ = _heat_map(ax, self.loadings, rows, self.labels, cmap, (-largest, largest))
        self.figure_.colorbar(self.mesh_, ax=ax, label="loading")
        add_texts(ax, title=self.title, x_label="label", y_label="factor (singular value)")
        return self


def _check_positive(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")


def _names(labels: Any, length: int) -> list[Any]:
    names = np.asarray(labels).tolist() if isinstance(labels, np.ndarray) else list(labels)
    if len(names) != length:
        raise ValueError(f"labels must be {length} names, got {len(names)}")
    return names


def _heat_map(
    ax: Any,
    cells: _Array,
    rows: list[Any],
    columns: list[Any],
    cmap: Any,
    span: tuple[float, float],
) -> Any:
    """Draw cells from top to bottom, and name rows and columns."""
    edges = [np.arange(length + 1) - 0.5 for length in cells.shape]
    # Edges of the cells' own colours close the gaps that viewers leave between cells.
    mesh = ax.pcolormesh(
        edges[1],
        edges[0],
        cells,
        cmap=cmap,
        vmin=span[0],
        vmax=span[1],
        edgecolors="face",
        linewidth=0.3,
    )
    ax.set(xlim=edges[1][[0, -1]], ylim=edges[0][[-1, 0]])
    name_ticks(ax, "y", rows)
    name_ticks(ax, "x", columns)
    return mesh

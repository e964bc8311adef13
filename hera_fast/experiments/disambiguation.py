"""Which candidates of the training rows were picked, and how sure that is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from hera_fast.fold import final_step
from hera_fast.label_statistics import co_occurrence_shares, noise_factors

__all__ = ["Picks", "describe_fit", "pick_candidates"]

_Array = np.ndarray[Any, Any]

_BINS = 20
_MOST_LABELS, _MOST_FACTORS = 20, 5
_MOST_DOUBTFUL, _MOST_CANDIDATES = 50, 20


class Picks(NamedTuple):
    """What was picked for each row.

    Attributes
    ----------
    best : ndarray of int, shape (n,)
        The column of the candidate with the largest confidence.
    confidence : ndarray of shape (n,)
        Its confidence.
    runner_up : ndarray of int, shape (n,)
        The column of the second candidate, -1 where there is none.
    margin : ndarray of shape (n,)
        The difference of their confidences, 1 where there is no second one.
    """

    best: _Array
    confidence: _Array
    runner_up: _Array
    margin: _Array

    def by_doubt(self) -> _Array:
        """Return the numbers of the rows, the most doubtful first."""
        order: _Array = np.lexsort((self.confidence, self.margin))
        return order


def pick_candidates(confidence: _Array, candidates: Any) -> Picks:
    """Find the two best candidates of each row.

    Parameters
    ----------
    confidence : ndarray of shape (n, q)
        As in ``HERAClassifier.confidence_``.
    candidates : csr_array of bool, shape (n, q)
        In canonical format, with a candidate in each row.

    Returns
    -------
    picks : Picks

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from hera_fast.experiments.disambiguation import pick_candidates
    >>> Y = sparse.csr_array(np.array([[1, 0, 1], [0, 1, 0]], dtype=bool))
    >>> picks = pick_candidates(np.array([[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]), Y)
    >>> picks.best.tolist(), picks.runner_up.tolist(), picks.margin.tolist()
    ([2, 1], [0, -1], [0.5, 1.0])
    """
    starts, counts = candidates.indptr[:-1], np.diff(candidates.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    values = confidence[rows, candidates.indices]
    places = np.arange(len(values))

    def first_best() -> _Array:
        best = np.maximum.reduceat(values, starts)
        found: _Array = np.minimum.reduceat(
            np.where(values == best[rows], places, len(values)), starts
        )
        return found

    first = first_best()
    best_values = values[first]
    values[first] = -np.inf
    second = first_best()
    is_single = counts == 1
    return Picks(
        best=candidates.indices[first],
        confidence=best_values,
        runner_up=np.where(is_single, -1, candidates.indices[second]),
        # A row has one candidate, or two numbers to compare.
        margin=np.where(is_single, 1, best_values - np.where(is_single, 0, values[second])),
    )


def describe_fit(model: Any, bunch: Bunch, *, dataset: str = "") -> dict[str, Any]:
    """Say what a model made of its training rows, for a record of the kind "disambiguation".

    Parameters
    ----------
    model : HERAClassifier, pipeline or search
        Fitted to the rows and candidates of `bunch`.
    bunch : Bunch
        What :func:`hera_fast.load_partial_labels` returned.
    dataset : str, default=""
        The name of the data set.

    Returns
    -------
    body : dict
        See :mod:`hera_fast.experiments.records`.

    Examples
    --------
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.experiments.disambiguation import describe_fit
    >>> bunch = make_bunch([[0.0], [0.1], [1.0]], [{"a"}, {"a", "b"}, {"b"}], [0, 0, 1])
    >>> body = describe_fit(HERAClassifier().fit(bunch.data, bunch.candidates), bunch)
    >>> body["accuracy"], body["doubtful"][0]["label"]
    (1.0, 'a')
    """
    fitted = final_step(model)
    names = bunch.target_names.tolist()
    picks = pick_candidates(fitted.confidence_, bunch.candidates)
    is_right = None if bunch.target is None else picks.best == bunch.target
    frequent, shares = co_occurrence_shares(bunch.candidates, _MOST_LABELS)
    values, loaded, loadings = noise_factors(fitted.noise_, _MOST_FACTORS, _MOST_LABELS)
    return {
        "dataset": dataset,
        "labels": names,
        "rows": int(bunch.data.shape[0]),
        "accuracy": None if is_right is None else float(is_right.mean()),
        "histogram": _histogram(picks.confidence, is_right),
        "co_occurrence": {"labels": [names[i] for i in frequent], "matrix": shares.tolist()},
        "factors": {
            "singular_values": values.tolist(),
            "labels": [names[i] for i in loaded],
            "loadings": loadings.tolist(),
        },
        "history": {name: figures.tolist() for name, figures in fitted.history_.items()},
        "doubtful": [
            _doubtful_row(row, picks, fitted.confidence_, bunch)
            for row in picks.by_doubt()[:_MOST_DOUBTFUL].tolist()
        ],
    }


def _histogram(confidence: _Array, is_right: _Array | None) -> dict[str, Any]:
    # Those of the published formulation may be any numbers.
    span = min(0.0, float(confidence.min())), max(1.0, float(confidence.max()))
    counts, edges = np.histogram(confidence, bins=_BINS, range=span)
    wrong = None
    if is_right is not None:
        wrong = np.histogram(confidence[~is_right], bins=edges)[0].tolist()
    return {"edges": edges.tolist(), "counts": counts.tolist(), "wrong": wrong}


def _doubtful_row(row: int, picks: Picks, confidence: _Array, bunch: Bunch) -> dict[str, Any]:
    names = bunch.target_names.tolist()
    own = bunch.candidates.indices[slice(*bunch.candidates.indptr[row : row + 2])]
    values = confidence[row, own]
    order = np.argsort(-values, kind="stable")[:_MOST_CANDIDATES]
    runner_up = int(picks.runner_up[row])
    return {
        "row": row,
        "label": names[picks.best[row]],
        "confidence": float(picks.confidence[row]),
        "runner_up": None if runner_up < 0 else names[runner_up],
        "margin": float(picks.margin[row]),
        "candidates": [[names[own[i]], float(values[i])] for i in order],
        "truth": None if bunch.target is None else names[bunch.target[row]],
    }

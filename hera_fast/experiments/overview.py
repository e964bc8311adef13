"""What a data set is like: figures about its features, candidates and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from hera_fast.label_statistics import co_occurrence_shares

__all__ = ["describe_bunch"]

_Array = np.ndarray[Any, Any]

_SHOWN = 10
# Numbers of a block of rows, so that no second copy of all rows is made.
_BLOCK = 1 << 22
# A pair is never more frequent than each of its labels: those of the frequent ones are enough.
_PAIRED_LABELS = 500
# Products that counting pairs may take. Of more rows than that allows, some are drawn.
_PAIR_PRODUCTS = 1_000_000_000


def describe_bunch(bunch: Bunch) -> dict[str, Any]:
    """Compute the figures of a data set.

    Parameters
    ----------
    bunch : Bunch
        What :func:`hera_fast.load_partial_labels` returned.

    Returns
    -------
    figures : dict
        ``rows`` and

        - ``features``: ``count``, ``storage`` ("dense" or "sparse"), ``dtype``, ``nonzero_share``,
          ``missing_values``, ``smallest``, ``largest``, ``least_deviation`` and
          ``largest_deviation`` of those that vary, ``constant`` (their names);
        - ``labels``: ``count``, ``frequent`` and ``rare`` with ``label``, ``rows`` and ``share``,
          ``never_candidates``, ``indistinguishable`` (groups that always come together), ``pairs``
          with ``labels``, ``rows`` and the two ``shares``, ``rows_of_pairs``;
        - ``candidates``: ``mean``, ``least``, ``most``, ``single_share``, ``all_labels_rows``,
          ``chance_accuracy``, ``histogram`` with ``candidates`` and ``rows``;
        - ``duplicates``: ``rows`` that are equal to another one, ``groups`` of them,
          ``contradictory`` groups, whose rows have no candidate in common;
        - ``truth``: None, or ``labels``, ``never_true``, ``most_frequent`` with ``label``, ``rows``
          and ``share``.

    Examples
    --------
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.experiments.overview import describe_bunch
    >>> animals = make_bunch([[0.1], [0.3], [0.3]], [{"cat", "dog"}, {"owl"}, {"cat"}])
    >>> figures = describe_bunch(animals)
    >>> figures["duplicates"]
    {'rows': 2, 'groups': 1, 'contradictory': 1}
    >>> round(figures["candidates"]["chance_accuracy"], 2)
    0.83
    """
    return {
        "rows": int(bunch.data.shape[0]),
        "features": _features(bunch.data, bunch.feature_names),
        "labels": _labels(bunch.candidates, bunch.target_names.tolist()),
        "candidates": _candidates(bunch.candidates),
        "duplicates": _duplicates(bunch.data, bunch.candidates),
        "truth": _truth(bunch.target, bunch.target_names.tolist()),
    }


def _blocks(matrix: Any) -> Any:
    size = max(1, _BLOCK // max(1, matrix.shape[1]))
    return (matrix[start : start + size] for start in range(0, matrix.shape[0], size))


def _features(X: Any, names: list[str]) -> dict[str, Any]:
    n, d = X.shape
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X
    if is_sparse:
        # What is not stored is zero.
        lowest, highest = (_dense_row(bound(axis=0)) for bound in (X.nanmin, X.nanmax))
        with np.errstate(all="ignore"):
            scaler = StandardScaler(with_mean=False).fit(X)
    else:
        scaler = StandardScaler()
        lowest, highest = np.full(d, np.nan), np.full(d, np.nan)
        for block in _blocks(X):
            np.fmin(lowest, np.fmin.reduce(block, axis=0), out=lowest)
            np.fmax(highest, np.fmax.reduce(block, axis=0), out=highest)
            # Columns without a value, or with huge ones.
            with np.errstate(all="ignore"):
                scaler.partial_fit(block)
    is_constant = ~(lowest < highest)
    deviations = np.sqrt(scaler.var_)[~is_constant]
    return {
        "count": d,
        "storage": "sparse" if is_sparse else "dense",
        "dtype": str(X.dtype),
        "nonzero_share": float(np.count_nonzero(values) / max(1, n * d)),
        "missing_values": int(sum(np.count_nonzero(np.isnan(b)) for b in _blocks_of(values))),
        "smallest": _bound(np.fmin, lowest),
        "largest": _bound(np.fmax, highest),
        "least_deviation": _bound(np.fmin, deviations),
        "largest_deviation": _bound(np.fmax, deviations),
        "constant": [names[column] for column in np.flatnonzero(is_constant)],
    }


def _blocks_of(values: _Array) -> Any:
    return _blocks(values if values.ndim == 2 else values[:, None])


def _dense_row(row: Any) -> _Array:
    return np.asarray(row.toarray() if sparse.issparse(row) else row, np.float64).ravel()


def _bound(bound: Any, values: _Array) -> float | None:
    """The least or the largest of the numbers, if there are any."""
    number = float(bound.reduce(values)) if len(values) else np.nan
    return number if np.isfinite(number) else None


def _labels(candidates: Any, names: list[Any]) -> dict[str, Any]:
    n, q = candidates.shape
    counts = np.bincount(candidates.indices, minlength=q)
    order = np.argsort(-counts, kind="stable")
    used = order[counts[order] > 0]

    def described(labels: _Array) -> list[dict[str, Any]]:
        return [
            {"label": names[i], "rows": int(counts[i]), "share": float(counts[i] / n)}
            for i in labels
        ]

    rows_of_pairs, pairs = _pairs(candidates, names)
    return {
        "count": q,
        "frequent": described(used[:_SHOWN]),
        "rare": described(used[::-1][:_SHOWN]),
        "never_candidates": [names[i] for i in np.flatnonzero(counts == 0)],
        "indistinguishable": _same_columns(candidates, counts, names),
        "pairs": pairs,
        "rows_of_pairs": rows_of_pairs,
    }


def _pairs(candidates: Any, names: list[Any]) -> tuple[int, list[dict[str, Any]]]:
    """Count the pairs of labels that are candidates together most often."""
    n = candidates.shape[0]
    products = float((np.minimum(np.diff(candidates.indptr), _PAIRED_LABELS) ** 2.0).sum())
    if products > _PAIR_PRODUCTS:
        kept = max(1, int(n * _PAIR_PRODUCTS / products))
        candidates = candidates[np.sort(np.random.default_rng(0).permutation(n)[:kept])]
    labels, shares = co_occurrence_shares(candidates, _PAIRED_LABELS)
    counts = np.bincount(candidates.indices, minlength=candidates.shape[1])[labels]
    together = np.rint(np.triu(shares, 1) * counts[:, None]).astype(np.int64)
    order = np.argsort(-together, axis=None, kind="stable")[:_SHOWN]
    found = []
    for i, j in zip(*np.unravel_index(order, together.shape), strict=True):
        if together[i, j]:
            found.append(
                {
                    "labels": [names[labels[i]], names[labels[j]]],
                    "rows": int(together[i, j]),
                    "shares": [float(shares[i, j]), float(shares[j, i])],
                }
            )
    return candidates.shape[0], found


def _same_columns(candidates: Any, counts: _Array, names: list[Any]) -> list[list[Any]]:
    """Groups of labels that are candidates of just the same rows."""
    columns = candidates.tocsc()
    sums = _segment_sums(_random_words(candidates.shape[0])[columns.indices], columns.indptr)
    used = np.flatnonzero(counts)
    return [[names[i] for i in used[group]] for group in _groups(sums[used])]


def _candidates(candidates: Any) -> dict[str, Any]:
    sizes = np.diff(candidates.indptr)
    different, rows = np.unique(sizes, return_counts=True)
    return {
        "mean": float(sizes.mean()),
        "least": int(sizes.min()),
        "most": int(sizes.max()),
        "single_share": float((sizes == 1).mean()),
        "all_labels_rows": int((sizes == candidates.shape[1]).sum()),
        "chance_accuracy": float((1 / sizes).mean()),
        "histogram": [
            {"candidates": int(size), "rows": int(count)}
            for size, count in zip(different, rows, strict=True)
        ],
    }


def _truth(target: _Array | None, names: list[Any]) -> dict[str, Any] | None:
    if target is None:
        return None
    counts = np.bincount(target, minlength=len(names))
    first = int(counts.argmax())
    return {
        "labels": int(np.count_nonzero(counts)),
        "never_true": [names[i] for i in np.flatnonzero(counts == 0)],
        "most_frequent": {
            "label": names[first],
            "rows": int(counts[first]),
            "share": float(counts[first] / len(target)),
        },
    }


def _duplicates(X: Any, candidates: Any) -> dict[str, int]:
    groups = _groups(_row_digests(X))
    contradictory = 0
    if groups:
        members = np.concatenate(groups)
        sizes = np.array([len(group) for group in groups])
        number = np.repeat(np.arange(len(groups)), sizes)
        own = candidates[members]
        # How many rows of a group have each label.
        together = sparse.csr_array(
            (np.ones(len(members), np.int64), (number, np.arange(len(members)))),
            shape=(len(groups), len(members)),
        ) @ own.astype(np.int64)
        contradictory = int((_dense_row(together.max(axis=1)) < sizes).sum())
    return {
        "rows": int(sum(map(len, groups))),
        "groups": len(groups),
        "contradictory": contradictory,
    }


def _row_digests(X: Any) -> _Array:
    """64 bits for each row: equal for equal rows, and hardly ever for others."""
    keys = _random_words(X.shape[1])
    if sparse.issparse(X):
        X = X.copy()
        X.eliminate_zeros()
        return _segment_sums(_mixed(X.data, keys[X.indices]), X.indptr)
    return np.concatenate(
        [_mixed(block, keys).sum(axis=1, dtype=np.uint64) for block in _blocks(X)]
    )


def _mixed(values: _Array, keys: _Array) -> _Array:
    """Words that depend on all bits of a number and of its key."""
    # 0 and -0 are the same number.
    words = np.ascontiguousarray(values.astype(np.float64) + 0.0).view(np.uint64) ^ keys
    # The finalizer of the SplitMix64 generator.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


def _random_words(length: int) -> _Array:
    return np.random.default_rng(0).integers(2**64, size=length, dtype=np.uint64)


def _segment_sums(words: _Array, indptr: _Array) -> _Array:
    # With a zero in front, the sum of a segment is a difference, also of an empty one.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)])
    found: _Array = sums[indptr[1:]] - sums[indptr[:-1]]
    return found


def _groups(words: _Array) -> list[_Array]:
    """The places of equal words, of those that are there more than once."""
    order = np.argsort(words, kind="stable")
    starts = np.flatnonzero(np.diff(words[order], prepend=words[order][:1] ^ np.uint64(1)))
    sizes = np.diff(np.append(starts, len(words)))
    return [order[s : s + size] for s, size in zip(starts, sizes, strict=True) if size > 1]

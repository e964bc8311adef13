"""What hera-fast costs beside what one would use instead, without any further package.

The peers use NumPy, SciPy and scikit-learn with care for speed: tiles that fit into the cache,
nothing computed for labels that are no candidates, few temporaries. Each does the same work in
float64, and its result is compared with ours before anything is timed. Only whole fits have a peer
that solves another problem: logistic regression, which is told the true labels.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from hera_fast import kernels
from hera_fast.baselines.knn import PLKNNClassifier
from hera_fast.data_files import load_partial_labels, save_partial_labels
from hera_fast.data_sets import load_digits_partial
from hera_fast.estimator import HERAClassifier
from hera_fast.stopwatch import Candidate, minimum_times
from hera_fast.svd import singular_value_threshold
from hera_fast.threads import threads

__all__ = ["Case", "Ratio", "make_cases", "measure"]

_Array = np.ndarray[Any, Any]
_Call = Callable[[], Any]

_SEED = 20240607
_TOLERANCE = 1e-9
# Pairs of labels whose temporaries stay in a second-level cache.
_PAIRS_PER_TILE = 1 << 15
_NEIGHBORS = 10
_MAX_ITER = 1000


@dataclass(frozen=True)
class Case:
    """Two ways to do one thing.

    Parameters
    ----------
    what : str
        What is done.
    size : str
        With how much.
    peer : str
        What is used instead of hera-fast.
    ours, theirs : callable
        Do it, and return an array or several.
    scores : (float, float) or None, default=None
        Accuracies of two fits, which are not expected to be the same.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.ratios import Case
    >>> Case("sum", "3", "built-in", lambda: np.sum([1, 2, 3]), lambda: sum([1, 2, 3])).what
    'sum'
    """

    what: str
    size: str
    peer: str
    ours: _Call
    theirs: _Call
    scores: tuple[float, float] | None = None


@dataclass(frozen=True)
class Ratio:
    """What a comparison found.

    Parameters
    ----------
    what, size, peer : str
        As in :class:`Case`.
    ours, theirs : float
        Seconds of processor time for a call.
    scores : (float, float) or None, default=None
        As in :class:`Case`.

    Examples
    --------
    >>> from hera_fast.ratios import Ratio
    >>> Ratio("sum", "3", "built-in", ours=1.0, theirs=4.0).ratio
    0.25
    """

    what: str
    size: str
    peer: str
    ours: float
    theirs: float
    scores: tuple[float, float] | None = None

    @property
    def ratio(self) -> float:
        """Our time divided by theirs: smaller is better."""
        return self.ours / self.theirs


def measure(case: Case, *, budget: float, least_rounds: int) -> Ratio:
    """Compare the results of a case, then the times, on one thread.

    Parameters
    ----------
    case : Case
        What to compare.
    budget : float
        Processor seconds after which the comparison ends.
    least_rounds : int
        Rounds that are run in any case.

    Returns
    -------
    ratio : Ratio
        With the shortest times.

    Raises
    ------
    RuntimeError
        If the results differ.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.ratios import Case, measure
    >>> numbers = np.arange(100.0)
    >>> case = Case("sum", "100", "dot", numbers.sum, lambda: numbers @ np.ones(100))
    >>> measure(case, budget=0.1, least_rounds=2).ratio > 0
    True
    """
    # scikit-learn has threads of its own, of which Numba's setting knows nothing.
    with threads(1), threadpool_limits(1):
        repeats = None
        if case.scores is None:
            _check(case)
        else:
            # Fits take long enough, and were made before for their scores.
            repeats = 1
        times = minimum_times(
            {
                "ours": Candidate(case.ours, repeats=repeats),
                "theirs": Candidate(case.theirs, repeats=repeats),
            },
            budget=budget,
            least_rounds=least_rounds,
        )
    return Ratio(case.what, case.size, case.peer, times["ours"], times["theirs"], case.scores)


def _check(case: Case) -> None:
    # Copied at once: both may write to the same array.
    ours, theirs = (_copies(call()) for call in (case.ours, case.theirs))
    for one, other in zip(ours, theirs, strict=True):
        if one.shape != other.shape or not _are_close(one, other):
            raise RuntimeError(f"{case.what}: hera-fast and {case.peer} differ, nothing is timed")


def _copies(found: Any) -> list[_Array]:
    return [np.copy(array) for array in (found if isinstance(found, tuple) else (found,))]


def _are_close(one: _Array, other: _Array) -> bool:
    difference = np.abs(one - other).max(initial=0.0)
    # NaN is not close to anything.
    return bool(difference <= _TOLERANCE * np.abs(other).max(initial=0.0))


def make_cases() -> Iterator[Case]:
    """Make all comparisons, each when it is its turn.

    Yields
    ------
    case : Case

    Examples
    --------
    >>> from hera_fast.ratios import make_cases
    >>> next(make_cases()).what
    'ranking loss, gradients'
    """
    rng = np.random.default_rng(_SEED)
    # The sizes of Lost, and labels and candidates of Yahoo! News.
    yield _ranking(*_problem(rng, 1122, 16, 2.23))
    yahoo = _problem(rng, 4000, 219, 1.91)
    yield _ranking(*yahoo)
    yield _confidence(*yahoo)
    yield _projection(yahoo[0])
    yield _softmax(yahoo[0])
    yield _candidate_mass(*yahoo)
    yield _distances(rng)
    yield _neighbors(rng)
    yield from _thresholding(rng)
    with threads(1), threadpool_limits(1):
        fits = _fits()
    with tempfile.TemporaryDirectory(prefix="hera-fast-") as folder:
        yield _reading(Path(folder, "digits.csv"))
    yield _votes()
    yield from fits


def _problem(
    rng: np.random.Generator, n: int, q: int, n_candidates: float
) -> tuple[_Array, _Array, _Array]:
    """Make scores, candidates, and confidences that none of them lacks; a long tail of labels."""
    sizes = np.minimum(1 + rng.poisson(n_candidates - 1, n), q)
    # The largest of log-weight + Gumbel noise: a weighted draw without replacement.
    keys = rng.gumbel(size=(n, q)) - np.log1p(np.arange(q))
    Y = np.argsort(np.argsort(-keys, axis=1), axis=1) < sizes[:, np.newaxis]
    P = Y * rng.exponential(size=(n, q))
    return rng.standard_normal((n, q)), Y, P / P.sum(axis=1, keepdims=True)


def _size(*lengths: int) -> str:
    return "x".join(map(str, lengths))


def _ranking(Z: _Array, _: _Array, P: _Array) -> Case:
    loss, score, confidence = np.empty(len(Z)), np.empty_like(Z), np.empty_like(Z)

    def ours() -> tuple[_Array, ...]:
        kernels.ranking_gradients(Z, P, loss, score, confidence)
        return loss, score, confidence

    return Case(
        "ranking loss, gradients", _size(*Z.shape), "NumPy", ours, lambda: ranking_peer(Z, P)
    )


def ranking_peer(Z: _Array, P: _Array) -> tuple[_Array, _Array, _Array]:
    """Compute the ranking loss and its gradients for pairs with confidence, tile by tile."""
    n, q = Z.shape
    loss, score, confidence = np.empty(n), np.empty_like(Z), np.empty_like(Z)
    pairs = max(1, np.count_nonzero(P) * q // n)
    step = max(1, _PAIRS_PER_TILE // pairs)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        z, p = Z[rows], P[rows]
        i, j = np.nonzero(p)
        firsts = np.searchsorted(i, np.arange(len(z)))
        own = p[i, j]
        d = z[i, j][:, np.newaxis] - z[i]
        difference = own[:, np.newaxis] - p[i]
        e = np.exp(-d * d)
        slope = (4 / q**2) * difference * np.log1p(e)
        pull = (4 / q**2) * difference**2 * d * e / (1 + e)
        totals = slope.sum(axis=1)
        loss[rows] = np.add.reduceat(0.5 * own * totals, firsts)
        # A label without confidence gets its part from each of those with some.
        score[rows] = np.add.reduceat(pull, firsts)
        confidence[rows] = -np.add.reduceat(slope, firsts)
        score[rows][i, j] = -pull.sum(axis=1)
        confidence[rows][i, j] = totals
    return loss, score, confidence


def _confidence(Z: _Array, Y: _Array, P: _Array) -> Case:
    fit, penalty = 1.0, 0.5
    E, M = Y - P, 0.1 * Z
    out, objective = np.empty_like(Z), np.empty(len(Z))

    def ours() -> tuple[_Array, ...]:
        kernels.confidence_step(Z, Y, E, M, fit, 0.0, penalty, False, out, objective)
        return out, objective

    def theirs() -> tuple[_Array, ...]:
        i, j = np.nonzero(Y)
        z = Z[i, j]
        p = candidates_peer(i, (fit * z + M[i, j] + penalty * (1 - E[i, j])) / (fit + penalty))
        found = np.zeros_like(Z)
        found[i, j] = p
        # Other labels have no confidence; their scores are all that counts.
        squares = np.einsum("ij,ij->i", Z, Z) + np.bincount(i, (p - z) ** 2 - z**2)
        return found, fit / 2 * squares

    return Case("confidence step", _size(*Z.shape), "NumPy", ours, theirs)


def candidates_peer(i: _Array, values: _Array) -> _Array:
    """Project the values of each row onto the simplex; `i` tells, in order, whose they are."""
    sizes = np.bincount(i)
    place = np.arange(len(i)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    packed = np.full((len(sizes), sizes.max()), -np.inf)
    packed[i, place] = values
    projected: _Array = simplex_peer(packed)[i, place]
    return projected


def _projection(V: _Array) -> Case:
    everything, out = np.ones(V.shape, dtype=bool), np.empty_like(V)

    def ours() -> _Array:
        kernels.project_simplex(V, everything, out)
        return out

    return Case("simplex projection", _size(*V.shape), "NumPy", ours, lambda: simplex_peer(V))


def simplex_peer(V: _Array) -> _Array:
    """Project rows onto the simplex: sort them, add them up."""
    descending = -np.sort(-V, axis=1)
    thresholds = np.cumsum(descending, axis=1)
    thresholds -= 1
    thresholds /= np.arange(1, V.shape[1] + 1)
    last = (descending > thresholds).sum(axis=1) - 1
    projected: _Array = np.maximum(V - thresholds[np.arange(len(V)), last][:, np.newaxis], 0)
    return projected


def _softmax(scores: _Array) -> Case:
    offsets, Z = np.linspace(-1, 1, scores.shape[1]), np.empty_like(scores)

    def ours() -> _Array:
        np.copyto(Z, scores)  # it is overwritten
        kernels.softmax(offsets, Z)
        return Z

    def theirs() -> _Array:
        np.add(scores, offsets, out=Z)
        np.subtract(Z, Z.max(axis=1, keepdims=True), out=Z)
        np.exp(Z, out=Z)
        np.divide(Z, Z.sum(axis=1, keepdims=True), out=Z)
        return Z

    return Case("softmax", _size(*scores.shape), "NumPy", ours, theirs)


def _candidate_mass(Z: _Array, Y: _Array, _: _Array) -> Case:
    temperature = 1.5
    offsets, parts = np.linspace(-1, 1, Z.shape[1]), np.empty((len(Z), 3))

    def ours() -> _Array:
        kernels.candidate_mass(Z, offsets, Y, temperature, parts)
        return parts

    def theirs() -> _Array:
        t = Z + offsets
        t -= t.max(axis=1, keepdims=True)
        weights = np.exp(temperature * t)
        products = weights * t
        squares = np.einsum("ij,ij->i", products, t)
        everything = moments_peer(weights.sum(axis=1), products.sum(axis=1), squares)
        i, j = np.nonzero(Y)
        w, t = weights[i, j], t[i, j]
        inside = moments_peer(*(np.bincount(i, w * t**power) for power in range(3)))
        return np.stack([x - y for x, y in zip(inside, everything, strict=True)], axis=1)

    return Case("mass of the candidates", _size(*Z.shape), "NumPy", ours, theirs)


def moments_peer(total: _Array, first: _Array, second: _Array) -> tuple[_Array, _Array, _Array]:
    """Turn sums of weights, of products and of squares into log-weight, mean and variance."""
    mean = first / total
    return np.log(total), mean, second / total - mean**2


def _distances(rng: np.random.Generator) -> Case:
    queries, points = rng.standard_normal((1000, 163)), rng.standard_normal((1000, 163))
    out, their_out = np.empty((1000, 1000)), np.empty((1000, 1000))

    def ours() -> _Array:
        kernels.manhattan_distances(queries, points, out)
        return out

    return Case(
        *("city-block distances", _size(1000, 1000, 163), "SciPy cdist", ours),
        lambda: cdist(queries, points, "cityblock", out=their_out),
    )


def _neighbors(rng: np.random.Generator) -> Case:
    queries, points = rng.standard_normal((1000, 163)), rng.standard_normal((8000, 163))
    distances = np.empty((len(queries), _NEIGHBORS))
    indices = np.empty(distances.shape, np.int64)

    def ours() -> tuple[_Array, ...]:
        kernels.nearest_neighbors(queries, points, distances, indices)
        np.sqrt(distances, out=distances)
        return distances, indices

    def theirs() -> tuple[_Array, ...]:
        search = NearestNeighbors(n_neighbors=_NEIGHBORS, algorithm="brute").fit(points)
        found: tuple[_Array, ...] = search.kneighbors(queries)
        return found

    return Case("nearest neighbours", _size(1000, 8000, 163), "scikit-learn", ours, theirs)


def _thresholding(rng: np.random.Generator) -> list[Case]:
    n, q, keep = 5000, 219, 20
    left, right = (np.linalg.qr(rng.standard_normal((rows, q)))[0] for rows in (n, q))
    values = np.geomspace(1000, 1, q)
    A = np.ascontiguousarray((left * values) @ right.T)
    threshold = float(np.sqrt(values[keep - 1] * values[keep]))
    out = np.empty_like(A)

    def ours() -> _Array:
        return singular_value_threshold(A, threshold, out=out)[0]

    def by_svd() -> _Array:
        U, s, Vt = scipy.linalg.svd(A, full_matrices=False)
        kept = s > threshold
        E: _Array = (U[:, kept] * (s[kept] - threshold)) @ Vt[kept]
        return E

    def by_eigenvalues() -> _Array:
        # What we do, without a look at small singular values, which lose their digits.
        squares, V = scipy.linalg.eigh(A.T @ A, driver="evd")
        s = np.sqrt(np.maximum(squares, 0))
        kept = s > threshold
        E: _Array = (A @ V[:, kept]) @ (V[:, kept] * (1 - threshold / s[kept])).T
        return E

    what, size = "singular value threshold", _size(n, q)
    return [
        Case(what, size, "SciPy svd", ours, by_svd),
        Case(what, size, "SciPy eigh", ours, by_eigenvalues),
    ]


def _reading(path: Path) -> Case:
    digits = load_digits_partial()
    save_partial_labels(path, digits)

    def ours() -> tuple[_Array, ...]:
        bunch = load_partial_labels(path)
        return bunch.data, bunch.candidates.toarray(), bunch.target

    return Case(
        *("reading a CSV file", _size(*digits.data.shape), "NumPy loadtxt"),
        *(ours, lambda: reading_peer(path)),
    )


def reading_peer(path: Path) -> tuple[_Array, _Array, _Array]:
    """Read features, candidates and true labels of a table whose labels are digits."""
    with open(path, encoding="utf-8") as file:
        header = file.readline().strip().split(",")
    labels = [header.index(name) for name in ("candidates", "target")]
    features = [k for k in range(len(header)) if k not in labels]
    X = np.loadtxt(path, delimiter=",", skiprows=1, usecols=features)
    texts = np.loadtxt(path, delimiter=",", skiprows=1, usecols=labels, dtype=str)
    Y = np.zeros((len(X), 10))
    for i, text in enumerate(texts[:, 0]):
        Y[i, [int(label) for label in text.split("|")]] = 1
    return X, Y, texts[:, 1].astype(np.int64)


def _votes() -> Case:
    X, X_new, Y, _, _ = _halves()
    model = PLKNNClassifier(n_neighbors=_NEIGHBORS).fit(X, Y)
    search = NearestNeighbors(n_neighbors=_NEIGHBORS, algorithm="brute").fit(X)
    voters = sparse.csr_array(Y, dtype=np.float64)

    def theirs() -> _Array:
        distances, indices = search.kneighbors(X_new)
        weights = 1 - distances / distances.sum(axis=1, keepdims=True)
        pointers = _NEIGHBORS * np.arange(len(X_new) + 1)
        shape = (len(X_new), len(X))
        votes = sparse.csr_array((weights.ravel(), indices.ravel(), pointers), shape=shape)
        labels: _Array = (votes @ voters).toarray().argmax(axis=1)
        return labels

    return Case(
        *("PL-KNN, predictions", _size(len(X_new), *X.shape), "scikit-learn"),
        *(lambda: model.predict(X_new), theirs),
    )


def _halves() -> tuple[_Array, _Array, _Array, _Array, _Array]:
    """Return every second digit, the others, candidates of the former, labels of both."""
    digits = load_digits_partial()
    X, Y, y = digits.data / 16, digits.candidates.toarray().astype(bool), digits.target
    return X[::2].copy(), X[1::2].copy(), Y[::2], y[::2], y[1::2]


def _fits() -> list[Case]:
    X, X_new, Y, y, y_new = _halves()
    peer = "logistic regr."

    def theirs() -> Any:
        return LogisticRegression(max_iter=_MAX_ITER).fit(X, y)

    cases = []
    for what, model in [
        ("fit, the default", HERAClassifier(random_state=0)),
        ("fit, one discriminant", HERAClassifier(calibration="gaussian", kernel="rbf")),
    ]:
        scores = tuple(float(fitted.score(X_new, y_new)) for fitted in (model.fit(X, Y), theirs()))
        fit = partial(model.fit, X, Y)
        cases.append(Case(what, _size(*X.shape), peer, fit, theirs, (scores[0], scores[1])))
    return cases

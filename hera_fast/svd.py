"""Singular value thresholding, the proximal step of the nuclear norm.

Every method looks for the right singular vectors V of the *tall* orientation of A whose singular
values s exceed the threshold t. Then E = A V diag(1 - t/s) V', so neither the left singular
vectors nor anything else of the size of A is formed.

All but ``"full"`` start from the Gram matrix G = A'A. Its rounding errors are of the size of
eps s_max^2, which costs E the relative accuracy eps s_max / s for the smallest s it keeps, and
hides on which side of t an s lies whose square is that close to t^2. Where that is not good
enough, a second Gram matrix, of A in the basis found so far, restores full accuracy.

For a matrix in single precision the first attempt is a Gram matrix G of products in single
precision, which take half the time, with squares in double precision on its diagonal. Its error
D = G - A'A is measured by one random vector x of signs: |D x| is about |D|. To first order D
changes E by at most |D| / (s + t) with the smallest s that is kept, and no s^2 moves by more than
|D|. Unless this is good enough, all begins anew with products in double precision.

The methods for few singular values do not guess how many there are: by Sylvester's law of inertia
a factorisation G - t^2 I = L D L' has exactly as many positive eigenvalues in D as there are
singular values above t. They count from a little below t, so that values too close to t are among
those they look at. What they return is complete when that many were found, and accurate when
the residuals are small: thresholding is non-expansive, so the Frobenius norm of the residuals
A'u - s v bounds the error of E, whatever the gaps in the spectrum.

The result has the same bits for every number of threads, see :mod:`hera_fast.products`.
"""

from __future__ import annotations

import math
import os
import threading
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import svds
from sklearn.utils import check_random_state

from hera_fast.kernels._check import check_arrays
from hera_fast.kernels._launch import blas_threads
from hera_fast.products import each_block, sum_blocks
from hera_fast.rows import WHOLE, Rows

__all__ = ["shrink_singular_values", "singular_value_threshold"]

_Array = np.ndarray[Any, Any]

_METHODS = ("auto", "gram", "full", "truncated", "randomized")

_EPS = float(np.finfo(np.float64).eps)
# The Gram matrix is trusted for singular values down to this part of the largest one if
# the products were made in double precision.
_TRUSTED = {np.dtype(np.float64): 1e-3, np.dtype(np.float32): 1e-6}
# Bound on the error of E, relative to E, from subspaces that are found by iteration.
_TOLERANCE = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 1e-7}
# Bound on the error of E, relative to E, from products in single precision; and by how much the
# error of the Gram matrix may exceed what the random vector shows.
_SINGLE_TOLERANCE = 1e-6
_SINGLE_MARGIN = 2

# "auto" counts the singular values above the threshold from this size on, where counting costs
# little beside an eigen-decomposition, and iterates when they are at most this share of all.
_AUTO_SIZE = 500
_AUTO_SHARE = 0.03
# Width of the random start beyond the count; size of the subspace, in blocks of this width; and
# extensions after which the eigen-decomposition would have been faster.
_OVERSAMPLING = 8
_BLOCKS = 4
_EXTENSIONS = 20

# PROPACK keeps static data in some SciPy versions.
_svds_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked child, the thread that held the lock does not exist."""
    global _svds_lock
    _svds_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def singular_value_threshold(
    A: _Array,
    threshold: float,
    method: str = "auto",
    out: _Array | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[_Array, int]:
    """Shrink every singular value of a matrix by `threshold`, down to zero at most.

    With A = U diag(s) V' this is E = U diag(max(s - threshold, 0)) V', the minimiser of
    1/2 |E - A|^2 + threshold |E|_*.

    Parameters
    ----------
    A : ndarray of shape (n, q), float32 or float64
        The matrix. C- or Fortran-contiguous arrays are used as they are, others are copied.
    threshold : float
        Finite and not negative.
    method : {"auto", "gram", "full", "truncated", "randomized"}, default="auto"
        - ``"gram"``: eigen-decomposition of the smaller one of A'A and AA'.
        - ``"full"``: LAPACK's singular value decomposition, the reference.
        - ``"truncated"``: `scipy.sparse.linalg.svds`, for few values above the threshold.
        - ``"randomized"``: block Krylov range finder started from random vectors, likewise.
        - ``"auto"``: ``"gram"``, or ``"truncated"`` when both sides are large and few
          singular values exceed the threshold.

        ``"truncated"`` and ``"randomized"`` first count the singular values above the threshold
        and turn to ``"gram"`` when there are many or when not all are found. Beside rounding,
        their error is at most 1e-11 of the norm of E. In single precision every method but
        ``"full"`` aims at 1e-6, and works in double precision where that takes it. ``"gram"``
        takes a second pass over A when it keeps a singular value that is small against the
        largest one, or when one is so close to the threshold that the first pass does not tell
        on which side it is.
    out : ndarray of shape (n, q), optional
        C-contiguous, of the dtype of A, not overlapping A; receives E.
    random_state : int, RandomState instance or None, default=None
        Start of the iterations of ``"truncated"`` and ``"randomized"``. None stands for a fixed
        seed: the same call gives the same bits.

    Returns
    -------
    E : ndarray of shape (n, q)
        `out` if it was given. It has the dtype of A.
    rank : int
        The number of singular values above the threshold. Those that cannot be told from zero
        in double precision do not count, nor does ``"gram"`` count large ones that it cannot
        tell from the threshold.

    Raises
    ------
    TypeError
        For an `A` that is not a float32 or float64 array, an `out` of another dtype, or a
        `threshold` that is not a number.
    ValueError
        For a wrong shape or value of an argument.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.svd import singular_value_threshold
    >>> E, rank = singular_value_threshold(np.diag([3.0, 2.0, 0.5]), 1.0)
    >>> E.diagonal().round(12).tolist(), rank
    ([2.0, 1.0, 0.0], 2)
    """
    threshold, out = _check(A, threshold, method, out)
    rank, _ = shrink_singular_values(A, threshold, method, out, random_state)
    return out, rank


def shrink_singular_values(
    A: _Array,
    threshold: float,
    method: str,
    out: _Array,
    random_state: int | np.random.RandomState | None = None,
    rows: Rows = WHOLE,
) -> tuple[int, float]:
    """Do what :func:`singular_value_threshold` does, without looking at the arguments.

    Parameters
    ----------
    A, threshold, method, out, random_state
        As there; all of the right type, shape and range.
    rows : Rows, default=WHOLE
        Where the rows of `A` and `out` are.

    Returns
    -------
    rank : int
        The number of singular values above the threshold.
    nuclear_norm : float
        The sum of the singular values of what was written to `out`.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.svd import shrink_singular_values
    >>> out = np.empty((3, 3))
    >>> rank, nuclear_norm = shrink_singular_values(np.diag([3.0, 2.0, 0.5]), 1.0, "auto", out)
    >>> rank, round(nuclear_norm, 12)
    (2, 3.0)
    """
    random = check_random_state(0 if random_state is None else random_state)
    if rows.is_whole:
        if A.size == 0:
            return 0, 0.0
        if not (A.flags.forc and A.flags.aligned):
            A = A.copy()
        if A.shape[0] < A.shape[1]:
            A, out = A.T, out.T
    kinds = rows.gather(_kind, A)
    _, q, dtype = kinds[0]
    tall = _Tall(A, sum(kind[0] for kind in kinds), q, dtype, rows)
    exponent = 0
    with blas_threads(1):
        found = None
        if tall.dtype == np.float32 and method != "full":
            found = _decompose_in_single(tall, threshold, method, random)
        if found is None:
            tall, exponent, gram = _scaled_gram(tall)
            threshold = _times_power_of_two(threshold, exponent)
            if method == "full":
                found = _full(tall)
            else:
                found = _decompose(tall, gram, threshold, method, random)
        values, vectors = found
        kept = values > threshold
        rows.do(_shrink, tall.A, vectors[:, kept], 1 - threshold / values[kept], out)
    if exponent:
        rows.do(_scale, out, -exponent)
    noise = _EPS * tall.n * values.max(initial=0)
    rank = int(np.count_nonzero(values > max(threshold, noise)))
    return rank, _times_power_of_two(float((values[kept] - threshold).sum()), -exponent)


class _Tall(NamedTuple):
    """A matrix with at least as many rows as columns, or one whose rows are in blocks."""

    A: Any
    n: int
    q: int
    dtype: np.dtype[Any]
    rows: Rows


def _kind(A: _Array) -> tuple[int, int, np.dtype[Any]]:
    return *A.shape, A.dtype


def _scale(A: _Array, exponent: int) -> None:
    np.ldexp(A, exponent, out=A)


def _check(A: _Array, threshold: float, method: str, out: _Array | None) -> tuple[float, _Array]:
    if type(A) is not np.ndarray:
        raise TypeError(f"A must be a NumPy array, got {type(A).__name__}")
    if A.dtype not in _TRUSTED:
        raise TypeError(f"A must be float32 or float64, got {A.dtype}")
    if A.ndim != 2:
        raise ValueError(f"A must have 2 dimensions, got shape {A.shape}")
    if isinstance(threshold, bool) or not isinstance(threshold, Real):
        raise TypeError(f"threshold must be a number, got {threshold!r}")
    threshold = float(threshold)
    if not 0 <= threshold < math.inf:
        raise ValueError(f"threshold must be finite and not negative, got {threshold}")
    if method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(_METHODS)}, got {method!r}")
    if out is None:
        return threshold, np.empty(A.shape, A.dtype)
    check_arrays("-> out[n,q]", out)
    if out.dtype != A.dtype:
        raise TypeError(f"out must be {A.dtype} like A, got {out.dtype}")
    if out.shape != A.shape:
        raise ValueError(f"out must have shape {A.shape} like A, got {out.shape}")
    if np.may_share_memory(A, out):
        raise ValueError("out shares memory with A: pass an array of its own")
    return threshold, out


def _scaled_gram(tall: _Tall) -> tuple[_Tall, int, _Array]:
    """The matrix times a power of two, the exponent of that, and its Gram matrix.

    The exponent is zero and nothing is copied unless squares leave the floating range.
    """
    gram = _gram(tall)
    if _in_range(gram, tall.dtype):
        return tall, 0, gram
    largest = max(tall.rows.gather(_largest, tall.A))
    if not math.isfinite(largest):
        raise ValueError("A must be finite, got NaN or infinity")
    exponent = -math.frexp(largest)[1]
    tall = tall._replace(A=tall.rows.make(np.ldexp, tall.A, exponent))
    return tall, exponent, _gram(tall)


def _largest(A: _Array) -> float:
    return max(float(A.max()), -float(A.min()))


def _in_range(gram: _Array, dtype: np.dtype[Any]) -> bool:
    limit = math.sqrt(np.finfo(dtype).max)
    return bool(1 / limit < np.trace(gram) < limit)


def _times_power_of_two(number: float, exponent: int) -> float:
    with np.errstate(over="ignore"):
        return float(np.ldexp(number, exponent))


def _gram(tall: _Tall, basis: _Array | None = None) -> _Array:
    """A'A, or (A basis)'(A basis), in double precision."""
    gram: _Array = tall.rows.sum(_gram_of, tall.A, basis)
    return gram


def _gram_of(A: _Array, basis: _Array | None) -> _Array:
    n, q = A.shape

    def add(rows: slice, total: _Array) -> None:
        block = A[rows].astype(np.float64, copy=False)
        if basis is not None:
            block = block @ basis
        with np.errstate(all="ignore"):  # the caller looks at the result
            total += block.T @ block

    copies = basis is not None or A.dtype != np.float64
    return sum_blocks(add, n, (q, q), q * q, large=not copies)


def _gram_in_single(tall: _Tall) -> tuple[_Array, float]:
    """A'A from products in single precision, and about the Frobenius norm of its error."""
    signs = np.random.RandomState(0).choice([-1.0, 1.0], tall.q)
    total = tall.rows.sum(_gram_and_checks, tall.A, signs)
    gram, squares, image = total[: tall.q], total[tall.q], total[tall.q + 1]
    # Where columns have little in common, as those of labels, nearly all of the error is here.
    np.fill_diagonal(gram, squares)
    with np.errstate(all="ignore"):
        return gram, float(np.linalg.norm(signs @ gram - image))


def _gram_and_checks(A: _Array, signs: _Array) -> _Array:
    n, q = A.shape

    def add(rows: slice, total: _Array) -> None:
        block = A[rows]
        with np.errstate(all="ignore"):  # the caller looks at the result
            total[:q] += block.T @ block
            block = block.astype(np.float64)
            total[q] += np.einsum("ij,ij->j", block, block)
            total[q + 1] += (block @ signs) @ block

    return sum_blocks(add, n, (q + 2, q), q * q)


def _full(tall: _Tall) -> tuple[_Array, _Array]:
    if tall.rows.is_whole:
        matrix = tall.A.astype(np.float64)
    else:
        # The triangles have the same singular values and vectors as all rows together.
        matrix = np.vstack(tall.rows.gather(_triangle, tall.A))
    _, values, rows = linalg.svd(matrix, full_matrices=False, overwrite_a=True, check_finite=False)
    return values, rows.T


def _triangle(A: _Array) -> _Array:
    return np.asarray(np.linalg.qr(A.astype(np.float64), mode="r"))


def _decompose_in_single(
    tall: _Tall, threshold: float, method: str, random: np.random.RandomState
) -> tuple[_Array, _Array] | None:
    """What :func:`_decompose` returns, or None if that takes double precision."""
    if threshold == 0:
        return None
    gram, error = _gram_in_single(tall)
    if not _in_range(gram, tall.dtype):
        return None
    trace = float(np.trace(gram))
    noise = _SINGLE_MARGIN * error + _noise(tall.n, trace)
    if threshold * threshold >= trace + noise:
        return _nothing(len(gram))
    if threshold * threshold <= 2 * noise:
        return None
    squares, vectors = _eigenpairs(gram, threshold, noise, method, tall.dtype, random)
    values = np.sqrt(np.maximum(squares, 0))
    kept = values[values > threshold]
    decided = bool((np.abs(squares - threshold**2) > noise).all())
    lost = noise / (kept.min(initial=np.inf) + threshold)
    accurate = lost <= _SINGLE_TOLERANCE * np.linalg.norm(kept - threshold)
    return (values, vectors) if decided and accurate else None


def _decompose(
    tall: _Tall, gram: _Array, threshold: float, method: str, random: np.random.RandomState
) -> tuple[_Array, _Array]:
    """Singular values and right singular vectors.

    All above the threshold are there; of those below there may be some, all or none.
    """
    n, q = tall.n, tall.q
    trace = float(np.trace(gram))
    if threshold >= math.sqrt(trace):
        return _nothing(q)
    noise = _noise(n, trace)
    # Otherwise rounding decides what exceeds the threshold.
    if threshold * threshold > max(1e-12 * trace, 2 * noise):
        squares, vectors = _eigenpairs(gram, threshold, noise, method, tall.dtype, random)
        values = np.sqrt(np.maximum(squares, 0))
        smallest = values.min(initial=np.inf, where=values > threshold)
        largest = values.max(initial=0)
        distances = np.abs(squares - threshold**2)
        if len(values) == q and threshold >= 0.02 * largest:
            # A large value at the threshold itself is as good as below it: what is left of it is
            # nothing but rounding.
            values[distances <= 16 * _EPS * squares.max()] = threshold
            decided = True
        else:
            decided = bool((distances > noise).all())
        if decided and smallest >= _TRUSTED[tall.dtype] * largest:
            return values, vectors
    # With nearly as many columns as rows, LAPACK costs less than a second pass.
    return _refined(tall, gram) if n >= 2 * q else _full(tall)


def _nothing(q: int) -> tuple[_Array, _Array]:
    return np.empty(0), np.empty((q, 0))


def _noise(n: int, trace: float) -> float:
    """Bound on the errors of the eigenvalues of a Gram matrix made in double precision.

    Errors of n terms add up like a random walk. The bound is generous, as only a square that is
    this close to the one of the threshold costs time.
    """
    return 4 * _EPS * math.sqrt(n) * trace


def _eigenpairs(
    gram: _Array,
    threshold: float,
    noise: float,
    method: str,
    dtype: np.dtype[Any],
    random: np.random.RandomState,
) -> tuple[_Array, _Array]:
    """Eigenpairs of the Gram matrix: all of them, or all above threshold^2 - noise."""
    few = None
    if method != "gram" and (method != "auto" or len(gram) >= _AUTO_SIZE):
        few = _few_eigenpairs(gram, threshold, noise, _TOLERANCE[dtype], method, random)
    # Of LAPACK's drivers this one, divide and conquer, is the fastest; and no other is faster
    # for a part of the spectrum unless that is very small.
    return np.linalg.eigh(gram) if few is None else few


def _refined(tall: _Tall, gram: _Array) -> tuple[_Array, _Array]:
    """Decompose by way of a second Gram matrix, which is well-conditioned.

    B = A V / S has nearly orthonormal columns, as far as the first Gram matrix told them apart.
    From B'B = Z L Z' follows A'A = R'R with R = sqrt(L) Z' S V'.
    """
    squares, vectors = np.linalg.eigh(gram)
    sizes = np.sqrt(np.maximum(squares, 1e-14 * squares[-1]))
    squares, rotation = np.linalg.eigh(_gram(tall, vectors / sizes))
    root = np.sqrt(np.maximum(squares, 0))[:, np.newaxis] * rotation.T * sizes
    _, values, rows = np.linalg.svd(root)
    return values, vectors @ rows.T


def _few_eigenpairs(
    gram: _Array,
    threshold: float,
    noise: float,
    tolerance: float,
    method: str,
    random: np.random.RandomState,
) -> tuple[_Array, _Array] | None:
    """Eigenpairs of the Gram matrix above threshold^2 - noise.

    None when there are too many of them.
    """
    q = len(gram)
    lowest = threshold * threshold - noise
    count = _count_above(gram, lowest)
    if count == 0:
        return _nothing(q)
    if _BLOCKS * (count + _OVERSAMPLING) > q or (method == "auto" and count > _AUTO_SHARE * q):
        return None
    start = None if method == "randomized" else _svds_vectors(gram, count, random)
    if start is None:
        start = random.standard_normal((q, count + _OVERSAMPLING))
    return _grow(gram, start, count, threshold, lowest, tolerance, random)


def _count_above(gram: _Array, shift: float) -> int:
    """The number of eigenvalues above `shift`, by Sylvester's law of inertia."""
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] -= shift
    work = int(linalg.lapack.dsytrf_lwork(len(gram), lower=1)[0])
    factor, pivots, _ = linalg.lapack.dsytrf(shifted.T, lower=1, lwork=work, overwrite_a=True)
    # A negative pair of pivots marks a block of two rows, always with one positive eigenvalue.
    single = pivots > 0
    return int(np.count_nonzero(factor.diagonal()[single] > 0) + np.count_nonzero(~single) // 2)


def _svds_vectors(gram: _Array, count: int, random: np.random.RandomState) -> _Array | None:
    try:
        with _svds_lock:
            _, _, rows = svds(
                gram,
                k=count,
                maxiter=min(len(gram), 10 * count + 100),
                return_singular_vectors="vh",
                solver="propack",
                random_state=random.randint(2**31 - 1),
            )
    except np.linalg.LinAlgError:  # more iterations would be needed
        return None
    vectors: _Array = rows.T
    return vectors if np.isfinite(vectors).all() else None


def _grow(
    gram: _Array,
    start: _Array,
    count: int,
    threshold: float,
    lowest: float,
    tolerance: float,
    random: np.random.RandomState,
) -> tuple[_Array, _Array] | None:
    """Grow a Krylov subspace until it holds the `count` eigenpairs of G above `lowest`.

    None when that takes too large a subspace.
    """
    block = start.shape[1]
    basis, _ = np.linalg.qr(start)
    image = gram @ basis
    for _ in range(_EXTENSIONS):
        squares, rotation = np.linalg.eigh(basis.T @ image)
        squares, rotation = squares[::-1], rotation[:, ::-1]
        # Cutting off the trailing Ritz vectors bounds the size of the subspace.
        rotation = rotation[:, : max((_BLOCKS - 1) * block, len(gram) // 10)]
        basis, image = basis @ rotation, image @ rotation
        residuals = image[:, :block] - basis[:, :block] * squares[:block]
        found = squares[:count], basis[:, :count]
        if found[0][-1] > lowest and _accurate(*found, residuals[:, :count], threshold, tolerance):
            return found
        lengths = np.linalg.norm(residuals, axis=0)
        # Where the subspace is invariant, only a new direction can help.
        idle = lengths <= _EPS * squares[0]
        residuals[:, idle] = random.standard_normal((len(gram), np.count_nonzero(idle)))
        residuals[:, ~idle] /= lengths[~idle]
        for _ in range(2):
            residuals, _ = np.linalg.qr(residuals - basis @ (basis.T @ residuals))
        basis = np.hstack([basis, residuals])
        image = np.hstack([image, gram @ residuals])
    return None


def _accurate(
    squares: _Array, vectors: _Array, residuals: _Array, threshold: float, tolerance: float
) -> bool:
    """Whether these pairs give an accurate E."""
    values = np.sqrt(squares)
    error = np.linalg.norm(residuals / values)
    rounding = 16 * _EPS * values[0] ** 2 / values[-1]
    size = np.linalg.norm(np.maximum(values - threshold, 0))
    skew = np.linalg.norm(vectors.T @ vectors - np.eye(len(values)))
    return bool(error <= max(tolerance * size, rounding) and skew <= tolerance)


def _shrink(A: _Array, vectors: _Array, weights: _Array, out: _Array) -> None:
    """Write A V diag(weights) V' to `out`."""
    n, q = A.shape
    shrunk = (vectors * weights).T
    factors = [vectors, shrunk] if 2 * len(weights) < q else [vectors @ shrunk]
    *first, last = (np.ascontiguousarray(factor, A.dtype) for factor in factors)

    def multiply(rows: slice) -> None:
        block = A[rows]
        for factor in first:
            block = block @ factor
        np.matmul(block, last, out=out[rows])

    each_block(multiply, n, q * (len(weights) + 1))

"""Rows in one place, which are to behave like rows in one block."""

from __future__ import annotations

import inspect
import threading

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import candidate_matrices, dtypes, seeds

from hera_fast.blocks import Block, Blocks, Candidates, LocalCarrier, MemoryStore
from hera_fast.rows import WHOLE, Rows, Whole
from hera_fast.threads import threads


def in_blocks(sizes, X, Y, weights):
    """The same rows in blocks."""
    carrier = LocalCarrier(len(sizes))
    first = 0
    for number, size in enumerate(sizes):
        part = slice(first, first + size)
        block = Block(first, X[part], Candidates(sparse.csr_array(Y[part])), weights[part])
        carrier.take(number, block, MemoryStore())
        first += size
    rows = Blocks([carrier], len(sizes))
    return rows, rows.X, rows.Y, rows.weights


def in_one_place(X, Y, weights):
    return WHOLE, X, Y, weights


def shares(Y, dtype):
    return (Y / Y.sum(axis=1, keepdims=True)).astype(dtype)


def lower(P, Y, amount):
    P[Y] -= amount


def sums(A, P, weights):
    return weights @ A, (P.sum(axis=0), int(np.count_nonzero(P)))


def numbers_of_rows(X, first_row):
    return first_row + np.arange(len(X))


def program(rows, X, Y, weights):
    """Call all methods; return what can be compared."""
    numbers = rows.make(numbers_of_rows, X, rows.first_row)
    P = rows.at_candidates(Y, shares, Y, np.float64)
    A = rows.make(np.multiply, X, 3.0)
    S = rows.scratch(np.empty_like, X)
    rows.do(np.multiply, A, A, S)
    first = rows.sum(sums, S, P, weights)
    twin = rows.copy(P)
    rows.do(lower, P, Y, 0.25)
    B = rows.make(np.column_stack, [A, P, twin])
    rows.flush()

    def work(factor):
        C = rows.make(np.multiply, B, factor)
        total = rows.sum(np.sum, C)
        rows.do(np.add, C, total, C)
        return total, rows.gather(np.copy, C)

    found = rows.together(work, [1.0, -2.0, 1e3])
    arrays = [rows.gather(np.copy, held) for held in (numbers, P, twin, A, B)]
    row_wise = [np.concatenate(parts) for parts in arrays]
    totals = [rows.sum(np.sum, A), rows.sum(sums, A, P, weights), first, rows.sum(len, X)]
    return row_wise, totals, [(total, np.concatenate(parts)) for total, parts in found]


def flat(results):
    """All arrays in nested tuples and lists."""
    if isinstance(results, (list, tuple)):
        return [array for each in results for array in flat(each)]
    return [np.asarray(results)]


@st.composite
def problems(draw):
    n, q = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(seeds))
    X = rng.standard_normal((n, draw(st.integers(1, 4)))).astype(draw(dtypes))
    return X, draw(candidate_matrices(n, q)), rng.random(n)


@given(problem=problems())
def test_the_whole_is_like_one_block(problem):
    X, Y, weights = problem
    ref = program(*in_blocks([len(X)], X.copy(), Y, weights))
    comp = program(*in_one_place(X.copy(), Y, weights))
    for left, right in zip(flat(comp), flat(ref), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@given(problem=problems(), seed=seeds)
def test_the_whole_is_like_many_blocks(problem, seed):
    """But for rounding in the sums."""
    X, Y, weights = problem
    rng = np.random.default_rng(seed)
    bounds = np.flatnonzero(rng.random(len(X) - 1) < 0.5) + 1
    sizes = np.diff([0, *bounds, len(X)]).tolist()
    row_wise, totals, found = program(*in_blocks(sizes, X.copy(), Y, weights))
    expected_row_wise, expected_totals, expected_found = program(
        *in_one_place(X.copy(), Y, weights)
    )
    for left, right in zip(row_wise, expected_row_wise, strict=True):
        np.testing.assert_array_equal(left, right)
    rtol = 1e-4 if X.dtype == np.float32 else 1e-9
    pairs = zip(flat((totals, found)), flat((expected_totals, expected_found)), strict=True)
    for left, right in pairs:
        scale = np.abs(right).max(initial=1)
        np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol * 1e3 * scale)


@given(seed=seeds, sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_sums_of_integers_are_the_same_in_any_blocks(seed, sizes):
    rng = np.random.default_rng(seed)
    X = rng.integers(-100, 100, (sum(sizes), 3))
    rows, blocks, _, _ = in_blocks(sizes, X, X > 0, np.ones(len(X)))
    np.testing.assert_array_equal(rows.sum(np.sum, blocks, 0), WHOLE.sum(np.sum, X, 0))


# ---- the whole by itself ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["make", "scratch", "sum"])
def test_functions_are_simply_called(method):
    result = object()
    seen = []

    def work(*arguments):
        seen.append(arguments)
        return result

    given = [1, "two", [3]]
    assert getattr(WHOLE, method)(work, *given) is result
    assert seen == [(1, "two", [3])]
    assert seen[0][2] is given[2]


def test_at_candidates():
    Y = np.array([[True, False]])
    result = WHOLE.at_candidates(Y, np.multiply, Y, 2.0)
    assert result.tolist() == [[2.0, 0.0]]


def test_gathering():
    assert WHOLE.gather(int, "12") == [12]
    assert WHOLE.gather(list, (1, 2)) == [[1, 2]]


def test_doing():
    A = np.zeros(2)
    assert WHOLE.do(np.add, A, 1.0, A) is None
    assert A.tolist() == [1.0, 1.0]
    assert WHOLE.flush() is None


def test_copies_are_independent():
    A = np.zeros(2)
    twin = WHOLE.copy(A)
    twin += 1
    assert A.tolist() == [0.0, 0.0]


def test_where_it_is():
    assert WHOLE.is_whole
    assert WHOLE.first_row == 0
    assert isinstance(WHOLE, Whole)


@pytest.mark.parametrize("cls", [Whole, Blocks])
def test_both_have_all_methods(cls):
    """With the arguments by the same names."""
    for name, method in inspect.getmembers(Rows, inspect.isfunction):
        if name.startswith("_"):
            continue
        expected = list(inspect.signature(method).parameters)
        assert list(inspect.signature(getattr(cls, name)).parameters) == expected, name


@pytest.mark.parametrize("n_items", [0, 1, 2, 7])
def test_together(n_items):
    assert WHOLE.together(lambda item: -item, range(n_items)) == [-i for i in range(n_items)]


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
def test_together_uses_threads_and_leaves_their_number():
    before = numba.get_num_threads()
    both = threading.Barrier(2)
    with threads(2):
        # Neither of them comes past the barrier alone.
        names = WHOLE.together(
            lambda _: (both.wait(20), threading.get_ident(), numba.get_num_threads()), range(2)
        )
        assert len({name for _, name, _ in names}) == 2
        assert {n_threads for *_, n_threads in names} == {1}
        assert numba.get_num_threads() == 2
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("method", ["make", "scratch", "sum", "gather", "do", "together"])
def test_errors_reach_the_caller(method):
    def fail(*arguments):
        raise ArithmeticError("the work failed")

    arguments = [[1, 2, 3]] if method == "together" else [1, 2]
    before = numba.get_num_threads()
    with pytest.raises(ArithmeticError, match="the work failed"):
        getattr(WHOLE, method)(fail, *arguments)
    assert numba.get_num_threads() == before

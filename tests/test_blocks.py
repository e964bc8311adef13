"""Rows in blocks: the same bits wherever the blocks are, and no step too few or too many."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from copy import deepcopy
from itertools import pairwise
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from strategies import candidate_matrices, dtypes, seeds

from hera_fast import scratch
from hera_fast.blocks import (
    AtCandidates,
    Block,
    Blocks,
    Candidates,
    LocalCarrier,
    MemoryStore,
    TreeSum,
    raw,
)
from hera_fast.scratch import DiskStore, ScratchFile
from hera_fast.threads import threads

Q = 3


class Recording(MemoryStore):
    """Knows which pieces there are."""

    def __init__(self):
        super().__init__()
        self.numbers = set()

    def save(self, number, piece):
        super().save(number, piece)
        self.numbers.add(number)

    def forget(self, number):
        super().forget(number)
        self.numbers.discard(number)


class Listening(LocalCarrier):
    """Keeps the batches that it is given."""

    def __init__(self, n_blocks):
        super().__init__(n_blocks)
        self.batches = []

    def submit(self, batch):
        self.batches.append(batch)
        return super().submit(batch)


def make_rows(sizes, owners=None, *, store=MemoryStore, carrier=LocalCarrier, seed=0):
    """Random rows in blocks of these sizes; `owners` says which carrier has each of them."""
    rng = np.random.default_rng(seed)
    owners = [0] * len(sizes) if owners is None else owners
    carriers = [carrier(len(sizes)) for _ in range(max(owners) + 1)]
    first_row = 0
    for number, (size, owner) in enumerate(zip(sizes, owners, strict=True)):
        X = rng.standard_normal((size, 2)) * 10.0 ** rng.integers(-5, 5, (size, 1))
        Y = rng.random((size, Q)) < 0.5
        Y[np.arange(size), rng.integers(0, Q, size)] = True
        block = Block(first_row, X, Candidates(sparse.csr_array(Y)), rng.random(size))
        carriers[owner].take(number, block, store())
        first_row += size
    return Blocks(carriers, len(sizes))


def recorded_rows(sizes=(2, 3)):
    """Rows, and a function that tells which pieces their blocks have beyond the first ones."""
    stores = []

    def store():
        stores.append(Recording())
        return stores[-1]

    rows = make_rows(sizes, store=store)
    first = set(stores[0].numbers)

    def numbers():
        (kept,) = {frozenset(each.numbers - first) for each in stores}
        return set(kept)

    return rows, numbers


@pytest.fixture(params=["memory", "disk"])
def store(request, monkeypatch):
    """Makes stores for the pieces of a block."""
    if request.param == "memory":
        return MemoryStore
    monkeypatch.setattr(scratch, "_SMALL", 1)
    file = ScratchFile()
    return lambda: DiskStore(file)


def ask(rows):
    """Have a batch done."""
    return rows.gather(int)


def within(seconds, function):
    """What a function returns or raises, if that does not take for ever."""
    outcome = []

    def run():
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"it hangs for {seconds} seconds"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def first_of(X):
    return X[0, 0]


def add(A, number):
    A += number


def set_to(A, number):
    A[...] = number


def both_sums(X, Y):
    return X.sum(axis=0), (Y.sum(axis=0), float(X.sum()))


def equal_shares(Y):
    return Y / Y.sum(axis=1, keepdims=True)


def square_where(A, Y):
    np.square(A, out=A, where=Y)


def fail(*arguments):
    raise ArithmeticError("the work failed")


# ---- sums ---------------------------------------------------------------------------------------


def naive_tree(values):
    while len(values) > 1:
        pairs = [values[place : place + 2] for place in range(0, len(values), 2)]
        values = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def tree_sum(values, owners, order, rng):
    """The sum if each value is added by its owner, in this order, and these sums in any order."""
    parts = {owner: TreeSum(len(values)) for owner in owners}
    for place in order:
        parts[owners[place]].add(0, int(place), values[place])
    nodes = [node for part in parts.values() for node in part.nodes.items()]
    total = TreeSum(len(values))
    for place in rng.permutation(len(nodes)):
        (level, position), value = nodes[place]
        total.add(level, position, value)
    return total.total()


@given(n_blocks=st.integers(1, 70), n_carriers=st.integers(1, 6), seed=seeds)
def test_sums_have_the_same_bits_wherever_the_blocks_are(n_blocks, n_carriers, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n_blocks) * 10.0 ** rng.integers(-9, 9, n_blocks)
    owners = rng.integers(0, n_carriers, n_blocks).tolist()
    comp = tree_sum(values, owners, rng.permutation(n_blocks), rng)
    assert comp == naive_tree(values.tolist())
    assert comp == pytest.approx(math.fsum(values), rel=1e-9, abs=1e-6)


@given(n_blocks=st.integers(1, 70), n_carriers=st.integers(1, 6), seed=seeds)
def test_sums_of_integers_are_plain_sums(n_blocks, n_carriers, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-(10**9), 10**9, (n_blocks, 2))
    owners = rng.integers(0, n_carriers, n_blocks).tolist()
    total = tree_sum(values, owners, rng.permutation(n_blocks), rng)
    np.testing.assert_array_equal(total, values.sum(axis=0))


def test_the_order_of_additions_is_that_of_a_tree():
    """Sums one after the other would have lost the small number."""
    values = [1e16, -1e16, 1.0, 1e-3]
    rng = np.random.default_rng(0)
    assert tree_sum(values, [0, 1, 0, 1], range(4), rng) == 1.001


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 5, 8])
def test_sums_of_tuples(n_blocks):
    rng = np.random.default_rng(n_blocks)
    values = [(place, (np.full(2, float(place)), 1)) for place in range(n_blocks)]
    parts = [TreeSum(n_blocks), TreeSum(n_blocks)]
    for place in rng.permutation(n_blocks):
        parts[place % 2].add(0, int(place), values[place])
    for (level, place), value in list(parts[1].nodes.items()):
        parts[0].add(level, place, value)
    number, (array, count) = parts[0].total()
    assert number == sum(range(n_blocks))
    np.testing.assert_array_equal(array, [number, number])
    assert count == n_blocks


def test_tuples_of_different_lengths_do_not_add_up():
    total = TreeSum(2)
    total.add(0, 0, (1, 2))
    with pytest.raises(ValueError, match="shorter"):
        total.add(0, 1, (1,))


def test_the_sum_of_one_block_is_what_it_says():
    total = TreeSum(1)
    total.add(0, 0, -0.0)
    assert math.copysign(1, total.total()) == -1


@pytest.mark.parametrize("n_blocks", [2, 5, 8])
def test_there_is_no_sum_before_all_have_added_something(n_blocks):
    total = TreeSum(n_blocks)
    for place in range(1, n_blocks):
        total.add(0, place, 1)
        with pytest.raises(KeyError):
            total.total()
    total.add(0, 0, 1)
    assert total.total() == n_blocks


def test_sums_do_not_change_what_is_added():
    values = [np.ones(2) for _ in range(5)]
    total = TreeSum(5)
    for place, value in enumerate(values):
        total.add(0, place, value)
    assert total.total().tolist() == [5, 5]
    assert all(value.tolist() == [1, 1] for value in values)


def test_neighbours_are_added_up_where_they_are():
    part = TreeSum(16)
    for place in range(4, 12):
        part.add(0, place, 1)
    assert part.nodes == {(2, 1): 4, (2, 2): 4}


# ---- pieces in less space -----------------------------------------------------------------------


@st.composite
def sparse_problems(draw):
    n, q = draw(st.integers(0, 9)), draw(st.integers(1, 12))
    Y = draw(candidate_matrices(n, q))
    rng = np.random.default_rng(draw(seeds))
    P = np.where(Y, rng.standard_normal((n, q)) * (rng.random((n, q)) < 0.7), 0)
    return Y, P.astype(draw(dtypes))


@given(problem=sparse_problems())
def test_candidates_pack_and_unpack(problem):
    Y, _ = problem
    candidates = Candidates(sparse.csr_array(Y))
    assert candidates.shape == Y.shape
    assert candidates.unpack().dtype == bool
    np.testing.assert_array_equal(candidates.unpack(), Y)
    np.testing.assert_array_equal(candidates.positions(), np.flatnonzero(Y))
    changed = candidates.unpack()
    changed[...] = True
    candidates.pack(changed)
    np.testing.assert_array_equal(candidates.unpack(), Y)


@given(problem=sparse_problems())
def test_values_at_the_candidates_pack_and_unpack(problem):
    Y, P = problem
    packed = AtCandidates(Candidates(sparse.csr_array(Y)), P)
    assert packed.values.shape == (np.count_nonzero(Y),)
    assert packed.unpack().dtype == P.dtype
    np.testing.assert_array_equal(packed.unpack(), P)
    values = packed.values
    packed.pack(-2 * P)
    # In place: the values may be in a file.
    assert packed.values is values
    np.testing.assert_array_equal(packed.unpack(), -2 * P)
    assert packed.values.dtype == P.dtype


@given(problem=sparse_problems())
def test_values_outside_the_candidates_are_not_kept(problem):
    Y, P = problem
    packed = AtCandidates(Candidates(sparse.csr_array(Y)), np.where(Y, P, 7).astype(P.dtype))
    np.testing.assert_array_equal(packed.unpack(), P)


@given(problem=sparse_problems())
def test_values_at_the_candidates_as_a_matrix(problem):
    Y, P = problem
    packed = AtCandidates(Candidates(sparse.csr_array(Y)), P)
    matrix = packed.matrix()
    assert matrix.format == "csr"
    assert matrix.dtype == P.dtype
    # Zeros among the candidates are entries, too.
    assert matrix.nnz == np.count_nonzero(Y)
    assert matrix.has_canonical_format
    np.testing.assert_array_equal(matrix.toarray(), P)
    matrix.data[:], matrix.indices[:], matrix.indptr[:] = 5, 0, 0
    np.testing.assert_array_equal(packed.unpack(), P)


@given(problem=sparse_problems())
def test_a_copy_of_values_has_values_of_its_own(problem):
    Y, P = problem
    packed = AtCandidates(Candidates(sparse.csr_array(Y)), P)
    twin = deepcopy(packed)
    assert twin.candidates is packed.candidates
    twin.pack(P + 1)
    np.testing.assert_array_equal(packed.unpack(), P)
    np.testing.assert_array_equal(twin.unpack(), np.where(Y, P + 1, 0))


# ---- the same on one carrier and on several -----------------------------------------------------


def program(rows):
    """A bit of everything; what comes out of it."""
    A = rows.make(np.multiply, rows.X, rows.make(first_of, rows.X))
    P = rows.at_candidates(rows.Y, equal_shares, rows.Y)
    S = rows.scratch(np.copy, A)
    rows.do(add, S, 1.0)
    before = rows.sum(both_sums, S, P)
    twin = rows.copy(P)
    rows.do(add, A, rows.first_row)
    rows.do(square_where, P, rows.Y)
    # A scratch is made again, of what there is by now.
    after, changed = rows.sum(both_sums, S, P), rows.sum(both_sums, A, twin)
    C = rows.make(np.column_stack, [A, P, (twin)])

    def parts(factor):
        D = rows.make(np.multiply, C, factor)
        total = rows.sum(np.sum, D)
        rows.do(add, D, 1.0)
        return total, rows.sum(both_sums, D, P), D

    many = rows.together(parts, [1.0, -3.0, 0.1])
    weighted = rows.sum(np.dot, rows.weights, C)
    return [before, after, changed, [each[:2] for each in many], weighted] + [
        np.concatenate(rows.gather(np.copy, held)) for held in (C, P, many[1][2])
    ]


def assert_same_bits(comp, ref):
    if isinstance(ref, (list, tuple)):
        assert type(comp) is type(ref)
        for left, right in zip(comp, ref, strict=True):
            assert_same_bits(left, right)
    else:
        assert np.asarray(comp).tobytes() == np.asarray(ref).tobytes()


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    n_carriers=st.integers(1, 5),
    seed=seeds,
)
@settings(max_examples=40)
def test_carriers_change_no_bit(sizes, n_carriers, seed):
    rng = np.random.default_rng(seed)
    owners = rng.permutation(np.arange(len(sizes)) % n_carriers).tolist()
    ref = program(make_rows(sizes, seed=seed))
    assert_same_bits(program(make_rows(sizes, owners, seed=seed)), ref)


def test_stores_change_no_bit(store):
    sizes = [3, 1, 4, 2, 2]
    ref = program(make_rows(sizes))
    assert_same_bits(program(make_rows(sizes, [1, 0, 2, 0, 1], store=store)), ref)


def test_a_carrier_may_have_nothing():
    rows = make_rows([2, 2], [0, 2])
    assert rows.sum(len, rows.X) == 4
    assert rows.gather(int, rows.first_row) == [0, 2]


# ---- what each of the methods does --------------------------------------------------------------


def test_pieces_from_the_beginning(store):
    rows = make_rows([2, 3, 1], [1, 0, 1], store=store)
    assert not rows.is_whole
    assert rows.gather(int, rows.first_row) == [0, 2, 5]
    assert [each.shape for each in rows.gather(np.copy, rows.X)] == [(2, 2), (3, 2), (1, 2)]
    assert {each.dtype for each in rows.gather(np.copy, rows.Y)} == {np.dtype(bool)}
    assert [len(each) for each in rows.gather(np.copy, rows.weights)] == [2, 3, 1]


def test_what_is_made_is_kept_and_can_be_changed(store):
    rows = make_rows([2, 3], store=store)
    A = rows.make(np.zeros_like, rows.X)
    for step in range(3):
        rows.do(add, A, 1.0)
        if step:
            ask(rows)
    assert rows.sum(np.sum, A) == 3 * 10


def test_at_candidates(store):
    rows = make_rows([2, 3], store=store)
    P = rows.at_candidates(rows.Y, np.ones_like, rows.Y, np.float32)
    rows.do(np.multiply, P, np.float32(3), P)
    ask(rows)
    rows.do(add, P, np.float32(1))  # also outside, where nothing is kept
    rows.flush()
    for dense, Y in zip(rows.gather(np.copy, P), rows.gather(np.copy, rows.Y), strict=True):
        assert dense.dtype == np.float32
        np.testing.assert_array_equal(dense, 4 * Y)


def stored_values(piece):
    assert isinstance(piece, AtCandidates)
    return piece.values.copy()


def test_pieces_as_they_are_stored(store):
    """Whatever was done to them has been packed by then."""
    rows = make_rows([2, 3], store=store)
    P = rows.at_candidates(rows.Y, np.ones_like, rows.Y, float)
    rows.do(add, P, 1.0)
    values = rows.make(stored_values, raw(P))
    rows.do(add, P, 1.0)
    assert {float(number) for each in rows.gather(np.copy, values) for number in each} == {2.0}
    later = np.concatenate(rows.gather(stored_values, raw(P)))
    assert set(later) == {3.0}
    assert all(isinstance(each, Candidates) for each in rows.gather(deepcopy, raw(rows.Y)))


def test_raw_in_a_list(store):
    rows = make_rows([2, 3], store=store)
    P = rows.at_candidates(rows.Y, np.ones_like, rows.Y, float)
    kinds = rows.gather(lambda pair: [type(each) for each in pair], [raw(P), P])
    assert kinds == [[AtCandidates, np.ndarray]] * 2


@pytest.mark.parametrize("at_candidates", [False, True])
@pytest.mark.parametrize("asks", [False, True], ids=["in one batch", "in several"])
def test_copies(store, at_candidates, asks):
    rows = make_rows([2, 3], store=store)
    if at_candidates:
        A = rows.at_candidates(rows.Y, np.ones_like, rows.Y, float)
    else:
        A = rows.make(np.ones_like, rows.Y, float)
    if asks:
        ask(rows)
    rows.do(add, A, 1.0)
    twin = rows.copy(A)
    rows.do(add, A, 10.0)
    if asks:
        ask(rows)
    rows.do(add, twin, 100.0)
    largest = rows.gather(np.max, A), rows.gather(np.max, twin)
    assert largest == ([12.0, 12.0], [102.0, 102.0])


def test_copies_of_copies(store):
    rows = make_rows([2], store=store)
    A = rows.make(np.zeros_like, rows.X)
    for number in range(1, 4):
        A = rows.copy(A)
        rows.do(add, A, float(number))
    assert rows.gather(np.max, A) == [6.0]


def test_spread(store):
    rows = make_rows([2, 3, 1], [1, 0, 1], store=store)
    pieces = [np.full(size, float(size)) for size in (2, 3, 1)]
    spread = rows.spread(pieces)
    rows.do(add, spread, 1.0)
    assert [each.tolist() for each in rows.gather(np.copy, spread)] == [[3, 3], [4, 4, 4], [2]]


def test_results_are_in_the_order_of_the_rows():
    rows = make_rows([1] * 7, [3, 0, 2, 0, 1, 3, 0])
    assert rows.gather(int, rows.first_row) == list(range(7))


def test_arguments_may_be_lists_of_pieces():
    rows = make_rows([2, 3], [1, 0])
    A, B = rows.make(np.ones_like, rows.X), rows.make(np.zeros_like, rows.X)
    S = rows.scratch(np.full_like, A, 5.0)
    nested = [A, (B, [rows.first_row, S]), "text", None]

    def look(given, number):
        first, (second, (first_row, third)), text, nothing = given
        assert [type(each) for each in (given, given[1])] == [list, tuple]
        assert (text, nothing, number) == ("text", None, 3)
        return first[0, 0] + second[0, 0] + third[0, 0] + first_row

    assert rows.gather(look, nested, 3) == [6.0, 8.0]
    made = rows.make(look, nested, 3)
    assert rows.gather(float, made) == [6.0, 8.0]


def test_lists_of_pieces_can_be_written_to(store):
    rows = make_rows([2, 3], store=store)
    P = rows.at_candidates(rows.Y, np.ones_like, rows.Y, float)
    A = rows.make(np.zeros_like, rows.Y, float)
    rows.do(lambda pair: [add(each, 1.0) for each in pair], [P, (A)])
    ask(rows)
    assert rows.gather(np.max, P) == [2.0, 2.0]
    assert rows.gather(np.max, A) == [1.0, 1.0]


def test_a_list_may_be_changed_once_it_was_given():
    rows = make_rows([2])
    A = rows.make(np.ones_like, rows.X)
    given = [A]
    B = rows.make(np.column_stack, given)
    given.clear()
    assert rows.gather(np.shape, B) == [(2, 2)]


# ---- when steps are done ------------------------------------------------------------------------


def test_nothing_is_done_before_somebody_asks():
    calls = []
    rows = make_rows([1, 1, 1])

    def note(what, *arguments):
        calls.append((what, int(arguments[-1])))
        return np.zeros(1)

    A = rows.make(note, "make", rows.first_row)
    rows.do(note, "do", A, rows.first_row)
    S = rows.scratch(note, "scratch", rows.first_row)
    unused = rows.scratch(note, "unused", rows.first_row)
    rows.do(note, "again", A, rows.first_row)
    assert not calls
    assert rows.sum(note, "sum", S, rows.first_row) == 0
    # All of the work on a block before the next one.
    assert calls == [
        (what, place) for place in range(3) for what in ("make", "do", "again", "scratch", "sum")
    ]
    del calls[:]
    rows.flush()
    assert not calls
    del unused


def test_steps_are_done_in_their_order_and_once():
    rows = make_rows([1, 1], [1, 0])
    log = rows.make(list)
    for number in range(3):
        rows.do(list.append, log, number)
    twin = rows.copy(log)
    rows.do(list.append, twin, "twin")
    for number in range(3, 6):
        rows.do(list.append, log, number)
        if number % 2:
            ask(rows)
    assert rows.gather(list, log) == [list(range(6))] * 2
    assert rows.gather(list, log) == [list(range(6))] * 2
    assert rows.gather(list, twin) == [[0, 1, 2, "twin"]] * 2


def test_flush():
    rows = make_rows([1, 1])
    (carrier,) = rows._carriers
    A = rows.make(list)
    rows.do(list.append, A, 1)
    rows.flush()
    assert carrier.stored(0, A.number) == [1]
    rows.flush()
    assert carrier.stored(1, A.number) == [1]


def test_flush_asks_only_if_something_was_put_off():
    rows = make_rows([1], carrier=Listening)
    (carrier,) = rows._carriers
    rows.flush()
    assert not carrier.batches
    rows.make(list)
    rows.flush()
    rows.flush()
    assert len(carrier.batches) == 1


def test_scratch_is_made_for_each_batch(store):
    counts = []
    rows = make_rows([2, 3], store=store)

    def make(X):
        counts.append(len(X))
        return np.zeros(len(X))

    S = rows.scratch(make, rows.X)
    for number in range(3):
        rows.do(add, S, 1.0)
        rows.do(add, S, 1.0)
        # Within a batch it is one and the same, in the next one everything is forgotten.
        assert rows.gather(np.max, S) == [2.0, 2.0]
        assert counts == [2, 3] * (number + 1)
    ask(rows)
    assert len(counts) == 6


def test_scratch_of_scratch(store):
    rows = make_rows([2, 3], store=store)
    A = rows.make(np.ones_like, rows.X)
    S = rows.scratch(np.add, A, 1.0)
    T = rows.scratch(np.multiply, S, rows.scratch(np.add, S, 1.0))
    assert rows.gather(np.max, T) == [6.0, 6.0]
    rows.do(add, A, 1.0)
    assert rows.gather(np.max, T) == [12.0, 12.0]


# ---- what is forgotten --------------------------------------------------------------------------


def test_pieces_are_forgotten_with_what_stands_for_them():
    rows, numbers = recorded_rows()
    A, B = rows.make(np.copy, rows.X), rows.make(np.copy, rows.X)
    rows.flush()
    assert numbers() == {A.number, B.number}
    number = B.number
    del A
    gc.collect()
    ask(rows)
    assert numbers() == {number}
    assert rows.gather(np.shape, B) == [(2, 2), (3, 2)]
    del B
    gc.collect()
    ask(rows)
    assert numbers() == set()


def test_pieces_of_every_kind_are_forgotten():
    rows, numbers = recorded_rows()
    held = [
        rows.make(np.copy, rows.X),
        rows.at_candidates(rows.Y, equal_shares, rows.Y),
        rows.spread([np.ones(2), np.ones(3)]),
        rows.scratch(np.copy, rows.X),
        rows.copy(rows.X),
    ]
    rows.flush()
    assert numbers() == {held[place].number for place in (0, 1, 2, 4)}
    held.clear()
    gc.collect()
    ask(rows)
    assert numbers() == set()


def test_what_is_never_needed_does_not_stay():
    """It was made and dropped before anybody asked."""
    rows, numbers = recorded_rows()
    for _ in range(5):
        rows.make(np.copy, rows.X)
        rows.copy(rows.make(np.copy, rows.X))
    gc.collect()
    ask(rows)
    ask(rows)
    assert numbers() == set()


def test_many_rounds_leave_nothing_behind():
    rows, numbers = recorded_rows()
    A = rows.make(np.ones_like, rows.X)
    for _ in range(20):
        A = rows.make(np.add, A, rows.scratch(np.zeros_like, A))
        assert rows.sum(np.sum, A) == 10
        assert len(numbers()) <= 3
    gc.collect()
    ask(rows)
    assert numbers() == {A.number}


def needed_by_make(rows, A):
    return rows.make(np.copy, A)


def needed_in_a_list(rows, A):
    return rows.make(np.column_stack, [A, (A)])


def needed_by_do(rows, A):
    B = rows.make(np.zeros_like, rows.X)
    rows.do(np.add, B, A, B)
    return B


def needed_by_copy(rows, A):
    return rows.copy(A)


def needed_by_scratch(rows, A):
    return rows.scratch(np.copy, A)


def needed_by_scratch_of_scratch(rows, A):
    return rows.scratch(np.copy, rows.scratch(np.copy, A))


def needed_raw(rows, A):
    return rows.make(np.copy, raw(A))


def needed_raw_in_a_list(rows, A):
    return rows.make(np.column_stack, [raw(A)])


@pytest.mark.parametrize(
    "need",
    [
        needed_by_make,
        needed_in_a_list,
        needed_by_do,
        needed_by_copy,
        needed_by_scratch,
        needed_by_scratch_of_scratch,
        needed_raw,
        needed_raw_in_a_list,
    ],
)
def test_pieces_stay_while_a_step_that_was_put_off_needs_them(need):
    rows, _ = recorded_rows()
    A = rows.make(np.ones_like, rows.X)
    rows.flush()
    B = need(rows, A)
    del A
    gc.collect()
    for _ in range(2):
        assert rows.gather(np.max, B) == [1.0, 1.0]


def test_candidates_stay_while_a_step_that_was_put_off_needs_them():
    rows, _ = recorded_rows()
    Y = rows.copy(rows.Y)
    rows.flush()
    P = rows.at_candidates(Y, equal_shares, rows.Y)
    del Y
    gc.collect()
    assert rows.sum(np.sum, P) == pytest.approx(5)


def test_pieces_stay_while_a_thread_waits():
    rows, _ = recorded_rows()

    def work(item):
        A = rows.make(np.full_like, rows.X, float(item))
        total = rows.sum(np.sum, A)
        B = rows.make(np.copy, A)
        del A
        gc.collect()
        return total, rows.sum(np.sum, B)

    assert rows.together(work, [1, 2, 3]) == [(10, 10), (20, 20), (30, 30)]


def test_pieces_of_threads_are_forgotten():
    rows, numbers = recorded_rows()
    made = rows.together(lambda _: (rows.make(np.copy, rows.X), rows.make(list)), range(3))
    kept = [first for first, _ in made]
    del made
    gc.collect()
    ask(rows)
    gc.collect()
    ask(rows)
    assert numbers() == {each.number for each in kept}


def test_how_a_scratch_is_made_is_forgotten_with_it():
    rows = make_rows([2, 3], [1, 0])
    number = np.ones(1)
    is_kept = weakref.ref(number)
    S = rows.scratch(np.add, rows.X, number)
    del number
    ask(rows)
    gc.collect()
    assert is_kept() is not None
    del S
    gc.collect()
    ask(rows)
    gc.collect()
    assert is_kept() is None


# ---- several things at the same time ------------------------------------------------------------


def test_results_are_in_the_order_of_the_items():
    rows = make_rows([1, 1])
    items = list(range(6))
    assert rows.together(lambda item: rows.sum(np.full, 1, item)[0], items) == [
        2 * item for item in items
    ]
    assert rows.together(lambda item: -item, items) == [-item for item in items]


def test_items_may_be_few():
    rows = make_rows([1, 1])
    assert rows.together(lambda _: rows.sum(int, rows.first_row), [0]) == [1]
    assert rows.together(abs, []) == []


def test_questions_of_all_threads_are_one_batch():
    rows = make_rows([1, 1], carrier=Listening)
    (carrier,) = rows._carriers

    def work(item):
        return [rows.sum(np.full, 1, item)[0] for _ in range(4)]

    assert rows.together(work, [1, 2, 3]) == [[2] * 4, [4] * 4, [6] * 4]
    assert [len(batch.questions) for batch in carrier.batches] == [3] * 4
    # Always in the same order.
    asked = [[question.arguments[1] for question in batch.questions] for batch in carrier.batches]
    assert asked == [[1, 2, 3]] * 4


def test_threads_may_ask_different_numbers_of_questions():
    rows = make_rows([1, 1], [1, 0])

    def work(item):
        return [rows.sum(np.full, 1, item)[0] for _ in range(item)]

    found = within(20, lambda: rows.together(work, [3, 0, 5, 1]))
    assert found == [[6, 6, 6], [], [10] * 5, [2]]


def test_what_was_put_off_before_is_done_before():
    rows = make_rows([1, 1])
    log = rows.make(list)
    rows.do(list.append, log, "before")
    lengths = rows.together(lambda _: rows.sum(len, log), range(3))
    assert lengths == [2, 2, 2]
    assert rows.gather(list, log) == [["before"]] * 2


@pytest.mark.parametrize("asks", [(), (0,), (1, 2), (0, 1, 2)])
def test_what_threads_put_off_is_done_once_and_in_the_order_of_the_items(asks):
    rows = make_rows([1, 1], [1, 0])
    logs = [rows.make(list) for _ in range(3)]
    common = rows.make(list)

    def work(item):
        rows.do(list.append, logs[item], "first")
        if item in asks:
            ask(rows)
        rows.do(list.append, logs[item], "last")
        rows.do(list.append, common, item)

    rows.together(work, range(3))
    rows.do(list.append, common, "after")
    for log in logs:
        assert rows.gather(list, log) == [["first", "last"]] * 2
    assert rows.gather(list, common) == [[0, 1, 2, "after"]] * 2


def test_what_threads_make_can_be_used_afterwards():
    rows = make_rows([2, 3])

    def work(item):
        A = rows.make(np.full_like, rows.X, float(item))
        if item == 2:
            ask(rows)
        return A, rows.scratch(np.copy, A)

    for item, (A, S) in enumerate(rows.together(work, range(4))):
        assert rows.gather(np.max, A) == rows.gather(np.max, S) == [item] * 2


def test_together_does_what_one_after_the_other_does():
    rows = make_rows([3, 1, 2], [1, 0, 1])

    def work(factor):
        A = rows.make(np.multiply, rows.X, factor)
        for _ in range(3):
            total = rows.sum(np.sum, A)
            rows.do(add, A, total)
        return rows.sum(both_sums, A, A), np.concatenate(rows.gather(np.copy, A))

    factors = [1.0, 0.3, -7.0, 1e9]
    assert_same_bits(rows.together(work, factors), [work(factor) for factor in factors])


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_threads_of_kernels_are_those_of_the_caller(n_threads):
    rows = make_rows([1, 1])
    before = numba.get_num_threads()
    with threads(n_threads):
        seen = rows.together(
            lambda _: (numba.get_num_threads(), rows.gather(numba.get_num_threads)), range(3)
        )
        assert seen == [(n_threads, [n_threads] * 2)] * 3
        assert numba.get_num_threads() == n_threads
    assert numba.get_num_threads() == before


# ---- errors -------------------------------------------------------------------------------------


def failing_make(rows):
    rows.make(fail, rows.X)
    ask(rows)


def failing_at_candidates(rows):
    rows.at_candidates(rows.Y, fail, rows.Y)
    ask(rows)


def failing_do(rows):
    rows.do(fail, rows.X)
    ask(rows)


def failing_scratch(rows):
    rows.sum(np.sum, rows.scratch(fail, rows.X))


def failing_sum(rows):
    rows.sum(fail, rows.X)


def failing_gather(rows):
    rows.gather(fail, rows.X)


def failing_flush(rows):
    rows.do(fail, rows.X)
    rows.flush()


every_failure = pytest.mark.parametrize(
    "failure",
    [
        failing_make,
        failing_at_candidates,
        failing_do,
        failing_scratch,
        failing_sum,
        failing_gather,
        failing_flush,
    ],
)


@every_failure
def test_errors_reach_the_caller(failure):
    rows = make_rows([2, 2], [1, 0])
    with pytest.raises(ArithmeticError, match="the work failed"):
        failure(rows)
    # What failed is not tried again.
    assert rows.sum(len, rows.X) == 4


@every_failure
@pytest.mark.parametrize("place", [0, 2])
def test_errors_reach_the_caller_of_several_threads(failure, place):
    rows = make_rows([2, 2], [1, 0])

    def work(item):
        for _ in range(item):
            ask(rows)
        if item == place:
            failure(rows)
        return [rows.sum(len, rows.X) for _ in range(5)]

    with pytest.raises(ArithmeticError, match="the work failed"):
        within(20, lambda: rows.together(work, range(3)))
    found = within(20, lambda: rows.together(lambda _: rows.sum(len, rows.X), range(3)))
    assert found == [4, 4, 4]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("asks", [0, 1])
def test_a_thread_that_fails_by_itself_does_not_stop_the_others(place, asks):
    rows = make_rows([2, 2])
    finished = []

    def work(item):
        for _ in range(asks):
            ask(rows)
        if item == place:
            raise ArithmeticError(f"item {item} failed")
        for _ in range(3):
            assert rows.sum(len, rows.X) == 4
        finished.append(item)

    with pytest.raises(ArithmeticError, match=f"item {place} failed"):
        within(20, lambda: rows.together(work, range(3)))
    assert sorted(finished) == [item for item in range(3) if item != place]


@pytest.mark.parametrize("n_items", [2, 12])
def test_an_error_before_the_last_thread_has_begun(n_items):
    rows = make_rows([2, 2])
    before = threading.active_count()

    def work(item):
        if item == 0:
            raise ArithmeticError("the first item failed")
        return ask(rows)

    for _ in range(10):
        with pytest.raises(ArithmeticError, match="the first item failed"):
            within(20, lambda: rows.together(work, range(n_items)))
    assert threading.active_count() == before


def test_an_error_of_a_carrier_reaches_all_threads():
    rows = make_rows([2, 2], carrier=Listening)
    (carrier,) = rows._carriers
    carrier.submit = fail

    def work(item):
        with pytest.raises(ArithmeticError, match="the work failed"):
            ask(rows)
        return item

    assert within(20, lambda: rows.together(work, range(3))) == [0, 1, 2]


def test_an_error_when_a_carrier_is_waited_for():
    rows = make_rows([2, 2], [0, 1])
    rows._carriers[1].submit = lambda batch: fail
    with pytest.raises(ArithmeticError, match="the work failed"):
        ask(rows)


def test_every_carrier_begins_before_one_is_waited_for():
    rows = make_rows([1] * 4, [0, 1, 2, 1])
    events = []
    for place, carrier in enumerate(rows._carriers):

        def submit(batch, place=place, begin=carrier.submit):
            events.append(("begin", place))
            wait = begin(batch)
            return lambda: (events.append(("wait", place)), wait())[1]

        carrier.submit = submit
    ask(rows)
    assert events == [(what, place) for what in ("begin", "wait") for place in range(3)]


def test_two_sets_of_blocks_do_not_know_of_each_other():
    first, second = make_rows([2, 3]), make_rows([1], seed=1)
    A, B = first.make(np.ones_like, first.X), second.make(np.zeros_like, second.X)
    assert second.gather(np.max, B) == [0.0]
    assert first.gather(np.max, A) == [1.0, 1.0]


def test_blocks_have_no_common_pieces():
    rows = make_rows([2, 3, 2])
    A = rows.make(np.zeros_like, rows.X)
    rows.do(set_to, A, rows.first_row)
    assert [each.max() for each in rows.gather(np.copy, A)] == [0, 2, 5]
    bounds = np.cumsum([0, 2, 3, 2])
    for (start, stop), piece in zip(pairwise(bounds), rows.gather(np.copy, A), strict=True):
        assert len(piece) == stop - start


def test_pieces_may_be_any_object():
    rows = make_rows([2, 3])
    A = rows.make(SimpleNamespace)
    rows.do(setattr, A, "value", rows.first_row)
    assert rows.gather(getattr, A, "value") == [0, 2]

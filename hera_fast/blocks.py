"""Rows in blocks, in this process or elsewhere.

Work is collected until a sum is asked for, and then sent to all carriers of blocks at once. A
carrier goes through its blocks one after the other and does all of the work on a block before it
turns to the next one: what is on disk is read once for each sum, and what is needed in between
only is never stored.

The partial sums of the blocks are added up along a binary tree over the numbers of the blocks. A
carrier adds up what meets below it, the caller adds up the rest: the result has the same bits
wherever the blocks are.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from typing import Any, NamedTuple, Protocol, TypeVar

import numba
import numpy as np
from scipy import sparse

__all__ = [
    "AtCandidates",
    "Batch",
    "Block",
    "Blocks",
    "Candidates",
    "Carrier",
    "Held",
    "LocalCarrier",
    "MemoryStore",
    "Question",
    "Store",
    "TreeSum",
    "WorkerLost",
    "raw",
]

_Array = np.ndarray[Any, Any]
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Numbers of what every block has from the beginning.
_FIRST_ROW, _X, _Y, _WEIGHTS = range(4)
_FIRST_FREE = 4


class Held:
    """Something of which every block has a piece; it is forgotten there when this is."""

    def __init__(self, number: int, needs: Any = ()) -> None:
        self.number = number
        # What it is made of anew must not be forgotten before it.
        self._needs = needs


class _Piece(NamedTuple):
    """The piece that a block has; `as_stored`, without unpacking it."""

    number: int
    as_stored: bool


class _Raw(NamedTuple):
    """Asks for a piece as it is stored; keeps it from being forgotten, as what it stands for."""

    held: Held


def raw(held: Any) -> Any:
    """Ask for a piece as it is stored, packed.

    Parameters
    ----------
    held : Held
        As an argument of a function.

    Returns
    -------
    argument : object
    """
    return _Raw(held)


# ---- pieces that are stored in less space -------------------------------------------------------


class Candidates:
    """Which labels are candidates, stored as CSR and worked on as a bool matrix.

    Parameters
    ----------
    matrix : csr_array of bool, shape (n, q)
        In canonical format, without explicit zeros.

    Examples
    --------
    >>> from scipy import sparse
    >>> from hera_fast.blocks import Candidates
    >>> Candidates(sparse.csr_array([[True, False]])).unpack().tolist()
    [[True, False]]
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and labels."""
        shape: tuple[int, int] = self.matrix.shape
        return shape

    def positions(self) -> _Array:
        """Where the candidates are in the flattened matrix."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.matrix.indptr))
        positions: _Array = rows * self.shape[1] + self.matrix.indices
        return positions

    def unpack(self) -> _Array:
        """Return the bool matrix."""
        dense: _Array = self.matrix.toarray()
        return dense

    def pack(self, dense: _Array) -> None:
        """Do nothing: candidates do not change."""


class AtCandidates:
    """A matrix that is zero outside the candidates, stored as its values there.

    Parameters
    ----------
    candidates : Candidates
        Where it may differ from zero.
    dense : ndarray of shape (n, q)
        The matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from hera_fast.blocks import AtCandidates, Candidates
    >>> candidates = Candidates(sparse.csr_array([[True, False]]))
    >>> AtCandidates(candidates, np.array([[0.5, 0.0]])).values.tolist()
    [0.5]
    """

    def __init__(self, candidates: Candidates, dense: _Array) -> None:
        self.candidates = candidates
        self.values = dense.reshape(-1)[candidates.positions()]

    def unpack(self) -> _Array:
        """Return the matrix."""
        dense = np.zeros(self.candidates.shape, self.values.dtype)
        dense.reshape(-1)[self.candidates.positions()] = self.values
        return dense

    def pack(self, dense: _Array) -> None:
        """Store the values of a matrix that was changed."""
        self.values[:] = dense.reshape(-1)[self.candidates.positions()]

    def __deepcopy__(self, memo: Any) -> AtCandidates:
        """Copy the values."""
        twin = copy(self)
        twin.values = self.values.copy()
        return twin

    def matrix(self) -> Any:
        """Return the matrix as CSR, with an entry for each candidate."""
        pattern = self.candidates.matrix
        parts = (self.values.copy(), pattern.indices.copy(), pattern.indptr.copy())
        return sparse.csr_array(parts, shape=pattern.shape)


# ---- what is sent to the carriers ---------------------------------------------------------------


class _Step(NamedTuple):
    kind: str  # "make", "scratch", "copy", "do", or the number of candidates for "at"
    number: int
    work: Any
    arguments: tuple[Any, ...]
    candidates: int = -1


class Question(NamedTuple):
    """Work on every block whose result is wanted.

    Attributes
    ----------
    steps : tuple
        What to do before, in this order.
    is_sum : bool
        Whether the results of the blocks are added up.
    work, arguments : callable, tuple
        What to call.
    """

    steps: tuple[_Step, ...]
    is_sum: bool
    work: Any
    arguments: tuple[Any, ...]


class Batch(NamedTuple):
    """Questions that are answered in one go.

    Attributes
    ----------
    forgotten : tuple of int
        What nobody will ask for again.
    questions : tuple of Question
        In this order.
    """

    forgotten: tuple[int, ...]
    questions: tuple[Question, ...]


class Block(NamedTuple):
    """What a block has from the beginning.

    Attributes
    ----------
    first_row : int
        The number of its first row.
    X : ndarray, CSR matrix, or object with `unpack`
        Its rows.
    Y : Candidates
        Their candidates.
    weights : ndarray or None
        Their weights.
    """

    first_row: int
    X: Any
    Y: Any
    weights: Any


class WorkerLost(RuntimeError):
    """Somebody who had blocks has died, and what belonged to their rows is gone."""


class Carrier(Protocol):
    """Somebody who has some of the blocks."""

    @property
    def blocks(self) -> Sequence[int]:
        """The numbers of these blocks."""

    def put(self, number: int, pieces: dict[int, Any]) -> None:
        """Keep pieces of blocks."""

    def submit(self, batch: Batch) -> Callable[[], Any]:
        """Begin with a batch; return a function that waits for its result."""


class Store(Protocol):
    """Where the pieces of a block are between two batches."""

    def load(self, number: int) -> Any:
        """Return a piece; arrays in it are the stored ones, and may be written to."""

    def save(self, number: int, piece: Any) -> None:
        """Keep a piece."""

    def forget(self, number: int) -> None:
        """Drop a piece, if it is there."""


class MemoryStore:
    """Pieces in memory.

    Examples
    --------
    >>> from hera_fast.blocks import MemoryStore
    >>> store = MemoryStore()
    >>> store.save(3, "piece")
    >>> store.load(3)
    'piece'
    """

    def __init__(self) -> None:
        self._pieces: dict[int, Any] = {}

    def load(self, number: int) -> Any:
        """Return a piece."""
        return self._pieces[number]

    def save(self, number: int, piece: Any) -> None:
        """Keep a piece."""
        self._pieces[number] = piece

    def forget(self, number: int) -> None:
        """Drop a piece, if it is there."""
        self._pieces.pop(number, None)


class TreeSum:
    """Sums of what blocks contribute, in an order that depends on their numbers alone.

    Parameters
    ----------
    n_blocks : int
        How many blocks there are in all.

    Examples
    --------
    >>> from hera_fast.blocks import TreeSum
    >>> sums = [TreeSum(3), TreeSum(3)]
    >>> for block, (place, value) in enumerate([(0, 1.0), (1, 2.0), (0, 4.0)]):
    ...     sums[place].add(0, block, value)
    >>> for node in list(sums[1].nodes.items()):
    ...     sums[0].add(*node[0], node[1])
    >>> sums[0].total()
    7.0
    """

    def __init__(self, n_blocks: int) -> None:
        self.nodes: dict[tuple[int, int], Any] = {}
        self._n_blocks = n_blocks
        self._top = max(0, n_blocks - 1).bit_length()

    def add(self, level: int, place: int, value: Any) -> None:
        """Add the sum of the blocks from ``place << level`` on, ``1 << level`` of them."""
        while level < self._top:
            has_neighbor = (place ^ 1) << level < self._n_blocks
            if has_neighbor:
                other = self.nodes.pop((level, place ^ 1), None)
                if other is None:
                    break
                value = _added(other, value) if place % 2 else _added(value, other)
            level, place = level + 1, place // 2
        self.nodes[level, place] = value

    def total(self) -> Any:
        """Return the sum of all blocks."""
        return self.nodes[self._top, 0]


def _added(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(_added(*pair) for pair in zip(left, right, strict=True))
    return left + right


class LocalCarrier:
    """Goes through blocks that are in this process.

    Parameters
    ----------
    n_blocks : int
        How many blocks there are in all.
    """

    def __init__(self, n_blocks: int) -> None:
        self._n_blocks = n_blocks
        self._stores: dict[int, Store] = {}
        self._recipes: dict[int, tuple[Any, tuple[Any, ...]]] = {}

    def take(self, number: int, block: Block, store: Store) -> None:
        """Take a block, whose pieces are to be in a store."""
        for place, piece in zip((_FIRST_ROW, _X, _Y, _WEIGHTS), block, strict=True):
            store.save(place, piece)
        self._stores[number] = store

    @property
    def blocks(self) -> list[int]:
        """The numbers of the blocks."""
        return list(self._stores)

    def put(self, number: int, pieces: dict[int, Any]) -> None:
        """Keep pieces of blocks."""
        for block, piece in pieces.items():
            self._stores[block].save(number, piece)

    def stored(self, block: int, number: int) -> Any:
        """Return a piece of a block as it is stored."""
        return self._stores[block].load(number)

    def submit(self, batch: Batch) -> Callable[[], Any]:
        """Do the work at once."""
        result = self.run(batch)
        return lambda: result

    def run(self, batch: Batch) -> list[dict[Any, Any]]:
        """Do the work on all blocks; return parts of each sum, or the results of the blocks."""
        for number in batch.forgotten:
            self._recipes.pop(number, None)
        for question in batch.questions:
            for step in question.steps:
                if step.kind == "scratch":
                    self._recipes[step.number] = (step.work, step.arguments)
        sums = [TreeSum(self._n_blocks) for _ in batch.questions]
        results: list[dict[Any, Any]] = [{} for _ in batch.questions]
        for number, store in self._stores.items():
            for forgotten in batch.forgotten:
                store.forget(forgotten)
            session = _Session(store, self._recipes)
            for place, question in enumerate(batch.questions):
                for step in question.steps:
                    session.take(step)
                value = question.work(*session.pieces(question.arguments))
                if question.is_sum:
                    sums[place].add(0, number, value)
                else:
                    results[place][number] = value
            session.close()
        return [
            sums[place].nodes if question.is_sum else results[place]
            for place, question in enumerate(batch.questions)
        ]


class _Session:
    """A batch of work on one block."""

    def __init__(self, store: Store, recipes: dict[int, tuple[Any, tuple[Any, ...]]]) -> None:
        self._store, self._recipes = store, recipes
        self._pieces: dict[int, Any] = {}
        self._packed: dict[int, Any] = {}
        self._written: set[int] = set()

    def take(self, step: _Step) -> None:
        if step.kind == "scratch":
            return  # made when somebody asks for it
        if step.kind == "copy":
            self._save(step.number, deepcopy(self._stored(step.arguments[0].number)))
            return
        value = step.work(*self.pieces(step.arguments))
        if step.kind == "make":
            self._save(step.number, value)
        elif step.kind == "at":
            candidates = self._stored(step.candidates)
            self._save(step.number, AtCandidates(candidates, value))
        else:
            self._written.update(_numbers(step.arguments))

    def pieces(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._piece(argument) for argument in arguments)

    def _piece(self, argument: Any) -> Any:
        if isinstance(argument, _Piece):
            if argument.as_stored:
                return self._stored(argument.number)
            return self._ready(argument.number)
        if type(argument) in (list, tuple):
            return type(argument)(self._piece(each) for each in argument)
        return argument

    def _ready(self, number: int) -> Any:
        if number not in self._pieces:
            if number in self._recipes:
                work, arguments = self._recipes[number]
                self._pieces[number] = work(*self.pieces(arguments))
            else:
                piece = self._stored(number)
                if hasattr(piece, "unpack"):
                    piece = piece.unpack()
                self._pieces[number] = piece
        return self._pieces[number]

    def _stored(self, number: int) -> Any:
        if number not in self._packed:
            # What was changed in this batch has to be stored before it is looked at.
            self._packed[number] = self._store.load(number)
        piece = self._packed[number]
        if number in self._written and hasattr(piece, "pack") and number in self._pieces:
            piece.pack(self._pieces[number])
            self._written.discard(number)
        return piece

    def _save(self, number: int, piece: Any) -> None:
        self._store.save(number, piece)

    def close(self) -> None:
        for number in list(self._written):
            if number in self._packed:
                self._stored(number)


def _numbers(arguments: Any) -> Iterator[int]:
    for argument in arguments:
        if isinstance(argument, _Piece):
            yield argument.number
        elif type(argument) in (list, tuple):
            yield from _numbers(argument)


# ---- the caller's side --------------------------------------------------------------------------


class Blocks:
    """Rows in blocks, which carriers have.

    Parameters
    ----------
    carriers : sequence of Carrier
        Together they have all blocks.
    n_blocks : int
        How many blocks there are.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.blocks import Block, Blocks, LocalCarrier, MemoryStore
    >>> carrier = LocalCarrier(2)
    >>> for number in range(2):
    ...     carrier.take(number, Block(5 * number, np.full(5, number), None, None), MemoryStore())
    >>> rows = Blocks([carrier], 2)
    >>> sums = rows.make(np.add, rows.X, rows.first_row)
    >>> rows.sum(np.sum, sums).tolist(), [each.tolist() for each in rows.gather(np.max, sums)]
    (30, [0, 6])
    """

    is_whole = False
    first_row = _Piece(_FIRST_ROW, False)

    def __init__(self, carriers: Sequence[Carrier], n_blocks: int) -> None:
        self._carriers = carriers
        self._n_blocks = n_blocks
        self._lock = threading.Lock()
        self._next = _FIRST_FREE
        self._forgotten: list[int] = []
        self._thread = threading.local()
        self.X, self.Y = self._held(_X, ()), self._held(_Y, ())
        self.weights = self._held(_WEIGHTS, ())

    def make(self, work: Callable[..., Any], *arguments: Any) -> Held:
        """Keep what a function returns for each block."""
        return self._add("make", work, arguments)

    def at_candidates(self, Y: Held, work: Callable[..., Any], *arguments: Any) -> Held:
        """Keep a matrix that is zero outside the candidates as its values there."""
        return self._add("at", work, arguments, Y)

    def spread(self, pieces: Sequence[Any]) -> Held:
        """Give each block a piece of its own."""
        with self._lock:
            number = self._next
            self._next += 1
        for carrier in self._carriers:
            carrier.put(number, {block: pieces[block] for block in carrier.blocks})
        return self._held(number, ())

    def scratch(self, work: Callable[..., Any], *arguments: Any) -> Held:
        """Make something anew for every batch that asks for it."""
        return self._add("scratch", work, arguments)

    def copy(self, held: Held) -> Held:
        """Copy what is stored."""
        return self._add("copy", None, (held,))

    def do(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Call a function that writes into its arguments."""
        self._put(_Step("do", -1, work, _referred(arguments)), arguments)

    def sum(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Add up what a function returns for each block."""
        total = TreeSum(self._n_blocks)
        for nodes in self._ask(work, arguments, is_sum=True):
            for (level, place), value in nodes.items():
                total.add(level, place, value)
        return total.total()

    def gather(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what a function returns for each block."""
        results: dict[int, Any] = {}
        for part in self._ask(work, arguments, is_sum=False):
            results |= part
        return [results[number] for number in range(self._n_blocks)]

    def together(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Use a thread for each item; their questions wait for each other, and are one batch."""
        if not items:
            return []
        self.flush()
        party = _Party(self._answer, len(items))
        n_threads = numba.get_num_threads()
        results: dict[int, tuple[_Result, list[Any]]] = {}
        errors: dict[int, BaseException] = {}

        def take_part(place: int) -> None:
            numba.set_num_threads(n_threads)
            self._thread.party, self._thread.place = party, place
            try:
                results[place] = work(items[place]), self._pending()
            except BaseException as error:
                errors[place] = error
            finally:
                party.leave()

        # Not from a pool: none of them may wait for another one to end before it begins.
        places = range(len(items))
        threads = []
        try:
            for place in places:
                thread = threading.Thread(target=take_part, args=(place,), daemon=True)
                thread.start()
                threads.append(thread)
            for thread in threads:
                thread.join()
        except BaseException as error:
            # An interrupt: the threads end with their next question.
            party.end(error)
            for thread in threads:
                thread.join()
            raise
        if errors:
            raise errors[min(errors)]
        for place in places:
            self._pending().extend(results[place][1])
        return [results[place][0] for place in places]

    def flush(self) -> None:
        """Have everything done that was put off."""
        if self._pending():
            self.gather(_nothing)

    def _put(self, step: _Step, arguments: tuple[Any, ...]) -> None:
        """Put off a step; what it needs must not be forgotten until then."""
        self._pending().append((step, arguments))

    def _pending(self) -> list[Any]:
        """Steps that were put off. Each thread has its own: what belongs together stays so."""
        if not hasattr(self._thread, "pending"):
            self._thread.pending = []
        pending: list[Any] = self._thread.pending
        return pending

    def _add(
        self, kind: str, work: Any, arguments: tuple[Any, ...], candidates: Held | None = None
    ) -> Held:
        with self._lock:
            number = self._next
            self._next += 1
        held = self._held(number, arguments if kind == "scratch" else ())
        place = -1 if candidates is None else candidates.number
        step = _Step(kind, number, work, _referred(arguments), place)
        self._put(step, (held, arguments, candidates))
        return held

    def _held(self, number: int, needs: Any) -> Held:
        held = Held(number, needs)
        # Called wherever garbage is collected, perhaps within the lock: only appends.
        weakref.finalize(held, self._forgotten.append, number)
        return held

    def _ask(self, work: Any, arguments: tuple[Any, ...], *, is_sum: bool) -> list[Any]:
        # Kept until the question is answered: until then, what it needs is not forgotten.
        pending, self._thread.pending = self._pending(), []
        question = Question(tuple(step for step, _ in pending), is_sum, work, _referred(arguments))
        party = getattr(self._thread, "party", None)
        if party is None:
            return self._answer([question])[0]
        answer: list[Any] = party.ask(self._thread.place, question)
        return answer

    def _answer(self, questions: Sequence[Question]) -> list[list[Any]]:
        """Return for each question what each carrier says."""
        forgotten = tuple(self._forgotten.pop() for _ in range(len(self._forgotten)))
        batch = Batch(forgotten, tuple(questions))
        waiting = [carrier.submit(batch) for carrier in self._carriers]
        return list(zip(*[wait() for wait in waiting], strict=True))  # type: ignore[arg-type]


class _Party:
    """Threads whose questions are answered together, once all of them have asked or left."""

    def __init__(
        self, answer: Callable[[Sequence[Question]], list[list[Any]]], n_threads: int
    ) -> None:
        self._answer = answer
        self._n_threads = n_threads
        self._questions: dict[int, Question] = {}
        self._answers: dict[int, list[Any]] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def ask(self, place: int, question: Question) -> list[Any]:
        """Wait for the answer to the question of a thread."""
        with self._changed:
            if self._error is None:
                self._questions[place] = question
                self._answer_if_complete()
            self._changed.wait_for(lambda: place in self._answers or self._error is not None)
            if self._error is not None:
                raise self._error
            return self._answers.pop(place)

    def end(self, error: BaseException) -> None:
        """Let all threads that ask, now or later, end with an error."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def leave(self) -> None:
        """Wait for a thread no longer."""
        with self._changed:
            self._n_threads -= 1
            self._answer_if_complete()

    def _answer_if_complete(self) -> None:
        if not self._questions or len(self._questions) < self._n_threads:
            return
        # In this order, so that the same work is always done in the same order.
        places = sorted(self._questions)
        questions = [self._questions.pop(place) for place in places]
        try:
            self._answers.update(zip(places, self._answer(questions), strict=True))
        except BaseException as error:
            self._error = error
        self._changed.notify_all()


def _referred(arguments: Any) -> Any:
    """Put the numbers of pieces in place of what stands for them."""
    return tuple(_reference(argument) for argument in arguments)


def _reference(argument: Any) -> Any:
    if isinstance(argument, Held):
        return _Piece(argument.number, False)
    if isinstance(argument, _Raw):
        return _Piece(argument.held.number, True)
    if type(argument) in (list, tuple):
        return type(argument)(_reference(each) for each in argument)
    return argument


def _nothing() -> None:
    """Nothing is left to do."""

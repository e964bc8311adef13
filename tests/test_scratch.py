"""Pieces of blocks in a file without a name: they come back as they were, and leave no traces."""

from __future__ import annotations

import gc
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from strategies import seeds

from hera_fast import scratch
from hera_fast.blocks import AtCandidates, Candidates
from hera_fast.features import DenseRows
from hera_fast.models import Support
from hera_fast.scratch import DiskStore, ScratchFile, check_space

DTYPES = ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "S5", "U3", "M8[s]", ">f8"]
ORDERS = ["C", "F", "slice", "reversed", "transposed"]

Pair = namedtuple("Pair", ["first", "second"])


def array_of(dtype, shape, order="C", seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 2 if dtype == "?" else 100, shape)
    if dtype[0] == "M":
        array = numbers.astype("m8[s]") + np.datetime64("2020-01-01", "s")
    else:
        array = numbers.astype(dtype)
    return {
        "C": np.ascontiguousarray(array),
        "F": np.asfortranarray(array),
        "slice": np.repeat(array, 2, axis=-1)[..., ::2],
        "reversed": array[::-1].copy()[::-1],
        "transposed": np.ascontiguousarray(array.T).T,
    }[order]


def assert_equal(comp, ref):
    assert type(comp) is type(ref)
    if isinstance(ref, np.ndarray):
        assert comp.dtype == ref.dtype
        assert comp.shape == ref.shape
        np.testing.assert_array_equal(comp, ref)
    elif sparse.issparse(ref):
        assert comp.format == ref.format
        assert comp.shape == ref.shape
        for name in {"data", "indices", "indptr", "row", "col"} & vars(ref).keys():
            assert_equal(getattr(comp, name), getattr(ref, name))
    elif isinstance(ref, dict):
        assert list(comp) == list(ref)
        for key in ref:
            assert_equal(comp[key], ref[key])
    elif isinstance(ref, (list, tuple)):
        assert len(comp) == len(ref)
        for left, right in zip(comp, ref, strict=True):
            assert_equal(left, right)
    elif hasattr(ref, "__dict__") and not isinstance(ref, type):
        assert_equal(vars(comp), vars(ref))
    else:
        assert comp == ref


@pytest.fixture(params=["small pieces too", "large pieces"])
def store(request, monkeypatch):
    """A store that has everything on disk, or what is larger than most pieces here."""
    if request.param == "small pieces too":
        monkeypatch.setattr(scratch, "_SMALL", 1)
    return DiskStore(ScratchFile())


@pytest.fixture
def disk(monkeypatch):
    """A store that has everything on disk."""
    monkeypatch.setattr(scratch, "_SMALL", 1)
    return DiskStore(ScratchFile())


@pytest.fixture
def file_size(monkeypatch):
    """Tells the size of the last scratch file that was made."""
    files = []
    make = tempfile.TemporaryFile

    def remember(*arguments, **options):
        files.append(make(*arguments, **options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", remember)
    return lambda: os.fstat(files[-1].fileno()).st_size


# ---- pieces come back ---------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays(store, dtype, order):
    for number, shape in enumerate([(3, 5), (100, 60), (1, 1)]):
        array = array_of(dtype, shape, order, number)
        store.save(number, array)
        expected = array.copy()
        assert_equal(store.load(number), expected)
    for number, shape in enumerate([(3, 5), (100, 60), (1, 1)]):
        assert_equal(store.load(number), array_of(dtype, shape, "C", number))


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (5, 0), (1,), (2, 3, 4, 5)])
def test_arrays_of_all_shapes(store, shape):
    array = np.random.default_rng(0).random(shape) if shape else np.array(0.5)
    store.save(1, array)
    store.save(2, [array, np.arange(5000.0), array])
    assert_equal(store.load(1), array)
    assert_equal(store.load(2), [array, np.arange(5000.0), array])


def test_arrays_of_records_and_objects(store):
    records = np.zeros(3000, [("number", "f8"), ("text", "U4")])
    records["number"] = np.arange(3000)
    objects = np.array([{"a": 1}, None, "text"], dtype=object)
    store.save(1, records)
    store.save(2, [objects, np.arange(3000.0)])
    assert_equal(store.load(1), records)
    loaded, numbers = store.load(2)
    assert loaded.tolist() == objects.tolist()
    assert numbers[-1] == 2999


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_arrays_remains(store, order):
    store.save(1, array_of("f4", (200, 50), order))
    loaded = store.load(1)
    assert loaded.flags["C_CONTIGUOUS" if order == "C" else "F_CONTIGUOUS"]


@pytest.mark.parametrize("name", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_matrices(store, name, kind):
    rng = np.random.default_rng(0)
    make = getattr(sparse, f"{name}_{kind}")
    for number, shape in enumerate([(4, 3), (200, 30), (5, 2)]):
        matrix = make(rng.random(shape) * (rng.random(shape) < 0.4))
        store.save(number, matrix)
        assert type(store.load(number)) is type(matrix)
        np.testing.assert_array_equal(store.load(number).toarray(), matrix.toarray())
    empty = make((3, 4))
    store.save(9, empty)
    assert store.load(9).nnz == 0


@pytest.mark.parametrize("size", [5, 300])
def test_nested_objects(store, size):
    rng = np.random.default_rng(size)
    Y = rng.random((size, 4)) < 0.5
    candidates = Candidates(sparse.csr_array(Y))
    P = np.where(Y, rng.random(Y.shape), 0)
    X = rng.random((size, 6))
    piece = {
        "list": [X, (X.astype(np.float32), [X[:, 0].copy()])],
        "pair": Pair(np.arange(size), "text"),
        "candidates": candidates,
        "at candidates": AtCandidates(candidates, P),
        "rows": DenseRows(X, np.ones(size)),
        "namespace": SimpleNamespace(number=3, nothing=None, array=X),
    }
    store.save(1, piece)
    loaded = store.load(1)
    assert_equal(loaded, piece)
    np.testing.assert_array_equal(loaded["at candidates"].unpack(), P)


@pytest.mark.parametrize("piece", [None, 3, "text", (), {}, [None], slice(1, 2), b"bytes" * 9000])
def test_pieces_without_arrays(store, piece):
    store.save(1, piece)
    assert store.load(1) == piece


def test_arrays_that_must_not_be_written_to(store):
    array = np.arange(5000.0)
    array.flags.writeable = False
    store.save(1, array)
    np.testing.assert_array_equal(store.load(1), array)


@given(
    sizes=st.lists(st.integers(0, 30_000), min_size=1, max_size=6),
    seed=seeds,
)
@settings(max_examples=40)
def test_pieces_of_all_sizes_side_by_side(sizes, seed):
    rng = np.random.default_rng(seed)
    stores = [DiskStore(ScratchFile())] * 2 + [DiskStore(ScratchFile())]
    pieces = {}
    for number, size in enumerate(sizes):
        piece = [rng.integers(0, 256, part).astype(np.uint8) for part in (size, size // 3, 7)]
        place = int(rng.integers(3))
        stores[place].save(number, piece)
        pieces[place, number] = [part.copy() for part in piece]
    for (place, number), piece in pieces.items():
        assert_equal(stores[place].load(number), piece)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i8"])
def test_loaded_arrays_are_what_kernels_want(disk, dtype):
    """Aligned, and where vector instructions are fast."""
    for number, size in enumerate([1, 3, 17, 1001]):
        disk.save(number, [np.ones(1, "u1"), array_of(dtype, (size, 3)), np.ones(3, "u1")])
        _, array, _ = disk.load(number)
        assert array.flags.aligned
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.ctypes.data % 64 == 0


# ---- what is written into them ------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [20, 200])
def test_writes_persist(store, order, size):
    array = array_of("f8", (size, 30), order)
    expected = array.copy()
    store.save(1, array)
    for row in (0, size // 2, size - 1):
        store.load(1)[row] += row + 1
        expected[row] += row + 1
    assert_equal(store.load(1), expected)
    loaded = store.load(1)
    loaded *= 2
    # Others that look at the same time see the same.
    assert_equal(store.load(1), 2 * expected)


@pytest.mark.parametrize("order", ORDERS)
def test_writes_persist_in_nested_objects(store, order):
    large, small = np.zeros(4000), array_of("f8", (6, 6), order)
    expected = small.copy()
    store.save(1, {"large": large, "pair": Pair(small, [small.copy(order="K")])})
    store.load(1)["large"][7] = 1
    store.load(1)["pair"].first[2, 3] += 5
    store.load(1)["pair"].second[0][3, 2] += 7
    loaded = store.load(1)
    assert loaded["large"][7] == 1
    assert loaded["pair"].first[2, 3] == expected[2, 3] + 5
    assert loaded["pair"].second[0][3, 2] == expected[3, 2] + 7


def test_writes_persist_in_sparse_matrices(store):
    matrix = sparse.csr_array(np.eye(3000))
    store.save(1, matrix)
    store.load(1).data[5] = 7
    assert store.load(1)[5, 5] == 7
    Y = np.ones((300, 20), bool)
    store.save(2, AtCandidates(Candidates(sparse.csr_array(Y)), np.zeros(Y.shape)))
    store.load(2).pack(np.arange(6000.0).reshape(Y.shape))
    np.testing.assert_array_equal(store.load(2).unpack().ravel(), np.arange(6000))


def test_one_array_in_two_places_remains_one(store):
    array = np.zeros(5000)
    store.save(1, [array, array])
    first, second = store.load(1)
    first[3] = 4
    assert second[3] == 4
    # As in models that keep a matrix and its values.
    Y = np.eye(3000, 40, dtype=bool)
    store.save(2, Support(Y, np.dtype(float)))
    P = np.where(Y, 0.5, 0)
    taken = store.load(2).take(P)
    np.testing.assert_array_equal(taken[0:3000].toarray(), P)


def test_what_was_saved_is_not_touched(disk):
    array = np.zeros(5000)
    disk.save(1, array)
    disk.load(1)[:] = 1
    assert not array.any()


def test_saving_again_replaces(store):
    for size in (6000, 5, 3000, 7000, 1):
        store.save(1, np.full(size, float(size)))
        np.testing.assert_array_equal(store.load(1), np.full(size, size))


def test_what_is_loaded_stays_after_it_is_forgotten(disk):
    """Until its place is given to others."""
    disk.save(1, np.arange(5000.0))
    loaded = disk.load(1)
    disk.forget(1)
    gc.collect()
    np.testing.assert_array_equal(loaded, np.arange(5000))


def test_forgetting(store):
    store.forget(5)
    for size in (3, 5000):
        store.save(1, np.zeros(size))
        store.forget(1)
        with pytest.raises(KeyError):
            store.load(1)
        store.forget(1)


# ---- space --------------------------------------------------------------------------------------


def test_small_pieces_take_no_space(file_size):
    store = DiskStore(ScratchFile())
    for number in range(100):
        store.save(number, np.zeros(100))
    assert file_size() == 0
    store.save(100, np.zeros(10_000))
    assert 80_000 <= file_size() < 90_000


@pytest.mark.parametrize("forgets", [True, False], ids=["forgotten", "replaced"])
def test_space_is_used_again(file_size, forgets):
    file = ScratchFile()
    stores = [DiskStore(file) for _ in range(3)]
    sizes = [3000, 40_000, 5000, 3000]
    after_first = None
    for round_number in range(30):
        for store in stores:
            for number, size in enumerate(sizes):
                store.save(number, np.full(size, round_number))
            for number, size in enumerate(sizes):
                assert store.load(number)[size - 1] == round_number
                if forgets:
                    store.forget(number)
        after_first = after_first or file_size()
        assert file_size() == after_first
    page = mmap.ALLOCATIONGRANULARITY
    once = sum(-(-8 * size // page) * page for size in sizes)
    assert after_first == (once if forgets else 3 * once)


def test_a_place_is_given_to_one_piece_only():
    file = ScratchFile()
    stores = [DiskStore(file), DiskStore(file)]
    rng = np.random.default_rng(0)
    kept = {}
    for _ in range(400):
        place, number = int(rng.integers(2)), int(rng.integers(6))
        if (place, number) in kept and rng.random() < 0.5:
            stores[place].forget(number)
            del kept[place, number]
        else:
            piece = rng.random(int(rng.choice([2048, 2500, 5000])))
            stores[place].save(number, piece)
            kept[place, number] = piece.copy()
        for (where, which), expected in kept.items():
            np.testing.assert_array_equal(stores[where].load(which), expected)


def test_nothing_is_in_the_folder(tmp_path):
    store = DiskStore(ScratchFile(str(tmp_path)))
    store.save(1, np.ones(100_000))
    assert not list(tmp_path.iterdir())
    assert store.load(1).sum() == 100_000
    del store
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_the_folder_is_the_one_for_temporary_files(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError):
        ScratchFile(str(tmp_path / "nowhere"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError):
        ScratchFile()


def test_a_file_that_nobody_holds_is_closed(monkeypatch):
    files = []
    make = tempfile.TemporaryFile
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **options: files.append(make(**options)) or files[-1]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = DiskStore(ScratchFile())
        store.save(1, np.zeros(10_000))
        loaded = store.load(1)
        del store
        gc.collect()
    assert files[0].closed
    loaded[3] = 4
    assert loaded.sum() == 4


KILLED = """
import sys
import numpy as np
from hera_fast.scratch import DiskStore, ScratchFile
store = DiskStore(ScratchFile())
store.save(1, np.ones(1 << 18))
loaded = store.load(1)
loaded[0] = 2
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_nothing_remains_of_a_process_that_is_killed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "ready\n"
        descriptors = Path(f"/proc/{process.pid}/fd")
        if descriptors.exists():
            # It is there, but without a name.
            files = [os.readlink(each) for each in descriptors.iterdir()]
            assert any(name.startswith(str(tmp_path)) for name in files)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())


# ---- threads ------------------------------------------------------------------------------------


def test_threads():
    file = ScratchFile()
    begin = threading.Barrier(8)

    def work(seed):
        rng = np.random.default_rng(seed)
        store = DiskStore(file)
        begin.wait()
        expected = {}
        for _ in range(60):
            number = int(rng.integers(5))
            if number in expected:
                store.load(number)[::7] += 1
                expected[number][::7] += 1
                assert np.array_equal(store.load(number), expected[number])
            if rng.random() < 0.3:
                store.forget(number)
                expected.pop(number, None)
            else:
                expected[number] = rng.random(int(rng.integers(2048, 9000)))
                store.save(number, expected[number])
        for number, piece in expected.items():
            assert np.array_equal(store.load(number), piece)
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


# ---- enough space -------------------------------------------------------------------------------


def test_too_little_space(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usage = shutil.disk_usage(tmp_path)._replace(free=1_230_000_000)
    seen = []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: seen.append(folder) or usage)
    check_space(1_230_000_000)
    with pytest.raises(OSError, match="TMPDIR") as caught:
        check_space(4_560_000_000)
    message = str(caught.value)
    assert "needs about 4.6 GB" in message
    assert f"{tmp_path} has 1.2 GB left" in message
    for advice in ("more space", "n_components", "float32"):
        assert advice in message
    assert seen == [str(tmp_path)] * 2

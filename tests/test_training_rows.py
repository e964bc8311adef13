"""Fits to rows in blocks: what a fit to all rows at once gives, from memory and from files."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import warnings
from functools import cache

import numba
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import clusters
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from hera_fast import HERAClassifier, blocks, hera, mixture
from hera_fast.kernels import _launch
from hera_fast.products import BLOCK_ROWS
from hera_fast.training_rows import FileRows, block_bounds

# The last of four blocks has a single row.
N, D, Q = 331, 7, 9
SIZE = 110

SETTINGS = {
    "mixture": {"n_components": 40},
    "mixture, mu": {"n_components": 40, "mu": 0.3},
    "mixture, low rank": {"n_components": 40, "nu": 0.1},
    "mixture, reduced": {"n_components": 5, "ranking": True},
    "gaussian": {"calibration": "gaussian"},
    "gaussian, rbf": {"calibration": "gaussian", "kernel": "rbf", "n_components": 40},
    "gaussian, low rank": {"calibration": "gaussian", "nu": 0.1, "mu": 0.2},
    "least squares": {"calibration": None, "ranking": True},
    "least squares, low rank": {"calibration": None, "ranking": True, "nu": 0.1, "max_iter": 40},
    "least squares, no intercept": {"calibration": None, "fit_intercept": False},
    "paper": {"formulation": "paper", "max_iter": 30, "nu": 0.1, "ranking": True},
    "paper, printed": HERAClassifier.paper(
        max_iter=30, prediction="linear", penalty_growth=1.5
    ).get_params(),
}
FEW = ("mixture", "gaussian, rbf", "least squares, low rank", "paper")
every_setting = pytest.mark.parametrize("name", SETTINGS)
few_settings = pytest.mark.parametrize("name", FEW)
every_setting_and_few_of_sparse_rows = pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "dense") for name in SETTINGS), *((name, "sparse") for name in FEW)],
)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
dense_and_sparse = pytest.mark.parametrize("kind", ["dense", "sparse"])

_X, Y, TRUTH = clusters(N, D, Q, seed=3)
# Rows that occur twice, also in different blocks; and features that vary little.
_X[200:210], _X[5] = _X[:10], _X[4]
_X[:, 3] = np.round(_X[:, 3])
QUERIES = clusters(50, D, Q, seed=4)[0]
WEIGHTS = np.random.default_rng(0).random(N) * 3
WEIGHTS[::7] = 0
# All of the second block.
WEIGHTS[SIZE : 2 * SIZE] = 0


def rows_of(kind, dtype=np.float64):
    X = _X.astype(dtype)
    return sparse.csr_array(X * (np.abs(X) > 1)) if kind == "sparse" else X


def fitted(X, y, name="gaussian", sample_weight=None, **changes):
    model = HERAClassifier(**{**SETTINGS[name], "random_state": 0, **changes})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight)


@cache
def whole(name, kind, dtype=np.float64, weighted=False):
    return fitted(rows_of(kind, dtype), Y, name, WEIGHTS if weighted else None)


def dense(array):
    return array.toarray() if sparse.issparse(array) else array


def bits(model):
    """All that a fit found."""
    found = {
        name: dense(getattr(model, name))
        for name in ("confidence_", "noise_", "coef_", "intercept_", "transduction_", "classes_")
    }
    found |= {name: each for name, each in model.history_.items() if name != "seconds"}
    return found | {"scores": model.decision_function(dense(QUERIES))}


def assert_same_bits(model, other):
    comp, ref = bits(model), bits(other)
    for name in ref:
        np.testing.assert_array_equal(comp[name], ref[name], err_msg=name)
        assert comp[name].dtype == ref[name].dtype


def on_disk(folder, array, **options):
    """The array in a file, mapped into memory."""
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    options = {"mode": "w+", "shape": array.shape, "dtype": array.dtype, **options}
    mapped = np.memmap(path, **options)
    mapped[...] = array
    mapped.flush()
    return mapped


@pytest.fixture
def zarr():
    return pytest.importorskip("zarr", reason="zarr is not installed")


# ---- the same as a fit to all rows at once ------------------------------------------------------


def assert_close(model, ref, dtype, is_paper):
    atol = 1e-9 if dtype == np.float64 else 1e-4
    assert model.confidence_.dtype == ref.confidence_.dtype == dtype
    np.testing.assert_allclose(
        model.confidence_.toarray(), ref.confidence_, rtol=0, atol=atol, err_msg="confidence_"
    )
    # Of the noise, what is at the candidates.
    noise = ref.noise_ if is_paper else np.where(Y, ref.noise_, 0)
    np.testing.assert_allclose(
        model.noise_.toarray(), noise, rtol=0, atol=10 * atol, err_msg="noise_"
    )
    for name in ("coef_", "intercept_"):
        comp, expected = getattr(model, name), getattr(ref, name)
        assert comp.dtype == expected.dtype
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.isfinite(comp), finite)
        size = np.abs(expected[finite]).max()
        np.testing.assert_allclose(
            comp[finite], expected[finite], rtol=0, atol=1e2 * atol * size, err_msg=name
        )
    assert model.n_iter_ == ref.n_iter_
    for name, expected in ref.history_.items():
        if name == "seconds":
            continue
        comp = model.history_[name]
        assert comp.dtype == expected.dtype
        size = max(1, np.abs(expected[np.isfinite(expected)]).max(initial=0))
        np.testing.assert_allclose(comp, expected, rtol=0, atol=10 * atol * size, err_msg=name)
    np.testing.assert_array_equal(model.transduction_, ref.transduction_)
    np.testing.assert_array_equal(model.predict(QUERIES), ref.predict(QUERIES))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, np.float64) for name in SETTINGS), *((name, np.float32) for name in FEW)],
)
@pytest.mark.parametrize(
    ("kind", "weighted"), [("dense", False), ("dense", True), ("sparse", True)]
)
def test_blocks_give_what_the_whole_gives(name, kind, dtype, weighted):
    ref, X = whole(name, kind, dtype, weighted), rows_of(kind, dtype)
    model = fitted(X, Y, name, WEIGHTS if weighted else None, block_rows=SIZE)
    assert_close(model, ref, dtype, name.startswith("paper"))


@few_settings
@pytest.mark.parametrize(("kind", "size"), [("dense", 1), ("dense", 13), ("sparse", 3)])
def test_blocks_of_any_size(name, kind, size):
    X = rows_of(kind)[: 17 * size]
    ref = fitted(X, Y[: 17 * size], name)
    model = fitted(X, Y[: 17 * size], name, block_rows=size)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(model.predict(QUERIES), ref.predict(QUERIES))


@every_setting
@pytest.mark.parametrize(("kind", "size"), [("dense", N), ("dense", "auto"), ("sparse", 10 * N)])
def test_one_block_gives_the_bits_of_the_whole(name, kind, size):
    model, ref = fitted(rows_of(kind), Y, name, block_rows=size), whole(name, kind)
    comp, expected = bits(model), bits(ref)
    if not name.startswith("paper"):
        expected["noise_"] = np.where(Y, expected["noise_"], 0)
    for each in expected:
        np.testing.assert_array_equal(comp[each], expected[each], err_msg=each)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_mixtures_too_large_for_one_place(weighted, monkeypatch):
    """The masses of the candidates stay in their blocks."""
    monkeypatch.setattr(mixture, "_FEW", 0)
    weights = WEIGHTS if weighted else None
    model = fitted(rows_of("dense"), Y, "mixture", weights, block_rows=SIZE)
    assert_close(model, whole("mixture", "dense", np.float64, weighted), np.float64, False)


@every_setting_and_few_of_sparse_rows
def test_results_are_sparse(name, kind):
    model = fitted(rows_of(kind), Y, name, block_rows=SIZE)
    for array in (model.confidence_, model.noise_):
        assert isinstance(array, sparse.csr_array)
        assert array.shape == (N, Q)
        assert array.has_canonical_format
        if not name.startswith("paper"):
            # An entry for each candidate, zeros too.
            np.testing.assert_array_equal(array.indptr, np.append(0, np.cumsum(Y.sum(axis=1))))
            np.testing.assert_array_equal(array.indices, np.nonzero(Y)[1])
        assert array.data.min() >= 0
    assert Y[np.arange(N), model.transduction_].all()
    confidence = model.confidence_.toarray()
    best = np.where(Y, confidence, -1).argmax(axis=1)
    np.testing.assert_array_equal(model.transduction_, model.classes_[best])
    if not name.startswith("paper"):
        np.testing.assert_allclose(confidence.sum(axis=1), 1)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@few_settings
@dense_and_sparse
def test_threads_change_no_bit(name, kind, monkeypatch):
    # So that even little work is divided.
    monkeypatch.setattr(_launch, "_OPERATIONS_PER_RANGE", 16)
    monkeypatch.setattr("hera_fast.products.BLOCK_ROWS", 16)
    X = rows_of(kind)
    one, two = (fitted(X, Y, name, WEIGHTS, block_rows=SIZE, n_threads=n) for n in (1, 2))
    assert_same_bits(two, one)


# ---- where rows and candidates are --------------------------------------------------------------


@cache
def from_memory(name, dtype):
    return fitted(rows_of("dense", dtype), Y, name, WEIGHTS, block_rows=SIZE)


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, np.float64) for name in SETTINGS), ("mixture", np.float32)]
)
def test_memory_maps(name, dtype, tmp_path):
    X = on_disk(tmp_path, rows_of("dense", dtype))
    model = fitted(X, Y, name, WEIGHTS, block_rows=SIZE)
    assert_same_bits(model, from_memory(name, dtype))


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, np.float64) for name in FEW), ("mixture", np.float32)]
)
def test_zarr_arrays(name, dtype, zarr):
    X = zarr.array(rows_of("dense", dtype), chunks=(64, 3))
    model = fitted(X, Y, name, WEIGHTS, block_rows=SIZE)
    assert_same_bits(model, from_memory(name, dtype))


def test_zarr_arrays_are_in_blocks_anyway(zarr):
    X, rows = zarr.array(rows_of("dense"), chunks=(64, 3)), rows_of("dense")
    model = fitted(X, Y)
    assert_same_bits(model, fitted(X, Y, block_rows="auto"))
    assert_same_bits(model, fitted(rows, Y, block_rows="auto"))


def test_memory_maps_are_in_blocks_if_wanted(tmp_path):
    model = fitted(on_disk(tmp_path, rows_of("dense")), Y)
    assert isinstance(model.confidence_, np.ndarray)
    assert_same_bits(model, whole("gaussian", "dense"))


@pytest.mark.parametrize("dtype", ["i2", "u1", "f2", ">f8", "<f4", ">f4", "?", "i8"])
@pytest.mark.parametrize("place", ["memory map", "zarr"])
def test_dtypes_of_files(dtype, place, tmp_path, request):
    X = np.abs(rows_of("dense") * 3).astype(dtype)
    if place == "zarr":
        source = request.getfixturevalue("zarr").array(X, chunks=(50, 7))
    else:
        source = on_disk(tmp_path, X)
    model = fitted(source, Y, block_rows=SIZE)
    assert model.coef_.dtype == (np.float32 if dtype == "<f4" else np.float64)
    assert_same_bits(model, fitted(X.astype(model.coef_.dtype), Y, block_rows=SIZE))


def part_of_a_map(folder):
    X = np.zeros((N + 20, D + 2))
    X[15:-5, 1:-1] = rows_of("dense")
    return on_disk(folder, X)[15:-5, 1:-1]


def rows_of_a_map(folder):
    X = np.zeros((N + 20, D))
    X[15:-5] = rows_of("dense")
    return on_disk(folder, X)[15:-5]


def every_second_row(folder):
    return on_disk(folder, np.repeat(rows_of("dense"), 2, axis=0))[::2]


def rows_from_the_end(folder):
    return on_disk(folder, rows_of("dense")[::-1])[::-1]


def columns_first(folder):
    return on_disk(folder, rows_of("dense"), order="F")


def behind_a_header(folder):
    return on_disk(folder, rows_of("dense"), offset=24)


def reshaped(folder):
    return on_disk(folder, rows_of("dense").ravel()).reshape(N, D)


def seen_as_other_numbers(folder):
    return on_disk(folder, rows_of("dense").view(np.int64)).view(np.float64)


def saved_by_numpy(folder):
    np.save(folder / "rows.npy", rows_of("dense"))
    return np.load(folder / "rows.npy", mmap_mode="r")


def saved_by_numpy_columns_first(folder):
    np.save(folder / "rows.npy", np.asfortranarray(rows_of("dense")))
    return np.load(folder / "rows.npy", mmap_mode="r")


def copied_to_memory(folder):
    return on_disk(folder, rows_of("dense")).copy()


def changed_in_memory(folder):
    """What is written to such a map does not go to the file."""
    mapped = on_disk(folder, rows_of("dense") + 1)
    mapped = np.memmap(mapped.filename, mapped.dtype, "c", shape=mapped.shape)
    mapped[...] = rows_of("dense")
    return mapped


def not_yet_written(folder):
    mapped = on_disk(folder, np.zeros((N, D)))
    mapped[...] = rows_of("dense")
    return mapped


@pytest.mark.parametrize(
    "make",
    [
        part_of_a_map,
        rows_of_a_map,
        every_second_row,
        rows_from_the_end,
        columns_first,
        behind_a_header,
        reshaped,
        seen_as_other_numbers,
        saved_by_numpy,
        saved_by_numpy_columns_first,
        copied_to_memory,
        changed_in_memory,
        not_yet_written,
    ],
)
def test_memory_maps_of_all_kinds(make, tmp_path):
    X = make(tmp_path)
    assert isinstance(X, np.memmap)
    np.testing.assert_array_equal(X, rows_of("dense"))
    rows = FileRows(X, 7, 40, np.dtype(np.float32)).unpack()
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, rows_of("dense", np.float32)[7:40])
    model = fitted(X, Y, block_rows=SIZE)
    assert_same_bits(model, fitted(rows_of("dense"), Y, block_rows=SIZE))


@pytest.mark.skipif(os.name != "posix", reason="removes a file that is open")
def test_the_file_of_a_map_may_be_gone(tmp_path):
    """As that of a map into a temporary file is; the map itself works without its name."""
    X = on_disk(tmp_path, rows_of("dense"))
    os.unlink(X.filename)
    model = fitted(X, Y, block_rows=SIZE)
    assert_same_bits(model, fitted(rows_of("dense"), Y, block_rows=SIZE))


@pytest.mark.skipif(os.name != "posix", reason="replaces a file that is open")
def test_the_file_of_a_map_may_be_another_one_by_now(tmp_path):
    X = on_disk(tmp_path, rows_of("dense"))
    (tmp_path / "other").write_bytes(bytes(X.nbytes))
    os.replace(tmp_path / "other", X.filename)
    model = fitted(X, Y, block_rows=SIZE)
    assert_same_bits(model, fitted(rows_of("dense"), Y, block_rows=SIZE))


class Lazy:
    """Rows that are read on demand, which are never to be read all at once."""

    chunks = (10, 10)

    def __init__(self, array, most):
        self.shape = array.shape
        self._array, self._most = array, most
        self.n_reads = 0

    @property
    def dtype(self):
        return self._array.dtype

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        part = self._array[rows]
        assert 0 < len(part) <= self._most
        self.n_reads += 1
        return part

    def _refuse(self, *arguments, **options):
        raise AssertionError("nobody is to read everything")

    __array__ = __reduce_ex__ = __deepcopy__ = _refuse


def test_no_copies_of_whole_maps(tmp_path, monkeypatch):
    """Not even for the blink of an eye, as there may be too little memory for it."""

    def refuse(self, *arguments):
        raise AssertionError("nobody is to copy everything")

    X, labels = on_disk(tmp_path, rows_of("dense")), on_disk(tmp_path, Y)
    monkeypatch.setattr(np.memmap, "__reduce_ex__", refuse, raising=False)
    monkeypatch.setattr(np.memmap, "__deepcopy__", refuse, raising=False)
    model = fitted(X, labels, "mixture", WEIGHTS, block_rows=SIZE)
    assert_same_bits(model, from_memory("mixture", np.float64))


@few_settings
def test_files_are_read_block_by_block(name):
    X, labels = Lazy(rows_of("dense"), SIZE), Lazy(Y, SIZE)
    model = fitted(X, labels, name, WEIGHTS, block_rows=SIZE)
    assert_same_bits(model, from_memory(name, np.float64))
    assert X.n_reads >= 4
    # Candidates are kept.
    assert labels.n_reads == 4


@dense_and_sparse
def test_rows_of_all_containers(kind):
    X = rows_of(kind)
    ref = fitted(X, Y, block_rows=SIZE)
    if kind == "sparse":
        others = [sparse.csr_matrix(X), sparse.csc_array(X), sparse.coo_array(X)]
    else:
        others = [
            X.tolist(),
            np.asfortranarray(X),
            pd.DataFrame(X),
            np.repeat(X, 2, axis=1)[:, ::2],
        ]
    for other in others:
        assert_same_bits(fitted(other, Y, block_rows=SIZE), ref)


def test_sparse_rows_with_entries_in_disorder():
    X = rows_of("sparse")
    parts = [X.indices.copy(), X.data.copy()]
    for start, stop in zip(X.indptr, X.indptr[1:], strict=False):
        for part in parts:
            part[start:stop] = part[start:stop][::-1]
    mixed = sparse.csr_array((parts[1], parts[0], X.indptr), shape=X.shape)
    for name in ("gaussian", "mixture"):
        ref = fitted(X, Y, name, block_rows=SIZE)
        model = fitted(mixed, Y, name, block_rows=SIZE)
        np.testing.assert_allclose(
            model.confidence_.toarray(), ref.confidence_.toarray(), rtol=0, atol=1e-9
        )


def as_memory_map(labels, folder, zarr):
    return on_disk(folder, labels.astype(np.uint8))


def as_memory_map_of_bools(labels, folder, zarr):
    return on_disk(folder, labels)


def as_memory_map_of_floats(labels, folder, zarr):
    return on_disk(folder, labels.astype(np.float32), order="F")


def as_zarr(labels, folder, zarr):
    return zarr.array(labels, chunks=(64, 4))


def as_zarr_of_numbers(labels, folder, zarr):
    return zarr.array(labels.astype("i4"), chunks=(64, 4))


def as_csr(labels, folder, zarr):
    return sparse.csr_matrix(labels.astype(float))


def as_csc(labels, folder, zarr):
    return sparse.csc_array(labels)


def as_sets(labels, folder, zarr):
    return [set(np.flatnonzero(row).tolist()) for row in labels]


def as_lists(labels, folder, zarr):
    return [np.flatnonzero(row)[::-1].tolist() for row in labels]


def as_frame(labels, folder, zarr):
    return pd.DataFrame(labels.astype(int), columns=range(Q))


@pytest.mark.parametrize("place", ["memory", "memory map", "zarr"])
@pytest.mark.parametrize(
    "form",
    [
        as_memory_map,
        as_memory_map_of_bools,
        as_memory_map_of_floats,
        as_zarr,
        as_zarr_of_numbers,
        as_csr,
        as_csc,
        as_sets,
        as_lists,
        as_frame,
    ],
)
def test_candidates_in_all_forms(form, place, tmp_path, zarr):
    X = rows_of("dense")
    if place == "memory map":
        X = on_disk(tmp_path, X)
    elif place == "zarr":
        X = zarr.array(X, chunks=(64, 3))
    model = fitted(X, form(Y, tmp_path, zarr), "gaussian", WEIGHTS, block_rows=SIZE)
    np.testing.assert_array_equal(model.classes_, np.arange(Q))
    assert_same_bits(model, from_memory("gaussian", np.float64))


@pytest.mark.parametrize("name", ["gaussian", "mixture", "paper"])
def test_labels_by_name(name):
    names = np.array(list("abcdefghi"))
    sets = [set(names[row].tolist()) for row in Y]
    model = fitted(rows_of("dense"), sets, name, block_rows=SIZE)
    assert model.classes_.tolist() == list("abcdefghi")
    ref = fitted(rows_of("dense"), sets, name)
    assert model.transduction_.tolist() == ref.transduction_.tolist()
    assert model.predict(QUERIES).tolist() == ref.predict(QUERIES).tolist()
    framed = pd.DataFrame(Y, columns=names)
    assert_same_bits(fitted(rows_of("dense"), framed, name, block_rows=SIZE), model)


@pytest.mark.parametrize("kind", ["array", "list", "memory map", "zarr", "column in a map"])
def test_one_label_for_each_row(kind, tmp_path, request):
    labels = TRUTH.astype(np.int64) + 5
    given = {
        "array": lambda: labels,
        "list": labels.tolist,
        "memory map": lambda: on_disk(tmp_path, labels),
        "zarr": lambda: request.getfixturevalue("zarr").array(labels, chunks=(50,)),
        "column in a map": lambda: on_disk(tmp_path, labels[:, np.newaxis]),
    }[kind]()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A column-vector y was passed")
        model = fitted(rows_of("dense"), given, block_rows=SIZE)
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    assert_same_bits(model, fitted(rows_of("dense"), np.asarray(labels), block_rows=SIZE))


# ---- what belongs to a fitted classifier --------------------------------------------------------


@pytest.mark.parametrize(("prediction", "name"), [("neighbors", "gaussian"), ("hybrid", "paper")])
@pytest.mark.parametrize(
    "kind", ["dense", "sparse", "memory map", "memory map of integers", "zarr"]
)
def test_neighbours(prediction, name, kind, tmp_path, request):
    X = np.round(rows_of("sparse" if kind == "sparse" else "dense") * 10)
    given = {
        "memory map": lambda: on_disk(tmp_path, X),
        "memory map of integers": lambda: on_disk(tmp_path, X.astype("i2")),
        "zarr": lambda: request.getfixturevalue("zarr").array(X, chunks=(64, 3)),
    }.get(kind, lambda: X)()
    queries = np.round(QUERIES * 10)
    ref = fitted(X, Y, name, WEIGHTS, prediction=prediction)
    model = fitted(given, Y, name, WEIGHTS, prediction=prediction, block_rows=SIZE)
    expected = ref.decision_function(queries)
    np.testing.assert_allclose(model.decision_function(queries), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.predict(queries), ref.predict(queries))


@pytest.mark.parametrize("prediction", ["linear", "hybrid"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "memory map", "zarr"])
def test_saving(prediction, kind, tmp_path, request):
    X = rows_of("sparse" if kind == "sparse" else "dense")
    if kind == "memory map":
        X = on_disk(tmp_path, X)
    elif kind == "zarr":
        X = request.getfixturevalue("zarr").array(X, chunks=(64, 3))
    model = fitted(X, Y, "gaussian", WEIGHTS, block_rows=SIZE, prediction=prediction)
    model.save(tmp_path / "model")
    restored = HERAClassifier.load(tmp_path / "model")
    assert_same_bits(restored, model)
    assert restored.block_rows == SIZE
    np.testing.assert_array_equal(restored.predict_proba(QUERIES), model.predict_proba(QUERIES))


def test_states_without_arrays():
    """Those of blocks are not in one place."""
    states = []
    fitted(rows_of("dense"), Y, "mixture", block_rows=SIZE, callback=states.append)
    assert {state.confidence for state in states} == {None}
    assert {state.noise for state in states} == {None}
    assert states[-1].coef.shape[0] == Q
    assert [state.iteration for state in states] == list(range(1, len(states) + 1))


@few_settings
def test_callbacks_end_a_fit(name):
    changes = {"callback": lambda state: state.iteration == 3}
    model = fitted(rows_of("dense"), Y, name, block_rows=SIZE, **changes)
    ref = fitted(rows_of("dense"), Y, name, **changes)
    assert model.n_iter_ == ref.n_iter_ == 3
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)


@few_settings
def test_interrupts_end_a_fit(name):
    def interrupt(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    model = HERAClassifier(
        **{**SETTINGS[name], "random_state": 0, "block_rows": SIZE, "callback": interrupt}
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The confidences collapsed")
        with pytest.warns(ConvergenceWarning, match="interrupted after 3 of"):
            model.fit(rows_of("dense"), Y)
    assert model.n_iter_ == 3
    stopped = fitted(
        rows_of("dense"), Y, name, block_rows=SIZE, callback=lambda state: state.iteration == 3
    )
    assert_same_bits(model, stopped)


@few_settings
def test_interrupts_within_the_work_on_a_block(name, monkeypatch):
    """Some blocks are an iteration ahead then; the rows of each are as they should be."""
    rows, labels = rows_of("dense")[:90], Y[:90]
    pieces, n_calls, last = blocks._Session.pieces, 0, 10**9

    def interrupt(session, arguments):
        nonlocal n_calls
        n_calls += 1
        if n_calls == last:
            raise KeyboardInterrupt
        return pieces(session, arguments)

    monkeypatch.setattr(blocks._Session, "pieces", interrupt)
    fitted(rows, labels, name, block_rows=40)
    n_fits = 0
    for number in np.linspace(1, n_calls, 12).astype(int).tolist():
        n_calls, last = 0, number
        try:
            model = fitted(rows, labels, name, block_rows=40)
        except KeyboardInterrupt:
            continue  # before the first iteration, or after the last one
        n_fits += 1
        confidence = model.confidence_.toarray()
        assert np.isfinite(confidence).all()
        assert np.isfinite(model.decision_function(QUERIES)).all()
        assert labels[np.arange(90), model.transduction_].all()
        if name != "paper":
            np.testing.assert_allclose(confidence.sum(axis=1), 1)
            assert not confidence[~labels].any()
    assert n_fits > 6


@pytest.mark.parametrize("first", [None, SIZE])
def test_fitting_again(first):
    """With and without blocks, in any order."""
    second = SIZE if first is None else None
    model = HERAClassifier(calibration="gaussian", random_state=0, block_rows=first)
    X = rows_of("dense")
    model.fit(X[:200], Y[:200], sample_weight=WEIGHTS[:200])
    model.set_params(block_rows=second).fit(X, Y)
    assert_same_bits(model, fitted(X, Y, block_rows=second))
    assert sparse.issparse(model.confidence_) == (second is not None)


def test_names_of_features(tmp_path):
    X = rows_of("dense")
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    model = fitted(frame, Y, block_rows=SIZE)
    assert model.feature_names_in_.tolist() == list("abcdefg")
    assert model.n_features_in_ == D
    model.predict(frame)
    model.fit(on_disk(tmp_path, X), Y)
    assert not hasattr(model, "feature_names_in_")
    model.predict(X)


def test_the_function_takes_blocks():
    X = rows_of("dense")
    W, P, E, history = hera(X, Y, block_rows=SIZE)
    expected = hera(X, Y)
    np.testing.assert_allclose(W, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(P.toarray(), expected[1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(E.toarray(), expected[2], rtol=0, atol=1e-9)
    assert history.keys() == expected[3].keys()


def test_nothing_remains_in_the_folder_for_temporary_files(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    seen = []
    X = on_disk(tmp_path, rows_of("dense"))
    model = fitted(
        X, Y, "mixture", block_rows=SIZE, callback=lambda _: seen.extend(folder.iterdir())
    )
    assert not seen
    del model
    gc.collect()
    assert not list(folder.iterdir())


def test_too_little_space_on_disk(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    X = on_disk(tmp_path, rows_of("dense"))
    with pytest.raises(OSError, match=r"on disk, but .* has 0\.0 GB left"):
        fitted(X, Y, "mixture", block_rows=SIZE)
    # In memory nothing is needed there.
    fitted(rows_of("dense"), Y, "gaussian", block_rows=SIZE)


# ---- awkward data -------------------------------------------------------------------------------


@few_settings
@dense_and_sparse
@pytest.mark.parametrize("scale", [0.0, 1e-7], ids=["0.1", "nearly 0.1"])
def test_constant_features(name, kind, scale):
    X = rows_of("dense").copy()
    X[:, 2], X[:, 5] = 0.1, 0.1 + scale * np.arange(N)
    X = sparse.csr_array(X) if kind == "sparse" else X
    ref = fitted(X, Y, name, WEIGHTS)
    model = fitted(X, Y, name, WEIGHTS, block_rows=SIZE)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)


@few_settings
@dense_and_sparse
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_nothing_but_constant_features(name, kind, value):
    X = np.full((N, 3), value)
    X = sparse.csr_array(X) if kind == "sparse" else X
    ref, model = fitted(X, Y, name), fitted(X, Y, name, block_rows=SIZE)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)
    X = dense(X)
    np.testing.assert_allclose(
        model.decision_function(X), ref.decision_function(X), rtol=0, atol=1e-8
    )


@every_setting
def test_features_that_are_constant_among_rows_that_count(name):
    """Which in the first block are none."""
    X, weights = rows_of("dense").copy(), np.ones(N)
    weights[: SIZE + 5] = 0
    X[SIZE + 5 :, 1] = 0.3
    ref = fitted(X, Y, name, weights)
    model = fitted(X, Y, name, weights, block_rows=SIZE)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)


@every_setting_and_few_of_sparse_rows
def test_more_labels_than_rows(name, kind):
    rng = np.random.default_rng(0)
    labels = rng.random((14, 23)) < 0.2
    labels[np.arange(14), rng.integers(0, 20, 14)] = True
    labels[:, 21] = False
    X = rows_of(kind)[:14]
    ref, model = fitted(X, labels, name), fitted(X, labels, name, block_rows=5)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)
    # Some labels have the same scores.
    expected = ref.decision_function(QUERIES)
    np.testing.assert_allclose(model.decision_function(QUERIES), expected, rtol=0, atol=1e-8)


@every_setting
def test_one_row(name):
    model = fitted(rows_of("dense")[:1], Y[:1], name, block_rows=1)
    ref = fitted(rows_of("dense")[:1], Y[:1], name)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)


@every_setting
def test_rows_with_one_candidate_and_with_all(name):
    labels = np.ones((60, 3), bool)
    labels[20:40, 1:] = False
    X = rows_of("dense")[:60]
    ref, model = fitted(X, labels, name), fitted(X, labels, name, block_rows=20)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-9)


@few_settings
@pytest.mark.parametrize("scale", [1e-30, 1e60])
def test_features_of_any_scale(name, scale):
    X = scale * rows_of("dense")
    ref, model = fitted(X, Y, name), fitted(X, Y, name, block_rows=SIZE)
    np.testing.assert_allclose(dense(model.confidence_), ref.confidence_, rtol=0, atol=1e-7)


# ---- errors -------------------------------------------------------------------------------------

ROW, COLUMN = 257, 3

every_place = pytest.mark.parametrize("place", ["memory", "sparse", "memory map", "zarr", "lazy"])


def put(X, place, folder, request):
    if place == "memory map":
        return on_disk(folder, X)
    if place == "zarr":
        return request.getfixturevalue("zarr").array(X, chunks=(64, 3))
    if place == "lazy":
        return Lazy(X, 100)
    return sparse.csr_array(X) if place == "sparse" else X


@every_place
@both_dtypes
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(place, dtype, value, tmp_path, request):
    X = rows_of("dense", dtype).copy()
    X[ROW, COLUMN] = X[ROW + 40, COLUMN + 1] = value
    with pytest.raises(ValueError, match=f"row {ROW}, column {COLUMN}"):
        fitted(put(X, place, tmp_path, request), Y, block_rows=100)


@every_place
@both_dtypes
def test_rows_that_are_too_large(place, dtype, tmp_path, request):
    X = rows_of("dense", dtype).copy()
    X[ROW, COLUMN] = -1e300 if dtype == np.float64 else -1e20
    message = rf"value -1e\+\d+ in row {ROW}, column {COLUMN}"
    with pytest.raises(ValueError, match=message):
        fitted(put(X, place, tmp_path, request), Y, block_rows=100)


@every_place
@both_dtypes
def test_rows_that_are_too_small(place, dtype, tmp_path, request):
    tiny = 1e-200 if dtype == np.float64 else 1e-30
    X = np.full((N, D), tiny, dtype)
    with pytest.raises(ValueError, match="largest absolute value of X is 1e-"):
        fitted(put(X, place, tmp_path, request), Y, block_rows=100)
    # One row in one of the blocks makes the difference.
    X[ROW] = rows_of("dense", dtype)[ROW]
    fitted(put(X, place, tmp_path, request), Y, block_rows=100)


@pytest.mark.parametrize("form", [as_memory_map, as_zarr, as_csr, as_csc, as_frame, as_sets])
@pytest.mark.parametrize("rows", ["memory", "zarr"])
def test_rows_without_candidates(form, rows, tmp_path, zarr, request):
    labels = Y.copy()
    labels[ROW] = labels[ROW + 2] = False
    X = put(rows_of("dense"), rows, tmp_path, request)
    with pytest.raises(ValueError, match="have no candidates") as caught:
        fitted(X, form(labels, tmp_path, zarr), block_rows=100)
    message = str(caught.value)
    # Of what is read block by block, the number within the block, and where it begins.
    assert f"row {ROW}, {ROW + 2}" in message or (
        "row 57, 59." in message and "counted from row 200" in message
    )


@pytest.mark.parametrize("form", [as_memory_map, as_zarr_of_numbers, as_csr, as_frame])
def test_candidates_that_are_no_candidates(form, tmp_path, zarr):
    labels = Y.astype(int)
    labels[ROW, COLUMN] = 2
    with pytest.raises(ValueError, match=r"got 2(\.0)? in row") as caught:
        fitted(rows_of("dense"), form(labels, tmp_path, zarr), block_rows=100)
    message = str(caught.value)
    assert f"row {ROW}, column {COLUMN}" in message or (
        f"row 57, column {COLUMN}" in message and "counted from row 200" in message
    )


@pytest.mark.parametrize("form", [as_memory_map, as_zarr, as_csr, as_frame, as_sets])
@pytest.mark.parametrize("n_rows", [N - 1, N + 1, SIZE])
def test_another_number_of_rows_of_candidates(form, n_rows, tmp_path, zarr):
    labels = np.vstack([Y, Y])[:n_rows]
    message = f"found {n_rows} rows of candidates for {N} rows of X"
    for X in (rows_of("dense"), zarr.array(rows_of("dense"))):
        with pytest.raises(ValueError, match=message):
            fitted(X, form(labels, tmp_path, zarr), block_rows=SIZE)


@pytest.mark.parametrize("place", ["memory", "memory map", "zarr"])
def test_weights_that_make_no_sense(place, tmp_path, request):
    X = put(rows_of("dense"), place, tmp_path, request)
    for weights, message in [
        (np.ones(N - 1), "sample_weight"),
        (np.full(N, -1.0), "[Nn]egative"),
        (np.full(N, np.nan), "NaN"),
        (np.zeros(N), "zero"),
        (np.ones((N, 2)), "1D"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted(X, Y, "gaussian", weights, block_rows=SIZE)


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        *((place, shape) for place in ("memory", "zarr") for shape in [(N,), (N, 0), (0, 3)]),
        *((place, (N, 2, 2)) for place in ("memory", "memory map", "zarr")),
        ("memory map", (N,)),
    ],
)
def test_rows_of_another_shape(place, shape, tmp_path, request):
    X = np.zeros(shape)
    if place == "zarr":
        X = request.getfixturevalue("zarr").array(X)
    elif place == "memory map":
        X = on_disk(tmp_path, X)
    with pytest.raises(ValueError, match=r"X must|dim|shape|[Ff]ound array"):
        fitted(X, Y, block_rows=SIZE)


@pytest.mark.parametrize(
    ("place", "dtype"),
    [
        *((place, "complex128") for place in ("memory", "sparse", "memory map", "zarr", "lazy")),
        *((place, dtype) for place in ("memory", "memory map", "lazy") for dtype in ("U4", "S4")),
    ],
)
def test_rows_that_are_no_numbers(place, dtype, tmp_path, request):
    X = np.full((N, D), "text").astype(dtype) if dtype[0] in "US" else np.ones((N, D), dtype)
    X = put(X, place, tmp_path, request)
    with pytest.raises((TypeError, ValueError), match=r"real numbers|Complex|numeric|convert"):
        fitted(X, Y, block_rows=SIZE)


def test_lazy_rows_that_are_no_numbers():
    for dtype in ("complex64", "U3", "O", "M8[s]"):
        with pytest.raises(TypeError, match="X must hold real numbers, got"):
            fitted(Lazy(np.zeros((N, D), dtype), SIZE), Y, block_rows=SIZE)


@pytest.mark.parametrize("place", ["memory", "zarr"])
def test_warm_starts_are_refused(place, tmp_path, request):
    X = put(rows_of("dense"), place, tmp_path, request)
    model = HERAClassifier(calibration="gaussian", warm_start=True, block_rows=SIZE)
    with pytest.raises(ValueError, match=r"warm_start=True .* blocks\. Set warm_start=False"):
        model.fit(X, Y)
    model.set_params(block_rows=None).fit(rows_of("dense"), Y)
    with pytest.raises(ValueError, match=r"warm_start=True .* blocks\. Set warm_start=False"):
        model.set_params(block_rows=SIZE).fit(X, Y)


def test_a_warm_start_from_blocks_begins_anew():
    """Nothing is kept of them."""
    X = rows_of("dense")
    model = fitted(X, Y, block_rows=SIZE).set_params(block_rows=None, warm_start=True)
    assert_same_bits(model.fit(X, Y), whole("gaussian", "dense"))


@pytest.mark.parametrize("value", [0, -1, 2.5, 100.0, "all", "100", [100], np.nan])
def test_numbers_of_rows_that_make_no_sense(value):
    with pytest.raises(InvalidParameterError, match="'block_rows' parameter of HERAClassifier"):
        HERAClassifier(block_rows=value).fit(rows_of("dense"), Y)


@pytest.mark.parametrize("value", [1, SIZE, np.int64(SIZE), np.uint8(SIZE), "auto", None])
def test_numbers_of_rows_that_make_sense(value):
    model = clone(HERAClassifier(block_rows=value, calibration="gaussian"))
    assert model.block_rows is value or model.block_rows == value
    model.fit(rows_of("dense"), Y)
    assert sparse.issparse(model.confidence_) == (value is not None)


# ---- where blocks begin -------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=6),
    width=st.integers(1, 10**7),
    itemsize=st.sampled_from([4, 8]),
    most=st.one_of(st.none(), st.integers(1, 6000)),
)
def test_bounds_of_blocks(sizes, width, itemsize, most):
    bounds = np.append(0, np.cumsum(sizes))
    found = block_bounds(bounds, width, itemsize, most)
    assert found[0] == 0
    assert found[-1] == bounds[-1]
    lengths = np.diff(found)
    assert lengths.min() > 0
    assert set(bounds.tolist()) <= set(found.tolist())
    if most is None:
        # In whole parts of what products are made of, and not too small for them.
        most = lengths.max() if lengths.max() % BLOCK_ROWS else int(lengths.max())
        starts = found[:-1] - bounds[np.searchsorted(bounds, found[:-1], "right") - 1]
        assert not (starts % BLOCK_ROWS).any()
        assert (lengths.max() - BLOCK_ROWS) * width * itemsize <= 1 << 26
    else:
        assert lengths.max() <= most
        # No more blocks than necessary.
        assert len(lengths) == sum(-(-size // most) for size in sizes)


def test_blocks_of_no_given_size_take_little_memory():
    assert np.diff(block_bounds(np.array([0, 10**7]), 1000, 8, None)).max() == 8 * BLOCK_ROWS
    assert np.diff(block_bounds(np.array([0, 10**7]), 1000, 4, None)).max() == 16 * BLOCK_ROWS
    assert np.diff(block_bounds(np.array([0, 10**6]), 10**8, 8, None)).max() == BLOCK_ROWS
    assert len(block_bounds(np.array([0, 10**6]), 1, 8, None)) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_files(dtype):
    dtype = np.dtype(dtype)
    X = np.arange(12).reshape(4, 3)
    for source in (X, X.astype(np.float32), np.asfortranarray(X), X[:, ::-1][:, ::-1]):
        rows = FileRows(source, 1, 3, dtype).unpack()
        assert rows.dtype == dtype
        assert rows.flags.c_contiguous
        np.testing.assert_array_equal(rows, X[1:3])
    for make in (sparse.csr_array, sparse.csr_matrix):
        rows = FileRows(make(X), 1, 3, dtype).unpack()
        assert isinstance(rows, sparse.csr_array)
        assert rows.dtype == dtype
        np.testing.assert_array_equal(rows.toarray(), X[1:3])

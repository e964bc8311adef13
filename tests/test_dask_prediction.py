"""Predictions for Dask collections, and models whose training rows are on workers or in files."""

from __future__ import annotations

import copy
import io
import os
import pickle
import signal
import time
import warnings
from types import SimpleNamespace

import joblib
import numba
import numpy as np
import pytest
from clusters import cluster
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import (
    HERAClassifier,
    baselines,
    block_neighbors,
    load_model,
    make_partial_classification,
    save_model,
)
from hera_fast import classifier as classifier_module
from hera_fast.classifier import PartialLabelClassifier
from hera_fast.dask_prediction import (
    _pickled,
    dask_neighbor_scores,
    neighbor_scores_on_workers,
)
from hera_fast.lazy_arrays import in_memory
from hera_fast.neighborhood import neighbor_scores

da = pytest.importorskip("dask.array", reason="the extra dask is not installed")
dask = pytest.importorskip("dask", reason="the extra dask is not installed")

# Sockets and threads of Dask that end later than a test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

N, M, D, Q = 240, 150, 5, 4
X, Y, TRUTH = make_partial_classification(N + M, D, Q, n_candidates=2.0, random_state=0)
Y = np.asarray(Y.toarray(), bool)
X, QUERIES, Y, NEW_Y, TRUTH, NEW_TRUTH = X[:N], X[N:], Y[:N], Y[N:], TRUTH[:N], TRUTH[N:]
NAMES = np.array(["ash", "birch", "cedar", "oak"])
SETS = [set(NAMES[row]) for row in Y]
NEW_SETS = [set(NAMES[row]) for row in NEW_Y]
WEIGHTS = np.arange(N) % 4 * 0.7
THIN = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
KINDS = ("predict", "decision_function", "predict_proba")


@pytest.fixture(scope="module")
def client():
    with cluster(2) as client:
        yield client


def fitted(rows, labels, weights=None, **changes):
    settings = {"calibration": "gaussian", "n_neighbors": 7, "random_state": 0}
    return HERAClassifier(**{**settings, **changes}).fit(rows, labels, sample_weight=weights)


def in_chunks(array, size=40):
    """A Dask array, of sparse chunks if the array is sparse."""
    if not sparse.issparse(array):
        return da.from_array(array, chunks=(size, -1)[: np.ndim(array)])
    meta = sparse.csr_array((0, 0), dtype=array.dtype)
    parts = [array[start : start + size] for start in range(0, array.shape[0], size)]
    return da.concatenate(
        [
            da.from_delayed(dask.delayed(part), part.shape, dtype=part.dtype, meta=meta)
            for part in parts
        ]
    )


def expected_neighbors(model, queries, points=X):
    """The scores of the neighbours, from whole arrays."""
    dtype = model.coef_.dtype
    confidence = in_memory(model.confidence_)
    confidence = confidence.toarray() if sparse.issparse(confidence) else confidence
    if sparse.issparse(points):
        queries = sparse.csr_array(queries)
    scores = np.empty((queries.shape[0], confidence.shape[1]), dtype)
    neighbor_scores(
        queries.astype(dtype),
        points.astype(dtype),
        np.ascontiguousarray(confidence, dtype),
        scores,
        n_neighbors=model.n_neighbors,
        neighbor_rank=model.neighbor_rank,
        multiplicity=model._multiplicity,
    )
    return scores


# ---- rows in a Dask collection, a model in memory -----------------------------------------------


@pytest.fixture(scope="module")
def local():
    return fitted(X, SETS, calibration="mixture", n_components=40)


@pytest.mark.parametrize("kind", KINDS)
def test_lazy_predictions_are_those_in_memory(client, local, kind):
    lazy = getattr(local, kind)(in_chunks(QUERIES))
    expected = getattr(local, kind)(QUERIES)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks[0] == (40, 40, 40, 30)
    assert (lazy.dtype, lazy.shape) == (expected.dtype, expected.shape)
    assert lazy._meta.dtype == expected.dtype
    found = lazy.compute()
    assert found.dtype == expected.dtype
    if kind == "predict":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    # One chunk alone, and something that goes on with the predictions.
    np.testing.assert_array_equal(lazy.blocks[3].compute(), found[120:])
    np.testing.assert_array_equal((lazy[::7] == lazy[::7]).all().compute(), True)


def test_predictions_without_a_client(local):
    for kind in KINDS:
        with dask.config.set(scheduler="threads"):
            found = getattr(local, kind)(in_chunks(QUERIES)).compute()
        expected = getattr(local, kind)(QUERIES)
        np.testing.assert_array_equal(found[:5], expected[:5])


METHODS = [getattr(baselines, name) for name in baselines.__all__]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_other_methods(client, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # A label that is nobody's candidate needs care of its own.
        model = method().fit(X, np.hstack([Y, np.zeros((N, 1), bool)]))
    for kind in KINDS:
        if hasattr(model, kind):
            found = getattr(model, kind)(in_chunks(QUERIES)).compute()
            np.testing.assert_allclose(found, getattr(model, kind)(QUERIES), rtol=1e-9, atol=1e-12)
    assert model.score(in_chunks(QUERIES), NEW_TRUTH) == model.score(QUERIES, NEW_TRUTH)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_of_every_kind(client, is_sparse, dtype):
    rows = (10 * (THIN if is_sparse else X)).astype(dtype)
    model = fitted(rows, Y)
    for queries in (rows[:50], rows[:50].astype(np.float64)):
        expected = model.predict_proba(queries)
        for chunks in (in_chunks(queries, 20), in_chunks(queries, 20).rechunk((20, 2))):
            found = model.predict_proba(chunks)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.compute(), expected, rtol=0, atol=1e-6)


def test_two_labels_and_one(client):
    two = fitted(X, TRUTH > 1)
    found = two.decision_function(in_chunks(QUERIES))
    assert found.shape == (M,)
    np.testing.assert_allclose(found.compute(), two.decision_function(QUERIES), atol=1e-12)
    one = fitted(X, np.zeros(N, int))
    assert set(one.predict(in_chunks(QUERIES)).compute()) == {0}


@pytest.mark.parametrize(
    "form", ["matrix", "CSR", "sets", "labels", "Dask", "Dask CSR", "Dask labels", "Dask sets"]
)
@pytest.mark.parametrize("kind", ["predict", "predict_proba"])
def test_candidates_of_every_form(client, local, form, kind):
    labels = [min(row) for row in NEW_SETS]
    objects = np.array([*NEW_SETS, None], object)[:-1]
    candidates = {
        "matrix": NEW_Y,
        "CSR": sparse.csr_array(NEW_Y),
        "sets": NEW_SETS,
        "labels": labels,
        "Dask": in_chunks(NEW_Y, 33),
        "Dask CSR": in_chunks(sparse.csr_array(NEW_Y.astype(float)), 40),
        "Dask labels": in_chunks(np.array(labels), 33),
        "Dask sets": in_chunks(objects, 33),
    }[form]
    expected = getattr(local, kind)(QUERIES, candidates=labels if "labels" in form else NEW_SETS)
    found = getattr(local, kind)(in_chunks(QUERIES), candidates=candidates).compute()
    if kind == "predict":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    if form in ("Dask", "Dask labels"):
        # Rows in memory with candidates on workers.
        np.testing.assert_array_equal(getattr(local, kind)(QUERIES, candidates), expected)


def test_rows_without_candidates_may_get_any_label(client, local):
    candidates = NEW_Y.copy()
    candidates[::3] = False
    expected = local.predict(QUERIES, candidates)
    np.testing.assert_array_equal(local.predict(in_chunks(QUERIES), candidates), expected)


@pytest.mark.parametrize("kind", ["true labels", "candidates", "weights"])
def test_score(client, local, kind):
    y = NAMES[NEW_TRUTH] if kind == "true labels" else NEW_SETS
    weights = np.arange(M) % 5 / 3 if kind == "weights" else None
    expected = local.score(QUERIES, y, weights)
    rows = in_chunks(QUERIES)
    lazy = in_chunks(y, 33) if kind == "true labels" else in_chunks(NEW_Y, 33)
    found = [local.score(rows, y, weights), local.score(rows, lazy, weights)]
    if weights is not None:
        found.append(local.score(rows, y, in_chunks(weights, 50)))
    assert {type(score) for score in found} == {float}
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_score_warns_of_labels_that_nobody_knows(client, local):
    with pytest.warns(UserWarning, match="No label in y is one of classes_") as caught:
        assert local.score(in_chunks(QUERIES), ["pine"] * M) == 0
    assert caught[0].filename == __file__


# ---- what is asked for at once, and what is sent ------------------------------------------------


class Counting:
    """Rows that know how often they were asked for."""

    shape, dtype, ndim = QUERIES.shape, QUERIES.dtype, 2
    n_read = 0

    def __getitem__(self, part):
        type(self).n_read += 1
        return QUERIES[part]


def test_nothing_is_computed_before_it_is_needed(local):
    rows = da.from_array(Counting(), chunks=(40, -1))
    Counting.n_read = 0
    with dask.config.set(scheduler="synchronous"):
        lazy = [getattr(local, kind)(rows) for kind in KINDS]
        lazy.append(local.predict(rows, candidates=in_chunks(NEW_Y)))
        assert Counting.n_read == 0
        lazy[0][:40].compute()
        assert Counting.n_read == 1


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (in_chunks(QUERIES[:, 1:]), ValueError, "X has 4 features, but HERAClassifier is expect"),
        (in_chunks(QUERIES[:, 0]), ValueError, "X must have 2 dimensions, got 1"),
        (in_chunks(QUERIES.astype(complex)), TypeError, "X must hold real numbers, got complex"),
        (in_chunks(QUERIES)[:0], ValueError, "X must have rows and columns"),
        (dask.delayed(QUERIES), TypeError, "X must be a Dask array or data frame, got Delayed"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_rows_are_refused_at_once(local, kind, rows, error, message):
    with pytest.raises(error, match=message):
        getattr(local, kind)(rows)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (NEW_Y[1:], "found 149 rows of candidates for 150 rows of X"),
        (in_chunks(NEW_Y[1:]), "found 149 rows of candidates for 150 rows of X"),
        (NEW_Y[:, 1:], "found 3 columns of candidates, expected 4"),
        (in_chunks(NEW_Y[:, 1:]), "found 3 columns of candidates, expected 4"),
        ([{"pine"}] * M, "row 0 has the label 'pine', which is none of the 4 classes"),
    ],
)
def test_wrong_candidates_are_refused_at_once(local, candidates, message):
    with pytest.raises(ValueError, match=message):
        local.predict(in_chunks(QUERIES), candidates=candidates)


def test_a_model_that_is_not_fitted():
    for kind in KINDS:
        with pytest.raises(NotFittedError):
            getattr(HERAClassifier(), kind)(in_chunks(QUERIES))


def test_errors_of_chunks_say_where(client, local):
    rows = QUERIES.copy()
    rows[85, 2] = np.nan
    lazy = local.predict(in_chunks(rows))
    np.testing.assert_array_equal(lazy[:80].compute(), local.predict(QUERIES[:80]))
    with pytest.raises(ValueError, match=r"Input X contains NaN.* in row 85, column 2;"):
        lazy.compute()
    rows[85, 2] = 1e200
    with pytest.raises(ValueError, match=r"X has the value 1e.200 in row 85, column 2"):
        local.predict(in_chunks(rows)).compute()
    unknown = unknown_sizes(in_chunks(rows))
    with pytest.raises(ValueError, match=r"in row 5, .*counted from the first one of chunk 2 here"):
        local.predict(unknown).compute()
    candidates = in_chunks(np.where(np.arange(M)[:, np.newaxis] == 85, 7, NEW_Y))
    message = r"got 7 in row 5, .* the first one of chunk 2 here, which is row 80"
    with pytest.raises(ValueError, match=message):
        local.predict(in_chunks(QUERIES), candidates=candidates).compute()


def unknown_sizes(rows):
    """The same rows after a selection, whose result has chunks of sizes that nobody knows."""
    return rows[da.ones(rows.shape[0], chunks=rows.chunks[0]) > 0]


def test_sizes_that_nobody_knows(client, local):
    rows, expected = unknown_sizes(in_chunks(QUERIES)), local.predict(QUERIES)
    lazy = local.predict(rows)
    assert np.isnan(lazy.chunks[0]).all()
    np.testing.assert_array_equal(lazy.compute(), expected)
    found = local.predict(rows, candidates=unknown_sizes(in_chunks(NEW_Y)))
    np.testing.assert_array_equal(found.compute(), local.predict(QUERIES, NEW_Y))
    with pytest.raises(ValueError, match=r"call X\.compute_chunk_sizes"):
        local.predict(rows, candidates=NEW_Y)
    with pytest.raises(ValueError, match="the candidates have 2 chunks and X has 4"):
        local.predict(rows, candidates=in_chunks(NEW_Y, 75))
    for y in (NAMES[NEW_TRUTH], in_chunks(NAMES[NEW_TRUTH])):
        assert local.score(rows, y) == local.score(QUERIES, NAMES[NEW_TRUTH])
    # Which score has found out for itself.
    assert np.isnan(rows.chunks[0]).all()


def test_chunks_without_rows(client, local):
    rows = da.concatenate([in_chunks(QUERIES[:40]), in_chunks(QUERIES[:40])[:0], in_chunks(X[:3])])
    expected = local.predict(np.vstack([QUERIES[:40], X[:3]]))
    np.testing.assert_array_equal(local.predict(rows).compute(), expected)
    empty = in_chunks(X[:80])
    empty = empty[empty[:, 0] > np.inf]
    for kind in KINDS:
        assert len(getattr(local, kind)(empty).compute()) == 0
    candidates = in_chunks(Y[:80])
    candidates = candidates[in_chunks(X[:80])[:, 0] > np.inf]
    assert len(local.predict(empty, candidates).compute()) == 0


def test_the_model_is_sent_once_and_without_training_data(client, local):
    for model in (local, fitted(X, SETS, prediction="hybrid", neighbor_weight=0.0)):
        state = model._scoring_state()
        assert not {"confidence_", "noise_", "transduction_", "history_"} & state.keys()
        assert all(state[name] is None for name in ("_fit_X", "_multiplicity", "_solution"))
    model = clone(local).fit(X, SETS)
    # Like a thousand components; Dask would warn of a graph with it.
    model.ballast_ = np.random.default_rng(0).random(3_000_000)
    lazy = model.predict_proba(in_chunks(QUERIES, 1))
    assert len(pickle.dumps(lazy.dask)) < 500_000
    lazy.compute()
    keys = {key for key in client.futures if str(key).startswith("sent-")}
    again = model.predict(in_chunks(QUERIES))
    assert {key for key in client.futures if str(key).startswith("sent-")} == keys
    again.compute()


class Threads(PartialLabelClassifier):
    """The score of a label is the number of threads."""

    def __init__(self, n_threads=None):
        self.n_threads = n_threads

    def fit(self, X, y):
        self._dtype = self._validated(X, reset=True).dtype
        self.classes_ = np.arange(3)
        return self

    def _scores(self, X):
        return np.full((X.shape[0], 3), numba.get_num_threads(), float)


@pytest.mark.parametrize("n_threads", [None, numba.config.NUMBA_NUM_THREADS])
def test_a_task_uses_one_thread_unless_more_are_wanted(n_threads):
    before = numba.get_num_threads()
    with dask.config.set(scheduler="synchronous"):
        found = Threads(n_threads).fit(X, Y).decision_function(in_chunks(QUERIES)).compute()
    assert (found == (n_threads or 1)).all()
    assert numba.get_num_threads() == before


def test_predictions_survive_a_worker(local):
    with cluster(2) as client:
        lazy = local.predict(in_chunks(QUERIES))
        expected = lazy.compute()
        pids = client.run(os.getpid)
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while set(client.run(os.getpid, on_error="ignore").values()) & set(pids.values()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        np.testing.assert_array_equal(lazy.compute(), expected)


# ---- data frames --------------------------------------------------------------------------------


@pytest.fixture
def frames():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    reason = "the data frames of Dask are not installed"
    frame = pytest.importorskip("dask.dataframe", reason=reason, exc_type=ImportError)
    columns = [f"f{column}" for column in range(D)]
    table = pandas.DataFrame(QUERIES, columns=columns)
    return SimpleNamespace(
        model=fitted(pandas.DataFrame(X, columns=columns), SETS),
        table=table,
        pandas=pandas,
        lazily=lambda table: frame.from_pandas(table, npartitions=3, sort=False),
    )


def test_data_frames(client, frames):
    rows = frames.lazily(frames.table)
    for kind in KINDS:
        lazy = getattr(frames.model, kind)(rows)
        assert len(lazy.chunks[0]) == 3
        expected = getattr(frames.model, kind)(frames.table)
        np.testing.assert_array_equal(lazy.compute()[:5], expected[:5])
    expected = frames.model.predict(frames.table, NEW_SETS)
    candidates = frames.pandas.DataFrame(NEW_Y[:, ::-1], columns=NAMES[::-1])
    found = frames.model.predict(rows, candidates=frames.lazily(candidates))
    np.testing.assert_array_equal(found.compute(), expected)
    y = frames.pandas.Series(NAMES[NEW_TRUTH])
    expected = frames.model.score(frames.table, y)
    for labels in (y, frames.lazily(y), frames.lazily(y.to_frame())):
        assert frames.model.score(rows, labels) == expected


def test_columns_that_may_miss_numbers(client, frames):
    table = frames.table.astype("Float64")
    expected = frames.model.predict(frames.table)
    np.testing.assert_array_equal(frames.model.predict(frames.lazily(table)), expected)
    table.iloc[130, 1] = None
    with pytest.raises(ValueError, match=r"NaN.* in row 30, column 1 \('f1'\).*chunk 2 here"):
        frames.model.predict(frames.lazily(table)).compute()


def test_wrong_columns_are_refused_at_once(frames):
    with pytest.raises(ValueError, match="feature names should match those that were passed"):
        frames.model.predict(frames.lazily(frames.table[["f1", "f0", "f2", "f3", "f4"]]))
    with pytest.raises(ValueError, match="X must have 2 dimensions"):
        frames.model.predict(frames.lazily(frames.table["f1"]))
    candidates = frames.pandas.DataFrame(NEW_Y, columns=[*NAMES[:3], "pine"])
    with pytest.raises(ValueError, match="no column 'oak', which is one of the classes"):
        frames.model.predict(frames.lazily(frames.table), frames.lazily(candidates))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        frames.model.predict(in_chunks(QUERIES))


# ---- neighbours among training rows on workers --------------------------------------------------

TRAINING = {
    "dense": (X, None, {}),
    "sparse": (THIN, None, {}),
    "single precision": (X.astype(np.float32), None, {}),
    "sparse, single precision": (THIN.astype(np.float32), None, {}),
    "weights": (X, WEIGHTS, {}),
    "ties": (np.round(X), WEIGHTS, {"neighbor_rank": 3}),
    "all rows": (X[:30], None, {"n_neighbors": 50}),
}


@pytest.mark.parametrize(("rows", "weights", "changes"), TRAINING.values(), ids=TRAINING)
def test_neighbors_on_workers(client, rows, weights, changes):
    n = rows.shape[0]
    changes = {"prediction": "neighbors", **changes}
    model = fitted(in_chunks(rows, 70), in_chunks(Y[:n], 60), weights, **changes)
    queries = np.vstack([QUERIES, rows.toarray()[:9] if sparse.issparse(rows) else rows[:9]])
    queries = queries.astype(rows.dtype)
    expected = expected_neighbors(model, queries, rows)
    for new in (
        queries,
        sparse.csr_matrix(queries),
        in_chunks(queries),
        in_chunks(sparse.csr_array(queries)),
        unknown_sizes(in_chunks(queries)),
    ):
        found = model.decision_function(new)
        np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(
        model.predict(in_chunks(queries), candidates=Y[: len(queries)]),
        model.predict(queries, candidates=Y[: len(queries)]),
    )


@pytest.mark.parametrize("formulation", ["simplex", "paper"])
def test_hybrid_predictions_with_training_rows_on_workers(client, formulation):
    changes = {"prediction": "hybrid", "formulation": formulation, "max_iter": 15}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fitted(in_chunks(X), in_chunks(Y), **changes)
    whole = pickle.loads(pickle.dumps(model))
    for kind in KINDS:
        expected = getattr(whole, kind)(QUERIES)
        np.testing.assert_array_equal(getattr(model, kind)(QUERIES), expected)
        found = getattr(model, kind)(in_chunks(QUERIES))
        assert found.chunks[0] == (40, 40, 40, 30)
        if kind == "predict":
            np.testing.assert_array_equal(found.compute(), expected)
        else:
            np.testing.assert_allclose(found.compute(), expected, rtol=0, atol=1e-12)
    assert model.score(in_chunks(QUERIES), NEW_TRUTH) == whole.score(QUERIES, NEW_TRUTH)


def test_groups_of_queries_do_not_matter(client, monkeypatch):
    model = fitted(in_chunks(X), in_chunks(Y), prediction="neighbors")
    expected = expected_neighbors(model, QUERIES)
    for most in (1, 16):
        monkeypatch.setattr(block_neighbors, "_TAKEN_NUMBERS", most * D * 7)
        lazy = model.decision_function(in_chunks(QUERIES))
        assert lazy.chunks[0] == (40, 40, 40, 30)
        np.testing.assert_array_equal(lazy.compute(), expected)


def test_lists_are_merged_along_a_tree(monkeypatch):
    monkeypatch.setattr("hera_fast.dask_prediction._FAN_IN", 3)
    confidence = np.random.default_rng(0).random((N, Q))
    expected = np.empty((M, Q))
    neighbor_scores(QUERIES, X, confidence, expected, n_neighbors=9)
    with dask.config.set(scheduler="synchronous"):
        points, weights = in_chunks(X, 7), in_chunks(confidence, 7)
        scores = neighbor_scores_on_workers(in_chunks(QUERIES), points, weights, n_neighbors=9)
        np.testing.assert_array_equal(scores.compute(), expected)
        found = dask_neighbor_scores(QUERIES, points, weights, n_neighbors=9)
        np.testing.assert_array_equal(found, expected)
    fan_in = [len(task[1]) for task in dict(scores.dask).values() if _is_merging(task)]
    assert max(fan_in) <= 3


def _is_merging(task):
    return (
        isinstance(task, tuple) and getattr(task[0], "func", None) is block_neighbors.merge_nearest
    )


def test_neighbors_need_rows_that_fit_has_kept(client):
    model = fitted(in_chunks(X), in_chunks(Y)).set_params(prediction="hybrid")
    for rows in (QUERIES, in_chunks(QUERIES)):
        with pytest.raises(ValueError, match="prediction='hybrid' needs the training rows"):
            model.predict(rows)


@pytest.mark.parametrize("prediction", ["neighbors", "hybrid"])
def test_training_rows_in_memory_and_queries_on_workers(client, prediction):
    model = fitted(X, SETS, WEIGHTS, prediction=prediction)
    lazy = model.decision_function(in_chunks(QUERIES))
    np.testing.assert_allclose(lazy, model.decision_function(QUERIES), rtol=0, atol=1e-12)
    if prediction == "neighbors":
        np.testing.assert_array_equal(lazy.compute(), expected_neighbors(model, QUERIES))


# ---- training rows in blocks of this process ----------------------------------------------------


def source(kind, folder, rows=X):
    """Return the same rows as an array that is worked on in blocks, or in a file."""
    if kind == "memory":
        return rows
    if kind == "CSR":
        return sparse.csr_array(rows)
    if kind == "memory map":
        np.save(folder / "rows.npy", rows)
        return np.load(folder / "rows.npy", mmap_mode="r")
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    options = {"shape": rows.shape, "chunks": (50, 2), "dtype": rows.dtype}
    stored = zarr.open(str(folder / "rows.zarr"), mode="w", **options)
    stored[:] = rows
    return stored


@pytest.mark.parametrize("kind", ["memory", "CSR", "memory map", "Zarr"])
@pytest.mark.parametrize("prediction", ["neighbors", "hybrid"])
def test_neighbors_among_rows_in_blocks(tmp_path, kind, prediction, monkeypatch):
    monkeypatch.setattr(block_neighbors, "_BLOCK_BYTES", 64 * D * 8)
    rows = source(kind, tmp_path)
    model = fitted(rows, Y, WEIGHTS, prediction=prediction, block_rows=100)
    assert sparse.issparse(model.confidence_)
    if prediction == "neighbors":
        expected = expected_neighbors(model, QUERIES, rows if kind == "CSR" else X)
        np.testing.assert_array_equal(model.decision_function(QUERIES), expected)
    else:
        whole = fitted(X, Y, WEIGHTS, prediction=prediction)
        np.testing.assert_allclose(
            model.predict_proba(QUERIES), whole.predict_proba(QUERIES), rtol=0, atol=1e-8
        )


@pytest.mark.parametrize("kind", ["memory", "memory map", "Zarr"])
def test_neighbors_among_rows_in_blocks_of_queries_on_workers(client, tmp_path, kind):
    model = fitted(source(kind, tmp_path), Y, prediction="neighbors", block_rows=100)
    found = model.decision_function(in_chunks(QUERIES)).compute()
    np.testing.assert_array_equal(found, expected_neighbors(model, QUERIES))


def test_a_memory_map_is_not_sent_but_opened_again(client, tmp_path):
    rows = np.random.default_rng(0).random((40_000, 5))
    labels = np.eye(2, dtype=bool)[(rows[:, 0] > 0.5).astype(int)]
    model = fitted(
        source("memory map", tmp_path, rows), labels, prediction="neighbors", block_rows=10_000
    )
    assert len(_pickled(model._fit_X)) < 1000
    assert len(_pickled(model._fit_X[10:])) > 1_000_000
    found = pickle.loads(_pickled(model._fit_X))
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(
        model.predict(da.from_array(rows[:100], chunks=(50, 5))), model.predict(rows[:100])
    )


# ---- rows to be predicted in files --------------------------------------------------------------


def test_rows_of_files_are_read_in_blocks(tmp_path, monkeypatch, local):
    monkeypatch.setattr(classifier_module, "_BLOCK_ROWS", 16)
    monkeypatch.setattr(classifier_module, "_BLOCK_NUMBERS", 1)
    rows = source("Zarr", tmp_path, QUERIES)
    reads = []

    class Spy:
        shape, chunks, dtype, ndim = rows.shape, rows.chunks, rows.dtype, 2

        def __getitem__(self, part):
            reads.append((part.start, part.stop))
            return rows[part]

    for name in KINDS:
        np.testing.assert_array_equal(getattr(local, name)(Spy()), getattr(local, name)(QUERIES))
    np.testing.assert_array_equal(local.predict(Spy(), NEW_SETS), local.predict(QUERIES, NEW_SETS))
    assert local.score(Spy(), NAMES[NEW_TRUTH]) == local.score(QUERIES, NAMES[NEW_TRUTH])
    assert len(reads) == 5 * 3
    assert max(stop - start for start, stop in reads) <= 66


def test_rows_of_files_are_checked(tmp_path, monkeypatch, local):
    monkeypatch.setattr(classifier_module, "_BLOCK_ROWS", 16)
    monkeypatch.setattr(classifier_module, "_BLOCK_NUMBERS", 1)
    rows = QUERIES.copy()
    rows[85, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN.* in row 85, column 2;"):
        local.predict(source("Zarr", tmp_path, rows))
    with pytest.raises(ValueError, match="X has 4 features, but HERAClassifier is expecting 5"):
        local.predict(source("Zarr", tmp_path, rows[:, 1:]))
    with pytest.raises(NotFittedError):
        HERAClassifier().predict(source("Zarr", tmp_path))


# ---- models in files and copies -----------------------------------------------------------------


def saved_to_file(model, path):
    model.save(path)
    return HERAClassifier.load(path)


def dumped(model, path):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {
    "save": saved_to_file,
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "joblib": dumped,
    "deepcopy": lambda model, path: copy.deepcopy(model),
    "copy": lambda model, path: copy.copy(model),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", ["Dask", "Dask CSR", "memory map", "Zarr"])
@pytest.mark.parametrize("prediction", ["linear", "hybrid"])
def test_copies_hold_everything(client, tmp_path, how, kind, prediction):
    rows = {"Dask": in_chunks(X), "Dask CSR": in_chunks(THIN)}.get(kind)
    rows = source(kind, tmp_path) if rows is None else rows
    labels = in_chunks(Y) if kind == "Dask" else SETS
    model = fitted(rows, labels, WEIGHTS, prediction=prediction, block_rows=100, nu=0.1)
    twin = COPIES[how](model, tmp_path / "model.npz")
    for name in ("confidence_", "noise_"):
        found, expected = getattr(twin, name), in_memory(getattr(model, name))
        assert type(found) is sparse.csr_array
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.toarray(), expected.toarray())
    assert type(twin.transduction_) is np.ndarray
    np.testing.assert_array_equal(twin.transduction_, in_memory(model.transduction_))
    if prediction == "linear":
        assert twin._fit_X is None
    else:
        kept = twin._fit_X
        assert type(kept) is (sparse.csr_array if kind == "Dask CSR" else np.ndarray)
        kept = kept.toarray() if kind == "Dask CSR" else kept
        np.testing.assert_array_equal(kept, THIN.toarray() if kind == "Dask CSR" else X)
    for name in KINDS:
        np.testing.assert_array_equal(getattr(twin, name)(QUERIES), getattr(model, name)(QUERIES))
    # The original is what it was.
    assert type(model.confidence_) is (da.Array if "Dask" in kind else sparse.csr_array)


def test_pipelines_with_models_on_workers(client, tmp_path):
    model = fitted(in_chunks(X), in_chunks(Y), prediction="hybrid")
    pipeline = make_pipeline(StandardScaler().fit(X), model)
    save_model(pipeline, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(QUERIES), pipeline.predict_proba(QUERIES))


def test_in_memory():
    thing = object()
    assert in_memory(thing) is thing
    np.testing.assert_array_equal(in_memory(in_chunks(X)), X)
    found = in_memory(in_chunks(THIN))
    assert type(found) is sparse.csr_array
    np.testing.assert_array_equal(found.toarray(), THIN.toarray())

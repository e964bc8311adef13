"""Fits on the workers of a real cluster: the same result for any number of them, dead ones too."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from clusters import cluster
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from hera_fast import HERAClassifier, checkpoints, make_partial_classification
from hera_fast.checkpoints import Keeper

da = pytest.importorskip("dask.array", reason="the extra dask is not installed")

# Sockets and threads of Dask that end later than a test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

N, D, Q, CHUNK = 900, 8, 6, 200
X, Y, TRUTH = make_partial_classification(N, D, Q, n_candidates=2.5, random_state=0)
Y = np.asarray(Y.toarray(), bool)
WEIGHTS = np.random.default_rng(0).random(N) * (np.arange(N) % 7 > 0)

SETTINGS = {
    "mixture": {"n_components": 60},
    "mixture with low rank": {"n_components": 60, "nu": 0.1, "ranking": True},
    "gaussian": {"calibration": "gaussian"},
    "gaussian, rbf": {"calibration": "gaussian", "kernel": "rbf", "n_components": 60},
    "least squares": {"calibration": None, "ranking": True, "nu": 0.1, "max_iter": 40},
    "paper": HERAClassifier.paper(max_iter=15, prediction="linear").get_params(),
}
every_setting = pytest.mark.parametrize("name", SETTINGS)


def fitted(rows, labels, name="mixture", weights=None, **changes):
    model = HERAClassifier(**{**SETTINGS[name], "random_state": 0, **changes})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, labels, sample_weight=weights)


def in_chunks(array, size=CHUNK):
    return da.from_array(array, chunks=(size, -1))


def bits(model):
    """Everything that a fit found, in memory."""
    confidence = model.confidence_.compute()
    return {
        "confidence": confidence.toarray(),
        "noise": model.noise_.compute().toarray(),
        "transduction": model.transduction_.compute(),
        "coef": model.coef_,
        "intercept": model.intercept_,
        "objective": model.history_["objective"],
    }


@pytest.fixture(scope="module")
def found():
    """The results of all settings on 1, 2 and 4 workers."""
    rows, labels, results = in_chunks(X), in_chunks(Y), {}
    for n_workers in (1, 2, 4):
        with cluster(n_workers):
            results[n_workers] = {name: bits(fitted(rows, labels, name)) for name in SETTINGS}
    return results


@pytest.fixture(scope="module")
def client(found):
    # After the clusters of the other fixture: the current client is the last one.
    with cluster(2) as client:
        yield client


@every_setting
@pytest.mark.parametrize("n_workers", [1, 4])
def test_the_number_of_workers_does_not_change_a_bit(found, name, n_workers):
    for figure, values in found[2][name].items():
        np.testing.assert_array_equal(found[n_workers][name][figure], values, err_msg=figure)


@every_setting
def test_equals_the_fit_in_memory(found, name):
    local = fitted(X, Y, name)
    result = found[2][name]
    np.testing.assert_allclose(result["confidence"], local.confidence_, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(result["transduction"], local.transduction_)
    np.testing.assert_allclose(result["objective"], local.history_["objective"], rtol=1e-9)
    scale = np.abs(local.coef_).max()
    np.testing.assert_allclose(result["coef"], local.coef_, rtol=0, atol=1e-8 * scale)


def test_the_same_predictions(client):
    model, local = fitted(in_chunks(X), in_chunks(Y)), fitted(X, Y)
    np.testing.assert_array_equal(model.predict(X), local.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), local.predict_proba(X), rtol=0, atol=1e-9)


def test_results_stay_on_the_workers(client):
    model = fitted(in_chunks(X), in_chunks(Y))
    assert model.confidence_.chunks[0] == model.transduction_.chunks[0] == (200, 200, 200, 200, 100)
    assert model.confidence_.shape == model.noise_.shape == Y.shape
    assert sparse.issparse(model.confidence_.blocks[0].compute())
    keys = {key for keys in client.has_what().values() for key in map(str, keys)}
    assert any("_collect" in key for key in keys)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_sparse_rows_and_candidates_in_other_forms(client, dtype):
    rows = sparse.csr_array(X * (np.abs(X) > 0.7), dtype=dtype)
    local = fitted(rows, Y, "gaussian", WEIGHTS)
    atol = 1e-9 if dtype == np.float64 else 1e-4
    dense = in_chunks(rows.toarray())
    chunks = dense.map_blocks(sparse.csr_matrix, dtype=dtype)
    sets = [set(np.flatnonzero(row).tolist()) for row in Y]
    sparse_labels = in_chunks(Y).map_blocks(sparse.csr_matrix, dtype=bool)
    for labels in (sparse_labels, sets, sparse.csr_array(Y)):
        model = fitted(chunks, labels, "gaussian", WEIGHTS)
        confidence = model.confidence_.compute().toarray()
        assert confidence.dtype == dtype
        np.testing.assert_allclose(confidence, local.confidence_, rtol=0, atol=atol)
    weights = da.from_array(WEIGHTS, chunks=77)
    other = fitted(chunks, sparse_labels, "gaussian", weights)
    np.testing.assert_array_equal(other.confidence_.compute().toarray(), confidence)


def test_columns_in_chunks_and_candidates_in_other_chunks(client):
    rows, labels = da.from_array(X, chunks=(CHUNK, 3)), da.from_array(Y, chunks=(130, 2))
    model = fitted(rows, labels, "gaussian")
    np.testing.assert_array_equal(
        model.confidence_.compute().toarray(),
        fitted(in_chunks(X), in_chunks(Y), "gaussian").confidence_.compute().toarray(),
    )


def test_one_label_for_each_row(client):
    names = np.array(["a", "b", "c", "d", "e", "f"])[TRUTH]
    model = fitted(in_chunks(X), da.from_array(names, chunks=CHUNK), "gaussian")
    assert model.classes_.tolist() == sorted(set(names.tolist()))
    np.testing.assert_array_equal(model.transduction_.compute(), names)


def test_threads_inside_workers_are_those_of_the_worker(client):
    """A worker that has one thread for tasks uses one thread in kernels, and none in BLAS."""
    rows = place(client)
    answers = rows.gather(_threads_now)
    assert {numba_threads for numba_threads, _ in answers} == {1}
    assert {blas for _, each in answers for blas in each} == {1}


def place(client):
    from hera_fast.dask_training import DaskSource

    source = DaskSource(
        *(in_chunks(X), in_chunks(Y), None),
        width=lambda d, q: (max(d, q), d + q),
        most=None,
        n_threads=None,
        warm=(_threads_now,),
    )
    return source.place().rows


def _threads_now():
    import numba
    from threadpoolctl import threadpool_info

    blas = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
    return numba.get_num_threads(), blas


# ---- errors --------------------------------------------------------------------------------------


def test_without_a_client():
    with pytest.raises(RuntimeError, match=r"there is no client\. Make one first"):
        _without_client(lambda: fitted(in_chunks(X), in_chunks(Y)))


def _without_client(call):
    from unittest.mock import patch

    with patch("distributed.default_client", side_effect=ValueError("no client")):
        return call()


def test_errors_name_the_row(client):
    wrong = X.copy()
    wrong[777, 3] = np.nan
    with pytest.raises(ValueError, match="row 777, column 3"):
        fitted(in_chunks(wrong), in_chunks(Y), "gaussian")
    wrong[777, 3] = 1e300
    with pytest.raises(ValueError, match="value 1e\\+300 in row 777, column 3"):
        fitted(in_chunks(wrong), in_chunks(Y), "gaussian")
    with pytest.raises(ValueError, match="largest absolute value of X is"):
        fitted(in_chunks(X * 1e-200), in_chunks(Y), "gaussian")
    empty = Y.copy()
    empty[501] = False
    with pytest.raises(ValueError, match=r"row 101\. .*counted from row 400"):
        fitted(in_chunks(X), in_chunks(empty), "gaussian")
    with pytest.raises(ValueError, match="800 rows of candidates for 900 rows of X"):
        fitted(in_chunks(X), in_chunks(Y[:800]), "gaussian")
    with pytest.raises(ValueError, match=r"chunks of X are not known: call X\.compute"):
        fitted(in_chunks(X)[da.from_array(X[:, 0] > 0, chunks=CHUNK)], in_chunks(Y), "gaussian")


def test_a_fit_after_an_error_works(client):
    """Nothing of a fit that failed is left on the workers."""
    wrong = X.copy()
    wrong[0, 0] = np.inf
    with pytest.raises(ValueError, match="row 0, column 0"):
        fitted(in_chunks(wrong), in_chunks(Y))
    fitted(in_chunks(X), in_chunks(Y), "gaussian")


# ---- workers that die ---------------------------------------------------------------------------


def test_killed_workers_do_not_change_a_bit(found, monkeypatch):
    """A worker is killed at random moments of a fit, the time of which was measured before."""
    monkeypatch.setattr(checkpoints, "_INTERVAL", 0.05)
    monkeypatch.setattr(checkpoints, "_TIMES_LONGER", 0)
    rows, labels = in_chunks(X), in_chunks(Y)
    rng = np.random.default_rng(0)
    with cluster(2) as client:
        fitted(rows, labels)  # compiles
        start = time.monotonic()
        fitted(rows, labels)
        duration = time.monotonic() - start
        for _ in range(3):
            client.wait_for_workers(2, timeout=60)
            processes = [int(each) for each in client.run(os.getpid).values()]
            victim = int(rng.choice(processes))
            timer = threading.Timer(rng.uniform(0, duration), os.kill, (victim, signal.SIGKILL))
            timer.start()
            model = fitted(rows, labels)
            timer.join()
            for figure, values in bits(model).items():
                expected = found[2]["mixture"][figure]
                np.testing.assert_array_equal(values, expected, err_msg=figure)


@every_setting
def test_a_fit_goes_on_from_its_last_checkpoint(found, monkeypatch, name):
    """The worker dies after the third iteration; the next attempt does not begin at the first."""
    monkeypatch.setattr(checkpoints, "_INTERVAL", 0.0)
    monkeypatch.setattr(checkpoints, "_TIMES_LONGER", 0)
    starts, iterations = [], []
    with cluster(2) as client:

        def watch(state):
            iterations.append(state.iteration)
            if state.iteration == 3 and len(starts) == 1:
                victim = sorted(client.run(os.getpid).values())[0]
                os.kill(int(victim), signal.SIGKILL)

        start = Keeper.start

        def counted(self, training):
            starts.append(None if self.last is None else self.last.n_iterations)
            return start(self, training)

        monkeypatch.setattr(Keeper, "start", counted)
        model = fitted(in_chunks(X), in_chunks(Y), name, callback=watch)
        result = bits(model)
    assert starts[0] is None
    assert len(starts) == 2
    assert starts[1] >= 2
    assert iterations.count(1) == 1
    for figure, values in result.items():
        np.testing.assert_array_equal(values, found[2][name][figure], err_msg=figure)


def test_workers_that_keep_dying_leave_a_checkpoint(found, monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "_INTERVAL", 0.0)
    monkeypatch.setattr(checkpoints, "_TIMES_LONGER", 0)
    path = tmp_path / "fit.checkpoint"
    with cluster(2) as client:

        def kill(state):
            if state.iteration > 2:
                # No checkpoint is taken any more, so there is no progress.
                monkeypatch.setattr(checkpoints, "_INTERVAL", 1e9)
                for process in client.run(os.getpid).values():
                    os.kill(int(process), signal.SIGKILL)

        model = HERAClassifier(**SETTINGS["mixture"], random_state=0, callback=kill)
        with pytest.raises(RuntimeError, match=r"a worker died .*resume=True"):
            model.fit(in_chunks(X), in_chunks(Y), checkpoint=path)
    assert path.exists()
    model.set_params(callback=None)
    with cluster(1):
        resumed = bits(model.fit(in_chunks(X), in_chunks(Y), checkpoint=path, resume=True))
    assert not path.exists()
    for figure, values in resumed.items():
        np.testing.assert_array_equal(values, found[2]["mixture"][figure], err_msg=figure)

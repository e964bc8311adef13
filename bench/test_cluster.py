"""Fits on workers against fits in one process, and what the scheduler receives.

Two workers with one thread each against two threads, at the shape of Yahoo! News. The workers, the
scheduler and the client share the two cores, as the threads do.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from cost_model import Fit
from ratio import Figure, record
from shapes import rows_with_truth

from hera_fast import HERAClassifier

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

da = pytest.importorskip("dask.array", reason="the extra dask is not installed")

N, D, Q, C, CHUNK = 20_000, 163, 219, 1.91, 5_000
SHAPE = f"{N} x {D}, q = {Q}"
ROUNDS = 3


@pytest.fixture(scope="module")
def client():
    from clusters import cluster

    with cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def data(client):
    rows = rows_with_truth(N, D, Q, C)
    chunks = (CHUNK, -1)
    on_workers = [da.from_array(each, chunks=chunks).persist() for each in (rows.X, rows.Y)]
    return rows, on_workers


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_two_workers_against_two_threads(data):
    rows, (X, Y) = data
    local = HERAClassifier(random_state=0, n_threads=2)
    there = HERAClassifier(random_state=0)
    local.fit(rows.X[:500], rows.Y[:500])  # compiles
    there.fit(X, Y)
    best = {"local": float("inf"), "workers": float("inf")}
    for _ in range(ROUNDS):
        best["local"] = min(best["local"], seconds(lambda: local.fit(rows.X, rows.Y)))
        best["workers"] = min(best["workers"], seconds(lambda: there.fit(X, Y)))
    record(
        [
            Figure(
                *("fit on 2 workers", SHAPE, "float64", "2 threads"),
                value=best["workers"] / best["local"],
                bar=1.25,
                ours=best["workers"],
                theirs=best["local"],
            )
        ]
    )


def test_bytes_that_the_scheduler_receives(capsys):
    """Those of an iteration, from the difference of two fits; against the formula."""
    from distributed import Client
    from distributed.deploy.subprocess import SubprocessCluster

    # As nested functions they are sent by value: the scheduler cannot import this file.
    def count(dask_scheduler):
        from tornado.iostream import IOStream

        dask_scheduler.n_received = 0
        read = IOStream.read_from_fd

        def counting(self, buffer):
            size = read(self, buffer)
            dask_scheduler.n_received += size or 0
            return size

        IOStream.read_from_fd = counting

    def received(dask_scheduler):
        return dask_scheduler.n_received

    rows = rows_with_truth(N, D, Q, C)
    with (
        SubprocessCluster(n_workers=2, worker_kwargs={"nthreads": 1}) as cluster,
        Client(cluster) as client,
    ):
        X, Y = (da.from_array(each, chunks=(CHUNK, -1)).persist() for each in (rows.X, rows.Y))
        HERAClassifier(random_state=0, max_iter=1).fit(X, Y)  # compiles
        client.run_on_scheduler(count)
        counts = []
        for max_iter in (2, 6):
            before = client.run_on_scheduler(received)
            HERAClassifier(random_state=0, max_iter=max_iter).fit(X, Y)
            counts.append(client.run_on_scheduler(received) - before)
    measured = (counts[1] - counts[0]) / 4
    formula = Fit(N, D, Q, C, workers=2).scheduler_bytes()
    with capsys.disabled():
        print(f"\nthe scheduler receives {measured / 1e6:.1f} MB, formula {formula / 1e6:.1f} MB")
    ratio = measured / formula
    record([Figure("bytes to the scheduler", SHAPE, "float64", "the formula", ratio, 2.0)])
    assert ratio > 0.5

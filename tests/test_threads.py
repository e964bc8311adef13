"""Threads: settings come back, every row is done once, and nothing aborts, hangs or lingers."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (loads its BLAS before the first look at the limits)
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from hera_fast.kernels import _launch
from hera_fast.kernels._launch import blas_threads, launch, run_ranges
from hera_fast.threads import on_threads, threads

MOST = numba.config.NUMBA_NUM_THREADS
ROOT = Path(__file__).parent.parent

needs_two_threads = pytest.mark.skipif(MOST < 2, reason="NUMBA_NUM_THREADS is 1")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def blas_limits():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def settings():
    return numba.get_num_threads(), blas_limits()


@pytest.fixture(autouse=True)
def unchanged_settings():
    before = settings()
    yield
    assert settings() == before


# ---- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [*range(1, MOST + 1), np.int64(1)])
def test_threads_sets_both(n_threads):
    with threads(n_threads):
        assert numba.get_num_threads() == n_threads
        assert set(blas_limits()) == {n_threads}


def test_none_changes_nothing():
    before = settings()
    with threads(None):
        assert settings() == before
    with threads():
        assert settings() == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_restored_after_an_exception(error):
    before = settings()
    with pytest.raises(error), threads(1):
        raise error
    assert settings() == before


@needs_two_threads
def test_nested_blocks():
    with threads(2):
        with threads(1):
            with threads(None):
                assert settings()[0] == 1
            with pytest.raises(ZeroDivisionError), threads(2):
                raise ZeroDivisionError
            assert settings()[0] == 1
            assert set(blas_limits()) == {1}
        assert settings()[0] == 2
        assert set(blas_limits()) == {2}


@pytest.mark.parametrize("value", [True, 1.0, "1", [1]])
def test_wrong_type(value):
    with pytest.raises(TypeError, match=r"^n_threads must be an integer or None"), threads(value):
        pass


@pytest.mark.parametrize("value", [0, -1, MOST + 1])
def test_out_of_range(value):
    with pytest.raises(ValueError, match=rf"^n_threads must be from 1 to {MOST}"), threads(value):
        pass


@needs_two_threads
def test_the_block_entered_last_decides_and_the_first_value_returns():
    before = blas_limits()
    first, second = blas_threads(1), blas_threads(2)
    first.__enter__()
    second.__enter__()
    assert set(blas_limits()) == {2}
    first.__exit__(None, None, None)  # as if on another Python thread
    assert set(blas_limits()) == {2}
    second.__exit__(None, None, None)
    assert blas_limits() == before


def test_many_python_threads_leave_blas_as_it_was():
    before = blas_limits()
    barrier = threading.Barrier(8)

    def enter_and_leave(number):
        barrier.wait()
        for turn in range(30):
            n_threads = 1 + (number + turn) % MOST
            with threads(n_threads):
                assert numba.get_num_threads() == n_threads
                time.sleep(1e-4 * (number % 3))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter_and_leave, range(8)))
    assert blas_limits() == before


# ---- ranges ------------------------------------------------------------------------------------


@given(
    n_rows=st.one_of(st.integers(0, 40), st.integers(0, 3_000_000)),
    row_cost=st.one_of(st.integers(0, 10), st.integers(0, 1 << 40)),
    n_threads=st.integers(1, 9),
)
def test_every_row_once(n_rows, row_cost, n_threads):
    done = []

    def note(start, stop, *arguments):
        assert arguments == (1, "two")
        done.append((start, stop))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_launch.numba, "get_num_threads", lambda: n_threads)
        launch(note, n_rows, row_cost, 1, "two")
    done.sort()
    assert done[0][0] == 0
    assert done[-1][1] == n_rows
    assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(done))
    assert n_rows == 0 or all(start < stop for start, stop in done)


def test_small_work_stays_on_the_calling_thread():
    seen = []
    with threads(MOST):
        launch(lambda start, stop: seen.append(threading.current_thread()), 1000, 16)
    assert seen == [threading.current_thread()]


@needs_two_threads
def test_large_work_is_spread():
    meeting = threading.Barrier(2)  # passes only when two threads are at work

    def meet(start, stop):
        if start < 2:
            meeting.wait(timeout=30)

    run_ranges(meet, [(i, i + 1) for i in range(10)], 2)


@pytest.mark.parametrize("n_threads", range(1, min(MOST, 2) + 1))
@pytest.mark.parametrize("n_items", [0, 1, 2, 5])
def test_items_are_worked_on_once_and_results_keep_their_order(n_items, n_threads):
    seen = []

    def work(item):
        time.sleep(0.002 * (n_items - item))  # the first takes longest
        seen.append(item)
        return item**2

    with threads(n_threads):
        results = on_threads(work, range(n_items))
    assert results == [item**2 for item in range(n_items)]
    assert sorted(seen) == list(range(n_items))


@needs_two_threads
def test_items_are_worked_on_at_the_same_time():
    both_there = threading.Barrier(2, timeout=10)
    with threads(2):
        assert on_threads(lambda item: both_there.wait() >= 0, "ab") == [True, True]


@pytest.mark.parametrize(("n_threads", "n_items"), [(1, 3), (2, 1), (2, 2), (2, 3)])
def test_items_share_the_threads(n_threads, n_items):
    if n_threads > MOST:
        pytest.skip(f"NUMBA_NUM_THREADS is {MOST}")
    before = numba.get_num_threads()
    with threads(n_threads):
        masks = on_threads(lambda item: numba.get_num_threads(), range(n_items))
        assert numba.get_num_threads() == n_threads
    assert masks == [max(1, n_threads // n_items)] * n_items
    assert numba.get_num_threads() == before


@needs_two_threads
def test_a_busy_helper_does_not_keep_the_arrays_of_a_job_that_is_done():
    class Held:
        """Something that a weak reference can point to."""

    done = threading.Event()
    started = [threading.Event() for _ in range(MOST - 1)]

    def be_busy(event):
        event.set()
        done.wait(10)

    def work(start, stop, held):
        assert held is not None

    helpers = [_launch._helper_pool().submit(be_busy, event) for event in started]
    try:
        assert all(event.wait(10) for event in started)
        held = Held()
        reference = weakref.ref(held)
        run_ranges(partial(work, held=held), [(0, 1), (1, 2)], 2)
        del held
        assert reference() is None
    finally:
        done.set()
    for helper in helpers:
        helper.result()


def test_an_item_that_fails_ends_the_call():
    with pytest.raises(ZeroDivisionError):
        on_threads(lambda item: 1 / item, [1, 0, 2])


def test_more_threads_than_ranges():
    done = []
    run_ranges(lambda start, stop: done.append(start), [(0, 1)], 64)
    run_ranges(lambda start, stop: done.append(start), [], 64)
    assert done == [0]


class Trouble(BaseException):
    """Like KeyboardInterrupt: not an Exception."""


def run_with_trouble(in_helper, error):
    """Raise on one of two threads while the other is at work; return what happened."""
    caller = threading.current_thread()
    both = threading.Barrier(2)
    events = []

    def work(start, stop):
        if start >= 2:
            time.sleep(0.001)
            events.append("later range")
            return
        both.wait(timeout=30)
        if (threading.current_thread() is not caller) is in_helper:
            raise error
        time.sleep(0.05)
        events.append("other thread done")

    with pytest.raises(type(error)):
        run_ranges(work, [(i, i + 1) for i in range(1000)], 2)
    count = len(events)
    time.sleep(0.02)
    assert len(events) == count, "something ran after the call"
    return events


@needs_two_threads
@pytest.mark.parametrize("error", [ValueError(), Trouble()], ids=["Exception", "BaseException"])
@pytest.mark.parametrize("in_helper", [True, False])
def test_an_error_ends_the_call_when_all_have_stopped(in_helper, error):
    events = run_with_trouble(in_helper, error)
    assert "other thread done" in events
    assert len(events) < 900, "the remaining ranges should be dropped"


def test_an_error_without_helpers():
    def fail(start, stop):
        raise ValueError("row 0")

    with pytest.raises(ValueError, match="row 0"):
        run_ranges(fail, [(0, 1), (1, 2)], 1)


@needs_two_threads
def test_usable_after_an_error():
    run_with_trouble(True, ValueError())
    total = np.zeros(100)

    def add(start, stop):
        total[start:stop] += 1

    run_ranges(add, [(i, i + 1) for i in range(100)], 2)
    assert (total == 1).all()


def test_an_interrupt_while_waiting_for_helpers(monkeypatch):
    """A second Ctrl-C does not leave helpers behind that write into the caller's arrays."""
    job = _launch._Job(lambda start, stop: None, [])
    waits = []

    def interrupted_wait(predicate):
        waits.append(predicate())
        if len(waits) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(job._changed, "wait_for", interrupted_wait)
    with pytest.raises(KeyboardInterrupt):
        job.close()
    assert waits == [True, True]


def test_a_helper_that_comes_too_late_does_nothing():
    done = []
    job = _launch._Job(lambda start, stop: done.append(start), [(0, 1)])
    job.close()
    job.help()
    assert done == []


def test_the_caller_does_everything_when_no_thread_can_be_started(monkeypatch):
    class Exhausted:
        def submit(self, work):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_launch, "_helper_pool", Exhausted)
    done = []
    run_ranges(lambda start, stop: done.append(start), [(i, i + 1) for i in range(5)], 4)
    assert done == list(range(5))


@needs_two_threads
def test_helpers_do_not_spread_further():
    """Calls within calls end, and helpers keep what they call to themselves."""
    caller = threading.current_thread()
    inner = []

    def note(start, stop):
        inner.append((start, stop))

    def outer(start, stop):
        if threading.current_thread() is not caller:
            assert numba.get_num_threads() == 1
        launch(note, 4, 1 << 20)

    with threads(2):
        run_ranges(outer, [(i, i + 1) for i in range(20)], 2)
    assert sum(stop - start for start, stop in inner) == 80


def test_a_forked_child_starts_with_helpers_of_its_own():
    run_ranges(lambda start, stop: None, [(0, 1), (1, 2)], 2)
    parents = _launch._helper_pool()
    with blas_threads(1):
        _launch._start_afresh()
        assert [block.n_threads for block in _launch._blas_blocks] == [1]
    assert _launch._helper_pool() is not parents
    parents.shutdown()


# ---- processes ---------------------------------------------------------------------------------
# A crash or a hang must not take the tests with it, so these run in processes of their own.

PREAMBLE = """
import numpy as np
from hera_fast.kernels.simplex import project_simplex

def project(seed, n=20_000, q=40):
    rng = np.random.default_rng(seed)
    V, Y = rng.standard_normal((n, q)), rng.random((n, q)) < 0.5
    Y[:, 0] = True
    out = np.empty_like(V)
    for _ in range(5):
        project_simplex(V, Y, out)
    assert (abs(out.sum(axis=1) - 1) < 1e-12).all()
    assert (out[~Y] == 0).all() and (out >= 0).all()
    return out
"""

CONCURRENT_CALLS = """
from concurrent.futures import ThreadPoolExecutor
reference = [project(seed) for seed in range(8)]
with ThreadPoolExecutor(8) as pool:
    results = list(pool.map(project, [*range(8)] * 3))
assert all((out == reference[i % 8]).all() for i, out in enumerate(results))
"""

FORK = """
import multiprocessing
before = [project(seed) for seed in range(4)]
with multiprocessing.get_context("fork").Pool(2) as pool:
    after = pool.map(project, range(4))
assert all((out == reference).all() for out, reference in zip(after, before))
assert (project(0) == before[0]).all()
"""

FORK_INSIDE_BLOCKS = """
import os, threading, traceback
import scipy.linalg
from threadpoolctl import threadpool_info
from hera_fast.kernels._launch import blas_threads

def limits():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

def child_passes(check):
    child = os.fork()
    if child == 0:
        try:
            check()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

before = limits()
entered, leave = threading.Event(), threading.Event()

def hold():
    with blas_threads(1):
        entered.set()
        leave.wait()

other = threading.Thread(target=hold)
other.start()
entered.wait()

def the_other_thread_does_not_count():
    with blas_threads(1):
        pass
    assert limits() == before

assert child_passes(the_other_thread_does_not_count)

def leave_own_block():
    block.__exit__(None, None, None)
    assert limits() == before

block = blas_threads(1)
block.__enter__()
assert child_passes(leave_own_block)
block.__exit__(None, None, None)
leave.set()
other.join()
assert limits() == before
"""

AT_EXIT = """
import atexit
def late():
    project(3)
    print("late call worked")
atexit.register(late)
project(0)
"""


PROBE = """
import numba
numba.get_num_threads()
numba.set_num_threads(1)
"""


def python_process(script, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "2", **environment}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def run_python(script, **environment):
    completed = python_process(script, **environment)
    assert completed.returncode == 0, completed.stderr[-3000:]
    return completed.stdout


@pytest.fixture(scope="module", params=["workqueue", "omp", "tbb"])
def layer(request):
    """A threading layer of Numba; "omp" and "tbb" need libraries that not every system has."""
    if python_process(PROBE, NUMBA_THREADING_LAYER=request.param).returncode:
        pytest.skip(f"Numba cannot load its threading layer {request.param!r} here")
    return request.param


needs_jit = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="too slow without compilation")


@needs_jit
def test_eight_python_threads_call_a_kernel(layer):
    run_python(PREAMBLE + CONCURRENT_CALLS, NUMBA_THREADING_LAYER=layer)


@needs_jit
@needs_fork
def test_fork_after_a_kernel_call(layer):
    run_python(PREAMBLE + FORK, NUMBA_THREADING_LAYER=layer)


@needs_fork
def test_fork_inside_a_block_that_limits_blas():
    run_python(FORK_INSIDE_BLOCKS)


@needs_jit
def test_a_call_while_the_interpreter_ends():
    assert run_python(PREAMBLE + AT_EXIT) == "late call worked\n"

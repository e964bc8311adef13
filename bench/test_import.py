"""What a fresh interpreter pays: the import, the first calls, the compilation of everything.

Seconds are processor time of the fresh interpreter, so that others on the machine do not count.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from ratio import Figure, record

ROOT = Path(__file__).parent.parent
IMPORT_BAR = 1.1
FIRST_CALL_BAR = 1.0
COLD_BAR = 40.0


def run(*arguments, **environment):
    """Run Python on one thread; return its output and its processor seconds."""
    one_thread = dict.fromkeys(
        ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    )
    search = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **one_thread, **search, **environment},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, spent


def first_calls(dtype, cache):
    output, _ = run(str(ROOT / "bench" / "first_calls.py"), dtype, NUMBA_CACHE_DIR=str(cache))
    return json.loads(output)


def seconds_figure(what, dtype, seconds, bar):
    return Figure(what, "-", dtype, "-", seconds, bar, "seconds")


def test_import_ratio():
    ours, theirs = "import hera_fast", "import numba, sklearn"
    best = dict.fromkeys((ours, theirs), float("inf"))
    for _ in range(5):
        for statement in best:
            best[statement] = min(best[statement], run("-c", statement)[1])
    record(
        [
            Figure(
                *("import", "-", "-", theirs, best[ours] / best[theirs], IMPORT_BAR),
                ours=best[ours],
                theirs=best[theirs],
            )
        ]
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_first_calls(dtype, tmp_path):
    cold = first_calls(dtype, tmp_path)
    warm = [first_calls(dtype, tmp_path) for _ in range(3)]
    # The first kernel in the list pays for whatever is loaded once.
    slowest = max(min(seconds[name] for seconds in warm) for name in cold)
    every = min(sum(seconds.values()) for seconds in warm)
    record(
        [
            seconds_figure("all kernels, cold", dtype, sum(cold.values()), COLD_BAR),
            seconds_figure("slowest first call, warm", dtype, slowest, FIRST_CALL_BAR),
            seconds_figure("all first calls, warm", dtype, every, None),
        ]
    )

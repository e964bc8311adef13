"""A run of the experiments that is killed goes on where it stopped, to the same table."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from uci_like import write_uci_like

KILLS = 2


def start(data, run_dir):
    arguments = ["table-uci", "--fast", "--datasets", "glass", "--folds", "2", "--jobs", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "hera_fast", "reproduce", *arguments, "--run-dir", str(run_dir)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "HERA_FAST_DATA": str(data)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def finish(process):
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return out


def cells(run_dir):
    return {path.name for path in (run_dir / "cells").glob("*.json")}


@pytest.mark.skipif(os.name != "posix", reason="kills a process group")
def test_killed_runs_end_with_the_same_table(tmp_path):
    write_uci_like(tmp_path, ("glass",))
    began = time.monotonic()
    finish(start(tmp_path, tmp_path / "whole"))
    seconds = time.monotonic() - began
    expected = cells(tmp_path / "whole")
    assert len(expected) == 3 * 7
    run_dir, rng, kills, seen = tmp_path / "killed", random.Random(0), 0, []
    while kills < KILLS:
        process = start(tmp_path, run_dir)
        # As soon as there is something new, so that the kill falls into the computation.
        before = len(cells(run_dir)) if run_dir.exists() else 0
        while len(cells(run_dir)) <= before and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.1 * seconds))
        if process.poll() is not None:
            break
        if kills % 2:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        # Workers that outlive their parent end by themselves: they have the other end of the pipe.
        process.communicate(timeout=60)
        kills += 1
        seen.append(len(cells(run_dir)))
    assert kills
    assert seen == sorted(seen)
    # What is there is not computed again.
    kept = {name: (run_dir / "cells" / name).stat().st_mtime_ns for name in cells(run_dir)}
    finish(start(tmp_path, run_dir))
    assert cells(run_dir) == expected
    assert all((run_dir / "cells" / name).stat().st_mtime_ns == at for name, at in kept.items())
    for name in ("table-uci.md", "table-uci-accuracies.md"):
        whole, killed = (tmp_path / run / "tables" / name for run in ("whole", "killed"))
        assert killed.read_bytes() == whole.read_bytes()
    # Nothing half-written is left where results are looked for.
    assert not list(run_dir.rglob("*.json.*"))

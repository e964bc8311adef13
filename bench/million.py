"""A million rows on one machine, blocks on disk: time, memory, and how both grow.

    python bench/million.py                        # 100,000, 300,000 and 1,000,000 rows
    python bench/million.py 100000 --dtype float64

Each size is fitted in a process of its own, whose largest resident memory is reported by the
system. The rows lie in a memory map, the state of the fit in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from hera_fast import HERAClassifier, make_partial_classification

OUT = Path(__file__).parent.parent / "out" / "bench"
N_FEATURES, N_LABELS, N_CANDIDATES = 100, 200, 2.5


def make(folder, n, dtype):
    """Write rows, candidates and truth; in a process of its own, for its memory."""
    X, Y, y = make_partial_classification(
        n, N_FEATURES, N_LABELS, n_candidates=N_CANDIDATES, random_state=0
    )
    np.save(Path(folder, "X.npy"), X.astype(dtype))
    np.save(Path(folder, "y.npy"), y)
    sparse.save_npz(Path(folder, "Y.npz"), Y)


def fit(folder):
    """Fit with the defaults; print the figures as JSON."""
    X = np.load(Path(folder, "X.npy"), mmap_mode="r")
    Y, y = sparse.load_npz(Path(folder, "Y.npz")), np.load(Path(folder, "y.npy"))
    small = HERAClassifier(random_state=0, block_rows=1000, n_components=100)
    small.fit(np.array(X[:2000]), Y[:2000])  # compiles
    start = time.perf_counter()
    model = HERAClassifier(random_state=0, block_rows="auto").fit(X, Y)
    seconds = time.perf_counter() - start
    figures = {
        "rows": X.shape[0],
        "dtype": str(X.dtype),
        "seconds": seconds,
        "iterations": model.n_iter_,
        "seconds_per_iteration": float(np.diff(model.history_["seconds"]).mean()),
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "transductive": float(np.mean(model.transduction_ == y)),
    }
    print(json.dumps(figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", type=int, default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--step", choices=["make", "fit"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "make":
        make(options.folder, options.rows[0], options.dtype)
        return
    if options.step == "fit":
        fit(options.folder)
        return
    found = []
    print("| rows | time | iterations | per iteration | peak memory | transductive |")
    print("|---|---|---|---|---|---|")
    for n in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            base = [sys.executable, __file__, str(n), "--dtype", options.dtype, "--folder", folder]
            subprocess.run([*base, "--step", "make"], check=True)
            run = subprocess.run(
                [*base, "--step", "fit"], check=True, capture_output=True, text=True
            )
        found.append(json.loads(run.stdout))
        f = found[-1]
        print(
            f"| {n:,} | {f['seconds']:.0f} s | {f['iterations']} | "
            f"{f['seconds_per_iteration']:.1f} s | {f['peak_bytes'] / 2**30:.2f} GiB | "
            f"{f['transductive']:.3f} |",
            flush=True,
        )
    if len(found) > 1:
        sizes, times = ([f[name] for f in found] for name in ("rows", "seconds"))
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"time grows with rows to the power of {slope:.2f}")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "million.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What a fit costs: bytes that travel, operations, memory; and what that means on other machines.

    python bench/cost_model.py             # measure, compare with the formulas, predict

docs/scaling.md explains the formulas. The four rates of a machine come from measured iterations;
the formulas must then tell the times of other sizes.
"""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from shapes import rows_with_truth
from sklearn.exceptions import ConvergenceWarning

from hera_fast import HERAClassifier

OUT = Path(__file__).parent.parent / "out" / "bench"

SHARE_STEPS, WEIGHT_STEPS = 10, 15
#: Numbers that are sent at once instead of a question for each step.
FEW = 1 << 20


@dataclass(frozen=True)
class Fit:
    """Sizes of a fit of the default.

    n rows, d features, q labels, c candidates per row, `landmarks` of each of two kernels, numbers
    of `itemsize` bytes, on `workers`, each of which sends `nodes` partial sums.
    """

    n: int
    d: int
    q: int
    c: float = 2.0
    landmarks: int = 1000
    itemsize: int = 8
    workers: int = 1
    nodes: int = 1

    @property
    def widths(self):
        """Features of the members."""
        few = min(self.landmarks, self.n)
        return (min(self.d, self.landmarks), few, few)

    @property
    def m(self):
        return sum(self.widths)

    # ---- bytes -----------------------------------------------------------------------------

    def answers(self):
        """Numbers that a worker sends in an iteration for each partial sum."""
        q, v = self.q, len(self.widths)
        fits = 2 * self.m * q + v * (q * q + q)
        return q + fits + q * q + SHARE_STEPS * v * q + 3 * v + self._weight_answers() + 1

    def _weight_answers(self):
        v = len(self.widths)
        return 0 if self.n * v <= FEW else WEIGHT_STEPS * v + 1

    def gathered(self):
        """Numbers that a worker sends once, however many partial sums there are."""
        v = len(self.widths)
        return self.n * (v + 1) / self.workers if self.n * v <= FEW else 0

    def questions(self):
        """Numbers that a worker receives in an iteration."""
        q, v = self.q, len(self.widths)
        judges = self.m * q + v * (q * q + q)
        ends = v * q + q * q + q
        return judges + v * q + SHARE_STEPS * v * q + ends

    def scheduler_bytes(self):
        """Bytes that the scheduler receives in an iteration, from workers and from the client."""
        return 8 * self.workers * (self.nodes * self.answers() + self.gathered() + self.questions())

    # ---- operations ------------------------------------------------------------------------

    def products(self):
        """Operations of an iteration in products of dense matrices, on each worker."""
        return 2 * self.n / self.workers * self.m * self.q

    def sparse_products(self):
        """Operations with the confidences as a sparse matrix."""
        v = len(self.widths)
        return 4 * self.n / self.workers * self.c * (self.m + v * self.q)

    def passes(self):
        """Numbers that are read or written in passes over scores and probabilities."""
        v = len(self.widths)
        return self.n / self.workers * self.q * v * (2 * SHARE_STEPS + 20)

    def decompositions(self):
        """Operations of the client: eigenvalues for each member, and their use."""
        v = len(self.widths)
        return v * 10 * self.q**3 + 2 * self.m * self.q**2

    def before(self):
        """Operations before the first iteration: maps, moments, rotations."""
        kernels = self.widths[1:]
        rows = self.n / self.workers
        return rows * sum(2 * self.d * m + 2 * m * m + m * m + 2 * m * m for m in kernels)

    # ---- memory ----------------------------------------------------------------------------

    def memory(self):
        """Bytes on each worker: rows, rotated features, scores and probabilities, confidences."""
        v = len(self.widths)
        row = self.d + self.m + 2 * v * self.q
        while_rotating = max(self.widths)
        candidates = self.c * (3 * self.itemsize + 24)
        return self.n / self.workers * ((row + while_rotating) * self.itemsize + candidates)

    def disk(self):
        """Bytes of the scratch file for rows that are read from a file."""
        v = len(self.widths)
        return self.n * (2 * self.m + 2 * v * self.q) * self.itemsize


@dataclass(frozen=True)
class Machine:
    """Operations per second of a worker, and bytes per second of the network."""

    products: float
    sparse: float
    passes: float
    decompositions: float
    network: float = 1e9

    def iteration(self, fit):
        """Seconds of an iteration."""
        work = (
            fit.products() / self.products
            + fit.sparse_products() / self.sparse
            + fit.passes() / self.passes
            + fit.decompositions() / self.decompositions
        )
        travel = fit.scheduler_bytes() / self.network if fit.workers > 1 else 0.0
        return work + travel


def measure(fit, repeats=2):
    """Seconds of an iteration in this process, on one thread."""
    rows = rows_with_truth(
        fit.n, fit.d, fit.q, fit.c, "float32" if fit.itemsize == 4 else "float64"
    )
    model = HERAClassifier(n_components=fit.landmarks, n_threads=1, max_iter=5, random_state=0)
    best = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(repeats):
            model.fit(rows.X, rows.Y)
            best = min(best, float(np.diff(model.history_["seconds"]).min()))
    return best


#: Iterations that the rates of this machine are found from, and others that they have to explain.
KNOWN = [
    Fit(5_000, 50, 50, landmarks=300),
    Fit(10_000, 50, 200, landmarks=100),
    Fit(10_000, 100, 100, landmarks=1000),
    Fit(5_000, 200, 400, landmarks=500),
    Fit(20_000, 20, 20, landmarks=500),
    Fit(2_000, 50, 600, landmarks=100),
]
UNKNOWN = [
    Fit(20_000, 163, 219, 1.91),
    Fit(40_000, 100, 100, landmarks=500),
    Fit(5_000, 100, 800, landmarks=200),
    Fit(15_000, 30, 300, landmarks=1000),
]


def rates(measured):
    """Rates with which the formulas are nearest to measured times."""
    from scipy.optimize import nnls

    parts = (Fit.products, Fit.sparse_products, Fit.passes, Fit.decompositions)
    table = np.array([[part(fit) for part in parts] for fit, _ in measured])
    seconds = np.array([time for _, time in measured])
    costs, _ = nnls(table / seconds[:, None], np.ones(len(seconds)))
    return Machine(*(1 / np.maximum(costs, 1e-15)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    repeats = parser.parse_args().repeats
    known = [(fit, measure(fit, repeats)) for fit in KNOWN]
    machine = rates(known)
    print(f"{platform.machine()}, one thread: {machine.products / 1e9:.1f} GFlop/s in products,")
    print(f"{machine.sparse / 1e9:.2f} in sparse ones, {machine.passes / 1e9:.2f} G numbers/s,")
    print(f"{machine.decompositions / 1e9:.2f} GFlop/s in eigenvalue problems")
    print("| n | d | q | landmarks | measured | formula | ratio |\n|---|---|---|---|---|---|---|")
    lines = []
    for fit, seconds in known + [(fit, measure(fit, repeats)) for fit in UNKNOWN]:
        ratio = machine.iteration(fit) / seconds
        lines.append({"n": fit.n, "d": fit.d, "q": fit.q, "seconds": seconds, "ratio": ratio})
        mark = "" if fit in KNOWN else " (not used for the rates)"
        print(
            f"| {fit.n:,} | {fit.d} | {fit.q} | {fit.landmarks} | {seconds:.3f} s | "
            f"{machine.iteration(fit):.3f} s | {ratio:.2f}{mark} |"
        )
    large = Fit(10**8, 100, 200, 2.0, itemsize=4, workers=64, nodes=2)
    # Single precision doubles the rates of products and passes.
    cluster = replace(machine, products=2 * machine.products, passes=2 * machine.passes)
    seconds = cluster.iteration(large)
    print("10^8 rows x 100, 200 labels, float32, 64 workers of one such thread and 1 GB/s:")
    print(
        f"{seconds:.0f} s for an iteration, of which {large.scheduler_bytes() / 1e9:.1f} s travel;"
    )
    print(f"{large.before() / cluster.products:.0f} s before the first one;")
    print(f"{large.memory() / 1e9:.0f} GB on each worker")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "cost_model.json").write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()

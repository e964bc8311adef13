"""How near each kernel is to what the machine allows, on one thread.

Run it as ``python bench/limits.py``. It measures the machine first, then the kernels, and divides.
"""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import asdict, dataclass

import numpy as np
from competitors import CONFIDENCE, FUSED, OURS, SCORE, outputs, ranking
from compiled import UnavailableError, limits_library
from ratio import Candidate, minimum_times
from report import OUT, console, machine
from rich.table import Table
from shapes import FG_NET, LOST, SEED, SOCCER, YAHOO, features, problem
from threadpoolctl import threadpool_limits

from hera_fast.kernels import updates
from hera_fast.kernels.confidence import confidence_step
from hera_fast.kernels.neighbors import nearest_neighbors, self_neighbors
from hera_fast.kernels.simplex import project_simplex
from hera_fast.kernels.softmax import softmax
from hera_fast.svd import singular_value_threshold
from hera_fast.threads import threads

BUDGET_SECONDS = 1.0
# A limit that was measured too low would flatter every kernel.
MACHINE_BUDGET_SECONDS = 2.5
# Arrays beyond this size come from memory, not from a cache.
CACHE_BYTES = 60_000_000

MODELS = (
    "pairs: |A| q pairs of a row, at the speed of the bare C loop in the first-level cache",
    "memory: bytes that must move, at the best bandwidth measured (what is only written",
    "counts twice: a cache line is read before it is overwritten)",
    "product: floating point operations that cannot be avoided, at the rate of GEMM",
    "The larger bound is the limit, as if all else could be hidden behind it.",
)


def best(call, budget: float = BUDGET_SECONDS) -> float:
    # Never satisfied: the whole budget is used.
    return minimum_times({"": Candidate(call)}, lambda best: False, budget)[""]


# ---- the machine ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """Rates of one thread; None where no C compiler can measure them."""

    gemm_float64: float  # operations per second
    gemm_float32: float
    fma_float64: float | None = None
    fma_float32: float | None = None
    exponential: float | None = None  # seconds each
    score_pair: float | None = None
    confidence_pair: float | None = None
    fused_pair: float | None = None
    read: float | None = None  # bytes per second
    triad: float | None = None
    update: float | None = None

    @property
    def bandwidth(self) -> float | None:
        rates = [rate for rate in (self.read, self.triad, self.update) if rate is not None]
        return max(rates, default=None)


def gemm_rate(dtype: str, size: int = 1536) -> float:
    A, B = features(size, size, dtype), features(size, size, dtype)
    out = np.empty_like(A)
    return 2 * size**3 / best(lambda: np.dot(A, B, out=out), MACHINE_BUDGET_SECONDS)


def c_function(library, name):
    call = getattr(ctypes.CDLL(str(library)), name)
    call.restype = ctypes.c_double

    def wrapper(*arguments):
        return call(
            *(
                ctypes.c_long(a) if isinstance(a, int) else ctypes.c_void_p(a.ctypes.data)
                for a in arguments
            )
        )

    return wrapper


def measure_machine() -> Machine:
    gemm = {"gemm_float64": gemm_rate("float64"), "gemm_float32": gemm_rate("float32")}
    try:
        library = limits_library()
    except UnavailableError as reason:
        print(f"Only GEMM is measured: {reason}")
        return Machine(**gemm)

    def seconds(name, *arguments):
        call = c_function(library, name)
        return best(lambda: call(*arguments), MACHINE_BUDGET_SECONDS)

    size, repetitions = 224, 2000  # some labels in the first-level cache
    z = features(1, size)[0]
    out = np.zeros(2 * size)
    each = size * repetitions
    large = np.ones(24_000_000)
    a, b, c = np.split(large, 3)
    five = np.split(large[: -(large.size % 5) or None], 5)
    return Machine(
        **gemm,
        fma_float64=1e6 * 80 / seconds("fma_float64", 1_000_000),
        fma_float32=1e6 * 160 / seconds("fma_float32", 1_000_000),
        exponential=seconds("exponential", z, out, size, repetitions) / each,
        score_pair=seconds("score_pairs", z, out, size, repetitions) / each / 2,
        confidence_pair=seconds("confidence_pairs", z, out, size, repetitions) / each / 2,
        fused_pair=seconds("fused_pairs", z, out, size, repetitions) / each / 2,
        read=large.nbytes / seconds("read_memory", large, large.size),
        # Written lines are read first: 4 streams and 7 streams.
        triad=4 * a.nbytes / seconds("triad", a, b, c, a.size),
        update=7 * five[0].nbytes / seconds("update", *five, five[0].size),
    )


def show_machine(rates: Machine) -> None:
    table = Table(title="The machine, one thread", title_justify="left")
    table.add_column("what")
    table.add_column("rate", justify="right")
    for name, text, scale, unit in (
        ("fma_float64", "fused multiply-add, float64", 1e9, "GFlop/s"),
        ("gemm_float64", "matrix product, float64", 1e9, "GFlop/s"),
        ("fma_float32", "fused multiply-add, float32", 1e9, "GFlop/s"),
        ("gemm_float32", "matrix product, float32", 1e9, "GFlop/s"),
        ("exponential", "exp, float64, in C", 1e-9, "ns"),
        ("score_pair", "d/(1 + exp(d^2)) with its sums, in C", 1e-9, "ns"),
        ("confidence_pair", "log(1 + exp(-d^2)) with its sums, in C", 1e-9, "ns"),
        ("fused_pair", "both, in C", 1e-9, "ns"),
        ("read", "memory, one array read", 1e9, "GB/s"),
        ("triad", "memory, a = b + s c", 1e9, "GB/s"),
        ("update", "memory, 3 arrays read, 2 updated", 1e9, "GB/s"),
    ):
        rate = getattr(rates, name)
        table.add_row(text, "not measured" if rate is None else f"{rate / scale:.3g} {unit}")
    console().print(table)


# ---- the kernels ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A call of a kernel and what it cannot do without."""

    kernel: str
    shape: str
    call: object
    pairs: float = 0.0
    pair_seconds: float | None = None
    memory_bytes: float = 0.0
    operations: float = 0.0
    operation_rate: float | None = None

    def bounds(self, rates: Machine) -> dict[str, float]:
        found = {}
        if self.pairs and self.pair_seconds is not None:
            found["pairs"] = self.pairs * self.pair_seconds
        if self.memory_bytes > CACHE_BYTES and rates.bandwidth is not None:
            found["memory"] = self.memory_bytes / rates.bandwidth
        if self.operations and self.operation_rate is not None:
            found["product"] = self.operations / self.operation_rate
        return found


def ranking_work(rates: Machine):
    pair_seconds = {
        SCORE: rates.score_pair,
        CONFIDENCE: rates.confidence_pair,
        FUSED: rates.fused_pair,
    }
    for kernel, seconds in pair_seconds.items():
        call = ranking(OURS, kernel)
        for shape in (LOST, FG_NET, SOCCER, YAHOO):
            Z, _, P = problem(shape)
            out = outputs(kernel, Z)
            yield Work(
                kernel,
                shape.name,
                lambda call=call, Z=Z, P=P, out=out: call(Z, P, *out),
                pairs=np.count_nonzero(P) * shape.q,
                pair_seconds=seconds,
                memory_bytes=Z.nbytes + P.nbytes + 2 * sum(array.nbytes for array in out),
            )


def neighbor_work(rates: Machine):
    X = features(YAHOO.n, YAHOO.d, "float32")
    queries, points = X[:2299], X[2299:]
    own = X[:11_000]
    k = 10
    distances, indices = np.empty((len(own), k), X.dtype), np.empty((len(own), k), np.int64)
    few = distances[: len(queries)], indices[: len(queries)]
    yield Work(
        "neighbours",
        f"{len(queries)} x {len(points)}, float32",
        lambda: nearest_neighbors(queries, points, *few),
        operations=2 * len(queries) * len(points) * YAHOO.d,
        operation_rate=rates.gemm_float32,
    )
    yield Work(
        "self neighbours",
        f"{len(own)} rows, float32",
        lambda: self_neighbors(own, distances, indices),
        operations=len(own) ** 2 * YAHOO.d,
        operation_rate=rates.gemm_float32,
    )


def svd_work(rates: Machine):
    n, q = YAHOO.n, YAHOO.q
    rng = np.random.default_rng(SEED)
    A = rng.standard_normal((n, q)) * np.geomspace(1000, 1, q) / np.sqrt(n)
    out = np.empty_like(A)
    values = np.linalg.svd(A, compute_uv=False)
    for keep in (20, 100):
        threshold = float(values[keep - 1 : keep + 1].mean())
        yield Work(
            "thresholding",
            f"{n} x {q}, keep {keep}",
            lambda threshold=threshold: singular_value_threshold(A, threshold, out=out),
            # The lower half of A'A, then A times keep vectors and back.
            operations=n * q * q + 4 * n * q * keep,
            operation_rate=rates.gemm_float64,
        )


def elementwise_work(rates: Machine):
    Z, Y, P = problem(YAHOO)
    low_rank, E, J, M, N = (Z.copy() for _ in range(5))
    objective = np.empty(len(Z))
    parts = np.empty((len(Z), len(updates.UPDATE_PARTS)))
    paper_parts = np.empty((len(Z), len(updates.PAPER_UPDATE_PARTS)))
    offsets = np.zeros(YAHOO.q)
    size = Z.nbytes
    lines = 64 * np.count_nonzero(Y)  # a cache line for every candidate
    for kernel, call, memory_bytes in (
        ("soft threshold", lambda: updates.soft_threshold(Z, 0.1, E), 3 * size),
        ("fit gradient", lambda: updates.fit_gradient(Z, P, 0.5, E), 4 * size),
        (
            "low-rank target",
            lambda: updates.low_rank_target(Y, P, M, 1.0, E),
            4 * size + Y.nbytes,
        ),
        (
            "multiplier update",
            lambda: updates.update_multipliers(Y, P, low_rank, 0.5, E, M, parts),
            6 * size + Y.nbytes,
        ),
        (
            "paper's update",
            lambda: updates.update_multipliers_paper(
                *(Y, P, Z, low_rank, 0.5, 0.7, 0.1, E, J, M, N, paper_parts)
            ),
            11 * size + Y.nbytes,
        ),
        ("simplex projection", lambda: project_simplex(Z, Y, E), 2 * size + Y.nbytes + lines),
        ("softmax", lambda: softmax(offsets, E), 2 * size),
    ):
        yield Work(kernel, YAHOO.name, call, memory_bytes=memory_bytes)
    yield Work(
        "confidence step",
        YAHOO.name,
        lambda: confidence_step(Z, Y, E, M, 1.0, 0.1, 0.5, True, J, objective),
        pairs=np.count_nonzero(Y) * YAHOO.q,
        pair_seconds=rates.confidence_pair,
        memory_bytes=3 * size + Y.nbytes + 2 * lines,
    )


def measure_kernels(rates: Machine) -> list[dict]:
    rows = []
    for source in (ranking_work, neighbor_work, svd_work, elementwise_work):
        for work in source(rates):
            bounds = work.bounds(rates)
            limit = max(bounds, key=bounds.get) if bounds else None
            rows.append(
                {
                    "kernel": work.kernel,
                    "shape": work.shape,
                    "seconds": best(work.call),
                    "bounds": bounds,
                    "limit": limit,
                }
            )
    return rows


def show_kernels(rows: list[dict]) -> None:
    table = Table(title="How near the kernels are", caption="\n".join(MODELS), title_justify="left")
    table.caption_justify = "left"
    for heading in ("kernel", "shape", "limited by"):
        table.add_column(heading)
    for heading in ("limit", "measured", "share"):
        table.add_column(heading, justify="right")
    previous = None
    for row in rows:
        if previous not in (None, row["kernel"]):
            table.add_section()
        previous = row["kernel"]
        limit = row["bounds"].get(row["limit"])
        table.add_row(
            *(row["kernel"], row["shape"], row["limit"] or "not known"),
            "" if limit is None else f"{1e3 * limit:.3g} ms",
            f"{1e3 * row['seconds']:.3g} ms",
            "" if limit is None else f"{limit / row['seconds']:.0%}",
        )
    console().print(table)


def main() -> None:
    with threads(1), threadpool_limits(1):
        rates = measure_machine()
        show_machine(rates)
        rows = measure_kernels(rates)
        show_kernels(rows)
    OUT.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "rates": asdict(rates), "kernels": rows}
    (OUT / "limits.json").write_text(json.dumps(content, indent=1, default=float) + "\n")
    print(f"Written to {os.path.relpath(OUT / 'limits.json')}")


if __name__ == "__main__":
    main()

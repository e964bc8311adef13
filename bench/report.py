"""The table, the plot and the file that a run of the benchmarks leaves behind."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import compiled
import shapes

OUT = Path(__file__).parent.parent / "out" / "bench"
PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "scikit-learn", "faiss-cpu", "threadpoolctl")
_STARTED = os.getloadavg() if hasattr(os, "getloadavg") else ()


def machine():
    """Where and with what the figures were measured."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    model = compiled.cpu_description().partition("\n")[0].partition(":")[2].strip()
    return {
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "seed": shapes.SEED,
        "load average at start": _STARTED,
        "load average at end": os.getloadavg() if hasattr(os, "getloadavg") else (),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def write(figures):
    """Write ratios.json, and the plot if Matplotlib is there."""
    OUT.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine(),
        "figures": [{**vars(figure), "ok": figure.ok} for figure in figures],
    }
    (OUT / "ratios.json").write_text(json.dumps(content, indent=1, default=float) + "\n")
    try:
        import plot
    except ImportError:
        return
    plot.draw([figure for figure in figures if figure.kind == "ratio"], OUT)


def show(figures):
    """Print one table."""
    from rich.table import Table

    barred = [figure for figure in figures if figure.bar is not None]
    met = sum(figure.ok for figure in barred)
    table = Table(
        title="hera-fast / others, one thread, shortest of interleaved runs (times are per row)",
        caption=f"{met} of {len(barred)} bars are met. Plot and data: {os.path.relpath(OUT)}",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("what", "shape", "dtype", "against"):
        table.add_column(heading)
    for heading in ("ours", "theirs", "ratio", "bar", ""):
        table.add_column(heading, justify="right")
    kernels = list(dict.fromkeys(figure.kernel for figure in figures))
    last_kernel = last_case = None
    for figure in sorted(figures, key=lambda figure: kernels.index(figure.kernel)):
        if last_kernel not in (None, figure.kernel):
            table.add_section()
        case = (figure.kernel, figure.shape, figure.dtype)
        repeated = case == last_case
        last_kernel, last_case = figure.kernel, case
        verdict = "" if figure.bar is None else "pass" if figure.ok else "FAIL"
        colour = "green" if figure.ok else "red"
        table.add_row(
            *(("", "", "") if repeated else case),
            *(figure.against, as_time(figure.ours), as_time(figure.theirs)),
            *(as_value(figure, figure.value), as_value(figure, figure.bar)),
            verdict and f"[{colour}]{verdict}[/]",
        )
    console().print(table)


def console():
    """Print to the real output, in full width when that is a file."""
    from rich.console import Console

    return Console(width=None if sys.__stdout__.isatty() else 130, file=sys.__stdout__)


def as_value(figure, value):
    if value is None:
        return ""
    if figure.kind == "seconds":
        return f"{value:.3g} s"
    if figure.kind == "error":
        return f"{value:.0e}" if value else "0"
    return f"1/{1 / value:,.0f}" if value < 0.02 else f"{value:.2f}"


def as_time(seconds):
    if seconds is None:
        return ""
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"

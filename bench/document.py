"""Put the measured tables of out/bench into docs/performance.md, between its markers."""

from __future__ import annotations

import json
import re

from ratio import Figure
from report import OUT, as_time, as_value

PAGE = OUT.parent.parent / "docs" / "performance.md"


def table(headings, rows):
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def load(name):
    return json.loads((OUT / name).read_text())


def figures():
    return [
        Figure(**{key: value for key, value in figure.items() if key != "ok"})
        for figure in load("ratios.json")["figures"]
    ]


def bars():
    """The figures that have a bar, except those that only say "not slower than NumPy"."""
    rows = []
    for f in figures():
        if f.bar is not None and (f.against, f.bar) != ("NumPy", 1.0):
            verdict = "" if f.ok else "**missed**"
            against = "" if f.against == "-" else f.against
            shape = "" if f.shape == "-" else f.shape
            rows.append(
                [
                    f.kernel,
                    shape,
                    f.dtype,
                    against,
                    as_value(f, f.value),
                    as_value(f, f.bar),
                    verdict,
                ]
            )
    return table(["what", "shape", "dtype", "against", "measured", "bar", ""], rows)


def ranking():
    """Nanoseconds per row and ratios of the ranking gradients."""
    cases = {}
    for f in figures():
        is_ranking = "gradient" in f.kernel and f.kernel != "fit gradient"
        if is_ranking and f.kind == "ratio" and f.dtype == "float64":
            cases.setdefault((f.kernel, f.shape), {"ours": as_time(f.ours)})[f.against] = f
    columns = ["C AVX2", "C plain", "Numba", "Numba dense", "NumPy tiled", "NumPy"]
    rows = [
        [*case, cells["ours"]]
        + [as_value(cells[name], cells[name].value) if name in cells else "" for name in columns]
        for case, cells in cases.items()
    ]
    return table(["kernel", "shape", "a row takes", *(f"/ {name}" for name in columns)], rows)


def limits():
    rows = []
    for row in load("limits.json")["kernels"]:
        limit = row["bounds"].get(row["limit"])
        if limit is not None:
            share = f"{limit / row['seconds']:.0%}"
            times = (f"{1e3 * limit:.3g} ms", f"{1e3 * row['seconds']:.3g} ms")
            rows.append([row["kernel"], row["shape"], row["limit"], *times, share])
    return table(["kernel", "shape", "limited by", "limit", "measured", "share"], rows)


def machine():
    facts = load("ratios.json")["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    rates = load("limits.json")["rates"]
    texts = [
        ("fma_float64", 1e-9, "GFlop/s fused multiply-add in float64"),
        ("gemm_float64", 1e-9, "GFlop/s matrix product"),
        ("gemm_float32", 1e-9, "GFlop/s matrix product in float32"),
        ("exponential", 1e9, "ns for an exp"),
        ("read", 1e-9, "GB/s reading memory"),
        ("update", 1e-9, "GB/s reading and updating several arrays"),
    ]
    measured = [
        f"{rates[name] * scale:.3g} {text}"
        for name, scale, text in texts
        if rates[name] is not None
    ]
    load_average = facts["load average at start"]
    load_text = f"; load average {load_average[0]:.1f} at the start" if load_average else ""
    return (
        f"{facts['processor']}, {facts['cores']} cores, {facts['system']}; "
        f"{versions}{load_text}.\n\n"
        f"One thread of it: {', '.join(measured)}."
    )


def main():
    page = PAGE.read_text()
    for name, make in {
        "machine": machine,
        "bars": bars,
        "ranking": ranking,
        "limits": limits,
    }.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        page, count = re.subn(
            pattern,
            lambda match, make=make: f"{match[1]}{make()}\n{match[2]}",
            page,
            flags=re.DOTALL,
        )
        assert count == 1, f"no place for {name} in {PAGE.name}"
    PAGE.write_text(page)
    print(f"Updated {PAGE.name}")


if __name__ == "__main__":
    main()

"""Ratios on a logarithmic axis, a panel for each family of kernels."""

from __future__ import annotations

from collections import defaultdict

import matplotlib as mpl
from matplotlib.figure import Figure as Picture
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

# Colours that stay apart for colour-blind readers, and a shape of its own for each.
_STYLES = [
    *(("#D55E00", "o"), ("#0072B2", "s"), ("#009E73", "^"), ("#CC79A7", "D")),
    *(("#E69F00", "v"), ("#56B4E9", "P"), ("#7F7F7F", "X"), ("#000000", "*")),
    *(("#999933", "<"), ("#882255", ">"), ("#44AA99", "p"), ("#332288", "h")),
]
# Kernels that share a panel; the others have their own.
_FAMILIES = {
    "neighbours": "nearest neighbours",
    "self neighbours": "nearest neighbours",
    "similarity": "nearest neighbours",
    "soft threshold": "updates and projections, Yahoo! News",
    "low-rank target": "updates and projections, Yahoo! News",
    "fit gradient": "updates and projections, Yahoo! News",
    "multiplier update": "updates and projections, Yahoo! News",
    "paper's update": "updates and projections, Yahoo! News",
    "simplex projection": "updates and projections, Yahoo! News",
    "softmax": "updates and projections, Yahoo! News",
    "thresholding": "singular value thresholding",
}
_ROW_INCHES = 0.19


def draw(figures, folder):
    """Write ratios.svg and ratios.png."""
    panels = defaultdict(lambda: defaultdict(list))
    for figure in figures:
        panels[_panel_name(figure)][_row_name(figure)].append(figure)
    # The panels with most to see come first.
    panels = dict(sorted(panels.items(), key=lambda item: -sum(map(len, item[1].values()))))
    competitors = dict.fromkeys(
        f.against for rows in panels.values() for r in rows.values() for f in r
    )
    styles = dict(zip(competitors, _STYLES * 2, strict=False))
    heights = [len(rows) + 1.6 for rows in panels.values()]
    with mpl.rc_context({"svg.hashsalt": "hera-fast", "font.size": 9}):
        picture = Picture(figsize=(8.5, _ROW_INCHES * sum(heights) + 1.3), layout="constrained")
        axes = picture.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)
        for axis, (name, rows) in zip(axes.ravel(), panels.items(), strict=True):
            _panel(axis, name, rows, styles)
        _scale(axes[-1, 0])
        _legend(picture, styles)
        for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 150})):
            picture.savefig(folder / f"ratios.{suffix}", **options)


def _panel_name(figure):
    kernel, _, dense = figure.kernel.partition(", dense")
    if dense or kernel != figure.kernel:
        return "every label has confidence"
    return _FAMILIES.get(kernel, kernel)


def _row_name(figure):
    kernel = figure.kernel.removesuffix(", dense")
    panel = _panel_name(figure)
    parts = [] if panel == figure.kernel or kernel == "thresholding" else [kernel]
    if "Yahoo" not in panel and figure.shape != "-":
        parts.append(figure.shape)
    if figure.dtype == "float32":
        parts.append(figure.dtype)
    return ", ".join(parts) or figure.kernel


def _panel(axis, name, rows, styles):
    axis.set_xscale("log")
    axis.axvline(1, color="0.35", linewidth=0.9, zorder=1)
    axis.grid(axis="x", color="0.88", linewidth=0.6)
    axis.set_axisbelow(True)
    for position, figures in enumerate(rows.values()):
        axis.axhline(position, color="0.93", linewidth=0.6, zorder=0)
        for figure in figures:
            colour, marker = styles[figure.against]
            axis.plot(figure.value, position, marker, color=colour, markersize=5, zorder=3)
            if figure.bar is not None:
                axis.plot(
                    *(figure.bar, position, "|"),
                    color=colour if figure.ok else "red",
                    **{"markersize": 12, "markeredgewidth": 2, "zorder": 2},
                )
    axis.set_yticks(range(len(rows)), rows)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.tick_params(which="both", length=0)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axis.set_title(name, loc="left", fontsize=9, fontweight="bold", pad=3)


def _scale(axis):
    axis.xaxis.set_major_locator(FixedLocator([1e-4, 1e-3, 1e-2, 0.1, 0.2, 0.5, 1, 2, 5]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(_fraction))
    axis.set_xlabel("time of hera-fast / time of the other; left of 1 hera-fast is faster")


def _fraction(value, position):
    return f"{value:g}" if value > 0.05 else f"1/{1 / value:,.0f}"


def _legend(picture, styles):
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="", label=name)
        for name, (colour, marker) in styles.items()
    ]
    bar = Line2D([], [], color="0.3", marker="|", linestyle="", markersize=12, markeredgewidth=2)
    bar.set_label("bar: stay left of it (red: missed)")
    picture.legend(
        handles=[*handles, bar], loc="outside upper left", ncols=4, frameon=False, fontsize=8
    )

"""Ratios on a logarithmic axis, a panel for each kernel."""

from __future__ import annotations

from collections import defaultdict

import matplotlib as mpl
from matplotlib.figure import Figure as Picture

# Colours that stay apart for colour-blind readers, and a shape of its own for each.
_STYLES = [
    *(("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D")),
    *(("#E69F00", "v"), ("#56B4E9", "P"), ("#7F7F7F", "X"), ("#000000", "*")),
    *(("#999933", "<"), ("#882255", ">")),
]


def draw(figures, folder):
    """Write ratios.svg and ratios.png."""
    panels = defaultdict(lambda: defaultdict(list))
    for figure in figures:
        name = (
            figure.shape if figure.dtype in ("float64", "-") else f"{figure.shape}, {figure.dtype}"
        )
        panels[figure.kernel][name].append(figure)
    competitors = list(dict.fromkeys(figure.against for figure in figures))
    styles = dict(zip(competitors, _STYLES * 2, strict=False))
    heights = [len(rows) + 1.4 for rows in panels.values()]
    with mpl.rc_context({"svg.hashsalt": "hera-fast", "font.size": 9}):
        picture = Picture(figsize=(9, 0.21 * sum(heights) + 1.2), layout="constrained")
        axes = picture.subplots(
            len(panels), 1, sharex=True, squeeze=False, height_ratios=heights
        ).ravel()
        for axis, (kernel, rows) in zip(axes, panels.items(), strict=True):
            _panel(axis, kernel, rows, styles)
        axes[-1].set_xlabel("time of hera-fast / time of the other: left of 1 is faster")
        _legend(picture, styles)
        for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 150})):
            picture.savefig(folder / f"ratios.{suffix}", **options)


def _panel(axis, kernel, rows, styles):
    axis.set_xscale("log")
    axis.axvline(1, color="0.4", linewidth=0.8, zorder=1)
    axis.grid(axis="x", color="0.9", linewidth=0.6)
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
                    **{"markersize": 13, "markeredgewidth": 2, "zorder": 2},
                )
    axis.set_yticks(range(len(rows)), rows)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.tick_params(length=0)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axis.set_title(kernel, loc="left", fontsize=9, fontweight="bold", pad=3)


def _legend(picture, styles):
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="", label=name)
        for name, (colour, marker) in styles.items()
    ]
    handles.append(
        Line2D([], [], color="0.3", marker="|", linestyle="", markersize=12, markeredgewidth=2)
    )
    handles[-1].set_label("bar (red: missed)")
    picture.legend(handles=handles, loc="outside upper center", ncols=5, frameon=False)

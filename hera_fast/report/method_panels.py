"""Figures of comparisons: ranks, methods side by side, differences."""

from __future__ import annotations

import math

from hera_fast.experiments.records import Record
from hera_fast.extras import require
from hera_fast.plotting import CriticalDifferenceDisplay, DifferenceDisplay, MethodsDisplay
from hera_fast.report.formats import format_mean, format_number, join_words
from hera_fast.report.panel import Panel, capital
from hera_fast.report.results import (
    Metric,
    Scores,
    dataset_titles,
    main_scores,
    published_of,
    scores_of,
)

__all__ = ["ablation_panels", "comparison_panels"]

# A data set more and there is no panel for each of them; the table has all.
_MOST_DATASETS = 24
_RANKS, _SETS, _DIFFERENCES = "Ranks", "Methods on each data set", "Differences"


def comparison_panels(record: Record) -> list[Panel]:
    """Make the figures of a comparison: the ranks, then each data set.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.method_panels import comparison_panels
    >>> results = [{"dataset": "a", "method": "m", "figures": {"lift": [0.5, 0.25]}}]
    >>> body = {"reference": "m", "methods": [{"name": "m", "title": "M"}], "results": results}
    >>> comparison_panels(Record("mine", "comparison", "Mine", body))[0].description
    'Lift, mean ± standard deviation: M 0.375 ± 0.177.'
    """
    scores = main_scores(record)
    if scores is None:
        return []
    panels = _rank_panels(scores)
    if len(scores.datasets) > _MOST_DATASETS:
        return panels
    titles, published = dataset_titles(record), published_of(record)
    # The first one is highlighted.
    names = sorted(scores.methods, key=lambda name: name != scores.comparison.reference)
    for dataset in scores.datasets:
        shown = [name for name in names if (dataset, name) in scores.cells]
        cells = [scores.cells[dataset, name] for name in shown]
        printed = {
            name: published[dataset, name].mean for name in shown if (dataset, name) in published
        }
        texts = [
            f"{name} {format_mean(cell.mean, cell.sd, scores.about.digits)}"
            + (f" (published: {format_number(printed[name])})" if name in printed else "")
            for name, cell in zip(shown, cells, strict=True)
        ]
        panels.append(
            Panel(
                titles.get(dataset, dataset),
                f"{capital(scores.about.label)}, mean ± standard deviation: {join_words(texts)}.",
                MethodsDisplay(
                    shown,
                    [cell.mean for cell in cells],
                    [cell.sd for cell in cells],
                    published=printed,
                    x_label=scores.about.label,
                ),
                group=_SETS,
            )
        )
    return panels


def _rank_panels(scores: Scores) -> list[Panel]:
    comparison = scores.comparison
    ranks = {
        name: rank
        for name, rank in zip(comparison.ranks["estimator"], comparison.ranks["rank"], strict=True)
        if math.isfinite(rank)
    }
    if len(ranks) < 2:
        return []
    over = "data sets" if len(scores.datasets) > 1 else "folds"
    display = CriticalDifferenceDisplay(
        list(ranks),
        list(ranks.values()),
        comparison.critical_difference,
        n_blocks=comparison.n_blocks,
    )
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    description = (
        f"Average ranks over {comparison.n_blocks} {over}, 1 is best: "
        f"{join_words([f'{name} {rank:.2f}' for name, rank in ordered])}. "
        f"Ranks that differ by less than {format_number(comparison.critical_difference, 2)} do "
        "not differ significantly."
    )
    if display.groups:
        joined = [join_words(group) for group in display.groups]
        description += f" Joined by a bar: {'; '.join(joined)}."
    return [Panel("Critical-difference diagram", description, display, group=_RANKS)]


def ablation_panels(record: Record) -> list[Panel]:
    """Make the figures of an ablation: what the variants differ by from the reference.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.method_panels import ablation_panels
    >>> results = [
    ...     {"dataset": "a", "method": "all", "figures": {"inductive": [0.5, 0.75]}},
    ...     {"dataset": "a", "method": "less", "figures": {"inductive": [0.5, 0.5]}},
    ... ]
    >>> methods = [{"name": "all", "title": "all"}, {"name": "less", "title": "less"}]
    >>> body = {"reference": "all", "methods": methods, "results": results}
    >>> ablation_panels(Record("mine", "ablation", "Mine", body))[0].description
    'Held-out accuracy minus that of all: less −0.125.'
    """
    scores = main_scores(record)
    if scores is None:
        return []
    titles = dataset_titles(record)
    parts = [("All data sets", scores)]
    if len(scores.datasets) == 1:
        parts = [(titles.get(scores.datasets[0], scores.datasets[0]), scores)]
    elif len(scores.datasets) <= _MOST_DATASETS:
        for dataset in scores.datasets:
            alone = scores_of(record, scores.metric, dataset=dataset)
            if alone is not None:
                parts.append((titles.get(dataset, dataset), alone))
    return [
        panel for title, part in parts for panel in _difference_panels(title, part, scores.about)
    ]


def _difference_panels(title: str, scores: Scores, about: Metric) -> list[Panel]:
    if not len(scores.comparison.tests["outcome"]):
        return []
    # It draws at once; what is wanted is what it computes.
    scratch = require("matplotlib.figure", "plot", "a report").Figure().subplots()
    display = DifferenceDisplay.from_comparison(scores.comparison, scratch)
    texts = [
        f"{name} {format_number(difference)}"
        for name, difference in zip(display.names, display.differences, strict=True)
    ]
    description = (
        f"{capital(about.label)} minus that of {scores.comparison.reference}: {join_words(texts)}."
    )
    return [Panel(title, description, display, group=_DIFFERENCES)]

"""Tables of comparisons and ablations, beside what was published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hera_fast.experiments.records import Record
from hera_fast.report.formats import format_count, format_mean, format_number
from hera_fast.report.html import Html, tag
from hera_fast.report.parts import details, figures_part, hidden, isolated, mark_part, notes_part
from hera_fast.report.results import (
    METRICS,
    Published,
    Scores,
    dataset_titles,
    main_scores,
    published_of,
    scores_of,
)
from hera_fast.report.tables import Cell, Column, make_table

__all__ = ["comparison_section"]

# With more data sets, they are the rows.
_MOST_COLUMNS = 8
_MOST_ROWS = 30
# Shown below the main table; further ones open on demand.
_SHOWN = ("transductive", "fit_seconds")
# Differences of these say nothing about how good a method is.
_NOT_TESTED = ("fit_seconds", "n_iter", "n_warnings", "predict_seconds")
_LIFT = (
    "The truth is not known. The lift is the share of predictions that are candidates of their "
    "row, minus what the same predictions would reach for rows in random order."
)


def comparison_section(record: Record) -> list[Html | None]:
    """Make tables and figures of a comparison or an ablation.

    Parameters
    ----------
    record : Record

    Returns
    -------
    markup : list of (Html or None)

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.comparison_section import comparison_section
    >>> comparison_section(Record("a", "comparison", "A", {"methods": [], "results": []}))
    ['<p class="empty">There are no figures yet.</p>']
    """
    scores = main_scores(record)
    if scores is None:
        return [tag("p", "There are no figures yet.", class_="empty")]
    parts: list[Html | None] = [tag("p", _LIFT)] if scores.metric == "lift" else []
    published = published_of(record) if scores.metric == "inductive" else {}
    parts += [
        _scores_table(record, scores, published, differences=record.kind == "ablation"),
        *_explanation(scores, published),
        *figures_part(record),
    ]
    # Of large grids only what is shown at once: the rest would be longer than all else.
    others = METRICS if len(scores.datasets) <= _MOST_ROWS else _SHOWN
    found = {
        name: more
        for name in others
        if name != scores.metric and (more := scores_of(record, name)) is not None
    }
    shown = [_scores_table(record, found[name], {}) for name in _SHOWN if name in found]
    rest = [_scores_table(record, more, {}) for name, more in found.items() if name not in _SHOWN]
    if shown:
        parts += [tag("h3", "Training rows and time"), *shown]
    if rest:
        parts.append(details("More figures", *rest))
    return parts


def _scores_table(
    record: Record,
    scores: Scores,
    published: Mapping[tuple[str, str], Published],
    *,
    differences: bool = False,
) -> Html:
    titles = dataset_titles(record)
    cells = {
        (dataset, method): _cell(scores, dataset, method, published, differences=differences)
        for dataset in scores.datasets
        for method in scores.methods
    }
    kind = "variant" if record.kind == "ablation" else "method"
    if len(scores.datasets) <= _MOST_COLUMNS:
        columns = [titles.get(dataset, dataset) for dataset in scores.datasets]
        rows = [
            [_name_cell(method), *(cells[dataset, method] for dataset in scores.datasets)]
            for method in scores.methods
        ]
    else:
        kind, columns = "data set", scores.methods
        rows = [
            [_name_cell(titles.get(dataset, dataset)), *(cells[dataset, m] for m in scores.methods)]
            for dataset in scores.datasets
        ]
    caption = f"{scores.about.title}, mean ± standard deviation over folds"
    header = [Column(kind, numeric=False), *map(Column, columns)]
    return make_table(caption, header, rows)


def _name_cell(name: str) -> Cell:
    return Cell(isolated(name), name)


def _cell(
    scores: Scores,
    dataset: str,
    method: str,
    published: Mapping[tuple[str, str], Published],
    *,
    differences: bool,
) -> Cell:
    score, reference = scores.cells.get((dataset, method)), scores.comparison.reference
    digits = scores.about.digits
    parts: list[Any] = ["–"]
    if score is not None:
        text = format_mean(score.mean, score.sd, digits)
        parts = [
            tag("strong", text) if score.is_best else text,
            None if scores.metric in _NOT_TESTED else mark_part(score.mark, reference),
        ]
    base = scores.cells.get((dataset, reference))
    if differences and score is not None and base is not None and method != reference:
        change = format_number(score.mean - base.mean, digits)
        sign = "" if change.startswith("−") or not float(change) else "+"
        parts.append(tag("small", hidden("difference "), sign, change))
    if (dataset, method) in published:
        parts.append(_printed(published[dataset, method], reference))
    return Cell(parts, float("nan") if score is None else score.mean)


def _printed(cell: Published, reference: str) -> Html:
    return tag(
        "small",
        hidden("printed "),
        format_mean(cell.mean, cell.sd),
        mark_part(cell.mark, reference),
        tag("sup", tag("span", "†", aria_hidden="true"), hidden(" wrong in print"))
        if cell.error
        else None,
    )


def _explanation(
    scores: Scores, published: Mapping[tuple[str, str], Published]
) -> list[Html | None]:
    comparison = scores.comparison
    reference = isolated(comparison.reference)
    parts: list[Any] = ["The best mean of each data set is bold. "]
    if len(comparison.tests["outcome"]):
        counts = [format_count(scores.count(mark)) for mark in ("•", "", "◦")]
        parts += [
            tag("b", "•"),
            " worse, ",
            tag("b", "◦"),
            *(" better than ", reference, " by the paired t-test over folds at the level "),
            f"{comparison.alpha:g}. Wins, ties and losses of ",
            reference,
            f" in all: {counts[0]}, {counts[1]} and {counts[2]}. ",
        ]
    if np.isfinite(comparison.friedman):
        parts.append(f"Friedman test of the ranks: p = {comparison.friedman:.2g}. ")
    if published:
        parts.append("Small figures are those of the paper. ")
    errors = list(dict.fromkeys(cell.error for cell in published.values() if cell.error))
    if errors:
        parts.append("† marks what cannot be right in print:")
    return [tag("p", parts, class_="explanation"), notes_part(errors, class_="errata")]

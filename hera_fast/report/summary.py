"""What stands first: the most important of all records in a few sentences and one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hera_fast.experiments.records import Record
from hera_fast.report.counts_section import predicted_time, total_counts
from hera_fast.report.formats import as_number, format_count, format_mean, format_number
from hera_fast.report.html import Html, tag
from hera_fast.report.parts import isolated
from hera_fast.report.results import Scores, dataset_titles, main_scores, reference_title
from hera_fast.report.tables import Cell, Column, make_table

__all__ = ["record_id", "summary_section"]

# Longer lists of losses are cut short.
_MOST_LOSSES = 8
# Of data sets; longer tables only repeat what stands below.
_MOST_ROWS = 12


def record_id(record: Record) -> str:
    """Return the anchor of a record's section.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.summary import record_id
    >>> record_id(Record("mine", "curves", "Mine", {}))
    'record-mine'
    """
    return f"record-{record.name}"


def summary_section(records: Sequence[Record]) -> list[Html | None]:
    """Sum up all records.

    Parameters
    ----------
    records : sequence of Record

    Returns
    -------
    markup : list of (Html or None)

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.report.summary import summary_section
    >>> "Mine" in summary_section([Record("mine", "curves", "Mine", {"panels": []})])[1]
    True
    """
    scores = {record.name: main_scores(record) for record in records if _has_scores(record)}
    return [
        _tiles(records, scores),
        tag("ul", [tag("li", _sentence(r, scores)) for r in records], class_="highlights"),
        *(_best_table(record, scores[record.name]) for record in records if _is_main(record)),
        *(predicted_time(record) for record in records if record.kind == "win-tie-loss"),
    ]


def _has_scores(record: Record) -> bool:
    return record.kind in ("comparison", "ablation")


def _is_main(record: Record) -> bool:
    return record.kind == "comparison"


def _is_short(scores: Scores) -> bool:
    return len(scores.datasets) <= _MOST_ROWS


def _tiles(records: Sequence[Record], scores: dict[str, Scores | None]) -> Html:
    datasets = {str(each["name"]) for record in records for each in record.datasets}
    methods = {
        str(method["name"])
        for record in records
        if _is_main(record)
        for method in record.body["methods"]
    }
    numbers = {"results": len(records), "data sets": len(datasets), "methods": len(methods)}
    tiles = [(format_count(number), name) for name, number in numbers.items() if number]
    for record in records:
        found = scores.get(record.name)
        if _is_main(record) and found is not None and len(found.methods) > 1 and _is_short(found):
            counts = [found.count(mark) for mark in ("•", "", "◦")]
            tiles.append(_counts_tile(counts, found.comparison.reference, record.title))
        elif record.kind == "win-tie-loss" and record.body["rows"]:
            reference = reference_title(record)
            tiles.append(_counts_tile(total_counts(record), reference, record.title))
        elif record.kind == "disambiguation" and record.body.get("accuracy") is not None:
            accuracy = as_number(record.body["accuracy"])
            tiles.append((f"{accuracy:.1%}", "of the picked candidates are true"))
    return tag(
        "dl",
        [tag("div", tag("dt", name), tag("dd", number)) for number, name in tiles],
        class_="tiles",
    )


def _counts_tile(counts: Sequence[int], reference: str, title: str) -> tuple[str, str]:
    return "/".join(map(str, counts)), f"wins/ties/losses of {reference}: {title}"


def _sentence(record: Record, scores: dict[str, Scores | None]) -> list[Any]:
    link = tag("a", record.title, href=f"#{record_id(record)}")
    found = scores.get(record.name)
    if found is not None:
        return [link, ": ", *_judgement(record, found)]
    if record.kind == "win-tie-loss" and record.body["rows"]:
        win, tie, loss = total_counts(record)
        reference = isolated(reference_title(record))
        return [link, ": ", reference, f" wins {win} times, ties {tie} and loses {loss} times."]
    if record.kind == "disambiguation":
        doubtful = format_count(len(record.body.get("doubtful") or ()))
        accuracy = as_number(record.body.get("accuracy"))
        known = (
            "" if accuracy != accuracy else f"{accuracy:.1%} of the picked candidates are true; "
        )
        return [link, f": {known}{doubtful} doubtful rows are listed."]
    number = len(record.body.get("panels") or ())
    return [link, f": {number} figure{'s' if number != 1 else ''}."]


def _judgement(record: Record, scores: Scores) -> list[Any]:
    reference = scores.comparison.reference
    n_best = sum(
        score.is_best for (_, method), score in scores.cells.items() if method == reference
    )
    n_all = len(scores.datasets)
    titles = dataset_titles(record)
    if n_all > 1:
        what = "data sets" if set(scores.datasets) <= set(titles) else "cases"
        verdict = f" has the best mean in {n_best} of {n_all} {what}"
    else:
        verdict = " has the best mean" if n_best else " does not have the best mean"
    losses = [
        [isolated(method), " on ", isolated(titles.get(dataset, dataset))]
        for (dataset, method), score in scores.cells.items()
        if score.mark == "◦"
    ]
    if not losses:
        return [isolated(reference), verdict, ". No method is significantly better anywhere."]
    listed: list[Any] = []
    for place, loss in enumerate(losses[:_MOST_LOSSES]):
        listed += [", " if place else "", loss]
    more = len(losses) - _MOST_LOSSES
    rest = f" and {more} more" if more > 0 else ""
    return [isolated(reference), verdict, ". Significantly better: ", *listed, rest, "."]


def _best_table(record: Record, scores: Scores | None) -> Html | None:
    if scores is None or len(scores.methods) < 2 or not _is_short(scores):
        return None
    titles, reference = dataset_titles(record), scores.comparison.reference
    digits = scores.about.digits
    rows = []
    for dataset in scores.datasets:
        best = {name: s for (d, name), s in scores.cells.items() if d == dataset and s.is_best}
        winner = next(iter(best.values()))
        own = scores.cells.get((dataset, reference))
        title = titles.get(dataset, dataset)
        names = ", ".join(best)
        behind = float("nan") if own is None else abs(winner.mean - own.mean)
        rows.append(
            [
                Cell(isolated(title), title),
                Cell(isolated(names), names, strong=reference in best),
                Cell(format_mean(winner.mean, winner.sd, digits), winner.mean),
                Cell("–", float("nan"))
                if own is None
                else Cell(format_mean(own.mean, own.sd, digits), own.mean),
                Cell(format_number(behind, digits), behind),
            ]
        )
    columns = [
        Column("data set", numeric=False),
        Column("best method", numeric=False),
        Column("its " + scores.about.label),
        Column(f"that of {reference}"),
        Column("behind the best"),
    ]
    return make_table(f"The best on each data set: {record.title}", columns, rows)

"""``hera-fast info``: what is in a data set, and what is odd about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from hera_fast.cli.options import add_command, add_data_options, source_of
from hera_fast.cli.terminal import Output, bars, percent, printable
from hera_fast.experiments.overview import describe_bunch

__all__ = ["add_parser", "find_warnings", "run"]

_LONGEST_LABEL = 24
_SHOWN = 5
_MOST_BARS = 12
# Labels of nearly all rows tell little; labels of very few rows cannot be learned.
_NEARLY_ALL, _FEW_ROWS = 0.95, 5
_SCALES = 100.0


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "info",
        run,
        summary="show what is in a data set, and what is odd about it",
        examples=[
            ("info faces.csv", "rows, features, labels, candidates"),
            ("info faces.csv --candidates names --sep ';'", "other columns"),
            ("info digits --json", "everything, for programs"),
        ],
    )
    add_data_options(parser)


def run(arguments: argparse.Namespace, out: Output) -> None:
    """Run the command."""
    bunch = source_of(arguments).load()
    figures = describe_bunch(bunch)
    found = find_warnings(figures)
    out.data(source=arguments.data, **figures, warnings=found)
    _show_figures(figures, arguments.data, out)
    if found:
        out.text()
        out.text(f"{len(found)} {'thing' if len(found) == 1 else 'things'} to know", strong=True)
    for warning in found:
        out.prose(f"- {warning['text']}")


def _show_figures(figures: dict[str, Any], source: str, out: Output) -> None:
    features, candidates, labels = (figures[part] for part in ("features", "candidates", "labels"))
    truth = figures["truth"]
    out.text(printable(source), strong=True)
    out.text(f"rows            {figures['rows']}")
    out.text(f"features        {_features_text(features)}")
    if features["smallest"] is not None:
        out.text(f"values          {features['smallest']:.4g} to {features['largest']:.4g}")
    out.text(f"labels          {labels['count']}")
    out.text(
        f"candidates      {candidates['mean']:.2f} per row, from {candidates['least']} to "
        f"{candidates['most']}; one only in {percent(candidates['single_share'])} of the rows"
    )
    out.text(f"by chance       {percent(candidates['chance_accuracy'])} of random picks are true")
    if truth is None:
        out.text("true labels     unknown")
    else:
        first = truth["most_frequent"]
        out.text(
            f"true labels     known, always candidates; {truth['labels']} different ones, most "
            f"often\n                {_short(first['label'])} ({percent(first['share'])})"
        )
    out.text()
    out.text("candidates per row, rows", strong=True)
    out.text(bars(*_histogram(candidates["histogram"])))
    out.text()
    out.table(
        ["label", "rows", "share"],
        [
            [_short(label["label"]), str(label["rows"]), percent(label["share"])]
            for label in labels["frequent"]
        ],
        title="most frequent candidates",
    )
    if labels["pairs"]:
        out.text()
        out.table(
            ["label", "other", "rows", "of label", "of other"],
            [
                [
                    *map(_short, pair["labels"]),
                    str(pair["rows"]),
                    *map(percent, pair["shares"]),
                ]
                for pair in labels["pairs"]
            ],
            title="most often candidates of the same row",
        )


def _features_text(features: dict[str, Any]) -> str:
    text = f"{features['count']}, {features['storage']}"
    if features["storage"] == "sparse":
        text += f", {percent(features['nonzero_share'])} not zero"
    if features["missing_values"]:
        text += f", {_count(features['missing_values'], 'missing value')}"
    return text


def _histogram(rows: list[dict[str, int]]) -> tuple[list[str], list[int]]:
    """Names and counts of at most a dozen bars."""
    least, most = rows[0]["candidates"], rows[-1]["candidates"]
    step = -(-(most - least + 1) // _MOST_BARS)
    counts = [0] * (-(-(most - least + 1) // step))
    for row in rows:
        counts[(row["candidates"] - least) // step] += row["rows"]
    starts = range(least, most + 1, step)
    ends = [min(start + step - 1, most) for start in starts]
    names = [str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True)]
    return names, counts


def find_warnings(figures: dict[str, Any]) -> list[dict[str, str]]:
    """Say what is odd about a data set.

    Parameters
    ----------
    figures : dict
        What :func:`hera_fast.experiments.overview.describe_bunch` returned.

    Returns
    -------
    warnings : list of dict
        Each with a ``code``, which does not change, and a ``text`` for people.

    Examples
    --------
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.cli.info import find_warnings
    >>> from hera_fast.experiments.overview import describe_bunch
    >>> animals = make_bunch([[0.1], [0.1], [0.4]], [{"cat"}, {"dog"}, {"cat", "dog"}])
    >>> [warning["code"] for warning in find_warnings(describe_bunch(animals))]
    ['all_labels', 'duplicate_rows', 'contradictory_rows']
    """
    return [
        {"code": code, "text": printable(text)}
        for find in (_odd_labels, _odd_rows, _odd_features)
        for code, text in find(figures)
    ]


def _odd_labels(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    labels, truth = figures["labels"], figures["truth"]
    never = labels["never_candidates"]
    if never:
        yield "never_candidates", f"labels that are never candidates: {_listed(never)}"
    common = [label["label"] for label in labels["frequent"] if label["share"] >= _NEARLY_ALL]
    if common and labels["count"] > 1:
        yield (
            "always_candidates",
            f"labels that are candidates of {_NEARLY_ALL:.0%} of the rows or more, which says "
            f"little about a row: {_listed(common)}",
        )
    same = labels["indistinguishable"]
    if same:
        yield (
            "indistinguishable",
            f"labels that always come together cannot be told apart: {_listed(same[0])}"
            + (f", and {_count(len(same) - 1, 'more group')}" if same[1:] else "")
            + ". Join them, or add rows with one of them only",
        )
    false = [] if truth is None else [x for x in truth["never_true"] if x not in set(never)]
    if false:
        yield "never_true", f"labels that are candidates, but never true: {_listed(false)}"
    few = [label for label in labels["rare"] if label["rows"] < _FEW_ROWS]
    if few and figures["rows"] >= _FEW_ROWS:
        names = _listed([f"{label['label']} ({label['rows']})" for label in few])
        yield "few_rows", f"labels with fewer than {_FEW_ROWS} rows are hard to learn: {names}"


def _odd_rows(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    candidates, duplicates = figures["candidates"], figures["duplicates"]
    if candidates["all_labels_rows"] and figures["labels"]["count"] > 1:
        yield (
            "all_labels",
            f"{_count(candidates['all_labels_rows'], 'row')} with every label as a candidate, so "
            "that nothing is known",
        )
    if candidates["single_share"] == 1:
        yield (
            "no_ambiguity",
            "every row has one candidate: this is ordinary supervised data, and any classifier "
            "will do. If candidates are separated by another sign than |, name it with --separator",
        )
    if duplicates["rows"]:
        yield (
            "duplicate_rows",
            f"{_count(duplicates['rows'], 'row')} with the features of another row, in "
            f"{_count(duplicates['groups'], 'group')}",
        )
    if duplicates["contradictory"]:
        yield (
            "contradictory_rows",
            f"{_count(duplicates['contradictory'], 'group')} of rows with equal features have no "
            "candidate in common, so one of them is wrong or the features do not tell",
        )


def _odd_features(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    features = figures["features"]
    if features["missing_values"]:
        advice = "fit puts the median of the column there"
        if features["storage"] == "sparse":
            advice = "fill them in before fit, which does so in dense data only"
        yield "missing_values", f"{_count(features['missing_values'], 'missing value')}: {advice}"
    constant = features["constant"]
    if constant:
        yield (
            "constant_features",
            f"{_count(len(constant), 'feature')} with the same value everywhere: "
            f"{_listed(constant)}",
        )
    least, largest = features["least_deviation"], features["largest_deviation"]
    if least and largest and largest > _SCALES * least:
        yield (
            "scales",
            f"features of very different scale: standard deviations are from {least:.2g} to "
            f"{largest:.2g}. fit scales them, unless --no-scale tells otherwise",
        )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(_short(name) for name in names[:_SHOWN])
    return shown + (", ..." if len(names) > _SHOWN else "")


def _short(label: Any) -> str:
    return printable(str(label), most=_LONGEST_LABEL)

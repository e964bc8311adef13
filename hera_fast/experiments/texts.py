"""Records as tables of text, for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hera_fast.comparison import Comparison
from hera_fast.experiments.plans import compare_results
from hera_fast.experiments.published import CONFIGURATIONS
from hera_fast.experiments.records import Record

__all__ = ["TextTable", "describe_seconds", "text_tables", "to_markdown"]

# As wide as each other, so that the numbers stand below each other.
_MARKS = {"win": " •", "tie": "  ", "loss": " ◦"}
_METRICS = {
    "inductive": "Held-out accuracy",
    "transductive": "Share of training rows whose true candidate was found",
    "mae3": "Share of held-out predictions within 3 of the true label",
    "mae5": "Share of held-out predictions within 5 of the true label",
    "lift": "Lift: how far above chance held-out predictions are candidates",
}
# Standing for a result that is not there.
_NONE = "-"
# The most columns of a table that stands for a figure.
_MOST_POINTS = 7


class TextTable(NamedTuple):
    """A table of texts.

    Attributes
    ----------
    title : str
        What it shows.
    header : list of str
        Names of the columns.
    rows : list of list of str
        As many cells each.
    notes : list of str
        What the marks mean.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]


def text_tables(record: Record) -> list[TextTable]:
    """Make the tables of a record.

    Parameters
    ----------
    record : Record
        Of any kind.

    Returns
    -------
    tables : list of TextTable
        Nothing in them depends on how long the computation took.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.experiments.texts import text_tables
    >>> methods = [{"name": "hera", "title": "HERA"}]
    >>> results = [{"dataset": "a", "method": "hera", "figures": {"inductive": [0.75, 0.85]}}]
    >>> body = {"reference": "hera", "methods": methods, "results": results, "published": None}
    >>> text_tables(Record("mine", "comparison", "Mine", body))[0].rows
    [['HERA', '0.800 ± 0.071  ']]
    """
    if record.kind in ("comparison", "ablation"):
        return _comparison_tables(record)
    if record.kind == "win-tie-loss":
        return [_count_table(record)]
    if record.kind == "curves":
        return [_curve_table(record, group) for group in _groups(record)]
    return []


def _comparison_tables(record: Record) -> list[TextTable]:
    known = {
        name
        for result in record.body["results"]
        for name, figures in result["figures"].items()
        if any(figure is not None and np.isfinite(figure) for figure in figures)
    }
    metrics = ("inductive", "transductive") if "inductive" in known else ("lift",)
    metrics = (*metrics, "mae3", "mae5")
    return [_comparison_table(record, metric) for metric in metrics if metric in known]


def _comparison_table(record: Record, metric: str) -> TextTable:
    body, results = record.body, record.body["results"]
    comparison = compare_results(results, metric=metric, reference=body["reference"])
    titles = {data["name"]: data["title"] for data in record.datasets}
    datasets = list(dict.fromkeys(result["dataset"] for result in results))
    cells = _cells(comparison)
    by_method = {
        method["name"]: [cells.get((name, method["name"]), _NONE) for name in datasets]
        for method in body["methods"]
    }
    reference = next(m["title"] for m in body["methods"] if m["name"] == body["reference"])
    notes = ["mean ± standard deviation over folds"]
    if len(body["methods"]) > 1:
        notes[0] += (
            f"; • significantly worse than {reference}, ◦ better, by the paired t-test over folds "
            f"at the level {comparison.alpha:g}"
        )
    header = ["", *(titles.get(name, name) for name in datasets)]
    if len(datasets) > len(body["methods"]):
        # Many data sets stand below each other.
        header = ["", *(method["title"] for method in body["methods"])]
        columns = zip(*by_method.values(), strict=True)
        rows = [[titles.get(n, n), *row] for n, row in zip(datasets, columns, strict=True)]
        return TextTable(_METRICS[metric], header, rows, notes)
    rows = []
    for method in body["methods"]:
        rows.append([method["title"], *by_method[method["name"]]])
        if metric == "inductive" and body["published"] is not None:
            printed = [_printed(body["published"], name, method["name"]) for name in datasets]
            rows.append(["  printed", *printed])
    if metric == "inductive" and body["published"] is not None:
        notes.append("'printed' is the paper's figure with its mark; ! marks a known error of it")
    return TextTable(_METRICS[metric], header, rows, notes)


def _cells(comparison: Comparison) -> dict[tuple[str, str], str]:
    tests = comparison.tests
    places = zip(tests["dataset"], tests["estimator"], strict=True)
    outcomes = dict(zip(places, tests["outcome"], strict=True))
    summary = comparison.summary
    cells = {}
    for name, method, mean, sd in zip(
        *(summary[column] for column in ("dataset", "estimator", "mean", "sd")), strict=True
    ):
        spread = f" ± {sd:.3f}" if np.isfinite(sd) else ""
        mark = _MARKS[outcomes.get((name, method), "tie")]
        cells[name, method] = f"{mean:.3f}{spread}{mark}" if np.isfinite(mean) else _NONE
    return cells


def _printed(published: dict[str, Any], dataset: str, method: str) -> str:
    cell = published.get(dataset, {}).get(method)
    if cell is None:
        return _NONE
    marks = (cell["mark"] or " ") + ("!" if cell["error"] else "")
    return f"{cell['mean']:.3f} ± {cell['sd']:.3f} {marks}"


def _count_table(record: Record) -> TextTable:
    body = record.body
    names = [other["name"] for other in body["others"]]
    rows = []
    for row in body["rows"]:
        rows.append([row["title"], *(_counts(row["counts"][name]) for name in names)])
        if row["published"] is not None:
            rows.append(["  printed", *(_printed_counts(row["published"][name]) for name in names)])
    rows.append(["sum", *(_counts(body["sums"][name]) for name in names)])
    if body["published_sums"] is not None:
        printed = {name: list(counts) for name, counts in body["published_sums"].items()}
        columns = {name: [row["published"][name] for row in body["rows"]] for name in names}
        right = {name: [sum(parts) for parts in zip(*columns[name], strict=True)] for name in names}
        marks = {name: "" if printed[name] == right[name] else "!" for name in names}
        rows.append(["  printed", *(_counts(printed[name]) + marks[name] for name in names)])
    notes = [f"wrong in print: {error}" for error in body["errors"]]
    header = ["", *(other["title"] for other in body["others"])]
    return TextTable("Wins/ties/losses of HERA", header, rows, notes)


def _printed_counts(counts: Sequence[int]) -> str:
    return _counts(counts) + "!" * (sum(counts) != CONFIGURATIONS)


def _counts(counts: Sequence[int]) -> str:
    return "/".join(map(str, counts))


def _groups(record: Record) -> list[str]:
    return list(dict.fromkeys(panel["group"] for panel in record.body["panels"]))


def _curve_table(record: Record, group: str) -> TextTable:
    """Make a row for each panel and each series, with columns for some points."""
    titles = {each["name"]: each["title"] for each in record.body["legend"]}
    panels = [panel for panel in record.body["panels"] if panel["group"] == group]
    points = sorted({x for panel in panels for x in panel["x"]})
    if len(points) > _MOST_POINTS:
        places = np.geomspace(1, len(points), _MOST_POINTS).round().astype(int) - 1
        points = [points[place] for place in dict.fromkeys(places.tolist())]
    rows = []
    for panel in panels:
        for series in panel["series"]:
            values = dict(zip(panel["x"], series["y"], strict=True))
            title = panel["title"].removeprefix(f"{group}: ")
            label = f"{title}, {titles.get(series['name'], series['name'])}"
            rows.append([label, *(_short(values.get(x)) for x in points)])
    labels = {panel["x_label"].partition(",")[0]: None for panel in panels}
    return TextTable(group, [" or ".join(labels), *(f"{x:g}" for x in points)], rows, [])


def _short(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return _NONE
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 or value == 0 else f"{value:.1e}"


def describe_seconds(seconds: float) -> str:
    """Return a time as people say it.

    Examples
    --------
    >>> from hera_fast.experiments.texts import describe_seconds
    >>> describe_seconds(42), describe_seconds(1500), describe_seconds(9000)
    ('42 s', '25 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def to_markdown(record: Record) -> str:
    """Write a record as a Markdown page: how it was made, tables, notes.

    Parameters
    ----------
    record : Record

    Returns
    -------
    text : str
        The same for the same results: no times, no date.

    Examples
    --------
    >>> from hera_fast.experiments.records import Record
    >>> from hera_fast.experiments.texts import to_markdown
    >>> body = {"legend": [], "panels": []}
    >>> print(to_markdown(Record("mine", "curves", "A figure", body, notes=["So it is."])))
    # A figure
    <BLANKLINE>
    So it is.
    <BLANKLINE>
    """
    lines = [f"# {record.title}", ""]
    about = record.about
    if about:
        machine = about["machine"]
        versions = ", ".join(f"{name} {v}" for name, v in about["versions"].items())
        settings = ", ".join(f"{name} {value}" for name, value in about["settings"].items())
        lines += [
            *(f"`{about['command']}`", ""),
            f"{settings}; {versions}; {machine['processor']}, {machine['processors']} processors.",
            "",
        ]
    if record.datasets:
        header = ["data set", "rows", "features", "labels"]
        rows = [
            [data["title"], f"{data['rows']:,}", str(data["features"]), str(data["labels"])]
            for data in record.datasets
        ]
        # Where there is but one, candidates are artificial, and not those of the data set.
        if any(data["candidates"] != 1 for data in record.datasets):
            header.append("candidates per row")
            for row, data in zip(rows, record.datasets, strict=True):
                row.append(f"{data['candidates']:.2f}")
        lines += [*_markdown_table(header, rows), ""]
    for table in text_tables(record):
        lines += [f"## {table.title}", "", *_markdown_table(table.header, table.rows), ""]
        for note in table.notes:
            lines += [note[0].upper() + note[1:] + ".", ""]
    for note in record.notes:
        lines += [note, ""]
    return "\n".join(lines)


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = [header, ["---"] * len(header), *rows]
    return [
        "| " + " | ".join(cell.strip().replace("|", "\\|") for cell in row) + " |" for row in table
    ]

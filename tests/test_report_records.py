"""Records that are odd, broken, or drawn as one picture."""

from __future__ import annotations

from dataclasses import replace

import pytest
import reports
from page_reader import Reader

from hera_fast.experiments.records import Record

pytest.importorskip("matplotlib")

from hera_fast.report import draw_record, make_page
from hera_fast.report.svg import _style

RECORDS = {record.name: record for record in reports.all_records()}
#: A record that is drawn at once.
BRIEF = Record("brief", "curves", "Nothing yet", {"panels": []})


def odd_records():
    results = [{"dataset": "a", "method": "m", "figures": {"inductive": [0.5]}}]
    methods = [{"name": "m", "title": "M"}, {"name": "k", "title": None}]
    base = {"reference": "m", "methods": methods, "results": results}
    yield "one fold of one method", "comparison", base
    yield "an ablation of nothing", "ablation", base
    yield "an unknown reference", "comparison", {**base, "reference": "x"}
    yield "no reference", "comparison", {"methods": methods, "results": results}
    yield "an unknown method", "comparison", {**base, "methods": []}
    nothing = [{"dataset": "a", "method": "m", "figures": {"inductive": [None, None]}}]
    yield "no figures", "comparison", {**base, "results": nothing}
    yield "no results", "ablation", {**base, "results": []}
    some = [
        *({"dataset": "a", "method": name, "figures": {"inductive": [0.5, 0.7]}} for name in "mk"),
        {"dataset": "b", "method": "k", "figures": {"inductive": [0.5, None], "lift": None}},
    ]
    yield "gaps", "comparison", {**base, "results": some}
    yield "gaps", "ablation", {**base, "results": some}
    printed = {"a": {"m": {"mean": None, "sd": None, "mark": None, "error": None}}, "z": {}}
    yield "nothing printed", "comparison", {**base, "published": printed}
    yield "no rows", "win-tie-loss", {"reference": "m", "others": [], "rows": []}
    row = {"dataset": "a", "counts": {"k": [1, 2, 3], "m": None}, "published": None}
    counts = {"reference": "m", "others": methods, "rows": [row], "sums": {}, "prediction": {}}
    yield "few counts", "win-tie-loss", counts
    zeros = {**row, "title": "A", "counts": {"k": [0, 0, 0]}}
    yield "zeros", "win-tie-loss", {**counts, "rows": [zeros], "prediction": {"cells_done": 3}}
    yield "no panels", "curves", {"legend": [], "panels": []}
    panel = {"x": [1, 2], "series": [{"name": "m", "y": [None, 0.5]}]}
    yield "a bare panel", "curves", {"panels": [panel]}
    yield "an empty panel", "curves", {"panels": [{"title": "A", "x": [], "series": []}]}
    log = {**panel, "y_scale": "log", "x_scale": "log", "x": [0, 1]}
    log["series"] = [{"name": "m", "y": [1, 0], "sd": [None, None]}]
    yield "nothing positive", "curves", {"panels": [log, {**log, "x": [None, None]}]}
    constant = {**log, "series": [{"name": "m", "y": [1, 1], "sd": [2, 2]}]}
    yield "one point, wide band", "curves", {"panels": [constant]}
    yield "nothing at all", "disambiguation", {}
    yield (
        "empty parts",
        "disambiguation",
        {
            "histogram": {"edges": [0, 1], "counts": [0], "wrong": None},
            "co_occurrence": {"labels": [], "matrix": []},
            "factors": {"singular_values": [], "labels": ["a"], "loadings": []},
            "history": {"change": [None], "objective": [], "note": "none"},
            "doubtful": [],
        },
    )
    yield (
        "single things",
        "disambiguation",
        {
            "labels": [1, 2],
            "rows": None,
            "histogram": {"edges": [0, 0.5, 1], "counts": [None, 1], "wrong": [0, None]},
            "co_occurrence": {"labels": [1], "matrix": [[1.0]]},
            "factors": {"singular_values": [1.0], "labels": [1, 2], "loadings": [[None, 1]]},
            "history": {"objective": [2.0]},
            "doubtful": [
                {"row": 0, "label": 1},
                {"row": 1, "label": 2, "runner_up": None, "truth": 1, "candidates": [[1, None]]},
            ],
        },
    )
    zero = {"singular_values": [1.0], "labels": [1], "loadings": [[0.0]]}
    yield "zero factors", "disambiguation", {"factors": zero, "co_occurrence": None}


@pytest.mark.parametrize(("what", "kind", "body"), list(odd_records()))
def test_odd_records(what, kind, body):
    reader = Reader(make_page([Record("odd", kind, what, body)]))
    assert what in reader.texts
    assert "nan" not in " ".join(reader.texts).split()


MALFORMED = [
    ("comparison", {}, "has no 'methods'"),
    ("comparison", {"methods": [], "results": [{"figures": {}}]}, "has no 'dataset'"),
    ("comparison", {"methods": 3, "results": []}, "int"),
    ("ablation", {"methods": [{"title": "a"}], "results": []}, "has no 'name'"),
    (
        "comparison",
        {
            "methods": [],
            "results": [{"dataset": "a", "method": "m", "figures": {"inductive": [0.5]}}] * 2,
        },
        "more than once",
    ),
    (
        "comparison",
        {"methods": [], "results": [{"dataset": "a", "method": "m", "figures": {"lift": ["x"]}}]},
        "'x' is no number",
    ),
    ("win-tie-loss", {"rows": [{"counts": {}}], "others": []}, "has no 'dataset'"),
    (
        "win-tie-loss",
        {"rows": [{"dataset": "a", "counts": {"m": [1]}}], "others": [{"name": "m"}]},
        "no wins",
    ),
    ("curves", {"panels": [{"series": []}]}, "has no 'x'"),
    ("curves", {"panels": [{"x": 1, "series": []}]}, "no list"),
    ("curves", {"panels": [{"x": [1], "series": [{"name": "m", "y": [1, 2]}]}]}, "shape"),
    ("disambiguation", {"accuracy": True}, "no number"),
    ("disambiguation", {"doubtful": [{}]}, "has no 'row'"),
    ("disambiguation", {"histogram": {"edges": [1, 0], "counts": [1]}}, "increasing"),
]


@pytest.mark.parametrize(("kind", "body", "reason"), MALFORMED)
def test_malformed_records_are_named(kind, body, reason):
    record = Record("broken-one", kind, "Broken", body)
    with pytest.raises(ValueError, match="the record 'broken-one' cannot be shown: ") as info:
        make_page([BRIEF, record])
    assert reason in str(info.value)


def test_malformed_facts_are_named():
    record = replace(BRIEF, name="broken-one", datasets=[{"rows": 3}])
    with pytest.raises(ValueError, match="the record 'broken-one' cannot be shown: it has no 'n"):
        make_page([BRIEF, record])


@pytest.mark.parametrize("name", RECORDS)
def test_one_picture_of_all_figures(name, tmp_path):
    record = RECORDS[name]
    if record.kind == "win-tie-loss":
        with pytest.raises(ValueError, match="the record 'table-uci' has nothing to draw"):
            draw_record(record, tmp_path / "picture.png")
        assert not list(tmp_path.iterdir())
        return
    draw_record(record, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_pictures_are_repeatable(kind, tmp_path):
    paths = [tmp_path / f"{number}.{kind}" for number in range(2)]
    for path in paths:
        draw_record(RECORDS["sensitivity"], path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_pictures_of_nothing(tmp_path):
    for kind in ("comparison", "ablation"):
        record = Record("empty", kind, "Empty", {"methods": [], "results": []})
        with pytest.raises(ValueError, match="the record 'empty' has nothing to draw"):
            draw_record(record, tmp_path / "picture.png")


def test_fonts_of_older_versions():
    """Some versions of matplotlib write the size and the font in one."""
    style = "font: bold 9px 'DejaVu Sans', sans-serif; text-anchor: middle; fill: #010203"
    assert _style(style, {"#010203": "red"}) == "font-size:9px;text-anchor:middle;fill:red"


def test_pictures_of_other_kinds(tmp_path):
    with pytest.raises(ValueError, match=r"must end with \.png, \.svg or \.pdf"):
        draw_record(RECORDS["sensitivity"], tmp_path / "picture.bmp")

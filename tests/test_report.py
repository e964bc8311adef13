"""The report: what comes from data stays text, every kind of record is shown, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
import reports
from hypothesis import example, given, settings
from hypothesis import strategies as st
from page_reader import DRAWING, Reader

from hera_fast.cli import main
from hera_fast.experiments.plain import plain
from hera_fast.experiments.records import Record, save_record
from hera_fast.report.formats import as_number, as_numbers, format_duration, format_number
from hera_fast.report.html import Html, clean, escape, tag
from hera_fast.report.tables import Cell, Column, make_table

pytest.importorskip("matplotlib")

from hera_fast.report import make_page, write_report
from hera_fast.report.figures import legend_of, panels_of

RECORDS = {record.name: record for record in reports.all_records()}
RECORDS["no-truth"] = reports.comparison(truth=False, datasets=("lost",))

#: A record that is drawn at once.
BRIEF = Record("brief", "curves", "Nothing yet", {"panels": []})

every_record = pytest.mark.parametrize("name", RECORDS)


@cache
def read(name):
    return Reader(make_page([RECORDS[name]]))


any_text = st.text(max_size=30) | st.sampled_from(reports.LABELS)


@given(any_text, any_text)
@example("\ud800", "\x00")
def test_text_cannot_become_markup(text, value):
    page = Reader(tag("p", text, [tag("b", "x"), text], title=value, id=None, hidden=True))
    assert page.skeleton == [("p", ("title", "hidden")), ("b", ())]
    assert page.attributes("title") == [clean(value)]
    assert "".join(page.texts) == clean(text) + "x" + clean(text)


def test_markup_stays_markup():
    assert tag("p", Html("<br>"), None, 3, ("<", ">")) == "<p><br>3&lt;&gt;</p>"
    assert tag("meta", name="viewport") == '<meta name="viewport">'
    assert isinstance(escape("a"), Html)


@given(st.text())
def test_clean_text_can_be_written(text):
    cleaned = clean(text)
    cleaned.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", cleaned)


names = st.lists(any_text.filter(str.strip), min_size=3, max_size=6, unique=True)


@settings(max_examples=5)
@given(names)
@example(list(reports.LABELS[:4]))
@example(["\ud800<", "\x00\x1b[31m", "$a$b$", "_x", "\u202e<b>"])
def test_labels_are_text(labels):
    page = make_page([reports.disambiguation(labels)])
    page.encode()
    reader = Reader(page)
    harmless = Reader(make_page([reports.disambiguation([f"l{i}" for i in range(len(labels))])]))
    assert reader.skeleton == harmless.skeleton
    assert {name for name, _ in reader.drawn} <= DRAWING
    for label in labels:
        assert clean(label) in reader.texts


def hostile(record, text):
    """Return a record whose texts, but for those with a meaning, all end with a text."""
    kept = {"kind", "x_scale", "y_scale", "mark", "sha256", "created"}
    numbers = {"figures", "counts", "histogram", "x", "y", "sd", "history"}

    def spoil(value, key=""):
        if key in kept or key in numbers:
            return value
        if isinstance(value, dict):
            # Names of methods and data sets stay: texts refer to each other by them.
            return {name: spoil(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [spoil(part, key) for part in value]
        if isinstance(value, str) and key not in (
            "name",
            "dataset",
            "group",
            "method",
            "reference",
        ):
            return value + text
        return value

    return replace(
        record,
        title=record.title + text,
        body=spoil(record.body),
        notes=spoil(record.notes),
        about=spoil(record.about),
        datasets=spoil(record.datasets),
    )


@every_record
def test_all_texts_of_records_are_escaped(name):
    record = RECORDS[name]
    text = f"{reports.SCRIPT}{reports.IMAGE}'\"&amp;</td></section>"
    reader = Reader(make_page([hostile(record, text)]))
    assert reader.skeleton == read(name).skeleton
    assert {element for element, _ in reader.drawn} <= DRAWING
    assert record.title + text in reader.texts


@every_record
def test_every_kind_is_shown(name):
    record, reader = RECORDS[name], read(name)
    text = " ".join(reader.texts)
    assert record.title in reader.texts
    figures = [panel for panel in panels_of(record) if panel.display is not None]
    assert sum(element == ("figure", {}) for element in reader.elements) == len(panels_of(record))
    for panel in figures:
        assert panel.title in reader.texts
        assert panel.description in reader.texts
        assert "nan" not in panel.description
    for title, _ in legend_of(record):
        assert title in text
    for note in record.notes:
        assert note in text
    for part in ("hera-fast reproduce all", "seed", "3.11.7", "An Invented Processor"):
        assert part in text
    for data in record.datasets:
        assert data["sha256"] in text


def test_figures_of_each_kind():
    kinds = {name: {panel.group for panel in panels_of(record)} for name, record in RECORDS.items()}
    assert kinds["table-real"] == {"Ranks", "Methods on each data set"}
    assert kinds["table-uci-accuracies"] == {"Ranks"}
    assert kinds["table-uci"] == set()
    assert kinds["figure-uci"] == {"r = 1", "r = 2", "r = 3"}
    assert kinds["ablation"] == {"Differences"}
    assert [panel.title for panel in panels_of(RECORDS["disambiguation-lost"])] == [
        "Confidence in the picked labels",
        "Convergence",
        "Labels that are candidates together",
        "Leading factors of the noise E",
    ]


def test_tables_beside_print():
    text = "".join(read("table-real").texts + read("table-uci").texts)
    assert "printed 0.712 ± 0.035" in text
    assert "worse than HERA" in text
    assert "wrong in print" in text
    assert "on Soccer Player HERA (0.539) is marked inferior to a method with 0.525" in text
    assert "printed 23/3/223 wins, 3 ties, 2 losses" in text
    assert "the sum of Satimage is printed as 87/75/6, but is 88/75/6" in text
    assert "189 of 1,764 cells" in text
    assert "3\xa0h 12\xa0min with 2 processes" in text


def test_losses_stand_in_the_summary():
    figures = {"better": [0.8, 0.9, 0.8, 0.9], "hera": [0.6, 0.7, 0.61, 0.7]}
    results = [
        {"dataset": name, "method": method, "figures": {"inductive": values}}
        for name in (f"set {i}" for i in range(10))
        for method, values in figures.items()
    ]
    methods = [{"name": name, "title": name} for name in figures]
    body = {"reference": "hera", "methods": methods, "results": results}
    text = "".join(Reader(make_page([Record("a", "comparison", "A", body)])).texts)
    assert "hera has the best mean in 0 of 10 cases. Significantly better: better on set 0" in text
    assert "and 2 more." in text
    body["results"] = results[:2]
    text = "".join(Reader(make_page([Record("a", "comparison", "A", body)])).texts)
    assert "hera does not have the best mean. Significantly better: better on set 0." in text


def test_without_truth_the_lift_counts():
    text = "".join(read("no-truth").texts)
    assert "The truth is not known." in text
    assert "Predictions among the candidates, above chance" in text
    text = "".join(Reader(make_page([reports.disambiguation(["a", "b"], truth=False)])).texts)
    assert "The truth is not known." in text


def test_the_same_records_make_the_same_page():
    import matplotlib

    records = [RECORDS["ablation"], RECORDS["disambiguation-lost"], RECORDS["convergence"]]
    page = make_page(records)
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "axes.grid": True}):
        assert make_page(records) == page
    # A record that was written and read again is the same.
    again = [Record(**json.loads(json.dumps(plain(vars(record))))) for record in records]
    assert make_page(again) == page


@pytest.fixture(scope="module")
def whole():
    return make_page(list(RECORDS.values()))


def test_only_the_script_of_the_page_may_run(whole):
    reader = Reader(whole)
    (policy,) = [value for value in reader.attributes("content") if "default-src" in value]
    (script,) = re.findall("<script>(.*?)</script>", whole, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy
    names = {name for _, attributes in reader.elements + reader.drawn for name in attributes}
    assert not any(name.startswith("on") for name in names)


def test_nothing_is_loaded(whole):
    reader = Reader(whole)
    assert "http://" not in whole
    assert "https://" not in whole
    assert "@import" not in whole
    assert reader.attributes("src") == []
    assert all(href.startswith(("#", "data:")) for href in reader.attributes("href"))
    assert all(target.startswith("#") for target in re.findall(r"url\((.*?)\)", whole))


def test_names_inside_the_page_are_unique_and_known(whole):
    reader = Reader(whole)
    counts = Counter(reader.attributes("id"))
    assert set(counts.values()) == {1}
    used = {href[1:] for href in reader.attributes("href") if href.startswith("#")}
    used |= set(re.findall(r"url\(#(.*?)\)", whole))
    for attribute in ("aria-labelledby", "aria-describedby"):
        used |= {name for value in reader.attributes(attribute) for name in value.split()}
    assert used <= set(counts)


def test_headings_do_not_skip_levels(whole):
    levels = [int(name[1]) for name, _ in Reader(whole).elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_figures_take_the_colours_of_the_page(whole):
    drawings = re.findall("<svg.*?</svg>", whole, re.DOTALL)
    assert all("#010203" not in drawing and "font-family" not in drawing for drawing in drawings)
    assert any("var(--series-1)" in drawing for drawing in drawings)
    assert any("currentColor" in drawing for drawing in drawings)


def test_records_of_different_machines():
    one, other = (
        replace(BRIEF, title=name, about={"command": name, "machine": {"system": name}})
        for name in ("one", "other")
    )
    text = "".join(Reader(make_page([one, other])).texts)
    assert f"Of {one.title}." in text
    assert f"Of {other.title}." in text
    assert "Of " not in "".join(Reader(make_page([one, replace(other, about=one.about)])).texts)


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    for name in ("convergence", "table-uci"):
        save_record(folder, RECORDS[name])
    return folder


def test_the_file(run_dir):
    path = write_report(run_dir)
    assert path == run_dir / "report.html"
    page = path.read_text(encoding="utf-8")
    assert page == make_page([RECORDS["table-uci"], RECORDS["convergence"]])
    assert page.startswith('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">')


def test_a_file_stays_if_a_record_is_broken(run_dir):
    (run_dir / "report.html").write_text("before")
    save_record(run_dir, Record("broken", "curves", "Broken", {}))
    with pytest.raises(ValueError, match="broken"):
        write_report(run_dir)
    assert (run_dir / "report.html").read_text() == "before"
    assert sorted(path.name for path in run_dir.iterdir()) == ["records", "report.html"]


def test_command(run_dir, capsys):
    assert main(["report", str(run_dir)]) == 0
    size = (run_dir / "report.html").stat().st_size
    printed = capsys.readouterr()
    assert printed.out == f"{run_dir}/report.html: 2 results, {round(size / 1000)} kB\n"
    assert printed.err == ""


def test_command_for_programs(run_dir, tmp_path, capsys):
    target = tmp_path / "other.html"
    assert main(["report", str(run_dir), "--out", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": str(target),
        "bytes": target.stat().st_size,
        "records": ["table-uci", "convergence"],
    }
    assert not (run_dir / "report.html").exists()


def test_command_without_records(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nowhere")]) == 1
    assert "is no run directory with results" in capsys.readouterr().err


@pytest.mark.parametrize("target", [".", "nowhere/report.html"])
def test_command_without_a_place(run_dir, target, tmp_path, capsys):
    assert main(["report", str(run_dir), "--out", str(tmp_path / target)]) == 1
    assert "folder" in capsys.readouterr().err


def test_command_without_matplotlib(run_dir, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["report", str(run_dir)]) == 1
    assert "needs matplotlib: pip install 'hera-fast[plot]'" in capsys.readouterr().err


def test_numbers_of_records():
    assert as_numbers(None).tolist() == []
    with pytest.raises(TypeError, match="True is no number"):
        as_number(True)
    with pytest.raises(TypeError, match="'ab' is no list of numbers"):
        as_numbers("ab")


def test_numbers_for_readers():
    assert format_number(-0.0001) == "0.000"
    assert [format_duration(each).replace("\xa0", " ") for each in (0, 59.7, 3600, 86400, 9e5)] == [
        *("0 s", "1 min", "1 h", "1 d", "10 d 10 h"),
    ]
    assert format_duration(float("nan")) == "–"


def test_tables():
    rows = [[Cell("a"), Cell("1", 1.0)], [Cell("b", "B"), Cell("–", float("nan"))]]
    table = make_table("All", [Column("x", numeric=False), Column("y")], rows, footer=rows[0])
    reader = Reader(table)
    assert reader.attributes("data-value") == ["1.0", "B", "", "1.0"]
    assert reader.attributes("data-type") == ["text", "number"]
    assert reader.attributes("scope") == ["col", "col", "row", "row", "row"]
    assert reader.texts == ["All", "x", "y", "a", "1", "b", "–", "a", "1"]

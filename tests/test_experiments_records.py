"""Records and run directories: written whole, read with checks, made into tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from uci_like import write_real_like, write_uci_like

from hera_fast.experiments.catalogue import EXPERIMENTS, available_sets, run_experiment
from hera_fast.experiments.methods import METHODS, OTHERS, SEVEN
from hera_fast.experiments.plans import Scope, compare_results
from hera_fast.experiments.records import Record, load_records, save_record
from hera_fast.experiments.tables import configurations
from hera_fast.experiments.texts import text_tables, to_markdown

own_data = pytest.mark.filterwarnings("ignore:.*not a known copy:UserWarning")


def test_records_come_back(tmp_path):
    record = Record("mine", "curves", "Ümlaut", {"panels": [np.float64(1), np.nan]}, notes=["a"])
    path = save_record(tmp_path / "new", record)
    assert path.name == "mine.json"
    (found,) = load_records(tmp_path / "new")
    assert found.title == "Ümlaut"
    assert found.body == {"panels": [1.0, None]}
    assert found.notes == ["a"]


def test_records_are_sorted_as_in_the_paper(tmp_path):
    names = ["zebra", "convergence", "table-uci", "ablation", "table-real", "bees"]
    for name in names:
        save_record(tmp_path, Record(name, "curves", name, {}))
    found = [record.name for record in load_records(tmp_path)]
    assert found == ["table-real", "table-uci", "convergence", "ablation", "bees", "zebra"]


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "UPPER", "a" * 200, "nul\0"])
def test_names_that_could_leave_the_folder(name):
    with pytest.raises(ValueError, match="cannot name a record"):
        Record(name, "curves", "", {})


def test_unknown_kind():
    with pytest.raises(ValueError, match="no records of the kind 'pie'"):
        Record("a", "pie", "", {})


def test_no_records(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run directory with results"):
        load_records(tmp_path / "nothing")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1, 2]",
        b"null",
        b"{",
        b"{}",
        b'{"format": "hera-fast record", "format_version": 9}',
        b'{"format": "hera-fast record", "format_version": 1, "name": "x", "kind": "curves"}',
        b'{"format": "hera-fast record", "format_version": 1, "name": "x", "kind": "curves", '
        b'"title": "t", "body": 3}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_damaged_records_are_named(content, tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "broken.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.json cannot be read"):
        load_records(tmp_path)


def test_the_grid_of_the_paper():
    assert len(configurations()) == 28
    assert len(set(configurations())) == 28
    assert set(configurations(fast=True)) <= set(configurations())
    sets = EXPERIMENTS["table-uci"].datasets(False)
    cells = EXPERIMENTS["table-uci"].cells(Scope(tuple(sets)))
    assert len(set(cells)) == 252 * 7
    curves = [
        cell
        for name in ("figure-uci", "figure-epsilon")
        for cell in EXPERIMENTS[name].cells(Scope(tuple(sets)))
    ]
    # The figures show what the table counts: not one more cell.
    assert set(curves) == set(cells)


@own_data
def test_sets_that_are_not_there_are_named(tmp_path, monkeypatch):
    write_real_like(tmp_path, ("lost",))
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    found, missing = available_sets("table-real", fast=False)
    assert found == ("lost",)
    assert set(missing) == {"msrcv2", "birdsong", "soccer-player", "fg-net", "yahoo-news"}
    with pytest.raises(ValueError, match="table-real has no data set 'glass'"):
        available_sets("table-real", fast=False, wanted=["glass"])


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Run an experiment on small data sets."""
    write_real_like(tmp_path, ("lost", "msrcv2"))
    write_uci_like(tmp_path, ("glass", "ecoli"))
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path))

    def run(name, datasets, *, fast=True):
        scope = Scope(datasets, fast=fast, folds=2, seed=0)
        return run_experiment(name, scope, tmp_path / "run", command=f"x {name}", n_jobs=1)

    return run


@own_data
def test_table_real(runs, tmp_path):
    (record,) = runs("table-real", ("lost",))
    held_out, transductive = text_tables(record)
    assert held_out.header == ["", "Lost"]
    titles = [row[0] for row in held_out.rows[::2]]
    assert titles == [METHODS[name].title for name in ("hera", "hera-paper", "hera-paper-100")] + [
        METHODS[name].title for name in OTHERS
    ]
    assert held_out.rows[1] == ["  printed", "0.712 ± 0.035  "]
    assert len(transductive.rows) == len(held_out.rows) / 2
    comparison = compare_results(record.body["results"], metric="inductive", reference="hera")
    means = dict(zip(comparison.summary["estimator"], comparison.summary["mean"], strict=True))
    assert held_out.rows[0][1].startswith(f"{means['hera']:.3f} ± ")
    assert load_records(tmp_path / "run")[0].body["reference"] == "hera"
    text = to_markdown(record)
    assert "`x table-real`" in text
    assert "numpy " in text
    assert "Soccer Player HERA (0.539) is marked inferior" in text


@own_data
def test_table_uci(runs):
    counts, accuracies = runs("table-uci", ("glass", "ecoli"))
    (table,) = text_tables(counts)
    assert [row[0] for row in table.rows] == ["Glass", "  printed", "Ecoli", "  printed", "sum"]
    for row in counts.body["rows"]:
        assert all(sum(cell) == 3 for cell in row["counts"].values())
    tests = compare_results(accuracies.body["results"], metric="inductive", reference="hera").tests
    wins = list(zip(tests["estimator"], tests["outcome"], strict=True)).count(("clpl", "win"))
    assert counts.body["sums"]["clpl"][0] == wins
    prediction = counts.body["prediction"]
    assert prediction["cells_done"] == 2 * 3 * 7
    assert prediction["cells_full"] == 2 * 28 * 7
    assert prediction["seconds_full"] == pytest.approx(prediction["seconds_done"] * 28 / 3)
    assert accuracies.name == "table-uci-accuracies"
    assert accuracies.body["results"][0]["dataset"] == "Glass, p = 0.7, r = 1"


def test_printed_sums_are_marked_where_they_are_wrong():
    from hera_fast.experiments.published import COUNT_SUMS, COUNTS

    body = {
        "reference": "hera",
        "others": [{"name": name, "title": name} for name in OTHERS],
        "rows": [
            {"dataset": n, "title": n, "counts": row, "published": row} for n, row in COUNTS.items()
        ],
        "sums": COUNT_SUMS,
        "published_sums": COUNT_SUMS,
        "errors": ["an error"],
        "prediction": None,
    }
    (table,) = text_tables(Record("a", "win-tie-loss", "", body))
    marked = {name for name, cell in zip(OTHERS, table.rows[-1][1:], strict=True) if "!" in cell}
    assert marked == {"lsb-cmm", "clpl", "pl-ecoc", "paloc"}
    assert table.notes == ["wrong in print: an error"]


@own_data
def test_curves(runs):
    (record,) = runs("figure-uci", ("glass",))
    panels = record.body["panels"]
    assert [panel["group"] for panel in panels] == ["r = 1", "r = 3"]
    for panel in panels:
        assert panel["x"] == [0.1, 0.4, 0.7]
        assert [series["name"] for series in panel["series"]] == list(SEVEN)
        assert all(len(series["y"]) == 3 for series in panel["series"])
    assert text_tables(record)[0].header == ["p", "0.1", "0.4", "0.7"]
    (record,) = runs("figure-epsilon", ("glass",))
    assert record.body["panels"][0]["x"] == [0.1, 0.4, 0.7]


@own_data
def test_sensitivity(runs):
    (record,) = runs("sensitivity", ("lost",))
    panels = {panel["x_label"]: panel for panel in record.body["panels"]}
    assert list(panels) == ["α", "β", "μ", "ν"]
    assert [series["name"] for series in panels["β"]["series"]] == ["paper", "simplex"]
    mu = {series["name"]: series["y"] for series in panels["μ"]["series"]}
    assert np.isfinite(mu["paper"]).all()
    assert np.isnan(mu["simplex"][-1])  # 10 is not less than alpha


@own_data
def test_convergence(runs):
    (record,) = runs("convergence", ("lost",))
    titles = [panel["title"] for panel in record.body["panels"]]
    assert titles[0] == "Lost: W, steps of gradient descent"
    assert len(titles) == 4
    for panel in record.body["panels"]:
        for series in panel["series"]:
            assert len(series["y"]) == len(panel["x"])
    whole = record.body["panels"][2]
    assert [series["name"] for series in whole["series"]] == ["hera-paper", "hera"]


@own_data
def test_ablation(runs):
    (record,) = runs("ablation", ("lost", "msrcv2"))
    variants = [method["name"] for method in record.body["methods"]]
    assert variants[0] == "hera"
    assert len(record.body["results"]) == 2 * len(variants)
    assert [row[0] for row in text_tables(record)[0].rows][:2] == ["the default", "features only"]


@own_data
def test_disambiguation(runs):
    (record,) = runs("disambiguation", ("lost",))
    assert record.name == "disambiguation-lost"
    assert [data["name"] for data in record.datasets] == ["lost"]
    assert record.body["rows"] == 60
    json.dumps(record.body)

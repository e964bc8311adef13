"""Labels for training rows, and what is told about them."""

from __future__ import annotations

import numpy as np
import pytest
from commands import (
    LABELS,
    SHORT,
    animals,
    assert_clean,
    read_csv,
    run,
    said,
    said_json,
    same_bits,
    slow_to_converge,
)

from hera_fast.data_files import load_partial_labels, save_partial_labels
from hera_fast.experiments.records import load_records
from hera_fast.pipeline_files import load_model


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_partial_labels("animals.csv", animals())
    return tmp_path


def picked(*arguments):
    assert run("disambiguate", "animals.csv", "--out", "labels.csv", *SHORT, *arguments) == 0
    return read_csv("labels.csv")


def test_labels_are_those_of_the_model(folder):
    table = picked()
    assert run("fit", "animals.csv", "--out", "model.hera", *SHORT) == 0
    model = load_model("model.hera")[-1]
    assert [int(row["row"]) for row in table] == list(range(80))
    assert [row["label"] for row in table] == model.transduction_.tolist()
    same_bits([row["confidence"] for row in table], model.confidence_.max(axis=1))


def test_runners_up_and_margins(folder):
    table = picked()
    assert run("fit", "animals.csv", "--out", "model.hera", *SHORT) == 0
    model = load_model("model.hera")[-1]
    bunch = load_partial_labels("animals.csv")
    names = bunch.target_names
    for row, confidence, own in zip(table, model.confidence_, bunch.candidates, strict=True):
        assert row["candidates"].split("|") == names[own.indices].tolist()
        if own.nnz == 1:
            assert (row["runner_up"], row["margin"]) == ("", "1.0")
        else:
            first, second = np.sort(confidence[own.indices])[::-1][:2]
            assert float(row["margin"]) == first - second
            assert row["runner_up"] in set(names[own.indices]) - {row["label"]}


def test_the_truth(folder, capsys):
    table = picked()
    truth = animals().target_names[animals().target]
    assert [row["target"] for row in table] == truth.tolist()
    right = [row["label"] == row["target"] for row in table]
    assert [row["right"] for row in table] == ["true" if r else "false" for r in right]
    assert said_json(capsys, "disambiguate", "animals.csv", *SHORT)["accuracy"] == np.mean(right)
    save_partial_labels("animals.tsv", animals(target=None))
    assert run("disambiguate", "animals.tsv", "--out", "other.csv", *SHORT) == 0
    assert list(read_csv("other.csv")[0]) == list(table[0])[:-2]


def test_the_most_doubtful_first(folder):
    table = picked("--sort", "doubtful")
    margins = [float(row["margin"]) for row in table]
    assert margins == sorted(margins)
    assert sorted(int(row["row"]) for row in table) == list(range(80))


def test_what_is_said(folder, capsys):
    written = said(capsys, "disambiguate", "animals.csv", "--out", "labels.csv", *SHORT)
    assert "most doubtful rows\n" in written.out
    assert "0.9 to 1.0" in written.out
    assert "true label:      picked in " in written.out
    assert written.out.endswith("80 labels: labels.csv\n")
    assert_clean(written.out)
    assert "es\\x1b[31mcape" in written.out
    assert not any(len(line) > 80 for line in written.out.splitlines())
    # Without --out, it is a summary only.
    assert "labels.csv" not in said(capsys, "disambiguate", "animals.csv", *SHORT).out


def test_what_programs_are_told(folder, capsys):
    result = said_json(capsys, "disambiguate", "animals.csv", *SHORT)
    assert result["out"] is None
    assert sum(result["histogram"]["counts"]) == 80
    assert len(result["doubtful"]) == 10
    assert result["doubtful"][0].keys() == {
        *("row", "label", "confidence", "runner_up", "margin", "candidates", "truth")
    }
    result = said_json(capsys, "disambiguate", "animals.csv", *SHORT, "--out", "x.csv")
    assert result["out"] == "x.csv"


def test_the_standard_output_is_the_table(folder, capsys):
    picked()
    expected = (folder / "labels.csv").read_text(encoding="utf-8")
    call = ["disambiguate", "animals.csv", "--out", "-", "--run-dir", "run"]
    written = said(capsys, *call, *SHORT)
    assert (written.out, written.err) == (expected, "")


def test_a_record_for_the_report(folder, capsys):
    call = ["disambiguate", "animals.csv", "--run-dir", "run", *SHORT]
    result = said_json(capsys, *call, "--seed", "3")
    (record,) = load_records("run")
    assert result["record"].endswith(f"{record.name}.json")
    assert record.name.startswith("disambiguation-animals-")
    assert record.kind == "disambiguation"
    assert record.body["accuracy"] == result["accuracy"]
    assert record.body["dataset"] == record.datasets[0]["name"] == "animals.csv"
    assert record.about["settings"]["seed"] == 3
    assert record.about["settings"]["n_components"] == 20
    assert set(record.body["labels"]) == set(LABELS)
    assert "record: run" in said(capsys, *call).out


@pytest.mark.parametrize("name", ["Größe (neu).csv", "./---.csv", "x" * 150 + ".csv"])
def test_any_file_name_makes_a_record(name, folder):
    save_partial_labels(name, animals())
    assert run("disambiguate", name, "--run-dir", "run", *SHORT) == 0
    assert len(load_records("run")) == 1


@slow_to_converge
def test_confidences_of_the_paper(folder):
    """They need not be between 0 and 1."""
    table = picked("--method", "hera-paper", "--set", "max_iter=20")
    assert len(table) == 80


def test_rows_that_leave_nothing_open(folder, capsys):
    bunch = animals()
    save_partial_labels("sure.npz", animals(candidates=np.eye(4, dtype=bool)[bunch.target]))
    written = said(capsys, "disambiguate", "sure.npz", *SHORT)
    assert "doubtful" not in written.out
    assert "picked in 100.0% of all rows" in written.out

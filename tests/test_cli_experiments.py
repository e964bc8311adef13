"""The commands evaluate and reproduce: tables, files, what is kept, what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from commands import LABELS, animals, assert_clean, run, run_process, said, said_json
from uci_like import write_real_like, write_uci_like

from hera_fast import cross_validate_partial
from hera_fast.data_files import save_partial_labels
from hera_fast.experiments import cells
from hera_fast.experiments.methods import METHODS, OTHERS, make_method
from hera_fast.experiments.records import load_records

own_data = pytest.mark.filterwarnings("ignore:.*not a known copy:UserWarning")
FAST = ["--folds", "2", "--jobs", "1"]


@pytest.fixture
def animals_file(tmp_path):
    path = tmp_path / "animals.csv"
    save_partial_labels(path, animals())
    return path


@pytest.fixture
def data_sets(tmp_path, monkeypatch):
    write_uci_like(tmp_path / "data", ("glass",))
    write_real_like(tmp_path / "data", ("lost",))
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))


# ---- evaluate ----------------------------------------------------------------------------------


def test_evaluate_is_a_cross_validation(animals_file, capsys):
    written = said_json(
        capsys, "evaluate", animals_file, "--methods", "pl-knn,clpl", "--seed", "4", *FAST
    )
    bunch = animals()
    table = cross_validate_partial(
        {name: make_method(name, {}, 4) for name in ("pl-knn", "clpl")},
        *(bunch.data, bunch.candidates, bunch.target),
        cv=2,
        random_state=4,
    )
    for result in written["results"]:
        expected = np.asarray(table["inductive"])[
            np.asarray(table["estimator"]) == result["method"]
        ]
        assert result["figures"]["inductive"] == expected.tolist()
        assert result["dataset"] == "animals"
    assert written["reference"] == "pl-knn"
    assert set(written["ranks"]) == {"PL-KNN", "CLPL"}
    means = {row["estimator"]: row["mean"] for row in written["summary"]}
    assert means == {
        result["method"]: pytest.approx(np.mean(result["figures"]["inductive"]))
        for result in written["results"]
    }
    assert [row["outcome"] for row in written["tests"]] != []


def test_evaluate_shows_a_table(animals_file, capsys):
    written = said(capsys, "evaluate", animals_file, "--methods", "clpl,pl-knn", *FAST)
    assert written.err == ""
    assert_clean(written.out)
    lines = written.out.splitlines()
    assert lines[0] == "Held-out accuracy"
    assert lines[3].startswith("CLPL")
    assert "worse than CLPL" in written.out
    assert "average ranks over folds: " in written.out


def test_evaluate_without_truth(tmp_path, capsys):
    path = tmp_path / "animals.npz"
    save_partial_labels(path, animals(target=None))
    written = said(capsys, "evaluate", path, "--methods", "pl-knn,clpl", *FAST)
    assert written.out.startswith("Lift")
    assert "accuracy" not in written.out.lower()


def test_evaluate_keeps_cells_and_a_record(animals_file, tmp_path, capsys, monkeypatch):
    calls = []
    compute = cells.compute
    monkeypatch.setattr(cells, "compute", lambda cell: calls.append(cell) or compute(cell))
    arguments = ["evaluate", animals_file, "--methods", "pl-knn", *FAST]
    arguments += ["--run-dir", tmp_path / "run"]
    first = said_json(capsys, *arguments)
    again = said_json(capsys, *arguments)
    assert len(calls) == 1
    assert first == again
    (record,) = load_records(tmp_path / "run")
    assert record.name.startswith("evaluate-animals-")
    said(capsys, *arguments, "--seed", "1")
    assert len(load_records(tmp_path / "run")) == 2  # another result replaces nothing
    assert record.datasets[0]["labels"] == len(LABELS)
    assert record.about["command"].startswith("hera-fast evaluate ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "herra"], "there is no method 'herra', but hera, "),
        (["--methods", "clpl,clpl"], "the method 'clpl' is there twice"),
        (["--methods", ""], "there is no method ''"),
        (["--folds", "1"], "--folds must be 2 or more"),
        (["--folds", "x"], "'x' is not a whole number"),
        (["--jobs", "0"], "must be 1 or more"),
        (["--seed", "-1"], "must be from 0 to 4294967295"),
    ],
)
def test_wrong_usage_of_evaluate(arguments, message, animals_file, capsys):
    assert message in said(capsys, "evaluate", animals_file, *arguments, code=2).err


def test_too_many_folds(animals_file, capsys):
    written = said(capsys, "evaluate", animals_file, "--folds", "500", code=1)
    assert "has 80 rows, too few for 500 folds" in written.err


# ---- reproduce ---------------------------------------------------------------------------------


@own_data
@pytest.mark.usefixtures("data_sets")
def test_reproduce(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["reproduce", "table-uci", "--fast", "--datasets", "glass", *FAST]
    written = said(capsys, *arguments, "--run-dir", "run")
    assert_clean(written.out)
    assert "Wins/ties/losses of HERA" in written.out
    assert "all 28 kinds of candidates, 196 cells, would take about" in written.out
    assert "wrong in print" not in written.out  # nothing of what is printed about Glass
    assert sorted(path.name for path in (tmp_path / "run" / "tables").iterdir()) == [
        "table-uci-accuracies.md",
        "table-uci.md",
    ]
    text = (tmp_path / "run" / "tables" / "table-uci.md").read_text("utf-8")
    assert "`hera-fast reproduce table-uci --fast --datasets glass --folds 2 --seed 0`" in text
    names = [record.name for record in load_records("run")]
    assert names == ["table-uci", "table-uci-accuracies"]


@own_data
@pytest.mark.usefixtures("data_sets")
def test_reproduce_draws_figures(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    arguments = ["reproduce", "figure-epsilon", "--fast", "--datasets", "glass", *FAST]
    said(capsys, *arguments, "--run-dir", tmp_path / "run")
    picture = tmp_path / "run" / "figures" / "figure-epsilon.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


@own_data
@pytest.mark.usefixtures("data_sets")
def test_reproduce_for_programs(tmp_path, capsys):
    written = said(
        capsys,
        *("reproduce", "table-real", "--datasets", "lost", "--json", *FAST),
        *("--run-dir", tmp_path / "run"),
    )
    results = json.loads(written.out)["results"]["table-real"]
    assert {result["method"] for result in results["results"]} == set(METHODS)
    assert {*OTHERS, "hera"} <= set(results["published"]["lost"])


@own_data
@pytest.mark.usefixtures("data_sets")
def test_sets_that_are_not_there(tmp_path, capsys):
    written = said(
        capsys, "reproduce", "convergence", "--datasets", "msrcv2", "--run-dir", tmp_path, code=1
    )
    assert "convergence needs at least one of the data sets msrcv2" in written.err
    assert not (tmp_path / "cells").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-9"], "invalid choice: 'table-9'"),
        (["table-real", "--datasets", "glass"], "table-real has no data set 'glass'"),
        (["all", "--datasets", "lost"], "--datasets needs one experiment"),
        (["table-real", "--folds", "1"], "--folds must be 2 or more"),
    ],
)
def test_wrong_usage_of_reproduce(arguments, message, capsys):
    assert message in said(capsys, "reproduce", *arguments, code=2).err


@own_data
@pytest.mark.usefixtures("data_sets")
def test_an_interrupt_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupt(cell):
        raise KeyboardInterrupt

    monkeypatch.setattr(cells, "compute", interrupt)
    arguments = ["reproduce", "table-uci", "--fast", "--datasets", "glass", *FAST]
    assert run(*arguments, "--run-dir", tmp_path / "run") == 130
    assert "the same command goes on from there" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@own_data
@pytest.mark.usefixtures("data_sets")
def test_a_worker_that_dies(tmp_path):
    code = f"""
import os, sys
from hera_fast.experiments import cells
from hera_fast.cli import main

def die(*arguments):
    os.kill(os.getpid(), 9)

if __name__ == "__main__":
    cells._compute_and_write = die
    sys.exit(main(["reproduce", "table-uci", "--fast", "--datasets", "glass", "--folds", "2",
                   "--jobs", "2", "--run-dir", {str(tmp_path / "run")!r}]))
"""
    script = tmp_path / "die.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "a process that computed a cell died" in done.stderr
    assert "Traceback" not in done.stderr


def test_reproduce_without_data_sets(tmp_path, monkeypatch):
    monkeypatch.delenv("HERA_FAST_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = run_process("reproduce", "table-real", folder=tmp_path)
    assert done.returncode == 1
    assert "HERA_FAST_DATA" in done.stderr
    assert done.stdout == ""

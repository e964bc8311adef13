"""The command line as a whole: help, exit codes, what goes where."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from commands import ROOT, SHORT, animals, assert_clean, run, run_process, said, said_json

import hera_fast
from hera_fast.cli.main import make_parser
from hera_fast.data_files import save_partial_labels
from hera_fast.pipeline_files import save_model

COMMANDS = sorted(make_parser()._subparsers._group_actions[0].choices)
# One call of each command that needs a data set.
CALLS = {
    "info": ["info", "DATA"],
    "fit": ["fit", "DATA", "--out", "OUT", *SHORT],
    "predict": ["predict", "MODEL", "DATA", "--out", "OUT"],
    "disambiguate": ["disambiguate", "DATA", "--out", "OUT", *SHORT],
    "tune": ["tune", "DATA", "--out", "OUT", "--folds", "2", "--try", "kernel=None", *SHORT],
}
every_command = pytest.mark.parametrize("command", COMMANDS)
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    bunch = animals()
    save_partial_labels(folder / "animals.csv", bunch)
    model = hera_fast.HERAClassifier(n_components=20, random_state=0)
    save_model(model.fit(bunch.data, bunch.candidates), folder / "model.hera")
    return folder


def filled(call, files, tmp_path, **changes):
    places = {
        "DATA": files / "animals.csv",
        "MODEL": files / "model.hera",
        "OUT": tmp_path / "out",
        **changes,
    }
    return [str(places.get(word, word)) for word in call]


# ---- help --------------------------------------------------------------------------------------


def examples(text):
    """The calls in a help text, without what is said about them and what the shell does."""
    lines = re.findall(r"^  hera-fast (.*)$", text.split("examples:\n", 1)[1], re.M)
    return [re.split(r"  +| [|>] ", line.replace("COMMAND", "info"))[0] for line in lines]


@every_command
def test_help_teaches_by_examples(command, capsys):
    written = said(capsys, command, "--help")
    calls = examples(written.out)
    assert calls
    assert calls[0].startswith(command)
    for call in calls:
        make_parser().parse_args(shlex.split(call))
    assert written.err == ""
    assert_clean(written.out)


@every_command
def test_help_fits_a_terminal(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = said(capsys, command, "--help").out.splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_help_of_all(capsys):
    written = said(capsys, "--help")
    calls = examples(written.out)
    assert len(calls) > 4
    for call in calls[:-1]:
        make_parser().parse_args(shlex.split(call))
    for command in COMMANDS:
        assert f"\n    {command}" in written.out
    assert "exit codes: 0 done" in written.out


def test_version(capsys):
    assert said(capsys, "--version").out == f"hera-fast {hera_fast.__version__}\n"


# ---- exit codes --------------------------------------------------------------------------------

WRONG_USAGE = {
    "no command": [],
    "unknown command": ["guess"],
    "no data": ["info"],
    "unknown option": ["info", "digits", "--fast"],
    "no file for the model": ["fit", "digits"],
    "unknown parameter": ["fit", "digits", "--out", "OUT", "--set", "depth=3"],
    "parameter without value": ["fit", "digits", "--out", "OUT", "--set", "nu"],
    "parameter twice": ["fit", "digits", "--out", "OUT", "--set", "nu=1", "--set", "nu=2"],
    "wrong value": ["fit", "digits", "--out", "OUT", "--set", "nu=-1"],
    "wrong type": ["fit", "digits", "--out", "OUT", "--set", "kernel=7"],
    "values that do not go together": ["fit", "digits", "--out", "OUT", "--set", "mu=3"],
    "unknown method": ["fit", "digits", "--out", "OUT", "--method", "guess"],
    "no threads": ["fit", "digits", "--out", "OUT", "--threads", "0"],
    "onto the data": ["fit", "DATA", "--out", "DATA"],
    "onto the model": ["predict", "MODEL", "DATA", "--out", "MODEL"],
    "labels onto the data": ["disambiguate", "DATA", "--out", "DATA"],
    "two outputs": ["predict", "MODEL", "DATA", "--out", "-", "--json"],
    "two outputs of labels": ["disambiguate", "DATA", "--out", "-", "--json"],
    "one fold": ["tune", "DATA", "--folds", "1"],
    "unknown scoring": ["tune", "DATA", "--scoring", "accuracy"],
    "no values": ["tune", "DATA", "--try", "nu="],
    "values twice": ["tune", "DATA", "--try", "nu=1", "--try", "nu=2"],
    "unknown name to try": ["tune", "DATA", "--try", "depth=1,2"],
    "wrong value to try": ["tune", "DATA", "--try", "nu=1,-2"],
    "set and tried": ["tune", "DATA", "--set", "kernel=None"],
    "unknown shell": ["completion", "cmd"],
}


@pytest.mark.parametrize("call", WRONG_USAGE.values(), ids=WRONG_USAGE)
def test_wrong_usage(call, files, tmp_path, capsys):
    before = {path: path.read_bytes() for path in files.iterdir()}
    written = said(capsys, *filled(call, files, tmp_path), code=2)
    assert written.out == ""
    assert written.err.startswith("usage: hera-fast")
    assert "error: " in written.err or not call
    assert not any(tmp_path.iterdir())
    assert before == {path: path.read_bytes() for path in files.iterdir()}


@every_call
def test_results_and_nothing_else(call, files, tmp_path, capsys):
    written = said(capsys, *filled(call, files, tmp_path))
    assert written.err == ""
    assert written.out
    assert_clean(written.out)
    assert max(map(len, written.out.splitlines())) <= 200


@every_call
def test_results_for_programs(call, files, tmp_path, capsys):
    result = said_json(capsys, *filled(call, files, tmp_path))
    assert next(iter(result)) == "source"
    assert result["source"] == str(files / "animals.csv")


def broken_files(folder):
    """Files that cannot be read, and what is said of them."""
    (folder / "folder.csv").mkdir()
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("x,candidates\n")
    (folder / "no candidates.csv").write_text("x,y\n1,2\n")
    (folder / "text.csv").write_text("x,candidates\nred,a\n")
    (folder / "noise.npz").write_bytes(b"\x00\x01\x02")
    (folder / "unknown.txt").write_text("x,candidates\n1,a\n")
    return {
        "nowhere.csv": "No such file",
        "folder.csv": "read from a file",
        "empty.csv": "line 1 is empty",
        "header.csv": "no row below the header",
        "no candidates.csv": "there is no column 'candidates'. The columns are",
        "text.csv": "'red' is not a number. Leave the cell empty",
        "noise.npz": "no intact .npz file",
        "unknown.txt": "must end with .csv",
    }


@pytest.mark.parametrize("command", ["info", "fit", "disambiguate", "tune"])
def test_data_that_cannot_be_read(command, files, tmp_path, capsys):
    for name, reason in broken_files(tmp_path).items():
        changes = {"DATA": tmp_path / name, "OUT": tmp_path / "result"}
        written = said(capsys, *filled(CALLS[command], files, tmp_path, **changes), code=1)
        assert written.out == ""
        assert written.err.startswith("hera-fast: error: ")
        assert str(tmp_path / name) in written.err
        assert reason in written.err
        assert "Errno" not in written.err
        assert "Traceback" not in written.err
    assert not (tmp_path / "result").exists()


def test_a_data_set_that_does_not_exist(capsys):
    written = said(capsys, "info", "nowhere", code=1)
    assert "there is no file 'nowhere', and no data set of this name but digits" in written.err


def test_a_model_is_no_data(files, tmp_path, capsys):
    written = said(capsys, "info", files / "model.hera", code=1)
    assert f"{files / 'model.hera'}: the file name must end with .csv" in written.err


@pytest.mark.parametrize("command", ["fit", "disambiguate", "predict", "tune"])
def test_where_nothing_can_be_written(command, files, tmp_path, capsys, monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("worked before it looked")

    monkeypatch.setattr(hera_fast.HERAClassifier, "fit", refuse)
    monkeypatch.setattr(hera_fast.HERAClassifier, "predict_proba", refuse)
    for place, reason in {tmp_path: "is a folder", tmp_path / "no" / "x": "does not exist"}.items():
        call = filled(CALLS[command], files, tmp_path, OUT=place)
        assert reason in said(capsys, *call, code=1).err


@pytest.mark.parametrize("command", ["fit", "disambiguate", "tune"])
def test_files_are_not_touched_on_failure(command, files, tmp_path, capsys, monkeypatch):
    def fail(*arguments, **keywords):
        raise ValueError("no luck today")

    monkeypatch.setattr(hera_fast.HERAClassifier, "fit", fail)
    (tmp_path / "out").write_text("what was there before")
    written = said(capsys, *filled(CALLS[command], files, tmp_path), code=1)
    assert written.err == "hera-fast: error: no luck today\n"
    assert (tmp_path / "out").read_text() == "what was there before"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("command", ["fit", "disambiguate", "tune"])
def test_interrupts(command, files, tmp_path, capsys, monkeypatch):
    def interrupt(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    # As the solver sees it: a fit makes do with what it has.
    monkeypatch.setattr(hera_fast.HERAClassifier, "_observer", lambda *_: interrupt)
    (tmp_path / "out").write_text("what was there before")
    written = said(capsys, *filled(CALLS[command], files, tmp_path), code=130)
    assert written.out == ""
    assert "interrupted" in written.err
    assert "warning" not in written.err
    if command != "tune":
        assert "nothing was written" in written.err
        assert "--set max_iter=" in written.err
    assert (tmp_path / "out").read_text() == "what was there before"


def test_interrupts_before_the_first_iteration(files, tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(hera_fast.HERAClassifier, "fit", interrupt)
    written = said(capsys, *filled(CALLS["fit"], files, tmp_path), code=130)
    assert written.err == "hera-fast: error: interrupted\n"


@pytest.mark.filterwarnings("always::sklearn.exceptions.ConvergenceWarning")
def test_warnings_are_said(files, tmp_path, capsys):
    call = ["fit", "DATA", "--out", "OUT", *SHORT, "--set", "max_iter=2"]
    written = said(capsys, *filled(call, files, tmp_path))
    assert written.err.startswith("hera-fast: warning: HERA did not converge in max_iter=2")
    assert written.err.count("\n") == 1


# ---- processes ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warm(files):
    """A process has compiled the kernels."""
    process = run_process("fit", files / "animals.csv", "--out", files / "other.hera", *SHORT)
    assert process.returncode == 0, process.stderr


@pytest.mark.usefixtures("warm")
def test_a_process_of_its_own(files, tmp_path):
    process = run_process("predict", "model.hera", "animals.csv", folder=files)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("row,label,probability\n0,")
    process = run_process("info", "animals.csv", "--json", folder=files)
    assert (process.returncode, process.stderr) == (0, "")
    assert json.loads(process.stdout)["rows"] == 80
    process = run_process("info", "nowhere.csv", folder=files)
    assert (process.returncode, process.stdout) == (1, "")
    assert (
        process.stderr
        == "hera-fast: error: nowhere.csv: No such file or directory: check its name\n"
    )
    assert run_process("info", folder=files).returncode == 2


@pytest.mark.usefixtures("warm")
def test_a_closed_pipe(tmp_path):
    rng = np.random.default_rng(0)
    # More than a pipe holds.
    bunch = animals(20_000, target=None)
    bunch.data = rng.standard_normal(bunch.data.shape)
    save_partial_labels(tmp_path / "many.npz", bunch)
    model = hera_fast.HERAClassifier(kernel=None).fit(bunch.data[:50], bunch.candidates[:50])
    save_model(model, tmp_path / "model.hera")
    command = f"{shlex.quote(sys.executable)} -m hera_fast predict model.hera many.npz | head -1"
    process = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (process.stdout, process.stderr) == ("row,label,probability\n", "")


def test_run_returns_codes():
    assert run("--version") == 0

"""Fits that are interrupted and gone on with: the same bits as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hera_fast import HERAClassifier, checkpoints, make_partial_classification

N, D, Q = 300, 6, 5
X, Y, TRUTH = make_partial_classification(N, D, Q, n_candidates=2.5, random_state=0)
Y = np.asarray(Y.toarray(), bool)
WEIGHTS = np.random.default_rng(0).random(N)

SETTINGS = {
    "mixture": {"n_components": 40},
    "mixture with low rank": {"n_components": 40, "nu": 0.1, "ranking": True},
    "gaussian": {"calibration": "gaussian", "tol": 1e-8},
    "gaussian, rbf": {"calibration": "gaussian", "kernel": "rbf", "n_components": 40},
    "least squares": {"calibration": None, "ranking": True, "nu": 0.1, "max_iter": 40},
    "paper": HERAClassifier.paper(max_iter=15, prediction="linear").get_params(),
}
del SETTINGS["paper"]["callback"]
every_setting = pytest.mark.parametrize("name", SETTINGS)
places = pytest.mark.parametrize("block_rows", [None, 70])


class Stop(Exception):
    """Ends a fit in the middle."""


@pytest.fixture(autouse=True)
def after_each_iteration(monkeypatch):
    monkeypatch.setattr(checkpoints, "_INTERVAL", 0.0)
    monkeypatch.setattr(checkpoints, "_TIMES_LONGER", 0)


def fit(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*arguments, **options)


def stopped(path, after, rows=X, labels=Y, **settings):
    """Leave the checkpoint of a fit that ended after some iterations."""

    def stop(state):
        if state.iteration == after:
            raise Stop

    with pytest.raises(Stop):
        fit(HERAClassifier(**settings, callback=stop), rows, labels, checkpoint=path)
    assert path.exists()


def assert_same(model, expected):
    for name in ("confidence_", "noise_"):
        arrays = [getattr(each, name) for each in (model, expected)]
        arrays = [each.toarray() if hasattr(each, "toarray") else each for each in arrays]
        np.testing.assert_array_equal(*arrays, err_msg=name)
    for name in ("coef_", "intercept_", "transduction_", "n_iter_"):
        values = (getattr(each, name) for each in (model, expected))
        np.testing.assert_array_equal(*values, err_msg=name)
    for name in set(expected.history_) - {"seconds"}:
        np.testing.assert_array_equal(model.history_[name], expected.history_[name], err_msg=name)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@every_setting
@places
@pytest.mark.parametrize("after", [2, 4])
def test_goes_on_as_if_nothing_had_happened(tmp_path, name, block_rows, after):
    path = tmp_path / "fit.checkpoint"
    settings = {**SETTINGS[name], "random_state": 0, "block_rows": block_rows}
    undisturbed = fit(HERAClassifier(**settings), X, Y)
    stopped(path, after, **settings)
    iterations = []
    model = HERAClassifier(**settings, callback=lambda state: iterations.append(state.iteration))
    assert_same(fit(model, X, Y, checkpoint=path, resume=True), undisturbed)
    # The checkpoint was taken at the end of the iteration before the one that failed.
    assert iterations[0] == after
    assert not path.exists()


def test_every_iteration_of_the_default(tmp_path):
    path = tmp_path / "fit.checkpoint"
    settings = {**SETTINGS["mixture"], "random_state": 0}
    undisturbed = fit(HERAClassifier(**settings), X, Y)
    for after in range(2, undisturbed.n_iter_ + 1, 3):
        stopped(path, after, **settings)
        assert_same(
            fit(HERAClassifier(**settings), X, Y, checkpoint=path, resume=True), undisturbed
        )


def test_the_seed_is_in_the_checkpoint(tmp_path):
    """Without a random_state, another fit would have other landmarks."""
    path = tmp_path / "fit.checkpoint"
    seeds = []
    keep = checkpoints.Keeper.keep

    def noting(self, *arguments):
        seeds.append(self.seed)
        return keep(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.Keeper, "keep", noting)
        stopped(path, 3, **SETTINGS["gaussian, rbf"])
        fit(HERAClassifier(**SETTINGS["gaussian, rbf"]), X, Y, checkpoint=path, resume=True)
    assert len(set(seeds)) == 1


@pytest.mark.parametrize(("first", "second"), [(None, 70), (70, None), (70, 90)])
def test_other_blocks(tmp_path, first, second):
    path = tmp_path / "fit.checkpoint"
    settings = {**SETTINGS["mixture"], "random_state": 0}
    undisturbed = fit(HERAClassifier(**settings), X, Y)
    stopped(path, 5, block_rows=first, **settings)
    model = HERAClassifier(**settings, block_rows=second)
    confidence = fit(model, X, Y, checkpoint=path, resume=True).confidence_
    confidence = confidence.toarray() if hasattr(confidence, "toarray") else confidence
    np.testing.assert_allclose(confidence, undisturbed.confidence_, rtol=0, atol=1e-9)


CHANGES = {
    "another value": ({"rows": X + np.eye(N, D)}, "fingerprint of the data was"),
    "another candidate": ({"labels": Y | (np.arange(N)[:, None] == 7)}, "fingerprint of the data was"),
    "rows in another order": ({"rows": X[::-1].copy(), "labels": Y[::-1]}, "fingerprint of the data was"),
    "fewer rows": ({"rows": X[:-1], "labels": Y[:-1]}, "number of rows was 300 then and is 299"),
    "another parameter": ({"mu": 0.2}, "mu was 0.0 then and is 0.2 now"),
    "single precision": ({"rows": X.astype(np.float32)}, "was"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_checkpoints_of_another_fit_are_refused(tmp_path, change):
    path = tmp_path / "fit.checkpoint"
    settings = {**SETTINGS["mixture"], "random_state": 0}
    stopped(path, 3, **settings)
    before = path.read_bytes()
    changed, message = dict(CHANGES[change][0]), CHANGES[change][1]
    rows, labels = changed.pop("rows", X), changed.pop("labels", Y)
    with pytest.raises(ValueError, match=f"is a checkpoint of another fit: .*{message}"):
        fit(HERAClassifier(**{**settings, **changed}), rows, labels, checkpoint=path, resume=True)
    assert path.read_bytes() == before


def test_weights_belong_to_the_fit(tmp_path):
    path = tmp_path / "fit.checkpoint"
    stopped(path, 3, **SETTINGS["gaussian"], random_state=0)
    model = HERAClassifier(**SETTINGS["gaussian"], random_state=0)
    with pytest.raises(ValueError, match="fingerprint of the data was"):
        fit(model, X, Y, WEIGHTS, checkpoint=path, resume=True)


@pytest.mark.parametrize("damage", ["cut", "garbled", "empty", "another file"])
def test_damaged_files_are_named(tmp_path, damage):
    path = tmp_path / "fit.checkpoint"
    stopped(path, 3, **SETTINGS["gaussian"], random_state=0)
    content = path.read_bytes()
    place = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:place],
            "garbled": content[:place]
            + bytes(255 - each for each in content[place:][:400])
            + content[place + 400 :],
            "empty": b"",
            "another file": b"a,b,c\n1,2,3\n",
        }[damage]
    )
    model = HERAClassifier(**SETTINGS["gaussian"], random_state=0)
    with pytest.raises(ValueError, match=r"fit\.checkpoint"):
        fit(model, X, Y, checkpoint=path, resume=True)


def test_without_a_file_it_begins_at_the_beginning(tmp_path):
    path = tmp_path / "fit.checkpoint"
    model = HERAClassifier(**SETTINGS["gaussian"], random_state=0)
    fit(model, X, Y, checkpoint=path, resume=True)
    assert_same(model, fit(HERAClassifier(**SETTINGS["gaussian"], random_state=0), X, Y))
    assert list(tmp_path.iterdir()) == []


def test_a_new_fit_replaces_an_old_checkpoint(tmp_path):
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(b"old")
    stopped(path, 3, **SETTINGS["gaussian"], random_state=0)
    assert path.read_bytes()[:2] == b"PK"


def test_resume_needs_a_file():
    with pytest.raises(ValueError, match="resume=True needs a checkpoint"):
        HERAClassifier().fit(X, Y, resume=True)


def test_checkpoints_take_a_small_part_of_the_time(tmp_path, monkeypatch):
    """The next one is not taken before twenty times the time that the last one took."""
    monkeypatch.undo()
    now, taken = [0.0], []
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])

    def take(*arguments):
        taken.append(now[0])
        now[0] += 2.0  # seconds

    monkeypatch.setattr(checkpoints.Checkpoint, "take", take)
    keeper = checkpoints.Keeper(None, 0, survives=True)
    for _ in range(100):
        now[0] += 1.0
        keeper.keep(None, lambda: None)
    assert taken[0] == checkpoints._INTERVAL
    assert (np.diff(taken) >= 42).all()
    assert len(taken) >= 2


SCRIPT = """
import sys, time
import numpy as np
from hera_fast import HERAClassifier, checkpoints
sys.path.insert(0, {tests!r})
from test_checkpoints import SETTINGS, X, Y
checkpoints._INTERVAL, checkpoints._TIMES_LONGER = 0.0, 0
def slow(state):
    print(state.iteration, flush=True)
    time.sleep(0.3)
HERAClassifier(**SETTINGS["mixture"], random_state=0, callback=slow).fit(X, Y, checkpoint={path!r})
"""


def test_a_killed_process_leaves_a_checkpoint(tmp_path):
    path = tmp_path / "fit.checkpoint"
    script = SCRIPT.format(tests=os.path.dirname(__file__), path=str(path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 4:
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait(timeout=30) == -signal.SIGKILL
    time.sleep(0.1)
    model = HERAClassifier(**SETTINGS["mixture"], random_state=0)
    fit(model, X, Y, checkpoint=path, resume=True)
    assert_same(model, fit(HERAClassifier(**SETTINGS["mixture"], random_state=0), X, Y))

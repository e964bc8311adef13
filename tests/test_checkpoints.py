"""Fits that are stopped and go on, to the bits that they would have had without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from problems import clusters
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from hera_fast import HERAClassifier, checkpoints
from hera_fast.blocks import WorkerLost
from hera_fast.checkpoints import Checkpoint, Keeper, fingerprint

N, D, Q = 200, 6, 8
SIZE = 70

SETTINGS = {
    "mixture": {"n_components": 30},
    "mixture, mu": {"n_components": 30, "mu": 0.3},
    "mixture, low rank": {"n_components": 30, "nu": 0.1, "ranking": True},
    "gaussian": {"calibration": "gaussian"},
    "gaussian, rbf": {"calibration": "gaussian", "kernel": "rbf", "n_components": 30},
    "gaussian, low rank": {"calibration": "gaussian", "nu": 0.1},
    # There the noise is zero at first.
    "gaussian, large nu": {"calibration": "gaussian", "nu": 1.5},
    "least squares": {"calibration": None, "ranking": True},
    "least squares, low rank": {"calibration": None, "ranking": True, "nu": 0.1},
    "paper": {"formulation": "paper", "max_iter": 30, "nu": 0.1},
    "paper, printed": HERAClassifier.paper(
        max_iter=40, prediction="linear", penalty_growth=1.7
    ).get_params(),
}
FEW = ("mixture, low rank", "gaussian, rbf", "least squares", "paper, printed")
every_setting = pytest.mark.parametrize("name", SETTINGS)
few_settings = pytest.mark.parametrize("name", FEW)
whole_and_blocks = pytest.mark.parametrize("size", [None, SIZE], ids=["whole", "blocks"])

X, Y, _ = clusters(N, D, Q, seed=1)
QUERIES = clusters(30, D, Q, seed=2)[0]
WEIGHTS = np.random.default_rng(0).random(N) * (np.arange(N) % 5 > 0)


class StoppedError(Exception):
    """A fit was stopped."""


def stop_at(iteration):
    def stop(state):
        if state.iteration == iteration:
            raise StoppedError

    return stop


@pytest.fixture(autouse=True)
def take_all(monkeypatch):
    """Take a checkpoint after each iteration."""
    monkeypatch.setattr(checkpoints, "_INTERVAL", 0)
    monkeypatch.setattr(checkpoints, "_TIMES_LONGER", 0)


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder / "fit.checkpoint"


def make(name="gaussian", size=None, **changes):
    return HERAClassifier(**{**SETTINGS[name], "random_state": 0, "block_rows": size, **changes})


def fit(model, rows=X, labels=Y, weights=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, labels, weights, **options)


def stop(model, iteration, path, *data, resume=False):
    """Fit until an iteration; whether it came to that."""
    try:
        fit(model.set_params(callback=stop_at(iteration)), *data, checkpoint=path, resume=resume)
    except StoppedError:
        return True
    finally:
        model.set_params(callback=None)
    return False


def dense(array):
    return array.toarray() if sparse.issparse(array) else array


def bits(model):
    """All that a fit found."""
    names = ("confidence_", "noise_", "coef_", "intercept_", "transduction_", "classes_")
    found = {name: dense(getattr(model, name)) for name in names}
    found |= {name: each for name, each in model.history_.items() if name != "seconds"}
    queries = QUERIES.astype(model.coef_.dtype)
    found["scores"] = model.decision_function(queries)
    return found | {"probabilities": model.predict_proba(queries)}


def assert_same_bits(model, other):
    comp, ref = bits(model), bits(other)
    assert comp.keys() == ref.keys()
    for name in ref:
        np.testing.assert_array_equal(comp[name], ref[name], err_msg=name)
        assert comp[name].dtype == ref[name].dtype
    assert model.n_iter_ == other.n_iter_


# ---- the same bits ------------------------------------------------------------------------------


@every_setting
@whole_and_blocks
def test_a_fit_that_is_stopped_goes_on(name, size, path):
    ref = fit(make(name, size))
    assert ref.n_iter_ > 3
    for iteration in (ref.n_iter_ // 2 + 1, ref.n_iter_):
        assert stop(make(name, size), iteration, path)
        assert path.exists()
        model = fit(make(name, size), checkpoint=path, resume=True)
        assert_same_bits(model, ref)
        assert not path.exists()


@few_settings
@whole_and_blocks
def test_a_fit_that_is_stopped_in_every_iteration(name, size, path):
    """Again and again, with all that is written and read in between."""
    ref = fit(make(name, size), weights=WEIGHTS)
    for iteration in range(2, ref.n_iter_ + 1):
        assert stop(make(name, size), iteration, path, X, Y, WEIGHTS, resume=True)
    model = fit(make(name, size), weights=WEIGHTS, checkpoint=path, resume=True)
    assert_same_bits(model, ref)


def test_a_fit_of_the_default_that_is_stopped_in_any_iteration(path):
    ref = fit(make("mixture"))
    for iteration in range(2, ref.n_iter_ + 1):
        assert stop(make("mixture"), iteration, path)
        assert_same_bits(fit(make("mixture"), checkpoint=path, resume=True), ref)


@few_settings
@pytest.mark.parametrize(
    ("kind", "size"), [("float32", None), ("float32", SIZE), ("sparse", None), ("sparse", SIZE)]
)
def test_rows_of_other_kinds(name, size, kind, path):
    rows = X.astype(np.float32) if kind == "float32" else sparse.csr_array(X * (np.abs(X) > 1))
    ref = fit(make(name, size), rows, Y, WEIGHTS)
    assert stop(make(name, size), 3, path, rows, Y, WEIGHTS)
    model = fit(make(name, size), rows, Y, WEIGHTS, checkpoint=path, resume=True)
    assert_same_bits(model, ref)


@few_settings
def test_rows_of_a_file(name, path, tmp_path):
    rows = np.memmap(tmp_path / "rows", X.dtype, "w+", shape=X.shape)
    rows[...] = X
    ref = fit(make(name, SIZE), rows)
    assert stop(make(name, SIZE), 4, path, rows)
    assert_same_bits(fit(make(name, SIZE), rows, checkpoint=path, resume=True), ref)


@whole_and_blocks
def test_penalties_that_acted_before_need_not_act_again(size, path):
    """J or E is zero again in the last iterations, which would not be the last ones otherwise."""
    settings = {"mu": 1.0, "nu": 20.0, "penalty": 0.01, "penalty_growth": 1.3}
    settings |= {"formulation": "paper", "max_iter": 150, "tol": 1e-4, "calibration": None}
    ref = fit(make(size=size, **settings))
    assert ref.n_iter_ < 150
    assert stop(make(size=size, **settings), ref.n_iter_ - 3, path)
    assert_same_bits(fit(make(size=size, **settings), checkpoint=path, resume=True), ref)


@whole_and_blocks
@pytest.mark.parametrize("given", ["nothing", "a generator"])
def test_the_seed_is_that_of_the_first_part(size, given, path, monkeypatch):
    def with_seed(seed):
        state = np.random.RandomState(seed)
        if given == "a generator":
            return make("mixture", size, random_state=state)
        monkeypatch.setattr("hera_fast.estimator.check_random_state", lambda _: state)
        return make("mixture", size, random_state=None)

    ref, other = fit(with_seed(1)), fit(with_seed(2))
    assert (dense(ref.confidence_) != dense(other.confidence_)).any()
    assert stop(with_seed(1), 5, path)
    assert_same_bits(fit(with_seed(2), checkpoint=path, resume=True), ref)


@pytest.mark.parametrize("svd", ["auto", "gram", "full", "truncated", "randomized"])
@whole_and_blocks
def test_singular_values_by_every_method(svd, size, path):
    rng = np.random.default_rng(0)
    labels = rng.random((N, 64)) < 0.03
    labels[np.arange(N), rng.integers(0, 64, N)] = True
    settings = {"calibration": "gaussian", "nu": 0.8, "max_iter": 12, "svd": svd}
    ref = fit(make(size=size, **settings), X, labels)
    assert stop(make(size=size, **settings), 5, path, X, labels)
    model = fit(make(size=size, **settings), X, labels, checkpoint=path, resume=True)
    assert_same_bits(model, ref)


@pytest.mark.parametrize("name", ["mixture", "gaussian"])
def test_forms_of_candidates(name, path):
    """They need not be given in the same form."""
    sets = [set(np.flatnonzero(row).tolist()) for row in Y]
    assert stop(make(name), 3, path, X, sets)
    model = fit(make(name), X, sparse.csr_array(Y), checkpoint=path, resume=True)
    assert_same_bits(model, fit(make(name)))


@few_settings
@whole_and_blocks
def test_what_may_differ(name, size, path):
    """Everything that does not change the result."""
    assert stop(make(name, size, n_threads=1), 3, path)
    model = make(name, size, n_threads=None, verbose=0, callback=lambda state: False)
    assert_same_bits(fit(model, checkpoint=str(path), resume=True), fit(make(name, size)))


@whole_and_blocks
def test_iterations_and_seconds_go_on(size, path):
    assert stop(make("mixture", size), 6, path)
    states = []
    model = make("mixture", size, callback=states.append)
    fit(model, checkpoint=path, resume=True)
    assert [state.iteration for state in states] == list(range(6, model.n_iter_ + 1))
    seconds = model.history_["seconds"]
    assert len(seconds) == model.n_iter_
    assert (np.diff(seconds) > 0).all()
    np.testing.assert_array_equal(seconds[5:], [state.seconds for state in states])


@few_settings
@whole_and_blocks
def test_a_resumed_fit_ends_where_it_should(name, size, path):
    """With the last of max_iter, counted from the beginning."""
    ref = fit(make(name, size, max_iter=6))
    assert ref.n_iter_ == 6
    assert stop(make(name, size, max_iter=6), 4, path)
    with pytest.warns(ConvergenceWarning):
        model = make(name, size, max_iter=6).fit(X, Y, checkpoint=path, resume=True)
    assert_same_bits(model, ref)


# ---- on from other blocks -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, (None, SIZE)) for name in SETTINGS),
        *((name, (SIZE, None)) for name in SETTINGS),
        *((name, (SIZE, 33)) for name in FEW),
    ],
)
def test_blocks_may_be_others(name, sizes, path):
    before, after = sizes
    ref = fit(make(name, after))
    for iteration in (2, ref.n_iter_ // 2 + 1):
        assert stop(make(name, before), iteration, path)
        model = fit(make(name, after), checkpoint=path, resume=True)
        for each in ("confidence_", "noise_"):
            comp, expected = dense(getattr(model, each)), dense(getattr(ref, each))
            np.testing.assert_allclose(comp, expected, rtol=0, atol=1e-9, err_msg=each)
        np.testing.assert_allclose(
            model.decision_function(QUERIES), ref.decision_function(QUERIES), rtol=0, atol=1e-8
        )
        assert model.n_iter_ == ref.n_iter_
        np.testing.assert_array_equal(model.transduction_, ref.transduction_)


# ---- the file -----------------------------------------------------------------------------------


@whole_and_blocks
def test_the_file_is_there_during_the_fit_only(size, path):
    seen = []
    model = make("mixture", size, callback=lambda _: seen.append(path.exists()))
    assert_same_bits(fit(model, checkpoint=path), fit(make("mixture", size)))
    assert seen == [False] + [True] * (model.n_iter_ - 1)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("error", [ValueError("no"), MemoryError(), SystemExit(3)])
@whole_and_blocks
def test_the_file_remains_when_a_fit_fails(error, size, path):
    def fail(state):
        if state.iteration == 3:
            raise error

    with pytest.raises(type(error)):
        fit(make(size=size, callback=fail), checkpoint=path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert_same_bits(fit(make(size=size), checkpoint=path, resume=True), fit(make(size=size)))


@whole_and_blocks
def test_the_file_remains_when_the_user_interrupts(size, path):
    """The fit ends with what was reached, and can go on all the same."""

    def interrupt(state):
        if state.iteration == 5:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        make("mixture", size, callback=interrupt).fit(X, Y, checkpoint=path)
    assert path.exists()
    model = fit(make("mixture", size), checkpoint=path, resume=True)
    assert_same_bits(model, fit(make("mixture", size)))
    assert not path.exists()


def test_a_callback_that_ends_a_fit_is_success(path):
    fit(make(callback=lambda state: state.iteration == 3), checkpoint=path)
    assert not path.exists()


@whole_and_blocks
def test_without_a_file_a_fit_begins_anew(size, path):
    model = fit(make(size=size), checkpoint=path, resume=True)
    assert_same_bits(model, fit(make(size=size)))
    assert not path.exists()


def test_resuming_takes_a_file():
    with pytest.raises(ValueError, match="resume=True needs a checkpoint"):
        make().fit(X, Y, resume=True)


def test_a_checkpoint_that_is_not_asked_for_is_replaced(path):
    assert stop(make("mixture"), 3, path)
    assert stop(make(), 4, path)
    assert_same_bits(fit(make(), checkpoint=path, resume=True), fit(make()))


def test_other_files_are_never_replaced_or_removed(path):
    path.write_bytes(b"precious")
    with pytest.raises(ValueError, match="exists and is no intact checkpoint: remove it"):
        fit(make(), checkpoint=path)
    assert path.read_bytes() == b"precious"


def test_a_folder_that_does_not_exist(path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fit(make(), checkpoint=path.parent / "nowhere" / "fit.checkpoint")


def test_no_file_is_written_without_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit(make("mixture", SIZE))
    assert not list(tmp_path.iterdir())


@whole_and_blocks
def test_what_is_in_the_file(size, path):
    assert stop(make("mixture, low rank", size), 6, path)
    about = {"n_components": 30, "nu": 0.1, "number of rows": N}
    checkpoint = Checkpoint.read(path, about)
    assert checkpoint.n_iterations == 5
    assert checkpoint.seed == np.random.RandomState(0).randint(2**31 - 1)
    # As many confidences as candidates.
    assert checkpoint.arrays["P"].shape == (np.count_nonzero(Y),)
    sums = np.add.reduceat(checkpoint.arrays["P"], np.append(0, np.cumsum(Y.sum(axis=1))[:-1]))
    np.testing.assert_allclose(sums, 1)
    Checkpoint.write(checkpoint, path.parent / "twin", about)
    twin = Checkpoint.read(path.parent / "twin", about)
    assert twin.header == checkpoint.header
    assert twin.arrays.keys() == checkpoint.arrays.keys()
    for name, array in checkpoint.arrays.items():
        np.testing.assert_array_equal(twin.arrays[name], array)


def test_taking_checkpoints_changes_nothing(path):
    for name in FEW:
        for size in (None, SIZE):
            assert_same_bits(fit(make(name, size), checkpoint=path), fit(make(name, size)))


# ---- files of another fit -----------------------------------------------------------------------


def refused(model, rows, labels, weights, path, match):
    """Make sure that a file is refused, and remains as it was."""
    before = path.read_bytes()
    with pytest.raises(ValueError, match=match) as caught:
        fit(model, rows, labels, weights, checkpoint=path, resume=True)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("alpha", 2.0),
        ("beta", 0.2),
        ("mu", 0.1),
        ("nu", 0.3),
        ("formulation", "paper"),
        ("calibration", None),
        ("calibration", "mixture"),
        ("ranking", True),
        ("shrinkage", 0.2),
        ("kernel", "rbf"),
        ("gamma", 0.5),
        ("n_components", 20),
        ("fit_intercept", False),
        ("max_iter", 300),
        ("tol", 1e-3),
        ("penalty", 0.5),
        ("penalty_growth", 1.1),
        ("max_penalty", 10.0),
        ("svd", "full"),
        ("random_state", 1),
        ("random_state", None),
    ],
)
@whole_and_blocks
def test_other_parameters(parameter, value, size, path):
    assert stop(make(size=size), 3, path)
    model = make(size=size, **{parameter: value})
    refused(model, X, Y, None, path, f"another fit: {parameter} was .* then and is {value!r} now")


def test_other_parameters_of_the_first_part(path):
    assert stop(make(alpha=2.0, random_state=None), 3, path)
    refused(make(random_state=None), X, Y, None, path, r"alpha was 2\.0 then and is 1\.0 now")


def changed(array, *places):
    array = array.copy()
    for place, value in places:
        array[place] = value
    return array


def two_swapped(array, first, second, axis=0):
    order = np.arange(array.shape[axis])
    order[[first, second]] = second, first
    return np.ascontiguousarray(np.take(array, order, axis))


with_pair = changed(Y, (0, np.isin(np.arange(Q), (0, 3))))
OTHERS = {
    "one number": (changed(X, ((150, 4), 0.5)), Y, None),
    "the smallest difference": (changed(X, ((150, 4), np.nextafter(X[150, 4], 9))), Y, None),
    "another sign": (changed(X, ((150, 4), -X[150, 4])), Y, None),
    "rows in another order": (two_swapped(X, 3, 100), Y, None),
    "rows backwards": (X[::-1].copy(), Y[::-1].copy(), None),
    "columns in another order": (two_swapped(X, 0, 1, axis=1), Y, None),
    "last columns in another order": (two_swapped(X, 4, 5, axis=1), Y, None),
    "one candidate more": (X, changed(Y, (7, True)), None),
    "labels in another order": (X, two_swapped(Y, 2, 5, axis=1), None),
    "candidates of other rows": (X, two_swapped(Y, 10, 20), None),
    "weights": (X, Y, WEIGHTS),
}


@pytest.mark.parametrize("other", OTHERS)
@whole_and_blocks
def test_other_data(other, size, path):
    assert stop(make(size=size), 3, path)
    refused(make(size=size), *OTHERS[other], path, "another fit: .*data was")


@pytest.mark.parametrize("labels", [(1, 2), (4,), (0, 1, 2)])
@whole_and_blocks
def test_other_candidates(labels, size, path):
    """Those of a single row, whose numbers add up to the same or not."""
    assert stop(make(size=size), 3, path, X, with_pair)
    other = changed(Y, (0, np.isin(np.arange(Q), labels)))
    refused(make(size=size), X, other, None, path, "another fit: .*data was")


def test_other_weights(path):
    assert stop(make(), 3, path, X, Y, WEIGHTS)
    for weights in (
        None,
        np.ones(N),
        2 * WEIGHTS,
        changed(WEIGHTS, (7, 0.5)),
        WEIGHTS[::-1].copy(),
    ):
        refused(make(), X, Y, weights, path, "another fit: .*data was")


@pytest.mark.parametrize(
    ("rows", "labels", "name"),
    [
        (X[:-1], Y[:-1], "number of rows was 200 then and is 199 now"),
        (X[:, :-1].copy(), Y, "number of features was 6 then and is 5 now"),
        (X, np.column_stack([Y, Y[:, 0]]), "number of labels was 8 then and is 9 now"),
        (X.astype(np.float32), Y, "dtype was 'float64' then and is 'float32' now"),
    ],
    ids=["rows", "features", "labels", "dtype"],
)
@whole_and_blocks
def test_data_of_another_shape(rows, labels, name, size, path):
    """What anybody can understand is said first."""
    assert stop(make(size=size), 3, path)
    refused(make(size=size), rows, labels, None, path, f"another fit: {name}")


@pytest.mark.parametrize("name", ["mixture", "gaussian, rbf", "gaussian"])
def test_warm_starts(name, path):
    """A fit that began with a warm start goes on like one, or says that it cannot."""

    def warmed():
        model = make(name, warm_start=True, max_iter=3, random_state=1)
        fit(model, X[::-1].copy(), Y[::-1].copy())
        return model.set_params(max_iter=200, random_state=0)

    ref, model = fit(warmed()), warmed()
    try:
        assert stop(model, 4, path)
        fit(model, checkpoint=path, resume=True)
    except ValueError as error:
        assert "warm_start" in str(error)  # noqa: PT017
    else:
        assert_same_bits(model, ref)


# ---- fingerprints -------------------------------------------------------------------------------


def print_of(rows, labels, weights=None, size=None):
    return fingerprint(HERAClassifier(block_rows=size)._source(rows, labels, weights).place())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 40, 300])
def test_fingerprints_do_not_depend_on_blocks(dtype, kind, width):
    rng = np.random.default_rng(width)
    rows = rng.standard_normal((97, width)).astype(dtype)
    rows = sparse.csr_array(rows * (rng.random(rows.shape) < 0.4)) if kind == "sparse" else rows
    labels = np.eye(97, dtype=bool)[:, :9] | (rng.random((97, 9)) < 0.3)
    labels[:, 0] |= ~labels.any(axis=1)
    weights = rng.random(97)
    found = {print_of(rows, labels, weights, size) for size in (None, 1, 7, 96, 97, 1000)}
    assert len(found) == 1
    assert found != {print_of(rows, labels, None)}


def test_fingerprints_of_small_whole_numbers():
    """Of which the bits have many zeros at the end."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (4200, 3)).astype(float)
    labels = rng.random((4200, 4)) < 0.4
    labels[:, 3] |= ~labels.any(axis=1)
    rows[:2], labels[:2] = [[0, 1, 2], [1, 1, 1]], [[1, 0, 0, 1], [0, 1, 0, 0]]
    weights = rng.integers(0, 3, 4200).astype(float)
    prints = {print_of(rows, labels, weights)}
    n_changes = 0
    for distance in (1, 2, 16, 512, 1024, 2048, 4096):
        for where in range(3):
            for array in (rows, labels, weights):
                other = two_swapped(array, where, where + distance)
                if (other != array).any():
                    changes = {"rows": rows, "labels": labels, "weights": weights}
                    (name,) = [each for each in changes if changes[each] is array]
                    changes[name] = other
                    prints.add(print_of(**changes))
                    n_changes += 1
    assert n_changes > 20
    assert len(prints) == 1 + n_changes


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_fingerprints_tell_all_columns_apart(kind):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 20))
    labels = np.ones((60, 5), bool)

    def made(array):
        return sparse.csr_array(array) if kind == "sparse" else array

    prints = {print_of(made(rows), labels)}
    for first in range(19):
        prints.add(print_of(made(two_swapped(rows, first, first + 1, axis=1)), labels))
    assert len(prints) == 20


# ---- damaged files ------------------------------------------------------------------------------


@whole_and_blocks
@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_truncated_files(size, part, path):
    assert stop(make(size=size), 3, path)
    contents = path.read_bytes()
    path.write_bytes(contents[: int(part * len(contents))])
    refused(make(size=size), X, Y, None, path, "no intact hera-fast model")


def test_files_of_which_a_part_is_overwritten(path):
    assert stop(make(), 3, path)
    contents = path.read_bytes()
    middle = len(contents) // 2
    wrong = bytes(255 - each for each in contents[middle:][:400])
    path.write_bytes(contents[:middle] + wrong + contents[middle + 400 :])
    refused(make(), X, Y, None, path, "no intact hera-fast model")


@pytest.mark.parametrize("contents", [b"hello", b"PK\x03\x04" + bytes(500), bytes(9)])
def test_files_of_another_kind(contents, path):
    path.write_bytes(contents)
    refused(make(), X, Y, None, path, "no intact hera-fast model")


def test_the_file_of_a_model(path):
    fit(make()).save(path)
    refused(make(), X, Y, None, path, "holds a 'HERAClassifier', but a 'checkpoint of a fit'")


def test_garbled_files(path):
    """Wherever a byte is wrong: an error with the name of the file, or it makes no difference."""
    assert stop(make(), 4, path)
    contents, ref = path.read_bytes(), fit(make())
    rng = np.random.default_rng(0)
    n_refused = 0
    for place in rng.integers(0, len(contents), 60):
        damaged = bytearray(contents)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            model = fit(make(), checkpoint=path, resume=True)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            n_refused += 1
        else:
            assert_same_bits(model, ref)
    assert n_refused > 50


# ---- processes that are killed ------------------------------------------------------------------

ENDLESS = {"tol": 1e-12, "random_state": None}
KILLED = """
import sys, time
sys.path.insert(0, "tests")
import test_checkpoints as tests
tests.checkpoints._INTERVAL = tests.checkpoints._TIMES_LONGER = 0
def tell(state):
    print(state.iteration, flush=True)
    time.sleep(0.05)
model = tests.make("gaussian, low rank", tests.SIZE, **tests.ENDLESS, callback=tell)
tests.fit(model, checkpoint=sys.argv[1], resume=True)
"""


def kill(path, iteration):
    """Kill a process that fits after an iteration; return its first one."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        iterations = []
        for line in process.stdout:
            iterations.append(int(line))
            if iterations[-1] == iteration:
                os.kill(process.pid, signal.SIGKILL)
                break
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    return iterations[0]


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_processes_that_are_killed(path):
    assert kill(path, 6) == 1
    first = Checkpoint.read(path, {})
    assert first.n_iterations >= 5
    assert kill(path, first.n_iterations + 6) == first.n_iterations + 1
    second = Checkpoint.read(path, {})
    assert second.n_iterations >= first.n_iterations + 5
    assert second.seed == first.seed
    seen = []
    model = make("gaussian, low rank", SIZE, **ENDLESS, callback=lambda state: seen.append(state))
    fit(model, checkpoint=path, resume=True)
    assert seen[0].iteration == second.n_iterations + 1
    # Nothing is random there.
    assert_same_bits(model, fit(make("gaussian, low rank", SIZE, **ENDLESS)))
    assert not path.exists()


# ---- when checkpoints are taken -----------------------------------------------------------------


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(checkpoints, "time", clock)
    monkeypatch.setattr(checkpoints, "_INTERVAL", 5.0)
    monkeypatch.setattr(checkpoints, "_TIMES_LONGER", 20)
    return clock


@pytest.fixture
def taken(monkeypatch, clock):
    """The times at which checkpoints were taken; taking one takes `seconds`."""
    found = SimpleNamespace(times=[], seconds=0.0)

    def take(training, solution, seed):
        found.times.append(clock.now)
        clock.now += found.seconds
        arrays = {"history_seconds": np.zeros(len(found.times))}
        return Checkpoint({"seed": seed}, arrays)

    monkeypatch.setattr(Checkpoint, "take", take)
    return found


def wait(clock, keeper, seconds):
    """Ask every half of a second."""
    end = clock.now + seconds
    while clock.now < end:
        keeper.keep(None, lambda: None)
        clock.now += 0.5


def test_checkpoints_are_taken_from_time_to_time(clock, taken, path):
    keeper = Keeper(path, 3, survives=False)
    wait(clock, keeper, 21)
    assert taken.times == [1005, 1010, 1015, 1020]
    assert path.exists()
    assert keeper.last.seed == 3


def test_checkpoints_that_take_long_are_taken_less_often(clock, taken, path):
    keeper = Keeper(path, 3, survives=False)
    taken.seconds = 2.0
    wait(clock, keeper, 100)
    assert taken.times == [1005, 1047, 1089]


@pytest.mark.parametrize("survives", [False, True])
def test_checkpoints_without_a_file(clock, taken, survives):
    """They are taken if workers may die."""
    keeper = Keeper(None, 3, survives=survives)
    wait(clock, keeper, 11)
    assert taken.times == ([1005, 1010] if survives else [])
    assert (keeper.last is None) == (not survives)
    keeper.done()


def test_states_are_only_asked_for_when_they_are_needed(clock, taken, path):
    asked = []
    keeper = Keeper(path, 3, survives=False)
    keeper.keep(None, lambda: asked.append(clock.now))
    assert not asked
    clock.now += 5
    keeper.keep(None, lambda: asked.append(clock.now))
    assert asked == [1005]


# ---- workers that die ---------------------------------------------------------------------------


def attempt(keeper, work):
    """Do what a fit does; how often it was tried."""
    n_times = 0
    for each in keeper.attempts():
        with each:
            n_times += 1
            work(n_times)
    return n_times


def test_work_that_succeeds_is_done_once():
    assert attempt(Keeper(None, 0, survives=True), lambda n_times: None) == 1


@pytest.mark.parametrize("n_losses", [1, 2, 3])
def test_work_is_done_again_when_a_worker_has_died(n_losses):
    def work(n_times):
        if n_times <= n_losses:
            raise WorkerLost("gone")

    assert attempt(Keeper(None, 0, survives=True), work) == n_losses + 1


def test_other_errors_end_the_work():
    def work(n_times):
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"):
        attempt(Keeper(None, 0, survives=True), work)


def test_too_many_deaths_without_progress():
    def work(n_times):
        raise WorkerLost("gone")

    with pytest.raises(RuntimeError, match=r"4 times in a row, .* begins anew") as caught:
        attempt(Keeper(None, 0, survives=True), work)
    assert isinstance(caught.value.__cause__, WorkerLost)


@pytest.mark.parametrize("has_file", [False, True])
def test_deaths_with_progress_in_between(clock, taken, has_file, path):
    keeper = Keeper(path if has_file else None, 0, survives=True)
    keeper.open({"data": "here"}, resume=False)

    def work(n_times):
        clock.now += 10
        if n_times <= 9 and n_times % 3 == 0:
            keeper.keep(None, lambda: None)
        if n_times < 30:
            raise WorkerLost("gone")

    # Three times there is progress, and then no longer.
    with pytest.raises(RuntimeError, match="3 iterations are done: go on with fit") as caught:
        attempt(keeper, work)
    name = str(caught.value).split("checkpoint='")[1].split("'")[0]
    assert not has_file or name == str(path)
    assert Checkpoint.read(name, {"data": "here"}).n_iterations == 3
    os.unlink(name)

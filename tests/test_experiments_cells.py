"""Cells: computed once, kept in files, found again, never taken for others."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from uci_like import write_real_like, write_uci_like

from hera_fast import HERAClassifier, cross_validate_partial, make_partial_labels
from hera_fast.experiments import cells as module
from hera_fast.experiments.cells import Cell, compute, run_cells
from hera_fast.experiments.methods import METHODS, make_method
from hera_fast.experiments.sources import Source, fingerprint, make_preparation
from hera_fast.fold import make_folds

DIGITS = Source("digits", subset=90)
CELL = Cell(DIGITS, "pl-knn", folds=2)


def counted(monkeypatch):
    """Count the cells that are computed, in this process."""
    calls = []
    monkeypatch.setattr(module, "compute", lambda cell: calls.append(cell) or compute(cell))
    return calls


def test_a_cell_is_a_cross_validation():
    bunch = DIGITS.load()
    cell = replace(CELL, method="hera", settings=(("calibration", "gaussian"),), seed=3)
    table = cross_validate_partial(
        HERAClassifier(calibration="gaussian", random_state=3),
        *(bunch.data, bunch.candidates, bunch.target),
        cv=2,
        random_state=3,
    )
    figures = compute(cell)["figures"]
    for name in ("inductive", "transductive", "log_loss", "covering", "n_iter"):
        assert figures[name] == table[name].tolist()


def test_artificial_candidates():
    bunch = DIGITS.load()
    cell = replace(CELL, candidates=(("p", 0.7), ("r", 2)), seed=5)
    Y = make_partial_labels(
        bunch.target, p=0.7, r=2, random_state=np.random.SeedSequence([5, 1]).generate_state(1)[0]
    )
    table = cross_validate_partial(
        METHODS["pl-knn"].make(), bunch.data, Y, bunch.target, cv=2, random_state=5
    )
    assert compute(cell)["figures"]["inductive"] == table["inductive"].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_folds_do_not_follow_the_candidates(seed, monkeypatch):
    drawn = []

    def draw(y, **options):
        drawn.append(make_partial_labels(y, **options))
        return drawn[-1]

    monkeypatch.setattr(module, "make_partial_labels", draw)
    source = Source("digits", subset=400)
    compute(Cell(source, "pl-knn", candidates=(("p", 0.5), ("r", 1)), folds=4, seed=seed))
    is_ambiguous = np.asarray(drawn[0].sum(axis=1)).ravel() > 1
    for fold in make_folds(4, is_ambiguous[:, None], None, seed):
        # Ten standard deviations would be 0.5; with one permutation for both it is 0 or 1.
        assert abs(is_ambiguous[fold.test].mean() - 0.5) < 0.25


def test_sources_that_change_during_a_run(tmp_path, monkeypatch):
    with pytest.raises(RuntimeError, match="have changed during the run"):
        module._compute_and_write(CELL, tmp_path / "cell", {"hera-fast": "other"}, None)
    assert not list(tmp_path.iterdir())


def test_a_cell_of_other_code_is_not_taken(tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    run_cells([CELL], tmp_path, n_jobs=1)
    (path,) = (tmp_path / "cells").iterdir()
    content = json.loads(path.read_text("utf-8"))
    content["code"]["hera-fast"] = "other"
    path.write_text(json.dumps(content), "utf-8")
    run_cells([CELL], tmp_path, n_jobs=1)
    del content["figures"]
    path.write_text(json.dumps({**content, "code": module.code_version()}), "utf-8")
    run_cells([CELL], tmp_path, n_jobs=1)
    assert len(calls) == 3


@pytest.mark.parametrize("name", ["lost", "glass"])
def test_a_folder_does_not_hide_a_data_set(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    assert not Source(name).is_file()


def test_cells_are_not_computed_again(tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    cells = [CELL, replace(CELL, seed=1), CELL]
    notes = []
    first = run_cells(cells, tmp_path, n_jobs=1, note=notes.append)
    assert len(calls) == 2
    assert first[0] == first[2] != first[1]
    assert run_cells(cells, tmp_path, n_jobs=1, note=notes.append) == first
    assert len(calls) == 2
    assert notes == ["2 of 2 cells are there already"]


@pytest.mark.parametrize(
    "other",
    [
        replace(CELL, seed=1),
        replace(CELL, folds=3),
        replace(CELL, method="clpl"),
        replace(CELL, settings=(("n_neighbors", 3),)),
        replace(CELL, candidates=(("p", 0.1), ("r", 1))),
        replace(CELL, source=Source("digits", subset=91)),
        replace(CELL, task="disambiguate"),
        replace(CELL, ordered=True),
    ],
)
def test_whatever_decides_the_result_is_in_the_key(other):
    assert other.key() != CELL.key()


def test_another_version_of_the_code_is_another_cell(monkeypatch):
    key = CELL.key()
    monkeypatch.setattr(module, "code_version", lambda: {"hera-fast": "other"})
    assert CELL.key() != key


def test_changed_data_are_other_cells(tmp_path):
    path = tmp_path / "mine.npz"
    X, Y = np.arange(12.0).reshape(6, 2), np.eye(2, dtype=bool)[[0, 1] * 3]
    np.savez(path, X=X, Y=Y, y=[0, 1] * 3)
    key = Cell(Source(str(path)), "pl-knn").key()
    np.savez(path, X=X + 1, Y=Y, y=[0, 1] * 3)
    assert Cell(Source(str(path)), "pl-knn").key() != key


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": "other"}', b"\xff\xfe"])
def test_a_damaged_file_is_computed_again(damage, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    first = run_cells([CELL], tmp_path, n_jobs=1)
    (path,) = (tmp_path / "cells").iterdir()
    path.write_bytes(damage)
    again = run_cells([CELL], tmp_path, n_jobs=1)
    assert again[0]["figures"]["inductive"] == first[0]["figures"]["inductive"]
    assert len(calls) == 2


def test_files_of_cells_say_what_they_are(tmp_path):
    run_cells([CELL], tmp_path, n_jobs=1)
    (path,) = (tmp_path / "cells").iterdir()
    content = json.loads(path.read_text("utf-8"))
    assert path.stem == CELL.key()
    assert content["cell"]["method"] == "pl-knn"
    assert content["cell"]["source"]["name"] == "digits"
    assert content["code"] == module.code_version()


def test_processes_find_the_same(tmp_path):
    cells = [replace(CELL, seed=seed) for seed in range(3)]
    alone = run_cells(cells, tmp_path / "a", n_jobs=1)
    together = run_cells(cells, tmp_path / "b", n_jobs=2)
    for one, other in zip(alone, together, strict=True):
        assert one["figures"]["inductive"] == other["figures"]["inductive"]


def test_a_cell_that_fails_leaves_the_others(tmp_path):
    bad = replace(CELL, settings=(("n_neighbors", -1),))
    with pytest.raises(RuntimeError, match="'pl-knn' failed in fold 0"):
        run_cells([CELL, bad], tmp_path, n_jobs=1)
    names = {path.stem for path in (tmp_path / "cells").iterdir()}
    assert names <= {CELL.key()}


def test_missing_values_are_filled_in_on_the_training_folds(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) + 3 * np.eye(2)[np.arange(40) % 2][:, [0, 1, 1]]
    X[::7, 1] = np.nan
    path = tmp_path / "gaps.npz"
    np.savez(path, X=X, y=np.arange(40) % 2)
    figures = compute(Cell(Source(str(path)), "pl-knn", folds=2))["figures"]
    assert min(figures["inductive"]) > 0.8


def test_letter_is_a_part_of_the_published_set(tmp_path, monkeypatch):
    write_uci_like(tmp_path, ("letter",), n=60)
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path))
    with pytest.warns(UserWarning, match="not a known copy"):
        bunch = Source("letter", subset=20).load()
    assert bunch.data.shape == (20, 3)
    assert len(bunch.target) == 20
    assert (bunch.candidates.toarray().argmax(axis=1) == bunch.target).all()


def test_the_folder_of_data_sets_is_looked_up_again(tmp_path, monkeypatch):
    for n in (30, 40):
        write_real_like(tmp_path / str(n), ("lost",), n=n)
        monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path / str(n)))
        with pytest.warns(UserWarning, match="not a known copy"):
            assert Source("lost").load().data.shape[0] == n


def test_fingerprints_see_every_part():
    bunch = DIGITS.load()
    digest = fingerprint(bunch)
    for name in ("data", "target"):
        changed = type(bunch)(**bunch)
        changed[name] = bunch[name] + 1
        assert fingerprint(changed) != digest
    changed = type(bunch)(**{**bunch, "target": None})
    assert fingerprint(changed) != digest
    changed = type(bunch)(**{**bunch, "feature_names": ["a", *bunch.feature_names[1:]]})
    assert fingerprint(changed) != digest


def test_preparation_keeps_columns_without_values():
    X = np.array([[1.0, np.nan], [3.0, np.nan]])
    assert make_preparation(X).fit_transform(X).tolist() == [[-1, 0], [1, 0]]


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    estimator = make_method(name, {}, 7)
    assert hasattr(estimator, "predict")
    if METHODS[name].is_random:
        assert estimator.random_state == 7


def test_settings_of_methods():
    assert make_method("hera-paper-100", {"nu": 3.0}, 0).get_params()["max_iter"] == 100
    with pytest.raises(ValueError, match="there is no method 'herra', but hera, "):
        make_method("herra", {}, 0)
    with pytest.raises(ValueError, match="Invalid parameter"):
        make_method("hera", {"colour": 1}, 0)

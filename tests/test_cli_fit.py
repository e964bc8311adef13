"""Models from the command line, and what they predict."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from commands import (
    FEATURES,
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
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier
from hera_fast.bunch import make_bunch
from hera_fast.data_files import load_partial_labels, save_partial_labels
from hera_fast.experiments.sources import make_preparation
from hera_fast.pipeline_files import load_model

NEW = animals(30, seed=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with training rows."""
    monkeypatch.chdir(tmp_path)
    save_partial_labels("animals.csv", animals())
    return tmp_path


@pytest.fixture
def model(folder):
    assert run("fit", "animals.csv", "--out", "model.hera", *SHORT) == 0
    return load_model("model.hera")


def by_hand(bunch, **parameters):
    """The same as fit, with names as labels."""
    settings = {"random_state": 0, "n_components": 20, **parameters}
    model = make_pipeline(make_preparation(bunch.data), HERAClassifier(**settings))
    names = bunch.target_names
    sets = [set(names[row.indices]) for row in bunch.candidates]
    return model.fit(bunch.data, sets)


def probabilities(model, rows, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return model.predict_proba(rows, **options)


def predicted(*arguments):
    assert run("predict", "model.hera", *arguments, "--out", "labels.csv") == 0
    return read_csv("labels.csv")


def write_rows(path, bunch, *, columns=None, extra=()):
    """Write features only."""
    data = bunch.data.toarray() if sparse.issparse(bunch.data) else bunch.data
    names = bunch.feature_names
    order = range(len(names)) if columns is None else columns
    lines = [",".join([*(names[c] for c in order), *(name for name, _ in extra)])]
    for row, numbers in enumerate(data.tolist()):
        cells = ["" if np.isnan(numbers[c]) else repr(numbers[c]) for c in order]
        lines.append(",".join([*cells, *(values[row] for _, values in extra)]))
    path.write_text("\n".join(lines), encoding="utf-8")


# ---- round trips -------------------------------------------------------------------------------


def test_predictions_are_those_of_the_library(folder, model):
    # Files sort the labels.
    expected = by_hand(load_partial_labels("animals.csv"))
    assert model.classes_.tolist() == sorted(LABELS)
    assert model[-1].transduction_.tolist() == expected[-1].transduction_.tolist()
    save_partial_labels("new.npz", NEW)
    table = predicted("new.npz")
    assert list(table[0]) == ["row", "label", "probability"]
    assert [row["row"] for row in table] == [str(row) for row in range(30)]
    assert [row["label"] for row in table] == expected.predict(NEW.data).tolist()
    same_bits([row["probability"] for row in table], expected.predict_proba(NEW.data).max(axis=1))


def test_probabilities_of_all_labels(folder, model):
    save_partial_labels("new.npz", NEW)
    table = predicted("new.npz", "--probabilities")
    expected = probabilities(model, NEW.data)
    for column, label in enumerate(sorted(LABELS)):
        same_bits([row[f"probability of {label}"] for row in table], expected[:, column])


def test_within_candidates(folder, model):
    save_partial_labels("new.csv", NEW)
    table = predicted("new.csv", "--within-candidates")
    bunch = load_partial_labels("new.csv")
    expected = probabilities(model, NEW.data, candidates=bunch.candidates)
    assert [row["label"] for row in table] == model.classes_[expected.argmax(axis=1)].tolist()
    assert all(
        row["label"] in bunch.target_names[own.indices]
        for row, own in zip(table, bunch.candidates, strict=True)
    )


@pytest.mark.parametrize("kind", ["npz", "mat", "parquet", "tsv"])
def test_other_formats(kind, folder, capsys):
    save_partial_labels(f"animals.{kind}", animals())
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    assert run("fit", f"animals.{kind}", "--out", "model.hera", *SHORT) == 0
    result = said_json(capsys, "predict", "model.hera", f"animals.{kind}")
    assert result["accuracy"] > 0.8
    assert {row["label"] for row in result["predictions"]} == set(LABELS)


def test_sparse_rows(folder, capsys):
    lines = [
        f"{y} 1:{a!r} 3:{b!r}\n"
        for y, a, b in zip(NEW.target + 5, *NEW.data[:, :2].T.tolist(), strict=True)
    ]
    (folder / "train.svm").write_text("".join(lines))
    assert run("fit", "train.svm", "--out", "model.hera", *SHORT) == 0
    loaded = load_model("model.hera")
    assert loaded.classes_.tolist() == [5, 6, 7, 8]
    # New rows without labels, which know only of the first features.
    (folder / "new.svm").write_text("1:0.5\n1:-2\n")
    table = predicted("new.svm")
    rows = sparse.csr_array(np.array([[0.5, 0, 0], [-2, 0, 0]]))
    assert [row["label"] for row in table] == [str(label) for label in loaded.predict(rows)]
    (folder / "wide.svm").write_text("1:0.5 9:1\n")
    written = said(capsys, "predict", "model.hera", "wide.svm", code=1)
    assert "wide.svm has 9 features, but model.hera was fitted to 3" in written.err


def test_missing_values(folder, capsys):
    bunch = animals()
    bunch.data[::7, 1] = np.nan
    save_partial_labels("gaps.csv", bunch)
    assert run("fit", "gaps.csv", "--out", "model.hera", *SHORT) == 0
    expected = by_hand(load_partial_labels("gaps.csv"))
    table = predicted("gaps.csv")
    same_bits([row["probability"] for row in table], expected.predict_proba(bunch.data).max(axis=1))
    # A model that was fitted to complete rows has nothing to put there.
    assert run("fit", "animals.csv", "--out", "model.hera", *SHORT) == 0
    written = said(capsys, "predict", "model.hera", "gaps.csv", code=1)
    assert "gaps.csv has no value in row 0, column 'größe (m)'" in written.err


def test_not_scaled(folder):
    assert run("fit", "animals.csv", "--out", "model.hera", "--no-scale", *SHORT) == 0
    loaded = load_model("model.hera")
    assert type(loaded) is HERAClassifier
    assert loaded.feature_names_in_.tolist() == FEATURES


def test_single_precision(folder):
    save_partial_labels("single.npz", animals(data=animals().data.astype(np.float32)))
    assert run("fit", "single.npz", "--out", "model.hera", *SHORT) == 0
    loaded = load_model("model.hera")
    assert loaded[-1].coef_.dtype == np.float32
    table = predicted("single.npz")
    expected = probabilities(loaded, load_partial_labels("single.npz").data)
    assert expected.dtype == np.float32
    same_bits([row["probability"] for row in table], expected.max(axis=1))


# ---- what fit does -----------------------------------------------------------------------------


def test_parameters_reach_the_model(folder):
    assert run(
        *("fit", "animals.csv", "--out", "model.hera", "--seed", "7", "--threads", "1"),
        *("--set", "kernel=None", "--set", "calibration=gaussian", "--set", "shrinkage=0.3"),
    ) == 0  # fmt: skip
    parameters = load_model("model.hera")[-1].get_params()
    assert parameters["kernel"] is None
    assert (parameters["calibration"], parameters["shrinkage"]) == ("gaussian", 0.3)
    assert (parameters["random_state"], parameters["verbose"], parameters["n_threads"]) == (
        7,
        0,
        None,
    )


@slow_to_converge
def test_the_method_of_the_paper(folder):
    call = ["fit", "animals.csv", "--out", "model.hera", "--method", "hera-paper"]
    assert run(*call, "--set", "max_iter=20") == 0
    fitted = load_model("model.hera")[-1]
    assert fitted.formulation == "paper"
    assert fitted.n_iter_ == 20


def test_equal_calls_write_equal_files(folder):
    for name, threads in (("a", "1"), ("b", "2")):
        assert run("fit", "animals.csv", "--out", name, "--threads", threads, *SHORT) == 0
    first, second = (load_model(name)[-1] for name in "ab")
    np.testing.assert_array_equal(first.confidence_, second.confidence_)


def test_what_fit_says(folder, capsys):
    result = said_json(capsys, "fit", "animals.csv", "--out", "my model.hera", *SHORT)
    assert result["model"] == "my model.hera"
    assert (result["rows"], result["features"], result["labels"]) == (80, 3, 4)
    assert result["iterations"] == load_model("my model.hera")[-1].n_iter_
    assert result["seconds"] > 0
    assert 0 < result["ambiguous_rows"] < 80
    assert 0.5 < result["resolved_share"] <= 1
    assert result["accuracy"] > 0.8
    written = said(capsys, "fit", "animals.csv", "--out", "my model.hera", *SHORT)
    assert "hera-fast predict 'my model.hera' new.csv --out labels.csv" in written.out
    assert "hera_fast.load_model('my model.hera')" in written.out


def test_without_truth_there_is_no_accuracy(folder, capsys):
    save_partial_labels("animals.csv", animals(target=None))
    result = said_json(capsys, "fit", "animals.csv", "--out", "model.hera", *SHORT)
    assert result["accuracy"] is None
    assert said_json(capsys, "predict", "model.hera", "animals.csv")["accuracy"] is None


def test_rows_that_leave_nothing_open(folder, capsys):
    bunch = animals()
    save_partial_labels("sure.npz", animals(candidates=np.eye(4, dtype=bool)[bunch.target]))
    result = said_json(capsys, "fit", "sure.npz", "--out", "model.hera", *SHORT)
    assert (result["ambiguous_rows"], result["resolved_share"]) == (0, None)
    assert "ambiguous rows:  0\n" in said(capsys, "fit", "sure.npz", "--out", "m", *SHORT).out


def test_one_label(folder):
    save_partial_labels("one.npz", make_bunch([[0.0], [1.0]], [{"a"}, {"a"}]))
    assert run("fit", "one.npz", "--out", "model.hera") == 0
    assert load_model("model.hera").classes_.tolist() == ["a"]


def test_other_columns(folder, capsys):
    write_rows(folder / "named.csv", NEW, extra=[("who", ["a;b", "b", "a"] * 10)])
    assert run("fit", "named.csv", "--candidates", "who", "--sep", ";", "--out", "model.hera") == 0
    assert load_model("model.hera").classes_.tolist() == ["a", "b"]


# ---- rows to predict ---------------------------------------------------------------------------


def test_rows_without_labels(folder, model, capsys):
    write_rows(folder / "new.csv", NEW)
    table = predicted("new.csv")
    same_bits([row["probability"] for row in table], probabilities(model, NEW.data).max(axis=1))
    assert said_json(capsys, "predict", "model.hera", "new.csv")["accuracy"] is None
    written = said(capsys, "predict", "model.hera", "new.csv", "--within-candidates", code=1)
    assert "new.csv has no candidates" in written.err


def test_columns_are_found_by_name(folder, model):
    write_rows(folder / "new.csv", NEW, columns=[2, 0, 1])
    table = predicted("new.csv")
    same_bits([row["probability"] for row in table], probabilities(model, NEW.data).max(axis=1))


def test_rows_with_the_truth_only(folder, model, capsys):
    names = [f"kind {kind}" for kind in NEW.target]
    write_rows(folder / "new.csv", NEW, extra=[("target", names)])
    assert said_json(capsys, "predict", "model.hera", "new.csv")["accuracy"] == 0
    np.savez(folder / "new.npz", X=NEW.data, y=NEW.target_names[NEW.target])
    accuracy = said_json(capsys, "predict", "model.hera", "new.npz")["accuracy"]
    best = model.classes_[probabilities(model, NEW.data).argmax(axis=1)]
    assert accuracy == np.mean(best == NEW.target_names[NEW.target])
    written = said(capsys, "predict", "model.hera", "new.npz", "--within-candidates", code=1)
    assert "new.npz has no candidates" in written.err


def test_arrays_without_names(folder, model):
    np.savez(folder / "new.npz", X=NEW.data)
    table = predicted("new.npz")
    same_bits([row["probability"] for row in table], probabilities(model, NEW.data).max(axis=1))


@pytest.mark.parametrize(
    ("names", "reasons"),
    [
        (["length", "weight", "=1+1"], ["no column 'größe (m)'", "the column 'weight'"]),
        (["length", "größe (m)"], ["no column '=1+1', which model.hera needs"]),
        ([*FEATURES, "color"], ["the column 'color', which model.hera does not know"]),
    ],
)
def test_other_features(names, reasons, folder, model, capsys):
    data = np.zeros((2, len(names)))
    save_partial_labels("new.csv", make_bunch(data, [{"a"}, {"b"}], feature_names=names))
    written = said(capsys, "predict", "model.hera", "new.csv", "--out", "labels.csv", code=1)
    assert written.err.startswith("hera-fast: error: new.csv has ")
    for reason in reasons:
        assert reason in written.err
    assert not (folder / "labels.csv").exists()


def test_other_numbers_of_features(folder, model, capsys):
    np.savez(folder / "new.npz", X=NEW.data[:, :2])
    written = said(capsys, "predict", "model.hera", "new.npz", code=1)
    assert "new.npz has 2 features, but model.hera was fitted to 3" in written.err


@pytest.mark.filterwarnings("always")
def test_candidates_that_the_model_does_not_know(folder, model, capsys):
    known = sorted(LABELS)[0]
    rows = {"feature_names": FEATURES}
    some = make_bunch(NEW.data[:2], [{known, "bat"}, {known}], **rows)
    save_partial_labels("some.npz", some)
    call = ["predict", "model.hera", "--within-candidates"]
    written = said(capsys, *call, "some.npz")
    assert "the model does not know the candidates 'bat'" in written.err
    assert written.out.count(known.split(",")[0]) == 2
    save_partial_labels("none.npz", make_bunch(NEW.data[:2], [{known}, {"bat", "rat"}], **rows))
    written = said(capsys, *call, "none.npz", code=1)
    assert "row 1 has no candidate that the model knows, but 'bat', 'rat'" in written.err


def test_a_data_set_by_its_name(folder, model, capsys):
    written = said(capsys, "predict", "model.hera", "digits", code=1)
    assert "digits has" in written.err


def test_what_is_no_model(folder, model, capsys):
    written = said(capsys, "predict", "animals.csv", "model.hera", code=1)
    assert "animals.csv is no intact hera-fast model" in written.err
    assert "The model comes first, then the data" in written.err
    assert "nowhere" in said(capsys, "predict", "nowhere", "animals.csv", code=1).err
    (folder / "cut.hera").write_bytes((folder / "model.hera").read_bytes()[:500])
    assert "cut.hera is no" in said(capsys, "predict", "cut.hera", "animals.csv", code=1).err


# ---- what predict writes -----------------------------------------------------------------------


def test_the_standard_output_is_the_table(folder, model, capsys):
    predicted("animals.csv")
    expected = (folder / "labels.csv").read_text(encoding="utf-8")
    for out in ([], ["--out", "-"]):
        written = said(capsys, "predict", "model.hera", "animals.csv", *out)
        assert written.out == expected
        assert written.err == ""


def test_accuracy_is_told(folder, model, capsys):
    written = said(capsys, "predict", "model.hera", "animals.csv", "--out", "labels.csv")
    assert written.out.startswith("80 labels: labels.csv\naccuracy: ")
    result = said_json(capsys, "predict", "model.hera", "animals.csv", "--out", "labels.csv")
    assert result.keys() == {"source", "model", "rows", "accuracy"}


def test_predictions_for_programs(folder, model, capsys):
    result = said_json(capsys, "predict", "model.hera", "animals.csv", "--probabilities")
    assert len(result["predictions"]) == 80
    first = result["predictions"][0]
    assert first.keys() == {"row", "label", "probability", "probabilities"}
    assert first["probabilities"][first["label"]] == first["probability"]
    assert set(first["probabilities"]) == set(LABELS)


def test_a_terminal_is_not_told_to_change_its_colour(folder, model, capsys, monkeypatch):
    monkeypatch.setattr("hera_fast.cli.csv_output.is_terminal", lambda stream: True)
    written = said(capsys, "predict", "model.hera", "animals.csv")
    assert_clean(written.out)
    assert "es\\x1b[31mcape" in written.out


# ---- tune --------------------------------------------------------------------------------------

TRY = ["--try", "kernel=None,rbf", "--try", "alpha=1,2", "--folds", "2"]


def test_tune(folder, capsys):
    result = said_json(capsys, "tune", "animals.csv", *TRY, *SHORT, "--out", "best.hera")
    assert (result["scoring"], result["folds"]) == ("candidate_lift", 2)
    settings = result["settings"]
    assert len(settings) == 4
    assert [setting["rank"] for setting in settings] == sorted(s["rank"] for s in settings)
    means = [setting["mean"] for setting in settings]
    assert means == sorted(means, reverse=True)
    assert settings[0]["parameters"] == result["best"]
    assert result["best_score"] == means[0]
    # What is to be pasted gives the same model.
    options = result["best_options"].split()
    assert run("fit", "animals.csv", "--out", "again.hera", *options) == 0
    best, again = load_model("best.hera"), load_model("again.hera")
    assert best.classes_.tolist() == sorted(LABELS)
    assert best.feature_names_in_.tolist() == FEATURES
    assert isinstance(best[0], StandardScaler)
    np.testing.assert_array_equal(probabilities(best, NEW.data), probabilities(again, NEW.data))


def test_what_tune_says(folder, capsys):
    written = said(capsys, "tune", "animals.csv", *TRY, "--scoring", "candidate_score")
    assert written.out.startswith("4 settings, 2 folds, ")
    assert written.out.count(" ± ") == 4
    assert "hera-fast fit animals.csv --out model.hera" in written.out
    assert "--set kernel=" in written.out
    assert not list(folder.glob("*.hera"))


def test_the_usual_search(folder, capsys):
    result = said_json(capsys, "tune", "animals.csv", "--folds", "2", "--seed", "3", *SHORT)
    assert len(result["settings"]) == 16
    assert json.dumps(result)
    assert run("fit", "animals.csv", "--out", "m", *result["best_options"].split()) == 0


def test_tune_without_scaling(folder):
    call = ["tune", "animals.csv", "--try", "kernel=None", "--folds", "2", "--no-scale"]
    assert run(*call, "--out", "best.hera") == 0
    assert type(load_model("best.hera")) is HERAClassifier

"""Classifiers in files: what comes back is what was saved, and nothing else is accepted."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import sklearn
from problems import clusters, hybrid
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import hera_fast
from hera_fast import HERAClassifier
from hera_fast.persistence import read_model, write_model

# The runs are short.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

n, d, q = 70, 4, 3
X, Y, y = clusters(n, d, q, noise=0.3)
queries = clusters(40, d, q, seed=1)[0]
weights = np.random.default_rng(2).integers(0, 3, n).astype(float)
THIN = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
names = np.array(["rot", "grün", "blau"])


class Subclass(HERAClassifier):
    """Of another kind as far as files are concerned."""


GAUSSIAN = hybrid().get_params()
RBF = hybrid(kernel="rbf", n_components=15, random_state=5).get_params()
MIXTURE = {"n_components": 15, "prediction": "hybrid", "random_state": 5}

# name: parameters, X, Y, sample_weight
SAVED = {
    "default": ({}, X, Y, None),
    "landmarks": (MIXTURE, X, Y, None),
    "landmarks of the features": ({**MIXTURE, "n_components": 2}, X, Y, None),
    "one kernel": ({"kernel": "laplacian"}, X, Y, None),
    "mixture, low rank": ({**MIXTURE, "nu": 0.1}, X, Y, weights),
    "gaussian": (GAUSSIAN, X, Y, None),
    "linear": ({**GAUSSIAN, "prediction": "linear"}, X, Y, None),
    "neighbors": ({**GAUSSIAN, "prediction": "neighbors", "neighbor_rank": 2}, X, Y, None),
    "least squares": ({**GAUSSIAN, "calibration": None, "nu": 0.1}, X, Y, None),
    "rbf": (RBF, X, Y, None),
    "rbf, linear": ({**RBF, "prediction": "linear"}, X, Y, weights),
    "CSR": ({}, THIN, Y, None),
    "CSR, landmarks": ({**MIXTURE, "n_components": 2}, THIN, Y, None),
    "CSR, gaussian": (GAUSSIAN, THIN, Y, None),
    "CSR matrix": (GAUSSIAN, sparse.csr_matrix(THIN), Y, None),
    "CSR, rbf": (RBF, THIN, Y, weights),
    "float32": ({}, X.astype(np.float32), Y, None),
    "float32, gaussian": (GAUSSIAN, X.astype(np.float32), Y, None),
    "float32, rbf, CSR": (RBF, THIN.astype(np.float32), Y, None),
    "weights": (GAUSSIAN, X, Y, weights),
    "weights, mixture": ({}, X, Y, weights),
    "paper": (HERAClassifier.paper(max_iter=20).get_params(), X, Y, weights),
    "strings": ({}, X, names[y], None),
    "sets of strings": ({}, X, [set(names[row]) for row in Y], None),
    "objects": ({}, X, names.astype(object)[y], None),
    "integers": ({}, X, np.array([-5, 7, 2**40])[y], None),
    "bool": ({}, X, y > 0, None),
    "one label": ({}, X, np.zeros(n, int), None),
    "label without rows": ({}, X, np.hstack([Y, np.zeros((n, 1), bool)]), None),
    "NumPy parameters": ({"alpha": np.float64(0.7), "n_neighbors": np.int64(3)}, X, Y, None),
}
FITTED = ("classes_", "coef_", "intercept_", "confidence_", "noise_", "transduction_")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a model"


def saved(path, **parameters):
    model = HERAClassifier(**parameters).fit(X, Y)
    model.save(path)
    return model


def same(found, expected):
    """Equal in every bit and in type."""
    assert type(found) is type(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("parameters", "rows", "candidates", "scale"), SAVED.values(), ids=SAVED)
def test_everything_comes_back(parameters, rows, candidates, scale, path):
    model = HERAClassifier(**parameters).fit(rows, candidates, sample_weight=scale)
    model.save(path)
    loaded = HERAClassifier.load(path)
    assert loaded.get_params() == model.get_params()
    for name in FITTED:
        same(getattr(loaded, name), getattr(model, name))
    assert (loaded.n_iter_, loaded.n_features_in_) == (model.n_iter_, d)
    assert loaded.history_.keys() == model.history_.keys()
    for name, figures in model.history_.items():
        same(loaded.history_[name], figures)
    for new in (queries, sparse.csr_matrix(queries), queries.astype(np.float32)):
        same(loaded.predict_proba(new), model.predict_proba(new))
        same(loaded.decision_function(new), model.decision_function(new))
        same(loaded.predict(new), model.predict(new))
    assert loaded.score(rows, candidates) == model.score(rows, candidates)


def test_feature_names_come_back(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["länge", "b", "c", "d"])
    model = HERAClassifier().fit(frame, Y)
    model.save(path)
    loaded = HERAClassifier.load(path)
    same(loaded.feature_names_in_, model.feature_names_in_)
    same(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[["b", "c", "d", "länge"]])


@pytest.mark.parametrize(
    "parameters",
    [{}, {"n_components": 2}, RBF, GAUSSIAN, {"calibration": "gaussian"}],
    ids=["default", "landmarks", "rbf", "gaussian", "linear"],
)
def test_a_loaded_model_refuses_rows_of_another_width(parameters, path):
    saved(path, **parameters)
    with pytest.raises(ValueError, match="5 features, but HERAClassifier is expecting 4"):
        HERAClassifier.load(path).predict(np.ones((2, 5)))


def test_what_the_coefficients_mean_comes_back(path):
    model = HERAClassifier().fit(X, Y).set_params(calibration=None, formulation="paper")
    model.save(path)
    loaded = HERAClassifier.load(path)
    assert (loaded.calibration, loaded.formulation) == (None, "paper")
    same(loaded.predict_proba(queries), model.predict_proba(queries))


def test_data_frames_as_output_do_not_disturb_a_loaded_model(path):
    pytest.importorskip("pandas")
    model = saved(path, **RBF)
    with sklearn.config_context(transform_output="pandas"):
        found = HERAClassifier.load(path).predict_proba(queries)
    same(found, model.predict_proba(queries))


def test_a_loaded_model_can_be_fitted_again(path):
    saved(path, alpha=0.5, random_state=0)
    loaded = HERAClassifier.load(path)
    expected = HERAClassifier(alpha=0.5, random_state=0).fit(X[:50], y[:50])
    same(loaded.fit(X[:50], y[:50]).predict_proba(queries), expected.predict_proba(queries))
    assert clone(HERAClassifier.load(path)).get_params() == loaded.get_params()


@pytest.mark.parametrize("nu", [0.0, 0.1])
def test_a_loaded_model_starts_anew_and_goes_on_from_there(nu, path):
    settings = {"warm_start": True, "max_iter": 3, "tol": 0.0, "nu": nu, "random_state": 0}
    saved(path, **settings)
    loaded = HERAClassifier.load(path)
    assert loaded.warm_start
    fresh = HERAClassifier(**settings)
    same(loaded.fit(X, Y).confidence_, fresh.fit(X, Y).confidence_)
    same(loaded.fit(X, Y).confidence_, fresh.fit(X, Y).confidence_)


@pytest.mark.parametrize("parameters", [MIXTURE, RBF], ids=["mixture", "rbf"])
def test_a_loaded_model_can_be_saved_again(parameters, path, tmp_path):
    saved(path, **parameters)
    HERAClassifier.load(path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("parameters", [MIXTURE, RBF], ids=["mixture", "rbf"])
def test_a_memory_mapped_model_can_be_saved(parameters, path, tmp_path):
    joblib = pytest.importorskip("joblib")
    model = HERAClassifier(**parameters).fit(THIN, Y)
    joblib.dump(model, tmp_path / "mapped")
    joblib.load(tmp_path / "mapped", mmap_mode="r").save(path)
    same(HERAClassifier.load(path).predict_proba(queries), model.predict_proba(queries))


def test_callback_and_generator_are_not_saved(path):
    model = saved(path, callback=lambda state: False, random_state=np.random.RandomState(0))
    loaded = HERAClassifier.load(path)
    assert loaded.callback is None
    assert loaded.random_state is None
    assert model.callback is not None
    assert loaded.set_params(callback=model.callback).fit(X, Y).n_iter_ == model.n_iter_


@pytest.mark.parametrize("seed", [0, np.int32(7), None])
def test_a_seed_is_saved(seed, path):
    saved(path, random_state=seed)
    assert HERAClassifier.load(path).random_state == seed


def test_a_subclass_is_saved_under_its_name(path):
    Subclass().fit(X, Y).save(path)
    assert type(Subclass.load(path)) is Subclass
    with pytest.raises(ValueError, match="holds a 'Subclass', but a 'HERAClassifier' was asked"):
        HERAClassifier.load(path)


# ---- refusals ----------------------------------------------------------------------------------


def test_an_unfitted_classifier_is_not_saved(path):
    with pytest.raises(NotFittedError):
        HERAClassifier().save(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([2**70, 2**71, 2**72], "classes_ holds objects that are not strings"),
        (["a", "b\0", "c"], "classes_ holds strings that end with a null character"),
    ],
)
def test_labels_that_need_a_pickle_are_refused(labels, message, path):
    path.write_text("what was there before")
    classes = np.array(labels, object)
    model = HERAClassifier().fit(X, [{label} for label in classes[y]])
    assert model.classes_.dtype == object
    with pytest.raises(TypeError, match=message):
        model.save(path)
    assert path.read_text() == "what was there before"


def test_files_without_a_model_are_refused(path):
    path.write_text("Dear reader")
    with pytest.raises(ValueError, match="a model is no intact hera-fast model"):
        HERAClassifier.load(path)
    with pytest.raises(FileNotFoundError):
        HERAClassifier.load(path.with_name("nowhere"))
    with open(path, "wb") as file:
        pickle.dump(HERAClassifier().fit(X, Y), file)
    with pytest.raises(ValueError, match="no intact hera-fast model"):
        HERAClassifier.load(path)
    np.savez(path.with_name("arrays.npz"), coef_=X)
    with pytest.raises(ValueError, match=r"has no header\.json"):
        HERAClassifier.load(path.with_name("arrays.npz"))


def test_files_of_another_kind_are_refused(path):
    write_model(path, "PLKNNClassifier", {}, {"coef_": X})
    with pytest.raises(ValueError, match="holds a 'PLKNNClassifier'"):
        HERAClassifier.load(path)


def test_truncated_files_are_refused(path):
    saved(path, **RBF)
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 40).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="no intact hera-fast model"):
            HERAClassifier.load(path)


def test_flipped_bits_are_noticed(path):
    saved(path)
    whole = path.read_bytes()
    expected = HERAClassifier.load(path).predict_proba(queries)
    random = np.random.default_rng(0)
    refused = 0
    for position in random.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        try:
            found = HERAClassifier.load(path).predict_proba(queries)
        except ValueError:
            refused += 1
        else:
            # Some bytes of an archive mean nothing, such as the date of a member.
            np.testing.assert_array_equal(found, expected)
    assert refused > 100


def rewritten(path, change):
    """Change the JSON document of a model file, and nothing else."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["header.json"])
    change(document)
    members["header.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_later_format_is_refused(path):
    saved(path)
    rewritten(path, lambda document: document.update(format_version=2))
    message = f"format version 2, but hera-fast {hera_fast.__version__} reads up to 1: update"
    with pytest.raises(ValueError, match=message):
        HERAClassifier.load(path)


def test_a_header_may_be_formatted_otherwise(path):
    model = saved(path)
    rewritten(path, lambda document: None)
    same(HERAClassifier.load(path).predict_proba(queries), model.predict_proba(queries))


def without(name):
    return lambda header, arrays: (header.pop(name, None), arrays.pop(name, None))


INCONSISTENT = {
    "no parameters": (without("parameters"), "parameters"),
    "unknown parameter": (lambda h, a: h["parameters"].update(depth=3), "depth"),
    "no meaning": (without("meaning"), "meaning"),
    "no coefficients": (without("coef_"), ""),
    "no labels": (without("classes_"), "classes_"),
    "no history": (without("history_objective"), "history_objective"),
    "no confidence": (without("confidence_"), ""),
    "other array": (lambda h, a: a.update(predict=X), "unexpected array 'predict'"),
    "too few labels": (lambda h, a: a.update(classes_=a["classes_"][:2]), "classes_ has shape"),
    "too few rows": (lambda h, a: a.update(_fit_X=X[1:]), r"_fit_X has shape \(69, 4\)"),
    "too few features": (lambda h, a: a.update(_fit_X=X[:, 1:]), r"_fit_X has shape \(70, 3\)"),
    "other mean": (lambda h, a: a.update(mean_0=np.zeros(9)), "mean_0 has shape"),
    "other W": (lambda h, a: a.update(W_1=a["W_1"][:, 1:]), r"W_1 has shape \(15, 2\)"),
    "other offset": (lambda h, a: a.update(offset_2=np.zeros(2)), "offset_2 has shape"),
    "other rows of a map": (
        lambda h, a: a.update(components_1=a["components_1"][:, 1:]),
        r"components_1 has shape \(15, 3\)",
    ),
    "other root of a map": (
        lambda h, a: a.update(normalization_2=a["normalization_2"][:, 1:]),
        r"normalization_2 has shape \(15, 14\)",
    ),
    "no members": (without("members"), "members"),
    "none of the members": (lambda h, a: h.update(members=[]), ""),
    "too few members": (lambda h, a: h["members"].pop(), "unexpected array"),
    "too many members": (lambda h, a: h["members"].append(h["members"][0]), "mean_3"),
    "unknown kernel": (lambda h, a: h["members"][1].update(kernel="sine"), "kernel 'sine'"),
    "no weight": (lambda h, a: h["members"][1].pop("weight"), "weight"),
    "vector": (lambda h, a: a.update(coef_=np.zeros(9)), ""),
    "objects that are none": (lambda h, a: h.update(objects=["x"]), "'x'"),
    "half a map": (without("components_1"), "components_1"),
}


@pytest.mark.parametrize(("change", "message"), INCONSISTENT.values(), ids=INCONSISTENT)
def test_files_that_make_no_sense_are_refused(change, message, path):
    saved(path, **MIXTURE)
    header, arrays = read_model(path, "HERAClassifier")
    change(header, arrays)
    write_model(path, "HERAClassifier", header, arrays)
    with pytest.raises(ValueError, match=f"a model is no HERAClassifier .*{message}"):
        HERAClassifier.load(path)


# ---- the format --------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [MIXTURE, RBF], ids=["mixture", "rbf"])
def test_no_pickle_is_involved(parameters, path, monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("pickled")

    model = HERAClassifier(**parameters).fit(X, names.astype(object)[y])
    expected = model.predict(queries)
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    model.save(path)
    np.testing.assert_array_equal(HERAClassifier.load(path).predict(queries), expected)


def test_numpy_alone_reads_a_model(path):
    model = saved(path, calibration="gaussian")
    with np.load(path, allow_pickle=False) as file:
        document = json.loads(file["header.json"])
        scores = queries @ file["coef_"].T + file["intercept_"]
        labels = file["classes_"][scores.argmax(axis=1)]
    assert document["kind"] == "HERAClassifier"
    assert document["header"]["parameters"]["prediction"] == "linear"
    np.testing.assert_array_equal(labels, model.predict(queries))


def test_numpy_alone_reads_a_mixture(path):
    """By the formulas of docs/model_files.md."""
    model = saved(path, n_components=15, random_state=5)
    with np.load(path, allow_pickle=False) as file:
        members = json.loads(file["header.json"])["header"]["members"]
        total = 0
        for place, member in enumerate(members):
            rows = queries
            if member["kernel"] is not None:
                differences = queries[:, np.newaxis] - file[f"components_{place}"]
                power = {"rbf": 2, "laplacian": 1}[member["kernel"]]
                distances = (np.abs(differences) ** power).sum(axis=2)
                rows = np.exp(-member["gamma"] * distances) @ file[f"normalization_{place}"].T
            scores = (rows - file[f"mean_{place}"]) @ file[f"W_{place}"] + file[f"offset_{place}"]
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            total = total + member["weight"] * odds / odds.sum(axis=1, keepdims=True)
    assert [member["kernel"] for member in members] == [None, "rbf", "laplacian"]
    expected = model.predict_proba(queries)
    total /= total.sum(axis=1, keepdims=True)
    # Members whose weight is below 1e-3 are left out of predictions.
    np.testing.assert_allclose(total, expected, rtol=0, atol=2e-3)


def test_an_existing_file_is_replaced(path):
    first = saved(path)
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    second = saved(path, alpha=0.3)
    assert HERAClassifier.load(copy).alpha == first.alpha
    assert HERAClassifier.load(path).alpha == second.alpha
    assert sorted(file.name for file in path.parent.iterdir()) == ["a model", "copy"]

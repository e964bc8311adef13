"""Models with the preparation of their rows: what comes back is what was saved."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from problems import clusters
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier, HERAClassifierCV
from hera_fast.experiments.sources import make_preparation
from hera_fast.persistence import model_kind, read_model, write_model
from hera_fast.pipeline_files import load_model, save_model

n, d, q = 70, 4, 3
X, Y, y = clusters(n, d, q, noise=0.3)
queries = clusters(40, d, q, seed=1)[0]
GAPS = X.copy()
GAPS[::5, 1] = np.nan
GAPS[3] = np.nan
THIN = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
EMPTY = np.column_stack([GAPS, np.full(n, np.nan)])

median = SimpleImputer(strategy="median", keep_empty_features=True)
# name: rows, steps before the classifier
PIPELINES = {
    "scaled": (X, [StandardScaler()]),
    "as prepared": (X, [make_preparation(X)]),
    "gaps, as prepared": (GAPS, [make_preparation(GAPS)]),
    "gaps": (GAPS, [median, StandardScaler()]),
    "gaps, not scaled": (GAPS, [median]),
    "gaps, means": (GAPS, [SimpleImputer(), StandardScaler()]),
    "an empty column": (EMPTY, [median, StandardScaler()]),
    "scaled first": (GAPS, [StandardScaler(), median]),
    "nested deeper": (GAPS, [make_pipeline(make_pipeline(median), StandardScaler())]),
    "sparse": (THIN, [make_preparation(THIN)]),
    "sparse matrix": (sparse.csr_matrix(THIN), [StandardScaler(with_mean=False)]),
    "not even scaled": (X, [StandardScaler(with_mean=False, with_std=False)]),
    "only scaled": (X, [StandardScaler(with_mean=False)]),
    "only centred": (X, [StandardScaler(with_std=False)]),
    "float32": (X.astype(np.float32), [StandardScaler()]),
    "float32, gaps": (GAPS.astype(np.float32), [make_preparation(GAPS)]),
    "float32, sparse": (THIN.astype(np.float32), [make_preparation(THIN)]),
    "alone": (X, []),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a model.hera"


def fitted(rows=GAPS, steps=None, labels=Y, **parameters):
    steps = [median, StandardScaler()] if steps is None else steps
    settings = {"n_components": 15, "random_state": 5, **parameters}
    return make_pipeline(*map(sklearn.clone, steps), HERAClassifier(**settings)).fit(rows, labels)


def leaves(model):
    steps = [step for _, step in model.steps]
    return [
        leaf for step in steps for leaf in (leaves(step) if isinstance(step, Pipeline) else [step])
    ]


def same(found, expected):
    """Equal in every bit and in type."""
    assert type(found) is type(expected)
    if expected is None:
        return
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("rows", "steps"), PIPELINES.values(), ids=PIPELINES)
def test_everything_comes_back(rows, steps, path):
    model = fitted(rows, steps)
    save_model(model, path)
    loaded = load_model(path)
    assert str(loaded) == str(model)
    for found, expected in zip(leaves(loaded), leaves(model), strict=True):
        assert found.get_params().keys() == expected.get_params().keys()
        for name in ("statistics_", "mean_", "var_", "scale_"):
            if hasattr(expected, name):
                same(getattr(found, name), getattr(expected, name))
        if hasattr(expected, "n_samples_seen_"):
            np.testing.assert_array_equal(found.n_samples_seen_, expected.n_samples_seen_)
        assert found.n_features_in_ == expected.n_features_in_
    same(loaded.predict_proba(rows), model.predict_proba(rows))
    same(loaded.predict(rows), model.predict(rows))
    if not sparse.issparse(rows):
        other = rows[::-1].astype(np.float64)
        same(loaded.predict_proba(other), model.predict_proba(other))
    save_model(loaded, path.with_name("again"))
    assert path.with_name("again").read_bytes() == path.read_bytes()


def test_a_classifier_is_saved_as_by_itself(path):
    model = HERAClassifier(random_state=0).fit(X, Y)
    save_model(model, path)
    model.save(path.with_name("by itself"))
    assert path.read_bytes() == path.with_name("by itself").read_bytes()
    same(load_model(path).predict_proba(queries), model.predict_proba(queries))


def test_candidates_of_new_rows(path):
    model = fitted(X, [StandardScaler()])
    save_model(model, path)
    expected = model.predict_proba(X, candidates=Y)
    same(load_model(path).predict_proba(X, candidates=Y), expected)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_feature_names_come_back(library, path):
    frames = pytest.importorskip(library)
    names = ["länge", "b", "c", "d"]
    frame = frames.DataFrame(dict(zip(names, GAPS.T, strict=True)))
    model = fitted(frame)
    save_model(model, path)
    loaded = load_model(path)
    assert loaded.feature_names_in_.tolist() == names
    assert loaded.feature_names_in_.dtype == object
    same(loaded.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[names[::-1]])


def test_frames_between_the_steps(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(GAPS, columns=list("abcd"))
    steps = make_pipeline(median, StandardScaler(), HERAClassifier(n_components=15, random_state=5))
    model = steps.set_output(transform="pandas").fit(frame, Y)
    save_model(model, path)
    loaded = load_model(path)
    # Neither warns of missing names.
    same(loaded.predict_proba(frame), model.predict_proba(frame))
    assert loaded[-1].feature_names_in_.tolist() == list("abcd")


def test_labels_come_back(path):
    names = np.array(["rot", "grün", "blau"])
    model = fitted(labels=names[y])
    save_model(model, path)
    assert load_model(path).classes_.tolist() == ["blau", "grün", "rot"]


def test_names_of_steps_come_back(path):
    model = Pipeline([("größe", StandardScaler()), ("hera", HERAClassifier())]).fit(X, Y)
    save_model(model, path)
    assert list(load_model(path).named_steps) == ["größe", "hera"]


# ---- refusals ----------------------------------------------------------------------------------


class Subclass(HERAClassifier):
    """Of another kind as far as files are concerned."""


REFUSED = {
    "text": ("model", "'model' cannot be saved"),
    "scaler": (StandardScaler().fit(X), "a StandardScaler cannot be saved: pass a HERAClassifier"),
    "subclass": (Subclass().fit(X, Y), "use the methods save and load of Subclass"),
    "PCA": (make_pipeline(PCA(2), HERAClassifier()).fit(X, Y), "the step 'pca' is a PCA"),
    "passthrough": (
        Pipeline([("a", "passthrough"), ("b", HERAClassifier())]).fit(X, Y),
        "the step 'a' is 'passthrough'",
    ),
    "no classifier": (make_pipeline(StandardScaler()).fit(X), "ends with a StandardScaler"),
    "constants": (fitted(steps=[SimpleImputer(strategy="constant")]), "strategy='constant'"),
    "indicator": (fitted(steps=[SimpleImputer(add_indicator=True)]), "add_indicator=True"),
    "other gaps": (fitted(X, [SimpleImputer(missing_values=-1)]), "missing_values=-1"),
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=REFUSED)
def test_other_models_are_refused(model, message, path):
    path.write_text("what was there before")
    with pytest.raises(TypeError, match=message):
        save_model(model, path)
    assert path.read_text() == "what was there before"


def test_a_search_is_refused(path):
    search = HERAClassifierCV({"kernel": [None]}, cv=2, random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="HERAClassifierCV cannot be saved: save its best_estima"):
        save_model(search, path)
    save_model(search.best_estimator_, path)


@pytest.mark.parametrize(
    "model",
    [
        HERAClassifier(),
        make_pipeline(StandardScaler(), HERAClassifier()),
        make_pipeline(StandardScaler(), HERAClassifier().fit(X, Y)),
    ],
)
def test_models_that_are_not_fitted_are_refused(model, path):
    with pytest.raises(NotFittedError):
        save_model(model, path)
    assert not path.exists()


def test_the_class_says_how_to_read_a_pipeline(path):
    save_model(fitted(), path)
    with pytest.raises(ValueError, match=r"holds a 'Pipeline'.*Read it with hera_fast.load_model"):
        HERAClassifier.load(path)


def test_other_files_are_refused(path):
    with pytest.raises(FileNotFoundError):
        load_model(path)
    path.write_text("Dear reader")
    with pytest.raises(ValueError, match=r"a model\.hera is no intact hera-fast model"):
        load_model(path)
    Subclass().fit(X, Y).save(path)
    with pytest.raises(ValueError, match=r"a model\.hera holds a 'Subclass'"):
        load_model(path)


def test_truncated_files_are_refused(path):
    save_model(fitted(), path)
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 30).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="no intact hera-fast model"):
            load_model(path)


def test_flipped_bits_are_noticed(path):
    save_model(fitted(), path)
    whole = path.read_bytes()
    expected = load_model(path).predict_proba(queries)
    random = np.random.default_rng(0)
    refused = 0
    for position in random.integers(0, len(whole), 100):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        try:
            found = load_model(path).predict_proba(queries)
        except ValueError:
            refused += 1
        else:
            # Some bytes of an archive mean nothing, such as the date of a member.
            np.testing.assert_array_equal(found, expected)
    assert refused > 60


def step(place, **changes):
    return lambda header, arrays: header["steps"][place].update(changes)


def parameter(place, **changes):
    return lambda header, arrays: header["steps"][place]["parameters"].update(changes)


def array(**changes):
    return lambda header, arrays: arrays.update(changes)


def without(name):
    return lambda header, arrays: (header.pop(name, None), arrays.pop(name, None))


NAN, BAD = np.full(d, np.nan), np.array([1.0, np.inf, 1.0, 1.0])
INCONSISTENT = {
    "no steps": (without("steps"), "steps"),
    "none of the steps": (lambda h, a: h.update(steps=[]), ""),
    "steps of another type": (lambda h, a: h.update(steps=7), ""),
    "no classifier": (lambda h, a: h["steps"].pop(), "ends with a 'StandardScaler'"),
    "no scaler": (lambda h, a: h["steps"].pop(1), "unexpected array 'step1_"),
    "unknown step": (step(0, kind="PCA"), "unknown step 'PCA'"),
    "classifier inside": (step(0, kind="HERAClassifier"), "unknown step 'HERAClassifier'"),
    "no kind": (lambda h, a: h["steps"][0].pop("kind"), "kind"),
    "same names": (step(0, name="standardscaler"), "steps of the names"),
    "name of another type": (step(0, name=3), "steps of the names"),
    "empty pipeline": (step(0, kind="Pipeline", steps=[]), "steps of the names"),
    "unknown parameter": (parameter(0, depth=3), "depth"),
    "no parameters": (lambda h, a: h["steps"][1].pop("parameters"), "parameters"),
    "wrong parameter": (parameter(1, with_std="maybe"), "with_std"),
    "unknown strategy": (parameter(0, strategy="guess"), "strategy='guess'"),
    "unknown dtype": (step(0, dtype="|O"), "fitted to object"),
    "no dtype": (lambda h, a: h["steps"][0].pop("dtype"), "dtype"),
    "unknown output": (step(1, output="paper"), "unknown output 'paper'"),
    "no output": (lambda h, a: h["steps"][1].pop("output"), "output"),
    "no statistics": (without("step0_statistics_"), "statistics_ is missing"),
    "statistics too short": (array(step0_statistics_=np.zeros(3)), "has 3 columns instead of 4"),
    "statistics of rows": (array(step0_statistics_=np.zeros((2, 2))), r"has shape \(2, 2\)"),
    "NaN for gaps": (array(step0_statistics_=NAN), "statistics_ is not finite"),
    "infinity for gaps": (array(step0_statistics_=BAD), "statistics_ is not finite"),
    "text for gaps": (array(step0_statistics_=np.array(["a"] * d)), ""),
    "no mean": (without("step1_mean_"), "mean_ is missing"),
    "no scale": (without("step1_scale_"), "scale_ is missing"),
    "no count": (without("step1_n_samples_seen_"), "n_samples_seen_ is missing"),
    "mean too long": (array(step1_mean_=np.zeros(9)), r"mean_ has shape \(9,\)"),
    "mean not finite": (array(step1_mean_=NAN), "mean_ is not finite"),
    "scale of zero": (array(step1_scale_=np.zeros(d)), "scale_ is not positive"),
    "variance too short": (array(step1_var_=np.ones(2)), r"var_ has shape \(2,\)"),
    "names too short": (array(step0_feature_names_in_=np.array(["a"])), "feature_names_in_ has"),
    "numbers for names": (array(step0_feature_names_in_=np.zeros(d)), "float64 instead of text"),
    "other array": (array(step2_mean_=X), "unexpected array 'step2_mean_'"),
    "other array of the classifier": (array(predict=X), "unexpected array 'predict'"),
    "other labels": (array(classes_=np.array([1])), "classes_ has shape"),
}


@pytest.mark.parametrize(("change", "message"), INCONSISTENT.values(), ids=INCONSISTENT)
def test_files_that_make_no_sense_are_refused(change, message, path):
    save_model(fitted(), path)
    assert model_kind(path) == "Pipeline"
    header, arrays = read_model(path, "Pipeline")
    change(header, arrays)
    write_model(path, "Pipeline", header, arrays)
    with pytest.raises(ValueError, match=rf"a model\.hera is no Pipeline .*{message}"):
        load_model(path)


def test_a_file_cannot_claim_memory(path):
    model = fitted(X, [StandardScaler(with_mean=False, with_std=False)])
    save_model(model, path)
    header, arrays = read_model(path, "Pipeline")
    # The classifier says how many columns there are, not the header.
    header["steps"][0]["n_features_in_"] = 10**15
    write_model(path, "Pipeline", header, arrays)
    assert load_model(path).n_features_in_ == d


def test_no_pickle_is_involved(path, monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("pickled")

    model = fitted()
    expected = model.predict(queries)
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path).predict(queries), expected)


def test_numpy_alone_reads_a_pipeline(path):
    """By the formulas of docs/model_files.md."""
    model = fitted(calibration="gaussian", kernel=None)
    save_model(model, path)
    with np.load(path, allow_pickle=False) as file:
        rows = np.where(np.isnan(GAPS), file["step0_statistics_"], GAPS)
        rows = (rows - file["step1_mean_"]) / file["step1_scale_"]
        scores = rows @ file["coef_"].T + file["intercept_"]
        labels = file["classes_"][scores.argmax(axis=1)]
    np.testing.assert_array_equal(labels, model.predict(GAPS))

"""HERAClassifier among scikit-learn's tools: its checks, pipelines, searches, copies, routing."""

from __future__ import annotations

import copy
import io
import pickle
from contextlib import contextmanager

import joblib
import numpy as np
import pytest
import sklearn
from problems import clusters, hybrid
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from hera_fast import HERAClassifier

SETTINGS = {
    "default": HERAClassifier(random_state=0),
    "mixture, hybrid": HERAClassifier(prediction="hybrid", n_components=3, random_state=0),
    "paper": HERAClassifier.paper(max_iter=30),
    "gaussian": hybrid(),
    "linear": hybrid(prediction="linear"),
    "neighbors": hybrid(prediction="neighbors"),
    "least squares": hybrid(calibration=None),
    "low rank": hybrid(nu=0.1),
    "rbf": hybrid(kernel="rbf", n_components=20, random_state=0),
}
each_setting = pytest.mark.parametrize("model", SETTINGS.values(), ids=SETTINGS)

X, Y, y = clusters(80, 4, 3, noise=0.4)

# Runs are short here, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# All iterations of the paper's settings would take minutes and do the same again and again.
CHECKED = {
    "default": HERAClassifier(),
    "paper": HERAClassifier.paper(max_iter=150),
    "gaussian": hybrid(),
    "linear": hybrid(prediction="linear"),
    "least squares": hybrid(calibration=None),
    "low rank": hybrid(nu=0.1),
    "rbf": hybrid(kernel="rbf"),
}
CHECKS = [
    pytest.param(estimator, check, id=f"{name}-{check.func.__name__}")
    for name, model in CHECKED.items()
    for estimator, check in estimator_checks_generator(model)
]


# The checks use tiny data and, some of them, few iterations. Warnings that a run did not converge,
# or that the paper's problem collapsed, are part of that.
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_tags():
    tags = HERAClassifier().__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.estimator_type == "classifier"
    assert tags.target_tags.required
    assert is_classifier(HERAClassifier())


@each_setting
def test_copies_predict_the_same_bits(model, tmp_path):
    model = clone(model).fit(X, Y)
    expected = model.predict_proba(X)
    file = tmp_path / "model.joblib"
    joblib.dump(model, file)
    copies = {
        "pickle": pickle.loads(pickle.dumps(model)),
        "deepcopy": copy.deepcopy(model),
        "joblib": joblib.load(file),
        "memory map": joblib.load(file, mmap_mode="r"),
    }
    for name, twin in copies.items():
        np.testing.assert_array_equal(twin.predict_proba(X), expected, err_msg=name)


def test_a_sparse_model_works_from_a_memory_map(tmp_path):
    rows = sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0))
    model = HERAClassifier(prediction="hybrid").fit(rows, Y, sample_weight=np.arange(1.0, 81))
    joblib.dump(model, tmp_path / "model.joblib")
    twin = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    np.testing.assert_array_equal(twin.predict_proba(rows), model.predict_proba(rows))


@each_setting
def test_a_clone_is_not_fitted_and_has_the_same_parameters(model):
    twin = clone(clone(model).fit(X, Y))
    assert twin.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        twin.predict(X)


def test_a_failed_fit_does_not_count_as_one():
    model = HERAClassifier(mu=2.0, alpha=1.0)
    with pytest.raises(ValueError, match="mu must be less than alpha"):
        model.fit(X, Y)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError):
            method(X)


def as_sets(Y):
    return [set(np.flatnonzero(row).tolist()) for row in Y]


@pytest.mark.parametrize("form", [np.asarray, lambda Y: Y.astype(int), as_sets])
def test_cross_validation_without_truth_is_finite(form):
    scores = cross_val_score(HERAClassifier(), X, form(Y), cv=4, error_score="raise")
    assert scores.shape == (4,)
    # A label at random would be among the candidates less often.
    assert (scores > Y.mean()).all()
    assert (scores <= 1).all()


def test_cross_validation_survives_labels_that_training_rows_lack():
    # In each fold, the label of the last rows is not among the training rows' candidates.
    labels = [{int(label)} for label in np.repeat(np.arange(4), 20)]
    with pytest.warns(UserWarning, match="No label in y is one of classes_"):
        scores = cross_val_score(HERAClassifier(), X, labels, cv=KFold(4), error_score="raise")
    np.testing.assert_array_equal(scores, 0)


def test_grid_search_finds_the_best_parameters():
    search = GridSearchCV(
        HERAClassifier(prediction="hybrid", ranking=True),
        {
            "neighbor_weight": [0.0, 1.0],
            "calibration": ["mixture", "gaussian", None],
            "nu": [0.0, 0.1],
        },
        cv=3,
        error_score="raise",
    ).fit(X, Y)
    results = search.cv_results_["mean_test_score"]
    assert results.shape == (12,)
    assert np.isfinite(results).all()
    assert search.best_score_ == results.max()
    assert search.score(X, y) > 0.7


def test_a_pipeline_scales_and_classifies():
    scaled = X * [1, 100, 1, 1] + 7
    pipe = make_pipeline(StandardScaler(), HERAClassifier(random_state=0)).fit(scaled, Y)
    by_hand = StandardScaler().fit_transform(scaled)
    expected = HERAClassifier(random_state=0).fit(by_hand, Y).predict(by_hand)
    np.testing.assert_array_equal(pipe.predict(scaled), expected)
    assert pipe.score(scaled, Y) >= pipe.score(scaled, y)


@contextmanager
def pandas_output():
    with sklearn.config_context(transform_output="pandas"):
        yield


@each_setting
def test_data_frames_as_output_do_not_disturb(model):
    pytest.importorskip("pandas")
    expected = clone(model).fit(X, Y).predict_proba(X)
    with pandas_output():
        found = clone(model).fit(X, Y).predict_proba(X)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, expected)


@each_setting
def test_a_pipeline_may_pass_data_frames(model):
    pytest.importorskip("pandas")
    plain = make_pipeline(StandardScaler(), clone(model)).fit(X, Y)
    framed = make_pipeline(StandardScaler(), clone(model)).set_output(transform="pandas")
    framed.fit(X, Y)
    assert framed[-1].feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    np.testing.assert_array_equal(framed.predict_proba(X), plain.predict_proba(X))


def test_feature_names_are_recorded_and_compared():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = HERAClassifier().fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.predict(frame), HERAClassifier().fit(X, Y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.score(frame.rename(columns={"a": "A"}), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_candidates_in_a_data_frame_name_the_classes():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(Y, columns=["red", "green", "blue"])
    model = HERAClassifier().fit(X, frame)
    assert model.classes_.tolist() == ["red", "green", "blue"]
    shuffled = frame[["blue", "red", "green"]]
    assert model.score(X, shuffled) == model.score(X, Y)
    found = model.predict(X, candidates=shuffled)
    assert found.tolist() == [
        model.classes_[label] for label in HERAClassifier().fit(X, Y).predict(X, candidates=Y)
    ]


@contextmanager
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Recording(HERAClassifier):
    """Keeps what it is called with."""

    def fit(self, X, y, sample_weight=None):
        self.fit_weight_ = None if sample_weight is None else np.asarray(sample_weight)
        return super().fit(X, y, sample_weight)

    def predict(self, X, candidates=None):
        self.candidates_ = candidates
        return super().predict(X, candidates)

    def score(self, X, y, sample_weight=None):
        self.score_weight_ = None if sample_weight is None else np.asarray(sample_weight)
        return super().score(X, y, sample_weight)


def test_weights_reach_fit_through_cross_validation():
    weights, cv = np.arange(1.0, 81), KFold(4)
    with routing():
        model = Recording().set_fit_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        results = cross_validate(
            *(pipe, X, y),
            cv=cv,
            scoring=get_scorer("accuracy").set_score_request(sample_weight=True),
            params={"sample_weight": weights},
            return_estimator=True,
            error_score="raise",
        )
    assert np.isfinite(results["test_score"]).all()
    for fitted, (train, _) in zip(results["estimator"], cv.split(X), strict=True):
        np.testing.assert_array_equal(fitted[-1].fit_weight_, weights[train])


def test_weights_reach_score_through_a_pipeline():
    weights = np.arange(1.0, 81)
    with routing():
        model = Recording().set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler(), model).fit(X, Y)
        found = pipe.score(X, y, sample_weight=weights)
    np.testing.assert_array_equal(pipe[-1].score_weight_, weights)
    assert found == accuracy_score(y, pipe.predict(X), sample_weight=weights)


def test_weights_are_not_routed_unless_asked_for():
    with routing():
        model = Recording().set_fit_request(sample_weight=False)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), model)
        pipe.fit(X, Y, sample_weight=np.arange(1.0, 81))
        assert pipe[-1].fit_weight_ is None
        with pytest.raises(ValueError, match="sample_weight"):
            make_pipeline(StandardScaler(), Recording()).fit(X, Y, sample_weight=np.ones(80))


def test_candidates_reach_predict_through_a_pipeline():
    with routing():
        model = Recording().set_predict_request(candidates=True)
        pipe = Pipeline([("scale", StandardScaler()), ("hera", model)]).fit(X, Y)
        only_first = np.zeros_like(Y)
        only_first[:, 0] = True
        found = pipe.predict(X, candidates=only_first)
    np.testing.assert_array_equal(found, 0)
    assert pipe[-1].candidates_ is only_first


def test_candidates_reach_predict_proba_through_a_pipeline():
    with routing():
        model = HERAClassifier().set_predict_proba_request(candidates=True)
        pipe = make_pipeline(StandardScaler(), model).fit(X, Y)
        found = pipe.predict_proba(X, candidates=Y)
    assert (found[~Y] == 0).all()


def test_repr_and_pickle_of_an_unfitted_classifier():
    model = HERAClassifier(alpha=2.0)
    assert repr(model) == "HERAClassifier(alpha=2.0)"
    buffer = io.BytesIO()
    pickle.dump(model, buffer)
    buffer.seek(0)
    assert pickle.load(buffer).get_params() == model.get_params()


def test_the_warning_of_a_short_run_points_at_the_call_of_fit():
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=1 ") as caught:
        HERAClassifier(max_iter=1, nu=0.1).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(ConvergenceWarning, match="collapsed") as caught:
        HERAClassifier.paper(mu=10.0, penalty=1.0, tol=0.1).fit(X, Y)
    assert {warning.filename for warning in caught} == {__file__}

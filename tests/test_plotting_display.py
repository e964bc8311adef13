"""Checks of what is drawn, and classifiers inside pipelines and searches."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier, HERAClassifierCV
from hera_fast.baselines import PLKNNClassifier
from hera_fast.plotting.display import as_numbers, fitted_model

X = np.array([[0.0], [1.0], [0.1], [1.1], [0.2], [1.2]])
Y = [{"a"}, {"b"}, {"a", "b"}, {"b"}, {"a"}, {"b", "a"}]


def make_models():
    single = HERAClassifier(calibration="gaussian")
    pipeline = make_pipeline(StandardScaler(), single)
    return {
        "plain": single,
        "pipeline": pipeline,
        "search": HERAClassifierCV(
            {"shrinkage": [0.1, 1.0]}, estimator=single, cv=2, random_state=0
        ),
        "search in pipeline": make_pipeline(
            StandardScaler(),
            HERAClassifierCV({"shrinkage": [0.1]}, estimator=single, cv=2, random_state=0),
        ),
    }


@pytest.mark.parametrize("name", make_models())
def test_classifiers_are_found(name):
    model = make_models()[name]
    with pytest.raises(NotFittedError):
        fitted_model(model, "history_")
    assert isinstance(fitted_model(model.fit(X, Y), "history_"), HERAClassifier)


def test_pipelines_inside_searches():
    pipeline = make_pipeline(StandardScaler(), HERAClassifier(calibration="gaussian"))
    search = GridSearchCV(pipeline, {"herafastclassifier__alpha": [1.0]}, cv=2)
    with pytest.raises(NotFittedError):
        fitted_model(search, "noise_")
    search.best_estimator_ = pipeline.fit(X, Y)
    assert fitted_model(search, "noise_").noise_.shape == (6, 2)


def test_attributes_are_missing():
    with pytest.raises(TypeError, match="PLKNNClassifier has no noise_"):
        fitted_model(PLKNNClassifier(n_neighbors=1).fit(X, Y), "noise_")
    for wrong in (HERAClassifier, None, "passthrough"):
        with pytest.raises(TypeError, match="model must be a fitted classifier, got"):
            fitted_model(wrong, "noise_")


def test_numbers():
    assert as_numbers("a", [[1, 2]], None, 2).dtype == np.float64
    with pytest.raises(ValueError, match=r"a must have the shape \(n, 3\), got \(1, 2\)"):
        as_numbers("a", [[1, 2]], None, 3)
    with pytest.raises(ValueError, match=r"a must have the shape \(n,\), got \(\)"):
        as_numbers("a", 1, None)
    for wrong in (["x"], [[1], [2, 3]], [{}]):
        with pytest.raises(ValueError, match="a must be numbers: "):
            as_numbers("a", wrong, None)

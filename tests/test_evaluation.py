"""Cross-validation on candidates: who sees what, the same folds for all, the same table always."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import joblib
import numba
import numpy as np
import pytest
from absent import hide
from partial_models import AverageLogistic, Constant
from problems import clusters
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from hera_fast import HERAClassifier
from hera_fast.comparison import compare
from hera_fast.evaluation import cross_validate_partial
from hera_fast.scores import candidate_lift, candidate_score

X, Y, y = clusters(90, 4, 5, noise=0.5, spread=2.0)
NAMES = np.array(["ant", "bee", "cow", "dog", "eel"])
MODELS = {
    "hera": HERAClassifier(n_neighbors=3),
    "linear": HERAClassifier(prediction="linear", max_iter=3),
    "logistic": AverageLogistic(),
}
SECONDS = ["fit_seconds", "predict_seconds"]
COLUMNS = [
    *("estimator", "fold", "n_train", "n_test"),
    *("inductive", "transductive", "macro_f1", "log_loss", "covering", "lift"),
    *(*SECONDS, "n_iter", "n_warnings"),
]


def columns(table):
    """What does not depend on the time it took."""
    return {name: list(table[name]) for name in table if name not in SECONDS}


def assert_same(table, other):
    assert list(table) == list(other)
    for name, column in columns(table).items():
        np.testing.assert_array_equal(column, list(other[name]), err_msg=name)


def label_sets(matrix):
    return [set(NAMES[row]) for row in matrix]


@pytest.fixture(scope="module")
def table():
    return cross_validate_partial(MODELS, X, Y, y, cv=3)


def test_rows_and_columns(table):
    pandas = pytest.importorskip("pandas")
    assert isinstance(table, pandas.DataFrame)
    assert list(table) == COLUMNS
    assert list(table["estimator"]) == [name for name in MODELS for _ in range(3)]
    assert list(table["fold"]) == [0, 1, 2] * 3
    assert set(table["n_train"]) == {60}
    assert set(table["n_test"]) == {30}
    assert (table[SECONDS] > 0).all(axis=None)
    figures = table[["inductive", "transductive", "macro_f1", "covering"]]
    assert ((figures > 0) & (figures < 1)).all(axis=None)
    # Each true label is a candidate.
    assert (table["covering"] >= table["inductive"]).all()
    assert table["n_iter"].isna().tolist() == [False] * 6 + [True] * 3
    # Three iterations are not enough, and say so.
    assert table["n_warnings"].tolist() == [0] * 3 + [1] * 3 + [0] * 3


def test_figures_are_those_of_a_loop(table):
    folds = KFold(3, shuffle=True, random_state=0).split(X)
    for fold, (train, test) in enumerate(folds):
        model = make_pipeline(StandardScaler(), clone(MODELS["hera"])).fit(X[train], Y[train])
        assert table["inductive"][fold] == model.score(X[test], y[test])
        assert table["transductive"][fold] == np.mean(model[-1].transduction_ == y[train])
        assert table["covering"][fold] == candidate_score(model, X[test], Y[test])
        assert table["lift"][fold] == pytest.approx(candidate_lift(model, X[test], Y[test]))


def test_any_number_of_jobs(table):
    assert_same(cross_validate_partial(MODELS, X, Y, y, cv=3, n_jobs=2), table)


def test_jobs_share_the_threads(monkeypatch):
    seen = []

    def evaluate(name, model, problem, fold, n_threads):
        seen.append(n_threads)
        return dict.fromkeys(COLUMNS, 0.0)

    monkeypatch.setattr("hera_fast.evaluation.evaluate_fold", evaluate)
    monkeypatch.setattr(numba, "get_num_threads", lambda: 8)
    for n_jobs, n_threads in [(1, 8), (2, 4), (3, 2), (50, 1)]:
        with joblib.parallel_config(backend="threading"):
            cross_validate_partial(Constant(), X, Y, y, cv=9, n_jobs=n_jobs)
        assert set(seen) == {n_threads}
        seen.clear()
    with joblib.parallel_config(backend="threading"):
        cross_validate_partial(Constant(), X, Y, y, cv=2, n_jobs=8)  # only two tasks
    assert seen == [4, 4]


def test_folds(table):
    again = cross_validate_partial(MODELS["hera"], X, Y, y, cv=3, random_state=0)
    assert list(again["inductive"]) == list(table["inductive"][:3])
    assert list(again["estimator"]) == ["HERAClassifier"] * 3
    other = cross_validate_partial(MODELS["hera"], X, Y, y, cv=3, random_state=1)
    assert list(other["log_loss"]) != list(again["log_loss"])
    splitter = KFold(3, shuffle=True, random_state=0)
    masks = [(np.isin(np.arange(90), train), test) for train, test in splitter.split(X)]
    for cv in (splitter, list(splitter.split(X)), splitter.split(X), masks):
        assert_same(cross_validate_partial(MODELS["hera"], X, Y, y, cv=cv), again)
    assert len(cross_validate_partial(Constant(), X, Y, y)["fold"]) == 10
    alone = cross_validate_partial(Constant(), X[:20], Y[:20], y[:20], cv=LeaveOneOut())
    assert set(alone["n_test"]) == {1}


def test_splitters_are_given_the_truth():
    truth = np.repeat([0, 1, 2], [60, 20, 10])
    candidates = np.ones((90, 3))
    found = cross_validate_partial(Constant(1), X, candidates, truth, cv=StratifiedKFold(10))
    assert list(found["inductive"]) == [2 / 9] * 10


# Who sees what


class Spy(ClassifierMixin, BaseEstimator):
    """Takes down what it is given; the first feature of a row is its number."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, *arguments, **more):
        assert not more
        (self.Y_,) = arguments
        self.rows_ = X[:, 0].astype(int)
        self.X_ = X
        return self

    def predict(self, X, *arguments, **more):
        assert not arguments
        assert not more
        self.seen.append((self.rows_, X[:, 0].astype(int), self.X_, self.Y_))
        return np.zeros(len(X), int)


def test_nobody_sees_the_truth_or_held_out_rows():
    numbered = np.column_stack([np.arange(90), X])
    Spy.seen.clear()
    held_out = []
    cross_validate_partial({"a": Spy(), "b": Spy()}, numbered, Y, y, cv=4, scaler=None)
    for train, test, rows, candidates in Spy.seen:
        assert sorted([*train, *test]) == list(range(90))
        np.testing.assert_array_equal(rows, numbered[train])
        # A matrix of all labels, which says nothing of the truth.
        assert candidates.dtype == bool
        np.testing.assert_array_equal(candidates, Y[train])
        assert not np.shares_memory(candidates, Y)
        assert not np.shares_memory(rows, numbered)
        held_out.append(test.tolist())
    assert len(held_out) == 8
    assert held_out[:4] == held_out[4:]
    assert sorted(chain.from_iterable(held_out[:4])) == list(range(90))


def test_other_truth_changes_only_what_is_measured(table):
    """With another true label among the candidates, everything else stays."""
    other = np.where(Y[:, ::-1].sum(axis=1) > 1, 4 - Y[:, ::-1].argmax(axis=1), y)
    assert (other != y).any()
    found = cross_validate_partial(MODELS, X, Y, other, cv=3)
    for name in ("covering", "lift", "n_iter", "n_warnings"):
        np.testing.assert_array_equal(found[name], table[name])
    assert list(found["inductive"]) != list(table["inductive"])


def test_held_out_candidates_change_only_the_covering_rate():
    train, test = np.arange(60), np.arange(60, 90)
    everything = Y.copy()
    everything[test] = True
    folds = [(train, test)]
    first, second = (
        cross_validate_partial(MODELS, X, candidates, y, cv=folds) for candidates in (Y, everything)
    )
    assert list(second["covering"]) == [1, 1, 1]
    for name in COLUMNS:
        if name not in ("covering", "lift", *SECONDS):
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)


# Scaling


class Recorder(TransformerMixin, BaseEstimator):
    """Takes down the number of rows that it is fitted to and that it transforms."""

    calls: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.mean_ = X.mean()
        self.calls.append(("fit", len(X), self.mean_))
        return self

    def transform(self, X):
        self.calls.append(("transform", len(X), self.mean_))
        return X - self.mean_


def test_scaling_knows_the_training_rows_only():
    Recorder.calls.clear()
    folds = [(np.arange(60), np.arange(60, 90)), (np.arange(30, 90), np.arange(30))]
    cross_validate_partial(Constant(), X, Y, y, cv=folds, scaler=Recorder())
    means = [X[:60].mean(), X[30:].mean()]
    expected = [
        call
        for mean in means
        for call in [("fit", 60, mean), ("transform", 60, mean), ("transform", 30, mean)]
    ]
    assert Recorder.calls == expected


def test_standard_scaling(table):
    scaled = {name: make_pipeline(StandardScaler(), model) for name, model in MODELS.items()}
    assert_same(cross_validate_partial(scaled, X, Y, y, cv=3, scaler=None), table)
    stretched = X * [1.0, 1e3, 1e-3, 1e5] + [0.0, 1e4, 0.0, -1e5]
    found = cross_validate_partial(MODELS, stretched, Y, y, cv=3)
    np.testing.assert_allclose(found["inductive"], table["inductive"])
    np.testing.assert_allclose(found["log_loss"], table["log_loss"], rtol=1e-5)
    for rows, scaler in [(stretched, None), (X, MinMaxScaler())]:
        other = cross_validate_partial(MODELS["hera"], rows, Y, y, cv=3, scaler=scaler)
        assert list(other["log_loss"]) != list(table["log_loss"][:3])


def test_sparse_rows():
    rows = np.where(np.abs(X) > 1, X, 0)
    model = HERAClassifier(prediction="linear")
    dense = cross_validate_partial(model, rows, Y, y, cv=3, scaler=MaxAbsScaler())
    for container in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix):
        found = cross_validate_partial(model, container(rows), Y, y, cv=3, scaler=MaxAbsScaler())
        np.testing.assert_array_equal(found["inductive"], dense["inductive"])
        np.testing.assert_allclose(found["log_loss"], dense["log_loss"], rtol=1e-6)
    # Divided by the deviation, but the mean stays.
    by_hand = make_pipeline(StandardScaler(with_mean=False), model)
    expected = cross_validate_partial(by_hand, sparse.csr_array(rows), Y, y, cv=3, scaler=None)
    assert_same(
        cross_validate_partial({"Pipeline": model}, sparse.csr_array(rows), Y, y, cv=3), expected
    )


# Forms of the input


def test_forms_of_candidates_and_truth(table):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(Y.astype(int), columns=NAMES)
    forms = [
        (sparse.csr_array(Y), y),
        (Y.astype(float), y.tolist()),
        (Y, np.eye(5)[y]),
        (label_sets(Y), NAMES[y]),
        (label_sets(Y), list(NAMES[y])),
        (frame, pandas.Series(NAMES[y])),
    ]
    for candidates, truth in forms:
        assert_same(cross_validate_partial(MODELS, X, candidates, truth, cv=3), table)
    rows = pandas.DataFrame(X, columns=list("wxyz"), index=range(100, 190))
    # Columns are not contiguous in a data frame, and sums have other rounding errors.
    found = cross_validate_partial(MODELS, rows, Y, y, cv=3)
    np.testing.assert_allclose(found["log_loss"], table["log_loss"], rtol=1e-9)
    assert_same(cross_validate_partial(MODELS, X.tolist(), Y, y, cv=3), table)
    assert_same(cross_validate_partial(list(MODELS.items()), X, Y, y, cv=3), table)


def test_a_label_that_some_folds_lack():
    sets, truth = label_sets(Y), NAMES[y].copy()
    sets[0], truth[0] = {"yak"}, "yak"
    found = cross_validate_partial(MODELS, X, sets, truth, cv=3)
    assert np.isfinite(found["log_loss"]).all()
    assert ((found["inductive"] > 0.3) & (found["inductive"] < 1)).all()


def test_pipelines_and_searches(table):
    search = GridSearchCV(HERAClassifier(), {"n_neighbors": [3, 5]}, scoring=candidate_score, cv=2)
    models = {
        "pipeline": make_pipeline(StandardScaler(), MODELS["hera"]),
        "search": search,
        "nested": make_pipeline(MinMaxScaler(), search),
    }
    found = cross_validate_partial(models, X, Y, y, cv=3)
    assert np.isfinite(found[["transductive", "log_loss", "n_iter"]]).all(axis=None)
    np.testing.assert_allclose(found["log_loss"][:3], table["log_loss"][:3])


def test_ordered_labels():
    found = cross_validate_partial(Constant(4), X, Y, y, cv=3, ordered=True)
    assert list(found) == [*COLUMNS[:10], "mae3", "mae5", *COLUMNS[10:]]
    assert found["mae3"].mean() == pytest.approx(np.mean(y >= 1))
    assert list(found["mae5"]) == [1, 1, 1]


@pytest.mark.parametrize("kind", [int, str])
def test_distances_are_those_of_the_labels(kind):
    """Not of their places: as text, "10" comes before "2"."""
    ages = np.array([2, 4, 7, 10, 30])
    names = ages.astype(kind)
    sets = [set(names[row].tolist()) for row in Y]
    classes = np.unique(names)
    predicted = classes.tolist().index(kind(4))
    found = cross_validate_partial(Constant(predicted), X, sets, names[y], cv=3, ordered=True)
    assert found["mae3"].mean() == pytest.approx(np.mean(abs(ages[y] - 4) <= 3))
    assert found["mae5"].mean() == pytest.approx(np.mean(abs(ages[y] - 4) <= 5))


def test_names_are_on_no_scale():
    with pytest.raises(ValueError, match=r"ordered=True needs labels that are numbers.*'ant'"):
        cross_validate_partial(Constant(), X, label_sets(Y), NAMES[y], ordered=True)


def test_warnings_of_threads_are_not_counted():
    with joblib.parallel_config(backend="threading"):
        found = cross_validate_partial(MODELS["hera"], X, Y, y, cv=4, n_jobs=2)
    assert np.isnan(found["n_warnings"]).all()


def test_without_truth(table):
    found = cross_validate_partial(MODELS, X, Y, cv=3, ordered=True)
    assert list(found) == [*COLUMNS[:4], "covering", "lift", *COLUMNS[10:]]
    np.testing.assert_array_equal(found["covering"], table["covering"])
    assert compare(found, metric="covering").n_blocks == 3


def test_without_pandas(monkeypatch, table):
    hide(monkeypatch, "pandas")
    found = cross_validate_partial(MODELS, X, Y, y, cv=3)
    assert type(found) is dict
    assert all(isinstance(column, np.ndarray) for column in found.values())
    assert_same(found, table)


def test_tables_of_several_data_sets():
    pandas = pytest.importorskip("pandas")
    single = HERAClassifier(calibration="gaussian")
    parts = [
        cross_validate_partial(
            {"never": Constant(5), "zero": Constant(0), "hera": single},
            *(X[:n], np.column_stack([Y[:n], ~Y[:n].any(axis=1)]), y[:n]),
            cv=3,
            dataset=f"first {n}",
        )
        for n in (60, 90)
    ]
    assert next(iter(parts[0])) == "dataset"
    assert set(parts[0]["dataset"]) == {"first 60"}
    found = compare(pandas.concat(parts))
    assert found.reference == "hera"
    assert found.n_blocks == 2
    assert list(found.ranks["rank"]) == [3, 2, 1]
    assert list(found.pairs["win"][-2:]) == [2, 2]
    assert "first 60" in str(found)


@pytest.mark.parametrize("dataset", [None, "owls"])
def test_progress(capsys, dataset):
    cross_validate_partial(Constant(), X, Y, y, cv=3)
    assert capsys.readouterr() == ("", "")
    cross_validate_partial(Constant(), X, Y, y, cv=3, verbose=1, dataset=dataset)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{dataset or 'cross-validation'}: 3/3 after")


def test_real_data():
    folder = os.environ.get("HERA_FAST_DATA")
    if not folder:
        pytest.skip("HERA_FAST_DATA does not say where the data sets are")
    path = Path(folder, "realworld", "lost.npz")
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with np.load(path, allow_pickle=False) as data:
        problem = data["X"], data["Y"], data["y"]
    models = {"HERA": HERAClassifier(), "least squares": HERAClassifier(calibration=None)}
    found = cross_validate_partial(models, *problem, cv=5, dataset="lost")
    for metric, least in [("inductive", 0.72), ("transductive", 0.82), ("covering", 0.8)]:
        comparison = compare(found, metric=metric)
        assert comparison.reference == "HERA"
        assert comparison.summary["mean"][0] > least
        assert list(comparison.tests["outcome"]) == ["win"]


# Mistakes


class Failing(Constant):
    def fit(self, X, Y):
        raise ValueError("cannot")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_failing_estimators_are_named(n_jobs):
    models = {"good": Constant(), "bad": Failing()}
    with pytest.raises(RuntimeError, match=r"'bad' failed in fold [01]: ValueError: cannot"):
        cross_validate_partial(models, X, Y, y, cv=2, n_jobs=n_jobs)


def test_truth_must_be_a_candidate():
    wrong = y.copy()
    rows = np.flatnonzero(~Y[:, 0])[3:5]
    wrong[rows] = 0
    message = f"row {rows[0]} has the true label {{}}, which is not among.* \\(1 more"
    with pytest.raises(ValueError, match=message.format(0)):
        cross_validate_partial(Constant(), X, Y, wrong)
    with pytest.raises(ValueError, match=message.format("'ant'")):
        cross_validate_partial(Constant(), X, label_sets(Y), NAMES[wrong])
    with pytest.raises(ValueError, match=r"y_true.*row 0 has the label 'owl'.* none of the 5"):
        cross_validate_partial(Constant(), X, label_sets(Y), ["owl"] * 90)
    with pytest.raises(ValueError, match="one label for each row, but row 0 has several"):
        cross_validate_partial(Constant(), X, np.ones((90, 5)), np.ones((90, 5)))


def test_lengths():
    with pytest.raises(ValueError, match="89 rows of candidates for 90 rows of X"):
        cross_validate_partial(Constant(), X, Y[1:], y)
    with pytest.raises(ValueError, match="found 89 true labels for 90 rows"):
        cross_validate_partial(Constant(), X, Y, y[1:])
    with pytest.raises(ValueError, match="at least 2 labels are needed"):
        cross_validate_partial(Constant(), X, ["a"] * 90, ["a"] * 90)


def test_folds_that_are_none():
    with pytest.raises(ValueError, match="row 5 is held out in fold 1 and trained on too"):
        cross_validate_partial(Constant(), X, Y, y, cv=[([0], [1]), ([4, 5], [5, 6])])
    for fold in [([], [1]), ([1], [])]:
        with pytest.raises(ValueError, match="fold 0 has no rows"):
            cross_validate_partial(Constant(), X, Y, y, cv=[[np.array(r, int) for r in fold]])
    with pytest.raises(IndexError):
        cross_validate_partial(Constant(), X, Y, y, cv=[([0], [90])])


@pytest.mark.parametrize(
    ("estimators", "error", "message"),
    [
        ({}, ValueError, "no estimators"),
        ([("a", Constant()), ("a", Constant())], ValueError, "two estimators.* 'a'"),
        ([Constant()], TypeError, "pairs of a name and an estimator"),
        ({1: Constant()}, TypeError, "pairs of a name and an estimator"),
        ({"a": Constant}, TypeError, "'a' must be an estimator"),
        (StandardScaler(), TypeError, "'StandardScaler' must be an estimator with fit and pred"),
    ],
)
def test_estimators_that_are_none(estimators, error, message):
    with pytest.raises(error, match=message):
        cross_validate_partial(estimators, X, Y, y)


def test_unknown_scaler():
    with pytest.raises(ValueError, match=r"scaler must be 'standard', a.*, got 'minmax'"):
        cross_validate_partial(Constant(), X, Y, y, scaler="minmax")

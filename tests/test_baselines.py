"""What holds for all six methods: scikit-learn's checks, every form of input, the same bits."""

from __future__ import annotations

import copy
import inspect
import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from problems import clusters, problems
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import estimator_checks_generator

from hera_fast import HERAClassifier, baselines, candidate_lift, compare, cross_validate_partial
from hera_fast.threads import threads

METHODS = {name: getattr(baselines, name) for name in baselines.__all__}


def make(name, **changes):
    """The default, whatever is random about it fixed."""
    model = METHODS[name]()
    if "random_state" in model.get_params():
        changes = {"random_state": 0, **changes}
    return model.set_params(**changes)


each_method = pytest.mark.parametrize("name", METHODS)

# Those whose scores are probabilities; and those whose fit takes iterations of its own.
PROBABILISTIC = {"PLKNNClassifier", "LSBCMMClassifier"}
ITERATIVE = set(METHODS) - {"PLKNNClassifier"}

n, d, q = 120, 4, 5
everything = clusters(n + 200, d, q, noise=0.4)
X, Y, y = (array[:n].copy() for array in everything)
held_out, _, truth = (array[n:].copy() for array in everything)
queries = clusters(40, d, q, seed=3)[0]

# Some checks and tests have few rows, few iterations or candidates that say little, on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:PLECOCClassifier found:UserWarning"),
]


def test_the_six_methods_are_there():
    assert set(METHODS) == {
        "PLKNNClassifier",
        "PLSVMClassifier",
        "CLPLClassifier",
        "LSBCMMClassifier",
        "PLECOCClassifier",
        "PALOCClassifier",
    }


CHECKS = [
    pytest.param(estimator, check, id=f"{name}-{check.func.__name__}")
    for name in METHODS
    for estimator, check in estimator_checks_generator(make(name))
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@each_method
def test_docstring_says_what_users_ask(name):
    text = inspect.getdoc(METHODS[name])
    for section in ("Parameters", "Attributes", "References", "Examples"):
        assert f"\n{section}\n{'-' * len(section)}\n" in text
    described = text.split("\nParameters\n", 1)[1]
    assert all(
        f"{parameter} :" in described for parameter in METHODS[name]().get_params(deep=False)
    )


@each_method
def test_learns_clusters(name):
    model = make(name).fit(X, Y)
    assert model.score(held_out, truth) > 0.7
    assert np.mean(model.transduction_ == y) > 0.8


@each_method
def test_every_form_of_candidates_gives_the_same_model(name):
    sets = [set(np.flatnonzero(row).tolist()) for row in Y]
    expected = make(name).fit(X, Y).decision_function(queries)
    for form in (Y.astype(int), sparse.csr_array(Y), sets, [sorted(row) for row in sets]):
        model = make(name).fit(X, form)
        np.testing.assert_array_equal(model.decision_function(queries), expected)
        assert model.classes_.tolist() == list(range(q))


@each_method
def test_names_of_labels_are_kept(name):
    names = np.array(["ada", "bo", "cy", "dee", "eve"])
    sets = [set(names[row]) for row in Y]
    model = make(name).fit(X, sets)
    assert model.classes_.tolist() == names.tolist()
    expected = names[make(name).fit(X, Y).predict(queries)]
    assert model.predict(queries).tolist() == expected.tolist()
    assert set(model.transduction_) <= set(names)


@each_method
def test_ordinary_labels_are_candidates_of_their_own(name):
    model = make(name).fit(X, y)
    np.testing.assert_array_equal(model.transduction_, y)
    assert model.score(X, y) > 0.8


@each_method
@given(problem=problems(most_rows=9, most_features=3, most_labels=5))
@settings(max_examples=25)
def test_whatever_the_candidates(name, problem):
    rows = sparse.csr_array(problem.X) if problem.is_sparse else problem.X
    # A dense matrix with one column would be taken for labels.
    model = make(name).fit(rows, sparse.csr_array(problem.Y))
    n_labels = problem.Y.shape[1]
    scores = model.decision_function(rows)
    assert np.isfinite(scores).all()
    assert scores.shape == ((len(problem.X),) if n_labels == 2 else problem.Y.shape)
    picked = np.searchsorted(model.classes_, model.transduction_)
    assert problem.Y[np.arange(len(problem.Y)), picked].all()
    within = np.searchsorted(
        model.classes_, model.predict(rows, candidates=sparse.csr_array(problem.Y))
    )
    assert problem.Y[np.arange(len(problem.Y)), within].all()
    if "confidence_" in vars(model):
        assert model.confidence_.shape == problem.Y.shape
        assert (model.confidence_ >= 0).all()
        assert not model.confidence_[~problem.Y].any()
        np.testing.assert_allclose(model.confidence_.sum(axis=1), 1)


@each_method
def test_scores_and_predictions_agree(name):
    model = make(name).fit(X, Y)
    scores = model.decision_function(queries)
    assert scores.shape == (40, q)
    np.testing.assert_array_equal(model.predict(queries), scores.argmax(axis=1))
    assert hasattr(model, "predict_proba") == (name in PROBABILISTIC)
    if name in PROBABILISTIC:
        probabilities = model.predict_proba(queries)
        assert (probabilities >= 0).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        np.testing.assert_array_equal(probabilities.argmax(axis=1), scores.argmax(axis=1))


@each_method
def test_a_label_that_is_nobodys_candidate_is_never_predicted(name):
    wide = np.insert(Y, 2, False, axis=1)
    model = make(name).fit(X, wide)
    assert model.classes_.tolist() == list(range(q + 1))
    for rows in (queries, -1e6 * queries):
        assert 2 not in model.predict(rows)
        assert np.isfinite(model.decision_function(rows)).all()
    assert 2 not in model.transduction_
    # But it is what remains if candidates say so.
    only = np.eye(q + 1, dtype=bool)[[2] * len(queries)]
    assert (model.predict(queries, candidates=only) == 2).all()


@each_method
def test_rows_that_say_nothing(name):
    model = make(name).fit(X, np.ones_like(Y))
    assert np.isfinite(model.decision_function(queries)).all()
    assert model.transduction_.shape == (n,)


@each_method
def test_single_precision_stays(name):
    model = make(name).fit(X.astype(np.float32), Y)
    scores = model.decision_function(queries.astype(np.float32))
    assert scores.dtype == np.float32
    double = make(name).fit(X, Y)
    assert double.decision_function(queries).dtype == np.float64
    assert np.mean(model.predict(queries) == double.predict(queries)) >= 0.9
    for attribute in ("coef_", "intercept_", "confidence_"):
        if attribute in vars(model):
            assert getattr(model, attribute).dtype == np.float32


@each_method
def test_sparse_rows_are_rows(name):
    # Thin, so that dense and sparse sums are of few terms.
    thin = np.where(np.abs(X) > 1, X, 0)
    dense = make(name).fit(thin, Y)
    rows = np.where(np.abs(queries) > 1, queries, 0)
    for form in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array):
        model = make(name).fit(form(thin), Y)
        expected = dense.decision_function(rows)
        for query in (rows, form(rows)):
            found = model.decision_function(query)
            np.testing.assert_allclose(
                found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max()
            )


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="there is one thread only")
@each_method
@pytest.mark.parametrize("is_sparse", [False, True])
def test_threads_do_not_change_a_bit(name, is_sparse):
    # Enough rows for several blocks.
    rows, candidates, _ = clusters(3000, 6, 8, noise=0.4, seed=1)
    rows = sparse.csr_array(rows) if is_sparse else rows
    models = [make(name, n_threads=number).fit(rows, candidates) for number in (1, 2)]
    with threads(1):
        models.append(make(name).fit(rows, candidates))
    expected = models[0].decision_function(rows[:500])
    for model in models[1:]:
        np.testing.assert_array_equal(model.decision_function(rows[:500]), expected)
        np.testing.assert_array_equal(model.transduction_, models[0].transduction_)


@each_method
def test_a_second_fit_gives_the_same(name):
    model = make(name).fit(X, Y)
    expected = model.decision_function(queries)
    other = clone(model).fit(*clusters(60, 3, 4, seed=9)[:2])
    np.testing.assert_array_equal(other.fit(X, Y).decision_function(queries), expected)


@pytest.mark.parametrize("name", ["LSBCMMClassifier", "PALOCClassifier"])
def test_progress_is_shown_on_request(name, capsys):
    make(name).fit(X, Y)
    assert capsys.readouterr().err == ""
    # Only the last line is sure to appear.
    make(name, verbose=1, max_iter=3).fit(X, Y)
    assert f"{'PALOC' if 'PALOC' in name else 'LSB-CMM'}, " in capsys.readouterr().err


NESTED = ("PLECOCClassifier", "PALOCClassifier")


@pytest.mark.parametrize("name", NESTED)
def test_nothing_is_left_of_an_earlier_fit(name):
    fresh = [make(name, estimator=estimator).fit(X, Y) for estimator in (None, LinearSVC())]
    for model, other in zip(fresh, fresh[::-1], strict=True):
        again = clone(other).fit(X, Y).set_params(estimator=model.estimator).fit(X, Y)
        found, expected = ({name for name in vars(m) if name[0] != "_"} for m in (again, model))
        assert found == expected


@pytest.mark.parametrize("name", NESTED)
def test_parameters_of_a_binary_classifier_are_checked(name):
    with pytest.raises(InvalidParameterError, match="'C' parameter of LogisticRegression"):
        make(name, estimator=LogisticRegression(C=-1.0)).fit(X, Y)


@each_method
def test_a_refit_that_fails_leaves_nothing_behind(name):
    model = make(name).fit(X, Y)
    with pytest.raises(ValueError, match="found 119 rows"):
        model.fit(X[:, :2], Y[1:])
    with pytest.raises(NotFittedError):
        model.predict(X)


@each_method
def test_far_from_the_origin_in_single_precision(name):
    model = make(name).fit((X + 1000).astype(np.float32), Y)
    assert np.isfinite(model.decision_function(queries.astype(np.float32))).all()


@each_method
def test_input_is_not_changed(name):
    rows, candidates = X.copy(), Y.copy()
    rows.flags.writeable = candidates.flags.writeable = False
    make(name).fit(rows, candidates).predict(rows)
    np.testing.assert_array_equal(rows, X)


@each_method
def test_copies_predict_the_same_bits(name):
    model = make(name).fit(X, Y)
    expected = model.decision_function(queries)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(twin.decision_function(queries), expected)
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@each_method
def test_a_pipeline_and_a_search(name):
    pipe = make_pipeline(StandardScaler(), make(name)).fit(X * 100 + 7, Y)
    assert pipe.score(X * 100 + 7, y) > 0.7
    scores = cross_val_score(make(name), X, Y, cv=3, scoring=candidate_lift, error_score="raise")
    assert (scores > 0).all()
    parameter = {
        "PLKNNClassifier": {"n_neighbors": [1, 10]},
        "PLSVMClassifier": {"lam": [0.01, 1.0]},
        "CLPLClassifier": {"C": [0.1, 1.0]},
        "LSBCMMClassifier": {"variance": [0.1, 1.0]},
        "PLECOCClassifier": {"C": [0.1, 1.0]},
        "PALOCClassifier": {"mu": [0.0, 10.0]},
    }[name]
    search = GridSearchCV(make(name), parameter, cv=2, error_score="raise").fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_all_are_evaluated_alike():
    models = {name: make(name) for name in METHODS} | {"HERA": HERAClassifier()}
    table = cross_validate_partial(models, X, Y, y, cv=3)
    assert np.isfinite(table["inductive"]).all()
    assert np.isfinite(table["transductive"]).all()
    iterated = np.isin(table["estimator"], [*ITERATIVE, "HERA"])
    np.testing.assert_array_equal(np.isfinite(table["n_iter"]), iterated)
    has_loss = np.isin(table["estimator"], [*PROBABILISTIC, "HERA"])
    np.testing.assert_array_equal(np.isfinite(table["log_loss"]), has_loss)
    assert "win/tie/loss of HERA" in str(compare(table, reference="HERA"))


@each_method
def test_a_failed_fit_does_not_count_as_one(name):
    model = make(name)
    with pytest.raises(ValueError, match="row 3, column 1"):
        model.fit(np.where(np.arange(n * d).reshape(n, d) == 13, np.nan, X), Y)
    with pytest.raises(ValueError, match="rows have no candidates"):
        model.fit(X, np.zeros_like(Y))
    with pytest.raises(ValueError, match="found 119 rows of candidates for 120 rows"):
        model.fit(X, Y[1:])
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("name", sorted(ITERATIVE))
def test_the_warning_of_a_short_run_points_at_the_call_of_fit(name):
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=1 ") as caught:
        model = make(name, max_iter=1).fit(X, Y)
    assert {warning.filename for warning in caught} == {__file__}
    assert model.n_iter_ == 1


@each_method
def test_parameters_are_checked(name):
    for parameter in make(name).get_params(deep=False):
        with pytest.raises(InvalidParameterError, match=parameter):
            make(name, **{parameter: object()}).fit(X, Y)

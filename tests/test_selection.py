"""Parameters chosen without truth: the same as without shared work, and work really is shared."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from problems import clusters, hybrid
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, ParameterGrid, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from hera_fast import HERAClassifierCV, estimator, selection
from hera_fast.features import make_features
from hera_fast.fold import make_folds
from hera_fast.kernel_maps import fit_kernel_map, map_rows
from hera_fast.scores import MEASURES, candidate_score
from hera_fast.threads import threads

X, Y, y = clusters(120, 6, 4, noise=0.6, spread=1.5)
FOLDS = make_folds(3, X, None, 0)
SPLITS = [(fold.train, fold.test) for fold in FOLDS]
CHECKED = HERAClassifierCV(
    [
        {"calibration": ["gaussian"], "prediction": ["hybrid"], "neighbor_weight": [0.0, 1.0]},
        {"calibration": ["mixture"], "kernel": ["auto", "laplacian"]},
    ],
    cv=2,
)

# Few rows and loose tolerances; the paper's problem collapses.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def predictions(model, points, X=X, Y=Y, folds=FOLDS):
    """What the judge is shown, for each combination and fold."""
    shown = []

    def judge(best, probabilities, held_out):
        shown.append((best, probabilities.copy(), held_out))
        return len(shown)

    scores = selection.grid_scores(model, points, X, Y, folds, [judge])[0]
    return [[shown[int(number) - 1] for number in numbers] for numbers in scores]


def loose(**settings):
    """The estimator of a search: where the published method ends is part of it."""
    is_paper = settings.get("formulation") == "paper"
    return hybrid(**({} if is_paper else {"tol": selection._TOLERANCE}), **settings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "grid",
    [
        {"shrinkage": [0.1, 1.0], "neighbor_weight": [0.0, 1.0, 3.0]},
        {"calibration": [None], "beta": [0.1, 10.0], "prediction": ["hybrid", "linear"]},
        {"prediction": ["neighbors"], "n_neighbors": [3, 5], "neighbor_rank": [None, 1]},
        {"nu": [0.0, 0.1], "mu": [0.0, 0.3], "fit_intercept": [True, False]},
        {"formulation": ["paper"], "calibration": [None], "nu": [1.0], "alpha": [1.0, 2.0]},
        {"calibration": ["mixture"], "kernel": [None], "nu": [0.0, 0.1], "prediction": ["linear"]},
    ],
    ids=lambda grid: "-".join(grid),
)
def test_predictions_are_those_of_single_fits(grid, container, dtype):
    points = list(ParameterGrid(grid))
    rows = container(X.astype(dtype))
    found = predictions(hybrid(max_iter=60), points, rows)
    for point, folds in zip(points, found, strict=True):
        for (train, test), (best, probabilities, held_out) in zip(SPLITS, folds, strict=True):
            model = loose(max_iter=60, **point).fit(rows[train], Y[train])
            np.testing.assert_array_equal(held_out, test)
            np.testing.assert_array_equal(best, model.predict(rows[test]))
            tolerance = 1e-6 if dtype == np.float32 else 1e-13
            expected = model.predict_proba(rows[test])
            np.testing.assert_allclose(probabilities, expected, rtol=0, atol=tolerance)


def test_runs_go_on_from_the_next_larger_alpha():
    alphas = [1.0, 10.0, 0.1]
    found = predictions(hybrid(), [{"alpha": alpha} for alpha in alphas])
    for fold, (train, test) in enumerate(SPLITS):
        model = loose(warm_start=True)
        for alpha in sorted(alphas, reverse=True):
            model.set_params(alpha=alpha).fit(X[train], Y[train])
            _, probabilities, _ = found[alphas.index(alpha)][fold]
            np.testing.assert_allclose(probabilities, model.predict_proba(X[test]), atol=1e-13)


def test_kernel_maps_are_those_of_all_rows():
    settings = {"kernel": "rbf", "n_components": 30, "random_state": 3, "prediction": "linear"}
    ((*_, (_, probabilities, test)),) = predictions(hybrid(**settings), [{}])
    model = hybrid(**settings)
    random_state = model._options().random_state
    feature_map = fit_kernel_map(X, gamma="median", n_components=30, random_state=random_state)
    mapped = map_rows(feature_map, X)
    train = np.setdiff1d(np.arange(len(X)), test)
    expected = loose(prediction="linear").fit(mapped[train], Y[train]).predict_proba(mapped[test])
    np.testing.assert_allclose(probabilities, expected, atol=1e-12)
    # The refit uses the same map.
    (member,) = model.fit(X, Y)._members
    found = member.feature_map.component_indices_
    np.testing.assert_array_equal(found, feature_map.component_indices_)


def test_a_mixture_beside_a_single_model_has_maps_of_its_own():
    """A mixture reduces features that are too many, which a single discriminant takes as is."""
    points = [{"calibration": calibration} for calibration in ("mixture", "gaussian")]
    settings = {"kernel": None, "n_components": 3, "random_state": 0, "prediction": "linear"}
    for order in (points, points[::-1]):
        together = predictions(hybrid(**settings), order)
        alone = [predictions(hybrid(**settings), [point])[0] for point in order]
        for folds, expected in zip(together, alone, strict=True):
            for (_, found, _), (_, probabilities, _) in zip(folds, expected, strict=True):
                np.testing.assert_array_equal(found, probabilities)


def test_work_is_shared(monkeypatch):
    counts = dict.fromkeys(["map", "features", "gram", "neighbors", "run"], 0)

    def counted(name, function):
        def call(*arguments, **options):
            counts[name] += 1
            return function(*arguments, **options)

        return call

    def counted_features(*arguments, **options):
        features = make_features(*arguments, **options)
        features.gram = counted("gram", features.gram)
        return features

    monkeypatch.setattr(estimator, "fit_kernel_map", counted("map", fit_kernel_map))
    monkeypatch.setattr(estimator, "make_features", counted("features", counted_features))
    monkeypatch.setattr(
        selection, "neighbor_weights", counted("neighbors", selection.neighbor_weights)
    )
    monkeypatch.setattr(estimator, "solve", counted("run", estimator.solve))
    grid = {
        "kernel": [None, "rbf"],
        "shrinkage": [0.1, 1.0],
        "alpha": [1.0, 2.0],
        "neighbor_weight": [1.0, 3.0],
    }
    points = list(ParameterGrid(grid))
    predictions(hybrid(random_state=0), points)
    assert len(points) == 16
    assert counts == {"map": 1, "features": 2 * 3, "gram": 2 * 3, "neighbors": 3, "run": 8 * 3}
    counts.update(dict.fromkeys(counts, 0))
    least_squares = {"calibration": [None], "beta": [0.1, 1.0], "alpha": [1.0, 2.0]}
    predictions(hybrid(), list(ParameterGrid(least_squares)))
    assert counts == {"map": 0, "features": 3, "gram": 3, "neighbors": 3, "run": 4 * 3}


def test_agrees_with_scikit_learns_search():
    grid = {"shrinkage": [0.03, 1.0, 30.0], "n_neighbors": [2, 10]}
    other = GridSearchCV(loose(), grid, cv=SPLITS, scoring=candidate_score).fit(X, Y)
    found = HERAClassifierCV(grid, estimator=hybrid(), cv=SPLITS, scoring="candidate_score")
    found.fit(X, Y)
    assert found.cv_results_.keys() <= other.cv_results_.keys()
    for name, column in found.cv_results_.items():
        if name.endswith("score"):
            np.testing.assert_allclose(column, other.cv_results_[name], atol=1e-14)
        else:
            assert list(column) == list(other.cv_results_[name])
    assert found.best_index_ == other.best_index_
    assert found.best_params_ == other.best_params_
    assert found.best_score_ == pytest.approx(other.best_score_)
    assert found.n_splits_ == other.n_splits_


def test_parameters_that_a_combination_lacks_are_masked():
    grid = [{"shrinkage": [0.1]}, {"calibration": [None], "beta": [1.0]}]
    results = HERAClassifierCV(grid, cv=2, random_state=0).fit(X, Y).cv_results_
    assert results["param_shrinkage"].mask.tolist() == [False, True]
    assert results["param_beta"].mask.tolist() == [True, False]
    assert results["params"] == [{"shrinkage": 0.1}, {"calibration": None, "beta": 1.0}]


def test_is_the_estimator_it_has_chosen():
    grid = {"shrinkage": [0.01, 100.0]}
    search = HERAClassifierCV(grid, estimator=hybrid(n_neighbors=4), random_state=0)
    search.fit(X, Y)
    model = hybrid(n_neighbors=4, **search.best_params_).fit(X, Y)
    np.testing.assert_array_equal(search.predict(X), model.predict(X))
    np.testing.assert_array_equal(search.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(search.predict(X, candidates=Y), model.predict(X, candidates=Y))
    np.testing.assert_array_equal(search.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(search.transduction_, model.transduction_)
    np.testing.assert_array_equal(search.confidence_, model.confidence_)
    assert search.score(X, y) == model.score(X, y)
    assert search.n_features_in_ == X.shape[1]


def test_default_grid():
    points = list(ParameterGrid(selection.DEFAULT_GRID))
    assert len(points) == 16
    search = HERAClassifierCV(random_state=0).fit(X, Y)
    assert search.cv_results_["params"] == points
    assert search.n_splits_ == 5
    assert search.best_params_ in points


def test_bad_settings_lose():
    """Far too much shrinkage forgets the features, whatever the score."""
    grid = {"calibration": ["gaussian"], "shrinkage": [0.1, 1e4]}
    for scoring in MEASURES:
        search = HERAClassifierCV(grid, scoring=scoring, random_state=0).fit(X, Y)
        assert search.best_params_["shrinkage"] == 0.1, scoring


def test_the_lift_does_not_fall_for_a_label_that_is_everywhere():
    """With far too much shrinkage all predictions are the candidate that all rows share."""
    everywhere = Y.copy()
    everywhere[:, 0] = True
    grid = [{"calibration": ["gaussian"], "shrinkage": [0.1, 1e6]}]
    covering = HERAClassifierCV(grid, scoring="candidate_score", random_state=0)
    lift = HERAClassifierCV(grid, scoring="candidate_lift", random_state=0)
    assert covering.fit(X, everywhere).best_params_["shrinkage"] == 1e6
    assert lift.fit(X, everywhere).best_params_["shrinkage"] == 0.1


def test_a_random_state_gives_one_kernel_map(monkeypatch):
    maps = []

    def fit(*arguments, **options):
        maps.append(fit_kernel_map(*arguments, **options))
        return maps[-1]

    monkeypatch.setattr(estimator, "fit_kernel_map", fit)
    model = hybrid(random_state=np.random.RandomState(3), n_components=9)
    grid = {"kernel": ["rbf"], "shrinkage": [0.1, 1.0]}
    HERAClassifierCV(grid, estimator=model, cv=2, random_state=0).fit(X, Y)
    in_search, in_last_fit = maps
    assert in_search.component_indices_.tolist() == in_last_fit.component_indices_.tolist()
    other = np.random.RandomState(4)
    model.set_params(random_state=other)
    HERAClassifierCV(grid, estimator=model, cv=2, random_state=0).fit(X, Y)
    assert maps[-1].component_indices_.tolist() != in_search.component_indices_.tolist()


def test_what_is_shown_cannot_be_searched():
    search = HERAClassifierCV({"verbose": [0, 1], "callback": [None]}, cv=2, random_state=0)
    assert len(search.fit(X, Y).cv_results_["params"]) == 2


@pytest.mark.parametrize("small", [1, 1 << 30])
def test_thread_counts_give_the_same_bits(small, monkeypatch):
    monkeypatch.setattr(selection, "_SMALL", small)
    results = []
    for n_threads in (1, 2):
        with threads(n_threads):
            search = HERAClassifierCV(random_state=0).fit(X, Y)
        results.append([search.cv_results_["mean_test_score"], search.confidence_])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_seeds():
    grid = {
        "calibration": ["gaussian"],
        "shrinkage": [0.1, 0.2],
        "kernel": ["rbf"],
        "n_components": [20],
    }
    scores = [
        HERAClassifierCV(grid, random_state=seed).fit(X, Y).cv_results_["mean_test_score"].tolist()
        for seed in (1, 1, 2)
    ]
    assert scores[0] == scores[1] != scores[2]


@pytest.mark.parametrize(
    ("cv", "n_splits"),
    [(ShuffleSplit(4, random_state=0), 4), (SPLITS, 3), (np.int64(2), 2), (None, 5)],
    ids=["splitter", "list", "number", "None"],
)
def test_splitters(cv, n_splits):
    search = HERAClassifierCV({}, cv=cv, random_state=0).fit(X, Y)
    assert search.n_splits_ == n_splits
    assert f"split{n_splits - 1}_test_score" in search.cv_results_


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"param_grid": {"shrinkag": [1]}}, ValueError, "Invalid parameter 'shrinkag'"),
        ({"param_grid": {"shrinkage": [-1.0]}}, ValueError, "'shrinkage' parameter .* Got -1.0"),
        ({"param_grid": {"mu": [2.0]}}, ValueError, "mu must be less than alpha"),
        ({"param_grid": {"alpha": 1.0}}, TypeError, "alpha"),
        ({"param_grid": []}, ValueError, "no combinations"),
        ({"param_grid": "alpha"}, ValueError, "'param_grid' parameter"),
        ({"cv": [([0, 1], [])]}, ValueError, "fold 0 has no rows"),
        ({"cv": [([0, 1], [1, 2])]}, ValueError, "row 1 is held out in fold 0 and trained on"),
        ({"cv": 1000}, ValueError, "n_splits=1000 greater than the number of samples"),
        ({"scoring": "accuracy"}, ValueError, "'scoring' parameter .*candidate_lift"),
        ({"estimator": StandardScaler()}, ValueError, "'estimator' parameter"),
    ],
)
def test_bad_settings_are_refused_before_any_run(settings, error, message, monkeypatch):
    monkeypatch.setattr(estimator, "solve", None)
    with pytest.raises(error, match=message):
        HERAClassifierCV(**settings).fit(X, Y)


def test_an_interrupt_ends_the_search(monkeypatch):
    n_runs = 0

    def solve(*arguments):
        nonlocal n_runs
        n_runs += 1
        solution = original(*arguments)
        solution.interrupted = n_runs == 3
        return solution

    original = estimator.solve
    monkeypatch.setattr(estimator, "solve", solve)
    search = HERAClassifierCV({"shrinkage": [0.1, 0.2, 0.3, 0.4]}, random_state=0)
    with threads(1), pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
    assert n_runs == 3
    with pytest.raises(NotFittedError):
        search.predict(X)


def test_progress(capsys):
    HERAClassifierCV({"shrinkage": [0.1]}, cv=3).fit(X, Y)
    assert capsys.readouterr().err == ""
    HERAClassifierCV({"shrinkage": [0.1]}, cv=3, verbose=1).fit(X, Y)
    assert "Choosing parameters: 3/3" in capsys.readouterr().err


def test_forms_of_candidates():
    names = np.array(["ant", "bee", "cat", "dog"])
    sets = [set(names[row]) for row in Y]
    search = HERAClassifierCV({"shrinkage": [0.1, 1.0]}, random_state=0).fit(X, sets)
    same = HERAClassifierCV({"shrinkage": [0.1, 1.0]}, random_state=0)
    same.fit(X, sparse.csr_matrix(Y))
    assert search.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(search.transduction_, names[same.transduction_])
    assert search.best_score_ == same.best_score_


def test_pipeline_clone_and_pickle():
    pipeline = make_pipeline(StandardScaler(), HERAClassifierCV({"shrinkage": [0.1, 1]}, cv=3))
    pipeline.set_params(heraclassifiercv__random_state=0).fit(X, Y)
    copy = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(copy.predict(X), pipeline.predict(X))
    again = clone(pipeline).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), pipeline.predict_proba(X))


def test_feature_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    search = HERAClassifierCV({"shrinkage": [0.1]}, cv=2, random_state=0).fit(frame, Y)
    assert search.feature_names_in_.tolist() == list("abcdef")
    assert not hasattr(search.fit(X[:, :4], Y), "feature_names_in_")
    assert search.n_features_in_ == 4


CHECKS = [
    pytest.param(estimator, check, id=check.func.__name__)
    for estimator, check in estimator_checks_generator(CHECKED)
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)

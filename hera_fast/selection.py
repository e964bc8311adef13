"""Parameters of HERA, chosen by cross-validation without true labels.

For one fold, many parameters change little of what has to be computed. Each of these is done once:

- the kernel map of all rows, for each choice of its parameters. It needs no labels, so that
  held-out rows may take part in it;
- the features of the training rows, with their Gram matrix and its factorisations;
- the neighbours of the held-out rows, with their weights;
- a run of the solver, for all ways to predict from it.

Where only `alpha` differs, a run starts from where that with the next larger one ended.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from numbers import Integral
from typing import Any

import numba
import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from hera_fast.candidates import check_candidates
from hera_fast.estimator import HERAClassifier
from hera_fast.features import Features
from hera_fast.fold import Fold, make_folds
from hera_fast.kernel_maps import map_rows
from hera_fast.kernels._launch import blas_threads, run_ranges
from hera_fast.neighborhood import neighbor_weights
from hera_fast.rows import WHOLE
from hera_fast.run import Solution
from hera_fast.scores import MEASURES
from hera_fast.task_progress import task_progress
from hera_fast.threads import threads
from hera_fast.training_rows import WholeRows

__all__ = ["DEFAULT_GRID", "HERAClassifierCV", "Judge", "grid_scores"]

_Array = np.ndarray[Any, Any]

# Runs, one after the other, each for the models that differ in how they predict only.
_Path = list[list[HERAClassifier]]

#: Scores predictions, see :func:`grid_scores`.
Judge = Callable[[_Array, _Array, _Array], float]

_HYBRID: dict[str, list[Any]] = {"prediction": ["hybrid"], "neighbor_weight": [1.0, 3.0]}

#: What :class:`HERAClassifierCV` tries unless told otherwise.
DEFAULT_GRID: list[dict[str, list[Any]]] = [
    {"calibration": ["mixture"], "kernel": ["auto", None, "rbf", "laplacian"]},
    {"calibration": ["gaussian"], "shrinkage": [0.03, 0.1, 0.3, 1.0], **_HYBRID},
    {"calibration": [None], "beta": [0.1, 10.0], **_HYBRID},
]

# Parameters that a run does not depend on.
_PREDICTION = ("prediction", "n_neighbors", "neighbor_weight", "neighbor_rank")

# Numbers of a problem whose runs are too short for several threads.
_SMALL = 1 << 21

# Runs of a search end at this change of the objective: what is left hardly makes a difference to
# which parameters are better.
_TOLERANCE = 3e-3


class HERAClassifierCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """HERA with parameters chosen by cross-validation, without true labels.

    Each combination of parameters is fitted to the candidates of all folds but one, and judged
    by how well its predictions for that fold agree with the candidates there. The best one is
    then fitted to all rows. Compared with :class:`~sklearn.model_selection.GridSearchCV`, work is
    shared, and the runs of the search are less precise, see the notes.

    Parameters
    ----------
    param_grid : dict, list of dict or None, default=None
        Lists of values for parameters of :class:`HERAClassifier`; or several such dicts, each with
        combinations of its own. None tries 16 combinations: the mixture with all kernels and with
        each alone; a single Gaussian discriminant with four values of `shrinkage`, and least
        squares with two values of `beta`, each with two values of `neighbor_weight`.
    estimator : HERAClassifier or None, default=None
        Has the other parameters. None stands for the defaults.
    cv : int, splitter or iterable, default=5
        Number of folds, shuffled; or how to split, as in scikit-learn, without looking at labels.
    scoring : {"candidate_lift", "candidate_score", "candidate_log_loss"}, \
            default="candidate_lift"
        How predictions for the held-out rows are judged, see
        :func:`hera_fast.scores.candidate_lift` and the others there.
    random_state : int, RandomState instance or None, default=None
        For the folds; also for the estimator, if it has none.
    verbose : int, default=0
        Show how far the search is.

    Attributes
    ----------
    best_estimator_ : HERAClassifier
        Fitted to all rows with the best parameters.
    best_params_ : dict
        The best combination.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in ``cv_results_``.
    cv_results_ : dict
        ``params``, ``mean_test_score``, ``std_test_score``, ``rank_test_score`` of all
        combinations, ``split0_test_score`` and so on, and ``param_...`` for each parameter, as in
        :class:`~sklearn.model_selection.GridSearchCV`.
    n_splits_ : int
        Number of folds.
    classes_, transduction_, confidence_ : ndarray
        Those of ``best_estimator_``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had names that are strings.

    See Also
    --------
    HERAClassifier : The estimator whose parameters are chosen.

    Notes
    -----
    The runs of the search end at ``tol=3e-3``, unless that of the estimator is larger; with
    ``formulation="paper"``, where it matters where a run ends, they keep it. Where combinations
    differ in `alpha` alone, each run but the first starts from where the one with the next larger
    `alpha` ended; the last fit, to all rows, starts afresh. Kernel maps are fitted to all rows,
    also to the features of held-out ones: that needs no labels.

    Scores that need no truth cannot tell a true candidate from a false one that is always there.
    They compare settings for the same rows; they do not estimate an accuracy.

    Examples
    --------
    >>> from hera_fast import HERAClassifier, HERAClassifierCV, load_digits_partial
    >>> digits = load_digits_partial()
    >>> model = HERAClassifier(calibration="gaussian", prediction="hybrid")
    >>> grid = {"shrinkage": [0.01, 10.0], "alpha": [1.0, 3.0]}
    >>> search = HERAClassifierCV(grid, estimator=model, cv=3, random_state=0)
    >>> search.fit(digits.data[:300], digits.candidates[:300]).best_params_["shrinkage"]
    0.01
    >>> bool(search.score(digits.data[300:], digits.target[300:]) > 0.8)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "param_grid": [dict, list, None],
        "estimator": [HERAClassifier, None],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(MEASURES))],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        param_grid: dict[str, Sequence[Any]] | list[dict[str, Sequence[Any]]] | None = None,
        *,
        estimator: HERAClassifier | None = None,
        cv: Any = 5,
        scoring: str = "candidate_lift",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.param_grid = param_grid
        self.estimator = estimator
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator can do."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any) -> HERAClassifierCV:
        """Choose parameters and fit with them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
            Training rows.
        y : array-like
            The candidates Y, in one of the forms that :meth:`HERAClassifier.fit` takes.

        Returns
        -------
        self : HERAClassifierCV
        """
        random = check_random_state(self.random_state)
        model = HERAClassifier() if self.estimator is None else clone(self.estimator)
        if not isinstance(model.random_state, Integral):
            # A number gives the search and the last fit the same kernel map.
            state = random if model.random_state is None else model.random_state
            model.set_params(random_state=check_random_state(state).randint(2**31 - 1))
        points = list(ParameterGrid(DEFAULT_GRID if self.param_grid is None else self.param_grid))
        rows = model._validated(X, reset=True)
        Y, _ = check_candidates(y, n_samples=rows.shape[0])
        if not points:
            raise ValueError("param_grid has no combinations: None stands for the usual ones")
        cv = 5 if self.cv is None else self.cv
        folds = make_folds(cv, rows, None, random.randint(2**31 - 1))
        measure = MEASURES[self.scoring]

        def judge(best: _Array, probabilities: _Array, held_out: _Array) -> float:
            return measure(best, probabilities, Y[held_out])

        scores = grid_scores(model, points, rows, Y, folds, [judge], verbose=self.verbose)[0]
        self.cv_results_ = _results(points, scores)
        self.best_index_ = int(self.cv_results_["mean_test_score"].argmax())
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.best_params_ = points[self.best_index_]
        self.n_splits_ = len(folds)
        self.best_estimator_ = model.set_params(**self.best_params_).fit(X, y)
        self.n_features_in_ = model.n_features_in_
        self.classes_ = model.classes_
        self.transduction_, self.confidence_ = model.transduction_, model.confidence_
        # Names of an earlier fit do not belong to this one.
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        return self

    def predict(self, X: Any, candidates: Any = None) -> _Array:
        """Predict the label of each row; see :meth:`HERAClassifier.predict`."""
        return self._fitted().predict(X, candidates)

    def predict_proba(self, X: Any, candidates: Any = None) -> _Array:
        """Estimate how likely labels are; see :meth:`HERAClassifier.predict_proba`."""
        return self._fitted().predict_proba(X, candidates)

    def decision_function(self, X: Any) -> _Array:
        """Score the labels of each row; see :meth:`HERAClassifier.decision_function`."""
        return self._fitted().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Measure the accuracy; see :meth:`HERAClassifier.score`."""
        return self._fitted().score(X, y, sample_weight)

    def _fitted(self) -> HERAClassifier:
        check_is_fitted(self)
        model: HERAClassifier = self.best_estimator_
        return model


def grid_scores(
    estimator: HERAClassifier,
    points: list[dict[str, Any]],
    X: Any,
    Y: _Array,
    folds: list[Fold],
    judges: Sequence[Judge],
    *,
    verbose: int = 0,
) -> _Array:
    """Score combinations of parameters on folds.

    Parameters
    ----------
    estimator : HERAClassifier
        With the other parameters.
    points : list of dict
        The combinations.
    X : ndarray or CSR matrix of shape (n, d), float32 or float64
        All rows.
    Y : ndarray of shape (n, q), bool
        Their candidates.
    folds : list of Fold
        See :func:`hera_fast.fold.make_folds`.
    judges : list of callable
        ``judge(best, probabilities, held_out)`` gives a score to predictions for held-out rows:
        the columns of the best labels, the probabilities of all labels, the indices of the rows.
    verbose : int, default=0
        Show how far it is.

    Returns
    -------
    scores : ndarray of shape (number of judges, number of combinations, number of folds)

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.fold import make_folds
    >>> from hera_fast.selection import grid_scores
    >>> X = np.array([[0.0], [1.0], [0.1], [1.1], [0.2], [1.2]])
    >>> Y = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 1], [1, 1]], dtype=bool)
    >>> points = [{"kernel": None}, {"kernel": "rbf"}]
    >>> folds = make_folds([([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1])], X, None, None)
    >>> def accuracy(best, probabilities, held_out):
    ...     return np.mean(best == held_out % 2)
    >>> grid_scores(HERAClassifier(), points, X, Y, folds, [accuracy]).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """
    silent = {"verbose": 0, "callback": None}
    models = [copy(estimator).set_params(**(point | silent)) for point in points]
    for model in models:
        model._validate_params()
        model._options()
    scores = np.empty((len(judges), len(points), len(folds)))
    place_of = {id(model): place for place, model in enumerate(models)}
    groups = _grouped(models, _map_settings)
    training = WholeRows(WHOLE, X, Y, None, np.arange(Y.shape[1]), X.shape, X.dtype, X, None)
    tries = [_Try(X, Y, fold) for fold in folds]
    n_steps = len(groups) * len(folds)
    # Threads pay within a run of many rows; of few rows, several runs go side by side.
    is_small = X.shape[0] * max(X.shape[1], Y.shape[1]) < _SMALL
    with (
        threads(estimator.n_threads),
        # As in the estimator: no bit depends on the number of threads.
        blas_threads(1),
        warnings.catch_warnings(),
        task_progress("Choosing parameters", n_steps, is_shown=bool(verbose)) as advance,
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        n_parallel = numba.get_num_threads() if is_small else 1
        for group in groups:
            maps = group[0]._fit_maps(training, group[0]._options())
            rows = [map_rows(feature_map, X) for feature_map in maps]
            paths = [_paths(same) for same in _grouped(group, lambda model: model._centres())]

            def score_fold(
                number: int, _: int, paths: list[list[_Path]] = paths, rows: list[Any] = rows
            ) -> None:
                for model, best, probabilities in tries[number].predictions(paths, rows):
                    scores[:, place_of[id(model)], number] = [
                        judge(best, probabilities, folds[number].test) for judge in judges
                    ]
                advance()

            ranges = [(number, number + 1) for number in range(len(folds))]
            with threads(1 if is_small else None):
                run_ranges(score_fold, ranges, n_parallel)
    return scores


class _Try:
    """A fold, and what of it does not depend on the solution."""

    def __init__(self, X: Any, Y: _Array, fold: Fold) -> None:
        self._X, self._Y, self._fold = X, Y, fold
        self._weights: dict[Hashable, Any] = {}

    def predictions(
        self, paths: list[list[_Path]], rows: list[Any]
    ) -> Iterator[tuple[HERAClassifier, _Array, _Array]]:
        """Yield each model with its best labels and probabilities for the fold.

        `paths` are in lists of those that want the same features of the rows.
        """
        Y = self._Y[self._fold.train]
        queries = [view[self._fold.test] for view in rows]
        for same_features in paths:
            model = same_features[0][0][0]
            features = [model._make_features(view[self._fold.train]) for view in rows]
            for path in same_features:
                start: Solution | None = None
                for same_run in path:
                    run = copy(same_run[0])
                    solution = _solve(run, features, Y, start)
                    linear = np.empty((len(self._fold.test), Y.shape[1]), solution.P.dtype)
                    run._linear_scores(queries.__getitem__, linear)
                    for model in same_run:
                        for name in _PREDICTION:
                            setattr(run, name, getattr(model, name))
                        yield model, *self._predict(run, linear.copy())
                    # Where the published method stops is part of it, so it always starts afresh.
                    start = None if run._is_paper() else solution

    def _predict(self, model: HERAClassifier, linear: _Array) -> tuple[_Array, _Array]:
        neighbors = None
        if model._asks_neighbors():
            neighbors = self._neighbor_weights(model) @ model.confidence_
        scores = model._combine(None if model.prediction == "neighbors" else linear, neighbors)
        probabilities = np.empty_like(scores)
        model._to_probabilities(scores, probabilities)
        return scores.argmax(axis=1), probabilities

    def _neighbor_weights(self, model: HERAClassifier) -> Any:
        normalize = not model._is_paper()
        key = model.n_neighbors, model.neighbor_rank, normalize
        if key not in self._weights:
            self._weights[key] = neighbor_weights(
                *(self._X[self._fold.test], self._X[self._fold.train]),
                n_neighbors=model.n_neighbors,
                neighbor_rank=model.neighbor_rank,
                normalize=normalize,
            )
        return self._weights[key]


def _solve(
    model: HERAClassifier, features: list[Features], Y: _Array, start: Solution | None
) -> Solution:
    options = model._options()
    if model.formulation != "paper":
        options = replace(options, tol=max(options.tol, _TOLERANCE))
    solution = model._solve(features, Y, options, start)
    if solution.interrupted:
        raise KeyboardInterrupt
    model._take(solution, [None] * len(features), features, solution.P, solution.E)
    return solution


def _paths(models: list[HERAClassifier]) -> list[_Path]:
    """Divide models into runs that follow each other, the largest alpha first."""
    return [
        _grouped(sorted(path, key=lambda model: -model.alpha), lambda model: model.alpha)
        for path in _grouped(models, _path_settings)
    ]


def _grouped(
    models: list[HERAClassifier], settings: Callable[[HERAClassifier], Hashable]
) -> list[list[HERAClassifier]]:
    """Put models with the same settings together, in the order of the first of each."""
    groups: dict[Hashable, list[HERAClassifier]] = {}
    for model in models:
        groups.setdefault(settings(model), []).append(model)
    return list(groups.values())


def _map_settings(model: HERAClassifier) -> Hashable:
    kernels = model._kernels()
    # A mixture reduces the features themselves if there are too many.
    if kernels == (None,) and not model._is_mixture():
        return None
    return kernels, model.gamma, model.n_components, model.random_state


def _path_settings(model: HERAClassifier) -> Hashable:
    """What is the same in all runs that follow each other."""
    settings = model.get_params()
    return tuple(settings[name] for name in sorted(settings.keys() - {"alpha", *_PREDICTION}))


def _results(points: list[dict[str, Any]], scores: _Array) -> dict[str, Any]:
    """Arrange scores as scikit-learn's searches do."""
    mean = scores.mean(axis=1)
    results: dict[str, Any] = {"params": points}
    for name in sorted({name for point in points for name in point}):
        results[f"param_{name}"] = np.ma.array(np.empty(len(points), object), mask=True)
        for place, point in enumerate(points):
            if name in point:
                results[f"param_{name}"][place] = point[name]
    for number, column in enumerate(scores.T):
        results[f"split{number}_test_score"] = column
    results["mean_test_score"] = mean
    results["std_test_score"] = scores.std(axis=1)
    results["rank_test_score"] = rankdata(-mean, method="min").astype(np.int32)
    return results

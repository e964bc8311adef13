"""HERA as a scikit-learn classifier, and as a function."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields, replace
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from hera_fast.block_neighbors import RowBlocks, as_kind_of, block_neighbor_scores
from hera_fast.candidates import check_candidates
from hera_fast.checkpoints import Keeper, fingerprint
from hera_fast.classifier import ProbabilisticPartialLabelClassifier
from hera_fast.dask_prediction import dask_neighbor_scores, neighbor_scores_on_workers
from hera_fast.dask_training import DaskSource
from hera_fast.features import Features, make_features
from hera_fast.inputs import check_weights
from hera_fast.kernel_maps import fit_kernel_map, map_rows
from hera_fast.kernels import project_simplex, softmax
from hera_fast.kernels._launch import blas_threads
from hera_fast.lazy_arrays import is_dask
from hera_fast.model_files import MEANING, read_classifier, write_classifier
from hera_fast.neighborhood import neighbor_scores
from hera_fast.paper import solve_paper
from hera_fast.products import SparseBlocks, multiply_rows
from hera_fast.progress import Progress
from hera_fast.rows import WHOLE, Rows
from hera_fast.run import Keep, Observer, Options, Solution, State
from hera_fast.solver import solve
from hera_fast.threads import threads
from hera_fast.training_rows import Source, TrainingRows, WholeRows, is_lazy, rows_in_blocks

__all__ = ["HERAClassifier", "hera"]

_Array = np.ndarray[Any, Any]

# Weights beyond this many copies of a row make no difference to its neighbours.
_MOST_COPIES = 1 << 31

# A smaller part of a mixture makes no difference.
_LEAST_WEIGHT = 1e-3


class HERAClassifier(ProbabilisticPartialLabelClassifier):
    """Partial-label classifier with a ranking and a reconstruction loss.

    Each training row comes with a set of candidate labels, one of which is true. HERA learns how
    confident it can be in each candidate, and a linear model of these confidences. It minimises

    ``L_rank(Z, P) + alpha/2 |P - Z|^2 - mu/2 |P|^2 + beta |W|^2 + nu |E|_*``

    over the confidences P, the model W with scores Z and the noise E, where Y = P + E are the
    candidates. `L_rank` wants labels of different confidence to have different scores; the
    nuclear norm wants false candidates to follow few patterns.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the reconstruction loss, relative to the ranking loss.
    beta : float, default=0.1
        Weight of the penalty on the coefficients, with ``calibration=None``.
    mu : float, default=0.0
        How much confidences are drawn to a single candidate, less than `alpha`. With
        ``formulation="paper"`` the weight of the l1 norm, of any size.
    nu : float, default=0.0
        Weight of the nuclear norm of the noise. It is relative to the scale of the data, so that
        one value serves data of every size: try 0.1; well above 1 the first noise is zero. 0
        leaves the low-rank part out. Measured (docs/results.md) it helps on one of four data sets
        with ``calibration=None`` and on none beside the Gaussian discriminant, and its cost grows
        with the square of the number of labels. With ``formulation="paper"`` an absolute weight.
    formulation : {"simplex", "paper"}, default="simplex"
        ``"simplex"``: the confidences of a row are not negative, sum to one and vanish outside
        its candidates. ``"paper"``: the problem as published, see :meth:`paper`.
    calibration : {"mixture", "gaussian", None}, default="mixture"
        ``"mixture"``: the scores are the probabilities of a mixture of Gaussian discriminants on
        several kernels, each row judged by the others, given the row's candidates; nothing has to
        be chosen, see the notes. ``"gaussian"``: those of one discriminant that is fitted to the
        confidences. None: the values of the linear model, Z = XW. Not used by
        ``formulation="paper"``.
    ranking : bool, default=False
        Whether the ranking loss takes part. Measured (docs/results.md) it makes no difference
        beside a Gaussian discriminant.
    shrinkage : float, default=0.1
        Part of its variance that is added to the variance of each feature in
        ``calibration="gaussian"``.
    prediction : {"linear", "hybrid", "neighbors"}, default="linear"
        Whether the model, both or the confidences of the nearest training rows decide.
    n_neighbors : int, default=10
        Number of nearest training rows.
    neighbor_weight : float, default=1.0
        Weight of the neighbours beside the model in ``prediction="hybrid"``. With
        ``formulation="paper"`` the neighbours' similarities are their weights.
    neighbor_rank : int or None, default=None
        The width of the similarity is the mean distance of neighbours to their neighbour of this
        rank, among themselves. None takes the median one.
    kernel : {"auto", "rbf", "laplacian", None}, default="auto"
        ``"rbf"`` and ``"laplacian"`` replace the features by an approximate kernel map, of
        ``exp(-gamma |x - y|^2)`` or ``exp(-gamma |x - y|_1)``. None keeps the features.
        ``"auto"`` takes all three for ``calibration="mixture"``, and else the features.
    gamma : float or "median", default="median"
        The inverse of the kernel's scale. ``"median"`` takes the median of squared or absolute
        distances between training rows for that scale.
    n_components : int, default=1000
        Number of features of a kernel map, at most the number of rows. In a mixture, as many
        dimensions at most are kept of the features themselves.
    fit_intercept : bool, default=True
        Whether the linear model has an intercept. Discriminants always have one.
    max_iter : int, default=200
        Most iterations.
    tol : float, default=1e-4
        The run ends when primal residual, dual residual and relative change of the objective are
        at most `tol`. With ``formulation="paper"``: when the loss changes by at most `tol`. A
        run with ``calibration="mixture"`` ends with its last stage instead, see the notes.
    penalty : float or None, default=None
        First penalty of the constraint Y = P + E, which needs one only if `nu` is not 0. None
        stands for ``0.1 * alpha``, in ``formulation="paper"`` for 1e-6.
    penalty_growth : float or "balance", default="balance"
        ``"balance"`` doubles or halves the penalty when one residual is more than ten times the
        other. A number multiplies it in every iteration.
    max_penalty : float, default=1e6
        The penalty is never larger.
    split_penalty, max_split_penalty : float or None, default=None
        The same for the constraint P = J of ``formulation="paper"``. None takes those above.
    inner_iter : int, default=10
        Steps of gradient descent on W and on P in each iteration of ``formulation="paper"``.
    step_size : float or None, default=None
        Their length. None takes the inverse of a bound on the curvature, which needs no tuning.
    init : {"equal", "candidates"}, default="equal"
        First confidences of ``formulation="paper"``: the same for all candidates of a row, with
        sum 1; or 1 for every candidate.
    svd : {"auto", "gram", "full", "truncated", "randomized"}, default="auto"
        How singular values are found if `nu` is not 0, see
        :func:`hera_fast.svd.singular_value_threshold`.
    n_threads : int or None, default=None
        Threads for kernels and BLAS. None leaves the settings as they are. The result does not
        depend on it.
    random_state : int, RandomState instance or None, default=None
        For the rows that make up the kernel map, and for ``svd="randomized"``.
    warm_start : bool, default=False
        Go on from where the last call of `fit` ended. X and Y must have the same shapes, and the
        labels, `formulation`, `calibration`, `fit_intercept`, `kernel`, `gamma` and
        `n_components` must be the same.
    block_rows : int, "auto" or None, default=None
        How many rows are worked on at a time. None works on all of them, unless X is a Zarr array
        or a Dask array, and ``"auto"`` chooses. Of a memory map, rows are then read when they are
        needed, and what belongs to them is kept in a file in the folder for temporary files; see
        docs/scaling.md. The result is the same but for rounding; `confidence_` and `noise_` are
        sparse.
    verbose : int, default=0
        Show progress.
    callback : callable or None, default=None
        Called with a :class:`hera_fast.run.State` after every iteration. Something true as its
        result ends the run.

    Attributes
    ----------
    classes_ : ndarray of shape (q,)
        The labels.
    coef_ : ndarray of shape (q, d)
        Coefficients of the linear model; with a calibration, of the log-odds. They belong to the
        features of the kernel map if there is one. In a mixture they are those of the linear
        member, which is one of three.
    intercept_ : ndarray of shape (q,)
        Intercept. With a calibration minus infinity for labels that are nobody's candidate.
    confidence_ : ndarray of shape (n, q)
        P: how much the training rows' labels are trusted.
    noise_ : ndarray of shape (n, q)
        E: the part of the candidates that is explained as noise. Without `nu` just Y - P.
    transduction_ : ndarray of shape (n,)
        The most trusted candidate of every training row.
    n_iter_ : int
        Number of iterations.
    history_ : dict of ndarray of shape (n_iter_,)
        ``objective``, ``primal_residual``, ``dual_residual``, ``change``, ``rank``, ``penalty``,
        ``mass`` and ``seconds`` of every iteration; :class:`hera_fast.run.State` defines them.
        Residuals, rank and penalty are 0 without `nu`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had names that are strings.

    See Also
    --------
    hera : The solution without an estimator.

    Notes
    -----
    With ``calibration="mixture"`` there is a discriminant for the features, for a Gaussian and for
    a Laplacian kernel. The scores of a training row come from discriminants that are fitted to the
    other rows, so that a flexible model does not just repeat what it is fitted to. The run falls
    into stages with less and less shrinkage, and the one with the largest likelihood of the
    candidates remains. The mixture's weights are chosen by that likelihood, too. Labels with few
    rows are trusted less than frequent ones. Given its
    candidates, a row's label is more likely to be one that comes with the other candidates.
    docs/how_it_works.md has the formulas.

    Ctrl-C during the iterations ends them: `fit` warns and returns the classifier as fitted so
    far. Before the first iteration it interrupts as usual.

    A row of `sample_weight` w counts as w equal rows, among the neighbours as w rounded up.

    Features should have comparable scales, for the neighbours' sake: put a
    :class:`~sklearn.preprocessing.StandardScaler` in front. The largest absolute value must be
    between 1e-140 and 1e140, in float32 between 1e-14 and 1e14.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast import HERAClassifier
    >>> X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    >>> Y = [{"a", "b"}, {"a"}, {"a", "c"}, {"b", "c"}, {"b"}, {"b", "a"}]
    >>> model = HERAClassifier().fit(X, Y)
    >>> model.predict([[0.05], [1.15]]).tolist()
    ['a', 'b']
    >>> model.transduction_.tolist()
    ['a', 'a', 'a', 'b', 'b', 'b']
    """

    _members: list[FittedMember]

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "alpha": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "mu": [Interval(Real, 0, None, closed="left")],
        "nu": [Interval(Real, 0, None, closed="left")],
        "formulation": [StrOptions({"simplex", "paper"})],
        "calibration": [StrOptions({"mixture", "gaussian"}), None],
        "ranking": ["boolean"],
        "shrinkage": [Interval(Real, 0, None, closed="neither")],
        "prediction": [StrOptions({"hybrid", "linear", "neighbors"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "neighbor_weight": [Interval(Real, 0, None, closed="left")],
        "neighbor_rank": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions({"auto", "rbf", "laplacian"}), None],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "penalty": [Interval(Real, 0, None, closed="neither"), None],
        "penalty_growth": [Interval(Real, 1, None, closed="left"), StrOptions({"balance"})],
        "max_penalty": [Interval(Real, 0, None, closed="neither")],
        "split_penalty": [Interval(Real, 0, None, closed="neither"), None],
        "max_split_penalty": [Interval(Real, 0, None, closed="neither"), None],
        "inner_iter": [Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0, None, closed="neither"), None],
        "init": [StrOptions({"equal", "candidates"})],
        "svd": [StrOptions({"auto", "gram", "full", "truncated", "randomized"})],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "block_rows": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 0.1,
        mu: float = 0.0,
        nu: float = 0.0,
        *,
        formulation: str = "simplex",
        calibration: str | None = "mixture",
        ranking: bool = False,
        shrinkage: float = 0.1,
        prediction: str = "linear",
        n_neighbors: int = 10,
        neighbor_weight: float = 1.0,
        neighbor_rank: int | None = None,
        kernel: str | None = "auto",
        gamma: float | str = "median",
        n_components: int = 1000,
        fit_intercept: bool = True,
        max_iter: int = 200,
        tol: float = 1e-4,
        penalty: float | None = None,
        penalty_growth: float | str = "balance",
        max_penalty: float = 1e6,
        split_penalty: float | None = None,
        max_split_penalty: float | None = None,
        inner_iter: int = 10,
        step_size: float | None = None,
        init: str = "equal",
        svd: str = "auto",
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        block_rows: int | str | None = None,
        verbose: int = 0,
        callback: Callable[[State], object] | None = None,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.mu = mu
        self.nu = nu
        self.formulation = formulation
        self.calibration = calibration
        self.ranking = ranking
        self.shrinkage = shrinkage
        self.prediction = prediction
        self.n_neighbors = n_neighbors
        self.neighbor_weight = neighbor_weight
        self.neighbor_rank = neighbor_rank
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.penalty = penalty
        self.penalty_growth = penalty_growth
        self.max_penalty = max_penalty
        self.split_penalty = split_penalty
        self.max_split_penalty = max_split_penalty
        self.inner_iter = inner_iter
        self.step_size = step_size
        self.init = init
        self.svd = svd
        self.n_threads = n_threads
        self.random_state = random_state
        self.warm_start = warm_start
        self.block_rows = block_rows
        self.verbose = verbose
        self.callback = callback

    @classmethod
    def paper(cls, **overrides: Any) -> HERAClassifier:
        """Make a classifier with the settings of the paper.

        OP(4) is solved as printed, with corrected gradients: ``mu=0.1``, ``nu=1``, ``beta=1e-3``,
        penalties from 1e-6 with growth 1.05, ``tol=1e-6``, 10 neighbours. Of the values that the
        paper tries for `alpha` this takes 2, with which most predictions on the data set Lost are
        candidates of their rows. The paper does not give the number of iterations, here
        ``max_iter=500``, and has no intercept. What else it does not say (`inner_iter`,
        `step_size`, `init`, `neighbor_rank`, `max_penalty`) has the defaults of the class.

        Run to convergence, this formulation ends with confidences near zero that tell nothing; a
        warning says so. With ``max_iter=100`` they are small too, but still in the right order;
        with ``mu=0.001`` they stay useful. docs/results.md has the accuracies.

        Parameters
        ----------
        **overrides
            Parameters that are to differ.

        Returns
        -------
        HERAClassifier

        Examples
        --------
        >>> from hera_fast import HERAClassifier
        >>> HERAClassifier.paper(max_iter=100).penalty_growth
        1.05
        """
        settings: dict[str, Any] = {
            "formulation": "paper",
            "calibration": None,
            "ranking": True,
            "prediction": "hybrid",
            "alpha": 2.0,
            "beta": 1e-3,
            "mu": 0.1,
            "nu": 1.0,
            "penalty": 1e-6,
            "penalty_growth": 1.05,
            "tol": 1e-6,
            "max_iter": 500,
            "fit_intercept": False,
        }
        return cls(**{**settings, **overrides})

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether `fit` has come to its end; it sets some attributes before."""
        return hasattr(self, "coef_")

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
        resume: bool = False,
    ) -> HERAClassifier:
        """Learn from rows with candidate labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, Zarr array, Dask array} of shape (n, d)
            Training rows. float32 stays float32, a CSR matrix stays sparse. Rows of a Dask array
            stay on the workers of the current client.
        y : array-like or Dask array
            The candidates Y: a matrix of shape (n, q) of zeros and ones, dense or sparse; a list
            with a set (or list) of labels for every row; or a vector with one label for every
            row, which makes it ordinary supervised learning.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        checkpoint : str or path-like, optional
            A file in which the state of the fit is kept while it runs, every few seconds. It
            remains if the fit fails, and is removed when it has succeeded.
        resume : bool, default=False
            Go on from the checkpoint, if the file exists. The data and the parameters must be the
            same. The result then is what it would have been without the interruption.

        Returns
        -------
        self : HERAClassifier
        """
        if resume and checkpoint is None:
            raise ValueError("resume=True needs a checkpoint: the file to go on from")
        if checkpoint is not None and self.warm_start:
            raise ValueError(
                "a checkpoint does not hold what warm_start=True goes on from: set "
                "warm_start=False, or leave the checkpoint out"
            )
        source = self._source(X, y, sample_weight)
        options = self._options()
        keeper = Keeper(checkpoint, options.random_state, survives=is_dask(X))
        # Products of many rows have threads of their own. The rest is small, and BLAS must not use
        # several threads for it: the bits of its results depend on how many there are.
        n_threads = None if is_dask(X) else self.n_threads  # else those of the workers
        with threads(n_threads), blas_threads(1):
            for attempt in keeper.attempts():
                with attempt:
                    learned = self._learn(source, options, keeper, resume=resume)
        training = learned.training
        self.classes_ = training.classes
        self._take(
            *(learned.solution, learned.feature_maps, learned.features),
            *(learned.confidence, learned.noise),
        )
        self.transduction_ = _take_labels(self.classes_, learned.best)
        self._solution = learned.solution if training.rows.is_whole else None
        self._fit_X = None if self.prediction == "linear" else training.source
        self._multiplicity = None
        if training.weights is not None:
            copies = np.ceil(np.minimum(training.weights, _MOST_COPIES))
            self._multiplicity = copies.astype(np.int64)
        if not learned.solution.interrupted:
            keeper.done()
        return self

    def _learn(self, source: Source, options: Options, keeper: Keeper, *, resume: bool) -> Learned:
        """Fit the kernel maps and solve the problem, from the last checkpoint on."""
        training = source.place()
        try:
            return self._learn_from(training, options, keeper, resume=resume)
        finally:
            training.close()

    def _learn_from(
        self, training: TrainingRows, options: Options, keeper: Keeper, *, resume: bool
    ) -> Learned:
        if keeper.is_active:
            options = self._find_checkpoint(training, options, keeper, resume=resume)
        start = keeper.start(training) or self._start(training)
        if start is None or start.goes_on:
            feature_maps = self._fit_maps(training, options)
        else:
            feature_maps = [member.feature_map for member in self._members]
        rows = training.rows
        features = [
            self._make_features(
                training.X if feature_map is None else rows.make(map_rows, feature_map, training.X),
                training.sample_weight,
                rows,
            )
            for feature_map in feature_maps
        ]

        def keep(reached: Callable[[], Solution]) -> None:
            keeper.keep(training, reached)

        solution = self._solve(features, training.Y, options, start, keep)
        return Learned(training, solution, feature_maps, features, *training.results(solution))

    def _find_checkpoint(
        self, training: TrainingRows, options: Options, keeper: Keeper, *, resume: bool
    ) -> Options:
        """Prepare for checkpoints in a file, and read the one that is there."""
        parameters = self.get_params()
        for name in ("callback", "n_threads", "verbose", "warm_start", "block_rows"):
            del parameters[name]
        if not isinstance(self.random_state, Integral):
            parameters["random_state"] = None
        about = {
            "number of rows": training.shape[0],
            "number of features": training.shape[1],
            "number of labels": len(training.classes),
            "dtype": str(training.dtype),
            **parameters,
            "fingerprint of the data": fingerprint(training),
        }
        keeper.open(about, resume=resume)
        return replace(options, random_state=keeper.seed)

    def _source(self, X: Any, y: Any, sample_weight: Any) -> Source:
        """Check what is to be learned from, and divide it into blocks if it should be."""
        if is_dask(X):
            self._check_lazy_rows(X)
            return DaskSource(
                *(X, y, sample_weight),
                width=self._width_of_rows,
                most=self._most_rows(),
                n_threads=self.n_threads,
                warm=(_warm_up, self._settings(), str(getattr(X, "dtype", "float64"))),
            )
        if self.block_rows is None and not is_lazy(X):
            X = self._validated(X, reset=True)
            Y, classes = check_candidates(y, n_samples=X.shape[0])
            weights = None if sample_weight is None else check_weights(sample_weight, X)
            return WholeRows(WHOLE, X, Y, weights, classes, X.shape, X.dtype, X, weights)
        on_disk = is_lazy(X) or isinstance(X, np.memmap)
        if on_disk:
            self._check_lazy_rows(X)
        else:
            X = self._validated(X, reset=True)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, np.broadcast_to(0.0, (X.shape[0], 1)))
        return rows_in_blocks(
            *(X, y, sample_weight),
            width=self._width_of_rows,
            most=self._most_rows(),
            on_disk=on_disk,
        )

    def _check_lazy_rows(self, X: Any) -> None:
        """Check the shape of rows that are read later."""
        if hasattr(X, "to_dask_array"):
            validate_data(self, X._meta, reset=True, skip_check_array=True)
            return
        if len(X.shape) != 2 or 0 in X.shape:
            raise ValueError(f"X must have rows and columns, got shape {X.shape}")
        if np.dtype(X.dtype).kind not in "biuf":
            raise TypeError(f"X must hold real numbers, got {X.dtype}")
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = int(X.shape[1])

    def _most_rows(self) -> int | None:
        return self.block_rows if isinstance(self.block_rows, Integral) else None

    def _settings(self) -> tuple[tuple[str, Any], ...]:
        """What decides which kernels a fit needs."""
        names = ("formulation", "calibration", "ranking", "nu", "kernel", "alpha", "mu")
        return tuple((name, getattr(self, name)) for name in names)

    def _width_of_rows(self, n_features: int, n_labels: int) -> tuple[int, int]:
        """How many numbers belong to a row in the widest array, and in all that are kept."""
        widths = [n_features if kernel is None else self.n_components for kernel in self._kernels()]
        kept = 2 * sum(widths) + max(widths)
        if self._is_mixture():
            kept += 2 * len(widths) * n_labels
        if self.formulation == "paper":
            kept += 10 * n_labels
        elif self.nu > 0:
            kept += 5 * n_labels
        return max(*widths, n_features, n_labels), kept

    def _has_maps(self) -> bool:
        return self.kernel is not None and (self.kernel != "auto" or self._is_mixture())

    def _fit_maps(self, training: TrainingRows, options: Options) -> list[Nystroem | None]:
        """Fit a kernel map for each member of the model; None stands for the features."""
        is_reduced = self._is_mixture() and training.shape[1] > self.n_components
        kernels = [
            "linear" if kernel is None and is_reduced else kernel for kernel in self._kernels()
        ]

        def fit_map(kernel: str | None) -> Nystroem | None:
            if kernel is None:
                return None
            return fit_kernel_map(
                training.X,
                kernel=kernel,
                gamma=self.gamma,
                n_components=self.n_components,
                random_state=options.random_state,
                sample_weight=training.sample_weight,
                rows=training.rows,
            )

        maps: list[Nystroem | None] = training.rows.together(fit_map, kernels)
        return maps

    def _kernels(self) -> tuple[str | None, ...]:
        if self.kernel != "auto":
            return (self.kernel,)
        return (None, "rbf", "laplacian") if self._is_mixture() else (None,)

    def _is_mixture(self) -> bool:
        return self.formulation == "simplex" and self.calibration == "mixture"

    def _make_features(
        self, X: Any, sample_weight: _Array | None = None, rows: Rows = WHOLE
    ) -> Features:
        """Prepare rows, mapped if there is a kernel map, for the solver."""
        return make_features(
            X, fit_intercept=self._centres(), sample_weight=sample_weight, rows=rows
        )

    def _centres(self) -> bool:
        # A discriminant needs variances, which are about the mean.
        return self.fit_intercept or _is_probabilistic(self._current_meaning())

    def _solve(
        self,
        features: list[Features],
        Y: _Array,
        options: Options,
        start: Solution | None = None,
        keep: Keep | None = None,
    ) -> Solution:
        progress = Progress() if self.verbose else None
        observer = self._observer(progress)
        try:
            if self.formulation == "paper":
                return solve_paper(features[0], Y, options, start, observer, keep)
            return solve(features[0], Y, options, start, observer, features[1:], keep)
        finally:
            if progress is not None:
                progress.close()

    def _take(
        self,
        solution: Solution,
        feature_maps: list[Nystroem | None],
        features: list[Features],
        confidence: Any,
        noise: Any,
    ) -> None:
        """Make a solution the fitted attributes."""
        dtype = features[0].dtype
        self._meaning = self._current_meaning()
        self._members = [
            FittedMember(
                feature_map=feature_map,
                mean=rows.mean,
                W=np.ascontiguousarray(member.W, dtype),
                offset=member.offset.astype(dtype),
                weight=member.weight,
            )
            for feature_map, rows, member in zip(
                feature_maps, features, solution.members, strict=True
            )
        ]
        W, feature_map = solution.W, feature_maps[0]
        self.intercept_ = (solution.offset - features[0].mean @ W).astype(dtype)
        if feature_map is not None and feature_map.kernel == "linear":
            W = feature_map.components_.T @ (feature_map.normalization_.T @ W)
        self.coef_ = np.ascontiguousarray(W.T, dtype)
        self.confidence_, self.noise_ = confidence, noise
        self.history_ = solution.history
        self.n_iter_ = len(solution.history["seconds"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted classifier to a file.

        The file is an npz archive with a JSON header and no pickles; docs/model_files.md
        describes it. `callback`, a `random_state` that is not a number, and what `warm_start`
        goes on from are not saved.

        Parameters
        ----------
        path : str or path-like
            The file; one that exists is replaced when the new one is complete.

        Examples
        --------
        >>> import os, tempfile
        >>> from hera_fast import HERAClassifier
        >>> model = HERAClassifier(n_neighbors=1).fit([[0.0], [1.0]], [{"a"}, {"a", "b"}])
        >>> path = os.path.join(tempfile.mkdtemp(), "model.npz")
        >>> model.save(path)
        >>> HERAClassifier.load(path).predict([[0.2]]).tolist()
        ['a']
        """
        check_is_fitted(self)
        write_classifier(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> HERAClassifier:
        """Read a classifier that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        HERAClassifier
            It predicts bit for bit what the saved one did.
        """
        model: HERAClassifier = read_classifier(path, cls, FittedMember)
        return model

    def _options(self) -> Options:
        """Collect the parameters of the optimisation."""
        if self.formulation == "simplex" and self.mu and self.mu >= self.alpha:
            raise ValueError(
                f"mu must be less than alpha, got mu={self.mu} and alpha={self.alpha}: otherwise "
                "every corner of the simplex is a solution. Use a smaller mu or a larger alpha."
            )
        values = {field.name: getattr(self, field.name) for field in fields(Options)}
        values["random_state"] = check_random_state(self.random_state).randint(2**31 - 1)
        return Options(**values)

    def _observer(self, progress: Progress | None) -> Observer:
        def observe(state: State) -> object:
            if progress is not None:
                progress(state)
            return self.callback is not None and self.callback(state)

        return observe

    def _current_meaning(self) -> dict[str, Any]:
        """Parameters that say what the coefficients of the next fit will mean."""
        names = (*MEANING, "gamma", "n_components") if self._has_maps() else MEANING
        return {name: getattr(self, name) for name in names}

    def _start(self, training: TrainingRows) -> Solution | None:
        """Find what a warm start goes on from."""
        start: Solution | None = getattr(self, "_solution", None)
        if not self.warm_start:
            return None
        if not training.rows.is_whole:
            raise ValueError(
                "warm_start=True goes on with arrays that are in memory, but these rows are in "
                "blocks. Set warm_start=False."
            )
        if start is None:
            return None
        then = {
            "the number of rows": len(start.P),
            "the number of features": self._width(),
            "the dtype of X": str(start.P.dtype),
            "classes_": self.classes_.tolist(),
            **self._meaning,
        }
        now = {
            "the number of rows": training.shape[0],
            "the number of features": training.shape[1],
            "the dtype of X": str(training.dtype),
            "classes_": training.classes.tolist(),
            **self._current_meaning(),
        }
        for name in then:
            if then[name] != now.get(name):
                before, after = reprlib.repr(then[name]), reprlib.repr(now.get(name))
                raise ValueError(
                    f"warm_start=True goes on with the last run, but {name} was {before} then and "
                    f"is {after} now. Set warm_start=False, or fit a clone."
                )
        # The run overwrites its start, and users may have kept these arrays.
        return deepcopy(start)

    def _width(self) -> int:
        """Number of features of the last fit; n_features_in_ may be the next one's already."""
        feature_map = self._members[0].feature_map
        if feature_map is None or feature_map.kernel == "linear":
            return int(self.coef_.shape[1])
        return int(feature_map.components_.shape[1])

    def _precision(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.coef_.dtype
        return dtype

    def _row_width(self) -> int:
        # Features, mapped features or scores, whatever a row has most of.
        return max(self.n_features_in_, *(int(max(each.W.shape)) for each in self._members))

    def _is_paper(self) -> bool:
        return bool(self._meaning["formulation"] == "paper")

    def _scores_are_probabilities(self) -> bool:
        if self.prediction == "neighbors":
            return not self._is_paper()
        return _is_probabilistic(self._meaning)

    def _to_probabilities(self, scores: _Array, out: _Array) -> None:
        if self._scores_are_probabilities():
            super()._to_probabilities(scores, out)
        else:
            project_simplex(scores, np.ones(scores.shape, dtype=bool), out)

    def _scores(self, X: Any, neighbors: _Array | None = None) -> _Array:
        """Score rows by the model and the neighbours, whose scores may be known already."""
        self._check_training_rows(neighbors)
        linear = None
        if self.prediction != "neighbors":
            linear = np.empty((X.shape[0], len(self.classes_)), dtype=self.coef_.dtype)
            self._linear_scores(lambda place: map_rows(self._members[place].feature_map, X), linear)
        if self._asks_neighbors() and neighbors is None:
            neighbors = self._neighbor_scores(X)
        return self._combine(linear, neighbors)

    def _neighbor_scores(self, X: Any) -> _Array:
        """Score rows by the confidences of the nearest training rows, wherever these are."""
        points, confidence = self._fit_X, self.confidence_
        scores = np.empty((X.shape[0], len(self.classes_)), dtype=self.coef_.dtype)
        if is_dask(points):
            scores[:] = dask_neighbor_scores(X, points, confidence, **self._neighbor_options())
            return scores
        X = as_kind_of(X, points)
        if sparse.issparse(confidence):
            blocks = RowBlocks(points, confidence, scores.dtype)
            block_neighbor_scores(X, blocks, scores, **self._neighbor_options())
        else:
            neighbor_scores(
                *(X, _plain_array(points), _plain_array(confidence), scores),
                **self._neighbor_options(),
            )
        return scores

    def _neighbor_options(self) -> dict[str, Any]:
        return {
            "n_neighbors": self.n_neighbors,
            "neighbor_rank": self.neighbor_rank,
            "multiplicity": _plain_array(self._multiplicity),
            "normalize": not self._is_paper(),
        }

    def _neighbors_on_workers(self, X: Any) -> Any:
        self._check_training_rows()
        if not (self._asks_neighbors() and is_dask(self._fit_X)):
            return None
        return neighbor_scores_on_workers(
            *(X, self._fit_X, self.confidence_),
            n_threads=self.n_threads,
            **self._neighbor_options(),
        )

    def _check_training_rows(self, neighbors: _Array | None = None) -> None:
        if self.prediction != "linear" and self._fit_X is None and neighbors is None:
            raise ValueError(
                f"prediction={self.prediction!r} needs the training rows, which fit did not keep "
                "because it was called with prediction='linear'. Call fit again."
            )

    def _scoring_state(self) -> dict[str, Any]:
        state = super()._scoring_state()
        state |= {"callback": None, "_solution": None}
        if self._asks_neighbors() and not is_dask(self._fit_X):
            state["confidence_"] = self.confidence_
        else:
            state |= {"_fit_X": None, "_multiplicity": None}
        if not self._asks_neighbors():
            state["prediction"] = "linear"
        return state

    def _asks_neighbors(self) -> bool:
        if self.prediction == "hybrid" and not self._is_paper():
            return bool(self.neighbor_weight > 0)
        return self.prediction != "linear"

    def _combine(self, linear: _Array | None, neighbors: _Array | None) -> _Array:
        """Weigh scores of the model against those of the neighbours; overwrites both."""
        if linear is None or neighbors is None:
            return neighbors if linear is None else linear  # type: ignore[return-value]
        if self._is_paper():
            linear += neighbors
        else:
            # Probabilities stay probabilities.
            neighbors -= linear
            neighbors *= self.neighbor_weight / (1 + self.neighbor_weight)
            linear += neighbors
        return linear

    def _linear_scores(self, rows_of: Callable[[int], Any], out: _Array) -> None:
        """Write the scores of the linear model, or probabilities with a calibration.

        ``rows_of(place)`` gives the rows as the member at that place wants them.
        """
        if not _is_probabilistic(self._meaning):
            (member,) = self._members
            member.multiply(rows_of(0), member.offset, out)
            return
        parts = [place for place, member in enumerate(self._members) if member.counts()]
        part = out if len(parts) == 1 else np.empty_like(out)
        for place in parts:
            member = self._members[place]
            member.multiply(rows_of(place), np.zeros_like(member.offset), part)
            softmax(_plain_array(member.offset), part)
            if len(parts) > 1:
                part *= member.weight
                np.add(part, 0 if place == parts[0] else out, out=out)


class Learned(NamedTuple):
    """What a fit has found."""

    training: TrainingRows
    solution: Solution
    feature_maps: list[Nystroem | None]
    features: list[Features]
    confidence: Any
    noise: Any
    best: Any


class FittedMember(NamedTuple):
    """A linear model of mapped features, and its part of the predictions."""

    feature_map: Nystroem | None
    mean: _Array
    W: _Array
    offset: _Array
    weight: float

    def counts(self) -> bool:
        """Whether its part of the predictions is worth the time that it takes."""
        return self.weight >= _LEAST_WEIGHT

    def multiply(self, X: Any, offset: _Array, out: _Array) -> None:
        """Write the products of mapped rows with W, plus an offset."""
        W = _plain_array(self.W)
        if sparse.issparse(X):
            multiply_rows(SparseBlocks(X), W, out, offset - (self.mean @ W).astype(W.dtype))
        else:
            # Not by way of the intercept, which is inaccurate when the means are large.
            centred = np.empty_like(X)
            np.subtract(X, self.mean, out=centred, casting="same_kind")
            multiply_rows(centred, W, out, offset)


def _warm_up(settings: tuple[tuple[str, Any], ...], dtype: str) -> None:
    """Fit something small, which compiles all kernels that a fit with these settings needs."""
    X = np.arange(8.0).reshape(4, 2).astype(np.float32 if dtype == "float32" else np.float64)
    Y = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        HERAClassifier(**dict(settings), max_iter=2, block_rows=2).fit(X, Y)


def _is_probabilistic(meaning: dict[str, Any]) -> bool:
    return meaning["formulation"] == "simplex" and meaning["calibration"] is not None


def _take_labels(classes: _Array, best: Any) -> Any:
    """The labels with these numbers, perhaps of a Dask array."""
    if is_dask(best):
        return best.map_blocks(classes.take, dtype=classes.dtype)
    return classes[best]


def _plain_array(array: Any) -> Any:
    """Make a plain array of one that joblib has mapped to a file."""
    return np.asarray(array) if isinstance(array, np.memmap) else array


def hera(
    X: Any, Y: Any, *, sample_weight: Any = None, return_intercept: bool = False, **params: Any
) -> tuple[Any, ...]:
    """Solve HERA's optimisation problem.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Training rows.
    Y : array-like
        Candidates, in one of the forms that :meth:`HERAClassifier.fit` takes.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.
    return_intercept : bool, default=False
        Whether to return the intercept too.
    **params
        Parameters of :class:`HERAClassifier`; here ``calibration="gaussian"`` unless given, a
        single model with the coefficients W.

    Returns
    -------
    W : ndarray of shape (d, q)
        Coefficients of the linear model.
    P : ndarray of shape (n, q)
        Confidences.
    E : ndarray of shape (n, q)
        Noise.
    history : dict of ndarray
        What happened in every iteration.
    intercept : ndarray of shape (q,)
        Only if `return_intercept`.

    See Also
    --------
    HERAClassifier : The same as an estimator, which also predicts.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast import hera
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> Y = np.array([[1, 0], [1, 1], [1, 1], [0, 1]])
    >>> W, P, E, history = hera(X, Y)
    >>> P.argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    model = HERAClassifier(**{"calibration": "gaussian", **params})
    model.fit(X, Y, sample_weight=sample_weight)
    W = np.ascontiguousarray(model.coef_.T)
    solution = W, model.confidence_, model.noise_, model.history_
    return (*solution, model.intercept_) if return_intercept else solution

"""The W step: fit a linear model to the confidences and write its scores.

Both models see the features through :class:`hera_fast.features.Features`, that is centred and
weighted, and keep their coefficients in double precision whatever the features are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg, sparse

from hera_fast.features import CentredRows, Features
from hera_fast.kernels import fit_gradient, ranking_score_gradient, softmax
from hera_fast.products import BLOCK_ROWS, SparseBlocks, column_sums

__all__ = [
    "GaussianDiscriminant",
    "GradientDescent",
    "LeastSquares",
    "Member",
    "Model",
    "Support",
    "ranking_curvature",
    "scores_like",
]

_Array = np.ndarray[Any, Any]

# Features that deviate less from their mean count as constant in a Gaussian discriminant.
_NEGLIGIBLE = {np.dtype(np.float64): 1e-140, np.dtype(np.float32): 1e-20}

# With this many labels for each candidate, a sparse product is faster than a dense one.
_SPARSE = 8

# With this many features for each label, equations for the labels are solved faster.
_FEW_LABELS = 2


def ranking_curvature(n_labels: int) -> float:
    """Bound on the second derivatives of a row's ranking loss by its scores.

    The second derivative of ``log(1 + exp(-d^2))`` is at most 0.6017. So the Hessian is below
    ``2 * 0.6017 / q^2`` times the Laplacian of a graph on the labels with weights
    ``(p_j - p_k)^2 <= 1``, whose eigenvalues are at most q.
    """
    return 1.21 / n_labels


class Member(NamedTuple):
    """A linear model of features, and its part of a mixture."""

    W: _Array
    offset: _Array
    weight: float = 1.0


class Model(Protocol):
    """What the alternation needs of a model.

    An interrupt may come at any time: `W` and `offset` belong together at every moment.
    """

    W: _Array
    offset: _Array
    #: Whether it has come to its end; None leaves that to the objective.
    is_settled: bool | None
    #: What it needs to go on beside `W`, `offset` and the confidences.
    state: Any

    @property
    def members(self) -> tuple[Member, ...]:
        """What predictions are made of; the first one has the coefficients `W`."""

    def update(self, P: _Array, Z: _Array) -> None:
        """Fit to the confidences `P` and overwrite `Z` with the scores."""

    def penalty(self) -> float:
        """The model's own part of the objective."""

    def advance(self, P: _Array) -> None:
        """Take note of the confidences at the end of an iteration."""

    def finish(self, P: _Array) -> _Array:
        """Return the confidences that belong to the model, given the last ones."""


def scores_like(Y: _Array, dtype: np.dtype[Any]) -> _Array:
    """Allocate numbers for each row and label."""
    return np.empty(Y.shape, dtype)


class _Single:
    """A model of one kind of features that knows no stages."""

    W: _Array
    offset: _Array
    is_settled: bool | None = None
    state: Any = None

    @property
    def members(self) -> tuple[Member, ...]:
        return (Member(self.W, self.offset),)

    def advance(self, P: _Array) -> None:
        """Nothing: an iteration is like the one before."""

    def finish(self, P: _Array) -> _Array:
        """Return `P`."""
        return P


class _LinearModel(_Single):
    """Scores Z = XW with the objective ``L_rank(XW, P) + alpha/2 |P - XW|^2 + beta |W|^2``."""

    def __init__(
        self,
        features: Features,
        n_labels: int,
        workspace: _Array,
        *,
        alpha: float,
        beta: float,
        ranking: bool,
    ) -> None:
        self.W = np.zeros((features.shape[1], n_labels))
        self.offset = np.zeros(n_labels)
        self._features = features
        self._gradient = workspace
        self._alpha, self._beta, self._ranking = alpha, beta, ranking

    def _slopes(self, P: _Array, Z: _Array) -> tuple[_Array, _Array]:
        """Derivatives of the objective by W, and by an intercept."""
        features = self._features
        slope, total = features.rows.sum(
            *(_slopes, features.centred, features.sample_weight, Z, P),
            *(self._alpha, self._ranking, self._gradient),
        )
        return slope + 2 * self._beta * self.W, total

    def penalty(self) -> float:
        """``beta |W|^2``."""
        return float(self._beta * np.vdot(self.W, self.W))


def _slopes(
    centred: CentredRows,
    weights: _Array | None,
    Z: _Array,
    P: _Array,
    alpha: float,
    ranking: bool,
    gradient: _Array,
) -> tuple[_Array, _Array]:
    """Derivatives of the losses by W and by an intercept; `gradient` gets those by the scores."""
    if ranking:
        ranking_score_gradient(Z, P, gradient)
    else:
        gradient.fill(0)
    fit_gradient(Z, P, alpha, gradient)
    return centred.correlate(gradient), column_sums(gradient, weights)


class LeastSquares(_LinearModel):
    """Scores Z = XW close to the confidences, and far apart where these differ.

    An update is one majorise-minimise step on
    ``L_rank(XW, P) + alpha/2 |P - XW|^2 + beta |W|^2``. In the scores, the curvature of the first
    two terms is at most ``alpha + c``, so ``H = (alpha + c) X'X + 2 beta I`` bounds the Hessian,
    and ``W - H^-1 gradient`` never raises the objective. H is factorised once. Without the
    ranking loss the bound is exact, and the step ends at the minimum.

    Parameters
    ----------
    features : Features
    n_labels : int
    workspace : ndarray of shape (n, q)
        Overwritten in each update.
    alpha, beta : float
    ranking : bool
        Whether the ranking loss takes part.
    fit_intercept : bool
    """

    def __init__(
        self,
        features: Features,
        n_labels: int,
        workspace: _Array,
        *,
        alpha: float,
        beta: float,
        ranking: bool,
        fit_intercept: bool,
    ) -> None:
        super().__init__(features, n_labels, workspace, alpha=alpha, beta=beta, ranking=ranking)
        self._fit_intercept = fit_intercept
        if fit_intercept:
            self.offset += 1 / n_labels
        self._curvature = max(alpha + ranking * ranking_curvature(n_labels), 1e-12)
        name = "curvature of least squares", self._curvature, beta
        self._factor = features.remember(name, self._factorise)
        self._has_scores = False

    def _factorise(self) -> Any:
        features = self._features
        H = self._curvature * features.remember("gram", features.gram)
        # A little more curvature is still a bound. It keeps H definite when beta is 0, and W small
        # in directions where the gradient is nothing but rounding errors.
        rounding = max(1e-12, 10 * float(np.finfo(features.dtype).eps))
        H.flat[:: len(H) + 1] += 2 * self._beta + rounding * max(H.trace(), 1.0)
        return linalg.cho_factor(H, overwrite_a=True)

    def update(self, P: _Array, Z: _Array) -> None:
        """Take one step from the current W; `Z` holds its scores from the second time on."""
        if not self._has_scores:
            self._features.scores(self.W, self.offset, Z)
            # In blocks, scores are not kept.
            self._has_scores = self._features.rows.is_whole
        slope, total = self._slopes(P, Z)
        W = self.W - linalg.cho_solve(self._factor, slope, overwrite_b=True)
        offset = self.offset
        if self._fit_intercept:
            # The features are centred, so the intercept is a problem of its own.
            offset = offset - total / (self._curvature * self._features.total_weight)
        self.W, self.offset = W, offset
        self._features.scores(W, offset, Z)


class GradientDescent(_LinearModel):
    """The objective of :class:`LeastSquares`, lowered by steps of gradient descent.

    Parameters
    ----------
    features : Features
    n_labels : int
    workspace : ndarray of shape (n, q)
        Overwritten in each update.
    alpha, beta : float
    ranking : bool
        Whether the ranking loss takes part.
    n_steps : int
        Steps in one update.
    step_size : float or None
        None stands for the inverse of a bound on the curvature, with which no step raises the
        objective.
    """

    def __init__(
        self,
        features: Features,
        n_labels: int,
        workspace: _Array,
        *,
        alpha: float,
        beta: float,
        ranking: bool,
        n_steps: int,
        step_size: float | None,
    ) -> None:
        super().__init__(features, n_labels, workspace, alpha=alpha, beta=beta, ranking=ranking)
        self._n_steps, self._step_size = n_steps, step_size
        self._counts: Any = True
        if features.sample_weight is not None:
            self._counts = features.rows.make(_counting, features.sample_weight)
        gram = features.remember("gram", features.gram)
        self._largest: float = features.remember(
            "largest eigenvalue", lambda: float(np.linalg.eigvalsh(gram)[-1])
        )

    def update(self, P: _Array, Z: _Array) -> None:
        """Take the steps, from the current W."""
        step = self._step_size or 1 / self._curvature(P)
        for _ in range(self._n_steps):
            self._features.scores(self.W, self.offset, Z)
            self.W = self.W - step * self._slopes(P, Z)[0]
        self._features.scores(self.W, self.offset, Z)

    def _curvature(self, P: _Array) -> float:
        # Here confidences may exceed 1, and the weights of the ranking loss with them.
        largest: float = max(self._features.rows.gather(_largest, P, self._counts))
        ranking = self._ranking * ranking_curvature(len(self.offset)) * largest**2
        return float(max((self._alpha + ranking) * self._largest + 2 * self._beta, 1e-12))


def _counting(weights: _Array) -> _Array:
    """Mark the rows that count, in a column."""
    counts: _Array = weights[:, np.newaxis] > 0
    return counts


def _largest(P: _Array, counts: Any) -> float:
    """Return the largest confidence of a row that counts."""
    return float(P.max(initial=0, where=counts))


class Support:
    """Confidences as a sparse matrix if that is faster: they vanish outside the candidates.

    Parameters
    ----------
    Y : ndarray of shape (n, q), bool
        The candidates.
    dtype : dtype
        That of the confidences.
    """

    def __init__(self, Y: _Array, dtype: np.dtype[Any]) -> None:
        self._blocks: SparseBlocks | None = None
        if _SPARSE * np.count_nonzero(Y) < Y.size:
            self._positions = np.flatnonzero(Y)
            matrix = sparse.csr_array(Y, dtype=dtype)
            self._values = matrix.data
            self._blocks = SparseBlocks(matrix)

    def take(self, P: _Array) -> _Array | SparseBlocks:
        """Return `P` in the faster form; valid until the next call."""
        if self._blocks is None:
            return P
        # Any other mode of handling errors would need a buffer.
        np.take(P.reshape(-1), self._positions, out=self._values, mode="clip")
        return self._blocks


class GaussianDiscriminant(_Single):
    """Scores that are probabilities, from Gaussians with a common covariance.

    The share, the mean and the covariance of the labels are those of the rows weighted by P. The
    log-odds are then linear in the features, with coefficients that need nothing but X'X and X'P.
    The covariance is shrunk: `shrinkage` times the variance of each feature is added to its
    diagonal, so the scale of a feature does not matter.

    Parameters
    ----------
    features : Features
    Y : ndarray of shape (n, q), bool
        The candidates, outside of which the confidences are zero.
    shrinkage : float
        Positive. Values below the rounding errors of the covariance are raised to these.
    """

    def __init__(self, features: Features, Y: _Array, *, shrinkage: float) -> None:
        n_features, n_labels = features.shape[1], features.rows.gather(np.shape, Y)[0][1]
        self.W = np.zeros((n_features, n_labels))
        self.offset = np.zeros(n_labels)
        self._features = features
        self._support = features.rows.make(Support, Y, features.dtype)
        self._total = features.total_weight
        self._scale, self._moments = features.remember("scaled moments", self._scaled_moments)
        # Less would drown in rounding errors, and the covariance would not be definite. They grow
        # with the largest eigenvalue, and with the root of how many numbers a product adds up.
        eps = float(np.finfo(features.dtype).eps)
        least = max(1e-10, 4 * n_features * eps * math.sqrt(BLOCK_ROWS))
        self._shrinkage = max(shrinkage, least)
        self._factor = None
        # With a tiny shrinkage, what is left of the equations would be rounding errors.
        if _FEW_LABELS * n_labels <= n_features and self._shrinkage >= math.sqrt(eps):
            name = "moments with shrinkage", self._shrinkage
            self._factor = features.remember(name, self._factorise)

    def _scaled_moments(self) -> tuple[_Array, _Array]:
        """The deviation of each feature, and the moments of the features divided by it."""
        features = self._features
        moments = features.gram() / self._total
        deviations = np.sqrt(np.maximum(moments.diagonal(), 0))
        # A constant feature tells nothing, whatever its scale. Neither does one whose coefficients
        # would overflow in the precision of the features.
        scale = np.where(deviations > _NEGLIGIBLE[features.dtype], deviations, 1)
        moments /= scale[:, np.newaxis]
        moments /= scale
        return scale, moments

    def _factorise(self) -> Any:
        return linalg.cho_factor(self._shrunk(self._moments.copy()), overwrite_a=True)

    def _shrunk(self, covariance: _Array) -> _Array:
        """Add the shrinkage to the diagonal, in place."""
        covariance.flat[:: len(covariance) + 1] += self._shrinkage
        return covariance

    def update(self, P: _Array, Z: _Array) -> None:
        """Fit the Gaussians, write the probabilities of the labels to `Z`."""
        features = self._features
        mass, means = features.rows.sum(
            _label_sums, features.centred, features.sample_weight, self._support, P
        )
        shares = mass / self._total
        means /= np.where(mass > 0, mass, 1)
        means /= self._scale[:, np.newaxis]
        W = self._whitened(means, shares)
        with np.errstate(divide="ignore"):
            # Minus infinity for a label without confidence: it gets no probability anywhere.
            offset = np.log(shares) - 0.5 * np.einsum("ij,ij->j", means, W)
        W /= self._scale[:, np.newaxis]
        self.W, self.offset = W, offset
        features.rows.do(_write_probabilities, features.centred, W, offset, Z)

    def _whitened(self, means: _Array, shares: _Array) -> _Array:
        """The inverse of the covariance A - B D B' times the means B, where D are the shares."""
        if self._factor is None:
            covariance = self._shrunk(self._moments - (means * shares) @ means.T)
            solution = linalg.solve(covariance, means, assume_a="pos", overwrite_a=True)
        else:
            # A does not change; by the formula of Woodbury only q equations are left.
            part = linalg.cho_solve(self._factor, means, check_finite=False)
            rest = np.eye(len(shares)) - (means.T @ part) * shares
            solution = linalg.solve(rest, part.T, overwrite_a=True).T
        return np.ascontiguousarray(solution)

    def penalty(self) -> float:
        """Nothing: the likelihood is not part of the objective."""
        return 0.0


def _label_sums(
    centred: CentredRows, weights: _Array | None, support: Support, P: _Array
) -> tuple[_Array, _Array]:
    """Return the confidence of each label, and the sum of the rows weighted by it."""
    confidence = support.take(P)
    return column_sums(confidence, weights), centred.correlate(confidence)


def _write_probabilities(centred: CentredRows, W: _Array, offset: _Array, out: _Array) -> None:
    centred.scores(W, np.zeros(len(offset)), out)
    softmax(offset.astype(out.dtype), out)

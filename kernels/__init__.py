"""Compiled kernels: C-contiguous float32 or float64 arrays in, arrays out.

Outputs come last, every function returns None, rows are spread over threads, and the result does
not depend on their number. Arrays are checked for dtype, shape and memory order, not for NaN.
"""

from __future__ import annotations

from hera_fast.kernels.confidence import confidence_step
from hera_fast.kernels.held_out import (
    candidate_mass,
    condition_on_candidates,
    held_out_scores,
)
from hera_fast.kernels.machines import train_machines
from hera_fast.kernels.manhattan import manhattan_distances
from hera_fast.kernels.margins import candidate_margins, mean_margin_gradient
from hera_fast.kernels.neighbors import nearest_neighbors, neighbor_similarity, self_neighbors
from hera_fast.kernels.ranking import (
    ranking_confidence_gradient,
    ranking_gradients,
    ranking_loss,
    ranking_score_gradient,
)
from hera_fast.kernels.simplex import project_simplex
from hera_fast.kernels.softmax import softmax
from hera_fast.kernels.stick_breaking import (
    break_slopes,
    break_values,
    component_posterior,
    stick_shares,
)
from hera_fast.kernels.updates import (
    fit_gradient,
    low_rank_target,
    soft_threshold,
    update_multipliers,
    update_multipliers_paper,
)

__all__ = [
    "break_slopes",
    "break_values",
    "candidate_margins",
    "candidate_mass",
    "component_posterior",
    "condition_on_candidates",
    "confidence_step",
    "fit_gradient",
    "held_out_scores",
    "low_rank_target",
    "manhattan_distances",
    "mean_margin_gradient",
    "nearest_neighbors",
    "neighbor_similarity",
    "project_simplex",
    "ranking_confidence_gradient",
    "ranking_gradients",
    "ranking_loss",
    "ranking_score_gradient",
    "self_neighbors",
    "soft_threshold",
    "softmax",
    "stick_shares",
    "train_machines",
    "update_multipliers",
    "update_multipliers_paper",
]

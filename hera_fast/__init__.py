"""Partial-label learning: every row carries a set of candidate labels, one of them is true."""

from __future__ import annotations

from hera_fast import baselines, kernels, plotting, svd, threads
from hera_fast._version import __version__
from hera_fast.comparison import compare
from hera_fast.data_files import load_partial_labels, save_partial_labels
from hera_fast.data_sets import fetch_partial_labels, load_digits_partial
from hera_fast.estimator import HERAClassifier, hera
from hera_fast.evaluation import cross_validate_partial
from hera_fast.partial_labels import make_partial_labels
from hera_fast.pipeline_files import load_model, save_model
from hera_fast.scores import candidate_lift, candidate_log_loss, candidate_score
from hera_fast.selection import HERAClassifierCV
from hera_fast.synthetic import make_partial_classification

__all__ = [
    "HERAClassifier",
    "HERAClassifierCV",
    "__version__",
    "baselines",
    "candidate_lift",
    "candidate_log_loss",
    "candidate_score",
    "compare",
    "cross_validate_partial",
    "fetch_partial_labels",
    "hera",
    "kernels",
    "load_digits_partial",
    "load_model",
    "load_partial_labels",
    "make_partial_classification",
    "make_partial_labels",
    "plotting",
    "save_model",
    "save_partial_labels",
    "svd",
    "threads",
]

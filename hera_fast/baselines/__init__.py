"""The methods that HERA's paper compares with, as estimators of the same kind."""

from __future__ import annotations

from hera_fast.baselines.clpl import CLPLClassifier
from hera_fast.baselines.ecoc import PLECOCClassifier
from hera_fast.baselines.knn import PLKNNClassifier
from hera_fast.baselines.lsb_cmm import LSBCMMClassifier
from hera_fast.baselines.paloc import PALOCClassifier
from hera_fast.baselines.plsvm import PLSVMClassifier

__all__ = [
    "CLPLClassifier",
    "LSBCMMClassifier",
    "PALOCClassifier",
    "PLECOCClassifier",
    "PLKNNClassifier",
    "PLSVMClassifier",
]

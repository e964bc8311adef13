"""Figures as scikit-learn makes them: displays that hold plain data and draw it.

Each display takes its data in the constructor, or computes it in a class method such as
``from_estimator``, and draws it with ``plot`` onto given axes or a new figure. They need
matplotlib: ``pip install 'hera-fast[plot]'``.
"""

from __future__ import annotations

from hera_fast.plotting.colors import COLORS, MethodStyle, method_styles
from hera_fast.plotting.comparisons import DifferenceDisplay, MethodsDisplay
from hera_fast.plotting.confidence import ConfidenceDisplay
from hera_fast.plotting.critical_difference import CriticalDifferenceDisplay
from hera_fast.plotting.curves import ConvergenceDisplay, CurveDisplay
from hera_fast.plotting.heat_maps import CoOccurrenceDisplay, NoiseFactorsDisplay

__all__ = [
    "COLORS",
    "CoOccurrenceDisplay",
    "ConfidenceDisplay",
    "ConvergenceDisplay",
    "CriticalDifferenceDisplay",
    "CurveDisplay",
    "DifferenceDisplay",
    "MethodStyle",
    "MethodsDisplay",
    "NoiseFactorsDisplay",
    "method_styles",
]

"""The methods of the comparison by the names that the command line knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from hera_fast import baselines
from hera_fast.estimator import HERAClassifier

__all__ = ["METHODS", "OTHERS", "SEVEN", "Method", "check_names", "make_method"]


class Method(NamedTuple):
    """A method of the comparison.

    Attributes
    ----------
    title : str
        Its name in tables.
    make : callable
        Makes the estimator from parameters.
    is_random : bool
        Whether it takes a ``random_state``.
    """

    title: str
    make: Callable[..., Any]
    is_random: bool


#: The default, the paper's settings (run until they stop, and as long as they are good), and the
#: six methods of the paper's comparison.
METHODS = {
    "hera": Method("HERA", HERAClassifier, True),
    "hera-paper": Method("HERA, paper", HERAClassifier.paper, True),
    "hera-paper-100": Method("paper at 100", partial(HERAClassifier.paper, max_iter=100), True),
    "pl-svm": Method("PL-SVM", baselines.PLSVMClassifier, False),
    "clpl": Method("CLPL", baselines.CLPLClassifier, False),
    "pl-knn": Method("PL-KNN", baselines.PLKNNClassifier, False),
    "lsb-cmm": Method("LSB-CMM", baselines.LSBCMMClassifier, False),
    "pl-ecoc": Method("PL-ECOC", baselines.PLECOCClassifier, True),
    "paloc": Method("PALOC", baselines.PALOCClassifier, True),
}
#: The six methods that HERA is compared with, in the order of the paper's tables.
OTHERS = ("pl-knn", "pl-svm", "lsb-cmm", "clpl", "pl-ecoc", "paloc")
#: All methods of the paper's comparison.
SEVEN = ("hera", *OTHERS)


def make_method(name: str, settings: Mapping[str, Any], seed: int | None) -> Any:
    """Make the estimator of a method.

    Parameters
    ----------
    name : str
        One of `METHODS`.
    settings : mapping
        Parameters that differ from its defaults.
    seed : int or None
        For methods that draw random numbers.

    Returns
    -------
    estimator : estimator
        Not fitted.

    Raises
    ------
    ValueError
        If there is no such method or parameter.

    Examples
    --------
    >>> from hera_fast.experiments.methods import make_method
    >>> make_method("pl-knn", {"n_neighbors": 5}, seed=0)
    PLKNNClassifier(n_neighbors=5)
    """
    check_names([name])
    method = METHODS[name]
    estimator = method.make(random_state=seed) if method.is_random else method.make()
    return estimator.set_params(**settings)


def check_names(names: Iterable[str]) -> None:
    """Raise a ValueError that lists the methods, if one of the names is unknown or there twice.

    Examples
    --------
    >>> from hera_fast.experiments.methods import check_names
    >>> check_names(["hera", "paloc"])
    """
    names = list(names)
    for name in names:
        if name not in METHODS:
            raise ValueError(f"there is no method {name!r}, but {', '.join(METHODS)}")
        if names.count(name) > 1:
            raise ValueError(f"the method {name!r} is there twice")

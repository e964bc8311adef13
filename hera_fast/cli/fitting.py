"""How commands make a model, fit it, and say what became of it."""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from hera_fast.cli.options import (
    UsageError,
    add_settings_option,
    add_threads_option,
    seed,
)
from hera_fast.cli.terminal import Output, percent
from hera_fast.experiments.disambiguation import Picks, pick_candidates
from hera_fast.experiments.methods import METHODS, make_method
from hera_fast.experiments.sources import make_preparation
from hera_fast.fold import final_step
from hera_fast.threads import threads

__all__ = [
    "Fit",
    "add_model_options",
    "fit_model",
    "make_classifier",
    "name_model",
    "numbered_names",
    "preparation_steps",
    "refuse_interrupted",
    "say_fitted",
]

_METHODS = ("hera", "hera-paper")
# Above this a candidate counts as found.
_SURE = 0.9


@dataclass(frozen=True)
class Fit:
    """A fitted model, and what is to be told about it.

    Attributes
    ----------
    model : HERAClassifier or Pipeline
        With names of labels and features.
    picks : Picks
        The candidates of the training rows.
    seconds : float
        How long it took.
    figures : dict
        What programs are told.
    """

    model: Any
    picks: Picks
    seconds: float
    figures: dict[str, Any]


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the method, its parameters, the seed, and whether features are scaled."""
    parser.add_argument(
        "--method",
        choices=_METHODS,
        default=_METHODS[0],
        help="the default of this library, or the settings of the paper (default: hera)",
    )
    add_settings_option(parser)
    parser.add_argument(
        "--no-scale",
        action="store_true",
        help="take features as they are (default: mean 0 and variance 1)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="for random numbers (default: 0)"
    )
    add_threads_option(parser)


def make_classifier(name: str, settings: dict[str, Any], seed: int) -> Any:
    """Make a classifier, or say what is wrong with its parameters before any work.

    Parameters
    ----------
    name : str
        One of :data:`hera_fast.experiments.methods.METHODS`.
    settings : dict
        Parameters, as ``--set`` gives them.
    seed : int
        For random numbers, unless the settings have another one.

    Returns
    -------
    classifier : HERAClassifier
        Not fitted.

    Raises
    ------
    UsageError
        If there is no such parameter, or it cannot have that value.

    Examples
    --------
    >>> from hera_fast.cli.fitting import make_classifier
    >>> make_classifier("hera", {"n_components": 500}, 0)
    HERAClassifier(n_components=500, random_state=0)
    """
    known = METHODS[name].make().get_params()
    for parameter in settings:
        if parameter not in known:
            raise UsageError(
                f"--set {parameter}: HERAClassifier has no such parameter. It has "
                f"{', '.join(sorted(known))}"
            )
    classifier = make_method(name, settings, seed)
    try:
        classifier._validate_params()
        classifier._options()
    except (TypeError, ValueError) as error:
        raise UsageError(f"--set: {error}") from error
    return classifier


def preparation_steps(X: Any, *, scale: bool) -> list[Any]:
    """Return the transformers that prepare rows, in a flat list; not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.cli.fitting import preparation_steps
    >>> preparation_steps(np.eye(2), scale=True), preparation_steps(np.eye(2), scale=False)
    ([StandardScaler()], [])
    """
    preparation = make_preparation(X)
    steps = [preparation]
    if isinstance(preparation, Pipeline):
        steps = [step for _, step in preparation.steps]
    return [step for step in steps if scale or not isinstance(step, StandardScaler)]


def fit_model(arguments: argparse.Namespace, bunch: Bunch, classifier: Any, out: Output) -> Fit:
    """Fit a classifier behind the preparation of its rows.

    Parameters
    ----------
    arguments : argparse.Namespace
        With the options of :func:`add_model_options`.
    bunch : Bunch
        The data set.
    classifier : HERAClassifier
        What :func:`make_classifier` made.
    out : Output
        Tells whether progress is shown.

    Returns
    -------
    fit : Fit

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts, also where the classifier would make do with what it has.
    """
    steps = preparation_steps(bunch.data, scale=not arguments.no_scale)
    model = make_pipeline(*steps, classifier) if steps else classifier
    verbose = classifier.verbose
    classifier.set_params(verbose=max(verbose, int(out.shows_progress)))
    start = time.perf_counter()
    with threads(arguments.threads), warnings.catch_warnings():
        # It is an error here, with a message of its own.
        warnings.filterwarnings("ignore", "HERA was interrupted", ConvergenceWarning)
        model.fit(bunch.data, bunch.candidates)
    seconds = time.perf_counter() - start
    refuse_interrupted(classifier)
    # Not what the next user of the file wants to see.
    classifier.set_params(verbose=verbose)
    name_model(model, bunch)
    picks = pick_candidates(classifier.confidence_, bunch.candidates)
    return Fit(model, picks, seconds, _figures(classifier, bunch, picks, seconds))


def refuse_interrupted(classifier: Any) -> None:
    """Raise KeyboardInterrupt if a fit has ended early because the user wanted so."""
    if classifier._solution.interrupted:
        done = classifier.n_iter_
        raise KeyboardInterrupt(
            f"interrupted after {done} iterations: nothing was written. To end a fit there on "
            f"purpose, use --set max_iter={max(1, done)}"
        )


def name_model(model: Any, bunch: Bunch) -> None:
    """Give a model that was fitted to matrices the names of the labels and the features.

    Parameters
    ----------
    model : HERAClassifier or Pipeline
        Fitted to the data and candidates of `bunch`.
    bunch : Bunch
        Has the names. Those of features that are just numbered are left out.

    Examples
    --------
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.bunch import make_bunch
    >>> from hera_fast.cli.fitting import name_model
    >>> bunch = make_bunch([[0.0], [1.0]], [{"a"}, {"b"}], feature_names=["size"])
    >>> model = HERAClassifier().fit(bunch.data, bunch.candidates)
    >>> name_model(model, bunch)
    >>> model.transduction_.tolist(), model.feature_names_in_.tolist()
    (['a', 'b'], ['size'])
    """
    classifier = final_step(model)
    # The labels of a matrix are its columns.
    classifier.transduction_ = bunch.target_names[classifier.transduction_]
    classifier.classes_ = bunch.target_names
    if bunch.feature_names != numbered_names(len(bunch.feature_names)):
        first = model[0] if isinstance(model, Pipeline) else model
        first.feature_names_in_ = np.array(bunch.feature_names, dtype=object)


def numbered_names(count: int) -> list[str]:
    """Return the names that features have when nobody has named them.

    Examples
    --------
    >>> from hera_fast.cli.fitting import numbered_names
    >>> numbered_names(2)
    ['x0', 'x1']
    """
    return [f"x{number}" for number in range(count)]


def say_fitted(fit: Fit, out: Output) -> None:
    """Say in a few lines what was fitted.

    Examples
    --------
    >>> from hera_fast.cli.fitting import Fit, say_fitted
    >>> from hera_fast.cli.terminal import Output, percent
    >>> figures = {"rows": 9, "labels": 3, "features": 2, "iterations": 5, "seconds": 0.25}
    >>> figures |= {"ambiguous_rows": 4, "resolved_share": 0.75, "accuracy": None}
    >>> say_fitted(Fit(None, None, 0.25, figures), Output())
    rows:            9, with 2 features and 3 labels
    fitted:          in 0.2 s, 5 iterations
    ambiguous rows:  4, 75.0% of them with a confidence above 0.9
    """
    figures = fit.figures
    out.text(
        f"rows:            {figures['rows']}, with {figures['features']} features and "
        f"{figures['labels']} labels"
    )
    out.text(f"fitted:          in {fit.seconds:.1f} s, {figures['iterations']} iterations")
    resolved = figures["resolved_share"]
    rest = (
        "" if resolved is None else f", {percent(resolved)} of them with a confidence above {_SURE}"
    )
    out.text(f"ambiguous rows:  {figures['ambiguous_rows']}{rest}")
    if figures["accuracy"] is not None:
        out.text(f"true label:      picked in {percent(figures['accuracy'])} of all rows")


def _figures(classifier: Any, bunch: Bunch, picks: Picks, seconds: float) -> dict[str, Any]:
    is_open = np.diff(bunch.candidates.indptr) > 1
    sure = picks.confidence[is_open] > _SURE
    right = None if bunch.target is None else float((picks.best == bunch.target).mean())
    return {
        "rows": int(bunch.data.shape[0]),
        "features": int(bunch.data.shape[1]),
        "labels": len(bunch.target_names),
        "iterations": int(classifier.n_iter_),
        "seconds": round(seconds, 3),
        "ambiguous_rows": int(is_open.sum()),
        "resolved_share": float(sure.mean()) if len(sure) else None,
        "accuracy": right,
    }

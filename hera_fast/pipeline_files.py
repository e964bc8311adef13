"""Models in files: a classifier, alone or behind the steps that prepare its rows."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any, NoReturn

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from hera_fast.estimator import FittedMember, HERAClassifier
from hera_fast.model_files import (
    PIPELINE,
    as_text,
    check_shape,
    classifier_of_parts,
    parts_of_classifier,
)
from hera_fast.persistence import model_kind, read_model, write_model

__all__ = ["load_model", "save_model"]

_Array = np.ndarray[Any, Any]
_Path = str | PathLike[str]

_CLASSIFIER = HERAClassifier.__name__
# Transformers, and what fitting finds.
_TRANSFORMERS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "SimpleImputer": (SimpleImputer, ("statistics_",)),
    "StandardScaler": (StandardScaler, ("mean_", "var_", "scale_", "n_samples_seen_")),
}
_KNOWN = f"Steps may be {' and '.join(_TRANSFORMERS)}, and a {_CLASSIFIER} comes last"
_NAMES = "feature_names_in_"
# Arrays of the steps before the classifier are step0_mean_ and so on.
_PREFIX = "step"
_OUTPUTS = (None, "default", "pandas", "polars")


def save_model(model: Any, path: _Path) -> None:
    """Write a fitted model to a file.

    The file is an npz archive with a JSON header and no pickles; docs/model_files.md describes it.

    Parameters
    ----------
    model : HERAClassifier or sklearn.pipeline.Pipeline
        A classifier, for which this is its method ``save``; or a pipeline that ends with one,
        behind a :class:`~sklearn.impute.SimpleImputer` with the mean or the median, a
        :class:`~sklearn.preprocessing.StandardScaler`, or both, also in a pipeline of their own.
        The parameters `memory`, `transform_input` and `verbose` of a pipeline are not saved.
    path : str or path-like
        The file; one that exists is replaced when the new one is complete.

    Raises
    ------
    TypeError
        If it is another model, or has a step that is not known. Nothing is written then.
    sklearn.exceptions.NotFittedError
        If it is not fitted.

    See Also
    --------
    load_model : Reads such files.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.pipeline_files import load_model, save_model
    >>> model = make_pipeline(StandardScaler(), HERAClassifier())
    >>> model = model.fit([[0.0], [10.0], [90.0]], [{"a"}, {"a", "b"}, {"b"}])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.hera")
    ...     save_model(model, path)
    ...     load_model(path).predict([[8.0]]).tolist()
    ['a']
    """
    if type(model) is HERAClassifier:
        model.save(path)
        return
    if type(model) is not Pipeline:
        _refuse_model(model)
    if type(model.steps[-1][1]) is not HERAClassifier:
        raise TypeError(f"the pipeline ends with {_described(model.steps[-1][1])}. {_KNOWN}")
    arrays: dict[str, _Array] = {}
    steps = _parts_of_steps(model, _PREFIX, arrays)
    write_model(path, PIPELINE, {"steps": steps}, arrays)


def load_model(path: _Path) -> Any:
    """Read a model that :func:`save_model` or :meth:`HERAClassifier.save` wrote.

    Nothing in a file is ever run: it is safe to load files from strangers.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : HERAClassifier or sklearn.pipeline.Pipeline
        It predicts bit for bit what the saved one did.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not such a model, was written by a later version, or is damaged. The
        message names the file and the reason.

    See Also
    --------
    save_model : Writes such files.

    Examples
    --------
    >>> import os, tempfile
    >>> from hera_fast import HERAClassifier
    >>> from hera_fast.pipeline_files import load_model
    >>> model = HERAClassifier().fit([[0.0], [1.0]], [{"a"}, {"a", "b"}])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.hera")
    ...     model.save(path)
    ...     type(load_model(path)).__name__
    'HERAClassifier'
    """
    kind = model_kind(path)
    if kind == _CLASSIFIER:
        return HERAClassifier.load(path)
    if kind != PIPELINE:
        raise ValueError(
            f"{fspath(path)} holds a {kind!r}, and this reads a {_CLASSIFIER!r} or a "
            f"{PIPELINE!r}. Read it with the class that wrote it"
        )
    header, arrays = read_model(path, PIPELINE)
    try:
        return _pipeline_of_parts(header, arrays)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{fspath(path)} is no {PIPELINE} that this version can read: "
            f"{type(error).__name__}: {error}"
        ) from error


def _refuse_model(model: Any) -> NoReturn:
    if hasattr(model, "best_estimator_"):
        hint = "save its best_estimator_"
    elif isinstance(model, HERAClassifier):
        hint = f"use the methods save and load of {type(model).__name__}"
    else:
        hint = f"pass a {_CLASSIFIER}, or a Pipeline that ends with one"
    raise TypeError(f"{_described(model)} cannot be saved: {hint}")


def _described(thing: Any) -> str:
    return repr(thing) if isinstance(thing, str) else f"a {type(thing).__name__}"


def _parts_of_step(name: str, step: Any, prefix: str, arrays: dict[str, _Array]) -> dict[str, Any]:
    """Describe a step, and add what it has learned to the arrays."""
    about: dict[str, Any] = {"name": name, "kind": type(step).__name__}
    if type(step) is Pipeline:
        return about | {"steps": _parts_of_steps(step, prefix, arrays)}
    if type(step) is HERAClassifier:
        check_is_fitted(step)
        # The arrays have the names that they have in a file with the classifier alone.
        about["header"], own = parts_of_classifier(step)
        arrays |= own
        return about
    cls, attributes = _TRANSFORMERS.get(about["kind"], (None, ()))
    if type(step) is not cls:
        raise TypeError(f"the step {name!r} is {_described(step)}. {_KNOWN}")
    check_is_fitted(step)
    if isinstance(step, SimpleImputer):
        _check_imputer(step)
        about["dtype"] = step._fit_dtype.str
    about["parameters"] = step.get_params()
    about["output"] = getattr(step, "_sklearn_output_config", {}).get("transform")
    learned = {attribute: getattr(step, attribute) for attribute in attributes}
    if hasattr(step, _NAMES):
        learned[_NAMES] = as_text(_NAMES, step.feature_names_in_)
    arrays |= {
        f"{prefix}{attribute}": np.asarray(value)
        for attribute, value in learned.items()
        if value is not None
    }
    return about


def _parts_of_steps(
    pipeline: Pipeline, prefix: str, arrays: dict[str, _Array]
) -> list[dict[str, Any]]:
    return [
        _parts_of_step(name, step, f"{prefix}{place}_", arrays)
        for place, (name, step) in enumerate(pipeline.steps)
    ]


def _check_imputer(step: SimpleImputer) -> None:
    wanted = {
        "strategy": step.strategy in ("mean", "median"),
        "missing_values": isinstance(step.missing_values, float) and np.isnan(step.missing_values),
        "add_indicator": step.add_indicator is False,
    }
    for name, is_known in wanted.items():
        if not is_known:
            raise TypeError(
                f"a SimpleImputer with {name}={getattr(step, name)!r} cannot be saved: it must put "
                "the mean or the median in place of NaN, and add no indicator"
            )


def _pipeline_of_parts(header: dict[str, Any], arrays: dict[str, Any]) -> Pipeline:
    *front, last = header["steps"]
    if last["kind"] != _CLASSIFIER:
        raise ValueError(f"it ends with a {last['kind']!r} instead of a {_CLASSIFIER!r}")
    others = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_PREFIX)}
    model = classifier_of_parts(HERAClassifier, FittedMember, last["header"], arrays)
    steps, _ = _restored_steps(front, _PREFIX, others, model.n_features_in_)
    if others:
        raise ValueError(f"it has an unexpected array {min(others)!r}")
    return _make_pipeline([*steps, (last["name"], model)])


def _restored_steps(
    abouts: list[dict[str, Any]], prefix: str, arrays: dict[str, Any], width: int
) -> tuple[list[tuple[str, Any]], int]:
    """Restore steps that turn rows into rows of a width; and return the width they want."""
    steps = []
    # From the end, because what follows says how wide a step must be.
    for place, about in reversed(list(enumerate(abouts))):
        own = f"{prefix}{place}_"
        if about["kind"] == PIPELINE:
            inner, width = _restored_steps(about["steps"], own, arrays, width)
            step: Any = _make_pipeline(inner)
        else:
            step, width = _restored_transformer(about, own, arrays, width)
        steps.append((about["name"], step))
    return steps[::-1], width


def _make_pipeline(steps: list[tuple[str, Any]]) -> Pipeline:
    names = [name for name, _ in steps]
    if not steps or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"it has a pipeline with steps of the names {names}")
    return Pipeline(steps)


def _restored_transformer(
    about: dict[str, Any], prefix: str, arrays: dict[str, Any], width: int
) -> tuple[Any, int]:
    if about["kind"] not in _TRANSFORMERS:
        raise ValueError(f"it has an unknown step {about['kind']!r}")
    cls, attributes = _TRANSFORMERS[about["kind"]]
    step = cls(**about["parameters"])
    learned = {name: arrays.pop(f"{prefix}{name}", None) for name in attributes}
    dtype = np.dtype(np.float64)
    if cls is SimpleImputer:
        _check_imputer(step)
        dtype = np.dtype(about["dtype"])
        if dtype.kind != "f":
            raise ValueError(f"it was fitted to {dtype} instead of floats")
        width = _check_statistics(step, learned["statistics_"], width)
    else:
        _check_scale(step, learned, width)
    # Checks the parameters, and sets what only a certain version of scikit-learn has.
    step.fit(np.zeros((1, width), dtype))
    for name, value in learned.items():
        # A number of rows is a scalar.
        setattr(step, name, value if value is None else value[()])
    names = arrays.pop(f"{prefix}{_NAMES}", None)
    if names is not None:
        check_shape(_NAMES, names, (width,))
        if names.dtype.kind != "U":
            raise ValueError(f"{_NAMES} holds {names.dtype} instead of text")
        step.feature_names_in_ = names.astype(object)
    if about["output"] not in _OUTPUTS:
        raise ValueError(f"a step has the unknown output {about['output']!r}")
    if about["output"] is not None:
        step.set_output(transform=about["output"])
    return step, width


def _check_statistics(step: SimpleImputer, statistics: Any, width: int) -> int:
    """Check what stands in for missing values; the number of columns that come in."""
    if statistics is None:
        raise ValueError("statistics_ is missing")
    check_shape("statistics_", statistics, (statistics.size,))
    # Columns without any value are left out.
    known = np.isfinite(statistics)
    if np.isinf(statistics).any() or (step.keep_empty_features and not known.all()):
        raise ValueError("statistics_ is not finite")
    if np.count_nonzero(known) != width:
        raise ValueError(f"statistics_ has {np.count_nonzero(known)} columns instead of {width}")
    return int(statistics.size)


def _check_scale(step: StandardScaler, learned: dict[str, Any], width: int) -> None:
    needed = {"mean_": step.with_mean, "scale_": step.with_std, "n_samples_seen_": True}
    for name, value in learned.items():
        if value is None and not needed.get(name):
            continue
        if value is None:
            raise ValueError(f"{name} is missing")
        if name != "n_samples_seen_" or value.ndim:
            check_shape(name, value, (width,))
        if not np.isfinite(value).all():
            raise ValueError(f"{name} is not finite")
    if step.with_std and not (learned["scale_"] > 0).all():
        raise ValueError("scale_ is not positive")

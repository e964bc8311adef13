"""What of a fitted classifier goes into a model file, and how it comes back."""

from __future__ import annotations

from numbers import Integral
from os import PathLike, fspath
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem

from hera_fast.kernel_maps import KERNELS
from hera_fast.persistence import read_model, write_model
from hera_fast.run import FIGURES

__all__ = [
    "MEANING",
    "PIPELINE",
    "as_text",
    "check_shape",
    "classifier_of_parts",
    "parts_of_classifier",
    "read_classifier",
    "write_classifier",
]

_Array = np.ndarray[Any, Any]

#: Parameters that say what the coefficients mean. Later changes must not affect predictions.
MEANING = ("formulation", "calibration", "kernel", "fit_intercept")

#: The kind of files that hold a classifier behind other steps.
PIPELINE = "Pipeline"
_ADVICE = {PIPELINE: "Read it with hera_fast.load_model"}

_SAVED = (
    "coef_",
    "intercept_",
    "confidence_",
    "noise_",
    "_fit_X",
    "_multiplicity",
)
_SAVED_LABELS = ("classes_", "feature_names_in_", "transduction_")
_OPTIONAL = ("_fit_X", "_multiplicity", "feature_names_in_")
_SAVED_MEMBER = ("mean", "W", "offset")
_SAVED_MAP = ("components_", "normalization_", "component_indices_")


def write_classifier(path: str | PathLike[str], model: Any) -> None:
    """Write a fitted :class:`hera_fast.HERAClassifier` to a file; see its method ``save``."""
    header, arrays = parts_of_classifier(model)
    write_model(path, type(model).__name__, header, arrays)


def parts_of_classifier(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays that make up a fitted classifier."""
    parameters = model.get_params()
    del parameters["callback"]
    if not isinstance(model.random_state, Integral):
        parameters["random_state"] = None
    # With what is on workers or in files in memory.
    state = model.__getstate__()
    arrays = {name: state[name] for name in _SAVED if state[name] is not None}
    arrays |= {f"history_{name}": figures for name, figures in model.history_.items()}
    header: dict[str, Any] = {
        "parameters": parameters,
        "meaning": model._meaning,
        "objects": [],
    }
    for name in _SAVED_LABELS:
        labels = state.get(name)
        if labels is None:
            continue
        if labels.dtype == object:
            labels = as_text(name, labels)
            header["objects"].append(name)
        arrays[name] = labels
    header["members"] = []
    for place, member in enumerate(model._members):
        arrays |= {f"{name}_{place}": getattr(member, name) for name in _SAVED_MEMBER}
        about = {"weight": member.weight, "kernel": None}
        if member.feature_map is not None:
            gamma = member.feature_map.gamma
            about |= {"kernel": member.feature_map.kernel, "gamma": gamma}
            arrays |= {f"{name}{place}": getattr(member.feature_map, name) for name in _SAVED_MAP}
        header["members"].append(about)
    return header, arrays


def read_classifier(path: str | PathLike[str], cls: Any, member: Any) -> Any:
    """Read what :func:`write_classifier` wrote, as a `cls` with a list of `member`."""
    header, arrays = read_model(path, cls.__name__, advice=_ADVICE)
    try:
        return classifier_of_parts(cls, member, header, arrays)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{fspath(path)} is no {cls.__name__} that this version can read: "
            f"{type(error).__name__}: {error}"
        ) from error


def classifier_of_parts(
    cls: Any, member: Any, header: dict[str, Any], arrays: dict[str, Any]
) -> Any:
    """Put together what :func:`parts_of_classifier` returned; takes all of the arrays.

    Parts that do not fit raise any of AttributeError, LookupError, TypeError and ValueError.
    """
    model = _restored(cls, member, header, arrays)
    _check_shapes(model)
    return model


def _restored_map(about: dict[str, Any], place: int, arrays: dict[str, Any]) -> Nystroem | None:
    if about["kernel"] is None:
        return None
    if about["kernel"] not in KERNELS:
        raise ValueError(f"it has an unknown kernel {about['kernel']!r}")
    # Not fitted to anything: what fitting would find is in the file.
    feature_map = Nystroem(about["kernel"], gamma=about["gamma"]).set_output(transform="default")
    for name in _SAVED_MAP:
        setattr(feature_map, name, arrays.pop(f"{name}{place}"))
    return feature_map


def _restored(cls: Any, member: Any, header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    model = cls(**header["parameters"])
    model._meaning = header["meaning"]
    if not set(MEANING) <= model._meaning.keys():
        raise ValueError(f"its header says nothing about {MEANING}")
    for name in header["objects"]:
        arrays[name] = arrays[name].astype(object)
    model.history_ = {name: arrays.pop(f"history_{name}") for name in FIGURES}
    model.n_iter_ = len(model.history_["seconds"])
    model._solution = None
    model._members = [
        member(
            _restored_map(about, place, arrays),
            *(arrays.pop(f"{name}_{place}") for name in _SAVED_MEMBER),
            weight=float(about["weight"]),
        )
        for place, about in enumerate(header["members"])
    ]
    for name in _SAVED:
        setattr(model, name, arrays.pop(name, None) if name in _OPTIONAL else arrays.pop(name))
    model.n_features_in_ = model._width()
    for part in model._members:
        if part.feature_map is not None:
            part.feature_map.n_features_in_ = model.n_features_in_
    for name in _SAVED_LABELS:
        if name in arrays or name not in _OPTIONAL:
            setattr(model, name, arrays.pop(name))
    if arrays:
        raise ValueError(f"it has an unexpected array {min(arrays)!r}")
    return model


def _check_shapes(model: Any) -> None:
    """Raise an error unless the arrays of a model that was read fit together."""
    (n, q), width = model.confidence_.shape, model.coef_.shape[1]
    shapes = {
        "classes_": (q,),
        "transduction_": (n,),
        "coef_": (q, width),
        "intercept_": (q,),
        "noise_": (n, q),
        "_fit_X": (n, model.n_features_in_),
        "_multiplicity": (n,),
        "feature_names_in_": (model.n_features_in_,),
    }
    for name, shape in shapes.items():
        check_shape(name, getattr(model, name, None), shape)
    for place, member in enumerate(model._members):
        d = model.n_features_in_
        if member.feature_map is not None:
            d, components = len(member.feature_map.normalization_), member.feature_map.components_
            check_shape(f"components_{place}", components, (d, model.n_features_in_))
            check_shape(f"normalization_{place}", member.feature_map.normalization_, (d, d))
        for name, shape in (("mean", (d,)), ("W", (d, q)), ("offset", (q,))):
            check_shape(f"{name}_{place}", getattr(member, name), shape)


def check_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raise an error unless an array, if there is one, has a certain shape."""
    if array is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape} instead of {shape}")


def as_text(name: str, labels: _Array) -> _Array:
    """Turn an object array of strings into one that needs no pickle."""
    if not all(isinstance(label, str) for label in labels):
        raise TypeError(
            f"{name} holds objects that are not strings, which only a pickle could store. Use "
            "strings or numbers as labels to save the model."
        )
    text: _Array = labels.astype(str)
    if text.tolist() != labels.tolist():
        raise TypeError(f"{name} holds strings that end with a null character: remove it.")
    return text

"""Say what is wrong with an array before compiled code sees it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import numpy as np

# Bits of ``ndarray.flags.num``: one look is faster than three.
_C_CONTIGUOUS, _OWNDATA, _ALIGNED, _WRITEABLE = 0x1, 0x4, 0x100, 0x400

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
_BYTES = (np.dtype(np.uint8), np.dtype(np.bool_))
_INDICES = (np.dtype(np.int64),)
_DOUBLES = (np.dtype(np.float64),)


class _Argument(NamedTuple):
    name: str
    sizes: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...] | None  # None: the common floating dtype
    written: bool


@cache
def _parse(specification: str) -> tuple[_Argument, ...]:
    arguments = []
    inputs, outputs = specification.split("->")
    for part, written in ((inputs, False), (outputs, True)):
        for name, sizes, kind in re.findall(r"(\w+)\[([\w,]+)\](?::(\w+))?", part):
            dtypes = {
                "": None,
                "candidates": _FLOATS + _BYTES,
                "index": _INDICES,
                "float64": _DOUBLES,
            }[kind]
            arguments.append(_Argument(name, tuple(sizes.split(",")), dtypes, written))
    return tuple(arguments)


def check_arrays(specification: str, *arrays: np.ndarray[Any, Any]) -> dict[str, int]:
    """Check the array arguments of a kernel and return the sizes they agree on.

    Parameters
    ----------
    specification : str
        For example ``"Z[n,q] Y[n,q]:candidates -> out[n,q]"``: names, sizes, what is written.
        Arrays are float32 or float64, the same for all of them; ``:candidates`` also takes bool
        and uint8, ``:index`` means int64, ``:float64`` float64 whatever the others are.
    *arrays : ndarray
        In the order of the specification.

    Returns
    -------
    dict
        The size behind each letter.

    Raises
    ------
    TypeError
        For something that is not an array, or an array of the wrong dtype.
    ValueError
        For a wrong shape, an array that is not C-contiguous, or an output that is read-only or
        shares memory with another argument.
    """
    arguments = _parse(specification)
    if len(arrays) != len(arguments):
        raise TypeError(f"{len(arguments)} arrays expected, got {len(arrays)}")
    sizes: dict[str, int] = {}
    common: np.dtype[Any] | None = None
    all_flags: list[int] = []
    for i, array in enumerate(arrays):
        name, letters, dtypes, written = arguments[i]
        if type(array) is not np.ndarray:
            raise TypeError(f"{name} must be a NumPy array, got {type(array).__name__}")
        dtype = array.dtype
        if dtypes is not None:
            if dtype not in dtypes:
                allowed = " or ".join(str(allowed) for allowed in dtypes)
                raise TypeError(f"{name} must be {allowed}, got {dtype}")
        elif common is None:
            if dtype not in _FLOATS:
                raise TypeError(f"{name} must be float32 or float64, got {dtype}")
            common = dtype
        elif dtype != common:
            raise TypeError(f"{name} must be {common} like {_first_float(arguments)}, got {dtype}")
        shape = array.shape
        if len(shape) != len(letters):
            raise ValueError(
                f"{name} must have {len(letters)} dimension(s) ({', '.join(letters)}), "
                f"got shape {shape}"
            )
        for axis, letter in enumerate(letters):
            if sizes.setdefault(letter, shape[axis]) != shape[axis]:
                raise ValueError(
                    f"{name} must have shape ({', '.join(letters)}) with "
                    f"{letter} = {sizes[letter]} as in the arguments before it, got {shape}"
                )
        flags = array.flags.num
        if not (flags & _C_CONTIGUOUS and flags & _ALIGNED):
            raise ValueError(f"{name} must be C-contiguous and aligned: pass {name}.copy()")
        if written:
            if not flags & _WRITEABLE:
                raise ValueError(f"{name} is written to, but it is read-only: pass a copy")
            for j in range(i):
                # Two arrays that own their memory are one array, or apart.
                apart = flags & all_flags[j] & _OWNDATA and array is not arrays[j]
                if not apart and np.may_share_memory(array, arrays[j]):
                    raise ValueError(
                        f"{name} is written to, but it shares memory with {arguments[j].name}: "
                        "pass an array of its own"
                    )
        all_flags.append(flags)
    return sizes


def check_number(
    name: str, value: float, *, positive: bool, dtype: np.dtype[Any] = _FLOATS[0]
) -> Any:
    """Return `value` in the dtype if it is finite there and positive, or not below zero.

    What is positive must also have a finite inverse.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    smallest, largest = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
    value = value.item() if isinstance(value, np.generic) else value
    if not (smallest <= value <= largest or (value == 0 and not positive)):
        kind = "positive" if positive else "non-negative"
        raise ValueError(
            f"{name} must be a {kind} finite number within the range of {dtype}, got {value}"
        )
    return dtype.type(value)


def candidate_bytes(Y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Look at bool as uint8, so that nothing is compiled once more for it."""
    return Y.view(np.uint8) if Y.dtype == np.bool_ else Y


def _first_float(arguments: tuple[_Argument, ...]) -> str:
    return next(argument.name for argument in arguments if argument.dtypes is None)

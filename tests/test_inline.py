from __future__ import annotations

import numba
import numpy as np
import pytest

from hera_fast.kernels._inline import (
    exponential,
    log_argument,
    near_or_zero,
    pair_loss,
    reach,
    two_artanh,
    zero_if_far,
)

COMPILED = not numba.config.DISABLE_JIT
N_POINTS = 40_001 if COMPILED else 4001

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def values(function, arguments):
    """Of every argument, in extended precision: one row for each number that is returned."""
    return np.array([function(argument) for argument in arguments], np.longdouble).T


def differences(dtype):
    """From 0 to just below the reach; densest near 0, down to the smallest of all."""
    info = np.finfo(dtype)
    last = np.nextafter(reach(dtype(0)), 0, dtype=dtype)
    small = np.array([0, info.smallest_subnormal, info.tiny, info.eps, 1e-3], dtype)
    return np.concatenate([small, last * np.linspace(0, 1, N_POINTS) ** 2, [last]]).astype(dtype)


def accuracy_at(d):
    """A few roundings, and what rounding d^2 means for exp(-d^2)."""
    few = 1.5e-14 if d.dtype == np.float64 else 3e-7
    return few + np.finfo(d.dtype).eps * d.astype(np.longdouble) ** 2


@both_dtypes
def test_exponential(dtype):
    d = differences(dtype)
    ref = np.exp(-(d.astype(np.longdouble) ** 2))
    numerators, denominators = values(exponential, d)
    errors = np.abs(numerators / denominators / ref - 1)
    assert (errors <= accuracy_at(d)).all()
    assert errors[d < 3].max() <= (3e-14 if dtype == np.float64 else 1.5e-6)


@both_dtypes
def test_exponential_of_zero_is_one(dtype):
    numerator, denominator = exponential(dtype(0))
    assert numerator == denominator


@both_dtypes
def test_exponential_does_not_know_the_sign(dtype):
    d = differences(dtype)[::10]
    np.testing.assert_array_equal(values(exponential, -d), values(exponential, d))


@both_dtypes
def test_two_artanh(dtype):
    info = np.finfo(dtype)
    y = np.concatenate([[info.tiny, 1e-20, info.eps], np.linspace(0, 1, N_POINTS)[1:] / 3])
    y = y.astype(dtype)
    ref = 2 * np.arctanh(y.astype(np.longdouble))
    errors = np.abs(values(two_artanh, y) / ref - 1)
    assert errors.max() <= (5e-15 if dtype == np.float64 else 3e-7)
    assert two_artanh(dtype(0)) == 0


@both_dtypes
def test_pair_loss(dtype):
    d = differences(dtype)
    ref = np.log1p(np.exp(-(d.astype(np.longdouble) ** 2)))
    errors = np.abs(values(pair_loss, d) / ref - 1)
    assert (errors <= accuracy_at(d)).all()
    assert errors[d < 3].max() <= (3e-14 if dtype == np.float64 else 1.5e-6)
    np.testing.assert_array_equal(values(pair_loss, -d[::10]), values(pair_loss, d[::10]))


@both_dtypes
def test_arguments_of_the_logarithm_stay_where_it_is_good(dtype):
    y = values(log_argument, differences(dtype))
    assert y.min() > 0
    assert y.max() <= 1 / np.longdouble(3) + np.finfo(dtype).eps


@both_dtypes
def test_beyond_the_reach_everything_is_zero(dtype):
    edge = reach(dtype(1))
    # Next to log(2), the loss of a near pair, this is nothing.
    assert np.exp(-(np.longdouble(edge) ** 2)) <= (1e-293 if dtype == np.float64 else 1e-35)
    for d in (edge, 2 * edge, np.finfo(dtype).max, np.inf):
        for signed in (dtype(d), dtype(-d)):
            assert pair_loss(signed) == 0
            assert log_argument(signed) == 0
            assert near_or_zero(signed) == 0
            assert zero_if_far(signed, dtype(0.25)) == 0
    for d in (0, 1e-30, 1, np.nextafter(dtype(edge), dtype(0))):
        for signed in (dtype(d), dtype(-d)):
            assert pair_loss(signed) > 0
            assert log_argument(signed) > 0
            assert near_or_zero(signed) == signed
            assert zero_if_far(signed, dtype(0.25)) == 0.25


@both_dtypes
def test_nan_stays_nan(dtype):
    nan = dtype(np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        assert np.isnan(pair_loss(nan))
        assert np.isnan(two_artanh(nan))
        assert np.isnan(near_or_zero(nan))
        # One of the two is enough, since they are used together.
        assert np.isnan(exponential(nan)).any()


def returned_types(function, *arguments):
    results = function(*arguments)
    if not COMPILED:
        return {type(result) for result in np.atleast_1d(results)}
    signature = numba.typeof(arguments)
    returned = function.overloads[tuple(signature.types)].signature.return_type
    kinds = returned.types if isinstance(returned, numba.types.BaseTuple) else [returned]
    return {np.dtype(str(kind)).type for kind in kinds}


@both_dtypes
def test_dtypes_are_kept(dtype):
    one = dtype(1)
    for function in (exponential, log_argument, near_or_zero, pair_loss, reach, two_artanh):
        assert returned_types(function, one) == {dtype}, function
    assert returned_types(zero_if_far, one, one) == {dtype}

"""Wrong arrays are refused before compiled code sees them, by name."""

from __future__ import annotations

import numpy as np
import pytest

from hera_fast.kernels._check import check_arrays, check_number

SPECIFICATION = "Z[n,q] Y[n,q]:candidates weights[n] order[n]:index -> out[n,q] loss[n]:float64"
POSITIONS = {"Z": 0, "Y": 1, "weights": 2, "order": 3, "out": 4, "loss": 5}


def good_arrays(dtype=np.float64):
    return [
        np.ones((3, 2), dtype),
        np.ones((3, 2), bool),
        np.ones(3, dtype),
        np.arange(3),
        np.empty((3, 2), dtype),
        np.empty(3),
    ]


def check_with(name, array, dtype=np.float64):
    arrays = good_arrays(dtype)
    arrays[POSITIONS[name]] = array
    return check_arrays(SPECIFICATION, *arrays)


def misaligned(array):
    memory = np.empty(array.nbytes + 1, np.uint8)
    copy = memory[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("candidates", [bool, np.uint8, np.float32, np.float64])
def test_good_arrays_give_their_sizes(dtype, candidates):
    sizes = check_with("Y", np.ones((3, 2), candidates), dtype)
    assert sizes == {"n": 3, "q": 2}


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0), (1, 1)])
def test_any_size_will_do(shape):
    sizes = check_arrays("Z[n,q] -> out[n,q]", np.ones(shape), np.ones(shape))
    assert sizes == {"n": shape[0], "q": shape[1]}


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize(
    "make",
    [
        lambda array: array.tolist(),
        lambda array: None,
        lambda array: np.ma.masked_array(array),
        lambda array: array.view(type("Subclass", (np.ndarray,), {})),
    ],
    ids=["list", "None", "masked", "subclass"],
)
def test_only_plain_arrays(name, make):
    array = make(good_arrays()[POSITIONS[name]])
    with pytest.raises(TypeError, match=f"^{name} must be a NumPy array, got"):
        check_with(name, array)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrix_is_refused():
    with pytest.raises(TypeError, match=r"^Z must be a NumPy array, got matrix"):
        check_with("Z", np.matrix(np.ones((3, 2))))


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("dtype", [np.int32, np.complex128, np.float16, object, ">f8", ">i8"])
def test_wrong_dtype(name, dtype):
    array = good_arrays()[POSITIONS[name]].astype(dtype)
    with pytest.raises(TypeError, match=f"^{name} must be .*, got "):
        check_with(name, array)


@pytest.mark.parametrize("name", ["weights", "out"])
def test_one_floating_dtype_for_all(name):
    array = good_arrays(np.float32)[POSITIONS[name]]
    with pytest.raises(TypeError, match=f"^{name} must be float64 like Z, got float32"):
        check_with(name, array)


def test_fixed_dtype_beside_single_precision():
    with pytest.raises(TypeError, match=r"^loss must be float64, got float32"):
        check_with("loss", np.empty(3, np.float32), np.float32)


@pytest.mark.parametrize("name", POSITIONS)
def test_wrong_number_of_dimensions(name):
    array = good_arrays()[POSITIONS[name]][np.newaxis]
    with pytest.raises(ValueError, match=rf"^{name} must have [12] dimension\(s\) \(n"):
        check_with(name, array)


@pytest.mark.parametrize("name", [name for name in POSITIONS if name != "Z"])
def test_wrong_size(name):
    array = np.concatenate([good_arrays()[POSITIONS[name]]] * 2)
    with pytest.raises(ValueError, match=rf"^{name} must have shape \(n.* with n = 3 .*got \(6"):
        check_with(name, array)


def test_wrong_second_size():
    with pytest.raises(ValueError, match=r"^out must have shape \(n, q\) with q = 2 .*\(3, 1\)"):
        check_with("out", np.empty((3, 1)))


def every_other(array):
    return np.repeat(array, 2, axis=0)[::2]


def backwards(array):
    return array[::-1]


@pytest.mark.parametrize(
    ("name", "make"),
    [(name, make) for name in POSITIONS for make in (every_other, backwards)]
    + [(name, np.asfortranarray) for name in ("Z", "Y", "out")],
)
def test_wrong_order(name, make):
    array = make(good_arrays()[POSITIONS[name]])
    with pytest.raises(ValueError, match=f"^{name} must be C-contiguous and aligned"):
        check_with(name, array)
    check_with(name, array.copy())


@pytest.mark.parametrize("name", [name for name in POSITIONS if name != "Y"])
def test_misaligned(name):
    array = misaligned(good_arrays()[POSITIONS[name]])
    assert array.flags.c_contiguous
    assert not array.flags.aligned
    with pytest.raises(ValueError, match=rf"^{name} must be .*aligned: pass {name}\.copy\(\)"):
        check_with(name, array)
    check_with(name, array.copy())


@pytest.mark.parametrize("name", ["out", "loss"])
def test_read_only_output(name):
    array = read_only(good_arrays()[POSITIONS[name]])
    with pytest.raises(ValueError, match=f"^{name} is written to, but it is read-only"):
        check_with(name, array)


def test_read_only_inputs_are_fine():
    inputs, outputs = good_arrays()[:4], good_arrays()[4:]
    check_arrays(SPECIFICATION, *map(read_only, inputs), *outputs)


def test_output_that_is_an_input():
    array = np.ones((3, 2))
    with pytest.raises(ValueError, match=r"^out is written to, but it shares memory with Z"):
        check_arrays("Z[n,q] P[n,q] -> out[n,q]", array, np.ones((3, 2)), array)


def test_output_that_overlaps_an_input():
    memory = np.ones(9)
    inputs, outputs = memory[:6].reshape(3, 2), memory[3:].reshape(3, 2)
    with pytest.raises(ValueError, match=r"^out is written to, but it shares memory with P"):
        check_arrays("Z[n,q] P[n,q] -> out[n,q]", np.ones((3, 2)), inputs, outputs)
    # The owner of the memory against a part of it.
    with pytest.raises(ValueError, match=r"^out is written to, but it shares memory with Z"):
        check_arrays("Z[m] -> out[n]", memory, memory[2:])
    with pytest.raises(ValueError, match=r"^out is written to, but it shares memory with Z"):
        check_arrays("Z[n] -> out[m]", memory[2:], memory)


def test_outputs_that_overlap():
    out = np.empty((3, 2))
    with pytest.raises(ValueError, match=r"^second is written to, but it shares .* with first"):
        check_arrays("Z[n,q] -> first[n,q] second[n,q]", np.ones((3, 2)), out, out)


def test_inputs_may_be_one_array():
    array = np.ones((3, 2))
    check_arrays("Z[n,q] P[n,q] -> out[n,q]", array, array, np.empty((3, 2)))


def test_neighbouring_parts_of_one_memory():
    memory = np.ones(12)
    check_arrays("Z[n,q] -> out[n,q]", memory[:6].reshape(3, 2), memory[6:].reshape(3, 2))


def test_wrong_number_of_arrays():
    with pytest.raises(TypeError, match=r"^2 arrays expected, got 1"):
        check_arrays("Z[n,q] -> out[n,q]", np.ones((3, 2)))


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int64(3)])
def test_good_numbers(value):
    number = check_number("step", value, positive=True)
    assert type(number) is np.float64
    assert number == value


def test_zero_unless_positive():
    assert check_number("step", 0, positive=False) == 0
    with pytest.raises(ValueError, match=r"^step must be a positive finite number .*, got 0"):
        check_number("step", 0, positive=True)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("positive", [True, False])
def test_bad_numbers(value, positive):
    with pytest.raises(ValueError, match=r"^step must be a (positive|non-negative) finite number"):
        check_number("step", value, positive=positive)


@pytest.mark.parametrize("value", [True, None, "1", 1j, np.ones(1)])
def test_not_numbers(value):
    with pytest.raises(TypeError, match=r"^step must be a number, got"):
        check_number("step", value, positive=True)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1e-40, "float32"), (1e39, "float32"), (1e-320, "float64"), (10**400, "float64")],
    ids=["small", "large", "subnormal", "integer"],
)
def test_a_number_must_fit_the_dtype(value, dtype):
    with pytest.raises(ValueError, match=rf"^step must be a positive finite number .* {dtype}"):
        check_number("step", value, positive=True, dtype=np.dtype(dtype))


def test_a_number_gets_the_dtype():
    assert check_number("step", 0.5, positive=True, dtype=np.dtype("float32")).dtype == "float32"

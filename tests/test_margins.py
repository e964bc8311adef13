from __future__ import annotations

import naive_margins as naive
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import candidate_matrices, dtypes, label_counts, row_counts, seeds

from hera_fast.kernels.margins import candidate_margins, mean_margin_gradient
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def margins(Z, Y, function=candidate_margins):
    n = len(Z)
    outputs = np.full(n, 99), np.full(n, 99), np.full(n, np.nan, Z.dtype)
    function(Z, Y, *outputs)
    return outputs


def gradients(Z, Y, function=mean_margin_gradient):
    """The losses and the derivatives."""
    loss, Z = np.full(len(Z), np.nan), Z.copy()
    function(Y, loss, Z)
    return loss, Z


@st.composite
def problems(draw):
    n, q, dtype = draw(row_counts), draw(label_counts), draw(dtypes)
    rng = np.random.default_rng(draw(seeds))
    Z = rng.normal(size=(n, q)) * draw(st.sampled_from([0, 0.1, 1, 1e3, 1e30]))
    if draw(st.booleans()):
        Z = np.round(Z)  # many ties
    Y = draw(candidate_matrices(n, q))
    Y[rng.random(n) < draw(st.sampled_from([0, 0.3]))] = False
    return Z.astype(dtype), Y.astype(draw(st.sampled_from([bool, np.uint8, dtype])))


@given(problems())
def test_agrees_with_the_twin(problem):
    found, ref = margins(*problem), margins(*problem, naive.candidate_margins)
    for first, second in zip(found, ref, strict=True):
        assert first.dtype == second.dtype
    np.testing.assert_array_equal(found[0], ref[0])
    np.testing.assert_array_equal(found[1], ref[1])
    np.testing.assert_allclose(found[2], ref[2], rtol=4 * np.finfo(found[2].dtype).eps)


@given(problems())
def test_the_gradient_agrees_with_the_twin(problem):
    found, ref = gradients(*problem), gradients(*problem, naive.mean_margin_gradient)
    assert found[1].dtype == ref[1].dtype
    accuracy = 100 * float(np.finfo(found[1].dtype).eps)
    largest = max(1, float(np.abs(problem[0]).max(initial=0)))
    np.testing.assert_allclose(found[0], ref[0], rtol=accuracy, atol=accuracy * largest**2)
    np.testing.assert_allclose(found[1], ref[1], rtol=accuracy, atol=accuracy * largest)


@given(problems())
def test_the_gradient_is_the_derivative_of_the_loss(problem):
    Z, Y = problem[0].astype(np.float64), problem[1]
    Z /= max(1, np.abs(Z).max(initial=0) / 10)
    _, gradient = gradients(Z, Y != 0)
    V = np.random.default_rng(0).normal(size=Z.shape)
    step = 1e-5
    above, below = gradients(Z + step * V, Y != 0)[0], gradients(Z - step * V, Y != 0)[0]
    slope = (above - below) / (2 * step)
    # The second derivatives jump where a hinge begins.
    np.testing.assert_allclose(slope, (gradient * V).sum(axis=1), rtol=1e-6, atol=1e-3)


@both_dtypes
def test_a_known_gradient(dtype):
    Z = np.array([[0, 1, -3, 2], [3, 0, -1, -1], [0, 0, 0, 0]], dtype)
    Y = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    loss, gradient = gradients(Z, Y)
    assert loss.tolist() == [9.25, 0, 4]
    assert gradient.tolist() == [[-0.5, -0.5, 0, 6], [0, 0, 0, 0], [2, 2, 2, 2]]


@both_dtypes
def test_a_known_case(dtype):
    Z = np.array([[0.5, 2, 1, 2], [3, 0, 3, 0], [0, 0, 0, 0]], dtype)
    Y = np.array([[1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 1, 1]], bool)
    best, rival, loss = margins(Z, Y)
    assert best.tolist() == [2, 0, 2]
    assert rival.tolist() == [1, 1, 0]
    assert loss.tolist() == [2, 0, 1]


@both_dtypes
def test_rows_that_say_nothing_have_no_loss(dtype):
    Z = np.array([[1, 2, 3], [1, 2, 3]], dtype)
    best, rival, loss = margins(Z, np.array([[1, 1, 1], [0, 0, 0]], bool))
    assert best.tolist() == [2, -1]
    assert rival.tolist() == [-1, 2]
    assert loss.tolist() == [0, 0]


@both_dtypes
def test_one_label(dtype):
    best, rival, loss = margins(np.array([[-4], [2]], dtype), np.ones((2, 1), bool))
    assert (best.tolist(), rival.tolist(), loss.tolist()) == ([0, 0], [-1, -1], [0, 0])


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@both_dtypes
def test_the_number_of_threads_changes_no_bit(dtype):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20 if numba.config.DISABLE_JIT else 5000, 99)).astype(dtype)
    Y = rng.random(Z.shape) < 0.1
    with threads(1):
        one = margins(Z, Y) + gradients(Z, Y)
    with threads(2):
        two = margins(Z, Y) + gradients(Z, Y)
    for first, second in zip(one, two, strict=True):
        assert first.tobytes() == second.tobytes()


def test_bad_arguments_are_named():
    arguments = {
        **{"Z": np.zeros((3, 4)), "Y": np.ones((3, 4), bool)},
        **{"best": np.zeros(3, int), "rival": np.zeros(3, int), "loss": np.zeros(3)},
    }
    candidate_margins(**arguments)
    for name, value, error, message in [
        ("Z", np.zeros((3, 4), int), TypeError, "Z must be float32 or float64"),
        ("Y", np.zeros((3, 4), np.int64), TypeError, "Y must be"),
        ("Y", np.zeros((3, 5), bool), ValueError, "Y must have shape"),
        ("best", np.zeros(3, np.int32), TypeError, "best must be int64"),
        ("rival", arguments["best"], ValueError, "rival is written to, but it shares memory"),
        ("loss", np.zeros(3, np.float32), TypeError, "loss must be float64 like Z"),
        ("loss", np.zeros(4), ValueError, "loss must have shape"),
    ]:
        with pytest.raises(error, match="^" + message):
            candidate_margins(**{**arguments, name: value})


def test_bad_arguments_of_the_gradient_are_named():
    Y, loss, Z = np.ones((3, 4), bool), np.zeros(3), np.zeros((3, 4))
    for arguments, error, message in [
        ((Y.astype(int), loss, Z), TypeError, "Y must be"),
        ((Y, loss.astype(np.float32), Z), TypeError, "loss must be float64"),
        ((Y, np.zeros(4), Z), ValueError, "loss must have shape"),
        ((Y, loss, Z.astype(int)), TypeError, "Z must be float32 or float64"),
        ((Y, loss, np.zeros((3, 5))), ValueError, "Z must have shape"),
        ((Y, Z[:, 0].copy(), np.asfortranarray(Z)), ValueError, "Z must be C-contiguous"),
        ((Z, loss, Z), ValueError, "Z is written to, but it shares memory with Y"),
    ]:
        with pytest.raises(error, match="^" + message):
            mean_margin_gradient(*arguments)

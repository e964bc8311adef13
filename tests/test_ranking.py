from __future__ import annotations

import inspect

import naive_ranking as naive
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import dtypes, seeds

from hera_fast.kernels import _launch, ranking
from hera_fast.threads import threads

COMPILED = not numba.config.DISABLE_JIT

functions = pytest.mark.parametrize("name", ranking.__all__)
both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])

# From this difference on exp(-d^2), below 1e-35 and 1e-293, may count as zero.
REACH = {np.dtype(np.float32): 9, np.dtype(np.float64): 26}
# Uncompiled code cannot round d^2 and n log 2 as one, and not every machine has long doubles that
# are longer: both add to the largest errors.
EXACT = COMPILED and np.finfo(np.longdouble).eps < 1e-18
PROMISED = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13 if EXACT else 2e-13}
BASE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 3e-14}

label_counts = (
    st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 99, 171, 219]))
    if COMPILED
    else st.integers(1, 20)
)


examples = settings(max_examples=100 if COMPILED else 40)


# Confidences of a row.


def no_confidence(rng, q, dtype):
    return np.zeros(q)


def one_hot(rng, q, dtype):
    return (np.arange(q) == rng.integers(q)).astype(float)


def on_support(rng, q, size):
    p = np.zeros(q)
    p[rng.permutation(q)[:size]] = rng.dirichlet(np.ones(size)) if size else 0
    return p


def few(rng, q, dtype):
    return on_support(rng, q, min(q, rng.integers(2, 5)))


def about_half(rng, q, dtype):
    # Here one way of summing takes over from another.
    return on_support(rng, q, q // 2 + rng.integers(2))


def nearly_dense(rng, q, dtype):
    return on_support(rng, q, q - 1)


def dense(rng, q, dtype):
    return rng.random(q)


def constant(rng, q, dtype):
    return np.full(q, 0.3)


def nearly_constant(rng, q, dtype):
    return 1 + np.sqrt(np.finfo(dtype).eps) * rng.normal(size=q)


def any_sign(rng, q, dtype):
    return rng.normal(size=q) * (rng.random(q) < rng.choice([0.2, 0.5, 0.9]))


def signed_zeros(rng, q, dtype):
    return np.copysign(few(rng, q, dtype), rng.choice([-1, 1], q))


def tiny(rng, q, dtype):
    # The squares vanish.
    return few(rng, q, dtype) * (1e-30 if dtype == np.float32 else 1e-200)


def subnormal(rng, q, dtype):
    return any_sign(rng, q, dtype) * (1e-41 if dtype == np.float32 else 1e-310)


def of_any_size(rng, q, dtype):
    return any_sign(rng, q, dtype) * 10.0 ** -rng.uniform(0, 60 if dtype == np.float32 else 400, q)


confidence_kinds = [
    no_confidence,
    one_hot,
    few,
    about_half,
    nearly_dense,
    dense,
    constant,
    nearly_constant,
    any_sign,
    signed_zeros,
    tiny,
    subnormal,
    of_any_size,
]


# Scores of a row.


def scaled(scale):
    def normal(rng, q, dtype):
        return scale * rng.normal(size=q)

    normal.__name__ = f"normal_{scale:g}"
    return normal


def equal(rng, q, dtype):
    return np.full(q, rng.normal())


def ties(rng, q, dtype):
    return rng.normal(size=q).round()


def largest(dtype):
    return 1e30 if dtype == np.float32 else 1e150


def huge(rng, q, dtype):
    return largest(dtype) * rng.normal(size=q)


def mixed(rng, q, dtype):
    return rng.normal(size=q) * 10.0 ** rng.uniform(-8, np.log10(largest(dtype)), q).round()


def some_far(rng, q, dtype):
    return rng.normal(size=q) + rng.choice([0, 0, 1e3, -largest(dtype)], q)


def around_reach(rng, q, dtype):
    # Next to the reach, and next to half of it, by a few units in the last place.
    places = REACH[np.dtype(dtype)] * rng.choice([0, 0.5, 1], q) * rng.choice([-1, 1], q)
    return places * (1 + np.finfo(dtype).eps * rng.integers(-3, 4, q))


def just_within_reach(rng, q, dtype):
    z = REACH[np.dtype(dtype)] / 2 * (1 - rng.random(q) ** 4) * rng.choice([-1, 1], q)
    z[0] = 0
    return z


score_kinds = [
    *map(scaled, [1e-8, 1, 10, 1e3]),
    equal,
    ties,
    huge,
    mixed,
    some_far,
    around_reach,
    just_within_reach,
]


@st.composite
def problems(draw, scores=score_kinds, confidences=confidence_kinds, dtypes=dtypes):
    """Scores and confidences, every row of its own kind."""
    q, dtype = draw(label_counts), draw(dtypes)
    kinds = st.tuples(st.sampled_from(scores), st.sampled_from(confidences))
    rows = draw(st.lists(kinds, max_size=5 if q < 64 else 2))
    rng = np.random.default_rng(draw(seeds))
    Z, P = np.empty((2, len(rows), q), dtype)
    for z, p, (score_kind, confidence_kind) in zip(Z, P, rows, strict=True):
        z[:] = score_kind(rng, q, dtype)
        p[:] = confidence_kind(rng, q, dtype)
    return Z, P


ordinary_scores = [*map(scaled, [1e-3, 1, 3]), ties]
ordinary_problems = problems(
    ordinary_scores,
    [no_confidence, one_hot, few, about_half, nearly_dense, dense, any_sign, signed_zeros],
)


def outputs_of(name, shape, dtype):
    """Arrays to write to, by the names of the arguments."""
    arguments = list(inspect.signature(getattr(ranking, name)).parameters)[2:]
    return {
        argument: np.full(shape[:1] if argument == "row_loss" else shape, np.nan, dtype)
        for argument in arguments
    }


def run(name, Z, P, module=ranking, dtype=None):
    """Outputs of the function, in the order of its arguments."""
    outputs = outputs_of(name, Z.shape, dtype or Z.dtype)
    assert getattr(module, name)(Z, P, **outputs) is None
    return list(outputs.values())


def separate(Z, P, module=ranking, dtype=None):
    """Loss and both gradients, from a function each."""
    names = ["ranking_loss", "ranking_score_gradient", "ranking_confidence_gradient"]
    return [run(name, Z, P, module, dtype)[0] for name in names]


def fused(Z, P):
    return run("ranking_gradients", Z, P)


def bits(arrays):
    return [array.tobytes() for array in arrays]


def silent():
    """Do as compiled code does: no word about overflow and NaN."""
    return np.errstate(over="ignore", invalid="ignore")


def smallest(Z):
    """What may get lost below the smallest number."""
    return 64 * Z.shape[1] * np.longdouble(np.finfo(Z.dtype).smallest_subnormal)


def error_bounds(Z, P):
    """For loss and gradients: the errors of their terms, and what is lost altogether.

    Terms are exact but for a few roundings while |d| < 1; farther out, rounding d^2 changes
    exp(-d^2) by a fraction of d^2 eps. What is out of reach is lost, and what lies below the
    smallest number.
    """
    n, q = Z.shape
    eps = np.finfo(Z.dtype).eps
    bounds = []
    for terms, axis, shape in [
        (naive.loss_terms, (0, 1), (n,)),
        (naive.score_terms, 1, (n, q)),
        (naive.confidence_terms, 1, (n, q)),
    ]:
        errors = np.zeros(shape, np.longdouble)
        lost = np.full(shape, smallest(Z))
        for i, (z, p) in enumerate(zip(Z, P, strict=True)):
            sizes, d = np.abs(terms(z, p)), naive.score_differences(z)
            accuracy = np.minimum(BASE[Z.dtype] + eps * d**2, PROMISED[Z.dtype])
            far = np.abs(d) >= REACH[Z.dtype]
            errors[i] = (sizes * accuracy * ~far).sum(axis=axis)
            lost[i] += (sizes * far).sum(axis=axis)
        bounds.append((errors, lost))
    return bounds


@given(problems())
@settings(max_examples=200)
def test_agrees_with_the_twins(problem):
    Z, P = problem
    refs = separate(Z, P, naive, np.longdouble)
    bounds = error_bounds(Z, P)
    norm = np.linalg.norm
    for results in (separate(Z, P), fused(Z, P)):
        for comp, ref, (errors, lost) in zip(results, refs, bounds, strict=True):
            assert comp.dtype == Z.dtype
            assert np.isfinite(comp).all()
            wrong = np.abs(comp - ref)
            assert (wrong <= errors + lost).all()
            assert norm(wrong) <= PROMISED[Z.dtype] * norm(ref) + norm(lost)


slope_problems = problems(
    ordinary_scores, [no_confidence, few, about_half, any_sign, dense], st.just(np.float64)
)


def losses(Z, P):
    return run("ranking_loss", Z, P)[0]


@given(slope_problems)
@settings(max_examples=30)
def test_the_score_gradient_is_the_slope_of_the_loss(problem):
    Z, P = problem
    q = Z.shape[1]
    slopes, weights = np.empty_like(Z), np.empty_like(Z)
    # Five points leave an error of h^4, as small here as that of the loss divided by h.
    h = 2.0**-9
    for j in range(q):
        step = h * (np.arange(q) == j)
        near, far = (losses(Z + m * step, P) - losses(Z - m * step, P) for m in (1, 2))
        slopes[:, j] = (8 * near - far) / (12 * h)
        weights[:, j] = 4 / q**2 * ((P - P[:, [j]]) ** 2).sum(axis=1)
    (gradient,) = run("ranking_score_gradient", Z, P)
    assert (np.abs(gradient - slopes) <= 1e-10 * weights).all()


@given(slope_problems)
@settings(max_examples=30)
def test_the_confidence_gradient_is_the_slope_of_the_loss(problem):
    Z, P = problem
    q = Z.shape[1]
    slopes, sizes = np.empty_like(Z), np.empty_like(Z)
    for j in range(q):
        # The loss is quadratic: even a large step is exact.
        step = 1.0 * (np.arange(q) == j)
        above, below = losses(Z, P + step), losses(Z, P - step)
        slopes[:, j] = (above - below) / 2
        sizes[:, j] = above + below
    (gradient,) = run("ranking_confidence_gradient", Z, P)
    assert (np.abs(gradient - slopes) <= 1e-13 * sizes).all()


def term_sizes(Z, P):
    """Sums of the absolute terms of loss and gradients."""
    sizes = [np.empty(shape, np.longdouble) for shape in (len(Z), Z.shape, Z.shape)]
    for i, (z, p) in enumerate(zip(Z, P, strict=True)):
        sizes[0][i] = np.abs(naive.loss_terms(z, p)).sum()
        sizes[1][i] = np.abs(naive.score_terms(z, p)).sum(axis=1)
        sizes[2][i] = np.abs(naive.confidence_terms(z, p)).sum(axis=1)
    return sizes


def assert_close(results, refs, sizes, n_roundings, Z):
    eps = np.finfo(Z.dtype).eps
    for comp, ref, size in zip(results, refs, sizes, strict=True):
        assert (np.abs(comp - ref) <= n_roundings * eps * size + smallest(Z)).all()


@given(problems())
@examples
def test_one_pass_gives_what_three_give(problem):
    Z, P = problem
    assert_close(fused(Z, P), separate(Z, P), term_sizes(Z, P), 16, Z)


@given(problems())
@examples
def test_no_force_moves_all_scores_together(problem):
    Z, P = problem
    (gradient,) = run("ranking_score_gradient", Z, P)
    sums = gradient.sum(axis=1, dtype=np.longdouble)
    _, sizes, _ = term_sizes(Z, P)
    q, eps = Z.shape[1], np.finfo(Z.dtype).eps
    assert (np.abs(sums) <= q * eps * sizes.sum(axis=1) + q * smallest(Z)).all()


@given(problems())
@examples
def test_the_loss_is_half_the_product_of_confidences_and_gradient(problem):
    Z, P = problem
    loss, _, gradient = separate(Z, P)
    products = (P * gradient.astype(np.longdouble)).sum(axis=1) / 2
    _, _, sizes = term_sizes(Z, P)
    size = (np.abs(P) * sizes).sum(axis=1)
    assert (np.abs(loss - products) <= PROMISED[Z.dtype] * size + smallest(Z)).all()


@given(problems())
@examples
def test_the_loss_is_not_negative(problem):
    for results in (separate(*problem), fused(*problem)):
        assert (results[0] >= 0).all()


@given(ordinary_problems, st.integers(-1000, 1000))
@examples
def test_only_differences_of_scores_count(problem, shift):
    Z, P = problem
    # All differences are exact.
    Z = (Z * 64).round() / 64
    for kernels in (separate, fused):
        shifted = kernels(Z + Z.dtype.type(shift), P)
        assert_close(shifted, kernels(Z, P), term_sizes(Z, P), 16, Z)


@given(ordinary_problems, st.sampled_from([-1, 2, -0.5, 1024]))
@examples
def test_the_loss_is_quadratic_in_the_confidences(problem, factor):
    Z, P = problem
    factor = Z.dtype.type(factor)
    # All zeros are positive.
    P, scaled_P = P + 0, factor * P + 0
    for kernels in (separate, fused):
        loss, score_gradient, confidence_gradient = kernels(Z, P)
        expected = [factor**2 * loss, factor**2 * score_gradient, factor * confidence_gradient]
        for comp, ref in zip(kernels(Z, scaled_P), expected, strict=True):
            # Powers of two change no bit, but for what is subnormal.
            np.testing.assert_allclose(comp, ref, rtol=0, atol=factor**2 * smallest(Z))


@given(problems())
@examples
def test_the_order_of_the_scores_may_be_reversed(problem):
    Z, P = problem
    for kernels in (separate, fused):
        loss, score_gradient, confidence_gradient = kernels(Z, P)
        expected = [loss, -score_gradient, confidence_gradient]
        for comp, ref in zip(kernels(-Z, P), expected, strict=True):
            np.testing.assert_array_equal(comp, ref)


@given(problems(), seeds)
@examples
def test_labels_have_no_order(problem, seed):
    Z, P = problem
    q = Z.shape[1]
    order = np.random.default_rng(seed).permutation(q)
    sizes = term_sizes(Z, P)
    for kernels in (separate, fused):
        loss, *gradients = kernels(Z[:, order].copy(), P[:, order].copy())
        restored = [loss, *(gradient[:, order.argsort()] for gradient in gradients)]
        assert_close(restored, kernels(Z, P), sizes, 16 + q / 4, Z)


def zeros(arrays):
    return all(not array.any() for array in arrays)


@given(problems(confidences=[no_confidence, constant]))
@examples
def test_equal_confidences_cost_nothing(problem):
    assert zeros(separate(*problem))
    assert zeros(fused(*problem))


@both_dtypes
def test_one_label_costs_nothing(dtype):
    Z, P = np.array([[[0], [3], [-1e30]], [[0.5], [-2], [1e-40]]], dtype)
    assert zeros(separate(Z, P))
    assert zeros(fused(Z, P))


supports = pytest.mark.parametrize("size", [1, 3, 5, 6, 11, 12])


@both_dtypes
@supports
def test_out_of_reach_nothing_is_left(dtype, size):
    P = on_support(np.random.default_rng(0), 12, size).astype(dtype)[None]
    for spacing in (REACH[P.dtype], 1e3, largest(dtype)):
        Z = (spacing * np.random.default_rng(1).permutation(12)).astype(dtype)[None]
        assert zeros(separate(Z, P))
        assert zeros(fused(Z, P))


@both_dtypes
@supports
def test_differences_may_overflow(dtype, size):
    P = on_support(np.random.default_rng(0), 12, size).astype(dtype)[None]
    # Labels of different sign are infinitely apart, labels of one sign are equal.
    Z = np.finfo(dtype).max * np.where(np.arange(12) % 2, 1, -1).astype(dtype)[None]
    with silent():
        results = [separate(Z, P), fused(Z, P)]
    refs = separate((Z > 0) * dtype(1e3), P, naive)
    for result in results:
        for comp, ref in zip(result, refs, strict=True):
            np.testing.assert_allclose(comp, ref, rtol=10 * BASE[Z.dtype], atol=1e-40)


@both_dtypes
@supports
def test_equal_scores(dtype, size):
    P = on_support(np.random.default_rng(0), 12, size).astype(dtype)[None]
    Z = np.full_like(P, largest(dtype))
    pairs = np.subtract.outer(P[0], P[0])
    loss = np.log(2) / 144 * (pairs**2).sum()
    confidence_gradient = np.log(2) / 36 * pairs.sum(axis=1)
    for comp in (separate(Z, P), fused(Z, P)):
        np.testing.assert_allclose(comp[0], [loss], rtol=10 * BASE[Z.dtype])
        assert zeros(comp[1:2])
        np.testing.assert_allclose(comp[2], [confidence_gradient], rtol=10 * BASE[Z.dtype])


def test_a_pair_by_hand():
    Z, P = np.array([[0.5, -0.5]]), np.array([[0.75, 0.25]])
    loss = 2 / 4 * 0.25 * np.log1p(np.exp(-1))
    score = 4 / 4 * 0.25 / (1 + np.e)
    confidence = 4 / 4 * 0.5 * np.log1p(np.exp(-1))
    for comp in (separate(Z, P), fused(Z, P)):
        np.testing.assert_allclose(comp[0], [loss], rtol=1e-13)
        np.testing.assert_allclose(comp[1], [[-score, score]], rtol=1e-13)
        np.testing.assert_allclose(comp[2], [[confidence, -confidence]], rtol=1e-13)


def test_a_negative_zero_is_no_confidence():
    Z = np.random.default_rng(0).normal(size=(1, 12))
    P = np.where(np.arange(12) == 4, 1.0, 0.0)[None]
    signed = np.where(np.arange(12) % 3 == 0, -0.0, P)
    for kernels in (separate, fused):
        assert_close(kernels(Z, signed), kernels(Z, P), term_sizes(Z, P), 16, Z)


@both_dtypes
@pytest.mark.parametrize("n_more", [0, 1, 20])
@pytest.mark.parametrize("others", [[], [0], [5], [5, 0], [-1e5, 7, 0]])
@pytest.mark.parametrize("first", [True, False])
def test_a_small_loss_is_not_lost_among_large_confidences(dtype, n_more, others, first):
    # Out of reach of the two nearly equal ones, other confidences must not matter.
    near = [1, 1 + 100 * np.finfo(dtype).eps]
    p = (others + near if first else near + others) + n_more * [0]
    P = np.array([p], dtype)
    Z = 1e3 * np.arange(P.size, dtype=dtype)[None]
    a = len(others) if first else 0
    Z[0, a + 1] = Z[0, a] + 0.5
    (ref,) = run("ranking_loss", Z, P, naive)
    for loss in (run("ranking_loss", Z, P)[0], fused(Z, P)[0]):
        np.testing.assert_allclose(loss, ref, rtol=PROMISED[Z.dtype])


@functions
@both_dtypes
@pytest.mark.parametrize("size", [1, 10])
def test_nan_shows_where_it_has_a_part(name, dtype, size):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(5, 12)).astype(dtype)
    P = np.stack([on_support(rng, 12, size) for _ in range(5)]).astype(dtype)
    P[4] = 0
    clean = run(name, Z, P)
    Z[1, 7] = P[3, 7] = Z[4, 7] = np.nan
    with silent():
        results = run(name, Z, P)
    for comp, ref in zip(results, clean, strict=True):
        assert np.isnan(comp[[1, 3]]).reshape(2, -1).any(axis=1).all()
        # Neither other rows nor a row without confidence take notice.
        assert bits([comp[[0, 2, 4]]]) == bits([ref[[0, 2, 4]]])
        if comp.ndim == 2:
            assert np.isnan(comp[1, 7])
            assert np.isnan(comp[3]).all()


@functions
@both_dtypes
@pytest.mark.parametrize("shape", [(0, 1), (0, 7), (1, 1), (1, 7)])
def test_few_rows(name, dtype, shape):
    rng = np.random.default_rng(0)
    Z, P = rng.normal(size=(2, *shape)).astype(dtype)
    for comp, ref in zip(run(name, Z, P), run(name, Z, P, naive), strict=True):
        assert comp.dtype == dtype
        np.testing.assert_allclose(comp, ref, rtol=10 * BASE[Z.dtype], atol=BASE[Z.dtype])


def every_kind(n, q, sizes, dtype):
    """Rows that differ in the scale of their scores and in the sizes of their supports."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, q)) * 10.0 ** rng.integers(-1, 3, (n, 1))
    P = rng.random((n, q))
    P[np.arange(q) >= rng.choice(sizes, (n, 1))] = 0
    return Z.astype(dtype), rng.permuted(P, axis=1).astype(dtype)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs NUMBA_NUM_THREADS >= 2")
@functions
@both_dtypes
def test_the_number_of_threads_changes_no_bit(name, dtype, monkeypatch):
    n_ranges = []

    def counted(work, ranges, n_threads, run_ranges=_launch.run_ranges):
        n_ranges.append(len(ranges))
        run_ranges(work, ranges, n_threads)

    monkeypatch.setattr(_launch, "run_ranges", counted)
    # Enough work to be spread over threads.
    Z, P = (
        every_kind(600, 219, [0, 1, 3, 219], dtype)
        if COMPILED
        else every_kind(150, 120, [0, 0, 0, 1], dtype)
    )
    with threads(1):
        one = run(name, Z, P)
    assert not n_ranges
    with threads(2):
        two = run(name, Z, P)
    assert n_ranges
    assert n_ranges[0] > 1
    assert bits(one) == bits(two)


@functions
@both_dtypes
def test_a_row_knows_nothing_of_the_others(name, dtype):
    q = 219 if COMPILED else 20
    Z, P = every_kind(40, q, [0, 1, 3, q], dtype)
    together = run(name, Z, P)
    for i in range(len(Z)):
        alone = run(name, Z[i : i + 1].copy(), P[i : i + 1].copy())
        assert bits(alone) == bits([result[i : i + 1] for result in together])
    Z[1::2], P[1::2] = Z[1::2].max(), 7
    changed = run(name, Z, P)
    assert bits([result[::2] for result in changed]) == bits([result[::2] for result in together])


@functions
def test_inputs_are_left_alone(name):
    Z, P = every_kind(8, 9, [0, 1, 3, 9], np.float64)
    Z_before, P_before = Z.copy(), P.copy()
    run(name, Z, P)
    assert bits([Z, P]) == bits([Z_before, P_before])


def test_inputs_may_be_read_only():
    Z, P = every_kind(8, 9, [0, 1, 3, 9], np.float64)
    ref = losses(Z, P)
    Z.flags.writeable = P.flags.writeable = False
    assert bits([losses(Z, P)]) == bits([ref])


def strided(array):
    return np.repeat(array, 2, axis=-1)[..., ::2]


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def arguments_of(name):
    arguments = {"Z": np.ones((3, 4)), "P": np.ones((3, 4))}
    for argument, array in outputs_of(name, (3, 4), np.float64).items():
        arguments[argument] = np.ones_like(array)
    return arguments


all_arguments = [(name, argument) for name in ranking.__all__ for argument in arguments_of(name)]
every_argument = pytest.mark.parametrize(("name", "argument"), all_arguments)
every_output = pytest.mark.parametrize(
    ("name", "argument"), [pair for pair in all_arguments if pair[1] not in {"Z", "P"}]
)


@every_argument
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (np.ndarray.tolist, TypeError, "must be a NumPy array, got list"),
        (lambda array: None, TypeError, "must be a NumPy array, got NoneType"),
        (lambda array: array.astype(np.int64), TypeError, "must be float"),
        (lambda array: array.astype(np.float16), TypeError, "must be float"),
        (lambda array: array.astype(np.longdouble), TypeError, "must be float"),
        (lambda array: array.astype(complex), TypeError, "must be float"),
        (lambda array: array.astype(">f8"), TypeError, "must be float"),
        (lambda array: array[0], (TypeError, ValueError), "must "),
        (lambda array: array[None], ValueError, "must have . dimension"),
        (strided, ValueError, "must be C-contiguous"),
    ],
)
def test_bad_arrays_are_named(name, argument, change, error, message):
    arguments = arguments_of(name)
    arguments[argument] = change(arguments[argument])
    with pytest.raises(error, match=rf"^{argument} {message}"):
        getattr(ranking, name)(**arguments)


@every_argument
def test_wrong_shapes_orders_and_mixed_dtypes_are_named(name, argument):
    function, arguments = getattr(ranking, name), arguments_of(name)
    array = arguments[argument]
    if argument != "row_loss":
        with pytest.raises(ValueError, match=rf"^{argument} must be C-contiguous"):
            function(**{**arguments, argument: np.asfortranarray(array)})
    if argument == "Z":
        return
    with pytest.raises(TypeError, match=rf"^{argument} must be float64 like Z, got float32"):
        function(**{**arguments, argument: array.astype(np.float32)})
    for wrong in [array[:2], np.concatenate([array, array])]:
        with pytest.raises(ValueError, match=rf"^{argument} must have shape"):
            function(**{**arguments, argument: wrong})
    if argument != "row_loss":
        with pytest.raises(ValueError, match=rf"^{argument} must have shape"):
            function(**{**arguments, argument: np.ones((3, 5))})


@every_output
def test_outputs_must_be_writable_memory_of_their_own(name, argument):
    function, arguments = getattr(ranking, name), arguments_of(name)
    with pytest.raises(ValueError, match=rf"^{argument} is written to, but it is read-only"):
        function(**{**arguments, argument: read_only(arguments[argument])})
    for other, array in arguments.items():
        if other in {argument, "row_loss"}:
            continue
        shared = array[1, :3] if argument == "row_loss" else array
        with pytest.raises(ValueError, match=r"^\w+ is written to, but it shares memory with \w+"):
            function(**{**arguments, argument: shared})


@pytest.mark.parametrize("name", ranking.__all__)
def test_there_must_be_a_label(name):
    n, q = 3, 0
    shapes = {"row_loss": (n,)}
    arguments = inspect.signature(getattr(ranking, name)).parameters
    arrays = [np.empty(shapes.get(argument, (n, q))) for argument in arguments]
    with pytest.raises(ValueError, match=r"^Z must have at least one column, got shape \(3, 0\)"):
        getattr(ranking, name)(*arrays)

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import dtypes, seeds

from hera_fast import kernel_maps as module
from hera_fast.kernel_maps import KERNELS, fit_kernel_map, map_rows, median_gamma
from hera_fast.threads import threads

both_dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


every_kernel = pytest.mark.parametrize("name", KERNELS)


def naive_gamma(X, weights=None, name="rbf"):
    weights = np.ones(len(X)) if weights is None else weights
    pairs = []
    for i in range(len(X)):
        for j in range(i):
            difference = X[i].astype(np.float64) - X[j]
            distance = (difference**2 if name == "rbf" else np.abs(difference)).sum()
            if distance > 0:
                pairs.append((distance, weights[i] * weights[j]))
    total = sum(weight for _, weight in pairs)
    reached = 0
    for distance, weight in sorted(pairs):
        reached += weight
        if weight and reached >= total / 2:
            return 1 / distance
    return 1.0


def kernel(X, gamma, name="rbf"):
    X = X.astype(np.float64)
    if name == "linear":
        return X @ X.T
    differences = X[:, np.newaxis] - X
    differences = differences**2 if name == "rbf" else np.abs(differences)
    return np.exp(-gamma * differences.sum(axis=2))


def products(feature_map, X):
    features = map_rows(feature_map, X).astype(np.float64)
    return features @ features.T


distances = st.sampled_from(["rbf", "laplacian"])


@st.composite
def rows_and_weights(draw):
    """Rows of integers, with many equal ones and many equal distances, or of other numbers."""
    rng = np.random.default_rng(draw(seeds))
    X = rng.normal(size=(draw(st.integers(1, 12)), draw(st.integers(1, 4))))
    if draw(st.booleans()):
        X = np.round(X)
    weights = rng.integers(0, 4, len(X))
    weights[rng.integers(len(X))] += 1
    return X.astype(draw(dtypes)), weights


@given(problem=rows_and_weights(), weighted=st.booleans(), name=distances)
def test_gamma_is_that_of_all_pairs(problem, weighted, name):
    X, weights = problem
    weights = weights if weighted else None
    comp = median_gamma(X, 0, weights, kernel=name)
    np.testing.assert_allclose(comp, naive_gamma(X, weights, name), rtol=1e-9)


@given(problem=rows_and_weights(), name=distances)
def test_gamma_of_sparse_rows(problem, name):
    X, weights = problem
    comp = median_gamma(sparse.csr_array(X), 0, weights, name)
    np.testing.assert_allclose(comp, median_gamma(X, 0, weights, name), rtol=1e-9)


@given(
    problem=rows_and_weights(),
    n_components=st.integers(1, 12),
    seed=st.integers(0, 5),
    name=st.sampled_from(KERNELS),
)
def test_repetition_is_weight(problem, n_components, seed, name):
    X, weights = problem
    repeated = np.repeat(X, weights, axis=0)
    assert median_gamma(X, seed, weights) == median_gamma(repeated, seed)
    options = {"kernel": name, "n_components": n_components, "random_state": seed}
    weighted = fit_kernel_map(X, sample_weight=weights, **options)
    plain = fit_kernel_map(repeated, **options)
    assert weighted.gamma == plain.gamma
    np.testing.assert_array_equal(weighted.transform(X), plain.transform(X))


def test_gamma_of_a_sample_depends_on_content_only(monkeypatch):
    monkeypatch.setattr(module, "_SAMPLE", 20)
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(50, 3)), rng.integers(0, 4, 50)
    comp = median_gamma(X, 3, weights)
    assert comp == median_gamma(X, 3, weights)
    assert comp == median_gamma(np.repeat(X, weights, axis=0), 3)
    assert comp != median_gamma(X, 4, weights)
    assert comp == pytest.approx(naive_gamma(X, weights), rel=0.5)


def test_gamma_far_from_the_origin():
    X = np.random.default_rng(1).integers(0, 50, (30, 2)).astype(float)
    assert median_gamma(X + 1e9, 0) == pytest.approx(naive_gamma(X), rel=1e-6)


def test_equal_rows_have_gamma_one():
    assert median_gamma(np.full((5, 3), 0.1), 0) == 1.0
    assert median_gamma(np.array([[0.0], [3.0]]), 0, np.array([1, 0])) == 1.0


@both_dtypes
@every_kernel
def test_all_rows_give_the_kernel_itself(name, dtype):
    X = np.random.default_rng(2).normal(size=(40, 6)).astype(dtype)
    feature_map = fit_kernel_map(X, kernel=name, gamma=0.1, n_components=40, random_state=0)
    assert map_rows(feature_map, X).dtype == dtype
    assert feature_map.normalization_.dtype == dtype
    ref = kernel(X, 0.1, name)
    # Most eigenvalues of inner products are zero, and what stands for them raises the errors.
    single = 1e-4 if name == "linear" else 1e-5
    atol = np.abs(ref).max() * (single if dtype is np.float32 else 1e-9)
    np.testing.assert_allclose(products(feature_map, X), ref, rtol=0, atol=atol)


@every_kernel
def test_the_root_is_symmetric(name):
    """A discriminant that shrinks feature by feature depends on the axes."""
    X = np.random.default_rng(2).normal(size=(40, 6))
    root = fit_kernel_map(X, kernel=name, n_components=30, random_state=0).normalization_
    np.testing.assert_allclose(root, root.T, rtol=0, atol=1e-10 * np.abs(root).max())


@pytest.mark.parametrize("n_columns", [1, 2, 20])
@every_kernel
def test_single_and_double_precision_agree(name, n_columns):
    """In few columns the kernel of many rows is singular to working precision."""
    X = np.random.default_rng(3).standard_t(3, size=(300, n_columns))
    X /= np.linalg.norm(X, axis=1).max()  # no kernel is larger than 1
    options = {"kernel": name, "n_components": 100, "random_state": 0}
    double = fit_kernel_map(X, **options)
    single = fit_kernel_map(X.astype(np.float32), **options)
    np.testing.assert_array_equal(single.component_indices_, double.component_indices_)
    np.testing.assert_allclose(
        products(single, X.astype(np.float32)), products(double, X), rtol=0, atol=5e-4
    )


@pytest.mark.parametrize(("name", "most"), [("rbf", 1e-3), ("laplacian", 0.02), ("linear", 1e-12)])
def test_features_approximate_the_kernel(name, most):
    X = np.random.default_rng(10).uniform(size=(300, 2))
    feature_map = fit_kernel_map(X, kernel=name, n_components=60, random_state=0)
    ref = kernel(X, feature_map.gamma, name)
    assert np.sqrt(((products(feature_map, X) - ref) ** 2).mean()) < most


def test_few_rows_give_the_projections_onto_them():
    """The linear kernel of the projections is the best that these rows can do."""
    X = np.random.default_rng(11).normal(size=(50, 8))
    feature_map = fit_kernel_map(X, kernel="linear", n_components=3, random_state=0)
    basis, _ = np.linalg.qr(feature_map.components_.T)
    projected = X @ basis
    np.testing.assert_allclose(products(feature_map, X), projected @ projected.T, atol=1e-10)


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e3])
def test_the_linear_features_have_the_scale_of_the_rows(factor):
    """Whichever eigenvalues count as zero: that is relative to the others."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(60, 5)) * [1, 1, 0.1, 1e-3, 1e-5]
    options = {"kernel": "linear", "n_components": 20, "random_state": 0}
    plain = fit_kernel_map(X, **options)
    scaled = fit_kernel_map(factor * X, **options)
    comp = products(scaled, factor * X) / factor**2
    np.testing.assert_allclose(comp, products(plain, X), rtol=0, atol=1e-10)


@both_dtypes
def test_rows_of_zeros_have_linear_features_of_zero(dtype):
    X = np.zeros((5, 3), dtype)
    feature_map = fit_kernel_map(X, kernel="linear", n_components=2, random_state=0)
    assert (map_rows(feature_map, X) == 0).all()


@both_dtypes
@every_kernel
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("is_mapped_sparse", [False, True])
def test_rows_are_mapped_like_nystroem_does_it(name, dtype, is_sparse, is_mapped_sparse):
    rng = np.random.default_rng(13)
    X = (rng.normal(size=(80, 6)) * (rng.random((80, 6)) < 0.7)).astype(dtype)
    fitted = sparse.csr_array(X) if is_sparse else X
    mapped = sparse.csr_array(X) if is_mapped_sparse else X
    feature_map = fit_kernel_map(fitted, kernel=name, n_components=30, random_state=0)
    comp = map_rows(feature_map, mapped)
    assert comp.dtype == dtype
    atol = 1e-4 if dtype is np.float32 else 1e-11
    np.testing.assert_allclose(comp, feature_map.transform(fitted), rtol=0, atol=atol)


@every_kernel
def test_maps_whose_arrays_are_in_files(name, tmp_path):
    X = np.random.default_rng(14).normal(size=(30, 3))
    feature_map = fit_kernel_map(X, kernel=name, n_components=10, random_state=0)
    ref = map_rows(feature_map, X)
    for array_name in ("components_", "normalization_"):
        array = getattr(feature_map, array_name)
        mapped = np.memmap(tmp_path / array_name, array.dtype, "w+", shape=array.shape)
        mapped[...] = array
        setattr(feature_map, array_name, mapped)
    np.testing.assert_array_equal(map_rows(feature_map, X), ref)


def test_without_a_map_rows_stay_as_they_are():
    X = np.ones((2, 2))
    assert map_rows(None, X) is X


@both_dtypes
@every_kernel
def test_sparse_rows_give_the_same_features(name, dtype):
    rng = np.random.default_rng(4)
    X = sparse.csr_array((rng.random((60, 30)) * (rng.random((60, 30)) < 0.1)).astype(dtype))
    options = {"kernel": name, "n_components": 20, "random_state": 5}
    dense = fit_kernel_map(X.toarray(), **options)
    comp = fit_kernel_map(X, **options)
    assert sparse.issparse(comp.components_)
    np.testing.assert_array_equal(comp.component_indices_, dense.component_indices_)
    assert map_rows(comp, X).dtype == dtype
    atol = 1e-5 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(products(comp, X), products(dense, X.toarray()), rtol=0, atol=atol)


def test_untidy_sparse_rows():
    """Row 1 equals row 0, with its columns in another order and a zero that is stored."""
    data, columns = np.array([1.0, 2.0, 2.0, 1.0, 0.0, 5.0]), np.array([0, 1, 1, 0, 2, 2])
    X = sparse.csr_array((data, columns, np.array([0, 2, 5, 6])), shape=(3, 3))
    feature_map = fit_kernel_map(X, gamma="median", n_components=3, random_state=0)
    assert sorted(feature_map.component_indices_) == [0, 2]
    assert feature_map.gamma == pytest.approx(1 / 30)
    np.testing.assert_array_equal(X.indices, columns)


def test_components_are_rows_with_a_weight():
    X = np.arange(20.0).reshape(10, 2)
    weights = np.array([0, 1] * 5)
    feature_map = fit_kernel_map(
        X, gamma=0.01, n_components=4, random_state=1, sample_weight=weights
    )
    assert len(set(feature_map.component_indices_)) == 4
    assert weights[feature_map.component_indices_].all()
    np.testing.assert_array_equal(X[feature_map.component_indices_], feature_map.components_)


def test_the_seed_decides():
    X = np.random.default_rng(6).normal(size=(50, 3))
    maps = [fit_kernel_map(X, gamma=0.5, n_components=10, random_state=seed) for seed in (0, 0, 1)]
    first, again, other = (feature_map.transform(X) for feature_map in maps)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_more_components_than_rows():
    X = np.random.default_rng(7).normal(size=(5, 2))
    feature_map = fit_kernel_map(
        np.repeat(X, 3, axis=0), gamma=0.5, n_components=99, random_state=0
    )
    assert feature_map.transform(X).shape == (5, 5)
    np.testing.assert_allclose(products(feature_map, X), kernel(X, 0.5), atol=1e-10)


def test_minus_zero_is_zero():
    X = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert len(fit_kernel_map(X, gamma=1.0, n_components=2, random_state=0).components_) == 1


@both_dtypes
def test_equal_rows(dtype):
    X = np.full((6, 2), 3.0, dtype)
    feature_map = fit_kernel_map(X, gamma="median", n_components=4, random_state=0)
    np.testing.assert_allclose(feature_map.transform(X), np.ones((6, 1)), rtol=1e-6)


def test_the_global_output_setting_does_not_matter():
    X = np.random.default_rng(8).normal(size=(9, 2))
    with sklearn.config_context(transform_output="pandas"):
        features = fit_kernel_map(X, gamma=1.0, n_components=3, random_state=0).transform(X)
    assert type(features) is np.ndarray


@every_kernel
@pytest.mark.parametrize("is_sparse", [False, True])
def test_thread_counts_give_the_same_bits(name, is_sparse):
    X = np.random.default_rng(9).normal(size=(3000, 40))
    X = sparse.csr_array(X) if is_sparse else X
    options = {"kernel": name, "n_components": 100, "random_state": 0}
    maps, rows = [], []
    for n_threads in (1, None):
        with threads(n_threads):
            maps.append(fit_kernel_map(X[:300], **options))
            rows.append(map_rows(maps[-1], X))
    assert maps[0].gamma == maps[1].gamma
    np.testing.assert_array_equal(maps[0].normalization_, maps[1].normalization_)
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"gamma": "scale"}, ValueError, "gamma must be a positive number or 'median'"),
        ({"gamma": 0.0}, ValueError, "gamma must be a positive number"),
        ({"gamma": float("nan")}, ValueError, "gamma must be a positive number"),
        ({"gamma": None}, TypeError, "gamma must be a positive number"),
        ({"gamma": True}, TypeError, "gamma must be a positive number"),
        ({"kernel": "poly"}, ValueError, "one of 'linear', 'rbf', 'laplacian'; got 'poly'"),
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"sample_weight": np.zeros(4)}, ValueError, "at least one row with a positive weight"),
    ],
)
def test_bad_arguments_are_named(changes, error, message):
    options = {"gamma": 1.0, "n_components": 2, "random_state": 0} | changes
    with pytest.raises(error, match=message):
        fit_kernel_map(np.ones((4, 2)), **options)

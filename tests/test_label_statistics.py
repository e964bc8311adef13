"""Co-occurrence and noise factors, compared with plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hera_fast.label_statistics import co_occurrence_shares, noise_factors

rng = np.random.default_rng(0)


def test_shares():
    Y = rng.random((50, 6)) < 0.3
    Y[:, 4] = False
    labels, shares = co_occurrence_shares(sparse.csr_array(Y), 20)
    assert sorted(labels.tolist()) == [0, 1, 2, 3, 5]
    assert (np.diff(Y.sum(axis=0)[labels]) <= 0).all()
    for i, first in enumerate(labels):
        for j, second in enumerate(labels):
            assert shares[i, j] == pytest.approx(Y[Y[:, first], second].mean())


def test_few_of_many_labels():
    Y = np.tri(9, dtype=bool)
    labels, shares = co_occurrence_shares(sparse.csr_array(Y), 3)
    assert labels.tolist() == [0, 1, 2]
    assert shares.shape == (3, 3)
    assert (shares[2] == 1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [7, 1 << 14])
def test_factors(dtype, block, monkeypatch):
    monkeypatch.setattr("hera_fast.label_statistics._BLOCK", block)
    E = rng.random((40, 8)).astype(dtype)
    values, labels, loadings = noise_factors(E, 3, 8)
    _, expected, vectors = np.linalg.svd(E.astype(np.float64))
    np.testing.assert_allclose(values, expected[:3], rtol=1e-6)
    assert labels.tolist() == list(range(8))
    for found, vector in zip(loadings, vectors, strict=False):
        assert found.max() == np.abs(found).max()
        np.testing.assert_allclose(found, vector * np.sign(found @ vector), atol=1e-6)


def test_no_more_factors_than_the_rank():
    E = np.outer(rng.random(30), [0.0, 2.0, 0.0, 1.0])
    values, labels, loadings = noise_factors(E, 5, 2)
    assert (len(values), labels.tolist()) == (1, [1, 3])
    np.testing.assert_allclose(loadings, [[2 / 5**0.5, 1 / 5**0.5]])


def test_no_noise():
    values, labels, loadings = noise_factors(np.zeros((4, 3)), 5, 20)
    assert (len(values), len(labels), loadings.shape) == (0, 0, (0, 0))

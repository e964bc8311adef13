"""The number of threads changes no bit of a fit or a prediction."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from hera_fast import HERAClassifier


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="NUMBA_NUM_THREADS is 1")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("calibration", "kernel"), [("mixture", "auto"), ("gaussian", "rbf"), (None, "rbf")]
)
def test_wide_features_on_one_and_two_threads(calibration, kernel, dtype):
    # So many features that BLAS, left alone, would use threads for the equations of the model.
    rng = np.random.default_rng(0)
    true_labels = rng.integers(0, 5, 1200)
    X = (rng.standard_normal((1200, 12)) + 3 * np.eye(5, 12)[true_labels]).astype(dtype)
    Y = rng.random((1200, 5)) < 0.3
    Y[np.arange(1200), true_labels] = True

    def results(n_threads):
        model = HERAClassifier(
            calibration=calibration,
            kernel=kernel,
            n_components=400,
            tol=0.1,
            n_threads=n_threads,
            random_state=0,
        )
        return model.fit(X, Y).coef_, model.confidence_, model.decision_function(X)

    for one, two in zip(results(1), results(2), strict=True):
        np.testing.assert_array_equal(one, two)

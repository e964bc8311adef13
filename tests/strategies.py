"""Hypothesis strategies shared by the tests: small problems of every awkward kind."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

dtypes = st.sampled_from([np.float32, np.float64])
seeds = st.integers(0, 2**32 - 1)
row_counts = st.integers(0, 9)
label_counts = st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 171, 219]))


@st.composite
def candidate_matrices(draw, n, q):
    """A 0/1 matrix without empty rows: one label, a few, or all of them in each row."""
    rng = np.random.default_rng(draw(seeds))
    share = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    candidates = rng.random((n, q)) < share
    candidates[np.arange(n), rng.integers(0, q, n)] = True
    return candidates

"""Small partial-label data sets of every awkward kind, and how two of them are compared."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse
from strategies import candidate_matrices, seeds

from hera_fast.bunch import make_bunch

# Three labels and four rows; everything that is special here survives every format.
DATA = np.array([[0.1, -0.0], [np.nan, 1e-308], [1 / 3, 1e308], [5e-324, 3.0]])
CANDIDATES = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1]], np.bool_)
TARGET = np.array([2, 1, 0, 2])
NAMES = ["cat", "dög", "owl, big"]
FEATURES = ["weight", "größe (m)"]


def example(**changes):
    parts = {
        "data": DATA,
        "candidates": CANDIDATES,
        "target": TARGET,
        "target_names": NAMES,
        "feature_names": FEATURES,
        "DESCR": "Made up,\nin two lines.",
    }
    return make_bunch(**{**parts, **changes})


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def assert_same_labels(bunch, expected):
    """The same candidates and truth by name, in whatever order the labels are."""
    order = [bunch.target_names.tolist().index(name) for name in expected.target_names.tolist()]
    np.testing.assert_array_equal(
        bunch.candidates.toarray()[:, order], expected.candidates.toarray()
    )
    assert (bunch.target is None) == (expected.target is None)
    if expected.target is not None:
        np.testing.assert_array_equal(
            bunch.target_names[bunch.target], expected.target_names[expected.target]
        )


def assert_same(bunch, expected):
    """Everything is the same, down to types and bits."""
    assert bunch.keys() == expected.keys()
    assert type(bunch.data) is type(expected.data)
    assert bunch.data.dtype == expected.data.dtype
    assert dense(bunch.data).tobytes() == dense(expected.data).tobytes()
    assert bunch.target_names.tolist() == expected.target_names.tolist()
    assert bunch.target_names.dtype.kind == expected.target_names.dtype.kind
    assert_same_labels(bunch, expected)
    assert bunch.feature_names == expected.feature_names
    assert bunch.DESCR == expected.DESCR


# Names with null characters are refused.
texts = st.text(max_size=6).map(lambda text: text.replace("\0", ""))


@st.composite
def bunches(draw, *, names=texts, feature_names=texts, may_be_sparse=True, dtypes=("f4", "f8")):
    """A data set; `names` and `feature_names` are strategies for single names."""
    n, d, q = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    numbers = npst.from_dtype(dtype, allow_infinity=False, allow_nan=False)
    data = draw(npst.arrays(dtype, (n, d), elements=numbers))
    if draw(st.booleans()):
        data[draw(st.integers(0, n - 1)), draw(st.integers(0, d - 1))] = np.nan
    candidates = draw(candidate_matrices(n, q))
    target = None
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(seeds))
        target = [rng.choice(np.flatnonzero(row)) for row in candidates]
    if may_be_sparse and draw(st.booleans()):
        data = sparse.csr_array(data)
    return make_bunch(
        data,
        candidates,
        target,
        target_names=draw(st.lists(names, min_size=q, max_size=q, unique=True)),
        feature_names=draw(st.lists(feature_names, min_size=d, max_size=d, unique=True)),
        DESCR=draw(texts),
    )

"""Indices that would lead compiled code outside of a matrix are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hera_fast.sparse_checks import check_indices

CONTAINERS = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix]
FAR = 2**63 - 1


def of_parts(container, indices, indptr, *, n_indices=3):
    n = len(indptr) - 1
    shape = (n, n_indices) if container in CONTAINERS[:2] else (n_indices, n)
    parts = np.ones(len(indices)), np.array(indices, np.int64), np.array(indptr, np.int64)
    return container(parts, shape=shape)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("indices", "indptr"),
    [([], [0, 0, 0]), ([0, 2, 2], [0, 2, 3]), ([2, 0, 1], [0, 0, 3]), ([1, 1, 0], [0, 2, 2])],
)
def test_sound(container, indices, indptr):
    matrix = of_parts(container, indices, indptr)
    check_indices(matrix)
    assert matrix.nnz == indptr[-1]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("indices", "indptr", "reason"),
    [
        ([], [0, 1_000_000, 0], "must not fall: 0 follows 1000000"),
        ([], [0, -1, 0], "must not fall: -1 follows 0"),
        ([0], [0, 0, -1], "must not fall: -1 follows 0"),
        ([0, 1], [0, 2, 1], "ind"),
        # All differences of 64 bits are positive.
        ([0], [0, FAR, -2, 1], f"must not fall: -2 follows {FAR}"),
        ([0, 3], [0, 1, 2], "ind"),
        ([0, -1], [0, 1, 2], "ind"),
    ],
)
def test_leading_outside(container, indices, indptr, reason):
    with pytest.raises(ValueError, match=reason):
        check_indices(of_parts(container, indices, indptr))


@given(
    st.lists(st.integers(-1, 3), max_size=3), st.lists(st.integers(-1, 4), min_size=1, max_size=4)
)
def test_refused_if_and_only_if_it_leads_outside(indices, starts):
    """What the constructor itself lets pass is compared with the definition."""
    indptr = [0, *starts]
    if indptr[-1] > len(indices):
        return
    matrix = of_parts(sparse.csr_array, indices, indptr)
    used = indices[: indptr[-1]] if indptr[-1] >= 0 else []
    if sorted(indptr) == indptr and set(used) <= {0, 1, 2}:
        check_indices(matrix)
    else:
        with pytest.raises(ValueError, match="ind"):
            check_indices(matrix)

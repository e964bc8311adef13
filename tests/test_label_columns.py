"""Columns with labels are found, and their cells become candidates."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hera_fast.label_columns import (
    candidates_of_cells,
    check_feature_names,
    find_columns,
    labels_of_rows,
    sorted_labels,
    truth_of_labels,
)

where = "row {}".format


@pytest.mark.parametrize(
    ("header", "names", "columns"),
    [
        (["candidates", "x"], (None, None), (0, None)),
        (["x", "candidates", "target"], (None, None), (1, 2)),
        (["target", "x", "candidates"], (None, None), (2, 0)),
        (["target", "x", "y"], ("x", None), (1, 0)),
        (["target", "x", "y"], ("x", "y"), (1, 2)),
        (["target", "x"], ("target", None), (0, None)),
        (["candidates", "x", "y"], (None, "y"), (0, 2)),
        (["candidates", "target", "y"], ("target", "candidates"), (1, 0)),
    ],
)
def test_find_columns(header, names, columns):
    assert find_columns(header, *names) == columns
    assert find_columns(header, *names, needs_candidates=False) == columns


@pytest.mark.parametrize(
    ("header", "target", "columns"),
    [
        (["x", "y"], None, (None, None)),
        (["x", "target"], None, (None, 1)),
        (["y", "x"], "y", (None, 0)),
    ],
)
def test_candidates_may_be_absent(header, target, columns):
    assert find_columns(header, None, target, needs_candidates=False) == columns


def test_candidates_that_are_named_must_be_there():
    with pytest.raises(ValueError, match="no column 'labels'"):
        find_columns(["x", "y"], "labels", None, needs_candidates=False)


def test_labels_of_rows():
    columns, labels = labels_of_rows(["10", "9", "10"], where)
    assert (columns.tolist(), labels) == ([1, 0, 1], ["9", "10"])
    columns, labels = labels_of_rows([7, -1, 7], where)
    assert (columns.tolist(), labels) == ([1, 0, 1], [-1, 7])
    for missing in ("", None):
        with pytest.raises(ValueError, match="row 1: the true label is missing"):
            labels_of_rows(["a", missing], where)


@pytest.mark.parametrize(
    ("header", "names", "reason"),
    [
        (["x", "y"], (None, None), "no column 'candidates'. The columns are 'x', 'y' and so on"),
        (["x", "candidates"], ("y", None), "no column 'y'"),
        (["x", "candidates"], (None, "y"), "no column 'y'"),
        (["candidates", "x", "x"], (None, None), "column 'x' more than once"),
        (["candidates", "x", "candidates"], (None, None), "column 'candidates' more than once"),
        (["", "candidates", "x"], (None, None), "column 0 of the header has no name.*index=False"),
        (["candidates", "x", " "], (None, None), "column 2 of the header has no name"),
        (["candidates", "target"], (None, None), "no column with a feature"),
        (["candidates"], (None, None), "no column with a feature"),
        (["x", "y"], ("x", "x"), "'x' cannot be both the candidates and the truth"),
    ],
)
def test_columns_that_are_not_found(header, names, reason):
    with pytest.raises(ValueError, match=reason):
        find_columns(header, *names, hint=" and so on")


def test_check_feature_names():
    check_feature_names(["Target", "candidates "])
    for name in ("target", "candidates", "", " \t"):
        with pytest.raises(ValueError, match=re.escape(f"a feature has the name {name!r}")):
            check_feature_names(["x", name])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], ["a", "b"]),
        (["10", "9", "-1", "0"], ["-1", "0", "9", "10"]),
        (["10", "9", "09"], ["09", "10", "9"]),
        (["10", "9", "-0"], ["-0", "10", "9"]),
        (["10", "9", "+1"], ["+1", "10", "9"]),
        (["10", "9", "٣"], ["10", "9", "٣"]),
        (["1" * 5000, "2"], ["1" * 5000, "2"]),
        (["-2", "-10"], ["-10", "-2"]),
    ],
)
def test_sorted_labels(labels, expected):
    assert sorted_labels(labels) == expected
    assert sorted_labels(reversed(labels)) == expected


@given(st.lists(st.sets(st.sampled_from("abcdefg"), min_size=1), min_size=1, max_size=20))
def test_candidates_of_cells(sets):
    cells = [" ; ".join(each) for each in sets]
    candidates, labels = candidates_of_cells(cells, ";", where)
    assert labels == sorted(set().union(*sets))
    assert candidates.has_canonical_format
    assert candidates.dtype == np.bool_
    found = [{labels[column] for column in np.flatnonzero(row)} for row in candidates.toarray()]
    assert found == sets


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("", "row 2: there are no candidates"),
        ("  ", "row 2: there are no candidates"),
        ("a||b", r"row 2: there is an empty label in 'a\|\|b'"),
        ("|", r"row 2: there is an empty label in '\|'"),
    ],
)
def test_cells_without_labels(cell, reason):
    with pytest.raises(ValueError, match=reason):
        candidates_of_cells(["a", "b", cell, "c", cell], "|", where)


@given(st.lists(st.tuples(st.sets(st.integers(0, 5), min_size=1), st.integers(0, 5)), min_size=1))
def test_truth_of_labels(rows):
    cells = ["|".join(map(str, own)) for own, _ in rows]
    candidates, labels = candidates_of_cells(cells, "|", where)
    truth = [str(true) for _, true in rows]
    wrong = [row for row, (own, true) in enumerate(rows) if true not in own]
    if wrong:
        with pytest.raises(ValueError, match=f"^row {wrong[0]}: the true label is "):
            truth_of_labels(truth, labels, candidates, where)
    else:
        columns = truth_of_labels(truth, labels, candidates, where)
        assert columns.dtype == np.int64
        assert [labels[column] for column in columns] == truth


@pytest.mark.parametrize("missing", ["", None])
def test_missing_truth(missing):
    candidates, labels = candidates_of_cells(["a", "b|a"], "|", where)
    with pytest.raises(ValueError, match=r"^row 1: the true label is missing"):
        truth_of_labels(["a", missing], labels, candidates, where)


def test_the_candidates_are_told():
    candidates, labels = candidates_of_cells(["a", "b|a", "c"], "|", where)
    with pytest.raises(ValueError, match=r"^row 1: .* is 'c', .* the candidates 'a', 'b'$"):
        truth_of_labels(["a", "c", "c"], labels, candidates, where)


def test_many_candidates_are_not_all_told():
    candidates, labels = candidates_of_cells(["g|f|e|d|c|b"], "|", where)
    with pytest.raises(ValueError, match=r"candidates 'b', 'c', 'd', 'e', 'f', \.\.\.$"):
        truth_of_labels(["a"], labels, candidates, where)

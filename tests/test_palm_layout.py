"""Which way round the variables of a MATLAB file are, found from their shapes together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from strategies import candidate_matrices, seeds

from hera_fast.bunch import make_bunch
from hera_fast.palm_layout import NAMES, Unreadable, palm_parts

# Five examples, four features, three labels.
DATA = np.arange(20.0).reshape(5, 4)
CANDIDATES = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]])
TARGET = np.array([2, 1, 0, 2, 0])
TRUTH = np.eye(3)[TARGET]


def read(data=DATA, partial_target=CANDIDATES.T, target=TRUTH.T, **others):
    variables = {"data": data, "partial_target": partial_target, "target": target, **others}
    return palm_parts({name: value for name, value in variables.items() if value is not None})


def assert_read(parts, *, target=TARGET):
    bunch = make_bunch(**parts)
    np.testing.assert_array_equal(bunch.data, DATA)
    np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)
    if target is None:
        assert bunch.target is None
    else:
        assert bunch.target.tolist() == target.tolist()


def refused(reason, **variables):
    with pytest.raises(ValueError, match=reason):
        make_bunch(**read(**variables))


# Orientation

TARGETS = {
    "columns": TRUTH.T,
    "rows": TRUTH,
    "row vector": TARGET[None] + 1,
    "column vector": TARGET[:, None] + 1,
    "from 0": TARGET[None],
    "unknown": None,
}


@pytest.mark.parametrize(
    ("data", "candidates"), list(product((DATA, DATA.T), (CANDIDATES, CANDIDATES.T)))
)
@pytest.mark.parametrize("form", TARGETS)
@pytest.mark.parametrize("kind", [np.array, sparse.csc_matrix, sparse.csc_array])
def test_all_orientations(data, candidates, form, kind):
    target = TARGETS[form]
    parts = read(data, kind(candidates), None if target is None else kind(target))
    assert_read(parts, target=None if target is None else TARGET)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int32, np.bool_, ">f8"])
def test_types_of_numbers(dtype):
    assert_read(read(partial_target=CANDIDATES.T.astype(dtype), target=TRUTH.T.astype(dtype)))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.data())
def test_usual_orientation_of_any_shape(n, d, q, draw):
    """Where several orientations fit, the usual one is taken."""
    candidates = draw.draw(candidate_matrices(n, q))
    rng = np.random.default_rng(draw.draw(seeds))
    target = np.array([rng.choice(np.flatnonzero(row)) for row in candidates])
    data = rng.normal(size=(n, d))
    bunch = make_bunch(**read(data, candidates.T, np.eye(q)[target].T))
    np.testing.assert_array_equal(bunch.data, data)
    np.testing.assert_array_equal(bunch.candidates.toarray(), candidates)
    np.testing.assert_array_equal(bunch.target, target)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.data())
def test_other_orientations_of_unequal_sides(n, d, q, draw):
    assume(len({n, d, q, 1}) == 4)
    candidates = draw.draw(candidate_matrices(n, q))
    rng = np.random.default_rng(draw.draw(seeds))
    data = rng.normal(size=(n, d))
    turned = [draw.draw(st.booleans()) for _ in range(2)]
    bunch = make_bunch(
        **read(data.T if turned[0] else data, candidates if turned[1] else candidates.T, None)
    )
    np.testing.assert_array_equal(bunch.data, data)
    np.testing.assert_array_equal(bunch.candidates.toarray(), candidates)


def test_square_data_are_not_turned():
    data = np.arange(25.0).reshape(5, 5)
    for candidates in (CANDIDATES, CANDIDATES.T):
        np.testing.assert_array_equal(read(data, candidates, None)["data"], data)


def test_square_candidates_are_taken_as_usual_if_that_makes_sense():
    candidates = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    data = np.arange(12.0).reshape(3, 4)
    parts = read(data, candidates, np.eye(3))
    np.testing.assert_array_equal(parts["candidates"].toarray(), candidates.T)
    assert parts["target"].tolist() == [0, 1, 2]


def test_square_candidates_that_make_sense_only_when_turned():
    candidates = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0]])
    data = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(read(data, candidates, None)["candidates"].toarray(), candidates)
    parts = read(data.T, candidates, None)
    np.testing.assert_array_equal(parts["candidates"].toarray(), candidates)
    np.testing.assert_array_equal(parts["data"], data)


def test_square_candidates_beside_turned_data_have_a_column_for_each_example():
    candidates = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    parts = read(np.arange(12.0).reshape(4, 3), candidates, None)
    np.testing.assert_array_equal(parts["candidates"].toarray(), candidates.T)


# Five examples with as many features as labels, everything with a column for each example.
EQUAL = {"data": DATA[:, :3].T, "partial_target": CANDIDATES.T}


@pytest.mark.parametrize("form", ["columns", "rows", "row vector", "column vector"])
def test_as_many_features_as_labels_and_the_truth_decides(form):
    for turn in (lambda matrix: matrix, np.transpose):
        bunch = make_bunch(**read(**{k: turn(m) for k, m in EQUAL.items()}, target=TARGETS[form]))
        np.testing.assert_array_equal(bunch.data, DATA[:, :3])
        np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)
        assert bunch.target.tolist() == TARGET.tolist()


@pytest.mark.parametrize(
    "names", [{"target_names": ["a", "b", "c"]}, {"feature_names": ["a", "b", "c"]}]
)
def test_as_many_features_as_labels_and_the_names_decide(names):
    bunch = make_bunch(**read(**EQUAL, target=None, **names))
    np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)


def test_as_many_features_as_labels_and_an_empty_set_decides():
    candidates = CANDIDATES.copy()
    candidates[:, 0] = 0
    candidates[2, 1] = 1
    candidates[4, 1] = 1
    bunch = make_bunch(**read(EQUAL["data"], candidates.T, None))
    np.testing.assert_array_equal(bunch.candidates.toarray(), candidates)


def test_as_many_features_as_labels_and_nothing_decides():
    refused(
        "make sense in two ways: data with a row and partial_target with a row for each example, "
        "or data with a column and partial_target with a column for each example. Save data with "
        "a row and partial_target with a column",
        **EQUAL,
        target=None,
    )


def test_square_truth_that_makes_no_sense_as_usual():
    refused(
        "true label of row 0 .* not among its candidates.* fit in several ways",
        data=np.arange(12.0).reshape(3, 4),
        partial_target=np.eye(3),
        target=np.eye(3)[[1, 2, 0]],
    )


@pytest.mark.parametrize(
    ("variables", "shapes"),
    [
        ({"data": DATA[:4]}, "data is 4 x 4, partial_target is 3 x 5, target is 3 x 5"),
        ({"target": TRUTH.T[:, :4]}, "data is 5 x 4, partial_target is 3 x 5, target is 3 x 4"),
        ({"target": TRUTH.T[:2]}, "target is 2 x 5"),
        ({"target": TARGET[None, :4]}, "target is 1 x 4"),
        ({"partial_target": CANDIDATES[:2], "target": None}, "partial_target is 2 x 3$"),
        ({"data": np.empty((0, 0))}, "data is 0 x 0"),
    ],
)
def test_shapes_that_do_not_fit(variables, shapes):
    refused(f"no number of rows and labels fits the variables: .*{shapes}", **variables)


# Truth


@pytest.mark.parametrize("kind", [np.array, sparse.csc_array])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_with_no_or_several_truths(kind, turned):
    for row, count in ((3, 0), (1, 3)):
        truth = TRUTH.copy()
        truth[row] = count > 0
        refused(
            f"target has {count} true labels in row {row} instead of 1",
            target=kind(truth if turned else truth.T),
        )


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan])
def test_truth_that_is_neither_0_nor_1(value):
    truth = TRUTH.copy()
    truth[3, 1] = value
    refused(f"target must be 0 or 1, got {value:.1f} in row 3, column 1", target=truth.T)


def test_explicit_zeros_and_entries_in_parts():
    truth = sparse.coo_array(TRUTH)
    rows, columns = np.append(truth.row, [0, 0]), np.append(truth.col, [0, 1])
    values = np.append(truth.data, [0.0, 0.0])
    values[0], rows, columns = 0.5, np.append(rows, truth.row[0]), np.append(columns, truth.col[0])
    parts = sparse.csc_array((np.append(values, 0.5), (columns, rows)), shape=(3, 5))
    assert_read(read(target=parts))


@pytest.mark.parametrize("value", [4, -1, 1.5, np.nan, np.inf])
def test_impossible_numbers_in_a_vector(value):
    vector = TARGET[None] + 1.0
    vector[0, 3] = value
    refused(f"target is {float(value)} in row 3, but there are 3 labels", target=vector)


def test_a_vector_without_the_first_and_the_last_number():
    """All numbers could begin with 0 or 1: the candidates decide, else MATLAB's habit."""
    data = DATA[:2]
    both, first, second = [[1, 1, 1], [1, 1, 1]], [[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]]
    vector = np.array([[1, 2]])
    assert read(data, np.array(both).T, vector)["target"].tolist() == [0, 1]
    assert read(data, np.array(first).T, vector)["target"].tolist() == [0, 1]
    assert read(data, np.array(second).T, vector)["target"].tolist() == [1, 2]
    refused(
        "true label of row 1 is '1'",
        data=data,
        partial_target=np.array([[1, 0, 0], [1, 0, 0]]).T,
        target=vector,
    )


def test_a_vector_with_the_last_number_begins_with_1():
    refused("true label of row 1 is '2'", target=np.array([[3, 3, 1, 3, 1]]))


def test_a_vector_that_begins_with_0_is_not_reinterpreted():
    refused("true label of row 1 is '0'", target=np.array([[2, 0, 0, 2, 0]]))
    refused("target of row 4 is 3, but the labels are 0 to 2", target=np.array([[2, 1, 0, 2, 3]]))


# Names of variables


@pytest.mark.parametrize(
    "names",
    [
        ("data", "partial_target", "target"),
        ("Data", "Partial_Target", "TARGET"),
        ("features", "p_labels", "logitlabels"),
        ("data", "p_labels", "target"),
    ],
)
def test_names(names):
    variables = dict(zip(names, (DATA, CANDIDATES.T, TRUTH.T), strict=True))
    assert_read(palm_parts(variables))
    assert_read(palm_parts({"anything": variables}))
    assert {name.lower() for name in names} <= NAMES


def test_struct_beside_other_variables():
    fold = Unreadable("it is a cell")
    struct = {"data": DATA, "partial_target": CANDIDATES, "target": TRUTH, "tr_idx": fold}
    assert_read(
        palm_parts({"target": np.eye(2), "options": {"data": DATA}, "lost": struct, "i": fold})
    )


def test_variables_come_before_structs():
    struct = {"data": DATA + 1, "partial_target": CANDIDATES}
    assert_read(read(lost=struct))


def test_missing_variables():
    reason = "no variable 'data', and no struct with data and partial_target. The variables are: "
    with pytest.raises(ValueError, match=reason + "none$"):
        palm_parts({})
    with pytest.raises(ValueError, match=reason + r"X, Y \(it is a cell\)$"):
        palm_parts({"X": Unreadable("not needed"), "Y": Unreadable("it is a cell")})
    with pytest.raises(ValueError, match=r"no variable 'partial_target'.*: data, target, s$"):
        palm_parts({"data": DATA, "target": TRUTH, "s": {"partial_target": CANDIDATES}})


def test_ambiguous_variables():
    with pytest.raises(ValueError, match="'Data' and 'features' are two names for one thing"):
        palm_parts({"Data": DATA, "features": DATA, "partial_target": CANDIDATES})
    struct = {"data": DATA, "partial_target": CANDIDATES}
    with pytest.raises(ValueError, match="several structs hold data: a, b"):
        palm_parts({"a": struct, "b": struct})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Unreadable("it is a cell"), "is no matrix of numbers: it is a cell"),
        ("text", "is no matrix of numbers: it is text or a struct"),
        (["a", "b"], "is no matrix of numbers: it is text or a struct"),
        ({"a": DATA}, "is no matrix of numbers: it is text or a struct"),
        (np.zeros((5, 4, 2)), "must be a matrix of real numbers, got 3 dimensions of float64"),
        (np.zeros((5, 4), complex), "must be .*, got 2 dimensions of complex128"),
        (sparse.csc_array((5, 4), dtype=complex), "must be .*, got 2 dimensions of complex128"),
    ],
)
@pytest.mark.parametrize("name", ["data", "partial_target", "target"])
def test_variables_that_are_no_matrices(name, value, reason):
    refused(f"^{name} {reason}", **{name: value})


def test_empty_candidates():
    refused(
        "2 of 5 rows have no candidates: row 1, 3", partial_target=CANDIDATES.T[:1], target=None
    )


@pytest.mark.parametrize(("rows", "empty"), [([0, 1, 3], 2), ([1, 1, 4], 0), ([0, 0, 1], 2)])
@pytest.mark.parametrize("kind", [sparse.csc_array, sparse.csr_array, sparse.csc_matrix])
def test_first_row_without_candidates(rows, empty, kind):
    candidates = kind((np.ones(3), (rows, [0, 1, 2])), shape=(5, 3))
    for matrix in (candidates, candidates.T):
        reason = f"3 entries for 5 rows: row {empty} has no candidates"
        refused(reason, partial_target=matrix, target=None)


def test_rows_that_a_sparse_matrix_only_claims_take_no_memory():
    refused(
        r"partial_target has 2 entries for 2000000000 rows: row 2 has no candidates",
        data=sparse.csr_array((2, 2_000_000_000)),
        partial_target=sparse.csr_array(([1.0, 1.0], [0, 1], [0, 2]), shape=(1, 2_000_000_000)),
        target=None,
    )


# Names of labels and features


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (["b", "c", "a"], ["b", "c", "a"]),
        (np.array([[3.0, 5.0, 4.0]]), [3, 5, 4]),
        (np.array([[3], [5], [4]], np.uint8), [3, 5, 4]),
        (None, ["0", "1", "2"]),
    ],
)
def test_target_names(value, names):
    bunch = make_bunch(**read(target_names=value))
    assert bunch.target_names.tolist() == names


def test_one_name():
    parts = read(DATA[:, :1], target_names=["a", "b", "c"], feature_names="weight", DESCR="A word.")
    bunch = make_bunch(**parts)
    assert bunch.feature_names == ["weight"]
    assert bunch.DESCR.endswith("\n\nA word.")


@pytest.mark.parametrize("value", [Unreadable("it is a cell"), {"a": 1}, np.eye(3), DATA[:, 0]])
def test_names_that_are_none(value):
    refused("target_names must be a cell of strings, or integers", target_names=value)


def test_description_that_is_none():
    assert read(DESCR=Unreadable("it is a cell"))["DESCR"] == ""

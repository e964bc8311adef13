"""Candidates in every form become the same matrix, and every mistake is named with its place."""

from __future__ import annotations

import datetime
import decimal
import enum
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from strategies import candidate_matrices

from hera_fast.candidates import check_candidates, csr_candidates

MATRIX = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1]], np.bool_)
NUMBERS = [np.uint8, np.int8, np.int64, np.float16, np.float32, np.float64, np.longdouble, ">f8"]
SPARSE = [
    sparse.bsr_array,
    sparse.coo_matrix,
    sparse.csc_array,
    sparse.csr_array,
    sparse.csr_matrix,
    sparse.dia_array,
    sparse.dok_array,
    sparse.lil_matrix,
]


class Frame:
    """The part of a data frame that matters here."""

    def __init__(self, data, columns):
        self.data = np.asarray(data)
        self.columns = columns

    def __array__(self, dtype=None, copy=None):
        return self.data


class Series:
    """Something that is an array when asked."""

    def __init__(self, data):
        self.data = data

    def __array__(self, dtype=None, copy=None):
        return self.data


class Missing:
    """A missing value that refuses to be compared, as data frames have them."""

    def __eq__(self, other):
        return self

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of a missing value is ambiguous")

    def __hash__(self):
        return 0

    def __repr__(self):
        return "<missing>"


def object_array(entries):
    array = np.empty(len(entries), object)
    for i, entry in enumerate(entries):
        array[i] = entry
    return array


def label_sets(matrix, labels):
    return [[labels[j] for j in np.flatnonzero(row)] for row in matrix]


def assert_same_as_csr(Y, candidates, classes, options):
    csr, csr_classes = csr_candidates(Y, **options)
    assert isinstance(csr, sparse.csr_array)
    assert csr.dtype == np.bool_
    assert csr.has_canonical_format
    assert csr.data.all()
    np.testing.assert_array_equal(csr.toarray(), candidates)
    assert csr_classes.dtype == classes.dtype
    assert csr_classes.tolist() == classes.tolist()


def assert_candidates(Y, matrix, labels, **options):
    candidates, classes = check_candidates(Y, **options)
    assert_same_as_csr(Y, candidates, classes, options)
    assert candidates.dtype == np.bool_
    assert candidates.flags.c_contiguous
    assert candidates.flags.writeable
    assert isinstance(classes, np.ndarray)
    np.testing.assert_array_equal(candidates, matrix)
    assert classes.tolist() == list(labels)
    if isinstance(Y, np.ndarray):
        assert not np.shares_memory(candidates, Y)


# Matrices


@pytest.mark.parametrize("dtype", [np.bool_, *NUMBERS, object])
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrix(dtype, order):
    assert_candidates(np.array(MATRIX, dtype, order=order), MATRIX, range(3), n_samples=4)


def test_matrix_that_is_read_only_or_strided():
    read_only = MATRIX.copy()
    read_only.setflags(write=False)
    assert_candidates(read_only, MATRIX, range(3))
    wide = np.zeros((8, 6))
    wide[::2, ::2] = MATRIX
    assert_candidates(wide[::2, ::2], MATRIX, range(3))


def test_matrix_as_seen_through_the_array_protocol():
    assert_candidates(Series(MATRIX.astype(int)), MATRIX, range(3))


def test_negative_zero_is_zero():
    assert_candidates(np.where(MATRIX, 1.0, -0.0), MATRIX, range(3))


@pytest.mark.parametrize("container", SPARSE)
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float64])
def test_sparse(container, dtype):
    assert_candidates(container(MATRIX.astype(dtype)), MATRIX, range(3), n_samples=4)


def test_sparse_explicit_zeros_are_no_candidates():
    Y = sparse.csr_array(np.ones((2, 2)))
    Y.data[1] = 0
    assert_candidates(Y, [[1, 0], [1, 1]], range(2))


def test_sparse_entries_in_parts_count_by_their_sum():
    parts = sparse.csr_array(
        (np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )
    assert_candidates(parts, [[1, 0], [0, 1]], range(2))
    assert len(parts.data) == 3
    twice = sparse.coo_array((np.ones(3), ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    with pytest.raises(ValueError, match=r"got 2\.0 in row 0, column 0"):
        check_candidates(twice)


def test_frame():
    assert_candidates(Frame(MATRIX, ["owl", "cat", "dog"]), MATRIX, ["owl", "cat", "dog"])
    assert_candidates(Frame(MATRIX.astype(object), (7, 8, 9)), MATRIX, [7, 8, 9])
    assert_candidates(Frame(MATRIX, ["owl", 1, ("a", "b")]), MATRIX, ["owl", 1, ("a", "b")])


def test_frame_columns_are_found_by_name():
    classes = np.array(["cat", "dog", "owl"])
    frame = Frame(MATRIX, ["owl", "cat", "dog"])
    assert_candidates(frame, MATRIX[:, [1, 2, 0]], classes, classes=classes)
    with pytest.raises(ValueError, match=r"no column 'cow'.*Y\.to_numpy\(\)"):
        check_candidates(frame, classes=["cat", "cow", "dog"])


def test_frame_with_a_name_twice():
    with pytest.raises(ValueError, match=r"two columns .* name 'b'"):
        check_candidates(Frame(MATRIX, ["a", "b", "b"]))


# Labels


ROWS = [["cat", "owl"], ["dog"], ["owl", "dog", "cat"], ["owl"]]
ANIMALS = ["cat", "dog", "owl"]


@pytest.mark.parametrize(
    "outer", [list, tuple, object_array, lambda rows: Series(object_array(rows))]
)
@pytest.mark.parametrize("inner", [list, tuple, set, frozenset, np.array])
def test_label_lists(outer, inner):
    assert_candidates(outer([inner(row) for row in ROWS]), MATRIX, ANIMALS, n_samples=4)


def test_label_lists_of_different_kinds():
    rows = [
        ROWS[0],
        dict.fromkeys(ROWS[1]).keys(),
        set(ROWS[2]),
        Series(np.array(ROWS[3])),
    ]
    assert_candidates(rows, MATRIX, ANIMALS)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2],
        [-5, 3, 2**62],
        [2**63, 2**63 + 1, 2**64 - 1],
        [-1, 2**63, 2**70],
        [1.0, 2.0, 3.0],
        [1, 2.0, 3],
        [False, True, 2],
        ["", "a", "ä"],
        ["a", "a\0", "b"],
        [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2022, 1, 1)],
        [decimal.Decimal("0.1"), decimal.Decimal(1), decimal.Decimal(2)],
        list(enum.IntEnum("Animal", ANIMALS)),
        list(np.array([3, 4, 5], np.int16)),
        list(np.array([3, 4, 5], np.float32)),
        list(np.array(["a", "b", "c"])),
        list(np.array(["2020", "2021", "2022"], "M8[D]")),
    ],
    ids=str,
)
def test_kinds_of_labels(labels):
    assert_candidates(label_sets(MATRIX, labels), MATRIX, np.array(labels, object).tolist())
    candidates, classes = check_candidates(labels[::-1])
    np.testing.assert_array_equal(candidates, np.eye(3)[::-1])
    again, same = check_candidates(label_sets(MATRIX, labels), classes=classes)
    np.testing.assert_array_equal(again, MATRIX)
    assert same is classes


def test_ranges_are_lists_of_labels():
    assert_candidates([range(1, 3), range(2, 4)], [[1, 1, 0], [0, 1, 1]], [1, 2, 3])


def test_nested_lists_hold_labels():
    assert_candidates([[0, 1], [1, 0]], [[1, 1], [1, 1]], [0, 1])
    assert_candidates([[0], [1]], np.eye(2), [0, 1])


def test_a_label_twice_counts_once():
    assert_candidates([["a", "a"], ["b", "a"]], [[1, 0], [1, 1]], ["a", "b"])
    assert_candidates([[0, 0, 1], [1]], [[1, 1], [0, 1]], [0, 1])


@pytest.mark.parametrize("row", [list, np.array, tuple])
@pytest.mark.parametrize("dtype", [int, float, bool])
def test_zeros_and_ones_in_nested_lists(row, dtype):
    rows = [row(entries.tolist()) for entries in MATRIX.astype(dtype)]
    with pytest.raises(ValueError, match=r"row 0 has the same label twice.*np\.asarray\(Y\)"):
        check_candidates(rows)


def test_labels():
    one_hot = np.eye(3)[[2, 0, 1, 2]]
    for labels in (ANIMALS, [3, 5, 9], [3.0, 5.0, 9.0]):
        y = [labels[i] for i in (2, 0, 1, 2)]
        for Y in (y, tuple(y), np.array(y), object_array(y), Series(np.array(y))):
            assert_candidates(Y, one_hot, labels, n_samples=4)
    assert_candidates(np.array([True, False]), [[0, 1], [1, 0]], [False, True])
    assert_candidates(["abc", "b"], np.eye(2), ["abc", "b"])


def test_dates_as_labels():
    days = np.array(["2020-01-02", "2020-01-01"], "M8[ns]")
    candidates, classes = check_candidates(days)
    np.testing.assert_array_equal(candidates, np.eye(2)[::-1])
    np.testing.assert_array_equal(classes, days[::-1])
    assert_candidates(days[:1], [[0, 1]], classes.tolist(), classes=classes)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="this NumPy has no StringDType")
def test_strings_of_any_length():
    Y = np.array(["long", "a", "long"], np.dtypes.StringDType())
    assert_candidates(Y, [[0, 1], [1, 0], [0, 1]], ["a", "long"])


@pytest.mark.parametrize("dtype", [int, float, str, bool, object])
def test_column_of_labels(dtype):
    column = np.array([[1], [0], [1]], dtype)
    labels = sorted(set(column[:, 0].tolist()))
    with pytest.warns(DataConversionWarning, match="column-vector y was passed") as caught:
        candidates, classes = check_candidates(column, n_samples=3)
    np.testing.assert_array_equal(candidates, [[0, 1], [1, 0], [0, 1]])
    assert classes.tolist() == labels
    assert caught[0].filename == __file__


def test_column_of_a_frame():
    with pytest.warns(DataConversionWarning):
        candidates, classes = check_candidates(Frame([["b"], ["a"]], ["animal"]))
    np.testing.assert_array_equal(candidates, [[0, 1], [1, 0]])
    assert classes.tolist() == ["a", "b"]


def test_single_class():
    assert_candidates(np.array([[True], [True]]), [[1], [1]], ["cat"], classes=["cat"])
    assert_candidates(["cat", "cat"], [[1], [1]], ["cat"], classes=["cat"])
    assert_candidates(["cat", "cat"], [[1], [1]], ["cat"])
    assert_candidates(sparse.csr_array(np.ones((2, 1))), [[1], [1]], [0])


# The labels of a fitted estimator


def test_known_classes():
    classes = np.array(["owl", "cat", "dog", "cow"])
    matrix = np.zeros((4, 4))
    matrix[:, [1, 2, 0]] = MATRIX
    assert_candidates(ROWS, matrix, classes, classes=classes)
    assert_candidates(matrix, matrix, classes, classes=classes)
    assert_candidates(sparse.csc_array(matrix), matrix, classes, classes=classes)
    y = ["cow", "owl"]
    for Y in (y, np.array(y), object_array(y)):
        assert_candidates(Y, [[0, 0, 0, 1], [1, 0, 0, 0]], classes, classes=classes.tolist())


def test_known_classes_of_another_number_type():
    assert_candidates([{1, 2}, {2}], [[1, 1], [0, 1]], [1, 2], classes=np.array([1.0, 2.0]))
    assert_candidates(np.array([2.0, 1.0]), [[0, 1], [1, 0]], [1, 2], classes=np.array([1, 2]))


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, lambda Y: Frame(Y, list("abc"))])
def test_wrong_number_of_columns(form):
    with pytest.raises(ValueError, match=r"found 3 columns of candidates, expected 2"):
        check_candidates(form(MATRIX), classes=["a", "b"])


@pytest.mark.parametrize(
    "Y", [[{"a"}, {"b", "x"}], ["a", "x"], np.array(["b", "x"]), object_array(["a", "x"])], ids=str
)
def test_unknown_label(Y):
    with pytest.raises(ValueError, match=r"row 1 has the label 'x', .*2 classes \('a', 'b'\)$"):
        check_candidates(Y, classes=["a", "b"])


def test_unknown_labels_are_counted_and_classes_cut_short():
    with pytest.raises(ValueError, match=r"row 0 has the label 7, .*4, \.\.\.\) \(2 more are"):
        check_candidates(np.array([7, 0, 8, 9]), classes=np.arange(7))
    with pytest.raises(ValueError, match=r"row 0 has the label '0'"):
        check_candidates(["0"], classes=np.arange(2))


def test_unknown_labels_ignored():
    options = {"classes": ["a", "b"], "unknown": "ignore"}
    assert_candidates([{"a", "x"}, {"x"}], [[1, 0], [0, 0]], ["a", "b"], **options)
    assert_candidates(np.array(["x", "b"]), [[0, 0], [0, 1]], ["a", "b"], **options)
    with pytest.raises(ValueError, match="rows have no candidates: row 1"):
        check_candidates([{"a", "x"}, set()], **options)


def test_bad_options():
    with pytest.raises(ValueError, match="unknown must be 'error' or 'ignore', got 'drop'"):
        check_candidates(MATRIX, unknown="drop")
    for classes in ([], ["a", "a"], np.eye(3)):
        with pytest.raises((ValueError, TypeError)):
            check_candidates(MATRIX, classes=classes)


# Mistakes


def test_none():
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        check_candidates(None)


@pytest.mark.parametrize(
    "Y", [{"a", "b"}, {"a": 1}, "abc", 3, 2.5, np.float64(1), np.array(3), iter([1]), object()]
)
def test_no_known_form(Y):
    with pytest.raises(TypeError, match=r"must be an \(n, q\) array, .*one label per row; got"):
        check_candidates(Y)


@pytest.mark.parametrize(
    "Y",
    [
        MATRIX,
        sparse.csr_array(MATRIX),
        Frame(MATRIX, list("abc")),
        ROWS,
        list("abcd"),
        np.arange(4),
    ],
)
def test_wrong_number_of_rows(Y):
    with pytest.raises(ValueError, match=r"^found 4 rows of candidates for 5 rows of X$"):
        check_candidates(Y, n_samples=5)


def test_wrong_number_of_rows_in_a_column():
    with pytest.raises(ValueError, match="found 4 rows of candidates for 5 rows of X"):
        check_candidates(np.arange(4)[:, None], n_samples=5)


@pytest.mark.parametrize("form", [np.array, sparse.csc_array])
def test_transposed(form):
    with pytest.raises(ValueError, match=r"found 4 rows .* for 3 .*transposed: pass Y\.T"):
        check_candidates(form(MATRIX), n_samples=3)


@pytest.mark.parametrize("dtype", [*NUMBERS, object])
@pytest.mark.parametrize("order", ["C", "F"])
def test_entries_that_are_neither_0_nor_1(dtype, order):
    Y = np.array(MATRIX, dtype, order=order)
    Y[2, 1] = 2
    with pytest.raises(ValueError, match=r"0 or 1, got 2\S* in row 2, column 1\. To give labels"):
        check_candidates(Y)
    Y[0, 2] = Y[3, 0] = 3
    with pytest.raises(ValueError, match=r"got 3\S* in row 0, column 2 \(2 more entries"):
        check_candidates(Y)


@pytest.mark.parametrize("bad", [0.5, -1.0, np.inf, 1 + 1e-15, 1e-300])
@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_numbers_that_are_neither_0_nor_1(bad, form):
    Y = MATRIX.astype(float)
    Y[1, 2] = bad
    with pytest.raises(ValueError, match=re.escape(f"got {bad!r} in row 1, column 2")):
        check_candidates(form(Y))


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, lambda Y: Frame(Y, list("abc"))])
def test_nan_entry(form):
    Y = MATRIX.astype(float)
    Y[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"Input y contains NaN: candidates, row 3, column 1\."):
        check_candidates(form(Y))


@pytest.mark.parametrize("missing", [None, np.nan, Missing()])
def test_missing_entry_of_an_object_matrix(missing):
    Y = MATRIX.astype(object)
    Y[3, 1] = missing
    with pytest.raises(ValueError, match=r"contains NaN: candidates, row 3, column 1\."):
        check_candidates(Y)


def test_strings_in_an_object_matrix():
    Y = MATRIX.astype(object)
    Y[0, 1] = "1"
    with pytest.raises(ValueError, match=r"got '1' in row 0, column 1"):
        check_candidates(Y)


@pytest.mark.parametrize("dtype", ["U", "S", "M8[D]"])
def test_matrix_of_strings(dtype):
    Y = np.array([["2020", "2021"], ["2022", "2023"]]).astype(dtype)
    with pytest.raises(ValueError, match=r"got a matrix of .*one set or list of labels per row"):
        check_candidates(Y)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_rows_without_candidates(form):
    Y = np.zeros((10, 3))
    Y[[0, 4, 5]] = 1
    with pytest.raises(
        ValueError, match=r"7 of 10 rows have no candidates: row 1, 2, 3, 6, 7, \.\.\.\. Drop"
    ):
        check_candidates(form(Y))
    assert_candidates(form(Y), Y, range(3), allow_empty=True)


def test_label_lists_without_candidates():
    with pytest.raises(ValueError, match=r"2 of 3 rows have no candidates: row 0, 2\. Drop"):
        check_candidates([[], ["a"], set()])
    assert_candidates([[], ["a"], set()], [[0], [1], [0]], ["a"], allow_empty=True)
    assert_candidates(
        [[], ["a"]], [[0, 0], [1, 0]], ["a", "b"], allow_empty=True, classes=["a", "b"]
    )
    with pytest.raises(ValueError, match="no row of the candidates has a label"):
        check_candidates([[], []], allow_empty=True)


@pytest.mark.parametrize(
    "Y", [[], np.empty((0, 3)), np.empty((0, 1)), np.array([]), sparse.csr_array((0, 3))], ids=repr
)
def test_no_rows(Y):
    with pytest.raises(ValueError, match="there are no rows of candidates"):
        check_candidates(Y)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_no_columns(form):
    with pytest.raises(ValueError, match=r"of shape \(3, 0\) have no columns"):
        check_candidates(form(np.empty((3, 0))))


def test_wrong_number_of_dimensions():
    with pytest.raises(ValueError, match=r"candidates in 3 dimension\(s\)"):
        check_candidates(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=r"candidates in 1 dimension\(s\)"):
        check_candidates(sparse.coo_array(np.ones(3)))
    with pytest.raises(TypeError, match="row 0 of the candidates has a list where a label is"):
        check_candidates([[["a"]]])
    with pytest.raises(ValueError, match=r"row 1 of the candidates is an array with 2 dim"):
        check_candidates([np.arange(2), np.eye(2)])


@pytest.mark.parametrize(
    "Y",
    [
        np.array([1, 2j]),
        np.eye(2) * 1j,
        sparse.csr_array(np.eye(2) * 1j),
        [1, 2j],
        [{1}, {2j}],
    ],
    ids=repr,
)
def test_complex_numbers(Y):
    with pytest.raises(ValueError, match="Complex data not supported"):
        check_candidates(Y)


def test_masked_entries():
    with pytest.raises(ValueError, match="must not be masked"):
        check_candidates(np.ma.array(MATRIX, mask=~MATRIX))
    assert_candidates(np.ma.array(MATRIX), MATRIX, range(3))


@pytest.mark.parametrize("Y", [[0.1, 0.5, 2.0], np.array([0.1, 0.5]), [0, 0.5]], ids=repr)
def test_continuous_labels(Y):
    with pytest.raises(ValueError, match=r"Unknown label type: continuous\. Maybe you are"):
        check_candidates(Y)


def test_continuous_labels_in_lists():
    with pytest.raises(ValueError, match=r"Unknown label type: continuous\. Row 1 .* 0\.5;"):
        check_candidates([[1, 2], [1, 0.5], [0.5]])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, "Input y contains NaN"),
        (None, "Input y contains NaN"),
        (Missing(), "Input y contains NaN"),
        (np.datetime64("NaT"), "Input y contains NaN"),
        (np.inf, "Input y contains infinity"),
        (-np.inf, "Input y contains infinity"),
        (np.float32(np.inf), "Input y contains infinity"),
    ],
    ids=str,
)
def test_missing_and_infinite_labels(bad, message):
    for Y in ([1, 2, bad, bad], object_array([1, 2, bad]), [{1}, [2], {1, bad}], [[1], [2], [bad]]):
        with pytest.raises(ValueError, match=f"{message}.*: row 2 has the label"):
            check_candidates(Y)
        with pytest.raises(ValueError, match=f"{message}.*: row 2 has the label"):
            check_candidates(Y, classes=[1, 2], unknown="ignore")


def test_missing_and_infinite_numbers():
    for bad, message in ((np.nan, "contains NaN: row 1 "), (-np.inf, "contains infinity .*row 1 ")):
        with pytest.raises(ValueError, match=message):
            check_candidates(np.array([1.0, bad, 2.0]))
    with pytest.raises(ValueError, match="contains NaN: row 1 "):
        check_candidates(np.array(["2020", "NaT"], "M8[D]"))


@pytest.mark.parametrize("Y", [["a", 1], [{"a", 1}, {2}], object_array([1, "a"])], ids=repr)
def test_labels_that_cannot_be_sorted(Y):
    with pytest.raises(TypeError, match=r"different types \(int, str\) cannot be sorted: convert"):
        check_candidates(Y)


def test_rows_of_lists_and_labels():
    with pytest.raises(TypeError, match=r"row 1 of the candidates is 'cat' \(str\), but other"):
        check_candidates([["dog"], "cat"])


@pytest.mark.parametrize("Y", [[{"a": 1}], [[{"a": 1}]], [[("a", "b")]], [[frozenset("a")]]])
def test_things_that_are_no_labels(Y):
    with pytest.raises(TypeError, match=r"row 0 of the candidates has a .* where a label is"):
        check_candidates(Y)


@pytest.mark.parametrize("Y", [[b"a"], [[b"a"]], np.array([b"a"]), np.zeros(1, "i4,i4")], ids=repr)
def test_bytes_and_records(Y):
    with pytest.raises(TypeError, match="labels must be strings or numbers"):
        check_candidates(Y)


# Everything comes back


@given(st.data(), st.integers(1, 9), st.integers(2, 12))
def test_every_form_gives_the_same_matrix(data, n, q):
    matrix = data.draw(candidate_matrices(n, q))
    dtype = data.draw(st.sampled_from([np.bool_, *NUMBERS]))
    order = data.draw(st.sampled_from("CF"))
    dense = np.array(matrix, dtype, order=order)
    assert_candidates(dense, matrix, range(q), n_samples=n)
    container = data.draw(st.sampled_from(SPARSE))
    assert_candidates(container(matrix.astype(float)), matrix, range(q), n_samples=n)
    kinds = st.one_of(
        st.lists(st.text(max_size=4), min_size=q, max_size=q, unique=True),
        st.lists(st.integers(-(2**70), 2**70), min_size=q, max_size=q, unique=True),
        st.lists(st.integers(-9, 9).map(float), min_size=q, max_size=q, unique=True),
    )
    labels = data.draw(kinds)
    assert_candidates(Frame(dense, labels), matrix, labels, n_samples=n)
    outer = data.draw(st.sampled_from([list, tuple, object_array]))
    inner = data.draw(st.sampled_from([list, tuple, set, frozenset, object_array]))
    rows = outer([inner(row) for row in label_sets(matrix, labels)])
    assert_candidates(rows, matrix, labels, n_samples=n, classes=object_array(labels))
    used = sorted(np.flatnonzero(matrix.any(axis=0)), key=labels.__getitem__)
    assert_candidates(rows, matrix[:, used], [labels[j] for j in used], n_samples=n)


@given(st.data(), st.integers(1, 9))
def test_every_form_of_labels_gives_the_same_matrix(data, n):
    labels = data.draw(st.sampled_from([[-3, 0, 8], ["", "a", "bc"], [-1.0, 2.0, 1e15]]))
    picked = data.draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n))
    classes = sorted(set(picked))
    matrix = [[label == a_class for a_class in classes] for label in picked]
    for Y in (picked, tuple(picked), np.array(picked), object_array(picked), [{p} for p in picked]):
        assert_candidates(Y, matrix, classes, n_samples=n)
        known = check_candidates(Y, classes=labels)[0]
        np.testing.assert_array_equal(known, [[p == c for c in labels] for p in picked])


# Series and frames


SETS = [["owl", "cat"], ["dog"], ["cat", "owl", "dog"], ["dog", "dog"]]
LETTERS = ["cat", "dog", "owl"]
SETS_MATRIX = [[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 1, 0]]
PAIRS = [[1, 0], [1, 2], [2, 0]]


def arrow_series(rows, value_type):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    return pandas.Series(rows, dtype=pandas.ArrowDtype(pyarrow.list_(value_type(pyarrow))))


SERIES = {
    "pandas": lambda rows: pytest.importorskip("pandas").Series(
        rows, index=[7, 8, 9, 6][: len(rows)]
    ),
    "polars": lambda rows: pytest.importorskip("polars").Series(rows),
    "arrow": lambda rows: pytest.importorskip("pyarrow").array(rows),
    "chunks": lambda rows: pytest.importorskip("pyarrow").chunked_array([rows[:1], rows[1:]]),
}


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_series_of_lists(series):
    assert_candidates(series(SETS), SETS_MATRIX, LETTERS, n_samples=4)
    # Lists of one length are labels too, even when they look like a matrix.
    assert_candidates(series(PAIRS), [[1, 1, 0], [0, 1, 1], [1, 0, 1]], [0, 1, 2])


def test_pandas_series_of_sets_and_of_arrow_lists():
    pandas = pytest.importorskip("pandas")
    assert_candidates(pandas.Series(list(map(set, SETS))), SETS_MATRIX, LETTERS)
    assert_candidates(arrow_series(SETS, lambda arrow: arrow.string()), SETS_MATRIX, LETTERS)


def test_polars_series_of_sets_and_of_arrays():
    polars = pytest.importorskip("polars")
    sets = polars.Series(list(map(set, SETS)), dtype=polars.Object)
    assert_candidates(sets, SETS_MATRIX, LETTERS)
    pairs = polars.Series([[1, 0], [0, 1]], dtype=polars.Array(polars.Int64, 2))
    assert_candidates(pairs, [[1, 1], [1, 1]], [0, 1])


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_series_of_labels(series):
    assert_candidates(series(["owl", "cat", "owl"]), [[0, 1], [1, 0], [0, 1]], ["cat", "owl"])
    assert_candidates(series([3, 1, 3]), [[0, 1], [1, 0], [0, 1]], [1, 3])


def test_categories():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for series in (
        pandas.Series(["owl", "cat"], dtype="category"),
        polars.Series(["owl", "cat"], dtype=polars.Categorical),
        polars.Series(["owl", "cat"], dtype=polars.Enum(["owl", "cat", "dog"])),
    ):
        assert_candidates(series, [[0, 1], [1, 0]], ["cat", "owl"])


def test_polars_frame():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"owl": [1, 0], "cat": [True, True]})
    assert_candidates(frame, [[1, 1], [0, 1]], ["owl", "cat"])
    assert_candidates(frame, [[1, 1], [1, 0]], ["cat", "owl"], classes=["cat", "owl"])


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_missing_row_in_a_series(series):
    with pytest.raises(ValueError, match="row 1 of the candidates is missing"):
        check_candidates(series([["a"], None, ["b"]]))
    with pytest.raises(ValueError, match=r"row 2 has the label"):
        check_candidates(series([["a"], ["b"], ["a", None]]))


def test_csr_of_many_labels_needs_little_memory():
    n, q = 50_000, 100_000
    rows = [[i % q, (7 * i) % q] for i in range(n)]
    candidates, classes = csr_candidates(rows, classes=np.arange(q))
    assert candidates.shape == (n, q)
    assert candidates.nnz == n + sum(a != b for a, b in rows)
    same, _ = csr_candidates(candidates.tocoo(), classes=classes)
    assert (same != candidates).nnz == 0
    assert not np.shares_memory(same.indices, candidates.indices)

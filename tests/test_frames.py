"""Data frames of every kind give the same bits as arrays, and errors name rows and columns."""

from __future__ import annotations

import datetime
import decimal
import re
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from absent import hide
from problems import clusters, hybrid
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning

from hera_fast import HERAClassifier, HERAClassifierCV, baselines, hera
from hera_fast.candidates import check_candidates, check_labels
from hera_fast.frames import as_frame, column_array, frame_cells, frame_numbers

# Few rows, and candidates that say little.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:PLECOCClassifier found:UserWarning"),
]

n, d, q = 60, 4, 3
X, Y, y = clusters(n, d, q, noise=0.3, spread=0.5)
NAMES = ["länge", "breite", "höhe", "gewicht"]
LABELS = ["owl", "cat", "dog"]  # not sorted
SETS = [[LABELS[j] for j in np.flatnonzero(row)] for row in Y]
TRUE = [LABELS[j] for j in y]

each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def arrow_typed(table):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def in_parts(array, make):
    return [make(array[:7]), make(array[7:8]), make(array[8:])]


def columns(array, names):
    return {name: np.ascontiguousarray(array[:, j]) for j, name in enumerate(names)}


def as_nullable(array, names):
    name = {"b": "boolean", "f": f"Float{8 * array.itemsize}", "i": f"Int{8 * array.itemsize}"}
    return pd.DataFrame(array, columns=names).astype(name[array.dtype.kind])


def of_each_kind(array, names):
    """Columns of NumPy, nullable and Arrow-backed ones in turn."""
    kinds = (as_pandas, as_nullable, as_arrow_pandas)
    frames = [kinds[j % 3](array[:, [j]], [name]) for j, name in enumerate(names)]
    return pd.concat([frame.reset_index(drop=True) for frame in frames], axis=1)


def as_pandas(array, names):
    return pd.DataFrame(array, columns=names, index=range(100, 100 + len(array)))


def as_arrow_pandas(array, names):
    return arrow_typed(pa.table(columns(array, names)))


FRAMES = {
    "pandas": as_pandas,
    "pandas, columns": lambda array, names: pd.DataFrame(columns(array, names)),
    "pandas, nullable": as_nullable,
    "pandas, Arrow": as_arrow_pandas,
    "pandas, mixed": of_each_kind,
    "pandas, objects": lambda array, names: pd.DataFrame(array.astype(object), columns=names),
    "polars": lambda array, names: pl.DataFrame(columns(array, names)),
    "polars, chunks": lambda array, names: pl.concat(
        in_parts(array, lambda part: pl.DataFrame(columns(part, names))), rechunk=False
    ),
    "Arrow": lambda array, names: pa.table(columns(array, names)),
    "Arrow, chunks": lambda array, names: pa.concat_tables(
        in_parts(array, lambda part: pa.table(columns(part, names)))
    ),
    "Arrow, dictionaries": lambda array, names: pa.table(
        {
            name: pa.array(column).dictionary_encode()
            for name, column in columns(array, names).items()
        }
    ),
    "Arrow, batch": lambda array, names: pa.RecordBatch.from_pydict(columns(array, names)),
}
each_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def of_dtype(frame, dtype):
    """Objects have no dtype that could be kept."""
    return np.float64 if frame is FRAMES["pandas, objects"] else dtype


# Rows


def figures(model, rows):
    """What a fitted model knows, and says of rows."""
    found = [
        model.transduction_,
        model.decision_function(rows),
        model.predict(rows),
        model.predict(rows, candidates=SETS),
        np.array(model.score(rows, TRUE)),
    ]
    if hasattr(model, "predict_proba"):
        found += [model.predict_proba(rows), model.predict_proba(rows, candidates=SETS)]
    if hasattr(model, "confidence_"):
        found.append(model.confidence_)
    return found


def assert_same_figures(model, given, rows):
    expected = figures(clone(model).fit(rows, SETS), rows)
    for array, other in zip(figures(clone(model).fit(given, SETS), given), expected, strict=True):
        same(array, other)


@each_frame
@each_dtype
@pytest.mark.parametrize(
    "model", [HERAClassifier(random_state=0), hybrid()], ids=["mixture", "hybrid"]
)
def test_frames_give_the_same_bits_as_arrays(model, frame, dtype):
    rows = X.astype(dtype)
    given = frame(rows, NAMES)
    assert_same_figures(model, given, rows.astype(of_dtype(frame, dtype)))


@pytest.mark.parametrize("name", ["pandas, Arrow", "polars", "Arrow"])
@pytest.mark.parametrize("method", baselines.__all__)
def test_baselines_give_the_same_bits(method, name):
    model = getattr(baselines, method)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    rows = X.astype(np.float32)
    assert_same_figures(model, FRAMES[name](rows, NAMES), rows)


def test_rows_in_blocks_and_the_function_and_the_search():
    table = FRAMES["Arrow"](X, NAMES)
    model = hybrid(block_rows=16, prediction="linear")
    same(clone(model).fit(table, SETS).coef_, clone(model).fit(X, SETS).coef_)
    same(hera(table, SETS)[0], hera(X, SETS)[0])
    search = HERAClassifierCV(param_grid={"n_components": [10, 20]}, cv=2, random_state=0)
    expected = search.fit(X, SETS).predict_proba(X)
    same(search.fit(table, SETS).predict_proba(table), expected)
    assert search.feature_names_in_.tolist() == NAMES


@each_frame
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.bool_])
def test_other_numbers_become_float64(frame, dtype):
    array = np.round(3 * X).astype(dtype)
    model = hybrid().fit(frame(array, NAMES), SETS)
    assert model.coef_.dtype == np.float64
    same(model.coef_, hybrid().fit(array.astype(np.float64), SETS).coef_)


WIDTHS = {
    "float32": ([np.float32, np.float32], np.float32),
    "int8 and float32": ([np.int8, np.float32], np.float32),
    "bool and float32": ([np.bool_, np.float32], np.float32),
    "int32 and float32": ([np.int32, np.float32], np.float64),
    "float32 and float64": ([np.float32, np.float64], np.float64),
    "bool and float64": ([np.bool_, np.float64], np.float64),
}


@pytest.mark.parametrize("form", ["pandas", "nullable", "Arrow-backed", "polars", "Arrow"])
@pytest.mark.parametrize(("dtypes", "expected"), WIDTHS.values(), ids=WIDTHS)
def test_the_common_dtype_is_that_of_numpy(form, dtypes, expected):
    parts = {name: np.array([0, 1, 1], dtype) for name, dtype in zip("ab", dtypes, strict=True)}
    frame = {
        "pandas": lambda: pd.DataFrame(parts),
        "nullable": lambda: pd.concat(
            [as_nullable(part[:, np.newaxis], [name]) for name, part in parts.items()], axis=1
        ),
        "Arrow-backed": lambda: arrow_typed(pa.table(parts)),
        "polars": lambda: pl.DataFrame(parts),
        "Arrow": lambda: pa.table(parts),
    }[form]()
    assert frame_numbers(frame).dtype == expected
    same(frame_numbers(frame), np.column_stack(list(parts.values())).astype(expected))
    rows = hybrid()._validated(frame, reset=True)
    assert rows.dtype == expected
    assert rows.flags.c_contiguous


def test_the_precision_of_the_model_is_that_of_its_training():
    model = hybrid().fit(X.astype(np.float32), SETS)
    for frame in FRAMES.values():
        scores = model.decision_function(X)
        with pytest.warns(UserWarning, match="X has feature names, but HERAClassifier was fitted"):
            same(model.decision_function(frame(X, NAMES)), scores)


def test_a_plain_frame_is_not_copied():
    frame = pd.DataFrame(X, columns=NAMES)
    assert np.shares_memory(frame_numbers(frame), frame.to_numpy())


@each_dtype
def test_sparse_columns_stay_sparse(dtype):
    array = np.where(X > 0, X, 0).astype(dtype)
    frame = pd.DataFrame(array, columns=NAMES).astype(pd.SparseDtype(dtype, 0))
    model = hybrid().fit(frame, SETS)
    rows = hybrid()._validated(frame, reset=True)
    assert sparse.issparse(rows)
    assert rows.dtype == dtype
    same(
        model.predict_proba(frame), hybrid().fit(sparse.csr_array(array), SETS).predict_proba(rows)
    )
    # Beside other columns they are like these; pandas may make them float64.
    frame["breite"] = array[:, 1]
    np.testing.assert_array_equal(frame_numbers(frame), array)


def test_numbers_that_are_objects():
    cells = [1, 2.5, decimal.Decimal("0.1"), np.float32(3), True, np.int8(4), np.False_]
    expected = np.array([[1], [2.5], [0.1], [3], [1], [4], [0]])
    same(frame_numbers(pd.DataFrame({"a": pd.Series(cells, dtype=object)})), expected)
    decimals = [decimal.Decimal("0.1"), decimal.Decimal("2.5")]
    for frame in (pl.DataFrame({"a": decimals}), pa.table({"a": decimals})):
        same(frame_numbers(frame), np.array([[0.1], [2.5]]))
    categories = pd.DataFrame({"a": pd.Categorical([0.5, 2.5, 0.5])})
    same(frame_numbers(categories), np.array([[0.5], [2.5], [0.5]]))


# Names


@each_frame
def test_names_of_features(frame):
    model = hybrid().fit(frame(X, NAMES), SETS)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == d
    swapped = frame(X, ["breite", "länge", "höhe", "gewicht"])
    renamed = frame(X, ["länge", "breite", "tiefe", "gewicht"])
    should = "The feature names should match those that were passed during fit.\n"
    order = f"{should}Feature names must be in the same order as they were in fit."
    unseen = (
        f"{should}Feature names unseen at fit time:\n- tiefe\n"
        "Feature names seen at fit time, yet now missing:\n- höhe"
    )
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match=f"^{re.escape(order)}"):
            method(swapped)
        with pytest.raises(ValueError, match=f"^{re.escape(unseen)}"):
            method(renamed)
    with pytest.raises(ValueError, match=f"^{re.escape(unseen)}"):
        model.score(renamed, TRUE)
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- alter"):
        model.predict(frame(np.hstack([X, X[:, :1]]), [*NAMES, "alter"]))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


@each_frame
def test_every_kind_of_frame_knows_the_names_of_the_others(frame):
    model = hybrid().fit(FRAMES["Arrow"](X, NAMES), SETS)
    same(model.predict(frame(X, NAMES)), model.predict(FRAMES["Arrow"](X, NAMES)))


def test_a_column_more_is_named_before_its_contents():
    model = hybrid().fit(FRAMES["polars"](X, NAMES), SETS)
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- label"):
        model.predict(FRAMES["polars"](X, NAMES).with_columns(label=pl.lit("owl")))


def test_names_that_are_numbers_are_no_names_of_features():
    frame = pd.DataFrame(X)
    model = hybrid().fit(frame, SETS)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match=r"X has 3 features, but HERAClassifier is expecting 4"):
        model.predict(frame[[0, 1, 2]])


def test_names_of_attributes():
    """Columns of pandas can be had as attributes."""
    names = ["column_names", "get_columns", "type", "sparse"]
    same(hybrid().fit(pd.DataFrame(X, columns=names), SETS).coef_, hybrid().fit(X, SETS).coef_)
    mixed = pd.DataFrame(X, columns=names).astype({"type": "Float64"})
    same(frame_numbers(mixed), X)


# What is wrong with rows


NUMBERS = [0.5, -1.0, None, 2.0]
WHOLE = [3, -1, None, 2]
TRUTHS = [True, False, None, True]
NOTHING = [None] * 4


def pandas_column(column, dtype):
    return pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": pd.Series(column, dtype=dtype)})


def arrow_column(column):
    return pa.table({"a": [1.0, 2.0, 3.0, 4.0], "b": column})


def polars_column(column, dtype=None):
    return pl.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": pl.Series(column, dtype=dtype)})


def encoded(column):
    return pa.array(column).dictionary_encode()


# All with the first missing entry in row 2 of column "b".
MISSING = {
    "pandas, NaN": pandas_column(NUMBERS, "float64"),
    "pandas, float32": pandas_column(NUMBERS, "float32").astype("float32"),
    "pandas, None": pandas_column(WHOLE, object),
    "pandas, NA": pandas_column([1, 2, pd.NA, 3], object),
    "pandas, Float64": pandas_column(NUMBERS, "Float64"),
    "pandas, Float32": pandas_column(NUMBERS, "Float32"),
    "pandas, Int64": pandas_column(WHOLE, "Int64"),
    "pandas, only Int8": pandas_column(WHOLE, "Int8").astype("Int8"),
    "pandas, boolean": pandas_column(TRUTHS, "boolean"),
    "pandas, category": pandas_column(NUMBERS, "category"),
    "pandas, Arrow double": pandas_column(NUMBERS, "double[pyarrow]"),
    "pandas, Arrow int": pandas_column(WHOLE, "int64[pyarrow]"),
    "pandas, Arrow bool": pandas_column(TRUTHS, "bool[pyarrow]"),
    "pandas, Arrow dictionary": arrow_typed(arrow_column(encoded(NUMBERS))),
    "polars, float": polars_column(NUMBERS),
    "polars, NaN": polars_column([1.0, 2.0, np.nan, 3.0]),
    "polars, float32": polars_column(NUMBERS, pl.Float32),
    "polars, int": polars_column(WHOLE),
    "polars, bool": polars_column(TRUTHS),
    "Arrow, double": arrow_column(NUMBERS),
    "Arrow, float": arrow_column(pa.array(NUMBERS, pa.float32())),
    "Arrow, int": arrow_column(WHOLE),
    "Arrow, bool": arrow_column(TRUTHS),
    "Arrow, decimal": arrow_column([None if v is None else decimal.Decimal(v) for v in WHOLE]),
    "Arrow, chunks": arrow_column(pa.chunked_array([NUMBERS[:1], NUMBERS[1:]])),
    "Arrow, dictionary": arrow_column(encoded(NUMBERS)),
    "Arrow, dictionary of bool": arrow_column(encoded(TRUTHS)),
    "Arrow, batch": pa.RecordBatch.from_pydict({"a": [1.0, 2.0, 3.0, 4.0], "b": WHOLE}),
}


@pytest.mark.parametrize("frame", MISSING.values(), ids=MISSING)
def test_missing_numbers(frame):
    where = re.escape(
        "Input X contains NaN. The first such entry is in row 2, column 1 ('b'); there are 1. "
        "Remove these rows, or put a sklearn.impute.SimpleImputer in front."
    )
    labels = ["cat", "owl", "cat", "owl"]
    for model in (hybrid(), baselines.PLKNNClassifier()):
        with pytest.raises(ValueError, match=f"^{where}$"):
            model.fit(frame, labels)
        model.fit(pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "b": [1.0, 0.0, 2.0, 0.0]}), labels)
        for method in (model.predict, model.predict_proba, model.decision_function):
            with pytest.raises(ValueError, match=f"^{where}$"):
                method(frame)
        with pytest.raises(ValueError, match=f"^{where}$"):
            model.score(frame, labels)


@pytest.mark.parametrize(
    "frame",
    [
        pandas_column(NOTHING, object),
        pandas_column(NOTHING, "double[pyarrow]"),
        polars_column(NOTHING),
        arrow_column(pa.nulls(4)),
        arrow_column(encoded(NOTHING)),
    ],
    ids=["pandas", "pandas, Arrow", "polars", "Arrow", "Arrow, dictionary"],
)
def test_columns_without_numbers(frame):
    with pytest.raises(ValueError, match=r"row 0, column 1 \('b'\); there are 4\."):
        hybrid().fit(frame, ["cat", "owl", "cat", "owl"])


@each_frame
def test_infinite_and_huge_numbers(frame):
    for value, message in ((np.inf, "infinity"), (1e200, r"1e\+200")):
        bad = X.copy()
        bad[5, 2] = value
        with pytest.raises(ValueError, match=rf"(?s){message}.*row 5, column 2 \('höhe'\)"):
            hybrid().fit(frame(bad, NAMES), SETS)


NOON = datetime.datetime(2020, 1, 1, 12)
CELLS = {
    "text": (["x", "y"], r"str, 'x' in row 0"),
    "text after a gap": ([None, "y"], r"str, 'y' in row 1"),
    "digits": (["1.5", "2"], r"str, '1\.5' in row 0"),
    "bytes": ([b"x", b"y"], r"bytes, b'x' in row 0"),
    "times": ([NOON, NOON], r"datetime64\[us\]"),
    "times of day": ([NOON.time(), NOON.time()], r"time, datetime\.time\(12, 0\) in row 0"),
    "durations": ([datetime.timedelta(1)] * 2, r"timedelta64\[us\]"),
    "lists": ([[1.0], [1.0, 2.0]], r"(list|ndarray), .*1\.\S* in row 0"),
    "records": ([{"x": 1}, {"x": 2}], r"(dict, \{'x': 1\}|ndarray, array\(\[1\]\)) in row 0"),
}
LIBRARIES = {
    "pandas": lambda parts: pd.DataFrame(parts),
    "pandas, Arrow": lambda parts: arrow_typed(pa.table(parts)),
    "polars": lambda parts: pl.DataFrame(parts),
    "Arrow": lambda parts: pa.table(parts),
}


def refused(contents):
    return (
        rf"^X must hold numbers, but column 1 \('b'\) holds {contents}\. "
        "Encode the column as numbers, or drop it$"
    )


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize(("cells", "contents"), CELLS.values(), ids=CELLS)
def test_columns_that_hold_no_numbers(library, cells, contents):
    frame = library({"a": [1.0, 2.0], "b": cells, "c": ["neither", "nor"]})
    model = hybrid().fit(library({"a": [1.0, 2.0], "b": [0, 1], "c": [0, 1]}), ["cat", "owl"])
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match=refused(contents)):
            method(frame)
    for other in (hybrid(), baselines.PLKNNClassifier()):
        with pytest.raises(ValueError, match=refused(contents)):
            other.fit(frame, ["cat", "owl"])


OTHER_CELLS = {
    "pandas, string": (pd.Series(["x", "y"], dtype="string"), "str, 'x' in row 0"),
    "pandas, category": (pd.Series(["x", "y"], dtype="category"), "str, 'x' in row 0"),
    "pandas, complex": (pd.Series([1j, 2j]), "complex128"),
    "pandas, days": (pd.Series([NOON.date()] * 2), r"date, datetime\.date\(2020, 1, 1\) in row 0"),
    "pandas, numbers and text": (pd.Series([1, "y"], dtype=object), "str, 'y' in row 1"),
    "polars, category": (pl.Series(["x", "y"], dtype=pl.Categorical), "str, 'x' in row 0"),
    "polars, days": (pl.Series([NOON.date()] * 2), r"datetime64\[D\]"),
    "polars, arrays": (
        pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
        r"ndarray, array\(\[1, 2\]\) in row 0",
    ),
    "Arrow, days": (pa.array([NOON.date()] * 2), r"datetime64\[D\]"),
    "Arrow, dictionary": (encoded(["x", "y"]), "str, 'x' in row 0"),
}


@pytest.mark.parametrize(("column", "contents"), OTHER_CELLS.values(), ids=OTHER_CELLS)
def test_other_columns_that_hold_no_numbers(column, contents):
    library = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
    package = type(column).__module__.partition(".")[0]
    frame = library[package]({"a": [1.0, 2.0], "b": column})
    with pytest.raises(ValueError, match=refused(contents)):
        hybrid().fit(frame, ["cat", "owl"])


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_frames_of_times_only(library):
    with pytest.raises(ValueError, match=r"column 0 \('a'\) holds datetime64\[us\]"):
        hybrid().fit(library({"a": [NOON, NOON], "b": [NOON, NOON]}), ["cat", "owl"])


EMPTY = {
    "pandas, no column": (pd.DataFrame(index=range(2)), r"0 feature\(s\)"),
    "polars, no column": (pl.DataFrame(), r"0 sample\(s\)"),
    "Arrow, no column": (pa.table({}), r"0 sample\(s\)"),
    "pandas, no row": (as_pandas(X[:0], NAMES), r"0 sample\(s\)"),
    "pandas, Arrow, no row": (as_arrow_pandas(X[:0], NAMES), r"0 sample\(s\)"),
    "polars, no row": (FRAMES["polars"](X, NAMES)[:0], r"0 sample\(s\)"),
    "Arrow, no row": (FRAMES["Arrow"](X, NAMES)[:0], r"0 sample\(s\)"),
}


@pytest.mark.parametrize(("frame", "message"), EMPTY.values(), ids=EMPTY)
def test_empty_frames(frame, message):
    with pytest.raises(ValueError, match=message):
        hybrid().fit(frame, ["cat", "owl"])


@pytest.mark.parametrize(
    "column",
    [pd.Series(X[:, 0]), pl.Series(X[:, 0]), pa.array(X[:, 0]), pa.chunked_array([X[:, 0]])],
)
def test_a_series_is_no_frame(column):
    assert as_frame(column) is None
    with pytest.raises(ValueError, match=r"Expected (2D array|a 2-dimensional container)"):
        hybrid().fit(column, SETS)


def test_other_things_are_no_frames(monkeypatch):
    for thing in (X, X.tolist(), sparse.csr_array(X), None, "pandas", {"a": [1]}):
        assert as_frame(thing) is None
    frame = as_pandas(X, NAMES)
    assert as_frame(frame) is frame
    hide(monkeypatch, "pandas")
    assert as_frame(frame) is None
    monkeypatch.setitem(sys.modules, "polars", None)
    assert as_frame(X) is None


# Candidates


def list_of_dictionaries(rows):
    offsets = np.cumsum([0, *map(len, rows)])
    labels = pa.array([label for row in rows for label in row])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), labels.dictionary_encode())


LISTS = {
    "pandas": lambda rows: pd.Series(rows, index=range(100, 100 + len(rows))),
    "pandas, Arrow": lambda rows: pd.Series(rows, dtype=pd.ArrowDtype(pa.list_(pa.string()))),
    "pandas, column": lambda rows: pd.DataFrame({"y": rows})["y"],
    "pandas, column, Arrow": lambda rows: arrow_typed(pa.table({"y": rows}))["y"],
    "polars": pl.Series,
    "polars, column": lambda rows: pl.DataFrame({"y": rows})["y"],
    "polars, categories": lambda rows: pl.Series(rows, dtype=pl.List(pl.Categorical)),
    "Arrow": pa.array,
    "Arrow, large": lambda rows: pa.array(rows, pa.large_list(pa.string())),
    "Arrow, chunks": lambda rows: pa.chunked_array([rows[:1], rows[1:]]),
    "Arrow, column": lambda rows: pa.table({"y": rows})["y"],
}
ONES = {
    **{f"bool, {name}": (form, np.bool_) for name, form in FRAMES.items()},
    **{f"int8, {name}": (form, np.int8) for name, form in FRAMES.items()},
    "float64, polars": (FRAMES["polars"], np.float64),
    "float64, Arrow": (FRAMES["Arrow"], np.float64),
}
FORMS = {f"lists, {name}": form(SETS) for name, form in LISTS.items()}
FORMS["lists of dictionaries"] = list_of_dictionaries(SETS)
FORMS |= {f"ones, {name}": form(Y.astype(dtype), LABELS) for name, (form, dtype) in ONES.items()}
FORMS["ones, mixed"] = pd.DataFrame(
    {
        "owl": Y[:, 0],
        "cat": pd.array(Y[:, 1], dtype="Int8"),
        "dog": pd.array(Y[:, 2], dtype="bool[pyarrow]"),
    }
)


@pytest.mark.parametrize("given", FORMS.values(), ids=FORMS)
def test_candidates_in_every_form(given):
    candidates, classes = check_candidates(given)
    order = [LABELS.index(label) for label in classes]
    same(candidates, Y[:, order])
    assert classes.dtype.kind == "U"
    known, _ = check_candidates(given, classes=["dog", "owl", "cat"])
    same(known, Y[:, [2, 0, 1]])


@pytest.mark.parametrize("name", ["lists, polars", "lists, Arrow, chunks", "ones, int8, Arrow"])
@pytest.mark.parametrize("method", ["HERAClassifier", "PLKNNClassifier", "CLPLClassifier"])
def test_candidates_of_a_fit(method, name):
    model = HERAClassifier() if method == "HERAClassifier" else getattr(baselines, method)()
    given, table = FORMS[name], FRAMES["polars"](X, NAMES)
    # A frame of zeros and ones says the order of the labels.
    array = pd.DataFrame(Y, columns=LABELS) if name.startswith("ones") else SETS
    model.fit(X, array)
    picked, best = model.transduction_, model.predict(X, candidates=SETS)
    covered = model.score(X, SETS)
    model.fit(table, given)
    same(model.transduction_, picked)
    same(model.predict(table, candidates=given), best)
    assert model.score(table, given) == covered


@pytest.mark.parametrize("given", FORMS.values(), ids=FORMS)
def test_candidates_of_a_prediction(given):
    model = hybrid().fit(X, SETS)
    same(model.predict(X, candidates=given), model.predict(X, candidates=SETS))
    same(model.predict_proba(X, candidates=given), model.predict_proba(X, candidates=SETS))
    assert model.score(X, given) == model.score(X, SETS)


SERIES = {
    "pandas": pd.Series,
    "pandas, objects": lambda labels: pd.Series(labels, dtype=object),
    "pandas, string": lambda labels: pd.Series(labels, dtype="string"),
    "pandas, Arrow": lambda labels: pd.Series(labels, dtype=pd.ArrowDtype(pa.string())),
    "pandas, category": lambda labels: pd.Series(labels, dtype="category"),
    "pandas, Arrow, dictionary": lambda labels: arrow_typed(pa.table({"y": encoded(labels)}))["y"],
    "polars": pl.Series,
    "polars, category": lambda labels: pl.Series(labels, dtype=pl.Categorical),
    "polars, enumeration": lambda labels: pl.Series(labels, dtype=pl.Enum(["dog", *LABELS[:2]])),
    "Arrow": pa.array,
    "Arrow, dictionary": encoded,
    "Arrow, chunks": lambda labels: pa.chunked_array([labels[:1], labels[1:]]),
    "Arrow, column, dictionary": lambda labels: pa.table({"y": encoded(labels)})["y"],
}
each_series = pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)


@each_series
def test_one_label_for_each_row(series):
    labels = series(TRUE)
    model, expected = hybrid().fit(X, labels), hybrid().fit(X, TRUE)
    assert model.classes_.tolist() == sorted(LABELS)
    same(model.predict_proba(X), expected.predict_proba(X))
    assert model.score(X, labels) == expected.score(X, TRUE)
    same(check_labels(labels)[0], np.array([sorted(LABELS).index(label) for label in TRUE]))


@each_series
def test_missing_labels(series):
    labels = series([*TRUE[:5], None, *TRUE[6:]])
    # None, nan or <NA>: what the series has there.
    message = (
        r"^Input y contains NaN: row 5 has the label \S+\. Drop the row, or name its candidates$"
    )
    with pytest.raises(ValueError, match=message):
        hybrid().fit(X, labels)
    with pytest.raises(ValueError, match=message):
        hybrid().fit(X, SETS).predict(X, candidates=labels)
    with pytest.raises(ValueError, match=message):
        check_labels(labels)


NUMBERED = {
    "pandas": lambda labels: pd.Series(labels, dtype="Int64"),
    "pandas, Arrow": lambda labels: pd.Series(labels, dtype="int64[pyarrow]"),
    "polars": pl.Series,
    "Arrow, chunks": lambda labels: pa.chunked_array([labels[:1], labels[1:]]),
    "Arrow, column, dictionary": lambda labels: pa.table({"y": encoded(labels)})["y"],
}


@pytest.mark.parametrize("series", NUMBERED.values(), ids=NUMBERED)
def test_labels_that_are_numbers(series):
    candidates, classes = check_candidates(series([3, 1, 3]))
    assert classes.tolist() == [1, 3]
    assert classes.dtype.kind == "i"
    assert candidates.tolist() == [[False, True], [True, False], [False, True]]
    with pytest.raises(ValueError, match="contains NaN: row 1 has the label nan"):
        check_candidates(series([3, None, 1]))


@pytest.mark.parametrize("form", LISTS.values(), ids=LISTS)
def test_missing_candidates(form):
    rows = form([*SETS[:5], None, *SETS[6:]])
    missing = (
        r"^row 5 of the candidates is missing \((None|nan|<NA>)\)\. Drop it, or make every label a "
        "candidate where nothing is known$"
    )
    with_gap = form([*SETS[:5], ["owl", None], *SETS[6:]])
    gap = "^Input y contains NaN: row 5 has the label None. Drop the row, or name its candidates$"
    model = hybrid().fit(X, SETS)
    for given, message in ((rows, missing), (with_gap, gap)):
        for learner in (hybrid(), baselines.PLKNNClassifier()):
            with pytest.raises(ValueError, match=message):
                learner.fit(X, given)
        for method in (model.predict, model.predict_proba):
            with pytest.raises(ValueError, match=message):
                method(X, candidates=given)
        with pytest.raises(ValueError, match=message):
            model.score(X, given)
    empty = form([*SETS[:5], [], *SETS[6:]])
    with pytest.raises(ValueError, match="1 of 60 rows have no candidates: row 5"):
        hybrid().fit(X, empty)
    # Nothing is known of this row.
    same(model.predict(X[5:6], candidates=empty[5:6]), model.predict(X[5:6]))


TRUTH_FRAMES = {
    "pandas, NaN": pd.DataFrame({"owl": [1, 0, 1], "cat": [1, None, 0]}),
    "pandas, Int8": pd.DataFrame({"owl": [1, 0, 1], "cat": [1, None, 0]}, dtype="Int8"),
    "pandas, boolean": pd.DataFrame(
        {"owl": [True] * 3, "cat": [True, None, False]}, dtype="boolean"
    ),
    "pandas, Arrow": arrow_typed(pa.table({"owl": [True] * 3, "cat": [True, None, False]})),
    "polars": pl.DataFrame({"owl": [True] * 3, "cat": [True, None, False]}),
    "Arrow": pa.table({"owl": [True] * 3, "cat": [True, None, False]}),
    "Arrow, int": pa.table({"owl": [1, 0, 1], "cat": [1, None, 0]}),
    "Arrow, dictionary": pa.table({"owl": [1, 0, 1], "cat": encoded([1, None, 0])}),
}


@pytest.mark.parametrize("frame", TRUTH_FRAMES.values(), ids=TRUTH_FRAMES)
def test_missing_zeros_and_ones(frame):
    message = r"^Input y contains NaN: candidates, row 1, column 1\. Write 0 or 1 there$"
    with pytest.raises(ValueError, match=message):
        hybrid().fit(X[:3], frame)
    with pytest.raises(ValueError, match=message):
        hybrid().fit(X, np.array(["cat", "owl"])[y % 2]).predict(X[:3], candidates=frame)


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_frames_that_hold_no_zeros_and_ones(library):
    with pytest.raises(ValueError, match="0 or 1, got 2 in row 1, column 1"):
        check_candidates(library({"owl": [1, 0], "cat": [1, 2]}))
    with pytest.raises(ValueError, match="0 or 1, got 'x' in row 0, column 1"):
        check_candidates(library({"owl": [1, 0], "cat": ["x", "y"]}))
    with pytest.raises(ValueError, match="no column 'dog', which is one of the classes"):
        check_candidates(library({"owl": [1, 0], "cat": [1, 1]}), classes=["dog", "cat"])
    with pytest.raises(ValueError, match=r"found 2 rows of candidates for 3 rows of X"):
        check_candidates(library({"owl": [1, 0], "cat": [1, 1]}), n_samples=3)
    with pytest.raises(ValueError, match="there are no rows of candidates"):
        check_candidates(library({"owl": [1, 0], "cat": [1, 1]})[:0])


def test_names_of_labels():
    twice = pa.Table.from_arrays([pa.array([1, 0])] * 2, names=["cat", "cat"])
    for frame in (twice, pd.DataFrame([[1, 1], [0, 0]], columns=["cat", "cat"])):
        with pytest.raises(ValueError, match="two columns of the candidates have the name 'cat'"):
            check_candidates(frame)
    _, classes = check_candidates(pd.DataFrame(Y, columns=[7, 3, 5]))
    assert classes.tolist() == [7, 3, 5]


COLUMN = {
    "lists": [["owl", "cat"], ["dog"]],
    "lists of one length": [[3, 1], [1, 2]],
    "labels": ["owl", "cat"],
    "numbers": [3, 1],
    "truth values": [True, False],
}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("cells", COLUMN.values(), ids=COLUMN)
def test_a_single_column_holds_labels(library, cells):
    with pytest.warns(DataConversionWarning, match="column-vector"):
        found, classes = check_candidates(library({"y": cells}))
    expected, labels = check_candidates(cells)
    same(found, expected)
    same(classes, labels)


def test_a_single_column_of_another_kind_holds_labels():
    objects = pd.DataFrame({"y": pd.Series([3, 1], dtype=object)})
    arrays = pl.DataFrame({"y": pl.Series([[3, 1], [1, 2]], dtype=pl.Array(pl.Int64, 2))})
    with pytest.warns(DataConversionWarning):
        _, classes = check_candidates(objects)
    same(classes, np.array([1, 3]))
    with pytest.warns(DataConversionWarning):
        candidates, _ = check_candidates(arrays)
    assert candidates.tolist() == [[True, False, True], [True, True, False]]


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_a_single_class(library):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        candidates, _ = check_candidates(library({"owl": [True, True]}), classes=["owl"])
    assert candidates.tolist() == [[True], [True]]


# What the module gives


def test_cells():
    names, cells = frame_cells(pa.table({"owl": [1, 0], "cat": [True, False]}))
    assert names == ["owl", "cat"]
    same(cells, np.array([[1, 1], [0, 0]]))
    _, cells = frame_cells(pl.DataFrame({"owl": [1, 0], "cat": ["x", None]}))
    assert cells.dtype == object
    assert cells.tolist() == [[1, "x"], [0, None]]


def test_missing_entries_of_a_dictionary_stay_missing():
    for cells in (["owl", None, "cat"], [True, None, False]):
        for column in (encoded(cells), pa.chunked_array([encoded(cells), encoded(cells)])):
            assert column_array(column)[:3].tolist() == cells
    same(column_array(pa.chunked_array([encoded([1.5, None])])), np.array([1.5, np.nan]))

"""Parquet files as data frames write them, and as they are written here."""

from __future__ import annotations

import io
import json
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bunches import CANDIDATES, NAMES, TARGET, assert_same, example
from pyarrow import parquet

from hera_fast import expansion, extras
from hera_fast.bunch import make_bunch
from hera_fast.data_files import load_partial_labels, save_partial_labels
from hera_fast.parquet_files import read_parquet, write_parquet

SETS = [["cat", "owl"], ["dog"], ["owl", "cat", "dog"], ["owl"]]
TRUTH = ["owl", "dog", "cat", "owl"]
X = [0.5, None, 2.0, 3.0]


def read(columns, *, candidate_column=None, target_column=None, separator="|"):
    file = io.BytesIO()
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    parquet.write_table(table, file, compression="zstd")
    parts = read_parquet(
        file,
        candidate_column=candidate_column,
        target_column=target_column,
        separator=separator,
    )
    return make_bunch(**parts)


def refused(columns, reason, **options):
    with pytest.raises(ValueError, match=reason):
        read(columns, **options)


def assert_animals(bunch):
    assert bunch.target_names.tolist() == ["cat", "dog", "owl"]
    np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)
    assert bunch.target.tolist() == TARGET.tolist()
    np.testing.assert_array_equal(bunch.data, np.array(X, float)[:, None])
    assert bunch.feature_names == ["x"]


TYPES = {
    "list": pa.list_(pa.string()),
    "large_list": pa.large_list(pa.large_string()),
    "dictionary": pa.list_(pa.dictionary(pa.int8(), pa.string())),
}


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("truth", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_lists(kind, truth):
    target = (
        pa.array(TRUTH).cast(truth) if truth == pa.string() else pa.array(TRUTH).dictionary_encode()
    )
    assert_animals(read({"x": X, "candidates": pa.array(SETS, kind), "target": target}))


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_cells_of_text(kind):
    cells = pa.array([" ; ".join(labels) for labels in SETS])
    cells = cells.dictionary_encode() if kind == "dictionary" else cells.cast(kind)
    columns = {"x": X, "labels": cells, "truth": TRUTH}
    options = {"candidate_column": "labels", "target_column": "truth", "separator": ";"}
    assert_animals(read(columns, **options))


@pytest.mark.parametrize("truth", [[10, 9, 9, 2], ["10", " 9", "9 ", "2"]])
def test_truth_beside_cells_of_text_is_text_as_in_csv_files(truth, tmp_path):
    frame = pd.DataFrame({"x": X, "candidates": ["10", "9", "10 | 9", "2"], "target": truth})
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False)
    bunch = load_partial_labels(tmp_path / "x.parquet")
    assert bunch.target_names.tolist() == ["2", "9", "10"]
    assert bunch.target.tolist() == [2, 1, 1, 0]
    assert_same(bunch, load_partial_labels(tmp_path / "x.csv"))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
def test_integer_labels(kind):
    bunch = read(
        {
            "x": X,
            "candidates": pa.array([[10], [9], [9, 10], [2]], pa.list_(kind)),
            "target": [10, 9, 9, 2],
        }
    )
    assert bunch.target_names.tolist() == [2, 9, 10]
    assert bunch.target_names.dtype.kind == "i"
    assert bunch.target.tolist() == [2, 1, 1, 0]


def test_lists_of_fixed_size():
    bunch = read(
        {"x": X[:2], "candidates": pa.array([["b", "a"], ["c", "a"]], pa.list_(pa.string(), 2))}
    )
    assert bunch.candidates.toarray().astype(int).tolist() == [[1, 1, 0], [1, 0, 1]]


def test_labels_twice_in_a_row():
    bunch = read({"x": [1.0], "candidates": [["a", "b", "a"]]})
    assert bunch.candidates.toarray().tolist() == [[True, True]]


@pytest.mark.parametrize("kind", [*TYPES.values(), None], ids=[*TYPES, "text"])
def test_several_row_groups(kind, tmp_path):
    candidates = pa.array(SETS, kind) if kind else ["|".join(labels) for labels in SETS]
    table = pa.table({"x": X, "candidates": candidates, "target": TRUTH})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=1)
    assert_animals(load_partial_labels(tmp_path / "x.parquet"))


@pytest.mark.parametrize("row_group_size", [None, 500])
def test_labels_that_no_dictionary_holds(row_group_size, tmp_path):
    """Parquet begins with a dictionary, and goes on without when it gets too large."""
    path = tmp_path / "x.parquet"
    labels = [[f"{row:0100}", "z"] for row in range(2000)]
    table = pa.table({"x": np.zeros(2000), "candidates": labels, "target": [b for _, b in labels]})
    parquet.write_table(
        table,
        path,
        row_group_size=row_group_size,
        dictionary_pagesize_limit=1000,
        write_batch_size=100,
    )
    encodings = parquet.read_metadata(path).row_group(0).column(1).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    bunch = load_partial_labels(path)
    assert bunch.target_names.tolist() == sorted({name for pair in labels for name in pair})
    assert bunch.candidates.sum(axis=1).tolist() == [2] * 2000
    assert (bunch.target == 2000).all()


def test_several_chunks():
    table = pa.table({"x": X, "candidates": SETS, "target": TRUTH})
    assert_animals(read(pa.concat_tables([table[:1], table[1:1], table[1:]])))


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.uint8(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(5, 2)]
)
def test_types_of_features(kind):
    column = pa.array([1, 0, None, 1]).cast(pa.int8()).cast(kind)
    bunch = read({"a": column, "b": column, "candidates": SETS})
    assert bunch.data.dtype == (np.float32 if kind == pa.float32() else np.float64)
    np.testing.assert_array_equal(bunch.data[:, 0], [1, 0, np.nan, 1])
    np.testing.assert_array_equal(bunch.data[:, 1], bunch.data[:, 0])


def test_single_and_double_precision():
    bunch = read({"a": pa.array([0.1], pa.float32()), "b": [0.1], "candidates": [["x"]]})
    assert bunch.data.tolist() == [[float(np.float32(0.1)), 0.1]]


def test_pandas_and_its_index(tmp_path):
    frame = pd.DataFrame({"x": X, "candidates": SETS, "target": TRUTH})
    for index in (None, [5, 2, 3, 9], ["a", "b", "c", "d"]):
        if index is not None:
            frame = frame.set_axis(index)
        frame.to_parquet(tmp_path / "x.parquet")
        assert_animals(load_partial_labels(tmp_path / "x.parquet"))


def test_polars(tmp_path):
    pl.DataFrame({"x": X, "candidates": SETS, "target": TRUTH}).write_parquet(
        tmp_path / "x.parquet"
    )
    assert_animals(load_partial_labels(tmp_path / "x.parquet"))


# What is written


def test_what_others_find_in_the_file():
    file = io.BytesIO()
    write_parquet(file, example())
    table = parquet.read_table(file)
    assert table.column_names == ["candidates", "target", "weight", "größe (m)"]
    assert table["candidates"].to_pylist()[0] == ["cat", "owl, big"]
    assert table["target"].to_pylist() == [NAMES[column] for column in TARGET]
    saved = json.loads(table.schema.metadata[b"hera-fast"])
    assert saved == {"target_names": NAMES, "DESCR": example().DESCR}
    assert not file.closed


def test_part_of_a_saved_table_keeps_the_labels(tmp_path):
    path = tmp_path / "x.parquet"
    save_partial_labels(path, example(target_names=["z", "y", "x"]))
    table = parquet.read_table(path)
    parquet.write_table(table[:1], path)
    bunch = load_partial_labels(path)
    assert bunch.target_names.tolist() == ["z", "y", "x"]
    assert bunch.DESCR.startswith("Partial-label data: 1 row, ")


def test_other_labels_than_those_that_were_saved(tmp_path):
    path = tmp_path / "x.parquet"
    save_partial_labels(path, example(target_names=["z", "y", "x"], target=None))
    table = parquet.read_table(path)
    table = table.set_column(0, "candidates", [[["b"], ["c", "a"], ["z"], ["a"]]])
    parquet.write_table(table, path)
    assert load_partial_labels(path).target_names.tolist() == ["a", "b", "c", "z"]


def test_without_pyarrow(tmp_path, monkeypatch):
    def without(name):
        raise ImportError(f"no {name}")

    path = tmp_path / "x.parquet"
    save_partial_labels(path, example())
    monkeypatch.setattr(extras, "import_module", without)
    reason = r"a Parquet file needs pyarrow: pip install 'hera-fast\[files\]'"
    with pytest.raises(ImportError, match=rf"x\.parquet: {reason}"):
        load_partial_labels(path)
    path.unlink()
    with pytest.raises(ImportError, match=reason):
        save_partial_labels(path, example())
    assert list(tmp_path.iterdir()) == []


# What is refused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"candidates": [["a"], [], ["b"], ["a"]]},
            "row 1, column 'candidates': there are no cand",
        ),
        ({"candidates": [["a"], ["b"], None, ["a"]]}, "row 2, column 'candidates': there are no"),
        ({"candidates": [["a"], ["b"], ["a", None], ["a"]]}, "row 2, .*: a candidate is missing"),
        ({"candidates": ["a", "b", None, "a"]}, "row 2, column 'candidates': there are no cand"),
        ({"candidates": ["a", "b", "a|", "a"]}, r"row 2, .*: there is an empty label in 'a\|'"),
        ({"candidates": [1, 2, 3, 4]}, "column 'candidates': .* lists .* but .* of type int64"),
        ({"candidates": [[0.5]] * 4}, r"labels must be strings or integers, not list<\w+: double>"),
        ({"candidates": [[True]] * 4}, "labels must be strings or integers"),
        ({"candidates": [[["a"]]] * 4}, "labels must be strings or integers"),
        ({"target": ["a", "a", "a", "a"]}, "row 0, column 'target': the true label is 'a', which"),
        (
            {"target": ["cat", "dog", None, "a"]},
            "row 2, column 'target': the true label is missing",
        ),
        ({"target": [1, 1, 1, 1]}, "row 0, column 'target': the true label is 1, which is not"),
        (
            {"candidates": ["cat", "dog", "owl", "owl"], "target": ["cat", "dog", None, "owl"]},
            "row 2, column 'target': the true label is missing",
        ),
        ({"x": ["1", "2", "3", "4"]}, "column 'x' holds string, but features are numbers"),
        ({"x": [[1.0]] * 4}, r"column 'x' holds list<\w+: double>, but features are numbers"),
        ({"x": [1.0, 2.0, float("inf"), 3.0]}, r"infinity in row 2, column 0 \('x'\)"),
        ({"target": None, "x": None}, "there is no column with a feature"),
        ({"candidates": None}, "no column 'candidates'. The columns are 'x', 'target'"),
    ],
)
def test_columns_that_make_no_sense(changes, reason):
    columns = {"x": X, "candidates": SETS, "target": TRUTH} | changes
    refused({name: column for name, column in columns.items() if column is not None}, reason)


def test_no_rows():
    refused(pa.table({"x": X, "candidates": SETS})[:0], "there is no row in the table")


def test_missing_columns():
    refused({"x": X, "candidates": SETS}, "no column 'y'", target_column="y")
    refused({"x": X, "candidates": SETS}, "no column 'y'", candidate_column="y")


@pytest.mark.parametrize("saved", [b"[]", b"{", b'{"target_names": 3}', b"\xff"])
def test_damaged_metadata(saved, tmp_path):
    table = pa.table({"x": X, "candidates": SETS})
    parquet.write_table(
        table.replace_schema_metadata({b"hera-fast": saved}), tmp_path / "x.parquet"
    )
    with pytest.raises(ValueError, match=r"x\.parquet: "):
        load_partial_labels(tmp_path / "x.parquet")


def test_a_long_text_in_many_rows_takes_memory_once():
    """The cells would be 1 GB."""
    text, n = "a" * 10**5, 10**4
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([text]))
    lists = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32), cells)
    for candidates in (cells, lists):
        tracemalloc.start()
        before = pa.default_memory_pool().max_memory()
        bunch = read({"x": np.zeros(n), "candidates": candidates, "target": cells})
        assert pa.default_memory_pool().max_memory() - before < 10**7
        assert tracemalloc.get_traced_memory()[1] < 10**7
        tracemalloc.stop()
        assert bunch.target_names.tolist() == [text]
        assert bunch.target.tolist() == [0] * n


@pytest.mark.parametrize("names", [["b", "unused", "a"], [5, 7, 3]])
def test_labels_of_a_dictionary_that_no_row_has(names):
    first, _, last = names
    values = pa.DictionaryArray.from_arrays(pa.array([0, 2, 2], pa.int8()), pa.array(names))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), values)
    bunch = read({"x": [1.0, 2.0], "candidates": lists, "target": values[1:]})
    assert bunch.target_names.tolist() == [last, first]
    assert bunch.candidates.toarray().astype(int).tolist() == [[1, 1], [1, 0]]


def test_other_columns_with_the_beginning_of_a_name():
    """For Parquet x.y could be within x."""
    bunch = read({"x": [1.0], "x.y": [2.0], "candidates": [["a"]], "candidates.z": [3.0]})
    assert bunch.feature_names == ["x", "x.y", "candidates.z"]
    assert bunch.data.tolist() == [[1.0, 2.0, 3.0]]


def test_bombs(monkeypatch):
    monkeypatch.setattr(expansion, "_HARMLESS", 10**5)
    table = pa.table({"x": pa.nulls(10**6, pa.float64()), "candidates": ["a"] * 10**6})
    refused(table, "the table would unfold from .* out of proportion")
    refused({"x": [1.0], "candidates": [[7] * 10**6]}, "the table would unfold from")
    refused({"x": [1.0], "candidates": ["a" * 10**6]}, "the table would unfold from")
    bunch = example()
    file = io.BytesIO()
    write_parquet(file, bunch)
    parts = read_parquet(file, candidate_column=None, target_column=None, separator="|")
    assert_same(make_bunch(**parts), bunch)

"""CSV and TSV files as people write them."""

from __future__ import annotations

import csv
import io
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from bunches import assert_same_labels, example
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hera_fast import text_files
from hera_fast.bunch import make_bunch
from hera_fast.text_files import read_text, write_text

NAMES = ["cat", "dog", "owl"]


def read(text, *, delimiter=",", candidate_column=None, target_column=None, separator="|"):
    data = text if isinstance(text, bytes) else text.encode()
    parts = read_text(
        io.BytesIO(data),
        delimiter=delimiter,
        candidate_column=candidate_column,
        target_column=target_column,
        separator=separator,
    )
    return make_bunch(**parts)


def written(bunch, delimiter=",", separator="|"):
    file = io.BytesIO()
    write_text(file, bunch, delimiter=delimiter, separator=separator)
    return file.getvalue().decode()


def refused(text, reason, **options):
    with pytest.raises(ValueError, match=reason):
        read(text, **options)


def assert_animals(bunch):
    assert bunch.data.tolist() == [[4.5, 4.0], [0.4, 2.0], [9.0, -1.0]]
    assert bunch.target_names.tolist() == NAMES
    assert bunch.candidates.toarray().astype(int).tolist() == [[1, 1, 0], [0, 0, 1], [1, 1, 1]]
    assert bunch.feature_names == ["weight", "legs"]


ANIMALS = """weight,legs,candidates
4.5,4,cat|dog
0.4,2,owl
9,-1e0,dog|owl|cat
"""


@pytest.mark.parametrize(
    "text",
    [
        ANIMALS,
        ANIMALS.encode("utf-8-sig"),
        ANIMALS.replace("\n", "\r\n"),
        ANIMALS.replace("\n", "\r"),
        ANIMALS.rstrip("\n"),
        ANIMALS + "\n\n",
        ANIMALS.replace("\n", "\n\n"),
        ANIMALS.replace("cat|dog", '"cat|dog"').replace("4.5", '"4.5"'),
        ANIMALS.replace("cat|dog", " cat | dog\t").replace("4.5", " 4.5 "),
        ANIMALS.replace("cat|dog", "dog|cat|dog"),
    ],
)
def test_ways_to_write_it(text):
    bunch = read(text)
    assert_animals(bunch)
    assert bunch.target is None


def test_columns_in_any_order():
    bunch = read(
        "target,weight,candidates,legs\ndog,4.5,cat|dog,4\nowl,.4,owl,2\ncat,9,cat|dog|owl,-1"
    )
    assert_animals(bunch)
    assert bunch.target_names[bunch.target].tolist() == ["dog", "owl", "cat"]


def test_named_columns():
    text = "target,candidates,labels,right\n4.5,4,cat;dog,cat\n.4,2,owl,owl\n9,-1,cat;dog;owl,owl\n"
    names = {"candidate_column": "labels", "separator": ";"}
    bunch = read(text, **names, target_column="right")
    assert bunch.feature_names == ["target", "candidates"]
    assert bunch.target_names[bunch.target].tolist() == ["cat", "owl", "owl"]
    bunch.feature_names = ["weight", "legs"]
    assert_animals(bunch)


def test_the_column_target_holds_the_truth_unless_another_is_named():
    text = "target,labels,x\n4.5,cat,1\n"
    reason = r"line 2 \(row 0\), column 'target': the true label is '4\.5'.* candidates 'cat'$"
    refused(text, reason, candidate_column="labels")


def test_the_column_target_may_hold_the_candidates():
    bunch = read("weight,target\n1,a|b\n", candidate_column="target")
    assert bunch.target is None
    assert bunch.target_names.tolist() == ["a", "b"]


def test_tabs():
    assert_animals(read(ANIMALS.replace(",", "\t"), delimiter="\t"))


def test_separators_with_a_meaning_elsewhere():
    assert_animals(
        read(
            ANIMALS.replace("cat|dog", '"cat,dog"').replace("dog|owl|cat", '"dog,owl,cat"'),
            separator=",",
        )
    )
    assert_animals(read(ANIMALS.replace("|", ".*"), separator=".*"))
    assert_animals(read(ANIMALS.replace("|", " "), separator=" "))


@pytest.mark.parametrize("cell", ["", " ", "nan", "NaN", "-nan", "NA", " n/a ", "NULL"])
def test_missing_values(cell):
    bunch = read(f"a,b,candidates\n1,{cell},x\n{cell},2,y\n")
    np.testing.assert_array_equal(bunch.data, [[1, np.nan], [np.nan, 2]])


def test_labels_are_text():
    bunch = read("a,candidates,target\n1,10|9,9\n2,010|1e1,010\n")
    assert bunch.target_names.tolist() == ["010", "10", "1e1", "9"]
    bunch = read("a,candidates\n1,10|9\n2,-1|100\n")
    assert bunch.target_names.tolist() == ["-1", "9", "10", "100"]


def test_quotes_and_line_breaks_in_labels():
    bunch = read('a,candidates,target\n1,"say ""x""|two\nlines","two\nlines"\n2,b,b\n')
    assert bunch.target_names.tolist() == ["b", 'say "x"', "two\nlines"]
    assert bunch.target.tolist() == [2, 0]


@pytest.mark.parametrize("n_rows", [999, 1000, 1001, 2500])
def test_blocks_of_rows(n_rows):
    lines = [f"{row},l{row % 7},{row / 8}" for row in range(n_rows)]
    bunch = read("\n".join(["a,candidates,b", *lines]))
    np.testing.assert_array_equal(bunch.data, np.outer(np.arange(n_rows), [1, 0.125]))
    np.testing.assert_array_equal(bunch.candidates.indices, np.arange(n_rows) % 7)


@given(st.lists(st.floats(allow_infinity=False, allow_nan=False), min_size=1, max_size=20))
def test_numbers_come_back_bit_by_bit(numbers):
    data = np.array(numbers)[:, None]
    assert read(written(make_bunch(data, np.ones((len(data), 1))))).data.tobytes() == data.tobytes()


# What is written


def test_what_is_written():
    assert written(example()) == (
        "candidates,target,weight,größe (m)\r\n"
        '"cat|owl, big","owl, big",0.1,-0.0\r\n'
        "dög,dög,nan,1e-308\r\n"
        '"cat|dög|owl, big",cat,0.3333333333333333,1e+308\r\n'
        '"owl, big","owl, big",5e-324,3.0\r\n'
    )


def test_what_is_written_with_tabs_and_without_truth():
    text = written(example(target=None), delimiter="\t", separator=" / ")
    assert text.splitlines()[:2] == ["candidates\tweight\tgröße (m)", "cat / owl, big\t0.1\t-0.0"]


def test_labels_that_make_a_separator_with_it():
    bunch = make_bunch([[1.0], [2.0]], [{"a|", "b"}, {"b"}])
    with pytest.raises(
        ValueError, match=r"the label 'a\|' contains the separator '\|\|', or makes"
    ):
        written(bunch, separator="||")
    assert written(bunch, separator="|;").splitlines()[1] == "a||;b,1.0"


@given(
    st.lists(st.text("ab|", min_size=1, max_size=4), min_size=2, max_size=4, unique=True),
    st.text("a|;", min_size=1, max_size=3),
)
def test_labels_come_back_or_are_refused(labels, separator):
    bunch = make_bunch([[1.0], [2.0]], [labels, labels[:1]])
    if all(separator.join(pair).split(separator) == [*pair] for pair in product(labels, repeat=2)):
        assert_same_labels(read(written(bunch, separator=separator), separator=separator), bunch)
    else:
        with pytest.raises(ValueError, match="contains the separator"):
            written(bunch, separator=separator)


@pytest.mark.parametrize("n_rows", [999, 1000, 1001, 2500])
def test_sparse_data_are_written_block_by_block(n_rows, monkeypatch):
    rng = np.random.default_rng(0)
    data = sparse.csr_array(rng.integers(0, 2, (n_rows, 3)) * 1.5)
    largest = []
    dense = sparse.csr_array.toarray
    monkeypatch.setattr(
        sparse.csr_array, "toarray", lambda part: (largest.append(part.shape[0]), dense(part))[1]
    )
    text = written(make_bunch(data, np.ones((n_rows, 1))))
    assert max(largest) <= 1000
    np.testing.assert_array_equal(read(text).data, dense(data))


# What is refused; more of it in test_malformed_files.py


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,a,2,3", "line 1201 has 4 cells, but the header has 3 columns"),
        ("1,a", "line 1201 has 2 cells, but the header has 3 columns"),
        ("1,a,x", "line 1201, column 'b': 'x' is not a number"),
        ("1_0,a,1", "line 1201, column 'a': '1_0' is not a number"),
        ("0x1,a,1", "line 1201, column 'a': '0x1' is not a number"),
        ('"1,5",a,1', "line 1201, column 'a': '1,5' is not a number"),
        ("1,a,-inf", "line 1201, column 'b': '-inf' is infinite"),
        ("1,a,1e999", "line 1201, column 'b': '1e999' is infinite"),
        ("1,,1", r"line 1201 \(row 1199\), column 'candidates': there are no candidates"),
        ("1, ,1", r"line 1201 \(row 1199\), column 'candidates': there are no candidates"),
        ("1,a||b,1", r"line 1201 .*: there is an empty label in 'a\|\|b'"),
        ("1,a|,1", r"line 1201 .*: there is an empty label in 'a\|'"),
        ('1,"a"b,1', "line 1201: .* expected after"),
        ('1,"a', "line 1201: unexpected end of data"),
    ],
)
def test_faults_in_later_blocks_are_found(line, reason):
    good = "1,a,2\n" * 1199
    refused(f"a,candidates,b\n{good}{line}\n", reason)
    if not line.endswith('"a'):
        refused(f"a,candidates,b\n{good}{line}\n{good}", reason)


def test_lines_are_counted_through_quoted_line_breaks():
    text = 'a,candidates,target\n1,"a\n\nb|c",c\n\n2,d,e\n'
    refused(text, r"line 6 \(row 1\), column 'target': the true label is 'e'")


def test_missing_columns_are_told_with_those_that_there_are():
    refused(
        "a;b;candidates\n1;2;x\n", re.escape("are 'a;b;candidates'; they must be separated by ','")
    )
    refused("a,b\n1,2\n", re.escape("'a', 'b'. Name the right one: candidate_column="))
    refused(ANIMALS, "no column 'y'", target_column="y")
    refused(ANIMALS, "no column 'Y'", candidate_column="Y")
    header = ",".join(f"x{column}" for column in range(30))
    refused(f"{header}\n", r"'x19', \.\.\.\. Name the right one")


def test_the_same_column_twice():
    reason = "'candidates' cannot be both the candidates and the truth"
    refused(ANIMALS, reason, target_column="candidates")


def test_rows_with_many_candidates():
    labels = [f"label {number}" for number in range(20_000)]
    bunch = read(written(make_bunch([[1.0], [2.0]], [labels, labels[:1]])))
    assert bunch.target_names.tolist() == sorted(labels)
    assert bunch.candidates.sum(axis=1).tolist() == [20_000, 1]


def test_the_limit_of_the_csv_module_stays():
    before = csv.field_size_limit()
    long = f"a,candidates\n1,{'x' * 200_000}\n"
    read(long)
    assert csv.field_size_limit() == before
    refused(long + "1\n", "line 3 has 1 cells")
    assert csv.field_size_limit() == before


def test_several_threads_read_long_cells():
    before = csv.field_size_limit()
    text = "a,candidates\n" + f"1,{'x' * 200_000}\n" * 20
    with ThreadPoolExecutor(4) as threads:
        shapes = [bunch.data.shape for bunch in threads.map(read, [text] * 8)]
    assert shapes == [(20, 1)] * 8
    assert csv.field_size_limit() == before


def test_nothing_is_left_open_or_closed():
    file = io.BytesIO(ANIMALS.encode())
    options = {"candidate_column": None, "target_column": None, "separator": "|"}
    read_text(file, delimiter=",", **options)
    assert not file.closed
    file = io.BytesIO()
    text_files.write_text(file, example(), delimiter=",", separator="|")
    assert not file.closed

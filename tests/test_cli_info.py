"""What is told about a data set."""

from __future__ import annotations

import numpy as np
import pytest
from commands import LABELS, animals, assert_clean, said, said_json
from scipy import sparse

from hera_fast.bunch import make_bunch
from hera_fast.cli.info import find_warnings
from hera_fast.data_files import save_partial_labels
from hera_fast.experiments.overview import describe_bunch

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Y = [{"a"}, {"b"}, {"a", "c"}, {"b", "c"}] * 10


def codes(data=X, candidates=Y, target=None, **names):
    figures = describe_bunch(make_bunch(data, candidates, target, **names))
    found = find_warnings(figures)
    for warning in found:
        assert_clean(warning["text"])
    return {warning["code"]: warning["text"] for warning in found}


def test_nothing_is_odd():
    assert codes() == {}
    assert codes(sparse.csr_array(X)) == {}


def changed(row, column, value):
    data = X.copy()
    data[row, column] = value
    return data


def test_labels_that_are_never_candidates():
    matrix = np.zeros((40, 7), bool)
    matrix[np.arange(40), np.arange(40) % 3] = True
    matrix[::2, 3] = True
    assert codes(candidates=matrix)["never_candidates"].endswith(": 4, 5, 6")


def test_labels_of_all_rows():
    found = codes(candidates=[{*own, "all"} for own in Y])
    assert found.keys() == {"always_candidates"}
    assert found["always_candidates"].endswith(": all")
    most = [{*own, "most"} if row else own for row, own in enumerate(Y)]
    assert codes(candidates=most).keys() == {"always_candidates"}


def test_rows_with_all_labels():
    found = codes(candidates=[{"a", "b", "c"}, *Y[1:]])
    assert found == {
        "all_labels": "1 row with every label as a candidate, so that nothing is known"
    }


def test_ordinary_data():
    assert codes(candidates=["a", "b"] * 20).keys() == {"no_ambiguity"}


def test_equal_rows():
    data = changed(4, slice(None), X[0])
    assert codes(data).keys() == {"duplicate_rows"}
    assert "2 rows with the features of another row, in 1 group" in codes(data)["duplicate_rows"]
    assert codes(sparse.csr_array(data)).keys() == {"duplicate_rows"}
    # Rows 0 and 1 have nothing in common.
    contradictory = changed(1, slice(None), X[0])
    assert codes(contradictory).keys() == {"duplicate_rows", "contradictory_rows"}
    assert "1 group of rows" in codes(contradictory)["contradictory_rows"]


def test_zeros_of_either_sign_are_equal():
    data = np.column_stack([X[:, 0], np.zeros(40)])
    data[1] = [data[0, 0], -0.0]
    assert "duplicate_rows" in codes(data)


def test_features():
    assert codes(changed(slice(None), 1, 7.0)).keys() == {"constant_features"}
    assert codes(changed(slice(None), 2, 1e5 * X[:, 2])).keys() == {"scales"}
    assert codes(changed(3, 1, np.nan)).keys() == {"missing_values"}
    assert "median" in codes(changed(3, 1, np.nan))["missing_values"]
    assert "fill them in" in codes(sparse.csr_array(changed(3, 1, np.nan)))["missing_values"]
    assert codes(changed(slice(None), 1, np.nan)).keys() == {"constant_features", "missing_values"}


def test_rare_labels():
    found = codes(candidates=[{"a", "rare"}, *Y[1:]])
    assert found.keys() == {"few_rows"}
    assert found["few_rows"].endswith(": rare (1)")


def test_labels_that_cannot_be_told_apart():
    twins = [{*own, "twin of c"} if "c" in own else own for own in Y]
    found = codes(candidates=twins)
    assert found.keys() == {"indistinguishable"}
    assert ": c, twin of c." in found["indistinguishable"]


def test_labels_that_are_never_true():
    target = [0, 1, 0, 1] * 10
    assert codes(target=target) == {"never_true": "labels that are candidates, but never true: c"}


def test_figures():
    figures = describe_bunch(make_bunch(X, Y, [0, 1, 0, 2] * 10))
    assert figures["rows"] == 40
    assert figures["features"]["smallest"] == X.min()
    assert figures["features"]["largest_deviation"] == pytest.approx(X.std(axis=0).max())
    candidates = figures["candidates"]
    assert (candidates["mean"], candidates["least"], candidates["most"]) == (1.5, 1, 2)
    assert (candidates["single_share"], candidates["chance_accuracy"]) == (0.5, 0.75)
    assert candidates["histogram"] == [
        {"candidates": 1, "rows": 20},
        {"candidates": 2, "rows": 20},
    ]
    labels = figures["labels"]
    assert labels["frequent"][0] == {"label": "a", "rows": 20, "share": 0.5}
    assert labels["pairs"] == [
        {"labels": ["a", "c"], "rows": 10, "shares": [0.5, 0.5]},
        {"labels": ["b", "c"], "rows": 10, "shares": [0.5, 0.5]},
    ]
    assert figures["truth"]["most_frequent"] == {"label": "a", "rows": 20, "share": 0.5}


def test_sparse_and_dense_rows_have_the_same_figures():
    data = np.where(np.abs(X) > 1, X, 0)
    data[5, 1] = np.nan
    dense = describe_bunch(make_bunch(data, Y))
    thin = describe_bunch(make_bunch(sparse.csr_array(data), Y))
    assert (dense["features"].pop("storage"), thin["features"].pop("storage")) == (
        "dense",
        "sparse",
    )
    for name in ("least_deviation", "largest_deviation"):
        assert dense["features"].pop(name) == pytest.approx(thin["features"].pop(name))
    assert dense == thin


def test_many_candidates_are_counted_in_some_rows(monkeypatch):
    monkeypatch.setattr("hera_fast.experiments.overview._PAIR_PRODUCTS", 50)
    labels = describe_bunch(make_bunch(X, Y))["labels"]
    assert 10 < labels["rows_of_pairs"] < 30
    assert labels["pairs"][0]["rows"] < 10


def test_blocks_of_rows(monkeypatch):
    data = changed(4, slice(None), X[0])
    expected = describe_bunch(make_bunch(data, Y))
    monkeypatch.setattr("hera_fast.experiments.overview._BLOCK", 10)
    found = describe_bunch(make_bunch(data, Y))
    for name in ("least_deviation", "largest_deviation"):
        expected["features"][name] = pytest.approx(expected["features"][name])
    assert found == expected


def test_digests_tell_rows_apart():
    """Also rows of small whole numbers, whose bits are mostly zero."""
    data = np.array(np.meshgrid(*[range(9)] * 4)).reshape(4, -1).T.astype(float)
    figures = describe_bunch(make_bunch(data, np.ones((len(data), 2))))
    assert figures["duplicates"]["rows"] == 0
    figures = describe_bunch(make_bunch(sparse.csr_array(data), np.ones((len(data), 2))))
    assert figures["duplicates"]["rows"] == 0


@pytest.mark.parametrize("value", [1e308, -1e308, 5e-324])
def test_extreme_numbers(value):
    """No warning, which would be an error."""
    dense = describe_bunch(make_bunch(changed(0, 0, value), Y))
    thin = describe_bunch(make_bunch(sparse.csr_array(changed(0, 0, value)), Y))
    assert value in (dense["features"]["smallest"], dense["features"]["largest"]) or value < 1
    assert dense["labels"] == thin["labels"]


# ---- the command -------------------------------------------------------------------------------


def test_what_is_said(tmp_path, capsys):
    path = tmp_path / "animals.csv"
    save_partial_labels(path, animals())
    written = said(capsys, "info", path)
    assert_clean(written.out)
    for text in ("rows            80\n", "labels          4\n", "candidates per row, rows\n"):
        assert text in written.out
    assert "es\\x1b[31mcape" in written.out
    assert not any(len(line) > 80 for line in written.out.splitlines() if "- " not in line)


def test_what_programs_are_told(capsys, tmp_path):
    path = tmp_path / "animals.csv"
    save_partial_labels(path, animals())
    result = said_json(capsys, "info", path)
    parts = ["source", "rows", "features", "labels", "candidates", "duplicates", "truth"]
    assert list(result) == [*parts, "warnings"]
    assert {label["label"] for label in result["labels"]["frequent"]} == set(LABELS)


def test_a_wide_histogram(capsys, tmp_path):
    matrix = np.tri(100, 100, dtype=bool)
    bunch = make_bunch(rng.standard_normal((100, 2)), matrix)
    save_partial_labels(tmp_path / "wide.npz", bunch)
    written = said(capsys, "info", tmp_path / "wide.npz")
    assert "\n  1 to 9 " in written.out
    assert "100" in written.out


def test_sparse_rows_with_gaps(capsys, tmp_path):
    data = sparse.csr_array(changed(3, 1, np.nan))
    save_partial_labels(tmp_path / "thin.npz", make_bunch(data, Y))
    written = said(capsys, "info", tmp_path / "thin.npz")
    assert "features        3, sparse, 100.0% not zero, 1 missing value\n" in written.out
    assert "true labels     unknown\n" in written.out

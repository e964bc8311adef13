"""Comparisons: against plain Python, on tables with a known answer, and with little to compare."""

from __future__ import annotations

import dataclasses
import itertools
import statistics

import numpy as np
import pytest
from absent import hide
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from strategies import seeds

from hera_fast.comparison import compare
from hera_fast.significance import critical_difference, wilcoxon_test

NOISE = [0.01, -0.02, 0.03, 0.0, -0.01, 0.02, -0.03, 0.0]


def make_results(figures, metric="inductive", **more):
    """The table of figures by data set and estimator, lists over folds."""
    rows = [
        {"dataset": dataset, "estimator": name, "fold": fold, metric: figure}
        for dataset, by_name in figures.items()
        for name, by_fold in by_name.items()
        for fold, figure in enumerate(by_fold)
    ]
    return {column: [row[column] for row in rows] for column in rows[0]} | more


def without_dataset(results):
    return {name: column for name, column in results.items() if name != "dataset"}


def rows_of(table):
    """The rows of a table by its first columns, those with labels."""
    names = [name for name in ("dataset", "estimator", "other") if name in table]
    figures = [name for name in table if name not in names]
    return {
        key if len(names) > 1 else key[0]: dict(zip(figures, row, strict=True))
        for key, row in zip(
            zip(*(table[name] for name in names), strict=True),
            zip(*(table[name] for name in figures), strict=True),
            strict=True,
        )
    }


TIES = {"outcome": "tie", "wilcoxon_outcome": "tie"}


def rounded(tests):
    """The rows without rounding errors, which depend on the order of the folds."""
    return {
        key: {name: cell if "outcome" in name else round(cell, 12) for name, cell in row.items()}
        for key, row in rows_of(tests).items()
    }


def around(level, shift=0):
    """Figures of folds about a level; with other shifts they differ, not by a constant."""
    return [round(level + noise, 3) for noise in NOISE[shift:] + NOISE[:shift]]


# On "easy" the estimators rank a, b, c and all differ; on "hard" a and b swap, by chance only.
KNOWN = {
    "easy": {"a": around(0.9), "b": around(0.7, 1), "c": around(0.5, 2)},
    "hard": {"a": around(0.50, 3), "b": around(0.502, 1), "c": around(0.3, 4)},
    "odd": {"a": around(0.4, 3), "b": around(0.2, 2), "c": around(0.6)},
}


def test_known_wins_ties_and_losses():
    found = compare(make_results(KNOWN))
    assert found.reference == "a"
    pairs = {
        pair: (row["win"], row["tie"], row["loss"]) for pair, row in rows_of(found.pairs).items()
    }
    assert pairs == {
        ("a", "b"): (2, 1, 0),
        ("b", "a"): (0, 1, 2),
        ("a", "c"): (2, 0, 1),
        ("c", "a"): (1, 0, 2),
        ("b", "c"): (2, 0, 1),
        ("c", "b"): (1, 0, 2),
    }
    outcomes = {key: row["outcome"] for key, row in rows_of(found.tests).items()}
    assert outcomes == {
        ("easy", "b"): "win",
        ("easy", "c"): "win",
        ("hard", "b"): "tie",
        ("hard", "c"): "win",
        ("odd", "b"): "win",
        ("odd", "c"): "loss",
    }
    ranks = {name: row["rank"] for name, row in rows_of(found.ranks).items()}
    assert ranks == pytest.approx({"a": 5 / 3, "b": 2, "c": 7 / 3})
    assert found.n_blocks == 3
    assert found.critical_difference == critical_difference(3, 3, 0.05)
    # Rank sums 5, 6 and 7: chi-square is 12 / (3 * 3 * 4) * 110 - 36.
    assert found.friedman == pytest.approx(stats.chi2.sf(2 / 3, 2))


def test_level_of_significance():
    figures = {"": {"a": [0.5, 0.6, 0.7, 0.8], "b": [0.5, 0.5, 0.6, 0.6]}}
    p = stats.ttest_rel(*figures[""].values()).pvalue
    assert 0.05 < p < 0.1
    for alpha, outcome in [(0.05, "tie"), (p - 1e-9, "tie"), (p + 1e-9, "win"), (0.1, "win")]:
        found = compare(make_results(figures), alpha=alpha)
        assert list(found.tests["outcome"]) == [outcome]
        assert found.critical_difference == critical_difference(2, 4, alpha)


@pytest.mark.parametrize("metric", ["log_loss", "fit_seconds", "predict_seconds"])
def test_less_is_better(metric):
    more, less = compare(make_results(KNOWN)), compare(make_results(KNOWN, metric), metric=metric)
    assert less.reference == "c"
    swapped = rows_of(more.pairs)
    for (one, other), row in rows_of(less.pairs).items():
        assert row["win"] == swapped[one, other]["loss"]
        assert row["tie"] == swapped[one, other]["tie"]
        assert row["wilcoxon"] == swapped[one, other]["wilcoxon"]
    np.testing.assert_allclose(less.ranks["rank"] + more.ranks["rank"], 4)
    assert rows_of(less.summary) == rows_of(more.summary)
    # Differences are what they are, whatever is better.
    tests = rows_of(less.tests)
    assert tests["easy", "a"]["difference"] == pytest.approx(-0.4)
    assert tests["easy", "a"]["outcome"] == "win"


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(seeds))
    n_sets, k, n_folds = draw(st.integers(1, 4)), draw(st.integers(2, 4)), draw(st.integers(2, 6))
    levels = rng.random((n_sets, k, 1))
    figures = levels + draw(st.sampled_from([0.01, 0.3])) * rng.random((n_sets, k, n_folds))
    figures = np.round(figures, draw(st.sampled_from([1, 6])))
    return {f"set {d}": {f"e{i}": figures[d, i].tolist() for i in range(k)} for d in range(n_sets)}


def naive_p(test, a, b):
    if a == b:
        return 1.0
    with np.errstate(all="ignore"):
        return test(a, b)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of SciPy, about equal differences
@given(tables())
def test_plain_python_says_the_same(figures):
    found = compare(make_results(figures))
    names = list(next(iter(figures.values())))
    summary, tests = rows_of(found.summary), rows_of(found.tests)
    means = {d: {n: statistics.fmean(f) for n, f in row.items()} for d, row in figures.items()}
    overall = {n: statistics.fmean(means[d][n] for d in figures) for n in names}
    assert overall[found.reference] == pytest.approx(max(overall.values()), abs=1e-12)
    for d, name in itertools.product(figures, names):
        assert summary[d, name]["mean"] == pytest.approx(means[d][name], abs=1e-11)
        assert summary[d, name]["sd"] == pytest.approx(statistics.stdev(figures[d][name]), abs=1e-9)
        assert summary[d, name]["n_folds"] == len(figures[d][name])
        if name == found.reference:
            assert (d, name) not in tests
            continue
        ours, theirs = figures[d][found.reference], figures[d][name]
        gap = means[d][found.reference] - means[d][name]
        p = naive_p(lambda a, b: stats.ttest_rel(a, b).pvalue, ours, theirs)
        row = tests[d, name]
        assert row["difference"] == pytest.approx(gap, abs=1e-11)
        assert row["t_test"] == pytest.approx(p, rel=1e-6, abs=1e-12)
        # Without rounding errors, which would break ties.
        apart = np.round(np.subtract(ours, theirs), 9)
        assert row["wilcoxon"] == pytest.approx(wilcoxon_test(apart), rel=1e-9)
        assert row["outcome"] == ("tie" if p >= 0.05 else "win" if gap > 0 else "loss")
        is_tie = row["wilcoxon"] >= 0.05
        assert row["wilcoxon_outcome"] == ("tie" if is_tie else "win" if gap > 0 else "loss")


@given(tables())
def test_ranks_of_blocks(figures):
    found = compare(make_results(figures))
    names = list(next(iter(figures.values())))
    if len(figures) > 1:
        blocks = [[statistics.fmean(row[n]) for n in names] for row in figures.values()]
    else:
        blocks = zip(*next(iter(figures.values())).values(), strict=True)
    blocks = np.round(np.array(list(blocks)), 12)
    assert found.n_blocks == len(blocks)
    expected = [
        np.mean([1 + (b > b[i]).sum() + ((b == b[i]).sum() - 1) / 2 for b in blocks])
        for i in range(len(names))
    ]
    np.testing.assert_allclose(found.ranks["rank"], expected, rtol=1e-12)


def test_wilcoxon_over_data_sets():
    figures = {f"set {d}": {"a": [d + 0.5 + d / 10] * 2, "b": [d] * 2} for d in range(5)}
    found = compare(make_results(figures))
    # 5 different differences with the same sign: 2 of 32.
    assert list(found.pairs["wilcoxon"]) == [0.0625, 0.0625]
    assert np.isnan(compare(make_results({"one": figures["set 1"]})).pairs["wilcoxon"]).all()


def test_every_kind_of_table():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    results = make_results(KNOWN)
    expected = str(compare(results))
    arrays = {name: np.array(column) for name, column in results.items()}
    shuffled = pandas.DataFrame(results).sample(frac=1, random_state=0)
    parts = [make_results({name: KNOWN[name]}) for name in KNOWN]
    concatenated = pandas.concat([pandas.DataFrame(part) for part in parts])
    for table in (arrays, pandas.DataFrame(results), polars.DataFrame(results), concatenated):
        assert str(compare(table)) == expected
        assert type(compare(table).reference) is str
    mixed = compare(shuffled).tests
    assert isinstance(mixed, pandas.DataFrame)
    assert rounded(mixed) == rounded(compare(results).tests)


def test_without_pandas(monkeypatch):
    expected = compare(make_results(KNOWN))
    hide(monkeypatch, "pandas")
    found = compare(make_results(KNOWN))
    for name in ("summary", "tests", "pairs", "ranks"):
        table = getattr(found, name)
        assert type(table) is dict
        assert rows_of(table) == rows_of(getattr(expected, name))
    assert str(found) == str(expected)


def test_columns():
    found = compare(make_results(KNOWN))
    assert list(found.summary) == ["dataset", "estimator", "mean", "sd", "n_folds"]
    tests = ["dataset", "estimator", "difference", "t_test", "wilcoxon", *TIES]
    assert list(found.tests) == tests
    assert list(found.pairs) == ["estimator", "other", "win", "tie", "loss", "wilcoxon"]
    assert list(found.ranks) == ["estimator", "rank"]
    alone = compare(without_dataset(make_results({"": KNOWN["easy"]})))
    assert list(alone.summary) == ["estimator", "mean", "sd", "n_folds"]
    assert list(alone.tests) == tests[1:]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.alpha = 0.1


# The text


def test_text_of_several_data_sets():
    figures = {**KNOWN, "part": {"a": [0.5], "b": [0.25]}}
    assert str(compare(make_results(figures), reference="b", alpha=0.01)) == (
        """\
inductive, mean ± standard deviation over folds
      a                b              c
easy  0.900 ± 0.020 ◦  0.700 ± 0.020  0.500 ± 0.020 •
hard  0.500 ± 0.020    0.502 ± 0.020  0.300 ± 0.020 •
odd   0.400 ± 0.020 ◦  0.200 ± 0.020  0.600 ± 0.020 ◦
part  0.500 ± nan      0.250 ± nan    -
• worse, ◦ better than b by the paired t-test over folds at the level 0.01
win/tie/loss of b: 0/2/2 against a, 2/0/1 against c
by Wilcoxon's test over folds: 0/2/2 against a, 2/0/1 against c
average ranks over 3 data sets: a 1.67, b 2.00, c 2.33
critical difference 2.38 (Nemenyi) at the level 0.01; Friedman test p = 0.72"""
    )


def test_text_of_one_data_set():
    text = str(compare(without_dataset(make_results({"": KNOWN["odd"]}))))
    assert text.splitlines()[:6] == [
        "inductive, mean ± standard deviation over folds",
        "a  0.400 ± 0.020 •",
        "b  0.200 ± 0.020 •",
        "c  0.600 ± 0.020",
        "• worse, ◦ better than c by the paired t-test over folds at the level 0.05",
        "win/tie/loss of c: 1/0/0 against a, 1/0/0 against b",
    ]
    assert "average ranks over 8 folds: a 2.00, b 3.00, c 1.00" in text


# Little to compare


def test_equal_columns():
    found = compare(make_results({"": {"a": around(0.5), "b": around(0.5)}}))
    (row,) = rows_of(found.tests).values()
    assert row == {"difference": 0, "t_test": 1, "wilcoxon": 1, **TIES}
    assert list(found.ranks["rank"]) == [1.5, 1.5]
    three = compare(make_results({"": dict.fromkeys("abc", around(0.5))}))
    assert three.friedman == 1
    assert three.reference == "a"


def test_rounding_errors_are_no_difference():
    a = around(0.5)
    b = [figure + 1e-15 for figure in a]
    assert a != b
    found = compare(make_results({"": {"a": a, "b": b}}))
    (row,) = rows_of(found.tests).values()
    assert row == {"difference": 0, "t_test": 1, "wilcoxon": 1, **TIES}
    assert list(found.ranks["rank"]) == [1.5, 1.5]
    # The same figures in another order: their sums differ in the last bit.
    orders = {"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1]}
    assert sum(orders["a"]) != sum(orders["b"])
    found = compare(make_results({"one": orders, "two": orders}))
    assert list(found.ranks["rank"]) == [1.5, 1.5]
    assert list(found.tests["difference"]) == [0, 0]
    turned = {f"set {d}": {"b": [0.3 - d / 10], "a": [0.1 + d / 10]} for d in range(3)}
    assert compare(make_results(turned)).reference == "b"  # the first of equal ones
    # One amount, computed in different ways.
    steps = compare(make_results({"": {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.0, 0.1, 0.2, 0.3]}}))
    assert list(steps.tests["wilcoxon"]) == [0.125]
    assert list(steps.tests["t_test"]) == pytest.approx([0], abs=1e-30)


def test_constant_difference():
    found = compare(make_results({"": {"a": [0.5, 0.6, 0.7], "b": [0.25, 0.35, 0.45]}}))
    (row,) = rows_of(found.tests).values()
    assert row["t_test"] == pytest.approx(0, abs=1e-12)
    assert (row["difference"], row["outcome"]) == (0.25, "win")


def test_one_fold():
    found = compare(make_results({"": {"a": [0.5], "b": [0.7], "c": [0.6]}}))
    assert found.reference == "b"
    assert np.isnan(found.summary["sd"]).all()
    assert np.isnan(found.tests["t_test"]).all()
    assert np.isnan(found.tests["wilcoxon"]).all()
    assert list(found.tests["outcome"]) == ["tie", "tie"]
    assert list(found.ranks["rank"]) == [3, 1, 2]
    assert np.isnan(found.friedman)
    assert "0.700 ± nan" in str(found)


def test_one_estimator():
    found = compare(make_results({"x": {"a": around(0.5)}, "y": {"a": around(0.6)}}))
    assert found.reference == "a"
    assert list(found.summary["mean"]) == [0.5, 0.6]
    assert list(found.ranks["rank"]) == [1]
    assert len(found.tests["outcome"]) == len(found.pairs["win"]) == 0
    assert np.isnan(found.critical_difference)
    assert "win/tie/loss" not in str(found)


def test_missing_cells():
    figures = {
        "x": {"a": around(0.5), "b": around(0.4, 1), "c": around(0.3, 2)},
        "y": {"a": around(0.5), "b": around(0.6, 1)},
        "z": {"a": around(0.5), "b": around(0.4, 1), "c": around(0.9, 2)},
    }
    found = compare(make_results(figures))
    # Only x and z count for ranks, and for who is best.
    assert found.n_blocks == 2
    assert found.reference == "c"
    assert list(found.ranks["rank"]) == [1.5, 2.5, 2]
    assert found.critical_difference == critical_difference(3, 2, 0.05)
    pairs = rows_of(found.pairs)
    assert [pairs["a", "b"][o] for o in ("win", "tie", "loss")] == [2, 0, 1]
    assert [pairs["a", "c"][o] for o in ("win", "tie", "loss")] == [1, 0, 1]
    assert set(rows_of(found.tests)) == {(d, e) for d in "xz" for e in "ab"}
    missing = rows_of(found.summary)["y", "c"]
    assert (missing["n_folds"], np.isnan(missing["mean"])) == (0, True)


def test_folds_that_only_one_estimator_has():
    nan, inf = np.nan, np.inf
    a = [0.9, 0.8, nan, 0.7, 0.9, 0.1]
    b = [0.5, 0.6, 0.9, 0.4, nan, inf]
    found = compare(make_results({"": {"a": a, "b": b}}))
    (row,) = rows_of(found.tests).values()
    common = [a[i] for i in (0, 1, 3)], [b[i] for i in (0, 1, 3)]
    assert row["t_test"] == pytest.approx(stats.ttest_rel(*common).pvalue)
    assert row["wilcoxon"] == 0.25
    assert row["difference"] == pytest.approx(0.3)
    assert list(found.summary["n_folds"]) == [5, 4]
    assert list(found.summary["mean"]) == pytest.approx([0.68, 0.6])
    assert found.n_blocks == 3
    assert list(found.ranks["rank"]) == [1, 2]


def test_folds_are_paired_by_number():
    results = make_results({"": {"a": around(0.6, 1), "b": around(0.5)}})
    order = [*range(8), *range(15, 7, -1)]
    turned = {name: [column[i] for i in order] for name, column in results.items()}
    assert rounded(compare(turned).tests) == rounded(compare(results).tests)


def test_an_estimator_without_figures():
    figures = {"": {"a": around(2.0), "b": [np.nan] * 8, "c": around(1.0, 1)}}
    found = compare(make_results(figures, "log_loss"), metric="log_loss")
    assert found.reference == "c"
    assert found.n_blocks == 8
    np.testing.assert_array_equal(found.ranks["rank"], [2, np.nan, 1])
    assert found.critical_difference == critical_difference(2, 8, 0.05)
    assert list(found.tests["estimator"]) == ["a"]
    assert "b  -" in str(found)


def test_what_cannot_be_compared():
    results = make_results(KNOWN)
    with pytest.raises(ValueError, match=r"no column 'log_loss', but only \['dataset', 'est"):
        compare(results, metric="log_loss")
    with pytest.raises(ValueError, match="no column 'fold'"):
        compare({"estimator": ["a"], "inductive": [1.0]})
    with pytest.raises(ValueError, match=r"reference 'd' is none of the estimators \['a', 'b'"):
        compare(results, reference="d")
    with pytest.raises(ValueError, match="alpha must be between 0 and 1, got 5"):
        compare(results, alpha=5)
    twice = {name: column + column[:1] for name, column in results.items()}
    with pytest.raises(ValueError, match="fold 0 of 'a' of the data set 'easy' is there more"):
        compare(twice)
    with pytest.raises(ValueError, match="fold 0 of 'a' is there more than once"):
        compare(without_dataset(results))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        compare({**results, "fold": [0, 1]})
    with pytest.raises(ValueError, match="'inductive' has no figures"):
        compare({**results, "inductive": [np.nan] * len(results["fold"])})
    apart = make_results({"x": {"a": [0.5]}, "y": {"b": [0.6]}})
    with pytest.raises(ValueError, match=r"no data set.* has figures of all.*name a reference"):
        compare(apart)
    found = compare(apart, reference="a")
    assert found.n_blocks == 0
    assert np.isnan(found.ranks["rank"]).all()
    assert np.isnan(found.critical_difference)

"""What the paper prints, and what is wrong in it.

G. Lyu, S. Feng, Y. Jin, G. Dai, C. Lang, Y. Li: HERA: Partial Label Learning by Combining
Heterogeneous Loss with Sparse and Low-Rank Regularization. The figures are those of its tables of
accuracies on real data sets and of win/tie/loss counts on controlled UCI data sets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hera_fast.experiments.methods import OTHERS

__all__ = [
    "ACCURACIES",
    "CONFIGURATIONS",
    "COUNTS",
    "COUNT_SUMS",
    "REAL_SETS",
    "ROW_SUMS",
    "UCI_SETS",
    "Printed",
    "data_errors",
    "find_accuracy_errors",
    "find_count_errors",
]

_Counts = tuple[int, int, int]

#: Titles of the data sets in the order of the paper's tables.
REAL_SETS = {
    "lost": "Lost",
    "msrcv2": "MSRCv2",
    "birdsong": "BirdSong",
    "soccer-player": "Soccer Player",
    "fg-net": "FG-NET",
    "yahoo-news": "Yahoo! News",
}
UCI_SETS = {
    "glass": "Glass",
    "segment": "Segment",
    "vehicle": "Vehicle",
    "letter": "Letter",
    "satimage": "Satimage",
    "abalone": "Abalone",
    "ecoli": "Ecoli",
    "dermatology": "Dermatology",
    "pendigits": "Pendigits",
}
#: How many kinds of artificial candidates there are for each UCI data set.
CONFIGURATIONS = 28


class Printed(NamedTuple):
    """An accuracy as printed: mean, standard deviation over ten folds, and the mark.

    The mark says whether HERA is significantly better (``"•"``) or worse (``"◦"``).
    """

    mean: float
    sd: float
    mark: str


def _row(*cells: tuple[float, float, str]) -> dict[str, Printed]:
    return {name: Printed(*cell) for name, cell in zip(REAL_SETS, cells, strict=True)}


#: Accuracies by method and data set.
ACCURACIES = {
    "hera": _row(
        *((0.712, 0.035, ""), (0.510, 0.027, ""), (0.695, 0.021, "")),
        *((0.539, 0.015, ""), (0.076, 0.017, ""), (0.646, 0.005, "")),
    ),
    "pl-svm": _row(
        *((0.729, 0.056, "◦"), (0.482, 0.027, "•"), (0.663, 0.018, "•")),
        *((0.497, 0.004, "•"), (0.063, 0.010, "•"), (0.636, 0.010, "•")),
    ),
    "clpl": _row(
        *((0.742, 0.024, "◦"), (0.413, 0.020, "•"), (0.632, 0.009, "•")),
        *((0.368, 0.004, "•"), (0.063, 0.017, "•"), (0.462, 0.009, "•")),
    ),
    "pl-knn": _row(
        *((0.424, 0.030, "•"), (0.448, 0.012, "•"), (0.614, 0.009, "•")),
        *((0.443, 0.004, "•"), (0.039, 0.008, "•"), (0.457, 0.010, "•")),
    ),
    "lsb-cmm": _row(
        *((0.707, 0.019, "•"), (0.456, 0.008, "•"), (0.717, 0.015, "◦")),
        *((0.525, 0.006, "◦"), (0.059, 0.008, "•"), (0.642, 0.007, "•")),
    ),
    "pl-ecoc": _row(
        *((0.703, 0.052, "•"), (0.505, 0.027, "•"), (0.740, 0.016, "◦")),
        *((0.537, 0.020, "◦"), (0.040, 0.018, "•"), (0.610, 0.008, "•")),
    ),
    "paloc": _row(
        *((0.629, 0.056, "•"), (0.479, 0.042, "•"), (0.711, 0.016, "◦")),
        *((0.537, 0.015, "◦"), (0.065, 0.019, "•"), (0.625, 0.005, "•")),
    ),
}


def _counts(text: str) -> list[_Counts]:
    cells = [tuple(map(int, cell.split("/"))) for cell in text.split()]
    return [(win, tie, loss) for win, tie, loss in cells]


_LINES = {
    "glass": "23/3/2 26/2/0 25/3/0 27/1/0 20/8/0 13/11/4 134/28/6",
    "segment": "16/12/0 21/7/0 27/1/0 28/0/0 1/26/1 6/21/1 99/67/2",
    "vehicle": "28/0/0 25/3/0 5/14/9 13/10/5 2/6/20 12/12/4 85/45/38",
    "letter": "28/0/0 28/0/0 28/0/0 28/0/0 28/0/0 21/7/0 161/7/0",
    "satimage": "1/27/0 28/0/0 21/7/0 28/0/0 1/27/1 9/14/5 87/75/6",
    "abalone": "22/6/0 27/1/0 11/16/1 25/3/0 5/20/3 0/24/4 90/70/8",
    "ecoli": "28/0/0 22/6/0 28/0/0 28/0/0 28/0/0 21/7/0 155/13/0",
    "dermatology": "21/7/0 21/7/0 22/6/0 21/7/0 21/7/0 16/12/0 112/46/0",
    "pendigits": "2/26/0 28/0/0 28/0/0 28/0/0 1/27/0 0/27/1 87/80/1",
}
#: Wins, ties and losses of HERA by data set and method, out of 28 each.
COUNTS = {
    name: dict(zip(OTHERS, _counts(line), strict=False))  # the last one is the sum
    for name, line in _LINES.items()
}
#: The last column and the last line of that table.
ROW_SUMS = {name: _counts(line)[-1] for name, line in _LINES.items()}
COUNT_SUMS = dict(
    zip(
        OTHERS,
        _counts("169/81/2 226/26/0 199/47/10 230/21/5 100/121/25 102/135/19"),
        strict=True,
    )
)


def find_accuracy_errors() -> dict[tuple[str, str], str]:
    """Find marks that contradict the accuracies they stand beside.

    Returns
    -------
    errors : dict
        A sentence for each wrong cell, by method and data set.

    Examples
    --------
    >>> from hera_fast.experiments.published import find_accuracy_errors
    >>> sorted(find_accuracy_errors())
    [('lsb-cmm', 'soccer-player'), ('paloc', 'soccer-player'), ('pl-ecoc', 'soccer-player')]
    """
    errors = {}
    for method, row in ACCURACIES.items():
        for name, cell in row.items():
            ours = ACCURACIES["hera"][name].mean
            if (cell.mark == "◦" and cell.mean < ours) or (cell.mark == "•" and cell.mean > ours):
                said = "inferior to" if cell.mark == "◦" else "superior to"
                errors[method, name] = (
                    f"on {REAL_SETS[name]} HERA ({ours:.3f}) is marked {said} a method "
                    f"with {cell.mean:.3f}"
                )
    return errors


def find_count_errors(titles: dict[str, str]) -> list[str]:
    """Find what does not add up in the printed win/tie/loss counts.

    Parameters
    ----------
    titles : dict of str to str
        Names of the methods to use in the sentences.

    Returns
    -------
    errors : list of str
        A sentence for each fault.

    Examples
    --------
    >>> from hera_fast.experiments.published import find_count_errors
    >>> for error in find_count_errors({})[:2]:
    ...     print(error)
    Satimage against pl-ecoc: 1/27/1 are 29 comparisons, not 28
    the sum of Satimage is printed as 87/75/6, but is 88/75/6
    """
    errors = []
    for name, row in COUNTS.items():
        for other, cell in row.items():
            if sum(cell) != CONFIGURATIONS:
                errors.append(
                    f"{UCI_SETS[name]} against {titles.get(other, other)}: {_text(cell)} are "
                    f"{sum(cell)} comparisons, not {CONFIGURATIONS}"
                )
        errors += _wrong_sum(UCI_SETS[name], ROW_SUMS[name], list(row.values()))
    for other, printed in COUNT_SUMS.items():
        column = [row[other] for row in COUNTS.values()]
        errors += _wrong_sum(titles.get(other, other), printed, column)
    return errors


def _wrong_sum(what: str, printed: _Counts, cells: list[_Counts]) -> list[str]:
    right = tuple(sum(numbers) for numbers in zip(*cells, strict=True))
    if printed == right:
        return []
    return [f"the sum of {what} is printed as {_text(printed)}, but is {_text(right)}"]


def _text(counts: tuple[int, ...]) -> str:
    return "/".join(map(str, counts))


#: Rows, classes and candidates per row that the paper prints for the data sets.
_PRINTED_FACTS: dict[str, dict[str, Any]] = {
    "lost": {"rows": 1122, "features": 108, "labels": 16, "candidates": 2.33},
    "msrcv2": {"rows": 1758, "features": 48, "labels": 23, "candidates": 3.16},
    "fg-net": {"rows": 1002, "features": 262, "labels": 99, "candidates": 7.48},
    "birdsong": {"rows": 4998, "features": 38, "labels": 13, "candidates": 2.18},
    "soccer-player": {"rows": 17472, "features": 279, "labels": 171, "candidates": 2.09},
    "yahoo-news": {"rows": 22991, "features": 163, "labels": 219, "candidates": 1.91},
    "glass": {"rows": 214, "features": 9, "labels": 6},
    "ecoli": {"rows": 336, "features": 7, "labels": 8},
    "dermatology": {"rows": 366, "features": 34, "labels": 6},
    "vehicle": {"rows": 846, "features": 18, "labels": 4},
    "segment": {"rows": 2310, "features": 18, "labels": 7},
    "abalone": {"rows": 4177, "features": 7, "labels": 29},
    "letter": {"rows": 5000, "features": 16, "labels": 26},
    "satimage": {"rows": 6345, "features": 36, "labels": 7},
    "pendigits": {"rows": 10992, "features": 16, "labels": 10},
}
_WORDS = {
    "rows": "rows",
    "features": "features",
    "labels": "labels",
    "candidates": "candidates per row",
}


def data_errors(datasets: list[dict[str, Any]]) -> list[str]:
    """Say where a data set is not what the paper prints about it.

    Parameters
    ----------
    datasets : list of dict
        As :func:`hera_fast.experiments.records.describe_data` describes them.

    Returns
    -------
    errors : list of str
        A sentence for each difference.

    Examples
    --------
    >>> from hera_fast.experiments.published import data_errors
    >>> fg_net = {"name": "fg-net", "title": "FG-NET", "rows": 1002, "features": 262}
    >>> data_errors([{**fg_net, "labels": 78, "candidates": 7.477}])
    ['FG-NET has 78 labels; the paper prints 99']
    """
    errors = []
    for data in datasets:
        for what, printed in _PRINTED_FACTS.get(data["name"], {}).items():
            found = round(data[what], 2)
            if found != printed:
                errors.append(
                    f"{data['title']} has {found:,} {_WORDS[what]}; the paper prints {printed:,}"
                )
    return errors

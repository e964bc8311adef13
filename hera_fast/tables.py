"""Tables of results: data frames where pandas is installed, else dicts of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["make_table"]


def make_table(rows: list[dict[str, Any]], names: list[str]) -> Any:
    """Make a table of rows.

    Parameters
    ----------
    rows : list of dict
        What stands in the columns, for each row.
    names : list of str
        The columns, in this order. What the rows have beside them is left out.

    Returns
    -------
    table : pandas.DataFrame, or dict of str to ndarray
        The latter without pandas.

    Examples
    --------
    >>> from hera_fast.tables import make_table
    >>> table = make_table([{"fold": 0, "score": 0.5}, {"fold": 1, "score": 0.75}], ["score"])
    >>> list(table), table["score"].tolist()
    (['score'], [0.5, 0.75])
    """
    columns = {name: np.asarray([row[name] for row in rows]) for name in names}
    try:
        import pandas
    except ImportError:
        return columns
    return pandas.DataFrame(columns)

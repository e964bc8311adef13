"""Where rows come from: a file, a published data set by its name, or digits."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from hera_fast.data_files import load_partial_labels
from hera_fast.data_sets import PUBLISHED, fetch_partial_labels, is_published, load_digits_partial

__all__ = ["DIGITS", "LETTER_ROWS", "Source", "fingerprint", "make_preparation"]

#: The name of the data set that is always there.
DIGITS = "digits"
#: Letter has 20,000 rows; the paper takes 5,000 of them without saying which.
LETTER_ROWS = 5000


@dataclass(frozen=True)
class Source:
    """A data set that can be loaded, in another process as well.

    Parameters
    ----------
    name : str
        A file; or ``"digits"``; or what :func:`hera_fast.fetch_partial_labels` knows.
    candidate_column, target_column : str or None, default=None
        Columns of a table, see :func:`hera_fast.load_partial_labels`.
    separator : str, default="|"
        Between candidates in a table.
    subset : int or None, default=None
        Take that many rows only, drawn with a fixed seed.

    Examples
    --------
    >>> from hera_fast.experiments.sources import Source
    >>> Source("digits", subset=100).load().data.shape
    (100, 64)
    """

    name: str
    candidate_column: str | None = None
    target_column: str | None = None
    separator: str = "|"
    subset: int | None = None

    def load(self) -> Bunch:
        """Return the data set, as :func:`hera_fast.load_partial_labels` does."""
        file = Path(self.name)
        state = file.stat() if self.is_file() and file.exists() else None
        version = None if state is None else (state.st_mtime_ns, state.st_size)
        return _load(self, os.environ.get("HERA_FAST_DATA"), version)

    def is_file(self) -> bool:
        """Tell whether the name is that of a file and not of a data set."""
        # A folder or a file without suffix does not hide the data set of that name.
        return self.name != DIGITS and not is_published(self.name)


# A process that computes many cells of a data set reads it once, unless the file changes.
@lru_cache(maxsize=16)
def _load(source: Source, folder: str | None, version: tuple[int, int] | None) -> Bunch:
    if source.name == DIGITS:
        bunch = load_digits_partial()
    elif source.is_file():
        if not (Path(source.name).exists() or Path(source.name).suffix):
            names = ", ".join([DIGITS, *PUBLISHED])
            raise FileNotFoundError(
                f"there is no file {source.name!r}, and no data set of this name but {names}"
            )
        bunch = load_partial_labels(
            source.name,
            candidate_column=source.candidate_column,
            target_column=source.target_column,
            separator=source.separator,
        )
    else:
        bunch = fetch_partial_labels(source.name)
    if source.subset is not None and source.subset < bunch.data.shape[0]:
        rows = np.random.RandomState(0).permutation(bunch.data.shape[0])[: source.subset]
        bunch = Bunch(**bunch)
        bunch.data, bunch.candidates = bunch.data[rows], bunch.candidates[rows]
        bunch.target = None if bunch.target is None else bunch.target[rows]
    return bunch


def fingerprint(bunch: Bunch) -> str:
    """Return a digest of features, candidates, truth and names.

    Parameters
    ----------
    bunch : Bunch
        A data set.

    Returns
    -------
    digest : str
        64 hexadecimal digits.

    Examples
    --------
    >>> from hera_fast import load_digits_partial
    >>> from hera_fast.experiments.sources import fingerprint
    >>> fingerprint(load_digits_partial()) == fingerprint(load_digits_partial(r=1))
    False
    """
    digest = hashlib.sha256()
    for part in (bunch.data, bunch.candidates, bunch.target):
        arrays = (part.data, part.indices, part.indptr) if sparse.issparse(part) else (part,)
        for array in arrays:
            values = np.ascontiguousarray([] if array is None else array)
            digest.update(f"{values.dtype.str} {values.shape} ".encode())
            digest.update(values.tobytes())
    names = [str(name) for name in (*bunch.target_names.tolist(), *bunch.feature_names)]
    digest.update("\0".join(names).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def make_preparation(X: Any) -> Any:
    """Make what fills in missing values and brings features to a common scale.

    Parameters
    ----------
    X : array or sparse matrix
        Rows that tell whether anything is missing, or sparse.

    Returns
    -------
    transformer : transformer
        Not fitted: the median for missing values, if there are any, then mean 0 and variance 1.
        The mean stays in sparse rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.experiments.sources import make_preparation
    >>> make_preparation(np.eye(2))
    StandardScaler()
    """
    if sparse.issparse(X):
        return StandardScaler(with_mean=False)
    if np.isnan(X).any():
        # A column without any value is kept, so that the numbers of the columns stay the same.
        return make_pipeline(
            SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
        )
    return StandardScaler()

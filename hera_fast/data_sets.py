"""Data sets by name: known copies of published sets on this machine, and digits for a first try.

Nothing is downloaded. The published sets come with terms of their own, so users get them from
their authors and put them into a folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from hera_fast.bunch import make_bunch
from hera_fast.data_files import load_partial_labels
from hera_fast.partial_labels import make_partial_labels

__all__ = ["PUBLISHED", "fetch_partial_labels", "is_published", "load_digits_partial"]

_FOLDER_VARIABLE = "HERA_FAST_DATA"
_SUFFIXES = (".npz", ".mat")  # the preferred one first


class _Source(NamedTuple):
    publisher: str
    terms: str
    folders: tuple[str, ...]  # below the folder with the data sets, the preferred one first
    file_form: str
    remark: str


_PALM = _Source(
    "the PALM laboratory of Min-Ling Zhang, Southeast University "
    "(https://palm.seu.edu.cn/zhangml/Resources.htm#partial_data)",
    "academic use only; the page says that the sets can be used at your own risk and for academic "
    "purpose only",
    ("realworld", "realworld/mat", "."),
    "{name}.mat, the file as published",
    "",
)
_UCI = _Source(
    "the UCI Machine Learning Repository (https://archive.ics.uci.edu)",
    "Creative Commons Attribution 4.0 (CC BY 4.0)",
    ("uci", "."),
    "{name}.npz, with the arrays X (features), y (numbers of the classes, from 0) and classes "
    "(their names)",
    "The set has no candidates: the true label of each row is its only one. "
    "hera_fast.partial_labels.make_partial_labels draws artificial ones.",
)


class _DataSet(NamedTuple):
    title: str
    source: _Source
    reference: str
    # SHA-256 digests; or, with 40 digits, the ids that Git gives to files.
    known_copies: tuple[str, ...]


def _uci(title: str, digest: str) -> _DataSet:
    return _DataSet(title, _UCI, f"UCI Machine Learning Repository: {title}", (digest,))


_DATA_SETS = {
    "lost": _DataSet(
        "Lost: naming the faces of a television series",
        _PALM,
        "T. Cour, B. Sapp, B. Taskar: Learning from partial labels. "
        "Journal of Machine Learning Research 12, 2011",
        (
            "b4fcbbd95c1d38449ffb22c92a31543dc46d93c42ae151da97d8244c205f800c",
            "42a8cc43e05578087e7b8ca194647829ec535dc4d0a86cf47f357c5eb3146e4f",
        ),
    ),
    "msrcv2": _DataSet(
        "MSRCv2: naming the objects in images",
        _PALM,
        "L. Liu, T. Dietterich: A conditional multinomial mixture model for superset label "
        "learning. Advances in Neural Information Processing Systems, 2012",
        (
            "48da4103f77257d5d27a23bdc8de96e78887cb1af09e961e32eea0d0c2661043",
            "948e4d443a5450308f05aa689bc82d9bcc7af699a113a6a81c40ef337a20c393",
        ),
    ),
    "fg-net": _DataSet(
        "FG-NET: estimating the age of faces",
        _PALM,
        "G. Panis, A. Lanitis: An overview of research activities in facial age estimation using "
        "the FG-NET aging database. European Conference on Computer Vision, 2014",
        (
            "bc37a6ba17d6fb43cac4683e84e569928aea8e761c1cb3c226087a88a64bcfeb",
            "5b8d43e40cee007f6438a7a74d600b5cf67ac596754a322ce91b0fc6811f45db",
        ),
    ),
    "birdsong": _DataSet(
        "BirdSong: telling the birds in recordings of several",
        _PALM,
        "F. Briggs, X. Fern, R. Raich: Rank-loss support instance machines for MIML instance "
        "annotation. Knowledge Discovery and Data Mining, 2012",
        (
            "c8c366c952ff2201ba9acb184cb3eead5d374dd3877d5983a37e3dce1de77a96",
            "2170d46765a151ac80623d9a1242e0299802236e5574442bdb596bef90f50743",
        ),
    ),
    "soccer-player": _DataSet(
        "Soccer Player: naming the faces in news photos of soccer",
        _PALM,
        "Z. Zeng, S. Xiao, K. Jia, T. Chan, S. Gao, D. Xu, Y. Ma: Learning by associating "
        "ambiguously labeled images. Computer Vision and Pattern Recognition, 2013",
        ("3372e7350e06eba374c715e07fbd18e2555e00ec",),
    ),
    "yahoo-news": _DataSet(
        "Yahoo! News: naming the faces in news photos",
        _PALM,
        "M. Guillaumin, J. Verbeek, C. Schmid: Multiple instance metric learning from "
        "automatically labeled bags of faces. European Conference on Computer Vision, 2010",
        ("c9c3c35a6562ece4dffca8e7997c4c9cdcd12354",),
    ),
    "glass": _uci(
        "Glass Identification",
        "bafc8aabb1b61badf774f42b7253c84589d7d128f7fb6d91ede6f5112b429a6c",
    ),
    "ecoli": _uci(
        "Ecoli",
        "82564fdec8cb9f8524d308b54be3e1800dc5381391a56818b26b39be392f25c9",
    ),
    "dermatology": _uci(
        "Dermatology",
        "bf4dc04f836ea1dbb1478a40c29a37f4bac4d81fe3e548b199048f75866bb23b",
    ),
    "vehicle": _uci(
        "Statlog (Vehicle Silhouettes)",
        "acf4e7b78474c661edd695ddb9f42b438c73ebf9b7bb0857b3bfc0b2026d5aa5",
    ),
    "segment": _uci(
        "Image Segmentation",
        "541436c05d4a5e5ba1b7f30409ca0ffcf5ce169522016228e8ab9a1dda098ee0",
    ),
    "abalone": _uci(
        "Abalone",
        "492a364262a2d3e6cea2d3f3346700e85c479e8cb109fb2430056c439745f5bb",
    ),
    "letter": _uci(
        "Letter Recognition",
        "d88b534d75275302663b927a8ad53c527b4aeffaf1a3120674c9da3c657d3d3a",
    ),
    "satimage": _uci(
        "Statlog (Landsat Satellite)",
        "d23fccb577bef2b22f5a9bdaa23bb58f010eabd5daabd081b85408c1da610b14",
    ),
    "pendigits": _uci(
        "Pen-Based Recognition of Handwritten Digits",
        "3ef9547c894c164e395555d6d038bc970a4d50e0df9b74ffee59e420c4db70d6",
    ),
}


#: The names of published data sets.
PUBLISHED = tuple(_DATA_SETS)


def fetch_partial_labels(name: str, *, data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Read a published data set that is on this machine.

    Parameters
    ----------
    name : str
        A partial-label set, ``"lost"``, ``"msrcv2"``, ``"fg-net"``, ``"birdsong"``,
        ``"soccer-player"`` or ``"yahoo-news"``, or a UCI set, ``"glass"``, ``"ecoli"``,
        ``"dermatology"``, ``"vehicle"``, ``"segment"``, ``"abalone"``, ``"letter"``,
        ``"satimage"`` or ``"pendigits"``. Case, spaces and punctuation do not matter.
    data_home : str or path, default=None
        The folder with the data sets. None means the folder that the environment variable
        ``HERA_FAST_DATA`` names, if it is set, then ``hera-fast`` in the user's cache directory.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With ``data``, ``candidates``, ``target``, ``target_names``, ``feature_names`` and
        ``DESCR``, as :func:`hera_fast.data_files.load_partial_labels` returns them. UCI sets have
        no candidates, so the true label of each row is its only one:
        :func:`hera_fast.partial_labels.make_partial_labels` draws artificial ones.

    Raises
    ------
    FileNotFoundError
        If the set is in none of the folders. The message says which these are, who publishes it
        under what terms, and what to name the file.
    ValueError
        If there is no set of this name, or the file is damaged.

    Warns
    -----
    UserWarning
        If the file is not one of the known copies of the set: figures that were published for
        these may not be comparable then.

    Notes
    -----
    Files are .npz or .mat, named after the set; again case, spaces and punctuation do not matter.
    They are in the folder itself or below it, in ``realworld`` or ``realworld/mat`` for
    partial-label sets and in ``uci`` for UCI sets. No feature is scaled.

    Examples
    --------
    >>> import tempfile
    >>> from hera_fast.data_sets import fetch_partial_labels
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     fetch_partial_labels("Yahoo! News", data_home=empty)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileNotFoundError: yahoo-news is not in ...
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {type(name).__name__}")
    if not is_published(name):
        raise ValueError(f"there is no data set {name!r}, but {', '.join(_DATA_SETS)}")
    name = next(known for known in _DATA_SETS if _normalised(known) == _normalised(name))
    data_set = _DATA_SETS[name]
    folders = _folders() if data_home is None else [Path(data_home)]
    path = _find(name, data_set.source, folders)
    _check_copy(path, data_set)
    bunch = load_partial_labels(path)
    source = data_set.source
    parts = (
        data_set.title + ".",
        source.remark,
        f"Published by {source.publisher}.",
        f"Terms: {source.terms}.",
        f"Reference: {data_set.reference}.",
    )
    bunch.DESCR = "\n\n".join([bunch.DESCR, *filter(None, parts)])
    return bunch


def is_published(name: str) -> bool:
    """Tell whether :func:`fetch_partial_labels` knows a data set of this name.

    Examples
    --------
    >>> from hera_fast.data_sets import is_published
    >>> is_published("Yahoo! News"), is_published("faces.csv")
    (True, False)
    """
    return _normalised(name) in map(_normalised, _DATA_SETS)


def _normalised(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _folders() -> list[Path]:
    named = os.environ.get(_FOLDER_VARIABLE)
    return [Path(named), _cache_folder()] if named else [_cache_folder()]


def _cache_folder() -> Path:
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return Path(base, "hera-fast")


def _find(name: str, source: _Source, folders: list[Path]) -> Path:
    for folder in (folder / below for folder in folders for below in source.folders):
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        for suffix in _SUFFIXES:
            for path in files:
                if path.suffix.lower() == suffix and _normalised(path.stem) == _normalised(name):
                    return path
    places = " or ".join(map(str, folders))
    raise FileNotFoundError(
        f"{name} is not in {places}. It is published by {source.publisher}. Terms: {source.terms}. "
        f"Put it there, or into a folder that data_home or {_FOLDER_VARIABLE} names, as "
        f"{source.file_form.format(name=name)}."
    )


def _check_copy(path: Path, data_set: _DataSet) -> None:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    git_id = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    if digest not in data_set.known_copies and git_id not in data_set.known_copies:
        warnings.warn(
            f"{path} is not a known copy of the data set: its SHA-256 digest is {digest}. Figures "
            "that were published for known copies may not be comparable.",
            UserWarning,
            stacklevel=3,
        )


def load_digits_partial(
    *,
    p: float = 0.8,
    r: int = 2,
    noise: str = "instance",
    random_state: int | np.random.RandomState | None = 0,
) -> Bunch:
    """Return scikit-learn's handwritten digits with artificial candidates, for a first try.

    Parameters
    ----------
    p : float, default=0.8
        Share of the rows that get false labels.
    r : int, default=2
        How many each of them gets.
    noise : {"instance", "uniform"}, default="instance"
        Whether digits that look like the true one are more likely to be a false label, or all are
        alike; see :func:`hera_fast.partial_labels.make_partial_labels`.
    random_state : int, RandomState instance or None, default=0
        Decides what is drawn.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        With ``data`` (1797 x 64, from 0 to 16), ``candidates``, ``target``, ``target_names``,
        ``feature_names`` and ``DESCR``.

    Examples
    --------
    >>> from hera_fast.data_sets import load_digits_partial
    >>> digits = load_digits_partial()
    >>> digits.data.shape, digits.candidates.shape
    ((1797, 64), (1797, 10))
    >>> digits.candidates[[0, 1]].toarray().astype(int)
    array([[1, 0, 0, 0, 1, 0, 0, 0, 0, 1],
           [0, 1, 0, 0, 1, 0, 0, 0, 1, 0]])
    """
    digits: Any = load_digits()
    options = {"X": digits.data} if noise == "instance" else {}
    candidates = make_partial_labels(
        digits.target,
        p=p,
        r=r,
        noise=noise,
        sparse_output=True,
        random_state=random_state,
        **options,
    )
    how = f"make_partial_labels with p={p}, r={r} and noise={noise!r}"
    return make_bunch(
        digits.data,
        candidates,
        digits.target,
        target_names=digits.target_names,
        feature_names=digits.feature_names,
        DESCR=f"Handwritten digits of scikit-learn, candidates by {how}.\n\n{digits.DESCR}",
    )

"""Published sets are found, recognised and described; digits need nothing but scikit-learn."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import io, sparse
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from hera_fast import data_sets
from hera_fast.data_sets import fetch_partial_labels, load_digits_partial

# Rows, features, labels, and what is known of the candidates.
REAL = {
    "lost": (1122, 108, 16, 2.2317),
    "msrcv2": (1758, 48, 23, 3.1564),
    "fg-net": (1002, 262, 78, 7.4770),
    "birdsong": (4998, 38, 13, 2.1755),
}
UCI = {
    "glass": (214, 9, 6),
    "ecoli": (336, 7, 8),
    "dermatology": (366, 34, 6),
    "vehicle": (846, 18, 4),
    "segment": (2310, 18, 7),
    "abalone": (4177, 7, 28),
    "letter": (20000, 16, 26),
    "satimage": (6435, 36, 6),
    "pendigits": (10992, 16, 10),
}
PARTIAL = [*REAL, "soccer-player", "yahoo-news"]
FOLDER = os.environ.get("HERA_FAST_DATA")
needs_data = pytest.mark.skipif(
    not FOLDER, reason="HERA_FAST_DATA does not say where the data sets are"
)

X = np.array([[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]])
Y = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]], np.uint8)
TRUTH = np.array([0, 1, 2])

unknown_copy = pytest.mark.filterwarnings("ignore:.* is not a known copy:UserWarning")


def write_npz(path, shift=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, X=X + shift, Y=Y, y=TRUTH)


def write_mat(path, shift=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    target = np.eye(3)[:, TRUTH]
    io.savemat(
        path,
        {
            "data": X + shift,
            "partial_target": sparse.csc_matrix(Y.T.astype(float)),
            "target": target,
        },
    )


def write_supervised(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, X=X, y=np.array([0, 1, 1]), classes=np.array(["cp", "im"]))


@pytest.fixture(autouse=True)
def empty_places(tmp_path_factory, monkeypatch):
    """No data sets but those that a test writes or names."""
    monkeypatch.delenv("HERA_FAST_DATA", raising=False)
    home = tmp_path_factory.mktemp("home")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    return home


def assert_is_ours(bunch, shift=0.0):
    np.testing.assert_array_equal(bunch.data, X + shift)
    assert isinstance(bunch.candidates, sparse.csr_array)
    np.testing.assert_array_equal(bunch.candidates.toarray(), Y.astype(bool))
    np.testing.assert_array_equal(bunch.target, TRUTH)


# Where files are


@unknown_copy
@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.parametrize(
    ("place", "write"),
    [
        ("realworld/{}.npz", write_npz),
        ("{}.npz", write_npz),
        ("realworld/mat/{}.mat", write_mat),
        ("{}.mat", write_mat),
    ],
)
def test_places_of_partial_label_sets(name, place, write, tmp_path):
    write(tmp_path / place.format(name))
    assert_is_ours(fetch_partial_labels(name, data_home=tmp_path))
    assert_is_ours(fetch_partial_labels(name, data_home=str(tmp_path)))


@unknown_copy
@pytest.mark.parametrize("name", UCI)
@pytest.mark.parametrize("place", ["uci/{}.npz", "{}.npz"])
def test_places_of_uci_sets(name, place, tmp_path):
    write_supervised(tmp_path / place.format(name))
    bunch = fetch_partial_labels(name, data_home=tmp_path)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, [0, 1, 1])
    np.testing.assert_array_equal(bunch.candidates.toarray(), np.eye(2, dtype=bool)[[0, 1, 1]])
    assert bunch.target_names.tolist() == ["cp", "im"]


@unknown_copy
def test_order_of_places(tmp_path):
    places = ["realworld/lost.npz", "realworld/lost.mat", "realworld/mat/lost.mat", "lost.npz"]
    for shift, place in enumerate(places):
        (write_npz if place.endswith("npz") else write_mat)(tmp_path / place, shift)
    for shift, place in enumerate(places):
        assert_is_ours(fetch_partial_labels("lost", data_home=tmp_path), shift)
        (tmp_path / place).unlink()
    with pytest.raises(FileNotFoundError):
        fetch_partial_labels("lost", data_home=tmp_path)


@unknown_copy
def test_folders(tmp_path, monkeypatch, empty_places):
    for shift, folder in enumerate(["argument", "variable", "cache/hera-fast"]):
        write_npz(tmp_path / folder / "lost.npz", shift)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert_is_ours(fetch_partial_labels("lost"), 2)
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path / "variable"))
    assert_is_ours(fetch_partial_labels("lost"), 1)
    assert_is_ours(fetch_partial_labels("lost", data_home=tmp_path / "argument"), 0)
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path / "nowhere"))
    assert_is_ours(fetch_partial_labels("lost"), 2)
    # A folder that was asked for is the only one.
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fetch_partial_labels("lost", data_home=tmp_path / "nowhere")


@unknown_copy
@pytest.mark.parametrize(
    ("platform", "variable", "default"),
    [
        ("linux", "XDG_CACHE_HOME", ".cache"),
        ("darwin", None, "Library/Caches"),
        ("win32", "LOCALAPPDATA", "AppData/Local"),
    ],
)
def test_cache_directory(platform, variable, default, tmp_path, monkeypatch, empty_places):
    monkeypatch.setattr(sys, "platform", platform)
    write_npz(empty_places / default / "hera-fast" / "lost.npz")
    assert_is_ours(fetch_partial_labels("lost"))
    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path))
        with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "hera-fast"))):
            fetch_partial_labels("lost")
        write_npz(tmp_path / "hera-fast" / "lost.npz", 3)
        assert_is_ours(fetch_partial_labels("lost"), 3)


# Names


@unknown_copy
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("Yahoo! News", "Yahoo! News.mat"),
        ("yahoo_news", "YahooNews.MAT"),
        ("YAHOO-NEWS", "yahoo-news.mat"),
        ("Soccer Player", "Soccer Player.mat"),
        ("FG-NET", "fgnet.mat"),
        ("fgnet", "FG-NET.mat"),
        ("MSRCv2", "MSRCv2.mat"),
        ("Bird Song", "BirdSong.mat"),
    ],
)
def test_case_and_punctuation_do_not_matter(name, file, tmp_path):
    write_mat(tmp_path / file)
    write_mat(tmp_path / "another.mat", 1)
    assert_is_ours(fetch_partial_labels(name, data_home=tmp_path))


def test_unknown_name():
    names = ", ".join([*PARTIAL, *UCI])
    with pytest.raises(ValueError, match=f"^there is no data set 'found', but {names}$"):
        fetch_partial_labels("found")
    with pytest.raises(TypeError, match="name must be a string, got int"):
        fetch_partial_labels(3)


# What is said about them


@pytest.mark.parametrize("name", PARTIAL)
def test_absent_partial_label_set(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HERA_FAST_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        fetch_partial_labels(name)
    message = str(caught.value)
    assert f"{name} is not in {tmp_path} or " in message
    assert "hera-fast" in message
    for part in ("PALM", "Min-Ling Zhang", "Southeast University", "academic use only"):
        assert part in message
    assert f"as {name}.mat" in message


@pytest.mark.parametrize("name", UCI)
def test_absent_uci_set(name, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        fetch_partial_labels(name, data_home=tmp_path)
    message = str(caught.value)
    for part in (str(tmp_path), "UCI Machine Learning Repository", "CC BY 4.0", f"as {name}.npz"):
        assert part in message


@unknown_copy
def test_descriptions(tmp_path):
    write_npz(tmp_path / "lost.npz")
    write_supervised(tmp_path / "ecoli.npz")
    text = fetch_partial_labels("lost", data_home=tmp_path).DESCR
    for part in ("3 rows, 2 features", "PALM", "academic", "Cour", "2011"):
        assert part in text
    assert "make_partial_labels" not in text
    text = fetch_partial_labels("ecoli", data_home=tmp_path).DESCR
    for part in ("UCI Machine Learning Repository", "CC BY 4.0", "no candidates"):
        assert part in text
    assert "make_partial_labels" in text


def test_unknown_copy_is_returned_with_a_warning(tmp_path):
    path = tmp_path / "lost.npz"
    write_npz(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.warns(UserWarning, match="not a known copy") as caught:
        bunch = fetch_partial_labels("lost", data_home=tmp_path)
    assert_is_ours(bunch)
    assert str(path) in str(caught[0].message)
    assert digest in str(caught[0].message)
    assert caught[0].filename == __file__


def test_copies_known_by_their_git_id(tmp_path, monkeypatch):
    path = tmp_path / "yahoo-news.mat"
    path.write_bytes(b"hello\n")
    known = data_sets._DATA_SETS["yahoo-news"]
    # What `git hash-object` prints for this content.
    changed = known._replace(known_copies=("ce013625030ba8dba906f756967f9e9ca394464a",))
    monkeypatch.setitem(data_sets._DATA_SETS, "yahoo-news", changed)
    loaded = Bunch(DESCR="")
    monkeypatch.setattr(data_sets, "load_partial_labels", lambda path: loaded)
    assert fetch_partial_labels("yahoo-news", data_home=tmp_path) is loaded
    path.write_bytes(b"hello")
    with pytest.warns(UserWarning, match="not a known copy"):
        fetch_partial_labels("yahoo-news", data_home=tmp_path)


def test_damaged_file(tmp_path):
    (tmp_path / "lost.npz").write_bytes(b"nothing")
    with (
        pytest.warns(UserWarning, match="not a known copy"),
        pytest.raises(ValueError, match=r"lost\.npz"),
    ):
        fetch_partial_labels("lost", data_home=tmp_path)


# The sets themselves; a warning would be an error, so they are known copies


def fetch_real(name, folder):
    try:
        return fetch_partial_labels(name, data_home=folder)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@needs_data
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("form", ["npz", "mat"])
def test_real_sets(name, form):
    bunch = fetch_real(name, FOLDER if form == "npz" else Path(FOLDER, "realworld", "mat"))
    n, d, q, n_candidates = REAL[name]
    assert bunch.data.shape == (n, d)
    assert bunch.candidates.shape == (n, q)
    assert round(bunch.candidates.nnz / n, 4) == n_candidates
    assert bunch.candidates[np.arange(n), bunch.target].all()
    assert len(bunch.target_names) == q
    assert len(bunch.feature_names) == d


@needs_data
@pytest.mark.parametrize("name", ["soccer-player", "yahoo-news"])
def test_large_real_sets(name):
    bunch = fetch_real(name, FOLDER)
    shapes = {"soccer-player": (17472, 279, 171), "yahoo-news": (22991, 163, 219)}
    assert (*bunch.data.shape, bunch.candidates.shape[1]) == shapes[name]


@needs_data
@pytest.mark.parametrize("name", UCI)
def test_real_uci_sets(name):
    bunch = fetch_real(name, FOLDER)
    n, d, q = UCI[name]
    assert bunch.data.shape == (n, d)
    assert bunch.candidates.shape == (n, q)
    assert bunch.candidates.nnz == n
    np.testing.assert_array_equal(bunch.candidates.indices, bunch.target)
    assert len(bunch.target_names) == q


# Digits


def test_digits():
    digits = load_digits_partial()
    expected = load_digits()
    np.testing.assert_array_equal(digits.data, expected.data)
    np.testing.assert_array_equal(digits.target, expected.target)
    assert digits.target_names.tolist() == list(range(10))
    assert digits.feature_names == expected.feature_names
    assert digits.candidates[np.arange(1797), digits.target].all()
    sizes = np.diff(digits.candidates.indptr)
    assert np.bincount(sizes).tolist() == [0, 1797 - 1438, 0, 1438]
    assert "make_partial_labels with p=0.8, r=2 and noise='instance'" in digits.DESCR
    assert "Alpaydin" in digits.DESCR


def test_digits_that_look_alike_are_candidates():
    def largest_shares(**options):
        """Of the false labels of each digit, the share of the most frequent one."""
        digits = load_digits_partial(**options)
        false = digits.candidates.toarray()
        false[np.arange(1797), digits.target] = False
        counts = np.array([false[digits.target == digit].sum(axis=0) for digit in range(10)])
        return counts.max(axis=1) / counts.sum(axis=1)

    assert largest_shares(noise="uniform").max() < 0.17
    assert largest_shares().min() > 0.19


def test_options_of_digits():
    digits = load_digits_partial(p=0.5, r=1, noise="uniform", random_state=3)
    assert digits.candidates.nnz == 1797 + round(1797 / 2)
    assert "make_partial_labels with p=0.5, r=1 and noise='uniform'" in digits.DESCR
    again = load_digits_partial(p=0.5, r=1, noise="uniform", random_state=3)
    assert (digits.candidates != again.candidates).nnz == 0
    other = load_digits_partial(p=0.5, r=1, noise="uniform", random_state=4)
    assert (digits.candidates != other.candidates).nnz > 0
    with pytest.raises(ValueError, match="noise must be"):
        load_digits_partial(noise="none")

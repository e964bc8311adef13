"""MATLAB files of both kinds: as they come from the web, and as they are written here."""

from __future__ import annotations

import io

import h5py
import numpy as np
import pytest
from bunches import CANDIDATES, DATA, FEATURES, NAMES, TARGET, assert_same, example
from matlab_hdf5 import write_hdf5
from scipy import sparse
from scipy.io import loadmat, savemat
from scipy.io.matlab import MatWriteError

from hera_fast import expansion, extras, matlab_files
from hera_fast.bunch import make_bunch
from hera_fast.data_files import load_partial_labels, save_partial_labels
from hera_fast.matlab_files import write_matlab

TRUTH = np.eye(3)[TARGET]
FORMS = {"dense": np.asarray, "sparse": sparse.csc_matrix}


def cells(names):
    return np.array([*names, None], object)[:-1, None]


def in_cells(variables):
    """For SciPy, lists of strings are object arrays."""
    return {
        name: cells(value)
        if isinstance(value, list)
        else in_cells(value)
        if isinstance(value, dict)
        else value
        for name, value in variables.items()
    }


WRITERS = {
    "5": lambda path, variables: savemat(path, in_cells(variables)),
    "7": lambda path, variables: savemat(path, in_cells(variables), do_compression=True),
    "7.3": write_hdf5,
    "HDF5 of others": lambda path, variables: write_hdf5(path, variables, userblock_size=0),
}
every_version = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lost.mat"


def assert_example(bunch):
    assert bunch.data.dtype == np.float64
    np.testing.assert_array_equal(bunch.data, DATA)
    np.testing.assert_array_equal(bunch.candidates.toarray(), CANDIDATES)
    assert bunch.target.tolist() == TARGET.tolist()


# Layouts


@every_version
@every_form
@pytest.mark.parametrize("dtype", [np.float64, np.uint8, np.bool_])
def test_usual_layout(write, form, dtype, path):
    write(
        path,
        {
            "data": DATA,
            "partial_target": form(CANDIDATES.T.astype(dtype)),
            "target": form(TRUTH.T.astype(dtype)),
        },
    )
    bunch = load_partial_labels(path)
    assert_example(bunch)
    assert bunch.target_names.tolist() == ["0", "1", "2"]


@every_version
@every_form
def test_struct_with_folds(write, form, path):
    fields = {
        "data": DATA,
        "partial_target": form(CANDIDATES.T * 1.0),
        "target": form(TRUTH.T),
        "tr_idx": ["one", "two"],
        "optmParameter": {"alpha": np.array([[0.1]]), "deep": {"er": np.eye(2)}},
    }
    write(path, {"lost": fields, "version": "1"})
    assert_example(load_partial_labels(path))


@every_version
@every_form
def test_everything_turned(write, form, path):
    variables = {
        "data": DATA.T,
        "partial_target": form(CANDIDATES * 1.0),
        "target": TARGET[:, None] + 1.0,
        "other": {"text": "more"},
    }
    write(path, variables)
    assert_example(load_partial_labels(path))


@every_version
def test_names_and_description(write, path):
    names = ["a", "", "ähem €𝄞"]
    write(
        path,
        {
            "DATA": DATA,
            "p_labels": CANDIDATES,
            "target_names": names,
            "feature_names": FEATURES,
            "DESCR": "Zwölf Boxkämpfer",
        },
    )
    bunch = load_partial_labels(path)
    assert bunch.target is None
    assert bunch.target_names.tolist() == names
    assert bunch.feature_names == FEATURES
    assert bunch.DESCR.endswith("\n\nZwölf Boxkämpfer")


@every_version
def test_sparse_data_stay_sparse(write, path):
    data = sparse.csc_array(np.array([[0, 1.5], [0, 0], [-2, 0], [0, 3]]))
    write(path, {"data": data, "partial_target": CANDIDATES.T})
    bunch = load_partial_labels(path)
    assert isinstance(bunch.data, sparse.csr_array)
    np.testing.assert_array_equal(bunch.data.toarray(), data.toarray())


@every_version
def test_without_entries(write, path):
    write(path, {"data": DATA, "partial_target": sparse.csc_array((3, 4))})
    with pytest.raises(ValueError, match=r"lost\.mat: .*0 entries for 4 rows"):
        load_partial_labels(path)


@every_version
def test_single_precision_stays(write, path):
    data = np.array([[0.1, 1], [2, 3], [4, 5], [6, 7]], np.float32)
    write(path, {"data": data, "partial_target": CANDIDATES.T})
    bunch = load_partial_labels(path)
    assert bunch.data.dtype == np.float32
    assert bunch.data.tobytes() == data.tobytes()


@every_version
@pytest.mark.parametrize("value", [["a", "b"], {"a": np.eye(2)}, "text"])
def test_what_is_no_matrix(write, value, path):
    write(path, {"data": DATA, "partial_target": value})
    with pytest.raises(ValueError, match=r"lost\.mat: partial_target is no matrix of numbers"):
        load_partial_labels(path)


@every_version
def test_a_cell_of_matrices(write, path):
    if write is WRITERS["5"] or write is WRITERS["7"]:
        mixed = np.empty((2, 1), object)
        mixed[:, 0] = [np.eye(2), "a"]
    else:
        mixed = [np.eye(2), "a"]
    write(path, {"data": mixed, "partial_target": CANDIDATES.T})
    with pytest.raises(ValueError, match=r"lost\.mat: data is no matrix .*: it is a cell"):
        load_partial_labels(path)


@every_version
def test_complex_numbers(write, path):
    write(path, {"data": DATA * 1j, "partial_target": CANDIDATES.T})
    with pytest.raises(ValueError, match=r"lost\.mat: data .* numbers.*(complex|real)"):
        load_partial_labels(path)


def test_big_endian(path):
    """SciPy writes little-endian only; this is a file with one double matrix per variable."""

    def element(kind, data):
        tag = np.array([kind, len(data)], ">u4").tobytes()
        return tag + data + bytes(-len(data) % 8)

    def matrix(name, array):
        return element(
            14,
            element(6, np.array([6, 0], ">u4").tobytes())
            + element(5, np.array(array.shape, ">i4").tobytes())
            + element(1, name)
            + element(9, array.astype(">f8").tobytes("F")),
        )

    path.write_bytes(
        b"MATLAB 5.0 MAT-file".ljust(124)
        + b"\1\0MI"
        + matrix(b"data", DATA)
        + matrix(b"partial_target", CANDIDATES.T)
        + matrix(b"target", TRUTH.T)
    )
    assert_example(load_partial_labels(path))


def test_rows_of_text(path):
    """MATLAB keeps texts of equal length in one matrix, and fills them with space."""
    savemat(
        path, {"data": DATA, "partial_target": CANDIDATES.T, "target_names": ["cat", "o", "no"]}
    )
    assert loadmat(path)["target_names"].tolist() == ["cat", "o  ", "no "]
    assert load_partial_labels(path).target_names.tolist() == ["cat", "o", "no"]


def test_array_of_structs(path):
    struct = np.zeros((1, 2), [("data", object), ("partial_target", object)])
    struct[0] = [(DATA, CANDIDATES.T), (DATA, CANDIDATES.T)]
    savemat(path, {"lost": struct})
    with pytest.raises(ValueError, match=r"variables are: lost \(it is an array of 2 structs\)"):
        load_partial_labels(path)


def test_variables_that_cannot_be_read_do_no_harm(path):
    struct = np.zeros((1, 1), [("a", object)])
    savemat(path, {"data": DATA, "partial_target": CANDIDATES.T, "target": TRUTH.T, "z": struct})
    sound = path.read_bytes()
    start = sound.index(b"z\0\0\0")
    # The class of the struct, in its flags, becomes that of a function.
    flags = sound.rindex(b"\6\0\0\0\10\0\0\0\2", 0, start) + 8
    path.write_bytes(sound[:flags] + b"\x10" + sound[flags + 1 :])
    assert_example(load_partial_labels(path))


def look_alike(n, d, q, mean_candidates, seed):
    """Long-tailed labels and names that occur together, in the shape of a real data set."""
    rng = np.random.default_rng(seed)
    target = np.minimum(rng.zipf(1.3, n) - 1, q - 1)
    extra = rng.poisson(mean_candidates - 1, n)
    rows = np.append(np.arange(n), np.repeat(np.arange(n), extra))
    columns = np.append(target, (np.repeat(target, extra) + rng.zipf(1.5, extra.sum())) % q)
    candidates = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, q)).tocsc()
    candidates.data[:] = 1
    return rng.random((n, d)), candidates, target


@pytest.mark.parametrize(
    ("name", "shape", "form"),
    [
        ("Soccer Player.mat", (1747, 279, 171, 2.09), "dense"),
        ("Yahoo! News.mat", (2299, 163, 219, 1.91), "sparse"),
    ],
)
@pytest.mark.parametrize("version", ["7", "7.3"])
def test_look_alikes_of_large_files(name, shape, form, version, tmp_path):
    data, candidates, target = look_alike(*shape, seed=0)
    truth = sparse.csc_array(np.eye(shape[2])[target].T)
    matrices = candidates.T.tocsc(), truth
    if form == "dense":
        matrices = tuple(matrix.toarray().astype(np.uint8) for matrix in matrices)
    variables = dict(zip(("partial_target", "target"), matrices, strict=True))
    WRITERS[version](tmp_path / name, {"data": data, **variables})
    bunch = load_partial_labels(tmp_path / name)
    assert bunch.data.tobytes() == data.tobytes()
    assert (bunch.candidates != candidates.astype(bool)).nnz == 0
    np.testing.assert_array_equal(bunch.target, target)


# Version 7.3


def test_links_to_other_files_are_not_followed(path, tmp_path):
    write_hdf5(tmp_path / "other.mat", {"data": DATA, "partial_target": CANDIDATES.T})
    with h5py.File(path, "w") as root:
        for name in ("data", "partial_target"):
            root[name] = h5py.ExternalLink(str(tmp_path / "other.mat"), name)
    with pytest.raises(ValueError, match="data is no matrix of numbers: it is a link"):
        load_partial_labels(path)


def test_contents_of_other_files_are_not_read(path, tmp_path):
    (tmp_path / "secret").write_bytes(DATA.tobytes())
    with h5py.File(path, "w") as root:
        root.create_dataset("data", (2, 4), "f8", external=[(str(tmp_path / "secret"), 0, 64)])
        root["partial_target"] = CANDIDATES * 1.0
    with pytest.raises(ValueError, match=r"lost\.mat: data is stored in a way that is not read"):
        load_partial_labels(path)


def test_huge_datasets_without_contents_are_not_read(path):
    with h5py.File(path, "w") as root:
        root.create_dataset("data", (2, 10**10), "f8", chunks=(1, 10**5))
        root["partial_target"] = CANDIDATES * 1.0
    with pytest.raises(ValueError, match=r"lost\.mat: data would unfold from 0 bytes to 16000000"):
        load_partial_labels(path)


def test_a_cell_that_holds_the_same_text_many_times_is_not_read(path, monkeypatch):
    monkeypatch.setattr(expansion, "_HARMLESS", 10**6)
    write_hdf5(path, {"data": DATA, "partial_target": CANDIDATES.T, "target_names": ["a"] * 3})
    with h5py.File(path, "r+") as root:
        # A text of 50,000 characters that takes no space, for up to 8 bytes each.
        text = root["#refs#"].create_dataset("text", (50_000, 1), "u2", chunks=(1000, 1))
        text.attrs["MATLAB_class"] = np.bytes_("char")
        root["target_names"][0, :2] = text.ref
    with pytest.raises(ValueError, match="more than once"):
        load_partial_labels(path)
    with h5py.File(path, "r+") as root:
        root["target_names"][0, 2] = root["#refs#"]["text"].ref
    with pytest.raises(ValueError, match=r"lost\.mat: the file, up to target_names, would unfold"):
        load_partial_labels(path)


def test_without_h5py(path, monkeypatch):
    def without(name, *arguments, **options):
        if name.partition(".")[0] == "h5py":
            raise ImportError("no h5py")
        return imported(name, *arguments, **options)

    imported = extras.import_module
    monkeypatch.setattr(extras, "import_module", without)
    write_hdf5(path, {"data": DATA, "partial_target": CANDIDATES.T})
    reason = (
        r"lost\.mat: a MATLAB file of version 7\.3 needs h5py: pip install 'hera-fast\[files\]'"
    )
    with pytest.raises(ImportError, match=reason):
        load_partial_labels(path)
    savemat(path, {"data": DATA, "partial_target": CANDIDATES.T})
    load_partial_labels(path)


# Writing


def test_what_others_find_in_the_file(path):
    save_partial_labels(path, example())
    variables = loadmat(path)
    np.testing.assert_array_equal(variables["data"], DATA)
    for name, expected in (("partial_target", CANDIDATES.T), ("target", TRUTH.T)):
        assert sparse.issparse(variables[name])
        assert variables[name].dtype == np.float64
        np.testing.assert_array_equal(variables[name].toarray(), expected)
    assert [str(name[0]) for name in variables["target_names"][:, 0]] == NAMES
    assert [str(name[0]) for name in variables["feature_names"][:, 0]] == FEATURES
    assert variables["DESCR"].tolist() == [example().DESCR]
    assert path.read_bytes().startswith(b"MATLAB 5.0 MAT-file")


def test_sparse_single_precision_becomes_double(path):
    data = sparse.csr_array(np.array([[0.1, 0], [0, 0], [0, 3], [4, 0]], np.float32))
    save_partial_labels(path, example(data=data))
    bunch = load_partial_labels(path)
    assert_same(bunch, example(data=data.astype(np.float64)))


def test_matrices_that_are_too_large(monkeypatch):
    def fail(*arguments, **options):
        raise MatWriteError("Matrix too large")

    monkeypatch.setattr(matlab_files, "savemat", fail)
    with pytest.raises(ValueError, match="no place for matrices of this size"):
        write_matlab(io.BytesIO(), make_bunch([[1.0]], [[1]]))

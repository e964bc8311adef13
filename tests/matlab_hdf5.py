"""Writes variables as MATLAB 7.3 does: HDF5 with everything turned, sparse matrices in groups."""

from __future__ import annotations

import h5py
import numpy as np
from scipy import sparse


def write_hdf5(path, variables, *, userblock_size=512):
    with h5py.File(path, "w", userblock_size=userblock_size) as root:
        for name, value in variables.items():
            _write(root, name, value)
    if userblock_size:
        with open(path, "r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\0\2IM")


def _write(group, name, value):
    if isinstance(value, dict):
        item = group.create_group(name)
        for field, entry in value.items():
            _write(item, field, entry)
        kind = "struct"
    elif sparse.issparse(value):
        item = group.create_group(name)
        matrix = sparse.csc_array(value)
        item.attrs["MATLAB_sparse"] = np.uint64(matrix.shape[0])
        item["jc"] = matrix.indptr.astype(np.uint64)
        if matrix.nnz:
            item["ir"] = matrix.indices.astype(np.uint64)
            item["data"] = matrix.data.astype(np.uint8 if matrix.dtype == bool else matrix.dtype)
        kind = "logical" if matrix.dtype == bool else "double"
    elif isinstance(value, list):
        references = group.file.require_group("#refs#")
        cells = []
        for entry in value:
            place = f"{name}{len(references)}"
            _write(references, place, entry)
            cells.append(references[place].ref)
        array = np.array(cells, h5py.ref_dtype)[None]
        item = group.create_dataset(name, data=array, dtype=h5py.ref_dtype)
        kind = "cell"
    elif isinstance(value, str):
        codes = np.frombuffer(value.encode("utf-16-le"), np.uint16)
        # The shape stands in for the contents of something empty.
        item = group.create_dataset(name, data=codes[:, None] if value else np.zeros(2, np.uint64))
        if not value:
            item.attrs["MATLAB_empty"] = np.uint8(1)
        kind = "char"
    else:
        array = np.asarray(value)
        stored = array.astype(np.uint8) if array.dtype == bool else array
        item = group.create_dataset(name, data=stored.T)
        names = {"float64": "double", "float32": "single", "bool": "logical"}
        kind = names.get(array.dtype.name, array.dtype.name)
    item.attrs["MATLAB_class"] = np.bytes_(kind)

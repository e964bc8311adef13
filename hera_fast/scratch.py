"""Pieces of blocks in a file without a name, which vanishes with the process."""

from __future__ import annotations

import mmap
import os
import pickle
import shutil
import tempfile
import threading
import weakref
from io import BytesIO
from typing import Any

import numpy as np

__all__ = ["DiskStore", "ScratchFile", "check_space"]

_PAGE = mmap.ALLOCATIONGRANULARITY
_ALIGNMENT = 64
# Smaller pieces stay in memory.
_SMALL = 1 << 14


class ScratchFile:
    """Space on disk that is given out in parts.

    Parameters
    ----------
    folder : str or None, default=None
        Where the file is. None stands for the folder for temporary files, which the environment
        variable TMPDIR names.

    Examples
    --------
    >>> from hera_fast.scratch import ScratchFile
    >>> file = ScratchFile()
    >>> part = file.write([memoryview(b"abc")])
    >>> bytes(file.read(part)[0])
    b'abc'
    """

    def __init__(self, folder: str | None = None) -> None:
        self._file: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._end = 0
        self._free: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def write(self, buffers: list[memoryview]) -> tuple[int, list[tuple[int, int]]]:
        """Write buffers; return where they begin in the file, and each within its part."""
        places, size = [], 0
        for buffer in buffers:
            places.append((size, buffer.nbytes))
            size += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
        size = _whole_pages(size)
        with self._lock:
            known = self._free.get(size)
            if known:
                start = known.pop()
            else:
                start, self._end = self._end, self._end + size
                os.ftruncate(self._file.fileno(), self._end)
        for (offset, _), buffer in zip(places, buffers, strict=True):
            _write_all(self._file.fileno(), buffer.cast("B"), start + offset)
        return start, places

    def read(self, part: tuple[int, list[tuple[int, int]]]) -> list[memoryview]:
        """Map buffers into memory; what is written there goes to the file."""
        start, places = part
        view = memoryview(mmap.mmap(self._file.fileno(), _size(places), offset=start))
        return [view[offset : offset + size] for offset, size in places]

    def free(self, part: tuple[int, list[tuple[int, int]]]) -> None:
        """Give space back."""
        start, places = part
        with self._lock:
            self._free.setdefault(_size(places), []).append(start)


class DiskStore:
    """Pieces whose arrays are in a scratch file, from where they are mapped into memory.

    Of a piece, the arrays alone are in the file. What puts them together again is kept in memory.

    Parameters
    ----------
    file : ScratchFile
        Shared by all blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from hera_fast.scratch import DiskStore, ScratchFile
    >>> store = DiskStore(ScratchFile())
    >>> store.save(1, np.zeros(10_000))
    >>> store.load(1)[3] = 5.0
    >>> store.load(1)[2:4].tolist()
    [0.0, 5.0]
    """

    def __init__(self, file: ScratchFile) -> None:
        self._file = file
        self._pieces: dict[int, Any] = {}

    def load(self, number: int) -> Any:
        """Return a piece; its arrays are the stored ones."""
        piece = self._pieces[number]
        if isinstance(piece, _OnDisk):
            return pickle.loads(piece.frame, buffers=self._file.read(piece.part))
        return piece

    def save(self, number: int, piece: Any) -> None:
        """Keep a piece."""
        self.forget(number)
        if getattr(piece, "is_on_disk", False):
            # Rows of a file: only where they are is kept.
            self._pieces[number] = piece
            return
        buffers: list[pickle.PickleBuffer] = []
        stream = BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(piece)
        frame = stream.getvalue()
        views = [buffer.raw() for buffer in buffers]
        if sum(view.nbytes for view in views) >= _SMALL:
            piece = _OnDisk(frame, self._file.write(views))
        self._pieces[number] = piece

    def forget(self, number: int) -> None:
        """Drop a piece, if it is there."""
        piece = self._pieces.pop(number, None)
        if isinstance(piece, _OnDisk):
            self._file.free(piece.part)


class _Pickler(pickle.Pickler):
    """Puts all arrays into buffers, those with gaps as well."""

    def reducer_override(self, each: Any) -> Any:
        if type(each) is np.ndarray and not each.flags.forc and not each.dtype.hasobject:
            return np.ascontiguousarray(each).__reduce_ex__(5)
        return NotImplemented


class _OnDisk:
    def __init__(self, frame: bytes, part: tuple[int, list[tuple[int, int]]]) -> None:
        self.frame, self.part = frame, part


def check_space(n_bytes: int) -> None:
    """Raise an error if the folder for temporary files is too small.

    Parameters
    ----------
    n_bytes : int
        How much is needed.
    """
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OSError(
            f"The fit needs about {n_bytes / 1e9:.1f} GB on disk, but {folder} has "
            f"{free / 1e9:.1f} GB left. Let the environment variable TMPDIR name a folder with "
            "more space, lower n_components, or use float32."
        )


def _size(places: list[tuple[int, int]]) -> int:
    offset, size = places[-1]
    return _whole_pages(offset + size)


def _whole_pages(size: int) -> int:
    return max(1, -(-size // _PAGE)) * _PAGE


def _write_all(file: int, data: memoryview, offset: int) -> None:
    while len(data):
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written

"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str], what: str) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name when the block ends without an error.

    Until then, and if anything goes wrong, a file that was there before stays as it is. Through a
    link, the file it leads to is replaced. A file that is replaced passes on its permissions.

    Parameters
    ----------
    path : str or path
        Name of the file, taken as it is. Its folder must exist.
    what : str
        What the file holds, for error messages.

    Yields
    ------
    file : binary file
        Where to write.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    IsADirectoryError
        If `path` is a folder.

    Examples
    --------
    >>> import os, tempfile
    >>> from hera_fast.atomic import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(os.path.join(folder, "numbers"), "list of numbers") as file:
    ...         _ = file.write(b"1 2 3")
    ...         before = "numbers" in os.listdir(folder)
    ...     before, os.listdir(folder)
    (False, ['numbers'])
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, f"the folder of the {what} file does not exist: make it first", str(path)
        )
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, f"a {what} is written to a file", str(path))
    temporary = target.with_name(f".hera-fast-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

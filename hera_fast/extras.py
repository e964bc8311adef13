"""Packages that only some users need."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["require"]


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module of an optional package, or say how to install it.

    Parameters
    ----------
    module : str
        The module to import.
    extra : str
        The extra of hera-fast that brings the package along.
    purpose : str
        What needs it, as the beginning of the error message.

    Returns
    -------
    module : module
        The imported module.

    Raises
    ------
    ImportError
        If the package is not installed.

    Examples
    --------
    >>> from hera_fast.extras import require
    >>> require("json", "files", "a test").dumps([1])
    '[1]'
    >>> require("no_such_package", "files", "a test")
    Traceback (most recent call last):
        ...
    ImportError: a test needs no_such_package: pip install 'hera-fast[files]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install 'hera-fast[{extra}]'", name=package
        ) from error

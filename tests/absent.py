"""Packages that are installed, but not for a test."""

from __future__ import annotations

import builtins
import sys


def hide(monkeypatch, package):
    """Make importing a package fail.

    None in ``sys.modules`` would do so too, but confuses scikit-learn, which looks there.
    """
    original = builtins.__import__

    def refuse(name, *arguments):
        # Its own modules may go on importing each other: a test may hold objects of it.
        if name == package:
            raise ImportError(f"{name} is hidden")
        return original(name, *arguments)

    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)

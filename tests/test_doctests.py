"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import hera_fast

MODULES = [
    module.name
    for module in walk_packages(hera_fast.__path__, "hera_fast.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, _ = doctest.testmod(import_module(name))
    assert failed == 0


PUBLIC = [thing for name in hera_fast.__all__ if callable(thing := getattr(hera_fast, name))]
PUBLIC += [getattr(hera_fast.baselines, name) for name in hera_fast.baselines.__all__]
PUBLIC += [
    thing
    for name in hera_fast.plotting.__all__
    if callable(thing := getattr(hera_fast.plotting, name))
]
PUBLIC += [hera_fast.svd.singular_value_threshold, hera_fast.threads.threads]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_public_names_have_examples(thing):
    assert ">>> " in thing.__doc__

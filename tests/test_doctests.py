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


# What users call.
@pytest.mark.parametrize("name", ["hera_fast.estimator", "hera_fast.svd", "hera_fast.threads"])
def test_there_are_examples(name):
    assert doctest.testmod(import_module(name)).attempted > 0

"""Who lacks a package is told which extra brings it."""

from __future__ import annotations

import json

import pytest

from hera_fast.extras import require


def test_modules_are_imported():
    assert require("json", "files", "a test") is json
    assert require("os.path", "files", "a test").join("a") == "a"


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.part"])
def test_missing_packages(module):
    with pytest.raises(ImportError) as info:
        require(module, "plot", "a picture")
    assert str(info.value) == "a picture needs no_such_package: pip install 'hera-fast[plot]'"
    assert info.value.name == "no_such_package"

"""Small data sets in files, and how the tests run commands on them."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from problems import clusters

from hera_fast.bunch import make_bunch
from hera_fast.cli import main

ROOT = Path(__file__).parent.parent

# Everything that a table, a terminal or a web page could trip over.
LABELS = ['owl, "big"', "<script>alert(1)</script>", "es\x1b[31mcape", "two\nlines"]
FEATURES = ["length", "größe (m)", "=1+1"]
SHORT = ["--set", "n_components=20"]


def animals(n=80, seed=0, **changes):
    """A data set with awkward names that can be learned."""
    X, Y, y = clusters(n, len(FEATURES), len(LABELS), noise=0.3, seed=seed)
    parts = {"data": X, "candidates": Y, "target": y}
    names = {"target_names": LABELS, "feature_names": FEATURES}
    return make_bunch(**{**parts, **names, **changes})


def run(*arguments):
    """Run a command in this process, and return its exit code."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as error:
        return error.code


def run_process(*arguments, folder=None, **options):
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "hera_fast", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        timeout=300,
        **{"capture_output": True, "text": True, **options},
    )


def read_csv(path):
    """Return the rows of a table as dicts."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def said(capsys, *arguments, code=0):
    """Run a command, and return what it wrote."""
    capsys.readouterr()
    assert run(*arguments) == code
    written = capsys.readouterr()
    return SimpleNamespace(out=written.out, err=written.err)


def said_json(capsys, *arguments):
    """Run a command with --json, and return the object that it wrote."""
    written = said(capsys, *arguments, "--json")
    assert written.err == ""
    return json.loads(written.out)


def assert_clean(text):
    """Nothing but printable characters and line breaks."""
    assert all(c.isprintable() or c == "\n" for c in text), ascii(text)


def same_bits(texts, numbers):
    """Numbers of a table are exactly those of an array."""
    np.testing.assert_array_equal(np.array([float(text) for text in texts]), numbers)


slow_to_converge = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

"""Clusters of worker processes on this machine."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager

import pytest

distributed = pytest.importorskip(
    "distributed", reason="the extra dask is not installed", exc_type=ImportError
)


@contextmanager
def cluster(n_workers, **options):
    """A client of workers that are processes with one thread each."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        # What Dask's own threads and sockets warn of when they end.
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                **options,
            ) as workers,
            distributed.Client(workers) as client,
        ):
            yield client

"""Kill a worker at random moments of a fit; every run must end with the undisturbed result.

python bench/kills.py                # ten runs
python bench/kills.py 50 --seed 3
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
import time

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from hera_fast import HERAClassifier, checkpoints, make_partial_classification

N, D, Q, CHUNK, LANDMARKS = 6_000, 40, 30, 1_500, 300


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    # The fit takes a few seconds; checkpoints would come every five.
    checkpoints._INTERVAL, checkpoints._TIMES_LONGER = 0.2, 1
    rng = np.random.default_rng(options.seed)
    X, Y, _ = make_partial_classification(N, D, Q, random_state=0)
    rows, candidates = (da.from_array(a, chunks=(CHUNK, -1)) for a in (X, Y.toarray()))

    def fit():
        start = time.monotonic()
        model = HERAClassifier(n_components=LANDMARKS, random_state=0).fit(rows, candidates)
        return model, time.monotonic() - start

    def bits(model):
        return (
            *(model.confidence_.compute().toarray(), model.transduction_.compute()),
            *(model.coef_, model.intercept_, model.history_["objective"]),
        )

    n_equal = 0
    expected, duration = None, 0.0
    print("| killed after | fit took | same bits |\n|---|---|---|")
    for _ in range(options.runs):
        # A cluster for each run: Dask does not always begin a new worker for one that is killed
        # while it starts.
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            fit()  # compiles
            if expected is None:
                model, duration = fit()
                expected = bits(model)
                print(f"| never | {duration:.1f} s | |")
            victim = int(rng.choice(list(client.run(os.getpid).values())))
            moment = rng.uniform(0, duration)
            timer = threading.Timer(moment, os.kill, (victim, signal.SIGKILL))
            timer.start()
            model, seconds = fit()
            timer.join()
            same = all(np.array_equal(*pair) for pair in zip(bits(model), expected, strict=True))
            n_equal += same
            print(f"| {moment:.2f} s | {seconds:.1f} s | {'yes' if same else 'NO'} |", flush=True)
    print(f"{n_equal} of {options.runs} runs ended with the undisturbed result")
    raise SystemExit(n_equal < options.runs)


if __name__ == "__main__":
    main()

"""A run directory with records of all kinds, as realistic as invented figures can be."""

from __future__ import annotations

import numpy as np

from hera_fast.experiments.methods import METHODS, OTHERS, SEVEN
from hera_fast.experiments.published import (
    ACCURACIES,
    COUNT_SUMS,
    COUNTS,
    REAL_SETS,
    UCI_SETS,
    find_accuracy_errors,
    find_count_errors,
)
from hera_fast.experiments.records import Record, save_record

SCRIPT = "<script>window.hacked=1</script>"
IMAGE = "<img src=x onerror=window.hacked=1>"
#: Labels that try to be something else, and some that only look odd.
LABELS = (
    *(
        SCRIPT,
        IMAGE,
        "</svg></title></style>",
        "$x^2$",
        "a & b",
        'say "hi"',
        "Ünïcödé 猫",
        "R&D <b>",
    ),
    *(f"person {i}" for i in range(8)),
)
TITLES = {**REAL_SETS, **UCI_SETS}
ABOUT = {
    "command": "hera-fast reproduce all --run-dir runs/paper --folds 10",
    "created": "2026-11-18T16:00:00+00:00",
    "settings": {
        "folds": 10,
        "seed": 0,
        "fast": False,
        "datasets": ["lost", "msrcv2"],
        "parameters": {"nu": 0.1, "kernel": None},
        "jobs": None,
    },
    "versions": {"hera-fast": "0.1.0", "python": "3.11.7", "numpy": "2.4.6", "numba": "0.68.1"},
    "machine": {
        "system": "Linux x86_64",
        "processor": "An Invented Processor @ 2.80GHz",
        "processors": 2,
        "memory_gib": 24.0,
    },
}


def describe(names):
    return [
        {
            "name": name,
            "title": TITLES.get(name, name),
            "rows": 1000 + 17 * place,
            "features": 108,
            "labels": 16,
            "candidates": 2.23,
            "sha256": f"{place:02x}" * 32,
        }
        for place, name in enumerate(names)
    ]


def list_methods(names):
    return [{"name": name, "title": METHODS[name].title} for name in names]


def fold_figures(rng, mean, *, truth=True, folds=10):
    accuracy = np.clip(mean + 0.02 * rng.standard_normal(folds), 0, 1)
    figures = {
        "covering": np.clip(accuracy + 0.05, 0, 1),
        "lift": accuracy - 0.1,
        "fit_seconds": rng.uniform(0.1, 40, folds),
        "predict_seconds": rng.uniform(0.001, 0.1, folds),
        "n_iter": rng.integers(5, 100, folds).astype(float),
        "n_warnings": np.zeros(folds),
    }
    if truth:
        figures |= {
            "inductive": accuracy,
            "transductive": np.clip(accuracy + 0.1, 0, 1),
            "macro_f1": accuracy - 0.05,
            "log_loss": 2 - accuracy,
        }
    return {name: values.tolist() for name, values in figures.items()}


def comparison(*, truth=True, folds=10, datasets=tuple(REAL_SETS)):
    rng = np.random.default_rng(0)
    methods = ("hera", "hera-paper", "hera-paper-100", *OTHERS)
    errors = find_accuracy_errors()
    results, published = [], {name: {} for name in datasets}
    for name in datasets:
        for method in methods:
            printed = "hera" if method.startswith("hera") else method
            cell = ACCURACIES[printed][name]
            mean = cell.mean + 0.03 * (method == "hera")
            figures = fold_figures(rng, mean, truth=truth, folds=folds)
            results.append({"dataset": name, "group": name, "method": method, "figures": figures})
            published[name][method] = {**cell._asdict(), "error": errors.get((printed, name))}
    body = {
        "reference": "hera",
        "methods": list_methods(methods),
        "results": results,
        "published": published if truth else None,
    }
    return Record(
        "table-real" if truth else "no-truth",
        "comparison",
        "Accuracy on real data sets" if truth else "A comparison without truth",
        body,
        ["All methods have their default parameters and the same folds."],
        ABOUT,
        describe(datasets),
    )


def grid():
    rng = np.random.default_rng(1)
    results = [
        {
            "dataset": f"{TITLES[name]}, p = {p}, r = 1",
            "group": name,
            "method": method,
            "figures": fold_figures(rng, 0.7 - 0.1 * p - 0.02 * place, folds=5),
        }
        for name in UCI_SETS
        for p in (0.1, 0.4, 0.7)
        for place, method in enumerate(SEVEN)
    ]
    body = {"reference": "hera", "methods": list_methods(SEVEN), "results": results}
    title = "Accuracy on controlled data sets"
    record = Record("table-uci-accuracies", "comparison", title, {**body, "published": None})
    return Record(**{**vars(record), "about": ABOUT, "datasets": describe(UCI_SETS)})


def counts():
    rng = np.random.default_rng(2)
    drawn = {
        name: {other: rng.multinomial(28, [0.7, 0.2, 0.1]).tolist() for other in OTHERS}
        for name in UCI_SETS
    }
    body = {
        "reference": "hera",
        "others": list_methods(OTHERS),
        "rows": [
            {
                "dataset": name,
                "title": title,
                "counts": drawn[name],
                "published": {other: list(cell) for other, cell in COUNTS[name].items()},
            }
            for name, title in UCI_SETS.items()
        ],
        "sums": {
            other: np.sum([drawn[name][other] for name in UCI_SETS], axis=0).tolist()
            for other in OTHERS
        },
        "published_sums": {other: list(cell) for other, cell in COUNT_SUMS.items()},
        "errors": find_count_errors({}),
        "prediction": {
            "cells_done": 189,
            "cells_full": 1764,
            "seconds_done": 1234.5,
            "seconds_full": 11522.0,
            "processes": 2,
        },
    }
    notes = ["Wins/ties/losses of HERA by the paired t-test over 10 folds at the level 0.05."]
    title = "Wins, ties and losses on controlled data sets"
    return Record("table-uci", "win-tie-loss", title, body, notes, ABOUT, describe(UCI_SETS))


def curves():
    rng = np.random.default_rng(3)
    p = np.round(np.arange(0.1, 0.75, 0.1), 1)
    panels = [
        {
            "title": title,
            "group": f"r = {r}",
            "x": p.tolist(),
            "x_label": "p, share of rows with r false candidates",
            "y_label": "held-out accuracy",
            "x_scale": "linear",
            "y_scale": "linear",
            "series": [
                {
                    "name": method,
                    "y": (
                        0.9 - 0.04 * place - 0.1 * r * p**2 + 0.01 * rng.standard_normal(len(p))
                    ).tolist(),
                    "sd": np.full(len(p), 0.015).tolist(),
                }
                for place, method in enumerate(SEVEN)
            ],
        }
        for r in (1, 2, 3)
        for title in list(UCI_SETS.values())[:3]
    ]
    # Some that are not there yet.
    panels[0]["series"][0]["y"][3] = None
    panels[1] |= {"series": [{"name": "hera", "y": [None] * len(p), "sd": None}]}
    body = {"legend": list_methods(SEVEN), "panels": panels}
    notes = ["Bands are standard deviations over folds."]
    title = "Accuracy against the share of rows with false candidates"
    return Record("figure-uci", "curves", title, body, notes, ABOUT, describe(UCI_SETS))


def sensitivity():
    rng = np.random.default_rng(4)
    x = [10.0**power for power in range(-3, 4)]
    names = {"paper": "paper's settings, 100 iterations", "default": "the default"}
    panels = [
        {
            "title": f"Lost: {parameter}",
            "group": "Lost",
            "x": x,
            "x_label": parameter,
            "y_label": "held-out accuracy",
            "x_scale": "log",
            "y_scale": "linear",
            "series": [
                {"name": name, "y": rng.uniform(0.5, 0.9, len(x)).tolist(), "sd": None}
                for name in names
            ],
        }
        for parameter in "αβμν"
    ]
    legend = [{"name": name, "title": title} for name, title in names.items()]
    body = {"legend": legend, "panels": panels}
    title = "Sensitivity to the parameters"
    return Record("sensitivity", "curves", title, body, [], ABOUT, describe(["lost"]))


def convergence():
    steps = np.arange(1, 201)
    panels = [
        {
            "title": f"Lost: {what}",
            "group": "",
            "x": steps.tolist(),
            "x_label": "iteration",
            "y_label": "|change of the loss|",
            "x_scale": "linear",
            "y_scale": "log",
            "series": [
                {"name": name, "y": (10.0 ** (-steps / (30 + 10 * place))).tolist(), "sd": None}
                for place, name in enumerate(("hera-paper", "hera"))
            ],
        }
        for what in ("W", "P", "the whole")
    ]
    body = {"legend": list_methods(("hera-paper", "hera")), "panels": panels}
    return Record("convergence", "curves", "Convergence", body, [], ABOUT, describe(["lost"]))


def ablation():
    rng = np.random.default_rng(5)
    variants = {
        "hera": "the default",
        "features": "features only",
        "rbf": "Gaussian kernel only",
        "low-rank": "with low rank, nu = 0.1",
        "least-squares": "least squares, ranking loss",
    }
    results = [
        {
            "dataset": name,
            "group": name,
            "method": variant,
            "figures": fold_figures(rng, 0.75 - 0.015 * place),
        }
        for name in ("lost", "msrcv2", "birdsong", "fg-net")
        for place, variant in enumerate(variants)
    ]
    methods = [{"name": name, "title": title} for name, title in variants.items()]
    body = {"reference": "hera", "methods": methods, "results": results, "published": None}
    datasets = describe(["lost", "msrcv2", "birdsong", "fg-net"])
    title = "What each part of the method is worth"
    return Record("ablation", "ablation", title, body, [], ABOUT, datasets)


def disambiguation(labels=LABELS, *, truth=True):
    rng = np.random.default_rng(6)
    labels = list(labels)
    n_labels = len(labels)
    edges, counts = np.linspace(0, 1, 21), rng.integers(0, 60, 20)
    matrix = rng.beta(1, 6, (n_labels, n_labels))
    np.fill_diagonal(matrix, 1)
    loadings = np.linalg.qr(rng.standard_normal((n_labels, min(5, n_labels))))[0].T
    doubtful = []
    for place in range(50):
        own = [labels[i % n_labels] for i in range(place, place + 2 + place % 6)]
        shares = np.sort(rng.dirichlet(np.ones(len(own))))[::-1]
        shares[1] = shares[0] - 0.002 * place * shares[0]
        doubtful.append(
            {
                "row": 7 * place,
                "label": own[0],
                "confidence": float(shares[0]),
                "runner_up": own[1],
                "margin": float(shares[0] - shares[1]),
                "candidates": [[name, float(s)] for name, s in zip(own, shares, strict=True)],
                "truth": own[place % 3 == 0] if truth else None,
            }
        )
    body = {
        "dataset": "lost",
        "labels": labels,
        "rows": 1122,
        "accuracy": 0.9207 if truth else None,
        "histogram": {
            "edges": edges.tolist(),
            "counts": counts.tolist(),
            "wrong": (counts // 4).tolist() if truth else None,
        },
        "co_occurrence": {"labels": labels[:20], "matrix": matrix.tolist()},
        "factors": {
            "singular_values": [30.1, 22.5, 9.3, 4.4, 1.2][: len(loadings)],
            "labels": labels[:20],
            "loadings": loadings.tolist(),
        },
        "history": {
            "objective": [3.0, 2.0, 1.5],
            "change": [None, *(10.0 ** -np.linspace(0, 4, 24)).tolist()],
        },
        "doubtful": doubtful,
    }
    title = "Which candidate is true: Lost"
    return Record(
        "disambiguation-lost", "disambiguation", title, body, [], ABOUT, describe(["lost"])
    )


def all_records():
    """Return records of all kinds."""
    made = (counts(), grid(), curves(), sensitivity(), convergence(), ablation(), disambiguation())
    return [comparison(), *made]


def make_run(folder):
    """Write records of all kinds into a folder."""
    for record in all_records():
        save_record(folder, record)
    return folder

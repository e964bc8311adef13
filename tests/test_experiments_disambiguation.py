"""What was picked for training rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import animals
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hera_fast import HERAClassifier, HERAClassifierCV
from hera_fast.bunch import make_bunch
from hera_fast.experiments.disambiguation import describe_fit, pick_candidates
from hera_fast.experiments.plain import plain

BUNCH = animals()


def test_picks_by_hand():
    rng = np.random.default_rng(0)
    Y = rng.random((200, 5)) < 0.4
    Y[np.arange(200), rng.integers(5, size=200)] = True
    # With ties.
    P = np.round(rng.random((200, 5)), 1)
    picks = pick_candidates(P, sparse.csr_array(Y))
    for row in range(200):
        own = np.flatnonzero(Y[row])
        order = own[np.argsort(-P[row, own], kind="stable")]
        assert picks.best[row] == order[0]
        assert picks.confidence[row] == P[row, order[0]]
        assert picks.runner_up[row] == (order[1] if len(own) > 1 else -1)
        margin = P[row, order[0]] - P[row, order[1]] if len(own) > 1 else 1
        assert picks.margin[row] == margin


def test_the_most_doubtful_first():
    Y = sparse.csr_array(np.array([[1, 0], [1, 1], [1, 1]], dtype=bool))
    picks = pick_candidates(np.array([[0.2, 0.0], [0.9, 0.1], [0.5, 0.5]]), Y)
    assert picks.by_doubt().tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    "model",
    [
        HERAClassifier(n_components=20),
        make_pipeline(StandardScaler(), HERAClassifier(n_components=20)),
        HERAClassifierCV({"kernel": [None]}, cv=2, random_state=0),
    ],
    ids=["classifier", "pipeline", "search"],
)
def test_description(model):
    body = describe_fit(model.fit(BUNCH.data, BUNCH.candidates), BUNCH, dataset="animals")
    assert json.loads(json.dumps(plain(body)))["dataset"] == "animals"
    assert body["rows"] == sum(body["histogram"]["counts"]) == 80
    assert (len(body["histogram"]["edges"]), len(body["histogram"]["counts"])) == (21, 20)
    assert sum(body["histogram"]["wrong"]) == round(80 * (1 - body["accuracy"]))
    assert np.shape(body["co_occurrence"]["matrix"]) == (4, 4)
    factors = body["factors"]
    assert np.shape(factors["loadings"]) == (len(factors["singular_values"]), 4)
    assert len(body["doubtful"]) == 50
    margins = [row["margin"] for row in body["doubtful"]]
    assert margins == sorted(margins)
    first = body["doubtful"][0]
    assert first["candidates"][0] == [first["label"], first["confidence"]]
    assert len(set(map(len, body["history"].values()))) == 1


def test_without_truth():
    bunch = animals(target=None)
    model = HERAClassifier(n_components=20).fit(bunch.data, bunch.candidates)
    body = describe_fit(model, bunch)
    assert body["accuracy"] is body["histogram"]["wrong"] is body["doubtful"][0]["truth"] is None


def test_confidences_beyond_one():
    bunch = make_bunch([[0.0], [1.0]], [{"a", "b"}, {"b"}])
    model = HERAClassifier().fit(bunch.data, bunch.candidates)
    model.confidence_ = np.array([[2.5, -0.5], [0.0, -0.25]])
    histogram = describe_fit(model, bunch)["histogram"]
    assert (histogram["edges"][0], histogram["edges"][-1]) == (-0.25, 2.5)
    assert sum(histogram["counts"]) == 2

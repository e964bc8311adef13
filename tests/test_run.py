"""Penalties, when a run ends, what it records and what it warns of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import clusters, make_options
from sklearn.exceptions import ConvergenceWarning

from hera_fast import HERAClassifier, hera
from hera_fast.features import make_features
from hera_fast.models import GaussianDiscriminant
from hera_fast.run import FIGURES, Recorder, Residuals

positive = st.floats(1e-6, 1e6)


@given(penalty=positive, growth=st.floats(1, 10), largest=positive, primal=positive, dual=positive)
def test_a_growing_penalty_stays_below_its_bound(penalty, growth, largest, primal, dual):
    options = make_options(penalty_growth=growth)
    found = options.next_penalty(penalty, Residuals(primal, dual), largest)
    assert found == min(penalty * growth, largest)


@given(penalty=positive, largest=positive, primal=positive, dual=positive)
def test_balancing_doubles_or_halves(penalty, largest, primal, dual):
    options = make_options(penalty_growth="balance")
    found = options.next_penalty(penalty, Residuals(primal, dual), largest)
    factor = 2 if primal > 10 * dual else 0.5 if dual > 10 * primal else 1
    assert found == min(factor * penalty, largest)


@pytest.mark.parametrize(
    ("residuals", "factor"),
    [((1.0, 0.0), 2), ((0.0, 1.0), 0.5), ((0.0, 0.0), 1), ((1.0, 0.1), 1), ((0.1, 1.0), 1)],
)
def test_balancing_at_its_limits(residuals, factor):
    options = make_options(penalty_growth="balance")
    assert options.next_penalty(3.0, Residuals(*residuals), 1e6) == 3 * factor


@pytest.mark.parametrize("formulation", ["simplex", "paper"])
def test_the_penalties_of_a_run_grow_up_to_the_bound(formulation):
    X, Y, _ = clusters(40, 3, 4)
    with pytest.warns(ConvergenceWarning):
        *_, history = hera(
            *(X, Y),
            formulation=formulation,
            mu=0.0,
            nu=0.1,
            penalty=0.5,
            penalty_growth=1.5,
            max_penalty=3.0,
            max_iter=10,
            tol=0,
        )
    expected = np.minimum(0.5 * 1.5 ** np.arange(10), 3.0)
    np.testing.assert_allclose(history["penalty"], expected, rtol=1e-14)


def test_the_penalties_of_a_run_balance_the_residuals():
    X, Y, _ = clusters(60, 3, 5)
    *_, history = hera(X, Y, penalty=1e-4, nu=0.1, tol=1e-6, max_iter=1000)
    primal, dual = history["primal_residual"], history["dual_residual"]
    factor = np.where(primal > 10 * dual, 2, np.where(dual > 10 * primal, 0.5, 1))
    np.testing.assert_allclose(history["penalty"][1:], (factor * history["penalty"])[:-1])
    assert (factor == 2).any()


class Figures:
    """Records made-up figures of iterations."""

    def __init__(self, observe=None, **changes):
        features = make_features(np.arange(4.0).reshape(2, 2), fit_intercept=True)
        self.model = GaussianDiscriminant(features, np.ones((2, 3), bool), shrinkage=0.1)
        self.recorder = Recorder(make_options(**changes), features, observe)

    def record(self, objective, primal=0.0, dual=0.0, **changes):
        P = np.full((2, 3), 1 / 3)
        self.recorder.record(
            *(self.model, P, np.zeros_like(P)),
            objective=objective,
            residuals=Residuals(primal, dual),
            **{"rank": 1, "penalty": 2.0, **changes},
        )
        return self.recorder


def test_a_run_ends_when_residuals_and_change_are_small():
    figures = Figures(tol=0.1, max_iter=10)
    assert figures.record(1.0).goes_on  # nothing to compare with
    assert figures.record(2.0).goes_on  # changed
    assert figures.record(2.0, primal=0.11).goes_on
    assert figures.record(2.0, dual=0.11).goes_on
    assert not figures.recorder.converged
    assert not figures.record(2.1, primal=0.1, dual=0.1).goes_on
    assert figures.recorder.converged


def test_the_change_is_relative_to_the_larger_objective():
    figures = Figures(tol=0.0)
    for objective in (4.0, 2.0, 1.0, -8.0):
        recorder = figures.record(objective)
    np.testing.assert_array_equal(recorder.history()["change"], [np.nan, 0.5, 0.25, 9 / 8])


def test_an_objective_of_zero_has_no_change():
    figures = Figures()
    figures.record(0.0)
    assert not figures.record(0.0).goes_on


def test_scale_and_settled_replace_the_defaults():
    figures = Figures(tol=0.1)
    figures.record(5.0, scale=1.0)
    assert figures.record(5.2, scale=1.0).goes_on
    assert figures.record(5.2, scale=1.0, settled=False).goes_on
    assert not figures.record(5.2, primal=7.0, scale=1.0, settled=True).goes_on
    assert figures.recorder.history()["change"][1] == pytest.approx(0.2)


def test_a_run_ends_after_max_iter():
    figures = Figures(tol=0.0, max_iter=3)
    goes_on = [figures.record(float(k), primal=1.0).goes_on for k in range(3)]
    assert goes_on == [True, True, False]


def test_the_warning_says_what_did_not_converge_and_what_helps():
    figures = Figures(tol=1e-3, max_iter=2)
    figures.record(10.0)
    recorder = figures.record(5.0, primal=0.0123, dual=4.56)
    with pytest.warns(ConvergenceWarning) as caught:
        recorder.warn_unless_ended()
    message = str(caught[0].message)
    for part in (
        "did not converge in max_iter=2 iterations",
        "primal residual 1.2e-02",
        "dual residual 4.6e+00",
        "change of the objective 5.0e-01",
        "tol=1.0e-03",
        "Increase max_iter or tol",
        "penalty_growth='balance'",
        "smaller max_penalty",
    ):
        assert part in message


def test_the_warning_says_nothing_of_a_constraint_that_there_is_not():
    X, Y, _ = clusters(40, 3, 4)
    with pytest.warns(ConvergenceWarning) as caught:
        *_, history = hera(X, Y, nu=0.0, max_iter=2, tol=0.0)
    change = history["change"][-1]
    assert str(caught[0].message) == (
        f"HERA did not converge in max_iter=2 iterations: change of the objective {change:.1e}, "
        "tol=0.0e+00. Increase max_iter or tol."
    )


def test_no_warning_after_convergence_or_when_the_observer_stops():
    converged = Figures(tol=1e-3, max_iter=2)
    converged.record(1.0)
    stopped = Figures(observe=lambda state: state.iteration == 1, tol=0.0, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        converged.record(1.0).warn_unless_ended()
        recorder = stopped.record(1.0, primal=1.0)
        recorder.warn_unless_ended()
    assert not recorder.converged


def test_the_warning_of_an_interrupt_comes_alone():
    figures = Figures(tol=0.0, max_iter=7)
    recorder = figures.record(1.0, primal=1.0)
    with pytest.warns(ConvergenceWarning, match="interrupted after 1 of at most 7") as caught:
        recorder.interrupted()
    assert "warm_start=True" in str(caught[0].message)
    recorder.warn_unless_ended()  # a second warning would be an error
    assert not recorder.goes_on


def test_what_is_recorded():
    states = []
    figures = Figures(observe=states.append, max_iter=9)
    for k in range(3):
        figures.record(float(k), 0.1, 0.2, rank=k, penalty=k + 1.0, mass=0.5)
    history = figures.recorder.history()
    assert set(history) == set(FIGURES)
    for name, dtype in FIGURES.items():
        assert history[name].dtype == dtype
        assert history[name].tolist() == pytest.approx(
            [getattr(state, name) for state in states], nan_ok=True
        )
    assert [state.iteration for state in states] == [1, 2, 3]
    assert {state.max_iter for state in states} == {9}
    assert history["rank"].tolist() == [0, 1, 2]
    assert history["penalty"].tolist() == [1, 2, 3]
    assert (np.diff(history["seconds"]) >= 0).all()
    assert states[0].coef.shape == (3, 2)
    assert states[0].intercept.shape == (3,)


@pytest.mark.parametrize("formulation", ["simplex", "paper"])
def test_whoever_calls_fit_is_warned(formulation):
    X, Y, _ = clusters(30, 2, 3)
    model = HERAClassifier(formulation=formulation, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 ") as caught:
        model.fit(X, Y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("formulation", ["simplex", "paper"])
def test_a_callback_ends_a_run_without_a_warning(formulation):
    X, Y, _ = clusters(30, 2, 3)
    seen = []

    def stop(state):
        seen.append(state.iteration)
        return state.iteration == 3

    parameters = {"formulation": formulation, "mu": 0.0, "nu": 0.1, "penalty": 0.5}
    model = HERAClassifier(**parameters, tol=0, callback=stop).fit(X, Y)
    assert seen == [1, 2, 3]
    assert model.n_iter_ == 3
    assert model.predict(X).shape == (30,)


@pytest.mark.parametrize(("formulation", "nu"), [("simplex", 0.1), ("simplex", 0), ("paper", 1)])
def test_the_state_shows_the_solution(formulation, nu):
    X, Y, _ = clusters(30, 2, 3)
    last = {}

    def keep(state):
        for name in ("coef", "intercept", "confidence", "noise"):
            array = getattr(state, name)
            last[name] = None if array is None else array.copy()
        return state.iteration == 4

    parameters = {"formulation": formulation, "mu": 0.0, "nu": nu, "penalty": 0.5}
    model = HERAClassifier(**parameters, tol=0, callback=keep).fit(X, Y)
    np.testing.assert_array_equal(last["coef"], model.coef_)
    np.testing.assert_array_equal(last["intercept"], model.intercept_)
    np.testing.assert_array_equal(last["confidence"], model.confidence_)
    if nu:
        np.testing.assert_array_equal(np.maximum(last["noise"], 0), model.noise_)
    else:
        assert last["noise"] is None
        np.testing.assert_array_equal(model.noise_, Y - model.confidence_)

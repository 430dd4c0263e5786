"""Scenarios with a utility of one's own, and with contexts of each round."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import rounds

import fastcolst as fc
from fastcolst.cli import main

N, D = 4, 3


def bump(contexts: Any) -> Any:
    """Of one round and of many alike."""
    return np.exp(-(contexts**2).sum(axis=-1))


def first_feature(contexts: Any) -> Any:
    """Of one round: of several it would be something else, of the right shape where N == D."""
    return contexts[:, 0] ** 2


def many(contexts: Any) -> Any:
    """Of several rounds only."""
    return np.einsum("mnd,d->mn", contexts, np.arange(contexts.shape[2])) ** 3


def chunk_of(scenario: fc.Scenario, m: int = 30, seed: int = 1) -> Any:
    return scenario.start(seed, 0).next_chunk(m)


@pytest.mark.parametrize("contexts", ["ball", "fixed", "array", "rounds"])
@pytest.mark.parametrize("utility", [bump, first_feature, many])
@pytest.mark.parametrize("n", [N, D])
def test_the_truth_is_the_function_and_luck_and_contexts_are_those_of_a_linear_one(n, utility, contexts):
    rng = np.random.default_rng(0)
    given = {"array": rng.normal(size=(n, D)), "rounds": rng.normal(size=(40, n, D))}.get(contexts, contexts)
    settings = {"n_arms": n, "contexts": given, "comparison": "thurstone"}
    chunk = chunk_of(fc.Scenario(utility=utility, n_features=D, **settings))
    linear = chunk_of(fc.Scenario(theta=np.ones(D), **settings))
    assert np.array_equal(chunk.latent, linear.latent)
    if contexts != "fixed":  # of which a run draws theta first
        assert np.array_equal(chunk.contexts, linear.contexts)
    for r in range(30):
        x = chunk.contexts[r].T
        expected = many(x[np.newaxis])[0] if utility is many else utility(x)
        np.testing.assert_allclose(chunk.utilities[r], expected, rtol=1e-12)
        assert chunk.best[r] == chunk.utilities[r].max()


class Spread(NamedTuple):
    """A law of somebody's own."""

    side: float = 2.0

    def fill(self, rng, out):
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = self.side * rng.random()


GIVEN = np.random.default_rng(0).normal(size=(40, N, D))


@pytest.mark.parametrize("contexts", ["ball", "fixed", GIVEN[0], GIVEN, Spread(3.0)])
@pytest.mark.parametrize("truth", [{"theta": [1.0, -2.0, 0.5]}, {"utility": bump, "n_features": D}])
def test_arguments_come_back_and_build_the_same_runs(contexts, truth):
    scenario = fc.Scenario(**truth, n_arms=N, contexts=contexts, comparison="thurstone")
    arguments = scenario.get_params()
    assert arguments.pop("name", "utility") == "utility" and set(arguments) >= set(truth)
    twin = fc.Scenario(**arguments)
    assert repr(twin) == repr(scenario) and twin.n_rounds == scenario.n_rounds
    for one, other in zip(chunk_of(scenario), chunk_of(twin), strict=True):
        assert np.array_equal(one, other)


def test_identical_rows_and_columns_do_not_fool_it():
    """Of the unit vectors the first column is the first row: what is said of several rounds must still be refused."""
    eye = np.eye(3)
    given = np.stack([eye, eye, eye, np.arange(9.0).reshape(3, 3)])
    chunk = chunk_of(fc.Scenario(utility=first_feature, contexts=given), 4)
    assert chunk.utilities[3].tolist() == [0.0, 9.0, 36.0]


def test_a_function_that_disagrees_with_itself_is_told():
    calls: list[int] = []

    def moody(contexts: Any) -> Any:
        calls.append(contexts.ndim)
        return contexts.sum(axis=-1) * (len(calls) if len(calls) > 5 else 1.0)

    scenario = fc.Scenario(utility=moody, contexts=np.ones((2, 2)))
    with pytest.raises(ValueError, match="utility, round 30: alone it has other numbers than among others"):
        chunk_of(scenario)


def test_answers_are_stochastic_and_follow_the_model():
    """The first arm wins with probability F(u_first - u_second): 4 standard errors, fixed seed."""
    scenario = fc.Scenario(utility=bump, n_arms=2, n_features=D, comparison=fc.BradleyTerry(0.5))
    chunk = chunk_of(scenario, rounds(4000, 1000))
    margins = chunk.utilities[:, 0] - chunk.utilities[:, 1]
    p = fc.BradleyTerry(0.5).cdf(margins)
    wins = margins + chunk.latent > 0
    assert abs((wins - p).sum()) < 4.0 * np.sqrt((p * (1 - p)).sum())


def test_policies_play_it_and_runs_have_no_theta():
    scenario = fc.Scenario(utility=bump, n_arms=N, n_features=D)
    result = fc.simulate({"x": fc.UniformPairs()}, scenario, 200, runs=2, rng=1, checkpoints=2)
    assert result.thetas.shape == (2, 0) and np.all(result.average_regret["x"][:, -1] > 0.0)


def test_rounds_come_in_their_order_in_every_run_and_end():
    given = np.random.default_rng(0).normal(size=(25, N, D))
    scenario = fc.Scenario(theta=np.ones(D), contexts=given)
    assert (scenario.n_arms, scenario.n_features, scenario.n_rounds) == (N, D, 25)
    for run in (0, 1):
        source = scenario.start(7, run)
        parts = [source.next_chunk(m).contexts.copy() for m in (1, 17, 7)]
        assert np.array_equal(np.concatenate(parts), given.transpose(0, 2, 1))
        with pytest.raises(ValueError, match=r"n_rounds is 1; of 25 rounds 0 are left"):
            source.next_chunk(1)
    assert fc.simulate({"x": fc.UniformPairs()}, scenario, 25, runs=2, rng=1).horizon == 25
    with pytest.raises(ValueError, match=r"horizon is 26; the scenario has 25 rounds"):
        fc.simulate({"x": fc.UniformPairs()}, scenario, 26)
    with pytest.raises(ValueError, match=r"scenario 's': horizon is 26; the scenario has 25 rounds"):
        fc.Study({"x": fc.UniformPairs()}, {"s": scenario}, 26)
    given[:] = 0.0
    assert scenario.start(7, 0).next_chunk(1).contexts.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"theta is missing; one of theta and utility is wanted"),
        ({"theta": [1.0], "utility": bump}, r"theta is given, and utility as well; one of"),
        ({"utility": bump}, r"n_arms is missing"),
        ({"utility": bump, "n_arms": 3}, r"n_features is missing; only theta or an array of contexts tells it"),
        ({"theta": [1.0, 2.0], "n_features": 3, "n_arms": 2}, r"n_features is 3 and theta has 2; equal"),
        ({"utility": 3, "contexts": np.ones((2, 2))}, r"utility is 3; a function of contexts is wanted"),
        ({"utility": "math:nothing", "contexts": np.ones((2, 2))}, r"utility is 'math:nothing', which cannot"),
        ({"utility": "antigravity", "contexts": np.ones((2, 2))}, r"utility is 'antigravity', which is no"),
        ({"utility": lambda x: x, "contexts": np.ones((2, 2))},
         r"utility has shape \(2, 2\) for contexts of shape \(2, 2\), and has shape \(3, 2, 2\) for .*are wanted"),
        ({"utility": lambda x: 1 / 0, "contexts": np.ones((2, 2))},
         r"utility fails on contexts of shape \(2, 2\) with ZeroDivisionError: .*, and fails on"),
        ({"utility": lambda x: x.fill(0), "contexts": np.ones((2, 2))}, r"fails on .* ValueError: assignment dest"),
        ({"theta": [1.0], "contexts": np.ones((2, 2, 2))}, r"contexts has 2 features and theta 1"),
        ({"theta": [1.0, 1.0], "contexts": np.ones((2, 2, 2, 2))}, r"contexts has shape \(2, 2, 2, 2\); \(n_arms, n_f"),
        ({"theta": [1.0, 1.0], "contexts": np.full((2, 2, 2), np.nan)}, r"contexts\[0, 0, 0\] is nan"),
        ({"theta": [1.0, 1.0], "contexts": np.ones((5, 2, 2)), "n_arms": 3}, r"n_arms is 3 and contexts has 2 rows"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        fc.Scenario(**arguments)


def test_a_utility_that_is_not_finite_is_told_with_its_round():
    given = np.ones((50, 2, 2))
    given[7, 1] = 1.0, -1.0
    scenario = fc.Scenario(utility=lambda x: np.log(x.sum(axis=-1)), contexts=given)
    with (
        np.errstate(divide="ignore"),
        pytest.raises(ValueError, match=r"utility of arm 1 is -inf in round 8; it"),
    ):
        chunk_of(scenario)


OWN = """
    import numpy as np

    def ripple(contexts):
        return np.cos(3.0 * contexts).sum(axis=-1)
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> Any:
    name = f"truth_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(OWN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__(name)
    sys.modules.pop(name, None)


def test_tables_name_the_function_and_the_data(own, tmp_path, capsys):
    place = f"{own.__name__}:ripple"
    scenario = fc.Scenario(utility=own.ripple, n_arms=N, n_features=D)
    assert repr(scenario).startswith(f"Scenario(utility={place!r}, n_arms=4")
    study = fc.Study({"x": fc.UniformPairs()}, {"s": scenario}, 10)
    table = json.loads(json.dumps(study.to_dict()))
    assert table["scenario"][0]["utility"] == place and fc.Study.from_dict(table) == study
    sizes = "n_arms = 3\nn_features = 2\n"
    text = f'horizon = 20\n[[policy]]\nname = "UniformPairs"\n[[scenario]]\nutility = "{place}"\n{sizes}'
    (tmp_path / "s.toml").write_text(text)
    assert main(["study", "s.toml", "--out", "out", "--no-progress"]) == 0, capsys.readouterr().err
    one, other = np.zeros((3, 2, 2)), np.zeros((3, 2, 2))
    other[2, 1, 1] = 1.0
    scenarios = [fc.Scenario(theta=[1, 1], contexts=x) for x in (one, other)]
    studies = [fc.Study({"x": fc.UniformPairs()}, {"s": scenario}, 3) for scenario in scenarios]
    assert studies[0] != studies[1] and "sha256" in json.dumps(studies[0].to_dict())

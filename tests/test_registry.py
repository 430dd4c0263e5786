"""Classes by name: registered ones, those by ``module:Class``, and the tables that build them again."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import JIT

import fastcolst as fc
from fastcolst import _registry as registry
from fastcolst.cli import main
from fastcolst.comparison import comparison_model
from fastcolst.estimation.estimators import estimator_of
from fastcolst.experiments.tables import recipe_of, scenario_of
from fastcolst.policies.maxpairucb import MaxPairUCB

pytestmark = pytest.mark.either_lane

MINE = """
    from typing import NamedTuple
    import numpy as np
    import fastcolst as fc

    class Cauchy(NamedTuple):
        width: float = 1.0

        def cdf(self, u):
            return 0.5 + np.arctan(u / self.width) / np.pi

        def pdf(self, u):
            return 1.0 / (np.pi * self.width * (1.0 + (u / self.width) ** 2))

        def raw(self, rng, size=None):
            return rng.standard_exponential(size)

        def perturb(self, value):
            return 0.5 * self.width * np.tan(np.pi * (np.exp(-value) - 0.5))

    class NoDefault(Cauchy):
        pass

    class Pairs(fc.UniformPairs):
        choice_cost = 1e6

    class Fixed:
        n_arms = n_features = 2

        def __init__(self, seed=0):
            self.seed = seed

        def start(self, entropy, run):
            return fc.Scenario.easy(n_arms=2, n_features=2).start(self.seed, run)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Any:
    """A module of somebody's own, in the current folder, and names that end with the test."""
    name = f"mine_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MINE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_NAMED", {kind: dict(names) for kind, names in registry._NAMED.items()})
    yield __import__(name)
    sys.modules.pop(name, None)


def test_a_registered_class_is_found_by_its_name_wherever_names_are(mine):
    fc.register(mine.Cauchy, name="cauchy")
    fc.register(name="pairs")(mine.Pairs)
    fc.register(mine.Fixed, name="fixed")
    assert comparison_model("cauchy") == mine.Cauchy(1.0)
    assert fc.CoLSTIM(2, comparison="cauchy", estimator="sgd").get_params()["comparison"] == "cauchy"
    assert recipe_of({"name": "pairs"}, "here").cls is mine.Pairs
    assert scenario_of({"name": "fixed", "seed": 3}, "here").seed == 3
    assert isinstance(scenario_of({"name": "easy", "comparison": {"name": "cauchy", "width": 2}}, "x"), fc.Scenario)
    assert main(["simulate", "--policies", "pairs", "--horizon", "20", "--runs", "1", "--no-progress"]) == 0


@pytest.mark.parametrize(
    ("kind", "name", "cls"),
    [
        (registry.POLICY, "CoLSTIM", fc.CoLSTIM),
        (registry.POLICY, "MaxPairUCB", MaxPairUCB),
        (registry.MODEL, "thurstone", fc.Thurstone),
        (registry.ESTIMATOR, "online-newton", fc.OnlineNewton),
    ],
)
def test_ours_are_named_as_those_of_people_are(kind: str, name: str, cls: type):
    assert registry.find(kind, name) is cls
    assert registry.name_of(cls) == name
    assert registry.find(kind, f"{cls.__module__}:{cls.__qualname__}") is cls


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("bradley-terry", ValueError, r"name is 'bradley-terry', by which fastcolst.comparison:BradleyTerry is known"),
        ("a:b", ValueError, r"name is 'a:b'; a text without a colon"),
        ("", ValueError, r"name is ''; a text"),
        (3, ValueError, r"name is 3; a text"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_registered(mine, name, error, message):
    before = {kind: dict(registry.known(kind)) for kind in registry.METHODS}
    with pytest.raises(error, match=message):
        fc.register(mine.Cauchy, name=name)
    assert before == {kind: dict(registry.known(kind)) for kind in registry.METHODS}
    assert isinstance(mine.Cauchy(1).width, int)  # kernels do not know it either


def test_what_is_of_no_kind_gets_no_name(mine):
    class Rule(NamedTuple):
        n: int

        def select(self, state, contexts, raw, work):
            return 0, 0

        def update(self, state, choice, contrast, share, weight):
            return 0

    for wrong in (object, 3, Rule, lambda: None):
        with pytest.raises(TypeError, match="register needs for a name a class with the methods of a kind"):
            fc.register(wrong, name="new")
    with pytest.raises(TypeError, match=r"register needs a class that derives from typing\.NamedTuple"):
        fc.register(mine.Pairs)


def test_a_class_that_is_defined_anew_takes_the_name_over(mine):
    def again() -> type:
        class Pairs(fc.UniformPairs):
            pass

        return fc.register(Pairs, name="pairs")

    first, second = again(), again()
    assert first is not second and registry.find(registry.POLICY, "pairs") is second


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere_at_all:X", r"comparison is 'nowhere_at_all:X', which cannot be imported: ModuleNotFoundError"),
        ("math:X", r"'math:X', which cannot be imported: AttributeError"),
        ("math:sin", r"comparison is 'math:sin', which is no comparison model: a class with the methods cdf, pdf, "),
        ("fastcolst.policies:CoLSTIM", r"is no comparison model"),
        (":", r"':', which is not of the form 'package.module:name'"),
        ("nobody", r"comparison is 'nobody'; wanted one of 'bradley-terry', "),
    ],
)
def test_what_cannot_be_found_is_told(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        comparison_model(text)
    with pytest.raises(ValueError, match="estimator is"):
        estimator_of(text)
    with pytest.raises(ValueError, match=f"policy 'mine': {message}" if message.startswith("comp") else message):
        fc.Study({"mine": {"name": "CoLSTIM", "comparison": text}}, {"s": {"name": "easy"}}, 10)


def test_a_module_that_fails_is_one_line_of_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_of_mine.py").write_text("x = (")
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--policies", "broken_of_mine:X"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "fastcolst: error: argument --policies: 'broken_of_mine:X', which cannot be imported: SyntaxError"
    )
    assert error.count("\n") == 1


def test_the_command_line_finds_a_module_in_the_current_folder_after_all_others(mine, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    study = f'horizon = 20\n[[policy]]\nname = "{mine.__name__}:Pairs"\n[[scenario]]\nname = "{mine.__name__}:Fixed"\n'
    (tmp_path / "study.toml").write_text(study)
    root = str(Path(fc.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); from fastcolst.cli import main; sys.exit(main(sys.argv[1:]))"
    for command in (
        ["simulate", "--policies", f"{mine.__name__}:Pairs,UniformPairs", "--horizon", "30", "--runs", "2"],
        ["simulate", "--policies", f"{mine.__name__}:Pairs", "--scenario", f"{mine.__name__}:Fixed", "--horizon", "9"],
        ["study", "study.toml", "--out", "results", "--executor", "processes", "--threads", "1"],
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Pairs" in done.stdout
    assert fc.load_study(tmp_path / "results").to_pandas()["policy"].unique().tolist() == [f"{mine.__name__}:Pairs"]


def test_tables_of_ones_own_classes_come_back(mine):
    name = mine.__name__
    learner = {"name": f"{name}:Cauchy", "width": 2.0}
    data = {
        "horizon": 10,
        "policy": [{"name": "CoLSTIM", "estimator": "sgd", "comparison": learner}, {"name": f"{name}:Pairs"}],
        "scenario": [{"name": "easy", "comparison": f"{name}:Cauchy"}, {"name": f"{name}:Fixed", "seed": [1, 2]}],
    }
    study = fc.Study.from_dict(data)
    table = json.loads(json.dumps(study.to_dict()))
    assert table["policy"][0]["comparison"] == learner
    assert table["scenario"][1] == {
        "label": f"{name}:Fixed seed=1", "horizon": 10, "checkpoints": 200, "name": f"{name}:Fixed", "seed": 1,
    }  # fmt: skip
    assert fc.Study.from_dict(table) == study
    given = fc.Study({"mine": fc.CoLSTIM(2, comparison=mine.Cauchy(2.0), estimator="sgd")}, {"s": mine.Fixed(4)}, 10)
    table = given.to_dict()
    assert table["policy"][0]["comparison"] == learner
    assert table["scenario"][0]["attributes"] == {"seed": 4}
    assert given != fc.Study({"mine": given.policies["mine"]}, {"s": mine.Fixed(5)}, 10)


def test_workers_are_handed_classes_and_not_names_that_they_were_never_told(mine):
    fc.register(mine.Cauchy, name="cauchy")
    recipe = recipe_of({"name": "CoLSTIM", "comparison": "cauchy", "estimator": "sgd"}, "here")
    assert recipe.parameters["comparison"] == mine.Cauchy(1.0)
    assert recipe.parameters["estimator"] == "sgd"


def test_a_class_says_what_its_choices_cost_and_cells_are_cut_accordingly(mine):
    def sizes(name: str) -> list[int]:
        policy = {"name": name}
        study = fc.Study({"p": policy}, {"s": fc.Scenario.easy(n_arms=2, n_features=2)}, horizon=1000, runs=50)
        return study._work.block_runs()[0]

    assert sizes("UniformPairs") == [50] and sizes(f"{mine.__name__}:Pairs") == [1]


@pytest.mark.parametrize(
    ("value", "table"),
    [
        (np.float64(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (fc.MLE(), {"name": "mle", **fc.MLE()._asdict()}),
        (fc.Thurstone(2), {"name": "thurstone", "sigma": 2.0}),
        (fc.Scenario.hard(n_arms=3, n_features=2), {
            "name": "hard", "n_arms": 3, "n_features": 2, "comparison": {"name": "bradley-terry", "scale": 1.0},
        }),
        ({"a": (1, None)}, {"a": [1, None]}),
        (len, "builtins:len"),
        (int, "builtins:int"),
    ],
)  # fmt: skip
def test_tables_are_plain_data(value: object, table: object):
    assert registry.table_of(value) == table
    assert json.loads(json.dumps(table)) == table


def test_an_object_that_holds_itself_has_no_table():
    class Node:
        def __init__(self) -> None:
            self.next = self

        select = update = len

    with pytest.raises(ValueError, match=r"lies more than 16 levels deep in an object, which no table"):
        fc.Study({"x": Node()}, {"s": {"name": "easy"}}, 10).to_dict()


def test_tables_of_large_arrays_and_of_generators_tell_them_apart():
    one, other = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    other[1, 1, 1] = -0.0
    assert registry.table_of(one) != registry.table_of(other) and registry.table_of(one)["shape"] == [2, 2, 2]
    assert registry.table_of(np.random.default_rng(0)) == registry.table_of(np.random.default_rng(0))
    assert registry.table_of(np.random.default_rng(0)) != registry.table_of(np.random.default_rng(1))


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_policies_of_one_kind_share_their_machine_code():
    kinds = [fc.CoLSTIM(2, estimator=fc.SGD(rate)).kind for rate in (0.1, 0.2)]
    assert kinds[0] == kinds[1] != fc.CoLSTIM(2, estimator="mle").kind


@pytest.mark.parametrize("policy", [fc.DoubleThompson, fc.CoLSTIM, fc.UniformPairs])
def test_a_policy_plays_rounds_of_its_own_sizes_alone(policy: Any):
    """Kernels index arms without a look at what the state has room for."""
    chunk = fc.Scenario.hard(n_arms=5, n_features=2).start(0, 0).next_chunk(30)
    with pytest.raises(ValueError, match=r"chunk has contexts of shape \(30, 2, 5\), .*\(30, 2, 3\), \(30, 3\) and"):
        policy(2, n_arms=3).play(chunk, np.zeros((31, 3)))
    with pytest.raises(ValueError, match=r"a trace \(30, 3\)"):
        policy(2).play(chunk, np.zeros((30, 3)))
    one, other = policy(2, rng=1), policy(2, n_arms=5, rng=1)
    traces = np.zeros((2, 31, 3))
    assert one.play(chunk, traces[0]) == other.play(chunk, traces[1]) == 30
    assert np.array_equal(*traces) and traces[0, -1, 0] > 0.0

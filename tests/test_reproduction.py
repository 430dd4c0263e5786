"""The paper's experiments: verdicts follow the data, and every cell plays what an independent slow loop plays."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from conftest import rounds
from scipy import stats
from slow_loop import slow_regret

import fastcolst as fc
from fastcolst.paper import claims, reproduction
from fastcolst.paper.claims import HOLDS, OPEN, REFUTED, Claim, Entry, above, below, judge
from fastcolst.paper.parts import TARGETS, Settings, parts
from fastcolst.paper.reproduction import reproduce

SMALL = Settings(horizon=60, runs=3, n_arms=5, n_features=2, timed_runs=2, seed=3)

# --- verdicts from data made up -----------------------------------------------------------------------------

FACTORS = {
    "Random": 1.0, "MaxInP": 0.9, "CoLSTIM": 0.5, "SS": 1.0, "DTS": 1.0, "MaxInP-MLE": 0.9, "CoLSTIM-MLE": 0.5,
    "CoLSTIM, normal G": 0.52, "CoLSTIM, own G": 0.5, "CoLSTIM, projected": 0.6, "MaxInP, projected": 0.9,
}  # fmt: skip
"""Regret in units of Random's, as the paper has it."""
SECONDS = {"CoLSTIM": 7.0, "SS": 9.0, "MaxInP": 150.0}
NOISE = {"CoLSTIM-MLE": 0.02}


def made_tables(runs=60, noise=0.05, factors=None, seconds=None, noises=None):
    rng = np.random.default_rng(8)
    factors, seconds = {**FACTORS, **(factors or {})}, {**SECONDS, **(seconds or {})}
    noises = {**NOISE, **(noises or {})}
    regret, clock = {}, {}
    for problem, scenario in itertools.product(("gumbel", "gaussian", "gaussian5"), claims.SCENARIOS):
        hardness = 1.0 + 0.1 * rng.random(runs)  # what runs share, as they share their parameters
        for policy, factor in factors.items():
            deviations = noises.get(policy, noise) * rng.standard_normal(runs)
            regret[Entry(problem, scenario, policy)] = 100.0 * factor * hardness * (1.0 + deviations)
        for policy, mean in seconds.items():
            clock[Entry(problem, scenario, policy)] = mean * (1.0 + 0.05 * rng.standard_normal(runs))
    return {"regret": regret, "choosing": clock, "fused": clock}


def all_claims():
    return [
        *claims.contextual_claims(),
        *claims.contextual_claims("CoLSTIM, projected", "MaxInP, projected"),
        *claims.index_only_claims(),
        *claims.estimator_claims(),
        *claims.misspecification_claims(),
        *claims.cost_claims(),
    ]


def test_every_claim_holds_where_the_data_are_as_the_paper_says():
    found = judge(all_claims(), made_tables())
    assert len(found) == len(all_claims()) == 27
    assert {v.outcome for v in found} == {HOLDS}, [v for v in found if v.outcome != HOLDS]
    assert all(v.p_value <= 0.05 and v.effect > 0 and v.low < v.ratio < v.high for v in found)


@pytest.mark.parametrize(
    ("text", "change", "n"),
    [
        ("CoLSTIM is best", {"factors": {"CoLSTIM": 1.1}}, 6),
        ("CoLSTIM is best", {"factors": {"CoLSTIM, projected": 1.1}}, 6),
        ("MaxInP is only slightly better", {"factors": {"MaxInP": 0.6}}, 1),
        ("MaxInP is only slightly better", {"factors": {"MaxInP": 1.1}}, 1),
        ("DTS is like Random", {"factors": {"DTS": 0.8}}, 1),
        ("SS is like Random", {"factors": {"SS": 1.3}}, 1),
        ("choosing costs CoLSTIM about", {"seconds": {"CoLSTIM": 40.0}}, 2),
        ("choosing costs CoLSTIM about", {"seconds": {"CoLSTIM": 2.0}}, 2),
        ("choosing costs MaxInP about", {"seconds": {"MaxInP": 10.0}}, 2),
        ("choosing costs MaxInP about", {"seconds": {"MaxInP": 900.0}}, 2),
        ("SGD is about as good as full MLE for CoLSTIM", {"factors": {"CoLSTIM-MLE": 0.3}}, 1),
        ("SGD is about as good as full MLE for MaxInP", {"factors": {"MaxInP-MLE": 0.5}}, 1),
        ("full MLE has the smaller spread", {"noises": {"CoLSTIM-MLE": 0.2}}, 1),
        ("robust to the wrong G: still best", {"factors": {"CoLSTIM, normal G": 1.1}}, 1),
        ("robust to the wrong G: a similar", {"factors": {"CoLSTIM, normal G": 0.8}}, 1),
        ("robust to variance 5: still best", {"factors": {"CoLSTIM": 1.1}}, 1),
        ("robust to variance 5: only slightly", {"factors": {"CoLSTIM": 0.8}}, 1),
    ],
)
def test_data_that_reverse_a_claim_turn_its_verdict(text, change, n):
    found = [v for v in judge(all_claims(), made_tables(**change)) if v.claim.text.startswith(text)]
    assert sum(v.outcome == REFUTED for v in found) == n
    assert all(v.effect < 0 for v in found if v.outcome == REFUTED)


def test_few_or_noisy_runs_decide_nothing():
    for tables in (made_tables(runs=1), made_tables(runs=5, noise=2.0, noises={"CoLSTIM-MLE": 2})):
        assert {v.outcome for v in judge(all_claims(), {"regret": tables["regret"]})} == {OPEN}


def test_claims_without_data_are_left_out():
    regret = {cell: y for cell, y in made_tables()["regret"].items() if cell.policy != "DTS"}
    texts = [v.claim.text for v in judge(all_claims(), {"regret": regret})]
    assert "SS is like Random" in texts and "DTS is like Random" not in texts
    assert not any("costs" in text for text in texts)


def test_p_values_are_those_of_paired_t_tests():
    rng = np.random.default_rng(2)
    one, other = Entry("p", "s", "a"), Entry("p", "s", "b")
    x, y = rng.gamma(5.0, size=(2, 12))
    table = {"regret": {one: x, other: y}}
    for bound, expected in (
        (below(one, other, 1.2), stats.ttest_rel(1.2 * y, x, alternative="greater").pvalue),
        (above(one, other, 0.8), stats.ttest_rel(x, 0.8 * y, alternative="greater").pvalue),
    ):
        (verdict,) = judge([Claim("", "", (bound,))], table, level=1.0)
        assert verdict.p_value == pytest.approx(min(1.0, 2 * expected), rel=1e-9)  # Holm: two sides
    low, high = claims.fieller(x, y)
    for edge in (low, high):  # the edges are the ratios that a two-sided test at 5 % just accepts
        assert stats.ttest_rel(x, edge * y).pvalue == pytest.approx(0.05, rel=1e-6)


def test_a_family_of_verdicts_is_rarely_wrong():
    """No difference anywhere: any verdict is wrong. 400 families, expected at most 20 wrong; false alarm below 1e-3."""
    rng = np.random.default_rng(4)
    cells = [Entry("p", "s", str(i)) for i in range(6)]
    family = [Claim("", "", (below(a, b),)) for a, b in itertools.pairwise(cells)]
    wrong = sum(
        any(
            v.outcome != OPEN
            for v in judge(family, {"regret": dict(zip(cells, rng.normal(5, 1, (6, 10)), strict=True))})
        )
        for _ in range(400)
    )
    assert 3 <= wrong <= 36


def test_holms_correction_by_hand():
    p = np.array([0.001, 0.2, 0.011, 0.04, 0.9])
    np.testing.assert_allclose(claims.holm(p), [0.005, 0.4, 0.044, 0.12, 0.9])


# --- the studies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_a_list_of_studies(target):
    for part in parts(target, SMALL):
        study = part.study(1)
        assert study.runs <= SMALL.runs
        assert study == fc.Study.from_dict(study.to_dict())  # everything can be written down


def test_estimators_are_spelled_out():
    for target in TARGETS:
        for part in parts(target, SMALL):
            for label, policy in part.policies.items():
                given = policy if isinstance(policy, dict) else policy.get_params()
                if "estimator" in given:
                    expected = fc.MLE() if label.endswith("MLE") else fc.SGD(0.5)
                    expected = fc.SGD(0.5, radius=1.0) if label.endswith("projected") else expected
                    assert given["estimator"] == expected, (part.name, label)


def test_parts_share_parameters_and_contexts():
    starts = [
        part.scenarios["easy"].start(7, 2)
        for target in ("figure1", "misspecification", "sgd-vs-mle")
        for part in parts(target, SMALL)
    ]
    first = starts[0].next_chunk(5).contexts.copy()
    for start in starts[1:]:
        np.testing.assert_array_equal(start.theta, starts[0].theta)
        np.testing.assert_array_equal(start.next_chunk(5).contexts, first)


def test_the_lower_bounds_instances_are_cubes_with_one_best_arm():
    for ball, length in (("max", 3**0.5), ("euclidean", 1.0)):
        scenario = fc.Scenario.lower_bound(rounds=100, n_features=3, ball=ball)
        assert scenario.n_arms == 8
        signs = set()
        for run in range(40):
            start = scenario.start(1, run)
            signs.add(tuple(np.sign(start.theta)))
            np.testing.assert_allclose(np.abs(start.theta), 0.1)
            chunk = start.next_chunk(2)
            corners = chunk.contexts[0].T
            np.testing.assert_array_equal(chunk.contexts[1].T, corners)
            np.testing.assert_allclose(np.linalg.norm(corners, axis=1), length)
            assert len(np.unique(corners, axis=0)) == 8
            best = np.flatnonzero(chunk.utilities[0] == chunk.best[0])
            assert len(best) == 1
            np.testing.assert_array_equal(np.sign(corners[best[0]]), np.sign(start.theta))
        assert len(signs) == 8  # of 8; missing one has probability 8 * (7/8)^40 = 0.04 for an unknown seed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 16}, "rounds is 16; more than max"),
        ({"rounds": 100, "n_features": 13}, "n_features is 13; at most 12"),
        ({"rounds": 100, "ball": "l1"}, "ball is 'l1'"),
    ],
)
def test_an_instance_of_the_lower_bound_outside_the_theorem_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.Scenario.lower_bound(**arguments)


@pytest.mark.either_lane
def test_what_is_there_is_not_computed_again(tmp_path, monkeypatch):
    asked = ["figure1", "table1"]
    first = reproduce(asked, tmp_path, SMALL, threads=1)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix in {".parquet", ".jsonl"}}
    files |= {path: path.stat().st_mtime_ns for path in (tmp_path / "timings").iterdir()}
    again = reproduce(asked, tmp_path, SMALL, threads=1)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert first.timings == again.timings and len(first.timings) == 6
    for cell, regret in first.final_regret(60).items():
        np.testing.assert_array_equal(regret, again.final_regret(60)[cell])
    with pytest.raises(ValueError, match="other settings: runs is 3 there, 4 here"):
        reproduce(asked, tmp_path, Settings(**{**SMALL.__dict__, "runs": 4}))
    monkeypatch.setattr(reproduction, "STREAM_VERSION", reproduction.STREAM_VERSION + 1)
    with pytest.raises(ValueError, match=f"other settings: streams is {reproduction.STREAM_VERSION - 1} there, "):
        reproduce(asked, tmp_path, SMALL)


def test_an_unknown_target_is_named():
    with pytest.raises(ValueError, match="no target 'figure7'; there are figure1, "):
        parts("figure7", SMALL)


# --- every cell against the reference -----------------------------------------------------------------------


@pytest.mark.either_lane
@pytest.mark.parametrize("target", ["figure1", "misspecification"])
def test_three_runs_of_every_sgd_cell_equal_the_reference(target, tmp_path):
    settings = Settings(horizon=rounds(120, 40), runs=3, n_arms=6, n_features=2, seed=5)
    for part in parts(target, settings):
        part.study(settings.seed).run(tmp_path / part.name, threads=1, progress=False)
        frame = fc.load_study(tmp_path / part.name).to_pandas()
        for (scenario, label), curve in reproduction.curves_of(frame).items():
            for run in range(3):
                expected = slow_regret(
                    part.policies[label], label, part.scenarios[scenario], settings.horizon, settings.seed, run
                )
                assert curve.average_regret[run, -1] == pytest.approx(expected, rel=1e-9), (part.name, scenario, label)


@pytest.mark.long
@pytest.mark.parametrize("label", ["CoLSTIM-MLE", "MaxInP-MLE"])
def test_the_mle_cells_agree_with_the_reference(label):
    """Within 2 %: theta is 1e-3 standard errors off at most, but one other choice changes all rounds after it."""
    settings = Settings(horizon=150, runs=3, n_arms=6, n_features=2, seed=5)
    part = next(part for part in parts("sgd-vs-mle", settings) if "mle" in part.name)
    policies, easy = {label: part.policies[label]}, part.scenarios["easy"]
    result = fc.simulate(policies, easy, settings.horizon, runs=3, rng=settings.seed, checkpoints=1)
    expected = [slow_regret(policies[label], label, easy, settings.horizon, settings.seed, run) for run in range(3)]
    np.testing.assert_allclose(result.average_regret[label][:, -1].mean(), np.mean(expected), rtol=0.02)


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "report.html").write_text("precious")
    with pytest.raises(FileExistsError, match="something other than a reproduction"):
        reproduction.reproduce(["table1"], tmp_path, Settings(horizon=20, runs=2))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_what_is_wrong_is_told_before_a_folder_is_made(tmp_path):
    with pytest.raises(ValueError, match=r"^seed is -1"):
        Settings(seed=-1)
    with pytest.raises(ValueError, match=r"^threads is 0"):
        reproduction.reproduce(["table1"], tmp_path / "out", Settings(horizon=20, runs=2), threads=0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        {"settings": None},
        {"settings": {"colour": 1}},
        {"targets": 1},
        {"targets": ["x"]},
        {"walls": 3},
        {"walls": {"a": "long"}},
        {"walls": {"a": float("inf")}},
        {"machine": None},
    ],
)
def test_a_damaged_manifest_is_one_error(tmp_path, spoil):
    settings = Settings(horizon=20, runs=2)
    reproduction._Manifest.open(tmp_path, settings)
    path = tmp_path / reproduction.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **spoil}))
    for use in (reproduction.load_results, lambda out: reproduction.reproduce(["table1"], out, settings)):
        with pytest.raises(fc.FileFormatError, match="is damaged"):
            use(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[",
        "[" * 10_000,
        "{}}",
        "[1]",
        '[{"policy": "SS"}]',
        '[{"policy": "SS", "choosing": "1", "learning": 1, "fused": 1}]',
        '[{"policy": [], "choosing": 1, "learning": 1, "fused": 1}]',
        '[{"policy": "SS", "choosing": NaN, "learning": 1, "fused": 1}]',
    ],
)
def test_a_damaged_file_of_seconds_is_one_error(tmp_path, content):
    manifest = reproduction._Manifest.open(tmp_path, Settings(horizon=20, runs=2))
    manifest.add_targets(["table2"])
    path = manifest.timing_path("table2-gumbel-easy")
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(fc.FileFormatError, match=r"table2-gumbel-easy\.json' is damaged"):
        reproduction.load_results(tmp_path)


def test_a_reproduction_that_was_interrupted_is_no_empty_report(tmp_path):
    reproduction._Manifest.open(tmp_path, Settings(horizon=20, runs=2))
    with pytest.raises(ValueError, match="no complete experiment yet"):
        reproduction.load_results(tmp_path)

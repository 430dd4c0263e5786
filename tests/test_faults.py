"""Planted faults: known faults of public code, put into a copy of the package, turn a named test red.

A fault joins by a line in ``FAULTS``. The copy runs as interpreted Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


class Fault(NamedTuple):
    """What to replace, in which file of the package, by what; and the test that must notice."""

    file: str
    right: str
    wrong: str
    test: str


CONTRACT = "test_contract.py::test_object_fused_loop_and_replay_agree_with_the_reference"
COUNTING = "test_counting.py::test_answers_that_come_late_or_never_give_the_duels_of_the_reference"
FAULTS = {
    "inverted coupling": Fault(
        "policies/colstim.py",
        "return bool(raw[0] < _coupling_probability",
        "return bool(raw[0] >= _coupling_probability",
        f"{CONTRACT}[CoLSTIM-sgd-bradley-terry-likelihood]",
    ),
    "utilities replaced by the index of the largest": Fault(
        "kernels/selection.py",
        "work[j] = utilities[j] + min(clip",
        "work[j] = argmax(utilities) + min(clip",
        "test_policies.py::test_every_option_agrees_with_the_reference[greedy first arm]",
    ),
    "unclipped noise": Fault(
        "kernels/selection.py",
        "min(clip, max(-clip, noise[j]))",
        "noise[j]",
        "test_policies.py::test_every_option_agrees_with_the_reference[tight clip]",
    ),
    "noise clipped on one side": Fault(
        "kernels/selection.py",
        "min(clip, max(-clip, noise[j]))",
        "min(clip, noise[j])",
        "test_selection.py::test_clipping_bounds_the_noise_on_both_sides",
    ),
    "self-duel excluded": Fault(
        "kernels/selection.py",
        "if not allow_first:",
        "if True:",
        f"{CONTRACT}[CoLSTIM-sgd-bradley-terry-likelihood]",
    ),
    "p_t with the square root over d": Fault(
        "policies/colstim.py",
        "return d / np.sqrt(since) * np.log(d * T)",
        "return np.sqrt(d / since) * np.log(d * T)",
        "test_policies.py::test_the_probability_of_independent_noise[None]",
    ),
    "ridge where none is asked": Fault(
        "policies/linear.py",
        'ridge = number("ridge", ridge)',
        'ridge = number("ridge", ridge) or 1.0',
        f"{CONTRACT}[CoLSTIM-sgd-bradley-terry-likelihood]",
    ),
    "ridge where none is asked, in the estimate": Fault(
        "estimation/mle.py",
        "solve(plain(objective_of)(self, model), self.settings, memory, self.tolerance)",
        "solve(plain(objective_of)(self._replace(ridge=1.0), model), self.settings, memory, self.tolerance)",
        f"{CONTRACT}[CoLSTIM-mle-bradley-terry-likelihood]",
    ),
    "greedy leader for MaxInP": Fault(
        "policies/maxinp.py",
        "first, second = informative_pair(work, n, theta_norm, eta, tie_key(raw[1]))",
        "leader = int(work[d][:n].argmax())\n"
        "        rival = int(((work[:d, :n].T - work[:d, leader]) ** 2).sum(axis=1).argmax())\n"
        "        first, second = min(leader, rival), max(leader, rival)",
        f"{CONTRACT}[MaxInP-sgd-bradley-terry-likelihood]",
    ),
    "row for column": Fault(
        "policies/double_thompson.py",
        "out[0, i] = state.wins[i, first] if uncertain else 0.0\n"
        "        out[1, i] = state.wins[first, i] if uncertain else 1.0",
        "out[0, i] = state.wins[first, i] if uncertain else 0.0\n"
        "        out[1, i] = state.wins[i, first] if uncertain else 1.0",
        "test_index_policies.py::test_the_second_arm_is_the_most_dangerous_rival",
    ),
    "row for column, first stage": Fault(
        "policies/double_thompson.py",
        "count_wins(state.bars, candidates",
        "count_wins(state.bars.T, candidates",
        "test_index_policies.py::test_the_first_arm_wins_most_duels",
    ),
    "the weakest rival": Fault(
        "policies/double_thompson.py",
        "return Choice(first, argmax(samples), 0)",
        "return Choice(first, int(np.argmin(np.where(samples > 0.0, samples, 2.0))), 0)",
        "test_index_policies.py::test_the_second_arm_is_the_most_dangerous_rival",
    ),
    "pairs that wait left out": Fault(
        "policies/counting.py",
        "if counted is None and is_sound and self._pairs_count():",
        "if counted is None and is_sound and not self._pairs_count():",
        f"{COUNTING}[MaxPairUCB-None]",
    ),
    "an answer counted twice": Fault(
        "policies/answering.py",
        "self._counted_after(counted, asked, weight - 1.0)",
        "self._counted_after(counted, asked, weight)",
        f"{COUNTING}[MaxPairUCB-None]",
    ),
    "what is given up left in M": Fault(
        "policies/counting.py",
        "is_done = self._count_beside(self._with_counted(counted).state, [asked], times)",
        "is_done = times < 0.0 or self._count_beside(self._with_counted(counted).state, [asked], times)",
        f"{COUNTING}[MaxPairUCB-None]",
    ),
    "robust weights by the squared width": Fault(
        "policies/robust.py",
        "alpha / np.sqrt(square)",
        "alpha / square",
        "test_robust.py::test_object_fused_loop_and_log_agree_with_the_reference[MaxPairUCB-sgd-0.5]",
    ),
    "robust weights of the day of the answer": Fault(
        "policies/answering.py",
        "(asked.weight * weight, ",
        "(self._trust(self._alpha, asked.code, asked.n_arms, asked.contrast) * weight, ",
        "test_robust.py::test_the_weight_is_that_of_the_day_on_which_the_pair_was_shown[MaxPairUCB]",
    ),
    "far from any arm of the set in place of all": Fault(
        "policies/filling.py",
        "min(nearest[j], square)",
        "max(nearest[j], square)",
        "test_sets.py::test_a_set_is_the_one_of_the_reference[gram-CoLSTIM]",
    ),
    "a choice from all in each stage of a ranking": Fault(
        "policies/sets.py",
        "others = [place for place in left if place != chosen]",
        "others = [place for place in range(len(asked.duel)) if place != chosen]",
        "test_sets.py::test_sets_and_duels_together_agree_with_forty_digits[0.7-2.5]",
    ),
    "broken pairs that count in full": Fault(
        "estimation/sets.py",
        "shared = np.repeat(choices.weights / (sizes - 1), sizes - 1)",
        "shared = np.repeat(choices.weights, sizes - 1)",
        "test_sets.py::test_of_other_noise_a_choice_is_weighted_pairs[thurstone]",
    ),
    "self-duels in sets": Fault(
        "policies/sets.py",
        "self._rule._replace(allow_self_duel=False)",
        "self._rule",
        "test_sets.py::test_a_set_of_two_is_the_duel_that_select_shows_to_the_last_bit[options0-sgd-CoLSTIM]",
    ),
}


RUNNER = """
import json, os, sys
import hypothesis, numba, pytest, scipy.optimize, scipy.stats  # once, for all children

codes = []
for folder, tests in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        sys.path.insert(0, folder)
        with open("output", "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = pytest.main(["-q", "--tb=short", "--assert=plain", "-p", "no:cacheprovider", "-o", "addopts=", *tests])
        sys.stdout.flush()
        os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
json.dump(codes, sys.stdout)
"""


def copy_of_the_package(folder, fault=None):
    """Package and tests in a folder of their own, and the names of tests to run there."""
    for name in ("fastcolst", "tests"):  # with Python's caches, which stay valid, and without Numba's
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.nb?"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    if fault is None:
        return sorted({f"tests/{fault.test}" for fault in FAULTS.values()})
    module = folder / "fastcolst" / fault.file
    source = module.read_text()
    assert source.count(fault.right) == 1, fault.right
    module.write_text(source.replace(fault.right, fault.wrong))
    return [f"tests/{fault.test}"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Exit code and output of pytest for every fault, and for none. One process, forked, has done the slow imports."""
    if not hasattr(os, "fork"):
        pytest.skip("needs os.fork")
    folders = {name: tmp_path_factory.mktemp("planted") for name in (*FAULTS, None)}
    jobs = [(str(folder), copy_of_the_package(folder, FAULTS.get(name))) for name, folder in folders.items()]
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(jobs),
        cwd=folders[None],
        env={**os.environ, "PYTHONPATH": "", "NUMBA_DISABLE_JIT": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    outputs = [(folder / "output").read_text() for folder in folders.values()]
    return dict(zip(folders, zip(json.loads(done.stdout), outputs, strict=True), strict=True))


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_turns_a_named_test_red(name, outcomes):
    code, output = outcomes[name]
    assert code == 1 and "1 failed" in output, output
    assert re.search(r"^E +(AssertionError|assert)", output, re.MULTILINE), output  # wrong, not broken


def test_without_a_fault_these_tests_are_green(outcomes):
    code, output = outcomes[None]
    assert code == 0 and f"{len({fault.test for fault in FAULTS.values()})} passed" in output, output

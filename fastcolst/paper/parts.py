"""The paper's experiments as studies: which policies meet which problems, and the seconds that choosing takes.

A target of ``fastcolst reproduce`` is a list of parts. A part is one study in a folder of its own; targets share parts,
and all parts share the seed, so that equal scenarios have equal parameters, contexts and luck, run by run.

The paper names no horizon. Its constants depend on it (c_1 = C_thresh = sqrt(d log T), p_t), so what a policy does
after 1,000 of 10,000 rounds is not what it does when it is told T = 1,000: each horizon is a study of its own.

References
----------
Bengs, Saha, Huellermeier (2022), section 4, the appendix "SGD vs. Full Maximum-Likelihood-Estimation", Theorem 3.1.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fastcolst._checks import count
from fastcolst.comparison import BradleyTerry, Thurstone
from fastcolst.estimation.mle import MLE
from fastcolst.estimation.sgd import SGD
from fastcolst.experiments.problems import Scenario
from fastcolst.experiments.studies import Study
from fastcolst.paper.claims import FIGURE_1, SCENARIOS
from fastcolst.policies import CoLSTIM, DoubleThompson, MaxInP, MaxPairUCB, SelfSparring, UniformPairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["PAPER", "TARGETS", "Part", "Settings", "parts", "scenarios_of", "timed_cells"]

PAPER = ("figure1", "misspecification", "sgd-vs-mle", "table1", "table2")
"""What "all" stands for: the experiments of the paper."""
TARGETS = (*PAPER, "lower-bound", "sweep", "width-scale")

MODELS = {"gumbel": BradleyTerry(), "gaussian": Thurstone(), "gaussian5": Thurstone(sigma=math.sqrt(5.0))}
"""G* of the problems, by the names of :class:`fastcolst.paper.claims.Entry`."""
NAMES = {**FIGURE_1, "gaussian5": "Gaussian of variance 5"}
SYMBOLS = {"easy": "E", "medium": "M", "hard": "H"}
"""What the paper calls the problems and their scenarios."""
SHORT_HORIZONS = (1_000, 3_000)
"""Shown beside the settings' own, for the first figure."""

CHECKPOINTS = 100
SGD_RATE = 0.5
CUBES = (2, 4, 6)
CUBE_HORIZONS = (0.1, 0.3, 1.0)  # in units of the settings' horizon
CUBE_RUNS = 30
SWEEP_ARMS = (10, 20, 50, 100, 200)
SWEEP_FEATURES = (3, 5, 10, 20, 40)
SWEEP_HORIZONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SWEEP_RUNS = 20
SWEPT = "swept"
"""What the problem of the swept scale of the widths is called in a part."""
WIDTH_RULES = ("CoLSTIM", "MaxInP", "MaxPairUCB")
WIDTH_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
"""Scales of the widths in units of the paper's."""
WIDTH_RUNS = 40


@dataclass(frozen=True)
class Settings:
    """What the paper fixes, and what it leaves open.

    Parameters
    ----------
    horizon : int
        T of the figures and the claims; the paper does not state its own.
    runs : int
        Repetitions; the paper's 100.
    seed : int
    n_arms, n_features : int
        n and d; the paper's 50 and 10.
    timed_runs : int
        Repetitions in which choosing is timed call by call (of `runs`, if these are fewer).
    """

    horizon: int = 10_000
    runs: int = 100
    seed: int = 2022
    n_arms: int = 50
    n_features: int = 10
    timed_runs: int = 5

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            count(name, value, lowest=0 if name == "seed" else 1)

    @property
    def horizons(self) -> list[int]:
        """The horizons of the first figure, the settings' own last."""
        return [*(T for T in SHORT_HORIZONS if self.horizon > T), self.horizon]


@dataclass(frozen=True)
class Part:
    """One study: every policy on every scenario.

    Parameters
    ----------
    name : str
        Its folder.
    problem : str
        What its scenarios are called in a :class:`fastcolst.paper.claims.Entry`; parts of one problem share their
        contexts.
    horizon : int, or dict of scenario's label to int
    runs : int
    scenarios : dict of label to scenario
    policies : dict of label to policy or table
    """

    name: str
    problem: str
    horizon: int | Mapping[str, int]
    runs: int
    scenarios: Mapping[str, Scenario]
    policies: Mapping[str, Any]

    def horizon_of(self, scenario: str) -> int:
        """T of one of its scenarios."""
        return self.horizon if isinstance(self.horizon, int) else self.horizon[scenario]

    def study(self, seed: int) -> Study:
        """The part as a study."""
        return Study(
            policies=dict(self.policies),
            scenarios=dict(self.scenarios),
            horizon=self.horizon,
            runs=self.runs,
            seed=seed,
            checkpoints=CHECKPOINTS,
        )


def parts(target: str, settings: Settings) -> list[Part]:
    """The studies that a target takes; none for tables, whose seconds are measured apart.

    Raises
    ------
    ValueError
        No such target.

    Examples
    --------
    >>> from fastcolst.paper.parts import Settings, parts
    >>> [part.name for part in parts("sgd-vs-mle", Settings())]
    ['gumbel-10000', 'gumbel-mle-10000']
    """
    T = settings.horizon
    by_target: dict[str, Callable[[], list[Part]]] = {
        "figure1": lambda: [
            *(_five(problem, h, settings) for problem in ("gumbel", "gaussian") for h in settings.horizons),
            *(_projected(problem, settings) for problem in ("gumbel", "gaussian")),
        ],
        "misspecification": lambda: [_five("gumbel", T, settings), _wrong_g(settings), _wrong_variance(settings)],
        "sgd-vs-mle": lambda: [_five("gumbel", T, settings), _full_mle(settings)],
        "table1": list,
        "table2": list,
        "lower-bound": lambda: [_cubes(settings)],
        "sweep": lambda: [_sweep(settings)],
        "width-scale": lambda: [_widths(settings)],
    }
    if target not in by_target:
        raise ValueError(f"no target {target!r}; there are {', '.join(TARGETS)} and all")
    return by_target[target]()


def timed_cells(target: str, settings: Settings) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """What a table times: for each name of a file the problem, the scenario and the policies."""
    easy = {**_five("gumbel", settings.horizon, settings).policies, **_full_mle(settings).policies}
    if target == "table2":
        learners = ("MaxInP", "MaxInP-MLE", "CoLSTIM", "CoLSTIM-MLE")
        return {"table2-gumbel-easy": ("gumbel", "easy", {label: easy[label] for label in learners})}
    if target != "table1":
        return {}
    labels = ("Random", "MaxInP", "CoLSTIM", "SS", "DTS")
    cells = {}
    for problem in ("gumbel", "gaussian"):
        policies = _five(problem, settings.horizon, settings).policies
        for scenario in SCENARIOS:
            cells[f"table1-{problem}-{scenario}"] = (problem, scenario, {label: policies[label] for label in labels})
    return cells


# --- the parts ----------------------------------------------------------------------------------------------


def scenarios_of(problem: str, s: Settings, names: Iterable[str] = SCENARIOS) -> dict[str, Scenario]:
    """The scenarios of a problem, by name."""
    sizes: dict[str, Any] = {"n_arms": s.n_arms, "n_features": s.n_features, "comparison": MODELS[problem]}
    return {name: getattr(Scenario, name)(**sizes) for name in names}


def _colstim(s: Settings, model: Any, estimator: Any = None) -> CoLSTIM:
    return CoLSTIM(s.n_features, comparison=model, estimator=estimator or SGD(SGD_RATE))


def _maxinp(s: Settings, model: Any, estimator: Any = None) -> MaxInP:
    return MaxInP(s.n_features, comparison=model, estimator=estimator or SGD(SGD_RATE))


def _all_policies(problem: str, s: Settings, model: Any) -> dict[str, Any]:
    """The five of the first figure; MaxInP is made for the logistic link, and has G*'s own beside it."""
    policies = {
        "Random": UniformPairs(),
        "MaxInP": _maxinp(s, BradleyTerry()),
        "CoLSTIM": _colstim(s, model),
        "SS": SelfSparring(),
        "DTS": DoubleThompson(),
    }
    if problem != "gumbel":
        policies["MaxInP, own link"] = _maxinp(s, MODELS[problem])
    return policies


def _five(problem: str, horizon: int, s: Settings) -> Part:
    policies = _all_policies(problem, s, MODELS[problem])
    return Part(f"{problem}-{horizon}", problem, horizon, s.runs, scenarios_of(problem, s), policies)


def _projected(problem: str, s: Settings) -> Part:
    unit_ball = SGD(SGD_RATE, radius=1.0)
    policies = {
        "CoLSTIM, projected": _colstim(s, MODELS[problem], unit_ball),
        "MaxInP, projected": _maxinp(s, BradleyTerry(), unit_ball),
    }
    return Part(f"{problem}-projected-{s.horizon}", problem, s.horizon, s.runs, scenarios_of(problem, s), policies)


def _wrong_g(s: Settings) -> Part:
    policies = {"CoLSTIM, normal G": _colstim(s, Thurstone())}
    return Part(f"gumbel-normal-g-{s.horizon}", "gumbel", s.horizon, s.runs, scenarios_of("gumbel", s), policies)


def _wrong_variance(s: Settings) -> Part:
    policies = _all_policies("gaussian5", s, Thurstone())
    policies["CoLSTIM, own G"] = _colstim(s, MODELS["gaussian5"])
    return Part(f"gaussian5-{s.horizon}", "gaussian5", s.horizon, s.runs, scenarios_of("gaussian5", s), policies)


def _full_mle(s: Settings) -> Part:
    policies = {
        "CoLSTIM-MLE": _colstim(s, BradleyTerry(), MLE()),
        "MaxInP-MLE": _maxinp(s, BradleyTerry(), MLE()),
    }
    scenarios = scenarios_of("gumbel", s, ["easy"])
    return Part(f"gumbel-mle-{s.horizon}", "gumbel", s.horizon, s.runs, scenarios, policies)


def cube_points(settings: Settings) -> dict[str, tuple[str, int, int]]:
    """The instances of the lower bound, by their labels: the ball, d and T, which must exceed 16 and n = 2^d."""
    horizons = sorted({max(2 ** max(CUBES) + 1, round(share * settings.horizon)) for share in CUBE_HORIZONS})
    points = itertools.product(("max", "euclidean"), CUBES, horizons)
    return {f"{ball} d={d} T={T}": (ball, d, T) for ball, d, T in points}


def _cubes(s: Settings) -> Part:
    points = cube_points(s)
    scenarios = {
        label: Scenario.lower_bound(rounds=T, n_features=d, ball=ball) for label, (ball, d, T) in points.items()
    }
    horizons = {label: T for label, (_, _, T) in points.items()}
    policies = {  # tables, because the number of features varies
        "Random": UniformPairs(),
        "CoLSTIM-MLE": {"name": "CoLSTIM", "estimator": MLE()},
        "MaxInP-MLE": {"name": "MaxInP", "estimator": MLE()},
    }
    return Part(f"lower-bound-{s.horizon}", "cube", horizons, min(s.runs, CUBE_RUNS), scenarios, policies)


def sweep_points(settings: Settings) -> dict[str, tuple[int, int, int]]:
    """The (n, d, T) of the scaling study by their labels: one of the three is varied at a time."""
    n, d, T = settings.n_arms, settings.n_features, settings.horizon
    points = [(m, d, T) for m in SWEEP_ARMS] + [(n, m, T) for m in SWEEP_FEATURES]
    points += [(n, d, max(1, round(share * T))) for share in SWEEP_HORIZONS]
    return {f"n={point[0]} d={point[1]} T={point[2]}": point for point in points}


def _sweep(s: Settings) -> Part:
    points = sweep_points(s)
    scenarios = {label: Scenario.medium(n_arms=n, n_features=d) for label, (n, d, _) in points.items()}
    horizons = {label: T for label, (_, _, T) in points.items()}
    policies = {
        "Random": UniformPairs(),
        "CoLSTIM": {"name": "CoLSTIM", "estimator": SGD(SGD_RATE)},
        "CoLSTIM-MLE": {"name": "CoLSTIM", "estimator": MLE()},
    }
    return Part(f"sweep-{s.horizon}", "sweep", horizons, min(s.runs, SWEEP_RUNS), scenarios, policies)


def width_of(settings: Settings, share: float) -> float:
    """A share of the paper's scale of the widths, c = sqrt(d log T)."""
    return share * math.sqrt(settings.n_features * math.log(max(settings.horizon, 2)))


def swept_label(rule: str, share: float) -> str:
    """What a rule with a share of the paper's c is called."""
    return f"{rule}, {share:g} c, MLE"


def _widths(s: Settings) -> Part:
    """Rules at an equal start: as long an exploration, the same estimate, the same scales of the widths."""
    rules = {"CoLSTIM": CoLSTIM, "MaxInP": MaxInP, "MaxPairUCB": MaxPairUCB}
    policies = {
        swept_label(rule, share): rules[rule](s.n_features, estimator=MLE(), width_scale=width_of(s, share))
        for rule, share in itertools.product(WIDTH_RULES, WIDTH_SHARES)
    }
    return Part(
        f"width-scale-{s.horizon}", SWEPT, s.horizon, min(s.runs, WIDTH_RUNS), scenarios_of("gumbel", s), policies
    )

"""Contextual dueling bandits under linear stochastic transitivity: which two options to compare next.

Everything public is imported when the first of it is asked for. Numba alone takes half a second, in which the command
line has to answer Ctrl-C already (see `fastcolst.__main__`), and importing any part of a package runs this file first.
"""

from fastcolst._version import __version__ as __version__  # for type checkers: to be had from here

TYPE_CHECKING = False  # what type checkers take for True; importing it from typing takes longer than all of this
if TYPE_CHECKING:
    from fastcolst._compile import register
    from fastcolst.comparison import BradleyTerry, ExponentialNoise, Thurstone
    from fastcolst.datasets import Log, ReplayResult, read_log, replay
    from fastcolst.estimation import MLE, SGD, OnlineNewton
    from fastcolst.policies import (
        CoLSTIM,
        DoubleThompson,
        Duel,
        MaxInP,
        MaxPairUCB,
        Policy,
        SelfSparring,
        StaD,
        SupCoLSTIM,
        UniformPairs,
    )
    from fastcolst.problems import Scenario, ScoredArms
    from fastcolst.regression import Fit, PreferenceRegression, fit
    from fastcolst.results import FileFormatError, Result, load_result
    from fastcolst.simulation import simulate
    from fastcolst.studies import Study, StudyResult, load_study

__all__ = [
    "MLE",
    "SGD",
    "BradleyTerry",
    "CoLSTIM",
    "DoubleThompson",
    "Duel",
    "ExponentialNoise",
    "FileFormatError",
    "Fit",
    "Log",
    "MaxInP",
    "MaxPairUCB",
    "OnlineNewton",
    "Policy",
    "PreferenceRegression",
    "ReplayResult",
    "Result",
    "Scenario",
    "ScoredArms",
    "SelfSparring",
    "StaD",
    "Study",
    "StudyResult",
    "SupCoLSTIM",
    "Thurstone",
    "UniformPairs",
    "fit",
    "load_result",
    "load_study",
    "read_log",
    "register",
    "replay",
    "simulate",
]

_MODULES = (
    "_compile",
    "comparison",
    "datasets",
    "estimation",
    "policies",
    "problems",
    "regression",
    "results",
    "simulation",
    "studies",
)
"""Where the public names are defined."""

if not TYPE_CHECKING:  # a type checker would now believe in any name

    def __getattr__(name):
        """Import everything public, and give what was asked for."""
        import importlib

        for module in _MODULES:
            found = vars(importlib.import_module(f"fastcolst.{module}"))
            globals().update({public: found[public] for public in __all__ if public in found})
        if name not in globals():
            raise AttributeError(f"module 'fastcolst' has no attribute {name!r}")
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *__all__})

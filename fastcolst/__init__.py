"""Contextual dueling bandits under linear stochastic transitivity: which two options to compare next."""

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

__version__ = "0.1.0"

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

"""Contextual dueling bandits under linear stochastic transitivity: which two options to compare next.

What is public is imported when it is asked for. Numba alone takes half a second, in which the command line has to
answer Ctrl-C already (see `fastcolst.__main__`), and importing any part of a package runs this file first. Type
checkers read `__init__.pyi` in its place.
"""

from fastcolst._version import __version__ as __version__

_HOME = {
    "register": "_registry",
    "BradleyTerry": "comparison",
    "ExponentialNoise": "comparison",
    "Thurstone": "comparison",
    "Nystroem": "features",
    "RandomFeatures": "features",
    "Lapse": "lapse",
    "Log": "data",
    "ReplayResult": "data",
    "read_log": "data",
    "replay": "data",
    "MLE": "estimation",
    "OnlineNewton": "estimation",
    "SGD": "estimation",
    "AlreadyAnsweredError": "policies.duel",
    "BoundArms": "policies",
    "CoLSTIM": "policies",
    "DiscardedError": "policies.duel",
    "DoubleThompson": "policies",
    "Duel": "policies.duel",
    "ForeignDuelError": "policies.duel",
    "Informative": "policies",
    "MalformedDuelError": "policies.duel",
    "MaxInP": "policies",
    "MaxPairUCB": "policies",
    "PendingDuel": "policies.duel",
    "Policy": "policies",
    "SelfSparring": "policies",
    "SetAnswers": "policies.kept_sets",
    "ShownSet": "policies.shown",
    "StaD": "policies",
    "Summary": "policies.summary",
    "SupCoLSTIM": "policies",
    "TwoSamples": "policies",
    "UniformPairs": "policies",
    "load_policy": "policies.loading",
    "arm_features": "experiments.arm_features",
    "compare_models": "experiments.model_choice",
    "load_aslib": "experiments.aslib",
    "Scenario": "experiments.problems",
    "ScoredArms": "experiments.scored",
    "Fit": "estimation.fit",
    "PreferenceRegression": "estimation.sklearn",
    "fit": "estimation.fit",
    "fit_rankings": "estimation.rankings",
    "FileFormatError": "experiments.results",
    "Result": "experiments.results",
    "load_result": "experiments.results",
    "simulate": "experiments.simulation",
    "Tuning": "experiments.tuning",
    "tune": "experiments.tuning",
    "Study": "experiments.studies",
    "StudyResult": "experiments.studies",
    "load_study": "experiments.studies",
}
"""The public names, and the module that each comes from."""

__all__ = list(_HOME)


def __getattr__(name):
    """Import what a public name means, or a module that some come from."""
    import gc
    import importlib

    if name in {"extend", *(home.partition(".")[0] for home in _HOME.values())}:
        return importlib.import_module(f"fastcolst.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'fastcolst' has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # nothing that Numba makes is garbage; looking costs a tenth of the import
    try:
        found = globals()[name] = getattr(importlib.import_module(f"fastcolst.{_HOME[name]}"), name)
    finally:
        if collects:
            gc.enable()
    return found


def __dir__():
    return sorted({*globals(), *__all__})

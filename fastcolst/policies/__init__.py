"""The policies, one file for each algorithm."""

from fastcolst._registry import POLICY, known
from fastcolst.policies import bound_colstim as bound_colstim  # its search
from fastcolst.policies.bound import BoundArms
from fastcolst.policies.colstim import CoLSTIM
from fastcolst.policies.double_thompson import DoubleThompson
from fastcolst.policies.duel import Duel
from fastcolst.policies.informative import Informative
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.maxinp import MaxInP
from fastcolst.policies.maxpairucb import MaxPairUCB
from fastcolst.policies.policy import Policy
from fastcolst.policies.self_sparring import SelfSparring
from fastcolst.policies.sta_d import StaD
from fastcolst.policies.sup_colstim import SupCoLSTIM
from fastcolst.policies.two_samples import TwoSamples
from fastcolst.policies.uniform import UniformPairs

__all__ = [
    "REGISTRY",
    "BoundArms",
    "CoLSTIM",
    "DoubleThompson",
    "Duel",
    "Informative",
    "LinearPolicy",
    "MaxInP",
    "MaxPairUCB",
    "Policy",
    "SelfSparring",
    "StaD",
    "SupCoLSTIM",
    "TwoSamples",
    "UniformPairs",
]

REGISTRY = known(POLICY)
"""The policies by name: those above, and those that people have registered."""

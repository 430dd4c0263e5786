"""The policies, one file for each algorithm."""

from fastcolst.policies.base import Duel, LinearPolicy, Policy
from fastcolst.policies.colstim import CoLSTIM
from fastcolst.policies.maxinp import MaxInP
from fastcolst.policies.maxpairucb import MaxPairUCB
from fastcolst.policies.uniform import UniformPairs

__all__ = ["REGISTRY", "CoLSTIM", "Duel", "LinearPolicy", "MaxInP", "MaxPairUCB", "Policy", "UniformPairs"]

REGISTRY: dict[str, type[Policy]] = {policy.__name__: policy for policy in (CoLSTIM, MaxInP, MaxPairUCB, UniformPairs)}
"""The policies by name."""

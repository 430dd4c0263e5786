"""The policies, one file for each algorithm."""

from fastcolst.policies.base import Duel, LinearPolicy, Policy
from fastcolst.policies.colstim import CoLSTIM
from fastcolst.policies.uniform import UniformPairs

__all__ = ["REGISTRY", "CoLSTIM", "Duel", "LinearPolicy", "Policy", "UniformPairs"]

REGISTRY: dict[str, type[Policy]] = {policy.__name__: policy for policy in (CoLSTIM, UniformPairs)}
"""The policies by name."""

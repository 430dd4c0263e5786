"""CoLSTIM, its rivals and their estimate of theta in plain NumPy, to be read beside the paper's Algorithm 1.

Bengs, Saha and Huellermeier (2022), "Stochastic Contextual Dueling Bandits under Linear Stochastic
Transitivity Models". In round t the learner sees one context vector per arm, the rows of `contexts`, and
picks

    first  = argmax_i  x_i.theta + eps_i |x_i|_{M^-1}                           (line 14)
    second = argmax_i  (x_i - x_first).theta + c1 |x_i - x_first|_{M^-1}        (line 15)

with M the Gram matrix of the contrasts seen so far and eps_i clipped noise. `models` are the laws of the noise,
`policies`, `informed` and `stages` the algorithms, `estimation` is theta, and `simulation` their play. Everything here
is slow and obvious on purpose: inverses are formed anew whenever they are needed. Nothing here imports anything of ours
from outside this folder, so that it is independent evidence for the compiled code, and it consumes the same random
numbers in the same order (`draw`), so that the two can be compared duel by duel.
"""

from fastcolst.reference.blind import DoubleThompson, SelfSparring, UniformPairs
from fastcolst.reference.estimation import MLE, Estimate, OnlineNewton, bend, fit, pull
from fastcolst.reference.informed import Informative, InformedPolicy, TwoSamples
from fastcolst.reference.linalg import SHARE_TOLERANCE, Floats, inverse, invertible, norms
from fastcolst.reference.models import BradleyTerry, ComparisonModel, ExponentialNoise, Thurstone
from fastcolst.reference.pairs import distinct_pair, first_of_the_largest, pair_distances, tie_key, undominated
from fastcolst.reference.policies import CoLSTIM, LinearPolicy, MaxInP, MaxPairUCB
from fastcolst.reference.sets import gain_of_gram, score_and_information, select_set, shares
from fastcolst.reference.simulation import regret, simulate
from fastcolst.reference.stages import StaD, StagewisePolicy, SupCoLSTIM

__all__ = [
    "MLE",
    "SHARE_TOLERANCE",
    "BradleyTerry",
    "CoLSTIM",
    "ComparisonModel",
    "DoubleThompson",
    "Estimate",
    "ExponentialNoise",
    "Floats",
    "Informative",
    "InformedPolicy",
    "LinearPolicy",
    "MaxInP",
    "MaxPairUCB",
    "OnlineNewton",
    "SelfSparring",
    "StaD",
    "StagewisePolicy",
    "SupCoLSTIM",
    "Thurstone",
    "TwoSamples",
    "UniformPairs",
    "bend",
    "distinct_pair",
    "first_of_the_largest",
    "fit",
    "gain_of_gram",
    "inverse",
    "invertible",
    "norms",
    "pair_distances",
    "pull",
    "regret",
    "score_and_information",
    "select_set",
    "shares",
    "simulate",
    "tie_key",
    "undominated",
]

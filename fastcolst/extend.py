"""What rules, estimators, comparison models and problems of one's own are made of.

``docs/extending.md`` writes one of each. A name in TOML tables, on the command line or in an argument may be
``"package.module:Class"`` from the start, or a word of your own after :func:`fastcolst.register`.

A **policy** is a class for people and a rule for kernels. The rule is a registered NamedTuple of numbers, and of the
model and the estimator that it uses, with the methods :func:`n_raw`, :func:`work_shape`, :func:`select` and
:func:`update` (:mod:`fastcolst.policies.protocol` tells what each is handed). The class names its parameters in its
constructor, calls ``super().__init__(locals())`` first, which keeps them in ``self._parameters``, and then

- a :class:`LinearPolicy` ``self._start_linear(rule, ridge, exploration_rounds)``: theta, M and the exploration come
  with it; the rule's fields ``estimator``, ``model``, ``horizon`` and ``width_scale`` are what :func:`linear_fields`
  gives;
- an :class:`IndexPolicy` ``self._start_index(rule, State)``, where ``State.new(n_arms)`` builds a registered NamedTuple
  of arrays, of which ``counters`` is :func:`new_counters`; its method ``only(rows)``, the state of some of the arms
  with the same counters, makes ``available`` work;
- a :class:`BlindPolicy` ``self._begin(rule, state)``, with :class:`BlindState` or a state of its own.

These three begin with an underscore because whoever holds a policy has no use for them; they are as stable as the rest
of this page. A class attribute ``choice_cost`` says what a choice takes as a multiple of CoLSTIM's, by which studies
are cut into cells.

An **estimator** is a registered NamedTuple of numbers with ``memory(n_features)``, which makes a NamedTuple of arrays
with ``theta``, and :func:`learn`, which changes it in place; :mod:`fastcolst.estimation.protocol` tells what it may
have besides. A **comparison model** is a registered NamedTuple with ``cdf``, ``pdf``, ``raw`` and ``perturb``; see
:func:`comparison_model`. A **law of contexts** is one with ``fill(rng, out)``. A **problem** is any object with what
:class:`Problem` asks for, whose runs have what :class:`ProblemRun` does. In all but the last methods are compiled: the
subset of Python that Numba knows, arrays changed in place, and functions from here or such as :func:`helper` makes.
"""

from fastcolst._compile import helper
from fastcolst._registry import register, table_of
from fastcolst.comparison import cdf, comparison_model, curvature, log_cdf, pdf, perturb, raw, score, weight
from fastcolst.estimation.protocol import FULL, LEARNED, OVERFLOW, STALE, learn
from fastcolst.experiments.problems import Problem, ProblemRun
from fastcolst.kernels.linalg import (
    dot,
    gram_norm,
    inverse_factor,
    rank_one_inverse,
    squared_widths,
    unwhiten,
    utilities,
    whiten,
    whiten_contrast,
)
from fastcolst.kernels.pairs import informative_pair, optimistic_pair, pair_work_shape
from fastcolst.kernels.selection import (
    all_finite,
    all_rows_finite,
    among_equals,
    argmax,
    optimistic_argmax,
    perturbed_argmax,
    random_pair,
    tie_key,
)
from fastcolst.kernels.splitmix import fill_normal, key_from, key_of
from fastcolst.policies.blind import BlindPolicy, IndexPolicy
from fastcolst.policies.linear import LinearPolicy
from fastcolst.policies.parameters import Comparison, Estimator, Seed, linear_fields
from fastcolst.policies.policy import Policy
from fastcolst.policies.protocol import LOGGED, NOT_FINITE, Choice, Chunk, n_raw, select, update, work_shape
from fastcolst.policies.state import (
    BlindState,
    LinearState,
    assess,
    confidence_scale,
    explore,
    horizon_of,
    new_counters,
    update_linear,
)
from fastcolst.streams import CONTEXTS, OUTCOMES, PROBLEM, generator

__all__ = [
    "CONTEXTS",
    "FULL",
    "LEARNED",
    "LOGGED",
    "NOT_FINITE",
    "OUTCOMES",
    "OVERFLOW",
    "PROBLEM",
    "STALE",
    "BlindPolicy",
    "BlindState",
    "Choice",
    "Chunk",
    "Comparison",
    "Estimator",
    "IndexPolicy",
    "LinearPolicy",
    "LinearState",
    "Policy",
    "Problem",
    "ProblemRun",
    "Seed",
    "all_finite",
    "all_rows_finite",
    "among_equals",
    "argmax",
    "assess",
    "cdf",
    "comparison_model",
    "confidence_scale",
    "curvature",
    "dot",
    "explore",
    "fill_normal",
    "generator",
    "gram_norm",
    "helper",
    "horizon_of",
    "informative_pair",
    "inverse_factor",
    "key_from",
    "key_of",
    "learn",
    "linear_fields",
    "log_cdf",
    "n_raw",
    "new_counters",
    "optimistic_argmax",
    "optimistic_pair",
    "pair_work_shape",
    "pdf",
    "perturb",
    "perturbed_argmax",
    "random_pair",
    "rank_one_inverse",
    "raw",
    "register",
    "score",
    "select",
    "squared_widths",
    "table_of",
    "tie_key",
    "unwhiten",
    "update",
    "update_linear",
    "utilities",
    "weight",
    "whiten",
    "whiten_contrast",
    "work_shape",
]

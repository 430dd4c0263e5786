"""What tests look up inside a policy because no public name tells it: all of that, for all of them.

Apart from what stands here tests speak to policies as people do; those of the estimators look at their arrays as well.
"""

from __future__ import annotations

import copy
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fastcolst as fc
from fastcolst import reference
from fastcolst.estimation.protocol import information_factor
from fastcolst.kernels.splitmix import key_from
from fastcolst.policies import double_thompson
from fastcolst.policies.kept_sets import KeptChoices
from fastcolst.policies.kernels import NOT_FINITE_CODE
from fastcolst.policies.learned import Learned
from fastcolst.policies.pending import Pending, Rounds
from fastcolst.policies.protocol import draw

SCRATCH = frozenset({"scratch", "_is_noted", "_buffers", "_unused"})
"""What means nothing between calls."""

TOKENS = frozenset({"epoch", "last_self", "_epochs", "_first_rounds"})
"""By which twins tell their duels apart."""


def snapshot(policy: fc.Policy) -> dict[str, Any]:
    """Every byte of what the policy's pickle holds, on which its future depends; twins may differ in their ids.

    Read in place, since a copy leaves the room in a history that is not used yet as it finds it.
    """
    held = policy.__getstate__().keys() - SCRATCH
    return {name: _frozen(part, SCRATCH) for name, part in vars(policy).items() if name in held}


def arrays(policy: fc.Policy, without: frozenset[str] = frozenset()) -> Any:
    """Every byte of what a policy has learned and counted, apart from scratch and other fields."""
    return _frozen(state_of(policy), SCRATCH | without)


def _frozen(part: Any, without: frozenset[str]) -> Any:
    """A part of a policy as values that stay what they are, and that are equal where every byte is."""
    if isinstance(part, fc.Duel | fc.ShownSet):
        names = ("first", "second", "contrast") if isinstance(part, fc.Duel) else ("arms", "keys", "features")
        part = {name: getattr(part, name) for name in (*names, "round")}
    elif isinstance(part, Rounds):
        part = bytes(part)
    elif isinstance(part, Learned):
        part = {"rounds": np.trim_zeros(np.array(part.rounds), "b"), "raters": part.raters}
    elif isinstance(part, KeptChoices):
        part = part.packed(0)
    elif isinstance(part, Pending):
        part = {name: field for name, field in vars(part).items() if name not in TOKENS}
    elif isinstance(part, tuple) and hasattr(part, "_asdict"):
        part = part._asdict()
    elif isinstance(part, (list, tuple)):
        part = dict(enumerate(part))
    if isinstance(part, dict):
        return {name: _frozen(field, without) for name, field in part.items() if name not in without}
    if isinstance(part, np.random.Generator):
        return repr(part.bit_generator.state)
    return (part.dtype.str, part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part


def rule_of(policy: fc.Policy) -> Any:
    """The algorithm with its settings, as kernels take it."""
    return policy._rule


def state_of(policy: fc.Policy) -> Any:
    """The arrays themselves, as kernels take them."""
    return policy._state


def information_of(policy: fc.Policy) -> np.ndarray:
    """H, the information of what the estimator learned, with theta up to date."""
    root = np.linalg.inv(information_factor_of(policy))
    return root @ root.T


def information_factor_of(policy: fc.Policy) -> np.ndarray:
    """S, lower triangular, with S'S = H^-1."""
    return information_factor(rule_of(policy).estimator, policy._estimate(), None)


def stream_of(policy: fc.Policy) -> str:
    """How far its random numbers have been drawn."""
    return repr(policy._rng.bit_generator.state)


def index_twin_of(policy: fc.Policy) -> reference.DoubleThompson | reference.SelfSparring:
    """The reference with what a policy that sees indices has learned, and with as many rounds behind it."""
    state = state_of(policy)
    twin: reference.DoubleThompson | reference.SelfSparring
    if isinstance(policy, fc.DoubleThompson):
        options = policy.get_params()
        twin = reference.DoubleThompson(len(state.wins), options["alpha"], options["allow_self_duel"])
        twin.wins = state.wins.copy()
    else:
        twin = reference.SelfSparring(state.laws.shape[1], policy.get_params()["allow_self_duel"])
        twin.wins, twin.losses = state.laws[:2].copy()
    twin.round = policy.round
    return twin


def choice_and_draws(policy: fc.Policy, contexts: np.ndarray) -> tuple[fc.Duel, tuple[np.ndarray, np.ndarray]]:
    """A duel of a policy that sees indices, and the uniforms and samples behind it, as the reference takes them.

    The samples depend on what the policy knows, so that it must draw them itself.
    """
    before = copy.copy(policy)
    duel = policy.select(contexts)
    raw, work = policy._buffers.raw, policy._buffers.work
    if isinstance(policy, fc.SelfSparring):
        return duel, (np.empty(0), work[:2].copy())
    bars = state_of(before).bars
    n = len(bars)
    theta = np.full((2, n, n), np.nan)
    key = np.uint64(key_from(raw[0], raw[1]))
    for i in range(n):
        for j in range(i + 1, n):
            theta[0, i, j] = double_thompson.coin(bars[i, j], key, i * n + j)
            theta[0, j, i] = 1.0 - theta[0, i, j]
    theta[1] = work[3][:, np.newaxis]  # the samples for whichever arm is first
    return duel, (raw[2:], theta)


def choice_for(policy: fc.Policy, contexts: np.ndarray, raw: np.ndarray) -> tuple[int, int]:
    """The arms that a policy would choose for given numbers of a round."""
    policy = copy.copy(policy)
    policy._buffers = policy._new_buffers(*contexts.shape)
    policy._buffers.raw[:] = raw[: policy._buffers.raw.size]
    policy._buffers.drawn_for[0] = policy.round + 1
    duel = policy.select(contexts)
    return duel.first, duel.second


@contextmanager
def failing_choices(policy: fc.Policy) -> Iterator[None]:
    """Meanwhile the policy's choices fail, as where a width overflows: its numbers are drawn by then."""

    def fail(_agent: Any, _contexts: Any, _largest: float, buffers: Any) -> int:
        draw(policy._rule, policy._rng, buffers.raw)
        buffers.drawn_for[0] = policy.round + 1
        return NOT_FINITE_CODE

    policy._direct_choose = fail
    try:
        yield
    finally:
        policy._direct_choose = None


def interrupted(call: Callable[[], object], after: int, files: Collection[str] = ()) -> bool:
    """Call, and let Ctrl-C come once, when so many lines of the library's Python have run; whether it came.

    Of its files of some names only, if any: where kernels are not compiled, these leave out what no Ctrl-C interrupts.
    """
    lines, tracing_before = 0, sys.gettrace()

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        path = frame.f_code.co_filename
        if "fastcolst" not in path or (files and Path(path).name not in files):
            return None
        if event in {"call", "line"}:  # a function's first look for signals comes before its first line
            lines += 1
            if lines == after + 1:
                signal.raise_signal(signal.SIGINT)
        return trace

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing_before)
        signal.signal(signal.SIGINT, handler)
    assert lines <= after, "the interrupt was lost"
    return False


@contextmanager
def handled_by(number: int, handler: Any) -> Iterator[None]:
    """A signal's handler for a while, whatever comes."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def signalled(call: Callable[[], object], number: int, after: int, path: str) -> bool:
    """Call, and send a signal at the end of so many calls and returns in a file; whether there are more of them.

    Python looks for signals as a function begins and after each call: between lines that call nothing no handler runs.
    """
    places, profiling_before = 0, sys.getprofile()

    def look(frame: Any, _event: str, _: Any) -> None:
        nonlocal places
        if frame.f_code.co_filename == path:
            places += 1
            if places == after + 1:
                signal.raise_signal(number)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(profiling_before)
    return places > after

"""Saved policies: files that are not what they say, and processes killed with kill -9 while they save.

`files` reads the mutated files, in a process of its own; here is what there is to know of a policy's.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastcolst as fc
from campaign.tally import Campaign, Tally

KILLS = 50
LONGEST = 0.1
"""Seconds after the first save within which a process is killed: two or three saves."""

N, D = 4, 2

KINDS: dict[str, tuple[type[fc.Policy], dict[str, Any]]] = {
    "mle": (fc.CoLSTIM, {"exploration_rounds": 5, "max_pending": 5}),
    "online-newton": (
        fc.MaxInP,
        {"estimator": "online-newton", "comparison": "exponential", "ridge": 1.0, "exploration_rounds": 5},
    ),
    "stages": (fc.SupCoLSTIM, {"horizon": 60, "ridge": 1.0, "exploration_rounds": 5}),
    "counting": (fc.MaxPairUCB, {"estimator": "sgd", "ridge": 1.0, "count_pending": True, "robust": 0.5}),
    "index": (fc.DoubleThompson, {}),
}
"""Every kind of state, and no kernels but those that tests compile anyway."""


def contexts(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N, D))


def right() -> list[bytes]:
    """Files that are right: with a history, discarded duels, and some that wait."""
    files = []
    for cls, parameters in KINDS.values():
        rng = np.random.default_rng(3)
        policy = cls(D, n_arms=N, rng=1, **parameters)
        for t in range(40):
            duel = policy.select(contexts(rng))
            if not duel.is_self and t % 4 == 1:
                policy.discard(duel)
            elif t % 4 > 1:
                policy.update(duel, bool(rng.random() < 0.5))
        files.append(bytes(policy._packed()))
    return files


def read(path: Path) -> object:
    """What a file holds, apart from the epoch that begins; and the policy goes on for some rounds."""
    policy = fc.load_policy(path)
    with np.load(io.BytesIO(policy._packed())) as archive:
        held = {name: archive[name].tobytes() for name in archive}
    header = json.loads(held.pop("header"))
    found = held, header, header["pending"].pop("epochs")[:-1], header["pending"].pop("first_rounds")[:-1]
    rng = np.random.default_rng(1)
    with contextlib.suppress(Exception), warnings.catch_warnings():  # it need not go well, if only it ends
        warnings.simplefilter("ignore")
        for waiting in policy.pending_duels()[:2]:
            policy.update(waiting.token, True)
        for _ in range(3):
            policy.update(policy.select(contexts(rng)), True)
        if policy.has_estimate:
            policy.learn(contexts(rng), contexts(rng))
            policy.utilities(contexts(rng))
    return found


NAMES = ("CoLSTIM", "StaD", "mle", "os:system", "builtins:eval", "subprocess:Popen", "antigravity:x", "fastcolst:x", "")
HOSTILE: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 2**31, 2**40, 2**62, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, -1e308),
    *(float("nan"), float("inf"), True, False, None, "", "x", "\0", "mle", "os:system", [], {}, [[[[[[]]]]]]),
    *({"list": []}, {"tuple": [1]}, {"class": "os:system", "fields": {}}, {"class": "mle", "fields": {"ridge": -1}}),
    {"class": "online-newton", "fields": {"history": 2**39, "ridge": 1.0, "score": "likelihood"}},
    {"array": [1] * 50, "dtype": "<f8"},
    {"array": ["x"], "dtype": "<U100000000"},
    *(["0123456789abcdef"], ["x"] * 3, [1, 2, 3, 4], [2**64, 1, 1, 1], [4, 2], [10**6, 10**6]),
)
SIZES = {"n_features": (3, 100, 3_000, 10**5, 10**9), "n_arms": (3, 1_000, 10**5, 10**9), "horizon": (2**20, 2**61, 1)}


def claiming(rng: np.random.Generator, data: bytes, mark: Path) -> bytes:
    """A file with checksums that are right, and a header or an array that is not."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive}
    header = json.loads(arrays["header"].tobytes())
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.5:
            _change_header(rng, header)
        else:
            _change_array(rng, arrays)
    text = json.dumps(header).encode()
    if rng.random() < 0.05:
        text = [b"[" * 10**6, b"{" * 100, b"9" * 10**5, b"null", b'"' + b"x" * 10**6 + b'"', b"\xff"][rng.integers(6)]
    arrays["header"] = np.frombuffer(text, np.uint8)
    file = io.BytesIO()
    (np.savez_compressed if rng.random() < 0.02 else np.savez)(file, **arrays)
    return file.getvalue()


def _change_header(rng: np.random.Generator, header: dict[str, Any]) -> None:
    """Put something else into a place of it, or take it out."""
    kind = rng.integers(4)
    if kind == 0 and isinstance(header.get("parameters"), dict):
        name = str(rng.choice(list(SIZES)))
        header["parameters"][name] = int(rng.choice(SIZES[name]))
        return
    if kind == 1:
        header["policy"] = str(rng.choice(NAMES))
        return
    table, key = header, str(rng.choice(list(header)))
    while isinstance(table[key], (dict, list)) and table[key] and rng.random() < 0.9:
        table = table[key]
        key = rng.choice(list(table)).item() if isinstance(table, dict) else int(rng.integers(len(table)))  # type: ignore[assignment]
    if kind == 2 and isinstance(table, dict) and rng.random() < 0.2:
        del table[key]
    else:
        table[key] = HOSTILE[rng.integers(len(HOSTILE))]


def _change_array(rng: np.random.Generator, arrays: dict[str, np.ndarray]) -> None:
    """Other numbers, another shape or another type; or none."""
    name = str(rng.choice([name for name in arrays if name != "header"]))
    array = np.array(arrays[name])
    kind = rng.integers(6)
    whole = (-1, 0, 1, 2, 3, 511, 512, 513, 2**31, 2**40, 2**62, -(2**62), 2**63 - 1)
    real = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 1e150, -1.0, 0.0, 0.5, 2.0**53)
    if kind <= 2 and array.size:
        values = real if array.dtype.kind == "f" else whole
        place = slice(None) if rng.random() < 0.3 else int(rng.integers(array.size))
        with np.errstate(all="ignore"):
            array.reshape(-1)[place] = np.array(values[rng.integers(len(values))]).astype(array.dtype)
        arrays[name] = array
    elif kind == 3:
        shape = [(), (0,), (1,), (3,), (2, 2), (10**5,), (*array.shape, 1), (2, *array.shape)][rng.integers(8)]
        arrays[name] = np.resize(array if array.size else np.zeros(1, array.dtype), shape)
    elif kind == 4:
        types = ["<f8", ">f8", "<i8", "<i4", "|u1", "|b1", "<c16", "<U3", "|S2", "<M8[ns]"]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays[name] = array.astype(types[rng.integers(len(types))])
    else:
        del arrays[name]


# --- kill -9 ------------------------------------------------------------------------------------------------

SAVER = """
import sys
import numpy as np, fastcolst as fc
policies = [fc.UniformPairs(rng=seed) for seed in (1, 2)]
for policy, rounds in zip(policies, (2000, 3000)):
    for _ in range(rounds):  # some megabytes of duels that wait
        policy.select(np.ones((2, 300)))
policies[0].save(sys.argv[1])
print("ready", flush=True)
while True:
    for policy in reversed(policies):
        policy.save(sys.argv[1])
"""


def run(campaign: Campaign) -> Iterator[Tally]:
    """A process that saves two policies in turn over one file is killed: one of the two stands there, whole."""
    tally = Tally("kill -9 while a policy is saved: the old or the new file, whole")
    environment = {**os.environ, "PYTHONPATH": str(Path(fc.__file__).parents[1])}
    for trial in range(campaign.amount(KILLS, least=2)):
        path = campaign.folder / f"policy{trial}.npz"
        seconds = campaign.rng("policies", trial).uniform(0.0, LONGEST)
        with subprocess.Popen([sys.executable, "-c", SAVER, path], stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(signal.SIGKILL)
        try:
            policy = fc.load_policy(path)
            found = policy.round, policy.pending
        except (ValueError, OSError) as error:
            found = error
        tally.count(found in {(2000, 2000), (3000, 3000)}, f"trial {trial}, after {seconds:.3f} s: {found}")
    yield tally

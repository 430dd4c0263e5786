"""What files ask of a policy: everything on which its future depends, as arrays and plain data, and back."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SFC64, Generator
from numpy.typing import NDArray

from fastcolst._checks import LARGEST, brief, count, path_text
from fastcolst._code import Code, own_code
from fastcolst._compile import is_versioned, uninterrupted
from fastcolst._files import remove_leftovers, write_atomically
from fastcolst._version import __version__
from fastcolst.estimation.protocol import grows
from fastcolst.policies.answering import AtWork
from fastcolst.policies.counting import Counting
from fastcolst.policies.kept_sets import KeptChoices
from fastcolst.policies.kernels import Buffers
from fastcolst.policies.labels import label_as_json, label_from_json
from fastcolst.policies.learned import Learned
from fastcolst.policies.packing import arrays_of, fitting, parameter_as_json, reference_of, restored
from fastcolst.policies.pending import Pending
from fastcolst.policies.soundness import check

__all__ = ["FORMAT_VERSION", "HEADER", "MOST_HEADER", "Saved"]

FORMAT_VERSION = 2
HEADER = "header"
MOST_HEADER = 2**22
"""Bytes of a header: what JSON is decoded to takes some tens of times as many."""


class Field(NamedTuple):
    """One thing that a file holds of a policy besides arrays.

    attribute: where the policy holds it. kinds: the types that it may be of.
    """

    attribute: str
    kinds: tuple[type, ...]


FIELDS = {
    "n_arms": Field("_n_arms", (int, NoneType)),  # settled by the parameters, or by the first round
    "feature_names": Field("_names", (tuple, NoneType)),
    "largest": Field("_largest", (float,)),  # of features
    "entropy": Field("_entropy", (int,)),  # of which the stream was begun
    "settled": Field("_is_settled", (bool,)),  # whether there was a first round
    "update_at_work": Field("_answering", (AtWork, NoneType)),
    "noted": Field("_is_noted", (bool,)),  # whether it is known of all rows of a history whose they are
    "looks": Field("_looks", (int,)),
    "unjustified": Field("_unjustified", (int,)),
    "warned_locked": Field("_warned_locked", (bool,)),
    "warned_concavity": Field("_warned_concavity", (bool,)),
    "warned_long": Field("_warned_long", (bool,)),
    "warned_singular": Field("_warned_singular", (bool,)),
    "warned_status": Field("_warned_status", (bool,)),
}
"""What a file calls what it holds. Attributes may be renamed and moved here; the names on the left may not.

A policy without an attribute has no such field.
"""

ELSEWHERE = frozenset(
    {"_agent", "_alpha", "_answered", "_at_once", "_buffers", "_choices", "_chosen", "_counted", "_counted_state",
     "_counts_pending", "_direct_choose", "_direct_learn", "_fading", "_is_exploring", "_is_plain", "_learned",
     "_lock", "_map", "_n_features", "_n_kept", "_parameters", "_pending", "_position", "_ridge", "_rng", "_rule",
     "_state", "_state_class", "_unused"}
)  # fmt: skip
"""Attributes that a file holds as arrays or tables of their own, or that parameters and state decide.

All others are those of a policy of somebody's own: they go into the file under their names.
"""


class Saved(Counting):
    """A policy's face towards files."""

    _pending: Pending
    _learned: Learned
    _choices: KeptChoices
    _n_kept: NDArray[np.int64] | None
    _buffers: Buffers
    _unused: tuple[tuple[int, int], NDArray[np.float64]] | None = None
    """Numbers that a file brought, drawn for contexts of a shape and not used."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything on which the policy's future depends to one file, all or nothing.

        :func:`fastcolst.load_policy` brings it back, and what it then does is, bit for bit, what it would have done
        without a stop, but for the tokens of the duels to come.

        Parameters
        ----------
        path : path
            A file that is there is replaced once the new one is safely on disk, and not before. What a process that was
            killed more than a day ago left half-written beside it is removed.

        Raises
        ------
        ValueError
            The policy, or a model or an estimator of one's own, is of a class that no other process would find by its
            module and name; or a parameter, a feature's name or a key of a duel that waits is no text, number or the
            like.
        OSError
            The file cannot be written; what was there is as it was.

        Notes
        -----
        The file is an uncompressed .npz of plain arrays and a JSON header. It holds parameters, state and history, the
        random stream, numbers drawn and not used, the duels that wait, features' names and what was warned of.
        """
        path = path_text("path", path)
        with self._lock:
            data = self._packed()
        write_atomically(path, data)
        remove_leftovers(path)

    def _packed(self) -> memoryview:
        """The file."""
        book = self._pending.packed()
        stream = self._rng.bit_generator.state
        shape, drawn = self._unused or (None, np.empty(0))
        if self._buffers.drawn_for[0] > self._chosen.item():
            shape, drawn = (abs(self._buffers.shape[0]), abs(self._buffers.shape[1])), self._buffers.raw
        header = {
            "fastcolst": __version__,
            "format": FORMAT_VERSION,
            "policy": reference_of(type(self)),
            "code": self._own_code(),
            "parameters": {name: parameter_as_json(name, value) for name, value in self._parameters.items()},
            "fields": {name: _as_json(name, getattr(self, FIELDS[name].attribute)) for name in self._fields_held()},
            "own": {name: label_as_json(name, value) for name, value in self._own_attributes().items()},
            "stream": {**stream, "state": stream["state"]["state"].tolist()},
            "drawn_for": shape,
            "pending": {name: value for name, value in book.items() if not isinstance(value, np.ndarray)},
        }
        text = json.dumps(header).encode()
        if len(text) > MOST_HEADER:
            raise ValueError(f"the policy's parameters take {len(text):,} bytes; at most {MOST_HEADER:,} are wanted")
        arrays = {HEADER: np.frombuffer(text, np.uint8), "drawn": drawn}
        arrays |= {f"pending.{name}": value for name, value in book.items() if isinstance(value, np.ndarray)}
        arrays |= {f"learned.{name}": value for name, value in self._learned.packed().items()}
        choices = self._choices.packed(self._n_features or 0)
        arrays |= {f"choices.{name}": value for name, value in choices.items()}
        arrays |= dict(arrays_of(self._state, "state")) | self._counted_arrays()
        file = io.BytesIO()
        uninterrupted(np.savez, file, **arrays)  # type: ignore[arg-type]  # or the zip file's end is another error
        return file.getbuffer()

    def _own_code(self) -> Code:
        """Digests of the classes of people's own that this policy is made of."""
        return own_code([type(self), self._parameters, self._rule, self._state])

    def _fields_held(self) -> list[str]:
        """Those of :data:`FIELDS` that this policy has."""
        return [name for name, field in FIELDS.items() if field.attribute in vars(self)]

    def _own_attributes(self) -> dict[str, Any]:
        """What a policy of somebody's own keeps in attributes of its own."""
        ours = ELSEWHERE | {field.attribute for field in FIELDS.values()}
        return {name: value for name, value in vars(self).items() if name not in ours}

    def _restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become the policy of a file, from one that was just constructed with its parameters.

        Raises
        ------
        ValueError
            The file holds no such policy.
        """
        fields = {name: _from_json(value) for name, value in header["fields"].items()}
        own = {name: label_from_json(value) for name, value in header["own"].items()}
        self._check_fields(fields, own)
        n_arms = fields["n_arms"]
        if n_arms != self._n_arms:  # the first round settled it
            self._settle(count("n_arms", n_arms), self._n_features or 1)
        if n_arms != self._n_arms:
            raise ValueError(f"n_arms is {n_arms}; {self._n_arms}, which the parameters say, is wanted")
        estimator = getattr(self._rule, "estimator", None)
        is_own = not is_versioned(
            type(estimator).__module__
        )  # of ours a history alone grows, which is a type of its own
        state = restored(self._state, "state", arrays, is_own and grows(estimator))
        check(state, "state")
        vars(self).update({FIELDS[name].attribute: value for name, value in fields.items()}, **own)
        stream = dict(header["stream"])
        self._rng = Generator(SFC64())
        self._rng.bit_generator.state = {**stream, "state": {"state": np.array(stream["state"], np.uint64)}}
        self._start(self._rule, state)
        learned = {name: arrays[f"learned.{name}"] for name in self._learned.ARRAYS}
        self._learned.unpack(learned, 0 if self._n_kept is None else self._n_kept.item(), self._chosen.item())
        choices = {name: arrays[f"choices.{name}"] for name in self._choices.ARRAYS}
        self._choices.unpack(choices, self._n_features or 0, self._chosen.item())
        self._restore_drawn(header["drawn_for"], arrays["drawn"])
        book = {**header["pending"], **{name: arrays[f"pending.{name}"] for name in Pending.ARRAYS}}
        if "pending.weights" in set(arrays):
            book["weights"] = arrays["pending.weights"]
        self._pending.unpack(book, self._chosen.item(), self._n_arms, self._n_features)
        self._restore_counted(arrays)

    def _check_fields(self, fields: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Check that fields and own attributes are those of such a policy, each of its type."""
        odd = fields.keys() ^ set(self._fields_held())
        odd |= {name for name in fields.keys() - odd if type(fields[name]) not in FIELDS[name].kinds}
        largest, names = fields.get("largest"), fields.get("feature_names")
        if type(largest) is float and not 0.0 < largest <= LARGEST:
            odd.add("largest")
        if type(names) is tuple and (len(set(names)) < len(names) or self._n_inputs not in (None, len(names))):
            odd.add("feature_names")
        expected = self._own_attributes()
        odd |= own.keys() ^ expected.keys()
        odd |= {name for name in own.keys() & expected.keys() if not _is_like(own[name], expected[name])}
        if odd:
            found = {**own, **fields}
            shown = ", ".join(f"{name}: {brief(found.get(name))}" for name in sorted(odd))
            raise ValueError(f"its fields are not those of this policy, as is wanted: {shown}")

    def _restore_drawn(self, shape: Any, numbers: NDArray[Any]) -> None:
        """Keep numbers that were drawn and not used for the next contexts, if these are of the same shape."""
        if shape is None:
            return
        n, d = shape
        if type(n) is not int or type(d) is not int or min(n, d) < 1:
            raise ValueError(f"its numbers are for contexts of shape {brief(shape)}; (n_arms, n_features) is wanted")
        fitting(numbers, "drawn", np.float64, (self._rule.n_raw(n),))
        if not np.isfinite(numbers).all():
            raise ValueError("its numbers that were drawn are not finite, as is wanted")
        self._unused = (n, d), numbers

    def _put_unused(self, buffers: Buffers) -> None:
        """Put what a file brought into new buffers, where it fits: the numbers of the round to come."""
        shape, numbers = self._unused or (None, np.empty(0))
        self._unused = None
        if buffers.shape == shape:
            buffers.raw[:], buffers.drawn_for[0] = numbers, self._chosen.item() + 1


AT_WORK: dict[str, Any] = {"round": int, "n_before": int, "share": float, "rater": (str, int, type(None))}
"""What a file holds of an update at work, by name: see :class:`AtWork`."""


def _as_json(name: str, value: Any) -> Any:
    """What a policy holds besides arrays, as plain data."""
    return {key: getattr(value, key) for key in AT_WORK} if isinstance(value, AtWork) else label_as_json(name, value)


def _from_json(data: Any) -> Any:
    """What :func:`_as_json` gave."""
    if type(data) is not dict or data.keys() != AT_WORK.keys():
        return label_from_json(data)
    if not all(isinstance(data[name], kind) for name, kind in AT_WORK.items()):
        raise ValueError(f"its update at work is {brief(data)}; {', '.join(AT_WORK)} of their types are wanted")
    return AtWork(**data)


def _is_like(found: Any, own: Any) -> bool:
    """Whether an attribute of somebody's own may have this value where a policy that has seen nothing has the other."""
    plain = (type(None), int, tuple) if own is None or type(own) in (int, tuple) else (type(own),)
    return type(found) in plain and not (type(found) is float and not np.isfinite(found))

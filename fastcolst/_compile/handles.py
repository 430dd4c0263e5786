"""Arguments that cost little to pass: a policy's rule, state and generator, and all their arrays, as one handle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
from numba import types
from numba.experimental import structref

from fastcolst._compile.decorators import kernel, overload_in_kernels
from fastcolst._compile.interrupts import uninterrupted

__all__ = ["Agent", "HandleType", "handle", "make_agent", "shared_fields", "slot"]


class AgentType(types.StructRef):  # type: ignore[misc]
    """The type of an :class:`Agent`, which holds the types of its parts."""

    def preprocess_fields(self, fields: Any) -> Any:
        return tuple((name, types.unliteral(type_)) for name, type_ in fields)


class Agent(structref.StructRefProxy):  # type: ignore[misc]
    """A rule, a state and a generator under one handle, for kernels.

    Numba works out the type of a NamedTuple at every call, a microsecond for each one that is nested in it: seven for a
    rule and a state, and as many for a generator. A handle knows its type. The arrays of the state are shared, not
    copied.
    """

    __slots__ = ()

    _numba_type_ = structref.StructRefProxy._type
    """The slot itself: Numba drops what is raised in its property, as by a Ctrl-C, and takes it for no type."""


structref.register(AgentType)
structref.define_proxy(Agent, AgentType, ["rule", "state", "rng"])


class HandleType(types.StructRef):  # type: ignore[misc]
    """The type of a state behind a handle: that of a NamedTuple which holds arrays."""

    def __init__(self, fields: Any, instance_class: type) -> None:
        self.instance_class = instance_class
        super().__init__(fields)
        fields_name: str = self.name  # type: ignore[has-type]
        self.name = f"{instance_class.__module__}.{instance_class.__qualname__}: {fields_name}"


structref.register(HandleType)


def handle(value: Any) -> Any:
    """In kernels, a NamedTuple of arrays as a handle, at any depth; anything else as it is.

    A NamedTuple goes by value: in kernels that count references (see :mod:`fastcolst._compile.parts`) every function
    that it passes through counts two for each of its arrays, which for twenty arrays and six functions takes longer
    than the arithmetic. A handle counts one.
    """
    return value


def _handle_type(type_: Any) -> Any:
    if not isinstance(type_, types.BaseNamedTuple) or not any(map(_holds_arrays, type_.types)):
        return type_
    fields = [
        (name, _handle_type(field)) for name, field in zip(type_.instance_class._fields, type_.types, strict=True)
    ]
    return HandleType(fields, type_.instance_class)


def _holds_arrays(type_: Any) -> bool:
    return isinstance(type_, types.Array) or any(map(_holds_arrays, getattr(type_, "types", ())))


def _compiled_handle(value: Any) -> Any:
    handle_type = _handle_type(value)
    if handle_type is value:
        return lambda value: value
    fields = zip(value.instance_class._fields, value.types, strict=True)
    inner = {name for name, field in fields if _handle_type(field) is not field}
    lines = "\n".join(
        f"    made.{name} = handle(value.{name})" if name in inner else f"    made.{name} = value.{name}"
        for name in value.instance_class._fields
    )
    scope = {"handle": handle, "handle_type": handle_type, "new": structref.new}
    source = f"def make(value):\n    made = new(handle_type)\n{lines}\n    return made"
    exec(source, scope)  # noqa: S102  the names of the fields are known here only
    return scope["make"]


overload_in_kernels(handle, _compiled_handle)


def shared_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields that stacked NamedTuples of a class have in common: what its ``shared()`` returns."""
    names: tuple[str, ...] = getattr(cls, "shared", tuple)()
    return names


def slot(stacked: Any, index: int) -> Any:
    """One of several equal NamedTuples whose arrays were stacked along a first axis: views of its arrays.

    The fields that are shared are passed on as they are. In kernels both sides are handles: one is allocated for each
    NamedTuple, and no array.
    """
    shared = shared_fields(type(stacked))
    return type(stacked)(
        *(
            field if name in shared else slot(field, index) if isinstance(field, tuple) else field[index, ...]
            for name, field in zip(stacked._fields, stacked, strict=True)
        )
    )


def _slot_type(type_: Any) -> Any:
    if isinstance(type_, types.Array):
        return type_.copy(ndim=type_.ndim - 1)
    shared = shared_fields(type_.instance_class)
    fields = [(name, field if name in shared else _slot_type(field)) for name, field in type_.field_dict.items()]
    return HandleType(fields, type_.instance_class)


def _compiled_slot(stacked: Any, index: Any) -> Any:
    shared = shared_fields(stacked.instance_class)
    lines = ["def take(stacked, index):", "    made = new(slot_type)"]
    for name, field in stacked.field_dict.items():
        if name in shared:
            lines.append(f"    made.{name} = stacked.{name}")
        elif isinstance(field, types.Array):  # in kernels [index, ...] of a vector is a number
            view = "[index]" if field.ndim > 1 else "[index : index + 1].reshape(())"
            lines.append(f"    made.{name} = stacked.{name}{view}")
        else:
            lines.append(f"    made.{name} = slot(stacked.{name}, index)")
    scope = {"slot": slot, "slot_type": _slot_type(stacked), "new": structref.new}
    exec("\n".join([*lines, "    return made"]), scope)  # noqa: S102  as above
    return scope["take"]


overload_in_kernels(slot, _compiled_slot)


@kernel
def _agent(rule: Any, state: Any, rng: Any) -> Any:
    return Agent(rule, handle(state), rng)


class _PlainAgent(NamedTuple):
    """The same without the JIT."""

    rule: Any
    state: Any
    rng: Any


def make_agent(rule: Any, state: Any, rng: Any) -> Any:
    """The handle by which kernels know a rule, a state and the generator that a policy draws from."""
    if numba.config.DISABLE_JIT:
        return _PlainAgent(rule, state, rng)
    return uninterrupted(_agent, rule, state, rng)  # for the generator's sake

"""Generic functions, and the registered classes whose methods they call."""

from __future__ import annotations

import copy
import inspect
import pickle
from types import FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from twins import CLASSES

import fastcolst as fc
from fastcolst._compile import decorators, helper, registered
from fastcolst.comparison import cdf, log_cdf, score

# --- generic functions --------------------------------------------------------------------------------------


@fc.register
class Lopsided(NamedTuple):
    """A model with the least a model may have."""

    slope: float = 0.25

    def cdf(self, u: Any) -> Any:
        return 0.5 + self.slope * u

    def pdf(self, u: Any) -> Any:
        return self.slope + 0.0 * u


class Stranger(NamedTuple):
    """Not registered; its field happens to be called like a generic function."""

    cdf: float = 7.0


class LikeAModel(NamedTuple):
    """Not registered, though it has the method."""

    slope: float = 1.0

    def cdf(self, u: Any) -> Any:
        return self.slope * u


@helper
def _three(model: Any, u: Any) -> Any:
    return cdf(model, u), log_cdf(model, u), score(model, u)


@helper
def _cdf_field(stranger: Any) -> Any:
    return stranger.cdf


@helper
def _cdf(model: Any, u: Any) -> Any:
    return cdf(model, u)


@pytest.mark.parametrize("call", [_three, inspect.unwrap(_three)], ids=["kernel", "python"])
def test_generic_functions_call_the_method_or_their_own_body(call):
    model = Lopsided(0.25)
    assert call(model, 1.0) == pytest.approx((0.75, np.log(0.75), 0.25 / 0.75))
    # a method of its own is preferred to the body: F underflows here, and the body would give log 0
    assert call(fc.BradleyTerry(), -800.0)[1] == -800.0


def test_generic_functions_keep_name_and_documentation():
    assert cdf.__name__ == "cdf"
    assert "probability" in cdf.__doc__


@pytest.mark.parametrize("cls", CLASSES)
def test_generic_functions_without_method_or_body_say_so(cls):
    from fastcolst.experiments.laws import fill

    with pytest.raises(TypeError, match=f"{cls.__name__} has no method fill"):
        fill(cls(), None, None)


@pytest.mark.jit
@pytest.mark.parametrize("stranger", [Stranger(), LikeAModel(), (1.0, 2.0)], ids=["field", "method", "tuple"])
def test_kernels_refuse_what_is_not_registered(stranger):
    with pytest.raises(numba.TypingError):
        _cdf(stranger, 1.0)


def test_fields_of_foreign_tuples_are_theirs():
    assert _cdf_field(Stranger()) == 7.0


def test_methods_stay_plain_functions():
    ours = [cls for cls in decorators._REGISTERED if cls.__module__.startswith("fastcolst.")]
    assert ours
    for cls in ours:
        methods = [
            getattr(cls, name) for name, value in vars(cls).items() if not name.startswith("_") and callable(value)
        ]
        assert all(isinstance(method, FunctionType) for method in methods), cls


def _model_with(slope: float) -> Any:
    class Namesake(NamedTuple):
        half: float = 0.5

        def cdf(self, u: Any) -> Any:
            return self.half + slope * u / (1.0 + abs(u))

        def pdf(self, u: Any) -> Any:
            return slope / (1.0 + abs(u)) ** 2

        def raw(self, rng: Any, size: Any = None) -> Any:
            return rng.standard_exponential(size)

        def perturb(self, value: Any) -> Any:
            return value

    return Namesake()


def test_models_of_one_name_and_the_same_fields_have_machine_code_of_their_own():
    """Numba knows a NamedTuple by these: a notebook's cell that was edited and run again kept its first model."""
    seen = []
    for slope in (0.25, 0.125):
        policy = fc.CoLSTIM(2, comparison=_model_with(slope), estimator="sgd")
        policy.learn([[1.0, 0.0]], [[0.0, 0.0]])
        margin = policy.theta[0]
        seen.append((policy.probability([1.0, 0.0], [0.0, 0.0]) - 0.5) * (1.0 + margin) / margin)
        assert "Namesake(half=0.5)" in repr(policy)
    assert seen == pytest.approx([0.25, 0.125])


# --- register -----------------------------------------------------------------------------------------------


def _no_tuple() -> Any:
    class Plain:
        scale: float = 1.0

    return Plain


def _no_field() -> Any:
    class Empty(NamedTuple):
        pass

    return Empty


def _subclass() -> Any:
    class Sub(fc.BradleyTerry):
        pass

    return Sub


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_no_tuple(), "derives from typing.NamedTuple"),
        (_no_field(), "Empty has no field"),
        (_subclass(), "derives from typing.NamedTuple"),
        (tuple, "derives from typing.NamedTuple"),
        (fc.BradleyTerry(), "derives from typing.NamedTuple"),
        (3, "derives from typing.NamedTuple"),
        ([], "derives from typing.NamedTuple"),
    ],
    ids=["class", "no field", "subclass", "tuple", "instance", "number", "unhashable"],
)
def test_register_refuses_what_kernels_cannot_take(wrong, message):
    with pytest.raises(TypeError, match=message):
        fc.register(wrong)
    assert not any(wrong is cls for cls in decorators._REGISTERED)


def test_registering_twice_changes_nothing():
    new = Lopsided.__new__
    assert fc.register(Lopsided) is Lopsided
    assert Lopsided.__new__ is new


@pytest.mark.parametrize("value", [1, np.float32(1), np.int8(1)], ids=repr)
def test_float_fields_hold_floats(value):
    for instance in (Lopsided(value), Lopsided(slope=value), fc.BradleyTerry(value)):
        assert type(instance[0]) is float
        assert instance == (1.0,)


@pytest.mark.parametrize("value", ["one", "1", None, True, [1.0], np.array(1.0), 1j], ids=repr)
def test_float_fields_refuse_what_is_no_number(value):
    with pytest.raises(ValueError, match=r"Lopsided: slope is .*; a number is wanted"):
        Lopsided(value)


def test_instances_are_converted_and_checked_again_at_the_door():
    """``_replace`` and a class that is registered only now went past the conversion."""

    class Late(NamedTuple):
        scale: float = 1.0

    late = registered(Late(2), "comparison")
    assert type(late) is Late
    assert type(late.scale) is float
    assert type(registered(fc.SGD()._replace(learning_rate=1), "estimator").learning_rate) is float
    with pytest.raises(ValueError, match=r"BradleyTerry: scale is -1.0"):
        registered(fc.BradleyTerry()._replace(scale=-1.0), "comparison")
    with pytest.raises(ValueError, match=r"estimator: register needs a class that derives from typing.NamedTuple"):
        registered(3.0, "estimator")


def test_a_plain_annotation_counts_too():
    """Without ``from __future__ import annotations`` the annotation is the class float itself."""
    Plain = NamedTuple("Plain", [("share", float), ("number", int)])  # noqa: UP014 (the class form hides float in text)
    plain = fc.register(Plain)(1, 2)
    assert [type(value) for value in plain] == [float, int]


def test_checked_is_called_for_every_way_to_build():
    @fc.register
    class Share(NamedTuple):
        value: float = 0.5
        doubled: float = 0.0

        def checked(self):
            if not 0.0 <= self.value <= 1.0:
                raise ValueError(f"Share: value is {self.value}")
            return self._replace(doubled=2.0 * self.value)

    assert Share() == (0.5, 1.0)
    assert Share(1) == (1.0, 2.0)
    for build in (lambda: Share(2), lambda: Share(value=-1), lambda: Share(*(2, 0))):
        with pytest.raises(ValueError, match="Share: value is"):
            build()


INSTANCES = [
    fc.SGD(),
    fc.SGD(0.1, 0.5, 2, "residual"),
    fc.BradleyTerry(2),
    fc.Thurstone(0.5),
    fc.ExponentialNoise(3),
]


@pytest.mark.parametrize("instance", INSTANCES, ids=repr)
def test_registered_tuples_survive_copies_and_pickles(instance):
    cls, fields = type(instance), instance._asdict()
    again = [copy.copy(instance), copy.deepcopy(instance), cls(*instance), cls(**fields)]
    again += [pickle.loads(pickle.dumps(instance, protocol)) for protocol in range(2, 6)]
    again += [instance._replace(), instance._replace(**fields)]
    again += [eval(repr(instance), {name: getattr(fc, name) for name in fc.__all__})]  # noqa: S307 (our own repr)
    for other in again:
        assert other == instance
        assert type(other) is cls
        assert [type(value) for value in other] == [type(value) for value in instance]
        assert repr(other) == repr(instance)
        assert numba.typeof(other) == numba.typeof(instance)

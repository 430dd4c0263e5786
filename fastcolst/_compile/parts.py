"""Parts of kernels, compiled only to be linked into them: what is done to Numba's internals to save time.

Importing this module fails where Numba has moved them. Kernels are then compiled as Numba does it, and take longer.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import ir as numba_ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import AnnotateTypes

__all__ = ["KernelCompiler", "PartCompiler"]

_PACKAGE = __name__.partition(".")[0]


class _Linked(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part.

    Numba optimises every function by itself and turns it into machine code, and then does all of it again for each
    function into which that one is linked. A part is linked as it was written: kernels compile in half the time,
    and come out the same.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, _: str) -> int:
        self._ensure_finalized()
        return 0  # there is none

    @property
    def codegen(self) -> type:
        return _NoEnvironment


class _NoEnvironment:
    """Takes the address of a part's environment, which goes into the code of kernels instead."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


class _Uncounted(NRTContext):  # type: ignore[misc]
    """Counts no references."""

    def incref(self, builder: Any, type_: Any, value: Any) -> None:
        pass

    decref = incref


_LENDERS = {
    "getattr": (types.Array, types.BaseTuple, types.StructRef, types.NumPyRandomGeneratorType),
    "getitem": (types.Array, types.BaseTuple),
    "static_getitem": (types.Array, types.BaseTuple),
    "exhaust_iter": (types.BaseTuple,),
}
"""What may be looked into, and how, without getting anything new: a list or a string hands out what it makes."""

_HARMLESS = (numba_ir.Del, numba_ir.Jump, numba_ir.Branch, numba_ir.StaticRaise)


class _Holdings:
    """The arrays and handles that a part's variables name."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def are_borrowed(self) -> bool:
        """Whether the part returns, makes and keeps none: all it holds lies in its arguments."""
        blocks = self.state.func_ir.blocks.values()
        return all(self._borrows(statement) for block in blocks for statement in block.body)

    def _borrows(self, statement: Any) -> bool:
        if isinstance(statement, numba_ir.Assign):
            return not self._is_counted(statement.target) or self._is_lent(statement.value)
        if isinstance(statement, numba_ir.Return):
            return not self._is_counted(statement.value)
        if isinstance(statement, (numba_ir.SetItem, numba_ir.StaticSetItem)):
            return isinstance(self._type(statement.target), types.Array)  # which holds numbers
        return isinstance(statement, _HARMLESS)

    def _is_lent(self, value: Any) -> bool:
        if not isinstance(value, numba_ir.Expr):
            return not isinstance(value, numba_ir.Yield)  # an argument, a constant or another variable
        if value.op == "call":
            return isinstance(self._type(value.func), types.NamedTupleClass)
        if value.op == "getitem" and self._is_counted(value.index):
            return False  # an array as index makes a copy
        if value.op in _LENDERS:
            return isinstance(self._type(value.value), _LENDERS[value.op])
        return value.op in {"cast", "build_tuple"}

    def _type(self, variable: Any) -> Any:
        return self.state.typemap[variable.name]

    def _is_counted(self, variable: Any) -> bool:
        return bool(self.state.targetctx.data_model_manager[self._type(variable)].contains_nrt_meminfo())


@register_pass(mutates_CFG=False, analysis_only=True)
class _Borrow(AnalysisPass):  # type: ignore[misc]
    """Leaves out the counts of references in a part of the package that only borrows.

    Numba counts, by an atomic instruction, whenever a variable begins or ceases to name an array. In parts of a few
    dozen operations that takes a quarter of the time.
    """

    _name = "fastcolst_borrow"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        ours = str(state.func_id.func.__module__).partition(".")[0] == _PACKAGE
        if ours and _Holdings(state).are_borrowed():
            state.targetctx.nrt = _Uncounted(state.targetctx, True)
            state.targetctx.cached_internal_func = {}  # shared with code that counts
        return False


class PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles a part into code to link."""

    def define_pipelines(self) -> Any:
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.add_pass_after(_Borrow, AnnotateTypes)
            pipeline.finalize()
        return pipelines

    def compile_extra(self, function: Any) -> Any:
        self.state.library = _Linked(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Compiles what Python calls, and gives its code the environments of the parts that were linked into it."""

    def compile_extra(self, function: Any) -> Any:
        compiled = super().compile_extra(function)
        for environment in compiled._find_referenced_environments():
            self.state.targetctx.codegen().set_env(environment.env_name, environment)
        return compiled

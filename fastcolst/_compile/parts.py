"""Parts of kernels, compiled only to be linked into them: what is done to Numba's internals to save time.

Compiling takes less, since parts are linked as they are written; running does, since kernels count no references that
they could do without, and use the widest vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import ir as numba_ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.targetconfig import ConfigStack

from fastcolst._compile.digest import PACKAGE

__all__ = ["COMPILER_LOCK", "KernelCompiler", "PartCompiler"]

COMPILER_LOCK: Any = global_compiler_lock._lock


COUNTS = {"NRT_incref": "fastcolst_incref", "NRT_decref": "fastcolst_decref"}
"""How Numba counts references to arrays, and the names by which our code does."""
READS = {"NRT_MemInfo_data_fast"}
"""Functions of Numba's runtime that neither allocate nor count: the address of a handle's fields."""


class _Code(JITCodeLibrary):  # type: ignore[misc]
    """Code that counts no references it could do without, and whose loops fill the widest vectors of the processor.

    Numba counts references, by an atomic instruction, whenever a variable begins or ceases to name an array. The caller
    of a kernel holds everything that its arguments lead to. A kernel needs counts of its own only if it, or code linked
    into it, allocates, stores an array in an object that outlives the call, or returns one. In all others the functions
    that count are empty. Counting makes a simulated round 1.5 times as long with 2 features, 1.3 times with 10, and no
    longer with 50.

    On processors with AVX-512 LLVM vectorises by 256 bits, because the first of them lowered their clock for 512. Those
    from Ice Lake on, which have AVX512_VBMI2 as well, keep it: there a simulated round with 50 arms takes a tenth less
    at 512 bits. Where a sum may be reordered the width stays LLVM's own: its order follows from the width, and would
    depend on which kernel the sum was linked into.
    """

    reorders = False
    """Whether some sum in this code, or in what is linked into it, may be reordered."""

    owns = False
    """Whether this code, or what is linked into it, may allocate an array, store one or return one."""
    is_linked = False
    """Whether only other kernels call it, and Python never."""
    state: Any = None
    """The compiler's, while the function is compiled."""

    def add_linking_library(self, library: Any) -> None:
        self.reorders |= _reorders(library)
        self.owns |= _owns(library)
        super().add_linking_library(library)

    def add_llvm_module(self, module: Any) -> None:
        # The wrapper, as all tested versions of Numba name it, takes references from Python and gives them back.
        if module.name != "wrapper":
            self.owns |= _lets_escape(self.state, self.is_linked)
            for function in module.functions:
                self.owns |= _allocates(function.name)
                function.name = COUNTS.get(function.name, function.name)
        super().add_llvm_module(module)

    def finalize(self) -> None:
        # Those of a kernel take precedence over those that parts bring along, which are for users' functions.
        linkage = "linkonce_odr" if self.is_linked else "external"
        counting = _counting(self.owns or self.is_linked, linkage)
        self._final_module.link_in(llvmlite.binding.parse_assembly(counting))
        super().finalize()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.name in COUNTS.values():
                function.linkage = llvmlite.binding.Linkage.internal
            elif not self.owns and function.linkage == llvmlite.binding.Linkage.linkonce_odr:
                # The JIT resolves equal names across kernels, and code that counts fits no caller that does not.
                function.name = f"{function.name}.borrows"
        super()._optimize_final_module()

    def add_ir_module(self, module: Any) -> None:
        if "+avx512vbmi2" in self._codegen.magic_tuple()[-1] and not self.reorders:
            for function in module.functions:
                if not function.is_declaration:  # a plain set's `add`: llvmlite's own refuses attributes with a value
                    set.add(function.attributes, '"prefer-vector-width"="512"')
        super().add_ir_module(module)


def _reorders(library: Any) -> bool:
    """Whether some sum in code to be linked may be reordered; that of functions compiled by Numba alone is searched."""
    if isinstance(library, _Code):
        return library.reorders
    code = str(library._get_module_for_linking())
    return " reassoc " in code or " fast " in code


def _owns(library: Any) -> bool:
    """Whether code to be linked may allocate an array or count references; Numba's runtime itself does not matter."""
    if isinstance(library, _Code):
        return library.owns
    functions = library._get_module_for_linking().functions
    return library.name != "nrt" and any(_allocates(f.name) or f.name in COUNTS for f in functions)


def _lets_escape(state: Any, is_linked: bool) -> bool:
    """Whether a function stores an array where it outlives the call, or returns one to Python."""

    def holds_array(type_: Any) -> bool:
        return bool(state.targetctx.data_model_manager[type_].contains_nrt_meminfo())

    for block in state.func_ir.blocks.values():
        for kind in (numba_ir.SetAttr, numba_ir.SetItem, numba_ir.StaticSetItem):
            for stored in block.find_insts(kind):
                target, value = (state.typemap[variable.name] for variable in (stored.target, stored.value))
                if not isinstance(target, types.Array) and holds_array(value):  # an array takes numbers
                    return True
    return not is_linked and holds_array(state.return_type)


def _allocates(name: str) -> bool:
    """Whether a function is of Numba's runtime, and neither counts nor reads only."""
    return name.startswith("NRT_") and name not in READS and name not in COUNTS


@functools.cache
def _counting(counts: bool, linkage: str) -> str:
    """The functions by which our code counts references, which call Numba's or do nothing."""
    module, kind = ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
    for theirs, ours in COUNTS.items():
        function = ir.Function(module, kind, ours)
        function.linkage = linkage
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block())
        if counts:
            builder.call(ir.Function(module, kind, theirs), function.args)
        builder.ret_void()
    return str(module)


class _Linked(_Code):
    """The code of a part.

    Numba optimises every function by itself and turns it into machine code, and then does all of it again for each
    function into which that one is linked. A part is linked as it was written: kernels compile in three quarters of the
    time, and come out the same.
    """

    is_linked = True

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


UNUSED = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "DeadBranchPrune",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "NopythonRewrites",
    "NoPythonSupportedFeatureValidation",
    "DumpParforDiagnostics",
}
"""Passes for what the package does without in kernels: closures, branches on types, exceptions, array expressions. They
take a twentieth of the time of compiling."""


_SIGNATURES: dict[Any, Any] = {}
"""Of operators and other functions that need no compilation, by the function and the types of its arguments; kept for
the life of the process."""


@contextmanager
def _remembered_signatures(context: Any) -> Iterator[None]:
    """Let a typing context look up what it has found before.

    Numba searches all its templates for the sum of two numbers at every plus sign: a thirteenth of the time of
    compiling. What is found by a template that compiles nothing depends on the types alone; what was compiled depends
    on the flags of the caller too, and is searched for as always. The compiler lock is held.
    """
    if "resolve_function_type" in vars(context):  # a part is compiled while a kernel is
        yield
        return
    search = context.resolve_function_type

    def find(function: Any, arguments: Any, keywords: Any) -> Any:
        if type(function) is not types.Function or keywords:
            return search(function, arguments, keywords)
        found = _SIGNATURES.get((function, arguments))
        if found is None:
            found = search(function, arguments, keywords)
            if found is not None and function.get_impl_key(found) is function.typing_key:
                _SIGNATURES[function, arguments] = found
        return found

    context.resolve_function_type = find
    try:
        yield
    finally:
        del context.resolve_function_type


class _ShortCompiler(Compiler):  # type: ignore[misc]
    """Leaves passes out that find nothing to do in the package's own functions; those of users have them all."""

    def define_pipelines(self) -> Any:
        managers = super().define_pipelines()
        if (self.state.func_id.modname or "").partition(".")[0] == PACKAGE:
            for manager in managers:
                manager.passes = [each for each in manager.passes if each[0].__name__ not in UNUSED]
        return managers

    def compile_extra(self, function: Any) -> Any:
        self.state.library.state = self.state
        self.state.library.reorders = not {"reassoc", "fast"}.isdisjoint(self.state.flags.fastmath.flags)
        try:
            with _remembered_signatures(self.state.typingctx):
                return super().compile_extra(function)
        finally:
            self.state.library.state = None  # code is kept for good


class PartCompiler(_ShortCompiler):
    """Compiles a part into code to link."""

    def compile_extra(self, function: Any) -> Any:
        self.state.library = _Linked(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class KernelCompiler(_ShortCompiler):
    """Compiles what Python calls, and gives its code the environments of the parts that were linked into it."""

    def define_pipelines(self) -> Any:
        # Numba compiles a part once for each set of flags that a caller has: this is where those of kernels differ
        ConfigStack().top().no_cpython_wrapper = True
        return super().define_pipelines()

    def compile_extra(self, function: Any) -> Any:
        self.state.library = _Code(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        compiled = super().compile_extra(function)
        for environment in compiled._find_referenced_environments():
            self.state.targetctx.codegen().set_env(environment.env_name, environment)
        return compiled

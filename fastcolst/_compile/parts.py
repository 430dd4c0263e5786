"""Parts of kernels, compiled only to be linked into them: what is done to Numba's internals to save time."""

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
"""What else code may call of Numba's runtime that owns nothing: where the fields of a handle lie."""


class _Code(JITCodeLibrary):  # type: ignore[misc]
    """Code that counts no references it could do without, and whose loops fill the widest vectors of the processor.

    Numba counts, by an atomic instruction, whenever a variable begins or ceases to name an array. Whoever calls a
    kernel holds all that its arguments lead to. So a kernel need not count unless it makes an array, returns one, puts
    one into a handle, or is linked with code that does: the functions that it calls to count do nothing then. With them
    a simulated round takes 1.5 times as long with 2 features, 1.3 times with 10, and as long with 50.

    On processors with AVX-512 LLVM vectorises by 256 bits, because the first of them lowered their clock for 512. Those
    from Ice Lake on, which have AVX512_VBMI2 as well, keep it: there a simulated round with 50 arms takes a tenth less
    at 512 bits. Where a sum may be reordered the width stays LLVM's own: its order follows from the width, and would
    depend on which kernel the sum was linked into.
    """

    reorders = False
    """Whether some sum in this code, or in what is linked into it, may be reordered."""

    owns = False
    """Whether this code, or what is linked into it, may make an array, keep one or hand one out."""
    is_linked = False
    """Whether only other code of ours calls it."""
    compiled: Any = None
    """What Numba knows of the function."""

    def add_linking_library(self, library: Any) -> None:
        self.reorders |= _reorders(library)
        self.owns |= _owns(library)
        super().add_linking_library(library)

    def add_llvm_module(self, module: Any) -> None:
        if module.name != "wrapper":  # which unpacks the arguments, and gives them back
            self.owns |= _hands_on(self.compiled, self.is_linked)
            for function in module.functions:
                self.owns |= _is_of_owners(function.name)
                function.name = COUNTS.get(function.name, function.name)
        super().add_llvm_module(module)

    def finalize(self) -> None:
        # Before what is linked, which has functions of these names too, for users' kernels: those here take precedence.
        self._final_module.link_in(llvmlite.binding.parse_assembly(_counting(self.owns or self.is_linked)))
        super().finalize()

    def _optimize_final_module(self) -> None:
        if not self.owns:
            for function in self._final_module.functions:
                if function.linkage == llvmlite.binding.Linkage.linkonce_odr:
                    # else calls would come upon the function of this name in other kernels, which may count
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
    """Whether code to be linked may make an array or keep one; Numba's own counts do not."""
    if isinstance(library, _Code):
        return library.owns
    functions = library._get_module_for_linking().functions
    return library.name != "nrt" and any(_is_of_owners(f.name) or f.name in COUNTS for f in functions)


def _hands_on(compiled: Any, is_linked: bool) -> bool:
    """Whether a function puts something into a handle, or returns to Python what holds an array."""
    for block in compiled.func_ir.blocks.values():
        for stored in block.find_insts(numba_ir.SetAttr):
            if isinstance(compiled.typemap[stored.target.name], types.StructRef):
                return True
    models = compiled.targetctx.data_model_manager
    return not is_linked and bool(models[compiled.return_type].contains_nrt_meminfo())


def _is_of_owners(name: str) -> bool:
    """Whether a function is of Numba's runtime, and one that code which owns nothing does not call."""
    return name.startswith("NRT_") and name not in READS and name not in COUNTS


@functools.cache
def _counting(counts: bool) -> str:
    """The functions by which our code counts references, which call Numba's or do nothing."""
    module, kind = ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
    for theirs, ours in COUNTS.items():
        function = ir.Function(module, kind, ours)
        function.linkage = "linkonce_odr"
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
        self.state.library.compiled = self.state
        self.state.library.reorders = not {"reassoc", "fast"}.isdisjoint(self.state.flags.fastmath.flags)
        try:
            with _remembered_signatures(self.state.typingctx):
                return super().compile_extra(function)
        finally:
            self.state.library.compiled = None  # code is kept for good


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

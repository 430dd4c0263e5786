"""Parts of kernels, compiled only to be linked into them: what is done to Numba's internals to save time."""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.targetconfig import ConfigStack

from fastcolst._compile.digest import PACKAGE

__all__ = ["COMPILER_LOCK", "KernelCompiler", "PartCompiler"]

COMPILER_LOCK: Any = global_compiler_lock._lock


class _Code(JITCodeLibrary):  # type: ignore[misc]
    """Code whose loops fill the widest vectors of the processor.

    Of those with AVX-512 LLVM fills half, as the first of them lowered their clock for more: a round of 50 arms takes a
    tenth longer so, one of 64 arms with 384 features up to a sixth. Ice Lake and what came after it keep their clock;
    they are known by AVX512_VBMI2. Where sums are reordered the width stays LLVM's own, since their order goes by it.
    """

    reorders = False

    def add_linking_library(self, library: Any) -> None:
        self.reorders |= getattr(library, "reorders", False)
        super().add_linking_library(library)

    def add_ir_module(self, module: Any) -> None:
        if "+avx512vbmi2" in self._codegen.magic_tuple()[-1] and not self.reorders:
            for function in module.functions:
                if not function.is_declaration:  # whose attributes refuse by themselves what llvmlite does not know
                    set.add(function.attributes, '"prefer-vector-width"="512"')
        super().add_ir_module(module)


class _Linked(_Code):
    """The code of a part.

    Numba optimises every function by itself and turns it into machine code, and then does all of it again for each
    function into which that one is linked. A part is linked as it was written: kernels compile in three quarters of the
    time, and come out the same.
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
"""Passes for what the package does without in kernels: closures, branches on types, exceptions, array expressions."""


class _ShortCompiler(Compiler):  # type: ignore[misc]
    """Leaves passes out that find nothing to do in the package's own functions; those of users have them all."""

    def define_pipelines(self) -> Any:
        managers = super().define_pipelines()
        if (self.state.func_id.modname or "").partition(".")[0] == PACKAGE:
            for manager in managers:
                manager.passes = [each for each in manager.passes if each[0].__name__ not in UNUSED]
        return managers


class PartCompiler(_ShortCompiler):
    """Compiles a part into code to link."""

    def compile_extra(self, function: Any) -> Any:
        self.state.library = _Linked(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.reorders = "reassoc" in self.state.flags.fastmath.flags
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

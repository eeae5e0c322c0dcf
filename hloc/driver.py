"""The driver: text -> module -> passes -> machine code -> executable.

Command line, REPL and the Python interface all use it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from hloc.collection import collection_paused
from hloc.dtypes import Array
from hloc.errors import HloError, printable
from hloc.input_files import check_size, read_file
from hloc.ir.clone import clone_module
from hloc.ir.device_groups import count_devices, module_devices
from hloc.ir.module import Module
from hloc.ir.sharded_signature import (
    ShardedSignature,
    has_manual_regions,
    is_per_device,
    sharded_signature,
)
from hloc.ir.traversal import all_instructions
from hloc.options import CompileOptions
from hloc.source import SourceFile

if TYPE_CHECKING:
    from hloc.codegen.backend import CompiledModule
    from hloc.evaluator.run import Change
    from hloc.formats.snapshot import Snapshot
    from hloc.opt.pass_base import PassContext
    from hloc.opt.pipeline import Pipeline, PipelineObserver
    from hloc.runtime.executable import Executable
    from hloc.runtime.loading import Runnable


_COLLECTED_FROM_BYTES = 64 << 20
"""Size of a text or proto above which garbage collection stays on during its passes.

There is little garbage: the change log keeps what they remove. Without collection, 97,000
instructions (7 MB) take two thirds of the time and the same memory.
"""

DEFAULT = CompileOptions()
PARTITION = "call-inliner,flatten-call-graph,sharding-propagation,spmd-partitioner"
"""The passes that create the program of each device; calls and loops that share
a function may be sharded differently."""

AFTER_PARTITION = "tuple-simplifier,cse,dce"
"""The passes that clean it up."""

_OPTION_NAMES = tuple(field.name for field in fields(CompileOptions))


# ---------------------------------------------------------------- compilation


def compile_module(module: Module | str, options: CompileOptions = DEFAULT) -> Runnable:
    """Compile a module, which is not changed, or the text of one."""
    if isinstance(module, str):
        text = module
        with collection_paused(len(text) < _COLLECTED_FROM_BYTES):
            found = kept_or_compiled(text, options, lambda: _compiled(parse_text(text), options))
        return _with_signature(found, lambda: sharded_signature(_runnable(parse_text(text))))
    found = load_compiled(_compiled(clone_module(module), options))
    if module_devices(module).total == 1:
        return found
    kept = clone_module(module)
    return _with_signature(found, lambda: sharded_signature(_runnable(kept)))


def _with_signature(program: Runnable, signature: Callable[[], ShardedSignature]) -> Runnable:
    """Give a program for several devices the placement of whole arrays on them."""
    if hasattr(program, "set_signature"):
        program.set_signature(signature)
    return program


def kept_or_compiled(
    text: str,
    options: CompileOptions,
    compile_text: Callable[[], CompiledModule],
    note: str = "",
) -> Runnable:
    """Return the cached program of `text`, or compile and cache it.

    `note` is stored with it for `kept_program`.
    """
    from hloc.runtime.program_cache import load_or_compile

    return load_or_compile(text, options, compile_text, note)


def kept_program(text: str, options: CompileOptions) -> tuple[Executable, str] | None:
    """Return the cached program of `text` and its note, if any; the text is not parsed."""
    from hloc.runtime.program_cache import kept_program

    return kept_program(text, options, lambda: _compiled(parse_text(text), options))


def compile_proto(data: bytes, name: str, options: CompileOptions = DEFAULT) -> Runnable:
    """Compile a serialized `HloModuleProto` that XLA or hloc has just written.

    The cache is searched before it is parsed.

    Raises:
        HloError: the module has errors; protobuf is not installed.
    """
    from hloc.formats.read import read_xla_proto

    digest = hashlib.sha256(data).hexdigest()
    with collection_paused(len(data) < _COLLECTED_FROM_BYTES):
        return kept_or_compiled(
            f"HloModuleProto {digest}",
            options,
            lambda: _compiled(read_xla_proto(data, name), options),
        )


def partition(module: Module | str, devices: int = 0) -> Module:
    """Partition a module by its shardings: return the program of each device (SPMD).

    A module for one device, or one that is partitioned already, is returned unchanged.

    Args:
        module: a module, which is not changed, or the text of one.
        devices: number of partitions if the module does not have it.

    Raises:
        HloError: a sharding does not fit its array or the number of partitions.
        UnsupportedError: the module has replicas as well as partitions.
    """
    from hloc.opt.pipeline import Pipeline

    module = parse_text(module) if isinstance(module, str) else clone_module(module)
    if devices > 1 and module.config.num_partitions == 1:
        module.set_config(replace(module.config, num_partitions=devices))
    if not is_per_device(module):
        context = context_of(DEFAULT)
        Pipeline.parse(PARTITION).run(module, context)
        sharding = module.entry.root.common.sharding
        Pipeline.parse(AFTER_PARTITION).run(module, context)
        root = module.entry.root  # perhaps a new root for the same arrays
        module.entry.set_common(root, replace(root.common, sharding=sharding))
    return module


def _runnable(module: Module) -> Module:
    """Return a module that can run: manual regions of unpartitioned arrays need all devices."""
    if has_manual_regions(module) and not is_per_device(module):
        return partition(module)
    return module


def _compiled(module: Module, options: CompileOptions) -> CompiledModule:
    """Compile for a program that may compile more: the first time pays for all imports."""
    from hloc.codegen.backend import backend_for, preload

    preload(backend_for(options.target))
    module = _runnable(module)
    module.log.recording = False  # the module is this compilation's own
    optimise(module, options)
    return generate(module, options)


def optimise(
    module: Module,
    options: CompileOptions,
    observers: Iterable[PipelineObserver] = (),
    context: PassContext | None = None,
) -> None:
    """Run the passes of `options` on `module`; warnings go to `context`."""
    count_devices(module)
    pipeline = pipeline_of(options)
    for observer in observers:
        pipeline.observe(observer)
    pipeline.run(module, context or context_of(options))


def generate(module: Module, options: CompileOptions) -> CompiledModule:
    """Lower an optimised module for the target; the module may be changed.

    The stages of the result (`llvm-ir`, `asm` ...) are created on demand.
    """
    from hloc.codegen.backend import backend_for, check_libraries
    from hloc.runtime.loading import with_fastest_kernels, with_native_processor

    backend = backend_for(options.target)
    check_libraries(backend, options.use_library)
    compiled = backend.compile(module, with_native_processor(options))
    return with_fastest_kernels(compiled) if options.autotune else compiled


def load_compiled(compiled: CompiledModule) -> Runnable:
    """Compile a lowered module to machine code and load it.

    Raises:
        UnsupportedError: code for that target or machine cannot run in this process.
    """
    from hloc.runtime import loading

    return loading.load_compiled(compiled)


# ---------------------------------------------------------------- text to module


def parse_text(text: str | bytes, *, name: str = "<string>", verify: bool = True) -> Module:
    """Parse the text of a module; `name` is its name in messages.

    Raises:
        HloError: all errors that were found.
    """
    from hloc.parser import parse

    if isinstance(text, bytes):
        check_size(text, name)
        text = text.decode("utf-8", "surrogateescape")
    return parse(SourceFile(text, name), verify=verify)


def load_module(path: str, *, verify: bool = True) -> Module:
    """Read the module in the file `path`, HLO text or another format (`read_snapshot`).

    Raises:
        HloError: the file cannot be read, or its text has errors.
    """
    return read_snapshot(read_file(path), name=printable(str(path)), verify=verify).module


def read_snapshot(data: bytes, *, name: str, verify: bool = True) -> Snapshot:
    """Parse the contents of a file in any format that `docs/formats.md` lists.

    Returns:
        The module and, from an HloSnapshot, the arguments and result of one run.

    Raises:
        HloError: the data are not a valid module; a package to read them is missing.
    """
    from hloc.formats import read as formats

    check_size(data, name)
    return formats.read_snapshot(data, name, verify=verify)


# ---------------------------------------------------------------- passes


def pipeline_of(options: CompileOptions) -> Pipeline:
    """Return the target-independent pipeline of `options`.

    Raises:
        HloError: a pass or rule does not exist.
    """
    from hloc.opt.pipeline import Pipeline
    from hloc.opt.pipelines import pipeline_for
    from hloc.opt.registry import canonical_name

    left_out = [canonical_name(name) for name in options.disabled_passes]
    if {"cublaslt", "cudnn"} & {*options.use_library}:
        left_out.append("operand-fusion")  # they multiply arrays in memory
    found = (
        Pipeline.parse(options.passes)
        if options.passes
        else pipeline_for(options.opt_level, options.target, options.cpu)
    )
    if options.memory_limit_bytes:
        from hloc.opt.rematerialization import HloRematerialization

        found = Pipeline((*found.passes, HloRematerialization(options.memory_limit_bytes)))
    return found.without(left_out)


def context_of(options: CompileOptions) -> PassContext:
    """Return a context for the passes of `options`.

    Raises:
        HloError: a disabled rule does not exist.
    """
    from hloc.near_names import near_name_notes
    from hloc.opt.pass_base import PassContext

    if options.disabled_rules:
        from hloc.opt.registry import all_rules

        known = [rule.name for rule in all_rules()]
        for name in options.disabled_rules:
            if name not in known:
                raise HloError(f"there is no rule {name!r}", notes=near_name_notes(name, known))
    return PassContext(
        disabled_rules=frozenset(options.disabled_rules), fast_math=options.fast_math
    )


def compile_as_it_stands(module: Module) -> Runnable:
    """Compile a module, which is not changed, with only the passes that the target needs."""
    kept = clone_module(module)
    found = load_compiled(generate(clone_module(module), CompileOptions(opt_level=0)))
    return _with_signature(found, lambda: sharded_signature(kept))


# ---------------------------------------------------------------- the reference evaluator


def evaluate(
    module: Module | str,
    *arrays: Array,
    fill_constants: str = "error",
    changed: Change | None = None,
) -> list[Array]:
    """Run a module in the reference evaluator.

    Args:
        module: a module, or the text of one.
        arrays: one per parameter leaf, tuples flattened depth first; tokens take none.
        fill_constants: as in `CompileOptions`.
        changed: returns the value that replaces the value of an instruction.

    Returns:
        One array per leaf of the result.

    Raises:
        HloError: wrong arguments, or a result that is too large.
        UnsupportedError: an instruction cannot run on one device.
    """
    from hloc.evaluator import evaluate_module

    if isinstance(module, str):
        module = parse_text(module)
    return evaluate_module(module, arrays, fill_constants=fill_constants, changed=changed)


def evaluate_devices(
    module: Module | str, args: Sequence[Sequence[Array]], *, fill_constants: str = "error"
) -> list[list[Array]]:
    """Run a module for several devices in the reference evaluator.

    Args:
        module: the program of each device, or its text.
        args: `args[i][device]` is leaf i of the parameters on a device, by flattened id.
        fill_constants: as in `CompileOptions`.

    Returns:
        `results[j][device]`, leaf j of the result.

    Raises:
        HloError: as for `evaluate`; a deadlock, with the devices and the instructions they wait at.
    """
    from hloc import evaluator

    if isinstance(module, str):
        module = parse_text(module)
    return evaluator.evaluate_devices(module, args, fill_constants=fill_constants)


# ---------------------------------------------------------------- options and registries


def make_options(opt_level: int, target: str, others: Mapping[str, Any]) -> CompileOptions:
    """Return compile options from keywords.

    Raises:
        HloError: an unknown option, or an invalid value.
    """
    for name in others:
        if name not in _OPTION_NAMES:
            known = ", ".join(_OPTION_NAMES)
            raise HloError(f"there is no option {name!r}; options are {known}")
    return CompileOptions(opt_level=opt_level, target=target, **others)


def flops_of(module: Module) -> int:
    """Return the floating-point operations of one run, 0 if unknown (the trip count of a loop)."""
    from hloc.analysis.cost import module_cost

    if any(inst.is_a("while") for inst in all_instructions(module)):
        return 0
    return module_cost(module).flops

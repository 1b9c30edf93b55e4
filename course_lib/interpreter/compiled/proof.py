"""Compile a kernel for real GPUs, with none of them at hand, and say what came of it."""

import ast
import contextlib
import importlib.metadata
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..text.jit_functions import functions_in
from ..text.kernel_source import KernelSource, self_contained
from . import cache
from .arguments import bind, describe, with_choices
from .child import SECONDS_PER_JOB, run_jobs
from .readings import read_amdgcn, read_ptx, read_ptxas, read_sass
from .report import CompileReport, TargetReport
from .targets import DEFAULT_TARGETS, MAX_THREADS_PER_BLOCK, TENSOR_MEMORY_COLUMNS, Target, target_named

NO_TENSOR_CORES_75 = (
    "Triton has no tensor-core path for sm_75: tl.dot becomes scalar multiply-adds, far from this GPU's matrix peak"
)
FROM_PTX = (
    "read from PTX, not from machine code: what the assembler made of it is not seen (registers and spills are its own report)"
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel (or its text) with the arguments of one launch; kwargs may hold num_warps, num_stages, num_ctas, maxnreg."""

    kernel: Any
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    targets: Sequence[str] = DEFAULT_TARGETS


def compile_report(
    kernel: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] = DEFAULT_TARGETS,
    num_warps: int | None = None,
    num_stages: int | None = None,
    cached: bool = True,
    seconds_per_target: float = SECONDS_PER_JOB,
) -> CompileReport:
    """What `kernel[grid](*args, **kwargs)` compiles to on each target. Needs no GPU and launches nothing.

    kernel   made by @triton.jit or @gluon.jit, or its KernelSource
    args     of the launch: tensors on any device (meta too), descriptors, numbers, tuples; only what decides the code is read
    cached   take finished reports from the user's cache; False where they must not be trusted
    Raises TypeError for arguments that no launch could have, SourceError for a kernel that cannot be written down.
    """
    if not isinstance(args, (tuple, list)) or not isinstance(kwargs, Mapping | None):
        raise TypeError(
            "compile_report takes the arguments of a launch together: compile_report(kernel, (x, y, n), {'BLOCK': 64}), "
            f"got {type(args).__name__} and {type(kwargs).__name__}"
        )
    options = {"num_warps": num_warps, "num_stages": num_stages}
    kwargs = {name: value for name, value in options.items() if value is not None} | dict(kwargs or {})
    return compile_reports([Launch(kernel, args, kwargs, targets)], cached=cached, seconds_per_target=seconds_per_target)[0]


def compile_reports(
    launches: Sequence[Launch],
    *,
    cached: bool = True,
    seconds_per_target: float = SECONDS_PER_JOB,
    processes: int | None = None,
    triton_folder: str | Path = "",
    disassemble: bool = True,
) -> list[CompileReport]:
    """One report for each launch, all compiled by the same few processes.

    disassemble    False reads PTX in place of machine code, in half the time: enough to see whether a kernel compiles and fits
    triton_folder  holds another version of Triton that compiles in place of the installed one
    """
    version = triton_version(triton_folder)
    prepared = [_prepare(launch, version, disassemble) for launch in launches]
    missing = [(one, target) for one in prepared for target in one.targets if not (cached and one.recall(target))]
    waiting = list({one.key(target): (one, target) for one, target in missing}.values())  # what is equal is compiled once
    kernels = list({(one.source.text, one.source.name): None for one, _ in waiting})
    jobs = [
        {
            "kernel": kernels.index((one.source.text, one.source.name)),
            "backend": target.backend,
            "arch": target.arch,
            "warp_size": target.warp_size,
            "arguments": one.arguments,
            "options": one.options,
            "disassemble": disassemble,
        }
        for one, target in waiting
    ]
    processes = min(4, os.cpu_count() or 1) if processes is None else processes
    outcomes = run_jobs(
        kernels, jobs, seconds_per_job=seconds_per_target, processes=processes, triton_folder=os.fspath(triton_folder)
    )
    found = {}
    for (one, target), outcome in zip(waiting, outcomes, strict=True):
        found[one.key(target)] = _fields(target, outcome.facts, outcome.texts)
        if cached and not outcome.facts.get("died"):  # a death may have been this machine's fault: not kept
            cache.store(one.key(target), found[one.key(target)])
    for one, target in missing:
        one.found[target.name] = found[one.key(target)]
    return [one.report(version) for one in prepared]


def triton_version(folder: str | Path = "") -> str:
    """The version that compiles, read from its metadata. RuntimeError where there is none."""
    found = list(importlib.metadata.distributions(name="triton", **({"path": [os.fspath(folder)]} if folder else {})))
    if not found:
        raise RuntimeError(
            f"no Triton is installed{f' in {folder}' if folder else ''}, so nothing can be compiled; install course[torch]"
        )
    return found[0].version


@dataclass(slots=True)
class _Prepared:
    """A launch as plain data, and what is known of it so far: target -> fields of its report."""

    source: KernelSource
    arguments: dict[str, Any]
    options: dict[str, Any]
    targets: list[Target]
    version: str
    disassemble: bool
    remarks: tuple[str, ...]
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def key(self, target: Target) -> str:
        about = [self.source.text, self.source.name, self.arguments, self.options, target.name, self.version, self.disassemble]
        return cache.key(about)

    def recall(self, target: Target) -> bool:
        data = cache.load(self.key(target))
        try:
            _target_report(self.source, target, data or {})
        except (AttributeError, KeyError, TypeError):  # nothing there, or not what we wrote: compiled again
            return False
        self.found[target.name] = data
        return True

    def report(self, version: str) -> CompileReport:
        reports = tuple(_target_report(self.source, target, self.found[target.name]) for target in self.targets)
        return CompileReport(self.source.name, version, reports, self.remarks)


def _prepare(launch: Launch, version: str, disassemble: bool) -> _Prepared:
    kernel, kwargs, remarks, functions = launch.kernel, dict(launch.kwargs), (), []
    targets = [target_named(name) for name in launch.targets]
    if isinstance(kernel, KernelSource):
        source = kernel
    else:
        kwargs, remarks = with_choices(kernel, launch.args, kwargs)
        functions = functions_in([*launch.args, *kwargs.values()])
        source = self_contained(kernel, *functions)
    given, options = bind(source, launch.args, kwargs)
    return _Prepared(source, describe(source, given, functions), options, targets, version, disassemble, remarks)


def _fields(target: Target, facts: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Plain data for a TargetReport; `line` is still a line of the kernel's text."""
    if not facts["compiles"]:
        return {"compiles": False, "line": facts["line"], "why_not": facts["message"]}
    if target.backend == "hip":
        found = read_amdgcn(texts["amdgcn"])
    else:
        found = read_sass(texts["sass"]) if "sass" in texts else read_ptx(texts["ptx"])
        found |= read_ptxas(facts["log"])
    notes = [*found.pop("notes", ())]
    if found["read_from"] == "ptx":
        notes.append(FROM_PTX)
    if target.name == "sm_75" and facts["dots"] and not found["tensor_cores"]:
        notes.append(NO_TENSOR_CORES_75)
    if not target.counts_spills:
        found["spills"] = None
    found |= {"compiles": True, "line": None, "why_not": "", "notes": notes}
    found |= {"shared_bytes": facts["shared_bytes"], "num_warps": facts["num_warps"]}
    return found | _beyond_the_device(target, facts)


def _beyond_the_device(target: Target, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Limits that a launch would meet and the compiler does not look at (shared memory is reported as a number)."""
    threads, columns = facts["num_warps"] * target.warp_size, facts["tensor_memory"]
    if threads > MAX_THREADS_PER_BLOCK:
        why = f"a block has {threads} threads, the limit is {MAX_THREADS_PER_BLOCK}; lower num_warps"
    elif target.name == "sm_100" and columns > TENSOR_MEMORY_COLUMNS:
        why = f"a block needs {columns} columns of tensor memory, the limit is {TENSOR_MEMORY_COLUMNS}; use smaller tiles"
    else:
        return {}
    return {"compiles": False, "why_not": why}


def _target_report(source: KernelSource, target: Target, data: Mapping[str, Any]) -> TargetReport:
    data = dict(data)
    line = data.pop("line")
    where = source.where(line) if line else None
    data["why_not"] = _sentence(data["why_not"])
    if where:
        data["why_not"] = f"{_place(*where)}, `{source.text.splitlines()[line - 1].strip()[:80]}`: {data['why_not']}"
    data["notes"] = tuple(data.get("notes", ()))
    return TargetReport(target=target.name, where=where, **data)


def _sentence(message: str) -> str:
    """A compiler's message without the wrapping of an exception's repr and without the layouts in its types."""
    if match := re.fullmatch(r"\w+(?:Error|Exception)\((['\"].*['\"])\)", message, re.DOTALL):
        with contextlib.suppress(ValueError, SyntaxError):
            message = str(ast.literal_eval(match.group(1)))
    return re.sub(r", #[^']*(?=>')", "", message).strip()


def _place(file: str, line: int) -> str:
    """A file as a learner knows it: by its name, and a notebook cell as a cell."""
    cell = file.startswith("<") or "ipykernel" in file
    return f"line {line} of the cell" if cell else f"line {line} of {os.path.basename(file)}"

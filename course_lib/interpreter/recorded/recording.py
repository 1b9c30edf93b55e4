"""Launches written down where they run, as plain data, so that a clean process can run and compile them again (replay.py).

    with record() as tape:
        output = learners_function(x)
    tape.data(), tape.locate(output)

Written down per launch: the kernel's text (kernel_source.py), grid, arguments, launch options, the autotuner's choice, and the
bytes of every tensor's storage that changed since the launches before it. Nothing is written of what a launch stores: the
replay finds that out, and an answer must follow from it. See `Tape.data` for the layout.
Not here: any judgement. The tape is made beside the learner's code, which could forge it; a forged tape is replayed like any
other, and what does not follow from its launches fails there.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..switch import interpreting
from ..text.jit_functions import configuration, constant_names, functions_in, inner_function
from ..text.kernel_parts import SourceError
from ..text.kernel_source import KernelSource, self_contained
from .recorded_arguments import RecordingError, Storages, written

VERSION = 1
MAX_BYTES = 64 * 2**20  # of changed memory; what does not fit is refused with a sentence, and the launches run on
_OPTIONS = (bool, int, float, str)


class Tape:
    """The launches of one `record` block. `refused` says why they cannot be written down, "" while they can."""

    def __init__(self, *, run: bool = True, max_bytes: int = MAX_BYTES):
        self.refused = ""
        self._run = run
        self._storages = Storages(max_bytes)
        self._kernels: list[KernelSource] = []
        self._launches: list[dict[str, Any]] = []
        self._compiled = False
        self._suspended = 0
        self._lock = threading.RLock()  # launches of several threads are one sequence

    def data(self) -> dict[str, Any]:
        """-> {"version", "compiled", "kernels", "storages", "launches"}: str, int, float, bool, list, dict and uint8 tensors.

        kernels   the fields of KernelSource; segments as [text_line, count, file, line]
        storages  bytes of each storage; everywhere else a storage is its index here
        launches  {"kernel": index, "grid": [x, y, z], "arguments": {name: see recorded_arguments.py}, "options", "config",
                  "found": [{"storage", "bytes" or "word", "changed"}]}: memory that no launch left so, before this launch
        Raises RecordingError when a launch could not be written down.
        """
        if self.refused:
            raise RecordingError(self.refused)
        kernels = [
            {
                "text": k.text, "name": k.name, "file": k.file, "first_line": k.first_line, "also": list(k.also),
                "gluon": k.gluon, "segments": [[s.text_line, s.count, s.file, s.line] for s in k.segments],
            }
            for k in self._kernels
        ]  # fmt: skip
        sizes = self._storages.sizes
        return {"version": VERSION, "compiled": self._compiled, "kernels": kernels, "storages": sizes, "launches": self._launches}

    def locate(self, output: Any) -> dict[str, Any]:
        """Where the tensors of an output lie: the output's structure, with a recorded tensor's place or {"kind": "elsewhere"}."""
        if isinstance(output, dict):
            return {"kind": "dict", "items": {str(key): self.locate(value) for key, value in output.items()}}
        if isinstance(output, (list, tuple)):
            return {"kind": type(output).__name__, "items": [self.locate(item) for item in output]}
        if not hasattr(output, "untyped_storage"):
            return {"kind": "value"}
        return self._storages.find(output) or {"kind": "elsewhere"}

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Launches inside the block leave no trace (the autotuner's measurements)."""
        self._suspended += 1
        try:
            yield
        finally:
            self._suspended -= 1

    def listen(
        self, kernel: Any, grid: Any, args: tuple, kwargs: dict[str, Any], config: str, run: Callable, *, compiled: bool = False
    ) -> Any:
        """Write one launch down and run it; `run(grid)` does that."""
        with self._lock:
            if self._suspended:
                return run(grid)
            try:
                bound, options, sizes = _bound(kernel, grid, args, kwargs)
            except Exception:
                return run(grid)  # the launch itself says what is wrong with it
            self._compiled |= compiled
            if not self.refused:
                try:
                    self._write(kernel, bound, options, sizes, config)
                except (RecordingError, SourceError) as error:
                    self.refused = f"{getattr(kernel, '__name__', 'a kernel')} cannot be recorded: {error}"
                    self._storages.forget()
            result = run(sizes) if self._run else None
            if not self.refused:
                self._storages.settle()
            return result

    def _write(self, kernel: Any, bound: dict[str, Any], options: dict, sizes: tuple[int, ...], config: str) -> None:
        if getattr(kernel, "pre_run_hooks", None):
            raise RecordingError("it has pre-run hooks, which no replay can run; do their work before the launch")
        functions = functions_in(bound.values())
        source = self_contained(kernel, *functions)
        constants = constant_names(kernel.fn)
        arguments = {
            name: written(name, value, name in constants, dict(zip(map(id, functions), source.also, strict=True)), self._storages)
            for name, value in bound.items()
        }
        found = self._storages.changes()
        if source not in self._kernels:
            self._kernels.append(source)
        self._launches.append(
            {
                "kernel": self._kernels.index(source), "grid": [*sizes, 1, 1][:3], "arguments": arguments,
                "options": options, "config": config, "found": found,
            }
        )  # fmt: skip


def _bound(kernel: Any, grid: Any, args: tuple, kwargs: dict) -> tuple[dict[str, Any], dict[str, Any], tuple[int, ...]]:
    """(every argument by name, launch options, grid as numbers)."""
    signature = inspect.signature(kernel.fn)
    given = signature.bind(*args, **{name: value for name, value in kwargs.items() if name in signature.parameters})
    given.apply_defaults()
    sizes = grid(dict(given.arguments)) if callable(grid) else grid
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(f"a grid is a tuple, got {sizes!r}")  # the launch says so, in the words of the device that it is for
    sizes = tuple(int(size) for size in sizes)
    rest = {name: value for name, value in kwargs.items() if name not in signature.parameters}
    return dict(given.arguments), {name: value for name, value in rest.items() if type(value) in _OPTIONS}, sizes


@contextmanager
def record(*, run: bool = True, config: dict[str, int] | None = None, max_bytes: int = MAX_BYTES) -> Iterator[Tape]:
    """Write down every launch inside the block, interpreted or compiled, of every thread.

    run     False: launches are written down and not run
    config  the autotuner's configuration to take, by its constants; without it the first one, or on a device the fastest
    Inside, interpreted kernels run with the course's interpreter and all of its checks. Raises RuntimeError for a Triton
    version that it does not know.
    """
    tape = Tape(run=run, max_bytes=max_bytes)
    with ExitStack() as stack:
        stack.enter_context(interpreting(listener=tape.listen, config=config))
        stack.enter_context(_compiled_launches(tape, run, config or {}))
        yield tape
    if tape.refused and not run:
        raise RecordingError(tape.refused)


@contextmanager
def _compiled_launches(tape: Tape, run: bool, config: dict[str, int]) -> Iterator[None]:
    """Launches of compiled kernels, for the time of the block. An autotuner's measurements are no launches of the learner's."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from .device_memory import kept, planted_on_device

    launch, bench, tune = JITFunction.run, Autotuner._bench, Autotuner.run

    def recorded(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        def go(sizes: Any) -> Any:
            return launch(self, *args, grid=sizes, warmup=warmup, **kwargs)

        return go(grid) if warmup else tape.listen(self, grid, args, kwargs, "", go, compiled=True)

    def measured(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        with tape.suspended(), kept([*args, *meta.values()]):
            return bench(self, *args, config=config, **meta)

    def first(self: Any, *args: Any, **kwargs: Any) -> Any:
        """The first configuration, or the one asked for: nothing is measured."""
        if not isinstance(inner_function(self), JITFunction):
            return tune(self, *args, **kwargs)
        chosen = configuration(self.base_fn.__name__, self.configs, config)
        if chosen.pre_hook is not None:
            chosen.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **kwargs, **chosen.all_kwargs()})
        return self.fn.run(*args, **kwargs, **chosen.all_kwargs())

    JITFunction.run, Autotuner._bench = recorded, measured
    if not run:
        Autotuner.run = first
    try:
        with planted_on_device():
            yield
    finally:
        JITFunction.run, Autotuner._bench = launch, bench
        if not run:
            Autotuner.run = tune

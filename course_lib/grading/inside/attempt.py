"""One attempt: call the learner's function on one case, and write down what happened as plain data.

`run(entry, case)` comes from a runner; whatever it does, `attempt` returns (or, for a dead process, its parent says so).
`observe(entry, case)` gathers evidence beside the output (counts, a compile report, times); without it there is none.
`recorder()` is a block that writes down the kernels launched inside it (course_lib.interpreter.recorded.recording.record).
"""

import contextlib
import inspect
import linecache
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from .border import MAX_BYTES, BorderError, pack, printable, short, unpack
from .quiet import Quiet

MAX_MESSAGE = 500
MAX_OUTPUT_BYTES = 3 * MAX_BYTES  # of one record: its output, the recorded launches, evidence
MAX_CONTAINERS = 900  # far more than any answer has; fewer than Python can nest
_running = threading.local()
_HERE = os.path.dirname(os.path.abspath(__file__))


def empty_record(status: str, message: str = "", seconds: float = 0.0) -> dict:
    """A record of an attempt with every field, for one that returned nothing."""
    return {"status": status, "message": message, "where": "", "output": None, "changed": [], "aliases": [], "evidence": None,
            "launches": None, "printed": "", "seconds": seconds}  # fmt: skip


def attempt(
    run: Callable, entry: Any, case: dict, observe: Callable | None = None, recorder: Callable | None = None
) -> dict:
    """-> {"status", "message", "where", "output", "changed", "aliases", "evidence", "launches", "printed", "seconds"}.

    status    returned, open (NotImplementedError), raised, exited (sys.exit), interrupted
    changed   names of the inputs that the call changed; aliases: names of those that the output shares memory with
    launches  None without a recorder, else {"tape", "answer"} (Tape.data and Tape.locate), {"refused": why a kernel cannot be
              recorded} or {"blocked": why nothing was}
    All of it is plain data.
    """
    if getattr(_running, "here", False):  # it would check itself for ever
        return empty_record("raised", "RuntimeError: lab.check was called inside the answer that it checks")
    _running.here = True
    try:
        return _attempt(run, entry, case, observe, recorder)
    finally:
        _running.here = False


def _attempt(run: Callable, entry: Any, case: dict, observe: Callable | None, recorder: Callable | None) -> dict:
    record = empty_record("returned")
    given = unpack(pack(case))  # the learner gets a copy of their own
    before = pack(given)
    start = time.perf_counter()
    with Quiet() as quiet:
        try:
            with _recording(recorder) as (tape, unfit):
                output = run(entry, given)
            record["launches"] = _launches(tape, output) if tape is not None else unfit
            record["aliases"] = sorted(_shared(output, given))
            record["output"] = unpack(pack(output))
            record["changed"] = _changed(before, given)
            if observe is not None:
                record["evidence"] = _evidence(observe, entry, unpack(pack(case)))
            output = None  # what it says when it is deleted is caught as well (a coroutine that nobody awaited)
        except BaseException as error:  # a learner's SystemExit or interrupt ends the attempt, not the notebook
            record.update(_describe(error))
    record["seconds"] = time.perf_counter() - start
    record["printed"] = quiet.printed
    return record


@contextlib.contextmanager
def _recording(recorder: Callable | None) -> Iterator[tuple[Any, dict | None]]:
    """(tape, None), or (None, why there is none): a recorder that does not fit this machine is not the learner's fault."""
    with contextlib.ExitStack() as stack:
        tape, unfit = None, None
        if recorder is not None:
            try:
                tape = stack.enter_context(recorder())
            except RuntimeError as error:
                unfit = {"blocked": str(error)[:MAX_MESSAGE]}
        yield tape, unfit


def _launches(tape: Any, output: Any) -> dict:
    try:
        return unpack(pack({"tape": tape.data(), "answer": tape.locate(output)}, 2 * MAX_BYTES))
    except RuntimeError as error:  # RecordingError
        return {"refused": str(error)[:MAX_MESSAGE]}


def _evidence(observe: Callable, entry: Any, case: dict) -> Any:
    """What `observe` gathered; when our own measurement fails (no memory, say), the reason, which is not the learner's fault."""
    try:
        return unpack(pack(observe(entry, case)))
    except Exception as error:
        if _where(error):
            raise
        return {"blocked": f"the measurement failed: {type(error).__name__}: {str(error)[:MAX_MESSAGE]}"}


def check_entry(entry: Any, params: list[str]) -> str:
    """"" when `entry` can be called with these positional parameters, else a sentence that says what is wrong."""
    wanted = f"a function taking ({', '.join(params)})"
    if isinstance(entry, type) or not callable(entry):
        return f"expected {wanted}, got {_name_of(entry)}"
    try:
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return ""  # built-in code without a signature: the call itself will tell
    except BaseException as error:
        return f"expected {wanted}; asking for the signature raised {type(error).__name__}"
    try:
        signature.bind(*params)
    except TypeError:
        try:
            taken = str(signature.replace(return_annotation=signature.empty))[:MAX_MESSAGE]
        except BaseException:  # a default value that cannot print itself
            taken = f"({', '.join(signature.parameters)})"[:MAX_MESSAGE]
        return f"expected {wanted}; yours takes {taken}"
    return ""


def _name_of(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or type(value) in (bool, int, float, str):
        return f"{type(value).__name__} {short(value, 60)}"
    return f"an object of type {type(value).__name__}"


def _describe(error: BaseException) -> dict:
    try:
        text = str(error)
    except BaseException:
        text = "(its message could not be printed)"
    text = printable(str.__getitem__(text, slice(MAX_MESSAGE)))  # plain, even of a subclass of str
    kind = type(error)  # not isinstance, which asks the object for its __class__
    try:
        names_its_place = hasattr(error, "place")  # as a KernelMistake's message does
    except BaseException:
        names_its_place = False
    where = "" if names_its_place else _where(error)
    if issubclass(kind, NotImplementedError):
        return {"status": "open", "message": text, "where": where}
    if issubclass(kind, KeyboardInterrupt):
        return {"status": "interrupted", "message": "", "where": where}
    if issubclass(kind, SystemExit):
        return {"status": "exited", "message": f"sys.exit({text})", "where": where}
    return {"status": "raised", "message": f"{type(error).__name__}: {text}", "where": where}


def _where(error: BaseException) -> str:
    """The deepest line of the traceback that is the learner's: not ours, not an installed package's."""
    found = ""
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        theirs = "site-packages" not in code.co_filename and not code.co_filename.startswith((_HERE, "<frozen"))
        space = traceback.tb_frame.f_globals
        ours = space.get("__course_runner__") or str(space.get("__name__")).startswith("course_lib.")
        if theirs and not ours:
            line = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
            found = f"line {traceback.tb_lineno} of the cell, in {code.co_name}: {line}"[:MAX_MESSAGE]
        traceback = traceback.tb_next
    return found


def _tensors(value: Any, name: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """(name, tensor) of every dense tensor inside plain data; a container that stands in many places is entered once."""
    kind, seen = type(value), set() if seen is None else seen
    if kind in (dict, list, tuple):
        if id(value) in seen or len(seen) > MAX_CONTAINERS:
            return
        seen.add(id(value))
    if kind is dict:
        for key, item in value.items():
            yield from _tensors(item, name or str(key), seen)
    elif kind in (list, tuple):
        for item in value:
            yield from _tensors(item, name, seen)
    elif hasattr(value, "untyped_storage"):
        yield name, value


def _shared(output: Any, given: dict) -> set[str]:
    """Names of inputs whose storage the output still uses."""
    def address(tensor: Any) -> int:
        try:
            return tensor.untyped_storage().data_ptr()
        except Exception:  # a sparse or otherwise strange tensor has no storage of its own
            return 0

    out = {address(tensor) for _, tensor in _tensors(output)} - {0}
    return {name for name, tensor in _tensors(given) if address(tensor) in out}


def _changed(before: bytes, given: dict) -> list[str]:
    try:
        old = unpack(before)
        return sorted(key for key, item in old.items() if key not in given or pack(item) != pack(given[key]))
    except BorderError:
        return ["the inputs"]


"""Who decides whether Triton interprets or compiles, and when: TRITON_INTERPRET, before the first `import triton`.

Triton reads the variable when `@triton.jit` decorates, and decorates its own library (`tl.sum`, `tl.cdiv`, ...) while it is
imported. Set later, half of it interprets and half compiles; left out, a launch without a GPU fails with "0 active drivers".
Several parts of torch (flop_counter, dispatch modes, custom_op, torch.compile, the profiler) import Triton on their own. So
the decision is taken as early as it can be, in three steps, each of which knows more than the one before:

    import course_lib             for_package    no GPU driver           -> interpret
    from course_lib import lab    for_notebook   ... or a torch that cannot use the one that is here
    lab.start(1)                  settle         ... or torch, asked, sees no device
What the user has set, "0" or "1", always stands. Nothing here warns or writes to stderr, which costs points in nbgrader.
"""

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from .gpu_driver import torch_build, why_no_cuda, why_no_rocm

VARIABLE = "TRITON_INTERPRET"
FIRST = "restart the kernel, and make `from course_lib import lab` the first import"
_ON = ("1", "true", "on", "y", "yes")  # what Triton takes for yes


class EntryState(NamedTuple):
    """How kernels run in this process.

    mode    "cuda", "rocm"   compiled, on the device
            "interpreter"    on the CPU
            "too late"       Triton was imported before the decision: kernels fail until the kernel is restarted
            "compile only"   kernels cannot be launched: no GPU, and TRITON_INTERPRET=0 is set or `lab.start` is yet to come
            "no triton"      Triton is not installed, or something else takes its name
    reason  a sentence for people, with the next step where one is needed
    """

    mode: str
    reason: str

    @property
    def can_launch(self) -> bool:
        return self.mode in ("cuda", "rocm", "interpreter")


def for_package() -> None:
    """The first step, from driver files alone: no torch is looked at, because a program that uses this package as a library
    on a GPU machine may launch kernels through another one. A notebook of the course says `lab` and means torch."""
    _choose(look_at_torch=False)


def for_notebook() -> None:
    """The second step. Kernels here take torch's tensors: a CPU build beside a driver, or a CUDA build beside an AMD card,
    can use no GPU. That stands in torch's version file, which is read without importing torch."""
    _choose(look_at_torch=True)
    explain_failed_launches()


def settle() -> None:
    """The third step, which imports torch and asks it. It sees what no file tells: a driver too old for this torch, a card
    that is broken or taken. Not before the notebook calls for torch: the question starts CUDA in this process."""
    import torch  # noqa: F401

    if _undecided() and not _device(look_at_torch=True, ask_torch=True)[0]:
        os.environ[VARIABLE] = "1"
    explain_failed_launches()


def child_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy of `base` (default: os.environ) for a process that runs kernels, with the decision in it.

    Such a process may hold no course_lib, or import Triton first; and Triton comes fresh to it, so here it is never too late.
    """
    env = dict(os.environ if base is None else base)
    if not env.get(VARIABLE) and not _device(look_at_torch=True, ask_torch=_torch_is_loaded())[0]:
        env[VARIABLE] = "1"
    return env


def compiling_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """A copy of `base` (default: os.environ) for a process that compiles kernels, with or without a GPU.

    "0" and not unset: Triton takes both alike, and a process that imports course_lib would set a missing one to "1".
    """
    return dict(os.environ if base is None else base) | {VARIABLE: "0"}


def state() -> EntryState:
    """How kernels run in this process now. Imports nothing; torch is asked when it is loaded."""
    if missing := _no_triton():
        return EntryState("no triton", missing)
    device, why = _device(look_at_torch=True, ask_torch=_torch_is_loaded())
    asked = os.environ.get(VARIABLE, "")
    on = asked.lower() in _ON
    library_interprets = _library_interprets()
    if library_interprets not in (None, on):
        was, now = ("compile", "on") if on else ("interpret", "off")
        return EntryState("too late", f"Triton was imported to {was}, and {VARIABLE} was turned {now} after that: {FIRST}.")
    if on:
        why = why if not device else f"{VARIABLE}={asked} is set, although there is a GPU"
        return EntryState("interpreter", f"Kernels run in Triton's interpreter, on the CPU: {why}.")
    if device:
        return EntryState(device, "Kernels are compiled for the GPU.")
    if asked:
        cure = f"to run them in the interpreter, unset it, {FIRST}"
        return EntryState("compile only", f"{VARIABLE}={asked} is set and {why}, so kernels compile and cannot run: {cure}.")
    if library_interprets is None:
        return EntryState("compile only", f"No kernel can run yet ({why}): `lab.start` turns Triton's interpreter on.")
    what = "Triton was imported before the course could set it up"
    return EntryState("too late", f"{what}, and {why}, so no kernel can run: {FIRST}.")


def _choose(look_at_torch: bool) -> None:
    if _undecided() and not _device(look_at_torch)[0]:
        os.environ[VARIABLE] = "1"


def _undecided() -> bool:
    """Empty counts as not set, as usual; after Triton is imported the variable would only split it in two."""
    return "triton" not in sys.modules and not os.environ.get(VARIABLE)


def _device(look_at_torch: bool, ask_torch: bool = False) -> tuple[str, str]:
    """-> ("cuda" or "rocm", ""), or ("", why there is none)."""
    if ask_torch:
        return _device_of_torch()
    no_cuda, no_rocm = why_no_cuda(), why_no_rocm()
    build = torch_build() if look_at_torch and not (no_cuda and no_rocm) else ""
    if not no_cuda and build in ("cuda", ""):
        return "cuda", ""
    if not no_rocm and build in ("rocm", ""):
        return "rocm", ""
    return "", {"cpu": "torch is a CPU build", "rocm": no_rocm}.get(build, no_cuda)


def _device_of_torch() -> tuple[str, str]:
    import warnings

    torch = sys.modules["torch"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once per process, and in `why` as well
        if torch.cuda.is_available():
            return ("rocm" if torch.version.hip else "cuda"), ""
    no_cuda, no_rocm = why_no_cuda(), why_no_rocm()
    if not (torch.version.cuda or torch.version.hip):
        return "", no_cuda if no_cuda and no_rocm else "torch is a CPU build"
    why = no_rocm if torch.version.hip else no_cuda
    return "", why or "torch sees no GPU, although its driver is here (`labs doctor` says more)"


def _torch_is_loaded() -> bool:
    """Loaded to the end: `state` may be asked while torch imports itself."""
    torch = sys.modules.get("torch")
    return hasattr(getattr(torch, "cuda", None), "is_available") and hasattr(torch, "version")


def _library_interprets() -> bool | None:
    """What Triton's own functions were made for when it was imported; None before that."""
    library = sys.modules.get("triton.language.standard")
    function = getattr(library, "sum", None)
    return None if function is None else type(function).__name__ == "InterpretedFunction"


def _no_triton() -> str:
    """Why `import triton` gives no Triton, "" when it does. A bare folder of that name counts as a module for Python."""
    from importlib.util import find_spec

    if "triton.language" in sys.modules:
        return ""
    try:
        spec = find_spec("triton")
    except (ImportError, ValueError):
        spec = None
    folders = list(getattr(spec, "submodule_search_locations", None) or ())
    if any(os.path.exists(os.path.join(folder, "runtime", "jit.py")) for folder in folders):
        return ""
    if spec is None:
        return "Triton is not installed: its kernels cannot run here."
    taken = spec.origin or ", ".join(folders)
    return f"Python would import {taken} in place of Triton: rename it, then restart the kernel."


def explain_failed_launches() -> None:
    """Who finds no device (a launch, triton.testing.do_bench) is told why and what to do, before Triton's "0 active drivers".

    Only the words of a failure change: a driver that Triton finds is handed on untouched. Nothing to do before Triton is there.
    """
    module = sys.modules.get("triton.runtime.driver")
    create = getattr(module, "_create_driver", None)
    if create is None or getattr(create, "says_why", False):
        return

    def create_or_say_why():
        try:
            return create()
        except RuntimeError as error:
            now = state()
            if now.mode in ("cuda", "rocm"):
                raise
            more = " Nothing can be timed or asked of a device." if now.mode == "interpreter" else ""
            raise RuntimeError(f"{now.reason}{more} (Triton: {error})") from error

    create_or_say_why.says_why = True
    module._create_driver = create_or_say_why

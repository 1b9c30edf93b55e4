"""@triton.autotune without a device to time on: the first configuration that is valid, or the one asked for.

Valid  the first program meets nothing there that the compiler refuses: a block of 48, a tl.dot too small, a false static_assert.
       It runs on copies of the arguments. What else is wrong with a kernel is no matter of configurations: the launch tells it.
Said   the one that runs: `LaunchLedger.config`, and `best_config` as Triton names it. One that was passed over, and why: a line
       on stdout, once, and `LaunchLedger.notes`; for where that is refused, a GPU's autotuner may stop instead of going on
"""

import contextlib
import io
from collections.abc import Callable, Mapping
from typing import Any

from .mistakes.faults import KernelMistake, NotEmulated
from .recorded.replay import Copies
from .text.jit_functions import configurations


def choose(
    tuner: Any, args: tuple, kwargs: Mapping[str, Any], wanted: Mapping[str, Any], trial: Callable, target: str
) -> tuple[Any, list[str]]:
    """-> (the configuration to run, its pre_hook done; a sentence on each that was passed over).

    trial  trial(args, kwargs): run the first program only, uncounted; raises what it meets
    Where every configuration is refused, it is the first one, and the launch tells why.
    """
    candidates = tuner.prune_configs(dict(kwargs)) if len(tuner.configs) > 1 else tuner.configs
    name = tuner.base_fn.__name__
    candidates = configurations(name, candidates, wanted)
    passed: list[str] = []
    for config in candidates:
        _prepare(tuner, kwargs, config)
        why = _refusal(tuner, args, kwargs, config, trial, target) if len(candidates) > 1 else ""
        if not why:
            return config, passed
        passed.append(f"the configuration {config} was passed over: {why}")
    _prepare(tuner, kwargs, candidates[0])
    return candidates[0], []


def _prepare(tuner: Any, kwargs: Mapping[str, Any], config: Any) -> None:
    if config.pre_hook is not None:
        config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})


def _refusal(tuner: Any, args: tuple, kwargs: Mapping[str, Any], config: Any, trial: Callable, target: str) -> str:
    """Why the compiler would not take a configuration, or "". Asked once for each kind of arguments, and told once."""
    known = tuner.__dict__.setdefault("_course_refusals", {})
    kind = (target, str(config), *map(_kind, args), *((name, _kind(value)) for name, value in sorted(kwargs.items())))
    if kind not in known:
        known[kind] = ""
        copy = Copies()
        copied = tuple(map(copy, args)), {name: copy(value) for name, value in kwargs.items()} | config.all_kwargs()
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # what a kernel prints, the launch will print
                trial(*copied)
        except NotEmulated:
            pass
        except KernelMistake as mistake:
            if mistake.kind in ("refused", "error") or mistake.message.startswith("tl.static_assert"):
                known[kind] = str(mistake)
                print(f"autotune: the configuration {config} was passed over: {mistake}")
    return known[kind]


def _kind(value: Any) -> Any:
    """What of an argument a configuration's validity can depend on."""
    if hasattr(value, "dtype"):
        return str(value.dtype)
    return repr(value) if isinstance(value, (bool, int, float, str, tuple)) or value is None else type(value).__name__

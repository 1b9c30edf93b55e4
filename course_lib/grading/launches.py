"""Evidence from the launches of an attempt: replayed and compiled apart, and the answer must follow from them.

Recorded beside the learner's code (inside/attempt.py), judged here: each tape is run again in a clean process, from the judge's
own copies of the inputs. What a forged tape says beyond its kernels counts for nothing, because the replay's answer is judged.
Not covered  answers so small that they fit into the numbers that any kernel is told (limit: interpreter/recorded/told.py):
             an exercise has a case with an answer of 1000 elements or more; code that escapes from the process that replays a
             recorded text, which is the sandbox's to stop.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from .criteria import Compiled, Criterion
from .exercise import Exercise
from .inside.border import Opaque, pack, short, unpack
from .inside.quiet import Quiet
from .judging import Job
from .launch_answer import NO_KERNEL, difference, not_of_the_launches, places, replaced
from .launch_compile import compiled
from .outcome import Kind

REPLAY_SECONDS = 120.0  # at least; interpreting with the ledger on is a few times slower than without
NOT_RECORDED = "launches were not recorded here: Triton or the course's interpreter cannot be imported"
HOST_WORK = "Let kernels compute it. Torch may allocate, fill with one value and make views; a converted copy is work as well."
Attempt = Mapping[str, Any]


def with_launch_evidence(
    exercise: Exercise, cell: str, jobs: Sequence[Job], attempts: Sequence[Attempt], runner: ModuleType, *, cached: bool
) -> list[Attempt]:
    """The attempts, with evidence in those whose criterion asks for launches. One process replays them all.

    runner  the exercise's runner, which is asked what it hands to the learner's function
    cached  take finished compile reports from the user's cache (which a learner can write to)
    """
    criteria, out, waiting = exercise.in_cell(cell), list(attempts), []
    for place, (job, attempt) in enumerate(zip(jobs, attempts, strict=True)):
        criterion = criteria[job.criterion]
        if criterion.launches:
            early = _without_replay(attempt)
            out[place] = {**attempt, "evidence": early, "launches": None}
            # an answer that is wrong is told so, and no replay could add to it
            if early is None and attempt["status"] == "returned" and not criterion.mistake(job.case, attempt):
                waiting.append(place)
    found = _replayed([(criteria[jobs[i].criterion], jobs[i].case, attempts[i]) for i in waiting], exercise, runner, cached)
    for place, evidence in zip(waiting, found, strict=True):
        out[place] = {**out[place], "evidence": evidence}
    return out


def wants_launches(exercise: Exercise, cell: str) -> bool:
    return any(criterion.launches for criterion in exercise.in_cell(cell))


def inputs_of(run: Any, case: dict) -> list[Any]:
    """The tensors that a runner hands to the learner's function, layout and all: it is called with a function that looks."""
    from ..interpreter.recorded.replay import Copies

    seen: list[Any] = []

    def look(*args: Any, **kwargs: Any) -> None:
        copy = Copies()
        seen.extend(copy(tensor) for tensor in _tensors([*args, *kwargs.values()]))

    with Quiet():
        try:
            run(look, unpack(pack(case)))
        except Exception:  # what it does with the answer that it did not get
            return seen
    return seen


def _buffers(inputs: Sequence[Any], may_change: Sequence[Any]) -> list[Any]:
    """Those of the inputs that hold what the case has for one that may be changed."""
    wanted = [pack(value) for value in may_change]
    return [tensor for tensor in inputs if pack(tensor) in wanted]


def _without_replay(attempt: Attempt) -> dict | None:
    """Evidence of an attempt whose launches cannot be replayed; None for one whose launches can."""
    launches = attempt["launches"]
    if attempt["status"] != "returned":
        return None
    if not isinstance(launches, dict):
        return {"blocked": NOT_RECORDED}
    if "blocked" in launches:
        return {"blocked": str(launches["blocked"])}
    if "refused" in launches:
        return {"failed": str(launches["refused"])}
    tape = launches.get("tape")
    if not isinstance(tape, dict) or not isinstance(tape.get("launches"), list) or not _is_plain(launches):
        return {"failed": "the recording of the launches is damaged"}
    return {"failed": NO_KERNEL} if not tape["launches"] and _holds_values(attempt["output"]) else None


def _holds_values(output: Any) -> bool:
    return any(tensor.numel() for tensor in _tensors(output))


def _replayed(
    cases: Sequence[tuple[Criterion, dict, Attempt]], exercise: Exercise, runner: ModuleType, cached: bool
) -> list[dict]:
    if not cases:
        return []
    from ..interpreter.recorded.replay import Recording, replay_all

    recordings = []
    for criterion, case, attempt in cases:
        tape, answer = attempt["launches"]["tape"], attempt["launches"].get("answer")
        inputs = inputs_of(getattr(runner, criterion.run), case)
        buffers = _buffers(inputs, [case[name] for name in criterion.may_change if name in case])
        options = {"inputs": inputs, "buffers": buffers, "may_compute": tuple(criterion.may_compute)}
        recordings.append(Recording(tape=tape, answer=answer, **options))
    replays = replay_all(recordings, seconds=max(REPLAY_SECONDS, 4 * exercise.seconds))
    found = [_judged(*case, replay) for case, replay in zip(cases, replays, strict=True)]
    good = [i for i, (criterion, *_) in enumerate(cases) if isinstance(criterion, Compiled) and "failed" not in found[i]]
    good = [i for i in good if "blocked" not in found[i]]
    for i, evidence in zip(good, compiled([cases[i] for i in good], cached), strict=True):
        found[i] = evidence
    return found


def _judged(criterion: Criterion, case: dict, attempt: Attempt, replay: Any) -> dict:
    try:
        return _evidence(criterion, case, attempt, replay)
    except Exception as error:  # a forged recording has any shape
        return {"failed": f"the recording of the launches does not fit the answer ({type(error).__name__}: {short(error, 100)})"}


def _evidence(criterion: Criterion, case: dict, attempt: Attempt, replay: Any) -> dict:
    """Whether the answer follows from its launches, and what they cost."""
    if replay.reason:
        hint = HOST_WORK if "no launch of yours wrote" in replay.reason else ""
        return {"blocked" if replay.blocked else "failed": replay.reason, "hint": hint}
    leaves = list(places(attempt["output"], attempt["launches"].get("answer")))
    if why := not_of_the_launches(leaves, not replay.launches):
        return {"failed": why, "hint": "What your kernels store is the answer; return the tensor that they stored to."}
    if replay.copied:
        what = "they are a copy of an input, or were computed on the host"
        return {"failed": f"{replay.copied} elements of your answer were written by no launch: {what}; first {replay.first}"}
    if differs := difference(attempt["output"], replay.output):
        mistake = criterion.check(case, replaced(attempt["output"], replay.output))
        if mistake:
            return {
                "failed": f"your launches, run again on their own, do not give your answer: {differs}",
                "hint": "What wrote to it beside your kernels?",
            }
    counts = dict(replay.counts)
    return {"counts": counts} if criterion.kind is Kind.COUNTED else {"launches": counts["launches"]}


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "untyped_storage"):
        yield value


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return not isinstance(value, (Opaque, bytes))

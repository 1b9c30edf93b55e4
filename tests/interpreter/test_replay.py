"""Launches recorded here and run again in a clean process: honest ones give the same bits, and what they do not compute shows.

All recordings that a clean process can take are replayed by one process: starting it costs more than all of them.
"""

import copy
import os
from pathlib import Path

import pytest
import torch

from course_lib.interpreter.mistakes import canary
from course_lib.interpreter.recorded import replay_process
from course_lib.interpreter.recorded.recording import record
from course_lib.interpreter.recorded.replay import Recording, replay, replay_all
from course_lib.interpreter.recorded.replay_memory import ReplayMemory, Unexplained

from . import replay_answers as answers

X = torch.randn(100, generator=torch.Generator().manual_seed(3))
GAPS = torch.full((40, 3), float("nan"))
GAPS[:, 1] = torch.randn(40, generator=torch.Generator().manual_seed(4))
SQUARE = torch.randn(16, 16, generator=torch.Generator().manual_seed(5))
Q, K = (torch.randn(n, 16, generator=torch.Generator().manual_seed(n)) for n in (3, 37))

NINES = torch.full((100,), 9.0)

HONEST = {  # answer -> (inputs, what it must give)
    answers.plain: ([X], X * 2),
    answers.two_halves: ([X], X * 2),
    answers.in_a_thread: ([X], X * 2),
    answers.tuned: ([X], X * 2),
    answers.applied: ([X], X * 2),
    answers.accumulated: ([X], X * 2),
    answers.strided_columns: ([SQUARE], SQUARE[:, 1]),
    answers.of_a_contiguous_copy: ([GAPS[:, 1]], GAPS[:, 1]),
    answers.as_strided: ([X], X[1::2] * 2),
    answers.attention_weights: ([Q, K], None),
    answers.into_a_buffer_of_last_time: ([X], X * 2),
    answers.in_place: ([X, NINES], X * 2),
    answers.nothing: ([X[:0]], X[:0]),
    answers.described: ([SQUARE], SQUARE * 2),
    answers.reinterpreted: ([X], X),
    answers.only_some_rows: ([X], torch.stack([X * 2, X * 0])),
}
GIVEN_VALUES = "holds values that no launch of yours wrote and that are no input: 100 of 100 elements, first at index 0"
CHEATS = {  # answer -> the reason
    answers.copied_by_a_kernel: f"launch 1 (copy_kernel): argument src_ptr {GIVEN_VALUES}",
    answers.by_numpy_and_a_kernel: f"launch 1 (copy_kernel): argument src_ptr {GIVEN_VALUES}",
    answers.looked_at: f"launch 1 (look_kernel): argument x_ptr {GIVEN_VALUES}",
    answers.helped_between: f"launch 2 (copy_kernel): argument src_ptr {GIVEN_VALUES}",
    answers.data_as_numbers: "its arguments hold 100 numbers, 100 of them floats; the limits are 256 and 16",
    answers.added_by_atomics: f"launch 1 (atomic_kernel): argument acc_ptr {GIVEN_VALUES}",
    answers.part_of_a_buffer_of_last_time: "your answer holds values that no launch of yours wrote and that are no input: 2 of",
    answers.reversed_by_index: f"argument where_ptr {GIVEN_VALUES}",
}


def fresh(tensor):
    """A copy with the same layout, gaps included."""
    whole = torch.tensor([]).set_(tensor.untyped_storage()).clone()
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def recorded(answer, inputs, **options):
    mine = [fresh(tensor) for tensor in inputs]
    with record() as tape:
        output = answer(*mine)
    located = tape.locate(output)
    return output, Recording(tape=tape.data(), answer=located, inputs=inputs, **options)


def forged(**changes):
    """The recording of `plain`, with fields of its kernel (or launch) changed."""
    output, one = recorded(answers.plain, [X])
    tape = copy.deepcopy(one.tape)
    tape["kernels"][0] |= {key: value for key, value in changes.items() if key in tape["kernels"][0]}
    tape["launches"][0] |= {key: value for key, value in changes.items() if key in tape["launches"][0]}
    return output, Recording(tape=tape, answer=one.answer, inputs=one.inputs)


def forged_cases():
    text = recorded(answers.plain, [X])[1].tape["kernels"][0]["text"]
    arguments = recorded(answers.plain, [X])[1].tape["launches"][0]["arguments"]
    beyond = {"x_ptr": arguments["x_ptr"] | {"size": [101]}}
    unknown = {"x_ptr": arguments["x_ptr"] | {"storage": 7}}
    return {
        "another text": forged(text=text.replace("x * ", "x + ")),
        "an import": forged(text="import os\n" + text),
        "a grid beyond": forged(grid=[5, 1, 1], text=text.replace("mask=live", "mask=index >= 0")),
        "a tensor beyond": forged(arguments=arguments | beyond),
        "no such storage": forged(arguments=arguments | unknown),
        "no arguments": forged(arguments={}),
    }


@pytest.fixture(scope="module")
def replays():
    """name of the answer -> (what it returned, its replay)."""
    found = {answer.__name__: recorded(answer, inputs) for answer, (inputs, _) in HONEST.items()}
    found |= {answer.__name__: recorded(answer, [X]) for answer in CHEATS}
    found |= {answer.__name__: recorded(answer, [X]) for answer in (answers.finished_by_torch, answers.one_number)}
    found["clone_of_the_input"] = recorded(answers.clone_of_the_input, [X])
    for name, buffers in (("a buffer", [NINES]), ("no buffer", [])):
        found[name] = recorded(answers.some_slots, [X, NINES], buffers=buffers)
    found["with metadata"] = recorded(answers.reversed_by_index, [X], may_compute=("where_ptr",))
    found |= forged_cases()
    replays = replay_all([one for _, one in found.values()])
    return {name: (output, one) for (name, (output, _)), one in zip(found.items(), replays, strict=True)}


@pytest.mark.parametrize("answer", HONEST, ids=lambda a: a.__name__)
def test_honest_launches_give_the_same_bits_again(replays, answer):
    output, again = replays[answer.__name__]
    assert again.reason == ""
    assert again.copied == 0
    pairs = [(output, again.output)]
    if answer is answers.attention_weights:
        assert again.output["again"][1] is None
        pairs = [(output["weights"], again.output["weights"]), (output["again"][0], again.output["again"][0])]
        # fp32 sums of 37 weights
        torch.testing.assert_close(output["weights"].sum(1), torch.ones(3), rtol=0, atol=1e-6)
    for mine, theirs in pairs:
        assert torch.equal(mine, theirs)
    expected = HONEST[answer][1]
    assert expected is None or torch.equal(again.output, expected)


def test_a_triton_chosen_by_pythonpath_replays_and_nothing_else_of_that_path_does(monkeypatch, tmp_path):
    chosen, other = tmp_path / "chosen", tmp_path / "other"
    (chosen / "triton").mkdir(parents=True)
    (chosen / "triton" / "__init__.py").write_text("raise RuntimeError('the Triton of PYTHONPATH')")
    other.mkdir()
    (other / "torch.py").write_text("raise RuntimeError('the torch of PYTHONPATH')")
    one = recorded(answers.plain, [X])[1]
    monkeypatch.setenv("PYTHONPATH", str(other))
    assert replay_all([one])[0].reason == ""
    monkeypatch.setenv("PYTHONPATH", f"{other}{os.pathsep}{chosen}")
    assert "the Triton of PYTHONPATH" in replay_all([one])[0].reason


@pytest.mark.parametrize("answer", CHEATS, ids=lambda a: a.__name__)
def test_values_from_outside_the_launches_are_told(replays, answer):
    output, again = replays[answer.__name__]
    assert CHEATS[answer] in again.reason
    assert torch.equal(output, X * 2) or answer is answers.reversed_by_index  # the cheat itself works


def test_what_the_exercise_allows_the_host_to_compute_passes(replays):
    assert replays["with metadata"][1].reason == ""
    assert torch.equal(replays["with metadata"][1].output, X.flip(0))


def test_counts_are_those_of_the_ledger_added_up(replays):
    counts = replays["accumulated"][1].counts
    assert counts["launches"] == 4
    assert counts["loaded_bytes"] == 4 * 2 * 100 * 4
    assert counts["stored_bytes[acc_ptr]"] == 4 * 100 * 4
    assert replays["nothing"][1].counts["loaded_bytes"] == 0
    assert replays["tuned"][1].counts["programs"] == 4  # 100 elements in blocks of 32, the first configuration


def test_lines_of_a_replayed_launch_are_those_of_its_own_file(replays):
    (launch,) = replays["plain"][1].launches
    assert {line.file for line in launch.lines} == {answers.__file__}
    source = Path(answers.__file__).read_text().splitlines()
    assert all(source[line.number - 1].strip() == line.text for line in launch.lines)


def test_what_torch_does_after_the_last_launch_is_no_part_of_the_replay(replays):
    output, again = replays["finished_by_torch"]
    assert again.reason == ""
    assert torch.equal(output, X * 2)
    assert torch.equal(again.output, X)


@pytest.mark.parametrize(("name", "count"), [("clone_of_the_input", 100), ("one_number", 1)])
def test_elements_that_no_launch_wrote_are_counted(replays, name, count):
    _, again = replays[name]
    assert (again.reason, again.copied, again.first) == ("", count, "the answer[0]")


def test_what_a_launch_leaves_of_a_buffer_may_stand_in_the_answer(replays):
    _, again = replays["a buffer"]
    assert (again.reason, again.copied) == ("", 0)
    assert torch.equal(again.output, torch.cat([X[:50] * 2, NINES[50:]]))
    assert replays["no buffer"][1].copied == 50
    assert replays["no buffer"][1].first == "the answer[50]"


def test_another_text_than_the_one_that_ran_shows_in_the_output(replays):
    output, again = replays["another text"]
    assert torch.equal(output, X * 2)
    assert torch.equal(again.output, X + 2)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("an import", "uses the module os; a graded kernel uses triton and math only"),
        ("a grid beyond", "line 23 `tl.store(out_ptr + index"),
        ("a tensor beyond", "cannot be replayed (Damaged: a tensor of [101] that ends beyond its storage of 400 bytes"),
        ("no such storage", "cannot be replayed (Damaged: storage 7 of 2"),
        ("no arguments", "missing"),
    ],
)
def test_a_forged_recording_is_refused(replays, name, words):
    assert words in replays[name][1].reason


def test_memory_of_a_replay_holds_nothing_of_what_lay_there_before():
    """A recorded value is compared with it: what a freed buffer had left would pass as explained."""
    for _ in range(20):
        torch.full((4096,), 7, dtype=torch.uint8)
        memory = ReplayMemory([4096], [])
        memory.find({"storage": 0, "bytes": torch.arange(4096).to(torch.uint8)})
        place = {"storage": 0, "dtype": "float32", "offset": 0, "size": [1024], "stride": [1]}
        with pytest.raises(Unexplained, match="1024 of 1024 elements, first at index 0"):
            memory.explain("argument x_ptr", place, False)
        assert memory.tensor(place | {"dtype": "int64", "size": [512]}).unique().tolist() == [canary.WORD]


def test_a_kernel_without_end_is_stopped_at_the_limit():
    text = recorded(answers.plain, [X])[1].tape["kernels"][0]["text"]
    endless = text.replace("    live = index < n\n", "    live = index < n\n    while n > 0:\n        n = n + 0\n")
    _, one = forged(text=endless)
    again = replay(one.tape, [X], seconds=0.5)
    assert again.blocked
    assert "ran longer than 0.5 s" in again.reason


def test_a_clean_process_has_no_variable_of_the_learners_triton(monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", "/nowhere")
    seen = {}

    class Popen(replay_process.subprocess.Popen):
        def __init__(self, *args, env, **kwargs):
            seen.update(env)
            super().__init__(["true"], **{k: v for k, v in kwargs.items() if k != "cwd"})

    monkeypatch.setattr(replay_process.subprocess, "Popen", Popen)
    _, end = replay_process.run([{}], 1)
    assert "ended with exit code 0" in end
    assert {k: v for k, v in seen.items() if k.startswith("TRITON_")} == {"TRITON_INTERPRET": "1"}
    assert seen["CUDA_VISIBLE_DEVICES"] == ""

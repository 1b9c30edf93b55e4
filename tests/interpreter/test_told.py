"""What launches are told besides their inputs is limited by the size of the answer: results do not travel in numbers or texts."""

import importlib.util

import pytest
import torch

from course_lib.interpreter.recorded.recording import record
from course_lib.interpreter.recorded.replay import Recording, replay, replay_all
from course_lib.interpreter.recorded.told import Told, bits_of

from . import told_answers as answers

X = torch.arange(1504.0) + 3  # 1504 fp32: the limit is 1504 * 32 / 8 bits
TOO_MUCH = "in numbers, constants, texts, fills and offsets; for an answer of this size the limit is 6,016"
HONEST = (answers.in_one_launch, answers.in_pieces, answers.in_chunks_that_are_cleared)
CHEATS = (
    answers.in_a_text, answers.in_one_number, answers.in_integers, answers.in_floats_of_many_launches, answers.in_fills,
    answers.in_offsets, answers.in_metadata,
)  # fmt: skip


@pytest.fixture(scope="module")
def replays():
    """name of the answer -> (what it returned, its replay)."""
    found = {}
    for answer in (*HONEST, *CHEATS):
        mine = X.clone()
        with record() as tape:
            output = answer(mine)
        one = Recording(tape=tape.data(), answer=tape.locate(output), inputs=[X], may_compute=("src_ptr",))
        found[answer.__name__] = output, one
    again = replay_all([one for _, one in found.values()])
    return {name: (output, one) for (name, (output, _)), one in zip(found.items(), again, strict=True)}


@pytest.mark.parametrize("answer", HONEST, ids=lambda a: a.__name__)
def test_honest_launches_are_told_little(replays, answer):
    output, again = replays[answer.__name__]
    assert again.reason == ""
    assert torch.equal(again.output, X * 2)
    assert torch.equal(output, X * 2)


@pytest.mark.parametrize("answer", CHEATS, ids=lambda a: a.__name__)
def test_a_result_that_travels_beside_the_tensors_is_refused(replays, answer):
    output, again = replays[answer.__name__]
    assert torch.equal(output, X * 2)  # the cheat itself works
    assert TOO_MUCH in again.reason


@pytest.mark.parametrize(
    ("value", "bits"), [(0, 1), (True, 1), (-5, 3), (2**70, 71), (1.0, 2), (float("inf"), 2), (0.3, 32), ("ieee", 32), (None, 0)]
)
def test_bits_of_a_constant(value, bits):
    assert bits_of(value) == bits


def launch(*values, kernel=0):
    arguments = {f"a{place}": {"kind": "number", "value": value} for place, value in enumerate(values)}
    return {"kernel": kernel, "grid": [1, 1, 1], "arguments": arguments}


def test_what_stays_the_same_is_told_once():
    told = Told()
    told.launch(launch(1000, 7))
    first = told.bits
    assert first == 8 + 10 + 3 + 3 * 1  # the launch, two numbers, the grid
    told.launch(launch(1000, 7))
    assert told.bits - first == 8
    told.launch(launch(1000, 15))
    assert told.bits - first == 8 + 8 + 4
    told.launch(launch(1000, 15, kernel=1))  # another kernel has not heard it
    assert told.bits - first == 8 + 8 + 4 + 8 + 10 + 4 + 3


def test_a_text_is_told_by_its_constants_and_a_function_once():
    told = Told()
    told.text('def helper(x):\n    """A long docstring that says nothing to a kernel."""\n    return x * 255\nT = (0.5, "ab")\n')
    first = told.bits
    assert first == 8 + 32 + 16 + 10 // 2 + 5 // 2  # constants, and nodes of the function and of the assignment
    told.text("def helper(x):\n    '''Another.'''\n    return x * 255\nU = 1\n")
    assert told.bits == first + 8 + 10 // 2 + 1 + 3 // 2  # another docstring makes it another function
    told.text("U = 1\n")
    assert told.bits == first + 8 + 10 // 2 + 1 + 3 // 2


def test_a_generated_kernel_that_says_a_result_in_its_structure_is_refused(tmp_path):
    """Each value as doublings and increments of 0: no constant but 1 in the text."""
    x = torch.arange(400.0) * 3000
    lines = ["def generated(out_ptr):", "    here = out_ptr"]
    for value in (x * 2).long().tolist():
        said = "tl.program_id(0)"
        for bit in f"{value:b}":
            said = f"{('same', 'next')[int(bit)]}({said})"
        lines += [f"    tl.store(here, {said}.to(tl.float32))", "    here = here + 1"]
    helpers = "@triton.jit\ndef same(x):\n    return x + x\n\n\n@triton.jit\ndef next(x):\n    return x + x + 1\n\n\n"
    file = tmp_path / "generated_kernel.py"
    file.write_text("import triton\nimport triton.language as tl\n\n\n" + helpers + "@triton.jit\n" + "\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location("generated_kernel", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = torch.empty(400)
    with record() as tape:
        module.generated[(1,)](out)
    assert torch.equal(out, x * 2)
    again = replay(tape.data(), [x], answer=tape.locate(out))
    assert "bits besides the inputs" in again.reason

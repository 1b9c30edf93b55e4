"""Launches of compiled kernels are recorded on the device and replayed on the CPU: new memory is known, tuning is not seen."""

import pytest
import torch

from course_lib.interpreter import ledger_of
from course_lib.interpreter.recorded.recording import record
from course_lib.interpreter.recorded.replay import Recording, replay_all
from tests.interpreter import replay_answers as answers

pytestmark = pytest.mark.gpu

HONEST = [answers.plain, answers.tuned, answers.in_a_thread, answers.accumulated]
CHEATS = [answers.copied_by_a_kernel, answers.looked_at, answers.helped_between]


@pytest.fixture(scope="module")
def replays():
    x = torch.randn(100, generator=torch.Generator().manual_seed(3))
    torch.full((4096,), 5.0, device="cuda")  # memory that torch.empty gets next holds values
    found = {}
    for answer in (*HONEST, *CHEATS):
        with record() as tape:
            output = answer(x.cuda())
        found[answer] = output.cpu(), Recording(tape=tape.data(), answer=tape.locate(output), inputs=[x])
    replays = replay_all([one for _, one in found.values()])
    return {answer: (output, one, again) for (answer, (output, one)), again in zip(found.items(), replays, strict=True)}


@pytest.mark.parametrize("answer", HONEST, ids=lambda a: a.__name__)
def test_a_compiled_launch_gives_the_same_on_the_cpu(replays, answer):
    output, one, again = replays[answer]
    assert again.reason == ""
    assert one.tape["compiled"]
    assert again.copied == 0
    assert torch.equal(again.output, output)  # doubling is exact


def test_an_autotuners_measurements_are_no_launches(replays):
    assert len(replays[answers.tuned][1].tape["launches"]) == 1


@pytest.mark.parametrize("answer", CHEATS, ids=lambda a: a.__name__)
def test_work_of_torch_is_told(replays, answer):
    assert "holds values that no launch of yours wrote" in replays[answer][2].reason


def test_the_ledger_of_a_compiled_kernel_leaves_the_device_alone():
    x, out = torch.randn(100, device="cuda"), torch.full((100,), 5.0, device="cuda")
    book = ledger_of(answers.double_kernel, x, out, 100, grid=(4,), BLOCK=32)
    assert (book.total.loaded_bytes, book.total.stored_bytes) == (400, 400)
    assert out.tolist() == [5.0] * 100

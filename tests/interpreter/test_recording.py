"""What `record` writes down, what it refuses, and the ledger of one launch wherever it is asked for."""

import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl

from course_lib.grading.inside.border import pack, unpack
from course_lib.interpreter import switch
from course_lib.interpreter.mistakes.faults import KernelMistake
from course_lib.interpreter.recorded.recorded_arguments import RecordingError
from course_lib.interpreter.recorded.recording import record
from course_lib.interpreter.recorded.replay import ledger_of
from course_lib.interpreter.text.kernel_text import RefusedText, check_text, constant

from . import replay_answers as answers

X = torch.arange(100.0)


def test_a_recording_crosses_the_border_whole():
    with record() as tape:
        output = answers.attention_weights(torch.randn(2, 16), torch.randn(37, 16))
    data = {"tape": tape.data(), "answer": tape.locate(output)}
    again = unpack(pack(data))
    assert [launch["grid"] for launch in again["tape"]["launches"]] == [[2, 1, 1], [2, 1, 1]]
    assert [kernel["name"] for kernel in again["tape"]["kernels"]] == ["scores_kernel", "softmax_kernel"]
    assert again["answer"]["items"]["weights"]["size"] == [2, 37]
    assert again["answer"]["items"]["again"]["items"][0]["offset"] == 0
    assert pack(again) == pack(data)


def test_memory_is_written_down_once_for_each_change_from_outside():
    x, out = X.clone(), torch.zeros(100)
    with record() as tape:
        answers.in_place(x, out)
        answers.in_place(x, out)
        x[3] = 7.0
        answers.in_place(out, x)
    first, second, third = (launch["found"] for launch in tape.data()["launches"])
    assert [entry["storage"] for entry in first] == [0, 1]
    assert first[1]["word"] == 0
    assert second == []
    ((entry,),) = (third,)
    changed = entry["changed"].tolist()
    assert entry["storage"] == 0
    assert sum(bin(byte).count("1") for byte in changed) <= 4  # bytes of one float32


def test_two_equal_launches_share_one_text_and_a_redefined_kernel_gets_its_own(tmp_path):
    space = {"__name__": "notebook"}
    for number, factor in enumerate((2, 3, 3)):
        file = tmp_path / f"cell_{number}.py"
        file.write_text(
            "import triton, triton.language as tl\n@triton.jit\ndef scale(x_ptr, out_ptr, F: tl.constexpr):\n"
            f"    tl.store(out_ptr, tl.load(x_ptr) * F * {factor})\n"
        )
        exec(compile(file.read_text(), str(file), "exec"), space)
        space.setdefault("kernels", []).append(space["scale"])
    with record() as tape:
        for kernel in (space["kernels"][0], *space["kernels"]):
            kernel[(1,)](X, torch.empty(1), F=2)
    assert [launch["kernel"] for launch in tape.data()["launches"]] == [0, 0, 1, 2]  # the third stands in a file of its own


def test_too_much_memory_is_refused_and_the_launch_runs_all_the_same():
    x = torch.randn(1000)
    with record(max_bytes=1000) as tape:
        output = answers.plain(x)
    assert torch.equal(output, x * 2)
    with pytest.raises(RecordingError, match="double_kernel cannot be recorded: its launches are given more than"):
        tape.data()


@triton.jit
def unwritable_kernel(out_ptr, settings: tl.constexpr):
    tl.store(out_ptr, 1.0)


class Settings:
    """A constant that cannot be written down."""


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (lambda: unwritable_kernel[(1,)](torch.empty(1), Settings()), "argument settings is a Settings"),
        (lambda: answers.in_place(*overlapping()), "two of its tensors were made from the same memory outside torch"),
    ],
)
def test_what_cannot_be_recorded_is_told(launch, words):
    with record() as tape:
        launch()
    with pytest.raises(RecordingError, match=words):
        tape.data()


def overlapping():
    """(tensor, tensor): the second begins in the middle of the first, and torch does not know."""
    array = torch.zeros(200).numpy()
    return torch.from_numpy(array)[:100], torch.from_numpy(array[100:])


def test_a_launch_that_python_refuses_is_not_on_the_tape():
    with record() as tape, pytest.raises(TypeError):
        answers.double_kernel[(1,)](X)
    assert tape.data()["launches"] == []


def test_a_mistake_goes_on_to_whoever_launched():
    with record(), pytest.raises(KernelMistake, match="cannot load"):
        answers.copy_kernel[(1,)](X, torch.empty(200), 200, 1, BLOCK=256)


def test_after_the_block_everything_is_as_it_was():
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    was_on = switch.enabled()
    before = JITFunction.run, Autotuner._bench, Autotuner.run, InterpretedFunction.run, torch.empty
    with record() as tape:
        assert JITFunction.run is not before[0]
    with pytest.raises(ZeroDivisionError), record():
        _ = 1 / 0
    assert (JITFunction.run, Autotuner._bench, Autotuner.run, InterpretedFunction.run, torch.empty) == before
    assert switch.enabled() == was_on
    answers.plain(X)
    assert tape.data()["launches"] == []


# -- what a clean process may be told to run --------------------------------------------------------------------------------

HEAD = "import triton as _triton\nimport triton.language as tl\n"
KERNEL = "@_triton.jit\ndef kernel(x_ptr, N: 'constexpr' = 4):\n    "

HELPER = "@_triton.constexpr_function\ndef helper(n):\n    "


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "SIZE = (3, -1.5, float('inf'))\n" + KERNEL + "tl.store(x_ptr, tl.cdiv(SIZE[0], N) + max(N, len(SIZE)))\n",
        HEAD + KERNEL + "tl.store(x_ptr, tl.maximum(N, 2, propagate_nan=tl.PropagateNan.ALL))\n",
        HEAD + "import math as math\n" + KERNEL + "tl.store(x_ptr, tl.math.exp2(1.0) * math.pi)\n",
        HEAD + "from triton.language.standard import zeros as zeros\n" + KERNEL + "tl.store(x_ptr, tl.sum(zeros((N,), N)))\n",
        HEAD + "from triton.language.extra import libdevice\n" + KERNEL + "tl.store(x_ptr, libdevice.tanh(1.0))\n",
        HEAD + "@_triton.constexpr_function\ndef half(n):\n    return n // 2\n" + KERNEL + "tl.store(x_ptr, half(N))\n",
    ],
)
def test_texts_that_kernels_need_are_accepted(text):
    check_text(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os as os\n" + HEAD + KERNEL + "os.getcwd()\n", "the module os"),
        (HEAD + KERNEL + "import os\n", "the kernel imports"),
        (HEAD + KERNEL + "__import__('os').getcwd()\n", "__import__"),
        (HEAD + KERNEL + "_triton.runtime.jit.os.getcwd()\n", "reaches the module triton.runtime"),
        (HEAD + KERNEL + "tl.core.inspect.stack()\n", "reaches the module inspect"),
        (HEAD + "from triton.runtime.jit import os\n" + KERNEL + "pass\n", "the module triton.runtime.jit"),
        (HEAD + "from triton import compile\n" + KERNEL + "compile(1)\n", "no part of Triton's language"),
        (HEAD + KERNEL + "().__class__\n", "the attribute __class__"),
        (HEAD + HELPER + "return (i for i in ()).gi_frame.f_builtins['open']\n", "the attribute (gi_frame|f_builtins)"),
        (HEAD + HELPER + "m = tl.core\n    return m.inspect\n", "the attribute inspect"),
        (HEAD + KERNEL + "helper.pre_run_hooks.append(1)\n" + HELPER + "pass\n", "the attribute pre_run_hooks"),
        (HEAD + KERNEL + "x_ptr.handle\n", "the attribute handle"),
        (HEAD + HELPER + "return '{0.gi_frame}'.format(n)\n", "the attribute format"),
        (HEAD + HELPER + "_language.load = n\n", "no kernel needs"),
        (HEAD + HELPER + "n[0] = 1\n", "no kernel needs"),
        (HEAD + "BOX = _language.constexpr([])\n" + HELPER + "BOX.value.append(n)\n", "a constant is a tuple"),
        (HEAD + "@_triton.constexpr_function\ndef helper(n, box=[]):\n    box.append(n)\n", "has the default"),
        (HEAD + HELPER + "tl.float32.SINT_TYPES.append(n)\n", "the attribute SINT_TYPES"),
        (HEAD + HELPER + "n.shape.values.append(n)\n", "the attribute values"),
        (HEAD + HELPER + "match n:\n        case tuple(append=f):\n            pass\n", "no kernel needs"),
        (HEAD + KERNEL + "open('x')\n", "uses open"),
        (HEAD + KERNEL + "eval('1')\n", "uses eval"),
        (HEAD + "e = eval\n" + KERNEL + "e('1')\n", "uses eval"),
        (HEAD + "X = open('f')\n" + KERNEL + "pass\n", "which is no constant"),
        (HEAD + "open('f')\n" + KERNEL + "pass\n", "it may hold kernels, helpers and constants"),
        (HEAD + "@open\n" + KERNEL + "pass\n", "is decorated with"),
        (HEAD + "@_triton.jit\ndef kernel(x=open('f')):\n    pass\n", "has the default"),
        (HEAD + "@_triton.jit\ndef kernel(x: open('f')):\n    pass\n", "annotates x"),
        (HEAD + "class A:\n    pass\n", "it may hold kernels"),
        (HEAD + KERNEL + "global y\n", "global y"),
        ("X = __import__('os').sep\n", "which is no constant"),
        ("X = __import__('triton.language', fromlist=[open('f')]).dtype\n", "uses open|no constant|imports by"),
        (HEAD + "TABLE = (" + "1.5, " * 2000 + ")\n" + KERNEL + "pass\n", "2,001 numbers, the limit is 1,000"),
        ("def (", "is no Python"),
        ("#" * 300_000, "300,000 characters"),
    ],
)
def test_texts_that_reach_beyond_triton_are_refused(text, words):
    with pytest.raises(RefusedText, match=words):
        check_text(text)


def test_fields_of_the_arguments_may_be_read_unless_they_lead_elsewhere():
    check_text(HEAD + KERNEL + "tl.store(x_ptr, N.start)\n", ["start"])
    with pytest.raises(RefusedText, match="the attribute start"):
        check_text(HEAD + KERNEL + "tl.store(x_ptr, N.start)\n")
    for name in ("gi_frame", "inspect", "fn", "handle", "f_builtins", "pre_run_hooks"):
        with pytest.raises(RefusedText, match=f"the attribute {name}"):
            check_text(HEAD + KERNEL + f"tl.store(x_ptr, N.{name})\n", [name])


@pytest.mark.parametrize("expression", ["None", "-3", "(1, 'a', [2.5])", "_language.dtype('fp32')", "_language.constexpr(4)"])
def test_constants_come_back_equal(expression):
    from course_lib.interpreter.text.kernel_constants import expression as write

    assert write(constant(expression)) == expression


@pytest.mark.parametrize("expression", ["open('f')", "(1).__class__", "x", "_language.core", "[i for i in (1,)]", "f(", "1 or 2"])
def test_what_is_no_constant_is_not_evaluated(expression):
    with pytest.raises(RefusedText):
        constant(expression)


# -- the ledger of one launch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_child", [False, True])
def test_the_ledger_of_a_launch_leaves_its_arguments_alone(in_child):
    out = torch.full((100,), 5.0)
    found = ledger_of(answers.double_kernel, X, out, 100, grid=(4,), BLOCK=32, in_child=in_child, pictures=True)
    assert (found.total.loaded_bytes, found.total.stored_bytes, found.grid) == (400, 400, (4, 1, 1))
    assert found.touched["out_ptr"].writer.tolist() == [i // 32 for i in range(100)]
    assert {line.file for line in found.lines} == {answers.__file__}
    assert torch.equal(out, torch.full((100,), 5.0))


def test_both_ways_count_alike_and_take_the_configuration_asked_for():
    options = {"grid": lambda meta: (triton.cdiv(100, meta["BLOCK"]),), "config": {"BLOCK": 64}}
    here, there = (ledger_of(answers.tuned_kernel, X, torch.empty(100), 100, in_child=c, **options) for c in (False, True))
    assert here.counts() == there.counts()
    assert here.sites == there.sites
    assert here.grid == (2, 1, 1)
    assert here.config == there.config != ""


COMPILED = """
import torch, triton
from course_lib.interpreter import ledger_of
from tests.interpreter import replay_answers as answers
x, out = torch.arange(100.0), torch.full((100,), 5.0)
assert type(answers.copy_kernel).__name__ == "JITFunction"
book = ledger_of(answers.tuned_kernel, x, out, 100, grid=lambda meta: (triton.cdiv(100, meta["BLOCK"]),), config={"BLOCK": 64})
assert (book.total.loaded_bytes, book.grid) == (400, (2, 1, 1)), book
assert out.tolist() == [5.0] * 100
try:
    ledger_of(answers.copy_kernel, x, out, 200, 1, BLOCK=256, grid=(1,))
except RuntimeError as error:
    assert "copy_kernel, line 30 `" in str(error) and "cannot" in str(error), error
else:
    raise SystemExit("no mistake was told")

from triton.runtime.jit import JITFunction
from course_lib.interpreter import compiled_only
from course_lib.interpreter.recorded.recording import record
from course_lib.interpreter.recorded.replay import replay

def device(self, src, dst, *_, grid, warmup, **__):
    "Stands in for a GPU: what tuned_kernel computes."
    dst.copy_(src * 2)

JITFunction.run, compiled_only._has_device = device, lambda: True
answers.tuned_kernel._do_bench = lambda launch, quantiles: [launch(), 1.0, 1.0, 1.0][1:]  # measures each configuration
with record() as tape:
    out = answers.tuned(x)
assert JITFunction.run is device
data = tape.data()
assert data["compiled"] and len(data["launches"]) == 1, data
again = replay(data, [x], answer=tape.locate(out))
assert again.reason == "" and again.counts["loaded_bytes"] == 400, again
assert torch.equal(again.output, x * 2) and torch.equal(out, x * 2)
"""


def test_compiled_kernels_are_counted_in_a_child_and_recorded_without_their_autotuners_measurements():
    from course_lib.interpreter.entry import compiling_environment

    argv, env = [sys.executable, "-c", COMPILED], compiling_environment()
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")

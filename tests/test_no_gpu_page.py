"""docs/no-gpu.md says what is so: its example is run, its message compared, its numbers worked out again."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course_lib import interpreter
from course_lib.interpreter import switch
from course_lib.interpreter.compiled import DEFAULT_TARGETS
from course_lib.interpreter.mistakes.faults import KernelMistake
from tests.gpu.device_semantics import PROBES, compared, load_record

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "no-gpu.md").read_text(encoding="utf-8")
EXAMPLE, COMPILE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MASKED = EXAMPLE.replace("_ptr + i)", "_ptr + i, mask=i < n)").replace("mask=i < n))\n", "mask=i < n), mask=i < n)\n")


@pytest.fixture(autouse=True)
def _checked():
    with switch.interpreting():
        yield


def example(text, tmp_path):
    file = tmp_path / "example.py"
    file.write_text(text)
    return runpy.run_path(str(file))


def test_the_example_ends_with_the_message_on_the_page(tmp_path):
    with pytest.raises(KernelMistake) as caught:
        example(EXAMPLE, tmp_path)
    shown = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL).group(1)
    line = caught.value.place.line
    said = f"KernelMistake: {caught.value}".replace(f"line {line} ", "line 4 ")  # the page counts from the kernel's cell
    assert " ".join(shown.split()) == said


def test_with_masks_it_is_right_and_costs_what_the_page_says(tmp_path):
    assert MASKED.count("mask=i < n") == 3
    with interpreter.ledger() as book:
        made = example(MASKED, tmp_path)
    assert torch.equal(made["out"], made["x"] + made["y"])
    assert (book.counts()["bytes"], book.counts()["elementwise_flops"]) == (12000, 1024)
    assert '`book.counts()["bytes"]` is 12000' in PAGE
    assert "`add_kernel` above has 1024, not 1000" in PAGE


@pytest.mark.compile
def test_the_compile_example_runs(tmp_path):
    made = example(MASKED, tmp_path)
    exec(COMPILE, made)
    assert [one.target for one in made["report"].targets if one.compiles] == ["sm_80", "sm_90", "gfx942"]
    assert made["report"]["sm_90"].spills == 0


def test_every_target_stands_on_the_page():
    assert len(DEFAULT_TARGETS) == 7
    for target in DEFAULT_TARGETS:
        assert target in PAGE.partition("The targets are")[2].partition("\n\n")[0]


def test_the_number_of_probes_is_that_of_the_record():
    keys, about = load_record()
    have = [probe for probe in PROBES if any(key.startswith(f"{probe.name}/") for key in keys)]
    held = [probe for probe in compared() if probe in have]
    assert f"{len(have)} small kernels ran compiled on\nan H200 (Triton {about['triton'].rpartition('.')[0]})" in PAGE
    assert f"For {len(held)} of them the result is defined" in PAGE


@triton.jit
def exp_kernel(x_ptr, out_ptr, n, BASE_2: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < n, other=0.0)
    tl.store(out_ptr + index, tl.exp2(x) if BASE_2 else tl.exp(x), mask=index < n)


def ulps_off(x, base_2):
    out = torch.empty_like(x)
    exp_kernel[(triton.cdiv(x.numel(), 4096),)](x, out, x.numel(), base_2, BLOCK=4096)
    exact = (torch.exp2 if base_2 else torch.exp)(x.double()).numpy()
    return np.abs(out.double().numpy() - exact) / np.spacing(exact.astype(np.float32))


def test_exp_is_as_far_off_as_the_page_says():
    near = torch.linspace(85.94, 85.96, 2623)  # float32 lies 2**-17 apart there: each is met
    assert round(ulps_off(near, False).max()) == 64
    assert ulps_off(torch.linspace(-126.0, 127.9, 100_003), True).max() < 3
    assert ulps_off(torch.linspace(0.0, 1.0, 10_001), False).max() < 3  # and it grows with x


@triton.jit
def cast_kernel(x_ptr, out_ptr, TYPE: tl.constexpr):
    index = tl.arange(0, 4)
    tl.store(out_ptr + index, tl.load(x_ptr + index).to(TYPE).to(tl.float32))


@pytest.mark.parametrize(
    ("kind", "values"), [(tl.float8e4nv, [448, 448, 448, 448]), (tl.float8e5, [448, 57344, 57344, 448])], ids=["e4m3", "e5m2"]
)
def test_casts_saturate_as_the_page_says(kind, values):
    out = torch.empty(4)
    cast_kernel[(1,)](torch.tensor([464.0, 61440.0, float("inf"), 448.0]), out, TYPE=kind)
    assert out.tolist() == values
    assert torch.tensor([61440.0]).to(torch.float8_e5m2).isinf().item()  # the page's "where torch gives inf"


def test_the_page_is_found_where_somebody_without_a_gpu_looks():
    for name in ("README.md", "course_lib/lab.py", "course_lib/course/greeting.py", "course_lib/course/doctor_phases.py"):
        assert "docs/no-gpu.md" in (ROOT / name).read_text(encoding="utf-8"), name
    for picture in re.findall(r"\]\((images/[\w-]+\.png)\)", PAGE):
        assert (ROOT / "docs" / picture).is_file()
    assert "{" not in re.sub(r"```.*?```|`[^`]*`", "", PAGE, flags=re.DOTALL)  # every number of the page is filled in

"""lab.trace: what runs, what comes back, what a notebook and a terminal show, and what is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course_lib import lab
from course_lib.interpreter import entry
from course_lib.interpreter.switch import enabled
from tests.interpreter.kernels import copy, flash, matmul, waste
from tests.interpreter.kernels.gluon_hopper import gluon_tile_kernel

ROOT = Path(__file__).parents[2]


@triton.jit
def unmasked_load(src_ptr, dst_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(src_ptr + index)  # <b>no mask</b> & "quotes"
    tl.store(dst_ptr + index, value, mask=index < n)


@triton.autotune(configs=[triton.Config({"BLOCK": size}, num_warps=2) for size in (32, 64)], key=["n"])
@triton.jit
def tuned_copy(src_ptr, dst_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst_ptr + index, tl.load(src_ptr + index, mask=index < n), mask=index < n)


@triton.jit
def keyword_names(src_ptr, dst_ptr, function, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(dst_ptr + index, tl.load(src_ptr + index) + function)


SIZES = type("Sizes", (), {"one": 1})()


@triton.jit
def needs_an_object(x_ptr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(x_ptr + index, tl.load(x_ptr + index) + SIZES.one)


def three_launches():
    middle = copy.copy(torch.arange(100.0), block=64)
    return copy.copy(copy.copy(middle, block=32), block=64)


def plain(function, /, *args, **kwargs):
    return lab.trace(function, *args, targets=(), **kwargs)


def html(trace):
    return trace._repr_mimebundle_()["text/html"]


def test_a_kernel_runs_and_its_ledger_holds_the_numbers_that_are_shown():
    src, dst = torch.randn(3000), torch.empty(3000)
    shown = plain(copy.copy_kernel, src, dst, 3000, 1, 1, BLOCK=1024, grid=(3,))
    assert torch.equal(src, dst)
    assert shown.mistake is None
    assert shown.ledger.total.loaded_bytes == shown.ledger.total.stored_bytes == 12_000
    for page in (repr(shown), html(shown)):
        assert page.count("12,000 B") >= 6
        assert "copy_kernel, grid (3): 3 programs" in page


def test_a_host_function_gives_its_result_and_all_its_launches():
    shown = plain(three_launches)
    assert torch.equal(shown.result, torch.arange(100.0))
    assert [launch.ledger.grid[0] for launch in shown.launches] == [2, 4, 2]
    text = repr(shown)
    for words in ("Launch 1:", "Launch 3:", "launch 1 (copy_kernel, line 14) stores 400 B as dst_ptr", "launch 3 (copy_kernel"):
        assert words in text
    with pytest.raises(ValueError, match="there are 3 launches here"):
        _ = shown.ledger
    assert html(shown).count("<details") == 3


def test_a_mistake_is_shown_and_kept_and_not_raised():
    src, dst = torch.randn(100), torch.empty(100)
    shown = plain(unmasked_load, src, dst, 100, BLOCK=64, grid=(2,))
    assert (shown.mistake.kind, shown.mistake.argument, shown.mistake.index) == ("out of bounds", "src_ptr", 100)
    assert shown.ledger.total.loaded_bytes == 256  # the first program, before the mistake
    text = repr(shown)
    assert text.startswith("✗ Out of bounds in unmasked_load, line ")
    assert "→" in text
    assert "What follows was counted up to there." in text
    page = html(shown)
    assert page.index("course-mistake") < page.index("By argument")
    assert "&lt;b&gt;no mask&lt;/b&gt; &amp; &quot;quotes&quot;" in page
    assert "<b>no mask" not in page


def test_a_mistake_inside_a_host_function_ends_it_and_leaves_the_earlier_launches():
    def host():
        first = copy.copy(torch.ones(100), block=128)
        unmasked_load[(2,)](first, torch.empty(100), 100, BLOCK=64)
        raise AssertionError("never reached")

    shown = plain(host)
    assert shown.result is None
    assert [launch.ledger.kernel for launch in shown.launches] == ["copy_kernel", "unmasked_load"]
    assert shown.mistake.kind == "out of bounds"


def test_every_check_is_on_and_is_off_again_afterwards():
    before = enabled()
    shown = plain(copy.copy, torch.empty(64))
    assert shown.mistake is not None
    assert shown.mistake.kind == "unwritten"
    assert enabled() == before


def test_errors_of_host_code_are_raised():
    with pytest.raises(ValueError, match="matmul takes"):
        plain(matmul.matmul, torch.randn(3, 4), torch.randn(5, 6))


def test_a_kernel_needs_a_grid_and_a_host_function_has_its_own():
    with pytest.raises(ValueError, match=r"copy_kernel is a kernel, and a launch needs a grid: lab\.trace\(copy_kernel, "):
        plain(copy.copy_kernel, torch.ones(3), torch.ones(3), 3, 1, 1, BLOCK=4)
    with pytest.raises(ValueError, match=r"copy is no kernel made by @triton\.jit"):
        plain(copy.copy, torch.ones(3), grid=(1,))
    with pytest.raises(ValueError, match="got a int"):
        plain(3)


def test_unknown_gpus_and_targets_are_refused_before_anything_runs():
    def never():
        raise AssertionError("ran")

    with pytest.raises(ValueError, match="GPU 'GTX 9' is not known"):
        lab.trace(never, gpu="GTX 9")
    with pytest.raises(ValueError, match="target 'sm_12' is not known"):
        lab.trace(never, targets=("sm_90", "sm_12"))


@pytest.mark.parametrize(("config", "programs"), [(None, 4), ({"BLOCK": 64}, 2)])
def test_an_autotuned_kernel_runs_the_first_configuration_or_the_one_asked_for(config, programs):
    src, dst = torch.randn(100), torch.empty(100)
    shown = plain(tuned_copy, src, dst, 100, grid=lambda meta: (triton.cdiv(100, meta["BLOCK"]),), config=config)
    assert shown.ledger.programs == programs
    assert torch.equal(src, dst)
    assert f"configuration BLOCK: {32 if config is None else 64}" in repr(shown)


def test_a_kernel_may_have_an_argument_called_function():
    dst = torch.zeros(16)
    plain(keyword_names, torch.zeros(16), dst, function=2.0, BLOCK=16, grid=(1,))
    assert dst.sum() == 32


def test_a_function_that_launches_nothing_says_so():
    assert repr(plain(lambda: 5)) == "No kernel was launched."
    assert "No kernel was launched." in html(plain(lambda: 5))


@pytest.mark.parametrize("name", ["matmul", "flash", "waste", "three", "bad"])
def test_a_page_in_text_is_at_most_110_characters_wide_and_the_html_loads_nothing(name, capfd):
    q = torch.randn(1, 40, 2, 16)
    shown = {
        "matmul": lambda: plain(matmul.matmul, torch.randn(70, 40).half(), torch.randn(40, 90).half(), bm=32, bn=32),
        "flash": lambda: plain(flash.flash, q, q.clone(), q.clone(), causal=True, with_lse=True, bm=16, bn=16),
        "waste": lambda: plain(waste.sum_rows, torch.randn(40, 32), along=False),
        "three": lambda: plain(three_launches),
        "bad": lambda: plain(unmasked_load, torch.randn(100), torch.empty(100), 100, BLOCK=64, grid=(2,)),
    }[name]()
    bundle = shown._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert max(map(len, bundle["text/plain"].splitlines())) <= 110
    assert not re.search(r"https?:|@import|url\(|<script|<style|<link", bundle["text/html"])
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', bundle["text/html"]))
    assert all(alt for alt in re.findall(r'alt="([^"]*)"', bundle["text/html"]))
    assert capfd.readouterr() == ("", "")


def test_findings_are_sentences_with_their_line():
    shown = plain(waste.sum_rows, torch.randn(40, 32), along=False)
    assert len(shown.findings) == 1
    assert re.match(r"line \d+ loads 5,120 B of x_ptr in 1,280 sectors", shown.findings[0])


@pytest.mark.compile
def test_the_compile_table_has_a_row_for_each_target_and_one_table_for_equal_launches(capfd):
    shown = lab.trace(three_launches, targets=("sm_80", "sm_90"))
    assert [[one.target for one in report.targets] for report in shown.compiled] == [["sm_80", "sm_90"]] * 2  # two block sizes
    assert all(one.compiles for report in shown.compiled for one in report.targets)
    assert repr(shown).count("✓ yes") == html(shown).count("✓ yes") == 4
    out, err = capfd.readouterr()
    assert out.startswith("compiling copy_kernel for sm_80, sm_90 ...")
    assert err == ""


@pytest.mark.compile
def test_a_gluon_kernel_is_not_run_but_compiled():
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    tile = TensorDescriptor.from_tensor(torch.zeros(64, 64, dtype=torch.float16), [64, 64], layout)
    shown = lab.trace(gluon_tile_kernel, tile, tile, tile, num_warps=4, grid=(1,), targets=("sm_80", "sm_90"))
    assert "only a GPU runs" in repr(shown)
    assert shown.launches == []
    assert [one.compiles for one in shown.compiled[0].targets] == [False, True]


@pytest.mark.compile
def test_a_kernel_that_cannot_be_written_down_is_traced_and_not_compiled():
    shown = lab.trace(needs_an_object, torch.ones(16), BLOCK=16, grid=(1,), targets="sm_80")
    assert shown.compiled == []
    assert shown.why_not_compiled.startswith("not compiled: ")
    for page in (repr(shown), html(shown)):
        assert "not compiled: kernel needs_an_object uses SIZES" in page.replace("Not", "not")


@pytest.mark.compile
def test_a_configuration_that_was_asked_for_is_the_one_that_is_compiled():
    src, dst = torch.randn(100), torch.empty(100)
    shown = lab.trace(tuned_copy, src, dst, 100, grid=(2,), config={"BLOCK": 64}, targets="sm_80")
    assert [one.num_warps for one in shown.compiled[0].targets] == [2]


def test_where_no_kernel_can_run_the_reason_is_given(monkeypatch):
    monkeypatch.setattr(entry, "state", lambda: entry.EntryState("too late", "Triton came first."))
    with pytest.raises(RuntimeError, match="nothing can be traced here: Triton came first"):
        plain(copy.copy, torch.ones(4))


COMPILED = """
from course_lib import lab
from course_lib.interpreter import entry
import torch
from tests.course.test_trace import three_launches, tuned_copy, unmasked_load
entry.state = lambda: entry.EntryState("cuda", "as on a GPU")
src, dst = torch.randn(100), torch.zeros(100)
one = lab.trace(tuned_copy, src, dst, 100, grid=lambda meta: (-(-100 // meta["BLOCK"]),), config={"BLOCK": 64}, targets=())
print(one.ledger.programs, one.ledger.total.loaded_bytes, bool(dst.any()))
three = lab.trace(three_launches, targets=())
print([launch.ledger.grid[0] for launch in three.launches], len(three.findings))
bad = lab.trace(unmasked_load, torch.randn(100), torch.empty(100), 100, BLOCK=64, grid=(2,), targets=())
print(bad.mistake)
for shown in (one, three, bad):
    shown._repr_mimebundle_()
"""


def test_where_kernels_are_compiled_the_launches_are_replayed_and_nothing_runs_here():
    """The kernels of this process are compiled ones, as on a GPU; a launch would fail, because there is none."""
    env = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", COMPILED], env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["2 400 False", "[2, 4, 2] 2"]
    assert re.match(r"unmasked_load, line \d+ .*cannot load from src_ptr\[100\]", lines[2])

"""The process that compiles: what it is given, what it survives, and what is remembered."""

import dataclasses
import json

import pytest
import torch
import triton
import triton.language as tl

from course_lib.interpreter.compiled import Launch, cache, compile_report, compile_reports, proof
from course_lib.interpreter.text.kernel_source import KernelSource, self_contained
from tests.interpreter.kernels.copy import copy_kernel

pytestmark = pytest.mark.compile
X = torch.empty(4096, dtype=torch.float16)
COPY = (X, X, 4096, 1, 1, 256)


def remembered(monkeypatch, change=lambda outcome: outcome):
    """The process compiles once, and what it gave is given again for every later request -> the requests so far."""
    requests, outcomes, original = [], [], proof.run_jobs

    def run_jobs(kernels, jobs, **options):
        if jobs:
            requests.append(jobs)
            outcomes[:] = outcomes or original(kernels, jobs, **options)
        return [change(one) if len(requests) > 1 else one for one in outcomes] if jobs else []

    monkeypatch.setattr(proof, "run_jobs", run_jobs)
    return requests


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_COMPILE_CACHE", str(tmp_path / "compiled"))


def text_kernel(body, name="kernel", head=""):
    lines = ["import triton as _triton", "import triton.language as tl", head, "@_triton.jit", f"def {name}(p):", f"    {body}"]
    return KernelSource("\n".join(lines) + "\n", name, "recorded.py", 5)


# A text that meddles with the compiler itself: what happens when a stage for sm_90 dies or hangs.
MEDDLES = """import os, time
def hook(*given):
    if given and given[-1] == 90:
        {what}
    return "", ""
_triton.knobs.runtime.add_stages_inspection_hook = hook"""


def test_a_death_at_one_target_leaves_the_others_their_report():
    source = text_kernel("tl.store(p, 1.0)", head=MEDDLES.format(what="os.abort()"))
    report = compile_report(source, (X,), targets=("sm_90", "sm_80", "sm_89"))
    assert [one.compiles for one in report.targets] == [False, True, True]
    assert "the compiler died of SIGABRT" in report["sm_90"].why_not
    assert len(list(cache.folder().glob("*.json"))) == 2  # a death is not remembered


def test_a_compiler_that_does_not_end_is_stopped():
    """And blamed as one that died is: what comes after it goes on (above)."""
    source = text_kernel("tl.store(p, 1.0)", head=MEDDLES.format(what="time.sleep(600)"))
    report = compile_report(source, (X,), targets=("sm_90",), seconds_per_target=3)
    assert "took longer than 3 s" in report["sm_90"].why_not


def test_the_interpreter_and_compiler_settings_of_this_process_do_not_reach_it(monkeypatch):
    for name, value in (("TRITON_INTERPRET", "1"), ("TRITON_OVERRIDE_ARCH", "sm70"), ("TRITON_CACHE_DIR", "/nowhere")):
        monkeypatch.setenv(name, value)
    assert compile_report(copy_kernel, COPY, targets=("sm_80",))["sm_80"].compiles


def test_a_second_report_comes_from_the_cache_and_equals_the_first(monkeypatch):
    first = compile_report(copy_kernel, COPY, targets=("sm_80", "gfx942"))
    monkeypatch.setattr(proof, "run_jobs", lambda kernels, jobs, **_: [] if not jobs else pytest.fail("compiled again"))
    assert compile_report(copy_kernel, COPY, targets=("sm_80", "gfx942")) == first
    # 4096 and 8192 are both multiples of 16: the same code. 4097 is not.
    assert compile_report(copy_kernel, (X, X, 8192, 1, 1, 256), targets=("sm_80",))["sm_80"] == first["sm_80"]
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        compile_report(copy_kernel, (X, X, 4097, 1, 1, 256), targets=("sm_80",))
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        compile_report(copy_kernel, COPY, targets=("sm_80",), cached=False)


def test_a_cache_that_cannot_be_written_or_read_costs_nothing_but_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_COMPILE_CACHE", str(tmp_path / "file" / "below"))
    monkeypatch.setenv("HOME", "/nonexistent")
    compiled = remembered(monkeypatch)
    assert compile_report(copy_kernel, COPY, targets=("sm_80",))["sm_80"].compiles
    monkeypatch.setenv("COURSE_COMPILE_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "key", lambda _: "damaged")
    damaged = ('{"compi', "[]", "{}", '{"compiles": false, "line": null, "why_not": 3}')
    for text in damaged:
        (tmp_path / "damaged.json").write_text(text)
        assert compile_report(copy_kernel, COPY, targets=("sm_80",))["sm_80"].compiles
    assert len(compiled) == 1 + len(damaged)
    assert json.loads((tmp_path / "damaged.json").read_text())["compiles"]
    assert compile_report(copy_kernel, COPY, targets=("sm_80",))["sm_80"].compiles
    assert len(compiled) == 1 + len(damaged)  # what was stored in its place is read


def test_a_kernels_text_gives_the_report_of_the_kernel():
    report = compile_report(copy_kernel, COPY, targets=("sm_90",))
    assert report["sm_90"].compiles
    assert compile_report(self_contained(copy_kernel), COPY, targets=("sm_90",), cached=False) == report


def test_equal_launches_are_compiled_once_and_have_equal_reports(monkeypatch):
    """Triton's own cache would serve the second, without what the assembler says of registers and spills."""
    requests = remembered(monkeypatch)
    first, second = compile_reports([Launch(copy_kernel, COPY, {}, ("sm_80",))] * 2, cached=False)
    assert first == second
    assert first["sm_80"].registers
    assert [len(jobs) for jobs in requests] == [1]


def test_without_a_disassembler_the_ptx_is_read_and_the_report_says_so(monkeypatch):
    def without_sass(outcome):
        return dataclasses.replace(outcome, texts={name: text for name, text in outcome.texts.items() if name != "sass"})

    remembered(monkeypatch, without_sass)
    sass, ptx = (compile_report(copy_kernel, COPY, targets=("sm_90",), cached=False)["sm_90"] for _ in range(2))
    assert (sass.read_from, ptx.read_from) == ("sass", "ptx")
    assert any("PTX" in note for note in ptx.notes)
    same = ("widest_load_bits", "widest_store_bits", "registers", "spills", "shared_bytes")
    assert [getattr(sass, name) for name in same] == [getattr(ptx, name) for name in same]


@triton.autotune([triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 512})], key=[])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(p, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + i, 1.0, mask=i < n + EVEN)


def test_autotune_and_heuristics_choose_and_say_so():
    report = compile_report(tuned_kernel, (X, 4096), targets=("sm_80",))
    assert report["sm_80"].compiles, report["sm_80"].why_not
    assert report["sm_80"].num_warps == 2
    assert "first of 2 autotune configs: BLOCK: 256" in report.remarks[0]
    assert compile_report(tuned_kernel, (X, 4096), {"BLOCK": 64}, num_warps=1, targets=("sm_80",)).remarks == ()


@triton.jit
def twice(x):
    return x * 2


@triton.jit
def applying_kernel(p, pair, f: tl.constexpr):
    tl.store(p + pair[0], f(tl.load(p + pair[1])))


def test_tuples_and_jit_functions_are_arguments_too():
    report = compile_report(applying_kernel, (X, (3, 1), twice), targets=("sm_80",))
    assert report["sm_80"].compiles, report["sm_80"].why_not


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        (COPY[:4], {}, "needs dst_stride, BLOCK as well"),
        ((*COPY, 1), {}, r"takes 6 arguments \(src_ptr, .*got 7"),
        (COPY, {"n": 3}, "got n twice"),
        ((object(), *COPY[1:]), {}, "argument src_ptr is a object"),
    ],
)
def test_arguments_that_no_launch_could_have_are_refused(args, kwargs, words):
    with pytest.raises(TypeError, match=words):
        compile_report(copy_kernel, args, kwargs)


def test_unknown_targets_and_options_are_refused_by_name():
    with pytest.raises(ValueError, match="target 'sm_90a' is not known; known are sm_75, "):
        compile_report(copy_kernel, COPY, targets=("sm_90a",))
    assert "BLOCKS" in compile_report(copy_kernel, COPY, {"BLOCKS": 3}, targets=("sm_80",))["sm_80"].why_not


def test_too_many_threads_for_a_block_are_refused():
    report = compile_report(copy_kernel, COPY, num_warps=32, targets=("sm_80", "gfx942"))
    assert report["sm_80"].compiles
    assert "2048 threads, the limit is 1024" in report["gfx942"].why_not

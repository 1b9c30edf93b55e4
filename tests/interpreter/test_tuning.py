"""@triton.autotune without a device: which configuration runs, which is passed over, and that both are said."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib import lab
from course_lib.interpreter import KernelMistake, ledger, switch

CONFIGS = [triton.Config({"BLOCK": 48}), triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})]


@pytest.fixture(autouse=True)
def _checked():
    with switch.interpreting():
        yield


@pytest.fixture
def added():
    """A fresh autotuned kernel: what was found out about a configuration is kept with it."""

    @triton.autotune(CONFIGS, key=["n"])
    @triton.jit
    def added_kernel(x, out, n, LEAST: tl.constexpr, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK >= LEAST, "BLOCK is too small")
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_add(out + at, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)

    return added_kernel


def run(kernel, n=100, least=1, config=None):
    x, out = torch.arange(float(n)), torch.zeros(n)
    with ledger(config=config) as book:
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, least)
    assert torch.equal(out, x)  # once, so nothing of a trial is left
    return book.launches


def test_a_configuration_that_the_compiler_refuses_is_passed_over_and_this_is_said(added, capsys):
    (launch,) = run(added)
    assert launch.grid == (4, 1, 1)
    assert launch.complete
    assert "BLOCK: 32" in launch.config
    assert added.best_config is CONFIGS[1]
    (note,) = launch.notes
    assert "BLOCK: 48" in note
    assert "passed over" in note
    assert "power of 2" in note
    assert "BLOCK: 48" in capsys.readouterr().out
    (again,) = run(added)
    assert again.notes == [note]
    assert capsys.readouterr().out == ""  # said once


def test_a_false_static_assert_is_passed_over_too(added):
    (launch,) = run(added, least=50)
    assert "BLOCK: 64" in launch.config
    assert ["BLOCK: 48" in launch.notes[0], "BLOCK: 32" in launch.notes[1]] == [True, True]


def test_the_configuration_asked_for_runs_or_says_why_not(added):
    (launch,) = run(added, config={"BLOCK": 64})
    assert ("BLOCK: 64" in launch.config, launch.notes) == (True, [])
    with pytest.raises(KernelMistake, match="power of 2"):
        run(added, config={"BLOCK": 48})


def test_where_every_configuration_is_refused_the_first_one_tells_why(added):
    with ledger() as book, pytest.raises(KernelMistake, match="BLOCK is too small"):
        added[(1,)](torch.ones(8), torch.zeros(8), 8, 100)
    assert [launch.complete for launch in book.launches] == [False]
    assert "BLOCK: 48" in book.launches[0].config


def test_a_mistake_that_is_no_matter_of_configurations_is_not_passed_over(added):
    with pytest.raises(KernelMistake) as caught:
        added[(4,)](torch.ones(100), torch.zeros(50), 100, 1)
    assert (caught.value.kind, caught.value.argument, caught.value.index) == ("out of bounds", "out", 50)


def test_the_target_decides_what_is_valid():
    @triton.autotune([triton.Config({"TYPE": tl.float8e4nv}), triton.Config({"TYPE": tl.float8e5})], key=[])
    @triton.jit
    def stored_as(x, out, TYPE: tl.constexpr):
        at = tl.arange(0, 16)
        tl.store(out + at, tl.load(x + at).to(TYPE).to(tl.float32))

    for target, runs in (("sm_80", "fp8e5"), ("sm_90", "fp8e4nv"), ("gfx942", "fp8e4nv")):
        with ledger(target=target) as book:
            stored_as[(1,)](torch.ones(16), torch.empty(16))
        assert f"TYPE: {runs}," in book.launches[0].config


def test_what_a_kernel_prints_is_printed_once(capsys):
    @triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=[])
    @triton.jit
    def talks(out, BLOCK: tl.constexpr):
        tl.device_print("here", tl.program_id(0))
        tl.store(out + tl.arange(0, BLOCK), 1.0)

    talks[(1,)](torch.empty(32))
    assert capsys.readouterr().out.count("here") == 1


def test_a_hook_before_the_launch_is_called_once_where_its_configuration_runs():
    called = []
    configs = [triton.Config({"BLOCK": size}, pre_hook=lambda named: called.append(named["BLOCK"])) for size in (24, 16, 32)]

    @triton.autotune(configs, key=[])
    @triton.jit
    def hooked(out, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), 1.0)

    hooked[(1,)](torch.empty(32))
    assert called == [24, 16]


def test_the_page_of_a_trace_says_it(added):
    page = lab.trace(added, torch.ones(8), torch.zeros(8), 8, 1, grid=(1,), targets=())
    assert "BLOCK: 48" in str(page)
    assert "passed over" in str(page)
    assert "passed over" in page._repr_mimebundle_()["text/html"]

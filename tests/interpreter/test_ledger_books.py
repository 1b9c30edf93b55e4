"""Which launches are in which book, what is in it after a mistake, and the numbers that a criterion may ask for by name."""

import linecache
import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl

from course_lib import interpreter
from course_lib.interpreter import KernelMistake, ledger

from .entry_helpers import NO_GPU, ROOT, environment, python
from .kernels.copy import copy, copy_kernel
from .kernels.matmul import matmul
from .ledger_helpers import at, check_books


def test_launches_are_in_the_book_in_order_and_add_up():
    with ledger() as book:
        copy(at(0, (100,)))
        matmul(at(0, (16, 16), torch.float16), at(0, (16, 16), torch.float16), bm=16, bn=16)
        copy(at(0, (50,)))
    assert [launch.kernel for launch in book.launches] == ["copy_kernel", "matmul_kernel", "copy_kernel"]
    assert book.total.bytes == sum(launch.total.bytes for launch in book.launches) == 2 * 400 + 3 * 512 + 2 * 200
    counts = book.counts()
    assert counts["launches"] == 3
    assert counts["bytes"] == book.total.bytes
    assert counts["loaded_bytes[src_ptr]"] == 600
    assert counts["dot_flops[fp16]"] == counts["dot_flops"] == 2 * 16 * 16 * 32
    for launch in book.launches:
        check_books(launch)


def test_blocks_nest_and_each_has_the_launches_that_ran_in_it():
    with ledger() as outer:
        copy(at(0, (10,)))
        with ledger(pictures=True) as inner:
            copy(at(0, (20,)))
        copy(at(0, (30,)))
    copy(at(0, (40,)))
    assert [launch.total.loaded_bytes for launch in outer.launches] == [40, 80, 120]
    assert inner.launches == outer.launches[1:2]
    assert [bool(launch.touched) for launch in outer.launches] == [False, True, False]


def test_an_inner_block_keeps_the_configuration_that_the_outer_one_asked_for():
    with ledger(config={"BLOCK": 64}) as book, ledger():
        tuned[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](at(0, (100,)), torch.empty(100), 100, 1, 1)
    (launch,) = book.launches
    assert (launch.programs, "BLOCK: 64" in launch.config) == (2, True)


tuned = triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"])(copy_kernel)


def test_a_block_leaves_the_interpreter_as_it_was():
    was_on = interpreter.enabled()
    interpreter.disable()
    with ledger():
        assert interpreter.enabled()
    assert not interpreter.enabled()
    interpreter.enable(interpreter.Checks(races=False))
    try:
        with pytest.raises(ZeroDivisionError), ledger(checks=interpreter.Checks(unwritten=False)):
            raise ZeroDivisionError
        assert interpreter.enabled()
        with pytest.raises(KernelMistake) as mistake, ledger():
            copy(torch.empty(5))
        assert mistake.value.kind == "unwritten"
    finally:
        interpreter.enable()
        if not was_on:
            interpreter.disable()


@pytest.mark.parametrize("first", ["switch", "watch", "mistakes.faults", "numbers.builder", "launch"])
def test_whichever_module_brings_triton_the_checks_are_on_once_it_is_there(first):
    """`lab` turns them on when Triton is imported, and Triton may be imported by the interpreter itself, half loaded."""
    lines = ["from course_lib import lab", f"import course_lib.interpreter.{first}", "from course_lib.interpreter import switch"]
    code = "\n".join([*lines, "assert switch.enabled()"])
    python(["-c", code], ROOT, environment(**NO_GPU))


@triton.jit
def stops_kernel(x_ptr, n, LAST: tl.constexpr):
    at = tl.program_id(0) * 16 + tl.arange(0, 16)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.device_assert(tl.program_id(0) < LAST, "as planned")
    tl.store(x_ptr + at, x, mask=at < n)


def test_a_mistake_keeps_what_was_counted_before_it_and_marks_the_launch():
    with ledger() as book:
        with pytest.raises(KernelMistake, match="as planned"):
            stops_kernel[(4,)](at(0, (64,)), 64, LAST=2)
        copy(at(0, (10,)))
    stopped, after = book.launches
    assert (stopped.complete, after.complete) == (False, True)
    assert (stopped.total.loads, stopped.total.stores, stopped.total.distinct_loaded_bytes) == (3, 2, 3 * 64)
    assert "as planned" in stopped.notes[-1]
    assert "program (2, 0, 0)" in stopped.notes[-1]
    assert after.notes == []
    check_books(stopped)


def test_an_access_out_of_bounds_is_not_counted():
    with ledger() as book, pytest.raises(KernelMistake) as mistake:
        stops_kernel[(2,)](at(0, (20,)), 64, LAST=2)
    assert (mistake.value.kind, book.launches[0].complete) == ("out of bounds", False)
    assert book.launches[0].total.loaded_bytes == 64


def test_a_launch_that_never_began_is_in_the_book_and_empty():
    with ledger() as book, pytest.raises(ValueError, match="the grid of copy_kernel"):
        copy_kernel[(1, 1, 70_000)](at(0, (10,)), torch.empty(10), 10, 1, 1, BLOCK=16)
    assert (book.launches[0].complete, book.launches[0].total.bytes) == (False, 0)


def test_an_empty_grid_costs_nothing():
    with ledger() as book:
        copy_kernel[(0,)](at(0, (10,)), torch.empty(10), 10, 1, 1, BLOCK=16)
    (launch,) = book.launches
    assert (launch.programs, launch.complete, launch.total.bytes, launch.intensity) == (0, True, 0, 0.0)


def test_a_kernel_of_a_notebook_cell_is_counted_by_the_cells_lines():
    for scale in (1, 2):  # the second is the cell run again, changed
        cell = f"@triton.jit\ndef kernel(p, q):\n    x = tl.load(p)\n    tl.store(q, x * {scale})\n"
        name = f"<ipython-input-{scale}-ledger>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        scope = {"triton": triton, "tl": tl, "__name__": "__main__"}
        exec(compile(cell, name, "exec"), scope)
        out = torch.zeros(1)
        with ledger() as book:
            scope["kernel"][(1,)](at(0, (1,)), out)
        assert out.item() == scale
        assert {(p.file, p.number, p.text) for p in book.launches[0].lines} == {
            (name, 3, "x = tl.load(p)"), (name, 4, f"tl.store(q, x * {scale})"),
        }  # fmt: skip


TRAFFIC = {
    "loaded_bytes", "stored_bytes", "atomic_bytes", "distinct_loaded_bytes", "distinct_stored_bytes", "sectors_loaded",
    "sectors_stored", "useful_loaded_bytes", "useful_stored_bytes", "loads", "stores", "atomics", "bytes", "distinct_bytes",
}  # fmt: skip


def test_a_criterion_can_rely_on_these_names():
    """A graded exercise asks for counts by name: a name that goes away breaks it."""
    with ledger() as book:
        copy(at(0, (100,)))
    counts = book.launches[0].counts()
    names = {"programs", "launches", "dot_flops", "elementwise_flops", "special_calls"} | TRAFFIC
    assert counts.keys() == names | {f"{name}[{arg}]" for name in TRAFFIC for arg in ("src_ptr", "dst_ptr")}
    assert all(type(count) is int for count in counts.values())
    assert book.counts() == counts
    assert counts["bytes[dst_ptr]"] == counts["stored_bytes"] == 400
    documented = interpreter.LaunchLedger.counts.__doc__
    assert [name for name in sorted(names) if name not in documented] == []


def test_compiled_launches_are_not_counted_and_that_is_said():
    code = "from course_lib.interpreter import ledger\nwith ledger() as book: pass"
    env = environment(TRITON_INTERPRET="0")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "RuntimeError: only interpreted launches are counted" in done.stderr
    assert "interpreter.ledger_of" in done.stderr

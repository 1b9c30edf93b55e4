"""How a ledger is shown: tables, pictures, roofline, compile table, and the sentences on what costs more than it needs."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course_lib.display.compile_table import compile_cells, compile_remarks
from course_lib.display.ledger_between import between_launches
from course_lib.display.ledger_cells import Cells, Column
from course_lib.display.ledger_findings import findings
from course_lib.display.ledger_mistake import mistake_html, mistake_text
from course_lib.display.ledger_numbers import bytes_text, count_text, intensity_text, share_text, times_text
from course_lib.display.ledger_picture import NOBODY, NOTHING, PIXELS, panel_figure, panels
from course_lib.display.ledger_roofline import floors, ledger_roofline
from course_lib.display.ledger_table import argument_cells, line_cells
from course_lib.hardware import spec
from course_lib.interpreter.compiled import CompileReport, TargetReport
from course_lib.interpreter.counts.books import LaunchLedger, Touched, Traffic, program_index
from course_lib.interpreter.mistakes.faults import KernelMistake, Place
from course_lib.interpreter.trace import TracedLaunch, trace
from tests.interpreter.kernels import copy, flash, matmul, waste

EVIL = """<script>alert("&'")</script>"""
H100 = spec("h100-sxm")


@triton.jit
def stores_a_running_sum(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(N):
        total += tl.load(x_ptr + row * BLOCK + at)
        tl.store(out_ptr + at, total)


@triton.jit
def stores_the_sum(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(N):
        total += tl.load(x_ptr + row * BLOCK + at)
    tl.store(out_ptr + at, total)


@triton.jit
def adds_atomically(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + at, tl.load(x_ptr + tl.program_id(0) * BLOCK + at))


@triton.jit
def attends_row_by_row(q_ptr, k_ptr, out_ptr, ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr):
    """One program owns ROWS queries, and loads all keys again for each of them."""
    dims, keys = tl.arange(0, D), tl.arange(0, KEYS)
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        q = tl.load(q_ptr + row * D + dims)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :])
        tl.store(out_ptr + row * KEYS + keys, tl.sum(q[None, :] * k, axis=1))


@triton.jit
def scales_in_groups(x_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(scale_ptr + at // GROUP))


@triton.jit
def touches_one(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr) + 1.0)


def traced(function, *args, grid=None, **kwargs):
    found = trace(function, args, kwargs, grid=grid)
    assert found.mistake is None, found.mistake
    return found.launches


def told(function, *args, **kwargs):
    """[(kind, argument)] of one launch, and the sentences."""
    (launch,) = traced(function, *args, **kwargs)
    found = findings(launch.ledger)
    return [(one.kind, one.argument) for one in found], " ".join(one.text for one in found)


class Texts(HTMLParser):
    """Collects text and tags; fails on a tag that is not closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text = [], set(), ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


# ---- numbers


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (786_432, "786,432 B"), (999_999, "999,999 B"), (1_000_000, "1.00 MB"), (1_048_576, "1.05 MB"),
     (9_994_999, "9.99 MB"), (9_995_000, "10.0 MB"), (268_435_456, "268 MB"), (999_499_999, "999 MB"),
     (999_500_000, "1.00 GB"), (2**40, "1.10 TB")],
)  # fmt: skip
def test_bytes_are_exact_up_to_a_million_and_then_have_three_digits(count, text):
    assert bytes_text(count) == text


def test_counts_factors_shares_and_intensities():
    assert [count_text(n) for n in (12, 40_960, 33_554_432, 2**31)] == ["12", "40,960", "33.6 M", "2.15 G"]
    factors = {None: "", 1.0: "1.0×", 1.004: "1.00×", 1.36: "1.36×", 8.0: "8.0×", 64.0: "64.0×", 4096: "4,096×"}
    assert {x: times_text(x) for x in factors} == factors
    assert [share_text(x) for x in (None, 1.0, 0.99999, 0.125, 0.5, 0.0001)] == ["", "100%", "99.9%", "12.5%", "50%", "<0.1%"]
    assert [intensity_text(x) for x in (float("inf"), 0.0833333, 25.6, 295.3, 12_345)] == ["∞", "0.0833", "25.6", "295", "12,345"]


def test_a_program_is_named_in_the_order_in_which_the_ledger_numbers_them():
    (launch,) = traced(matmul.matmul, torch.randn(96, 16), torch.randn(16, 64), bm=32, bn=32, bk=16)
    owner = launch.ledger.touched["c_ptr"].grid_of("writer")
    assert launch.ledger.grid == (3, 2, 1)
    for x in range(3):
        for y in range(2):
            assert program_index(int(owner[32 * x, 32 * y]), launch.ledger.grid) == (x, y, 0)


# ---- tables


def test_the_tables_show_the_ledgers_own_numbers():
    (launch,) = traced(matmul.matmul, torch.randn(100, 70).half(), torch.randn(70, 90).half(), bm=32, bn=32)
    ledger = launch.ledger
    for cells, rows in (
        (argument_cells(launch), [*ledger.arguments.values(), ledger.total]),
        (line_cells(ledger), [t for (_, line), t in sorted(ledger.sites.items(), key=lambda site: site[0][1].number)]),
    ):
        names = [column.name for column in cells.columns]
        shown = [row for row in cells.rows if row[names.index("distinct")]]
        assert len(shown) == len(rows)
        for row, traffic in zip(shown, rows, strict=True):
            cell = dict(zip(names, row, strict=True))
            assert cell["loaded"] == (bytes_text(traffic.loaded_bytes) if traffic.loaded_bytes else "")
            assert cell["stored"] == (bytes_text(traffic.stored_bytes) if traffic.stored_bytes else "")
            assert cell["distinct"] == bytes_text(traffic.distinct_bytes)
            assert cell["reads"] == times_text(traffic.rereads)
            assert cell["sectors"] == count_text(traffic.sectors_loaded + traffic.sectors_stored)
            assert cell["used"] == share_text(traffic.coalescing)
    flops = [row[-2] for row in line_cells(ledger).rows if row[-2]]
    assert flops == [count_text(sum(ledger.dot_flops.values()))]


def test_a_tensor_that_no_program_touched_is_listed_as_such():
    q = torch.randn(1, 20, 1, 16)
    (launch,) = traced(flash.flash, q, q.clone(), q.clone(), bm=16, bn=16)
    row = next(row for row in argument_cells(launch).rows if row[0] == "lse_ptr")
    assert "not touched" in row[1]
    assert not any(row[2:])


@pytest.mark.parametrize("width", [60, 80, 110])
def test_a_table_in_text_keeps_its_width_and_its_numbers(width):
    cells = Cells((Column("name", text=True), Column("bytes"), Column("source", text=True, code=True)))
    cells.rows = [["a" * 30, "123,456 B", "x = " + "y" * 200], ["b", "1 B", "z"]]
    cells.marked[0] = "#b26a00"
    lines = cells.text(width).splitlines()
    assert max(map(len, lines)) <= width
    assert "123,456 B" in lines[1]
    assert lines[1].startswith("! ")
    assert lines[2].startswith("  ")


def test_a_table_in_html_escapes_every_cell_and_has_no_style_sheet_and_no_script():
    cells = Cells((Column(EVIL, text=True), Column("n")))
    cells.rows = [[EVIL, EVIL]]
    page = Texts(cells.html())
    assert not {"script", "style", "link"} & page.tags
    assert page.text.count("alert") == 3


def test_numbers_stand_on_the_right_words_on_the_left_and_empty_columns_are_left_out():
    cells = Cells((Column("word", text=True), Column("number"), Column("never")))
    cells.rows = [["a", "1", ""], ["bcd", "1,000", ""]]
    assert cells.text() == "  word  number\n  a          1\n  bcd    1,000"
    assert "never" not in cells.html()
    assert cells.html().count("text-align:right") == 3


# ---- findings


def test_tiles_that_other_programs_load_too_are_told_as_that():
    kinds, text = told(matmul.matmul, torch.randn(128, 64).half(), torch.randn(64, 96).half(), bm=32, bn=32)
    assert kinds == [("re-reads", "a_ptr"), ("re-reads", "b_ptr")]
    assert "3.0 times the bytes of a_ptr" in text
    assert "3 programs along grid axis 1 ask for the same elements" in text
    assert "4.0 times the bytes of b_ptr" in text
    assert "4 programs along grid axis 0 ask for the same elements" in text
    assert "L2" in text


def test_one_tile_of_everything_is_not_re_read():
    kinds, _ = told(matmul.matmul, torch.randn(64, 64).half(), torch.randn(64, 64).half())
    assert kinds == []


def test_a_loop_that_loads_the_same_again_is_told_from_programs_that_share():
    args = torch.randn(32, 16), torch.randn(16, 16), torch.empty(32, 16)
    kinds, text = told(attends_row_by_row, *args, ROWS=8, KEYS=16, D=16, grid=(4,))
    assert kinds == [("re-reads", "k_ptr")]
    assert "32.0 times the bytes of k_ptr" in text
    assert "about 8.0 times itself, in the loop around this line, in each of the 4 programs along grid axis 0" in text


def test_rows_that_each_program_reads_whole_come_from_other_programs():
    kinds, text = told(waste.attention_by_row, *(torch.randn(16, 16) for _ in range(3)))
    assert kinds == [("re-reads", "k_ptr"), ("re-reads", "v_ptr")]
    assert "16 programs along grid axis 0 ask for the same elements" in text


def test_grouped_heads_and_tiles_share_keys_and_a_causal_mask_says_up_to():
    q, k, v = torch.randn(1, 64, 4, 16), torch.randn(1, 64, 2, 16), torch.randn(1, 64, 2, 16)
    kinds, text = told(flash.flash, q, k, v, causal=True, bm=16, bn=16)
    assert kinds == [("re-reads", "k_ptr"), ("re-reads", "v_ptr")]
    # keys of tile j are read by the query tiles j.. of 4, of 2 heads: (4 + 3 + 2 + 1) / 4 * 2
    assert "5 programs along grid axes 0 and 1 ask for the same elements" in text
    assert "itself" not in text


@triton.jit
def sums_a_window(x_ptr, out_ptr, STEPS: tl.constexpr, W: tl.constexpr):
    """out[i] = sum of x[i : i + W], STEPS of them in each program: the window slides by one element."""
    for i in range(STEPS):
        at = tl.program_id(0) * STEPS + i
        tl.store(out_ptr + at, tl.sum(tl.load(x_ptr + at + tl.arange(0, W)), axis=0))


def test_a_window_that_slides_in_a_loop_is_loaded_again_by_its_own_program():
    kinds, text = told(sums_a_window, torch.randn(4 * 64 + 8), torch.empty(4 * 64), STEPS=64, W=8, grid=(4,))
    assert kinds == [("re-reads", "x_ptr"), ("coalescing", "out_ptr")]
    # 64 * 8 loads of 71 elements in each program; 3 * 7 of 263 elements are seen by two programs
    assert "A program loads the same elements about 7.2 times itself, in the loop around this line. The L1" in text
    assert "other programs" not in text


@triton.jit
def two_lines_load(x_ptr, out_ptr, ROWS: tl.constexpr, N: tl.constexpr):
    """A program loads its own part of x, and then, on another line, all of it."""
    at = tl.arange(0, N)
    mine = tl.load(x_ptr + tl.program_id(0) * (N // ROWS) + tl.arange(0, N // ROWS))
    tl.store(out_ptr + tl.program_id(0) * N + at, tl.load(x_ptr + at) + tl.sum(mine, axis=0))


def test_another_line_that_loads_the_same_is_no_loop():
    (launch,) = traced(two_lines_load, torch.randn(64), torch.empty(2, 64), ROWS=2, N=64, grid=(2,))
    (found,) = findings(launch.ledger)
    assert found.lines[0].text.startswith("tl.store(")
    assert "2 programs along grid axis 0 ask for the same elements" in found.text
    assert "itself" not in found.text
    launch.ledger.repeats.clear()  # as without pictures: no cause is made up
    assert "programs" not in findings(launch.ledger)[0].text


def test_lanes_of_one_access_that_ask_for_one_element_are_no_waste():
    args = torch.randn(256), torch.randn(16), torch.empty(256)
    kinds, text = told(scales_in_groups, *args, BLOCK=64, GROUP=16, grid=(4,))
    assert kinds == [("lanes", "scale_ptr")]
    assert "16.0 lanes for each element" in text
    assert line_cells(traced(scales_in_groups, *args, BLOCK=64, GROUP=16, grid=(4,))[0].ledger).marked == {}


def test_columns_walked_one_at_a_time_are_told_and_rows_are_not():
    x = torch.randn(64, 96)
    kinds, text = told(waste.sum_rows, x, along=False)
    assert kinds == [("coalescing", "x_ptr")]
    assert "in 6,144 sectors of 32 bytes, 196,608 B: 12.5% of what is moved is used" in text
    assert "strides of the tensor: 96, 1, in elements of 4 B" in text
    assert told(waste.sum_rows, x, along=True)[0] == []


@pytest.mark.parametrize(("step", "kinds"), [(1, []), (2, []), (3, ["coalescing"]), (8, ["coalescing"])])
def test_a_stride_is_told_when_less_than_half_of_the_sectors_is_used(step, kinds):
    assert told(copy.copy, torch.randn(1000 * step)[::step])[0] == [(kind, "src_ptr") for kind in kinds]


def test_elements_stored_more_than_once_are_told():
    x = torch.randn(5, 32)
    kinds, text = told(stores_a_running_sum, x, torch.empty(32), 5, BLOCK=32, grid=(1,))
    assert kinds == [("stores", "out_ptr")]
    assert "640 B stored, 128 B left in the end, so 512 B are overwritten" in text
    assert told(stores_the_sum, x, torch.empty(32), 5, BLOCK=32, grid=(1,))[0] == []


def test_atomic_updates_of_one_element_are_no_double_stores():
    assert told(adds_atomically, torch.randn(128), torch.zeros(32), BLOCK=32, grid=(4,))[0] == []


def test_a_copy_in_a_pass_of_its_own_is_told_with_both_lines_and_a_fused_kernel_is_not():
    args = torch.randint(-127, 128, (24, 40), dtype=torch.int8), torch.rand(24), torch.randn(40).half()
    launches = traced(waste.unfused, *args)
    (found,) = between_launches(launches)
    assert found.kind == "between launches"
    assert f"stores {24 * 40 * 2:,} B as out_ptr" in found.text
    stores, loads = found.lines
    assert stores.text.startswith("tl.store(out_ptr + row * K")
    assert loads.text.startswith("w = tl.load(w_ptr + row * K")
    assert f"launch 2 (row_times_vector_kernel, line {loads.number}) loads them again as w_ptr" in found.text
    assert between_launches(traced(waste.fused, *args)) == []


def test_only_the_bytes_that_are_loaded_again_are_counted_between_launches():
    def half_of_it():
        middle = copy.copy(torch.randn(512))
        return copy.copy(middle[128:384])

    (found,) = between_launches(traced(half_of_it))
    assert "stores 1,024 B as dst_ptr" in found.text


def test_gaps_between_the_elements_that_are_loaded_again_do_not_count():
    def every_second():
        return copy.copy(copy.copy(torch.randn(512))[::2])

    (found,) = between_launches(traced(every_second))
    assert "stores 1,024 B as dst_ptr" in found.text


def test_of_two_launches_that_store_an_element_the_later_one_is_named():
    def overwritten():
        middle = copy.copy(torch.randn(512))
        copy.copy(torch.randn(512), middle)
        return copy.copy(middle)

    (found,) = between_launches(traced(overwritten))
    assert found.text.startswith("launch 2 (copy_kernel")
    assert "and launch 3 (copy_kernel" in found.text


@triton.jit
def scales_rows(x_ptr, scale_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + row)
    tl.store(out_ptr + row * N + at, tl.load(x_ptr + row * N + at, mask=at < N, other=0.0) * scale, mask=at < N)


@pytest.mark.parametrize(("cols", "kinds"), [(1024, []), (16, [("coalescing", "scale_ptr")])])
def test_a_small_share_of_the_traffic_is_not_worth_a_sentence(cols, kinds):
    """One float32 for each row wastes 28 of 32 bytes: 0.3% of what a row of 1024 moves, 17% of what a row of 16 moves."""
    x, scale = torch.randn(64, cols), torch.rand(64)
    assert told(scales_rows, x, scale, torch.empty(64, cols), cols, BLOCK=cols, grid=(64,))[0] == kinds


def test_a_single_number_cannot_fill_a_sector_and_is_not_blamed():
    assert told(touches_one, torch.ones(1), torch.ones(1), grid=(1,))[0] == []


# ---- pictures


def drawn(shape, strides=None, programs=1):
    """The panels of an argument whose elements were each loaded once, program by program in order."""
    size = 1 + sum((n - 1) * s for n, s in zip(shape, strides or packed(shape), strict=True)) if np.prod(shape) else 0
    flat = np.zeros(size, np.int32)
    who = np.arange(size, dtype=np.int32) * programs // max(1, size)
    touched = Touched(shape, strides or packed(shape), 4, "float32", flat + 1, flat, who, flat - 1)
    return panels(LaunchLedger("k", (programs, 1, 1), touched={"x_ptr": touched}))


def packed(shape):
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


@pytest.mark.parametrize(
    ("shape", "cells", "words"),
    [((), (1, 1), "scalar float32; each element once"),
     ((7,), (1, 7), "7 float32; each element once"),
     ((1000,), (32, 32), "1000 float32 in rows of 32; each element once"),
     ((30, 50), (30, 50), "30x50 float32; each element once"),
     ((2, 3, 4, 5), (24, 5), "2x3x4x5 float32 as 24 rows of 5; each element once"),
     ((600, 1030), (300, 344), "600x1030 float32; a cell is 2 x 3 elements; each element once")],
)  # fmt: skip
def test_a_tensor_of_any_dimension_is_drawn_as_a_grid_that_says_what_it_shows(shape, cells, words):
    (panel,) = drawn(shape, programs=3)
    assert panel.cells.shape == cells
    assert panel.caption == words
    assert max(panel.cells.shape) <= PIXELS
    panel_figure(panel).canvas.draw()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0, 2)])
def test_an_empty_tensor_has_no_picture(shape):
    assert drawn(shape) == []


def test_a_strided_view_is_drawn_in_its_own_shape_and_names_its_strides():
    (panel,) = drawn((10, 6), (24, 2))
    assert panel.cells.shape == (10, 6)
    assert "strides 24, 2" in panel.caption


def test_a_folded_vector_is_filled_up_with_nothing_and_not_with_untouched_elements():
    (panel,) = drawn((1000,))
    assert (panel.cells == NOTHING).sum() == 24
    assert not (panel.cells == NOBODY).any()


def test_untouched_elements_are_told_from_touched_ones():
    (launch,) = traced(copy.copy_kernel, torch.randn(60), torch.zeros(60), 40, 1, 1, BLOCK=16, grid=(3,))
    loaded, stored = panels(launch.ledger)
    for panel in (loaded, stored):
        assert (panel.cells == NOBODY).sum() == 20
        assert "or never (grey)" in panel.caption
    assert "stored by program" in stored.title


def test_a_second_panel_says_how_often_where_that_differs():
    q = torch.randn(1, 64, 1, 16)
    (launch,) = traced(flash.flash, q, q.clone(), q.clone(), causal=True, bm=16, bn=16)
    titles = [panel.title for panel in panels(launch.ledger)]
    assert "k_ptr, times loaded" in titles
    assert "q_ptr, times loaded" not in titles
    often = next(panel for panel in panels(launch.ledger) if panel.title == "k_ptr, times loaded")
    assert [int(often.cells[row, 0]) for row in (0, 16, 32, 48)] == [4, 3, 2, 1]


def test_a_thinned_picture_shows_the_largest_count_and_the_first_program():
    """Of 4 elements in a cell one was loaded 9 times, by program 2, and the others never."""
    loads, who = np.zeros((1024, 1024), np.int32), np.full((1024, 1024), -1, np.int32)
    loads[1::2, 1::2], who[1::2, 1::2] = 9, 2
    loads[:2, :2], who[:2, :2] = 1, 1
    zero = np.zeros(1024 * 1024, np.int32)
    touched = Touched((1024, 1024), (1024, 1), 4, "float32", loads.ravel(), zero, who.ravel(), zero - 1)
    by_program, often = panels(LaunchLedger("k", (3, 1, 1), touched={"x_ptr": touched}))
    assert by_program.cells.shape == often.cells.shape == (512, 512)
    assert (by_program.cells[0, 0], by_program.cells[5, 5]) == (1, 2)
    assert (often.cells[0, 0], often.cells[5, 5]) == (1, 9)


@pytest.mark.parametrize(
    ("shape", "programs", "shaded"), [((64, 64), 256, False), ((64, 64), 512, True), ((2048, 2048), 4096, False)]
)
def test_many_programs_are_told_apart_by_shade_unless_thinning_left_some_out(shape, programs, shaded):
    (panel,) = drawn(shape, programs=programs)
    assert panel.shaded == shaded
    panel_figure(panel).canvas.draw()


def test_colours_run_over_the_programs_that_are_seen_when_these_are_few_neighbours():
    (launch,) = traced(matmul.matmul, torch.randn(512, 16), torch.randn(16, 128), bm=32, bn=32, bk=16)
    limits = {panel.title: panel_figure(panel).axes[0].images[0].get_clim() for panel in panels(launch.ledger)}
    assert limits == {
        "a_ptr, loaded by program": (0, 63),
        "b_ptr, loaded by program": (60, 63),
        "c_ptr, stored by program": (0, 63),
    }


# ---- roofline


def test_the_points_stand_on_the_roof_at_the_ledgers_intensities():
    (launch,) = traced(matmul.matmul, torch.randn(128, 64).half(), torch.randn(64, 96).half(), bm=32, bn=32)
    ledger = launch.ledger
    ax = ledger_roofline([ledger], H100).axes[0]
    (x0, y0), (x1, y1) = (map(float, np.ravel(line.get_data())) for line in ax.lines if line.get_markersize() == 8)
    assert (x0, x1) == (ledger.requested_intensity, ledger.intensity)
    for x, y in ((x0, y0), (x1, y1)):
        assert y == pytest.approx(min(H100.bf16_tflops, x * H100.hbm_gb_per_s / 1e3))


def test_launches_at_one_point_share_a_label_and_others_keep_theirs():
    (small,) = traced(matmul.matmul, torch.randn(32, 32).half(), torch.randn(32, 32).half(), bm=32, bn=32)
    (large,) = traced(matmul.matmul, torch.randn(64, 64).half(), torch.randn(64, 64).half(), bm=32, bn=32)
    two = [text.get_text() for text in ledger_roofline([small.ledger, large.ledger, small.ledger], H100).axes[0].texts]
    assert [text.partition(":")[0] for text in two] == ["1, 3", "2", "2"]
    (many,) = ledger_roofline([small.ledger] * 5, H100).axes[0].texts
    assert many.get_text().startswith("1 and 4 more: ")


def test_a_copy_has_no_place_on_the_roofline_but_a_floor_of_time():
    (launch,) = traced(copy.copy, torch.randn(67_000))
    assert ledger_roofline([launch.ledger], H100) is None
    assert floors(launch.ledger, H100) == "On H100 SXM, at the data sheet's 3,350 GB/s: 160 ns for the distinct bytes."


def test_products_in_a_type_without_a_data_sheet_peak_are_named():
    (launch,) = traced(matmul.matmul, torch.randn(32, 32), torch.randn(32, 32), bm=32, bn=32)
    assert "Products of fp32 have another roof than bf16's" in floors(launch.ledger, H100)


# ---- compile table


def report(**fields):
    ok = {"compiles": True, "shared_bytes": 24_576, "registers": 62, "spills": 0, "tensor_cores": {"HGMMA": 2}, "tma": True,
          "widest_load_bits": 128, "widest_store_bits": 64, "read_from": "sass"}  # fmt: skip
    return CompileReport("k", "3.7.1", (TargetReport("sm_90", **{**ok, **fields}),))


def test_a_target_has_a_row_with_all_that_is_known():
    cells = compile_cells(report())
    row = dict(zip([column.name for column in cells.columns], cells.rows[0], strict=True))
    assert row == {
        "target": "sm_90", "seen in": "H100, H200", "compiles": "✓ yes", "shared memory": "24,576 of 232,448", "registers": "62",
        "spills": "0", "tensor cores": "HGMMA x2", "TMA": "yes", "widest load": "128 bit", "store": "64 bit",
    }  # fmt: skip
    assert not cells.marked
    assert compile_remarks(report()) == []


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [({"compiles": False, "why_not": "no break here", "where": ("k.py", 12)}, 2, "does not compile (line 12): no break here"),
     ({"shared_bytes": 300_000}, 3, "needs 300,000 B of shared memory and can have 232,448 B"),
     ({"spills": 7}, 5, "")],
)  # fmt: skip
def test_what_keeps_a_kernel_from_running_well_is_marked_and_said(fields, place, words):
    cells = compile_cells(report(**fields))
    assert cells.loud == {(0, place)}
    assert 0 in cells.marked
    assert words in " ".join(compile_remarks(report(**fields)))


def test_what_was_not_asked_is_not_shown_as_zero():
    assert compile_cells(report(spills=None)).rows[0][5] == "not asked"
    assert "read from PTX" in compile_remarks(report(read_from="ptx"))[0]


# ---- mistakes


def test_a_mistake_names_kernel_line_program_argument_index_and_bounds():
    mistake = KernelMistake("out of bounds", Place("k", "gone.py", 12, "tl.load(p)", (2, 1, 0)), "cannot load p[9]. Mask it",
                            argument="p", index=9, bounds=(0, 9))  # fmt: skip
    shown = mistake_text(mistake)
    for words in ("✗ Out of bounds in k, line 12", "→   12  tl.load(p)", "program (2, 1, 0)", "argument p", "index 9",
                  "allowed 0 to 8", "Cannot load p[9]. Mask it."):  # fmt: skip
        assert words in shown
    assert re.sub(r"\s+", " ", Texts(mistake_html(mistake)).text).count("p[9]") == 1


def test_a_mistake_shows_no_line_beyond_its_kernel(tmp_path):
    file = tmp_path / "k.py"
    file.write_text("def k(x):\n    one\n    two\n\nk[(1,)](x)\n")
    mistake = KernelMistake("race", Place("k", str(file), 3, "two", (0, 0, 0)), "said")
    shown = [line.split() for line in mistake_text(mistake).splitlines()[1:4]]
    assert shown == [["1", "def", "k(x):"], ["2", "one"], ["→", "3", "two"]]
    assert "k[(1,)]" not in mistake_text(mistake)


def test_a_mistake_shows_its_line_among_its_neighbours_and_escapes_them(tmp_path):
    file = tmp_path / "k.py"
    file.write_text(f"one\ntwo = '{EVIL}'\nthree\nfour\n")
    place = Place("k", str(file), 2, f"two = '{EVIL}'", (0, 0, 0))
    mistake = KernelMistake("race", place, EVIL)
    page = Texts(mistake_html(mistake))
    assert "script" not in page.tags
    assert page.text.count("alert") == 2
    lines = mistake_text(mistake).splitlines()
    assert [line.strip()[:4] for line in lines[1:5]] == ["1  o", "→   ", "3  t", "4  f"]


def test_a_mistake_without_a_place_and_an_empty_tensor_are_shown_too():
    assert mistake_text(KernelMistake("mistake", None, "k, line 3: broken")) == "✗ Mistake\n  k, line 3: broken."
    empty = KernelMistake("out of bounds", None, "x", index=0, bounds=(0, 0))
    assert "nothing: the tensor is empty" in mistake_text(empty)


def test_traffic_of_nothing_has_no_cells():
    launch = TracedLaunch(LaunchLedger("k", (0, 1, 1)))
    assert argument_cells(launch).rows == []
    assert line_cells(launch.ledger).rows == []
    assert Traffic().rereads is None

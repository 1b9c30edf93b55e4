"""Facts that are known of each kernel, read from what it compiled to. One compiler run serves them all."""

import pytest
import torch
import triton.language as tl

from course_lib.grading.criteria import Compiled
from course_lib.interpreter.compiled import Launch, compile_reports
from tests.interpreter.kernels.copy import copy_kernel
from tests.interpreter.kernels.descriptors import device_descriptor_kernel, host_descriptor_kernel
from tests.interpreter.kernels.flash import flash_kernel
from tests.interpreter.kernels.gluon_hopper import gluon_tile_kernel
from tests.interpreter.kernels.matmul import matmul_kernel
from tests.interpreter.kernels.refused import break_kernel, small_dot_kernel, unknown_name_kernel

pytestmark = pytest.mark.compile


def matmul(dtype, targets, *, tile=(128, 128, 64), out=None, acc=tl.float32, **options):
    a, b, c = (
        torch.empty(shape, dtype=kind, device="meta")
        for shape, kind in (((304, 512), dtype), ((512, 256), dtype), ((304, 256), out or dtype))
    )
    blocks = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    sizes = (304, 256, 512, *a.stride(), *b.stride(), *c.stride())
    return Launch(matmul_kernel, (a, b, c, *sizes), {**blocks, "ACC": acc, "PRECISION": "tf32", **options}, targets)


def copy(offset=0, stride=1, targets=("sm_80", "sm_90", "gfx942")):
    src = torch.empty(65536 * 4, dtype=torch.float16)[offset:]
    dst = torch.empty(65536, dtype=torch.float16)[offset:]
    return Launch(copy_kernel, (src, dst, 65536, stride, 1), {"BLOCK": 2048}, targets)


def flash():
    q, kv = (
        torch.empty(2, 512, 8, 128, dtype=torch.float16, device="meta"),
        torch.empty(2, 512, 2, 128, dtype=torch.float16, device="meta"),
    )
    lse = torch.empty(2, 8, 512, device="meta")
    tensors, strides = (q, kv, kv, q, lse), (*q.stride(), *kv.stride(), *kv.stride(), *q.stride())
    constants = {"GROUP": 4, "HEAD_DIM": 128, "BLOCK_D": 128, "BM": 128, "BN": 64, "CAUSAL": True, "WITH_LSE": True}
    return Launch(
        flash_kernel,
        (*tensors, *strides, 8, 512, 512, 0.1),
        {**constants, "PRECISION": "tf32", "num_warps": 8},
        ("sm_80", "sm_90"),
    )


def launches():
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
    from triton.tools.tensor_descriptor import TensorDescriptor

    x = torch.empty(64, 64, dtype=torch.float16)
    block, layout = TensorDescriptor.from_tensor(x, [32, 32]), gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    tile = GluonDescriptor.from_tensor(x, [64, 64], layout)
    return {
        "fp16": matmul(torch.float16, ("sm_75", "sm_80", "sm_90", "sm_100", "gfx942"), tile=(64, 64, 32), num_warps=4),
        "fp16, 8 warps": matmul(torch.float16, ("sm_90",), num_warps=8),
        "fp8": matmul(torch.float8_e4m3fn, ("sm_80", "sm_89", "sm_90"), out=torch.float32, num_warps=8),
        "int8": matmul(torch.int8, ("sm_80", "sm_90"), out=torch.int32, acc=tl.int32, num_warps=8),
        "huge": matmul(torch.float16, ("sm_90", "gfx942"), tile=(256, 256, 64), num_warps=4),
        "deep": matmul(torch.float16, ("sm_80", "sm_86"), num_warps=8, num_stages=5),
        "flash": flash(),
        "copy": copy(),
        "copy, odd address": copy(offset=1),
        "copy, stride 3": copy(stride=3),
        "descriptor from host": Launch(host_descriptor_kernel, (block, block, 32, 32), {}, ("sm_80", "sm_90")),
        "descriptor from device": Launch(device_descriptor_kernel, (x, x, 64, 64, 32, 32), {}, ("sm_80", "sm_90")),
        "break": Launch(break_kernel, (x, 5), {}, ("sm_80", "sm_90", "gfx942")),
        "dot of 8 x 8": Launch(small_dot_kernel, (x,), {}, ("sm_90",)),
        "unknown name": Launch(unknown_name_kernel, (x,), {}, ("sm_90",)),
        "gluon": Launch(gluon_tile_kernel, (tile, tile, tile), {"num_warps": 4}, ("sm_80", "sm_90")),
    }


@pytest.fixture(scope="module")
def reports():
    given = launches()
    return dict(zip(given, compile_reports(list(given.values()), cached=False), strict=True))


@pytest.mark.parametrize(
    ("name", "target", "instruction"),
    [
        ("fp16", "sm_80", "HMMA"),
        ("fp16", "sm_90", "HGMMA"),
        ("fp16, 8 warps", "sm_90", "HGMMA"),
        ("fp16", "sm_100", "UTCHMMA"),
        ("fp16", "gfx942", "MFMA"),
        ("fp8", "sm_89", "QMMA"),
        ("fp8", "sm_90", "QGMMA"),
        ("int8", "sm_80", "IMMA"),
        ("int8", "sm_90", "IGMMA"),
        ("flash", "sm_80", "HMMA"),
        ("flash", "sm_90", "HGMMA"),
        ("gluon", "sm_90", "HGMMA"),
    ],
)
def test_matrix_products_use_the_tensor_cores_of_their_gpu(reports, name, target, instruction):
    report = reports[name][target]
    assert report.compiles, report.why_not
    assert report.tensor_cores.keys() == {instruction}


def test_a_t4_has_no_tensor_core_path_and_the_report_says_so(reports):
    report = reports["fp16"]["sm_75"]
    assert report.compiles
    assert not report.tensor_cores
    assert any("no tensor-core path" in note for note in report.notes)
    assert report.spills is None  # not asked
    assert reports["copy"]["sm_80"].notes == ()


def test_a_type_that_the_target_lacks_is_named(reports):
    assert "fp8e4nv not supported" in reports["fp8"]["sm_80"].why_not
    assert reports["fp8"]["sm_90"].compiles


@pytest.mark.parametrize(
    ("name", "target", "line", "words"),
    [
        ("break", "sm_80", 11, "line 11 of refused.py, `break`: unsupported AST node type: Break"),
        ("break", "gfx942", 11, "Break"),
        ("dot of 8 x 8", "sm_90", 19, "K >= 16"),
        ("unknown name", "sm_90", 24, "unknown is not defined"),  # the helper's line, not the call's
    ],
)
def test_a_refusal_names_the_line_and_the_compilers_sentence(reports, name, target, line, words):
    report = reports[name][target]
    assert not report.compiles
    assert words in report.why_not
    assert report.where is not None
    assert (report.where[0].rpartition("/")[2], report.where[1]) == ("refused.py", line)
    assert "Traceback" not in report.why_not
    assert "\n" not in report.why_not


def test_a_compiler_that_aborts_costs_its_own_target_only(reports):
    """Hopper's bulk copies have no instruction on sm_80: LLVM ends the process."""
    assert "died of SIGABRT: LLVM ERROR" in reports["gluon"]["sm_80"].why_not
    assert reports["gluon"]["sm_90"].compiles


def test_tiles_beyond_the_registers_spill_and_small_ones_do_not(reports):
    for target in ("sm_90", "gfx942"):
        assert reports["huge"][target].spills > 0
        assert reports["huge"][target].stack_bytes > 0
        assert reports["fp16"][target].spills == 0
    assert reports["flash"]["sm_90"].spills == 0
    assert any("serialized" in note for note in reports["huge"]["sm_90"].notes)  # ptxas on wgmma without registers


def test_shared_memory_is_held_against_the_targets_own_limit(reports):
    """Five stages of [128, 64] and [64, 128] in fp16: 4 of them wait in shared memory, 4 x 32 KiB = 128 KiB or more."""
    a100, a10 = reports["deep"]["sm_80"], reports["deep"]["sm_86"]
    assert a100.shared_bytes == a10.shared_bytes >= 4 * 32 * 1024
    assert (a100.shared_limit_bytes, a10.shared_limit_bytes) == (166_912, 101_376)
    assert a100.fits
    assert a10.compiles
    assert not a10.fits


@pytest.mark.parametrize("name", ["descriptor from host", "descriptor from device", "gluon"])
def test_descriptors_go_through_the_tma_on_hopper(reports, name):
    assert reports[name]["sm_90"].tma
    assert not reports[name]["sm_80"].tma
    assert not reports["copy"]["sm_90"].tma


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_accesses_are_as_wide_as_the_addresses_allow(reports, target):
    wide, odd, strided = (reports[name][target] for name in ("copy", "copy, odd address", "copy, stride 3"))
    assert (wide.widest_load_bits, wide.widest_store_bits) == (128, 128)
    assert odd.widest_load_bits <= 32
    assert strided.widest_load_bits == 16
    assert strided.widest_store_bits == 128


def test_evidence_is_weighed_by_the_compiled_criterion(reports):
    made = dict.fromkeys(("cases", "check"), lambda *_: None) | {
        "name": "x",
        "claim": "x",
        "points": 1,
        "run": "x",
        "observe": "x",
    }

    def fault(name, *targets, **wanted):
        finding = Compiled(**made, targets=targets, **wanted)._weigh({}, reports[name].evidence())
        return finding.reason

    assert not fault("fp16", "sm_80", "sm_90", "gfx942", tensor_cores=True)
    assert not fault("fp16", "sm_75")
    assert "sm_75: uses no tensor core" in fault("fp16", "sm_75", tensor_cores=True)
    assert "spills" in fault("huge", "sm_90")
    assert "bytes of shared memory, the limit is 101,376" in fault("deep", "sm_86")
    assert "does not compile: line 11 of refused.py" in fault("break", "sm_90")
    assert "was not compiled" in fault("fp16", "sm_86")

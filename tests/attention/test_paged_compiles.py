"""Paged kernels on real targets, with no GPU at hand: no spills, tensor cores, 16 bytes a load, two buffers on the way."""

import pytest

from course_lib.interpreter.compiled import compile_reports
from tests.interpreter.kernel_registry_paged import launches

DECODE, SHARED, PREFILL = "paged decode hd128 block 16", "shared prefix, 128 rows hd128", "paged prefill hd128, 512 tokens"
CLAIMS = (
    (DECODE, "sm_80"), (DECODE, "sm_90"), (SHARED, "sm_80"), (SHARED, "sm_90"), (f"{PREFILL} sm_80", "sm_80"), (PREFILL, "sm_90"),
)  # fmt: skip


@pytest.fixture(scope="module")
def reports():
    claimed, names = dict(launches()), list(dict.fromkeys(name for name, _ in CLAIMS))
    return dict(zip(names, compile_reports([claimed[name] for name in names]), strict=True))


@pytest.mark.compile
@pytest.mark.parametrize(("name", "target"), CLAIMS)
def test_it_keeps_its_registers_and_loads_widely(reports, name, target):
    found = reports[name][target]
    assert found.fits, found.why_not
    assert found.spills == 0
    assert found.widest_load_bits == 128
    assert found.tensor_cores


@pytest.mark.compile
def test_decode_has_two_buffers_of_k_and_v_and_two_programs_fit():
    """64 tokens * 128 * 2 bytes * 2 * 2 buffers, and twice that in the 228 KiB and 65536 registers of an H200's SM."""
    found = compile_reports([dict(launches())[DECODE]])[0]["sm_90"]
    assert 65536 < found.shared_bytes <= 65536 + 7 * 1024
    assert 2 * (found.shared_bytes + 1024) <= 228 * 1024
    assert 2 * found.registers * 32 * 4 <= 65536

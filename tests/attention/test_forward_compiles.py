"""What the compiler makes of the tiles that are shipped: tensor cores, TMA, no spills, and shared memory as computed."""

import pytest

from course_lib.attention.tiles import HOPPER, shared_bytes
from course_lib.interpreter.compiled import compile_reports
from tests.interpreter.kernel_registry_attention import launches

NAMES = ("attention 128 causal packed", "attention 256 causal pointers", "attention 128 packed sm_80")


@pytest.mark.compile
def test_shipped_tiles_use_tensor_cores_and_do_not_spill():
    chosen = dict(launches())
    for name, report in zip(NAMES, compile_reports([chosen[name] for name in NAMES]), strict=True):
        (found,) = report.targets
        assert found.fits, (name, found.why_not, found.shared_bytes)
        assert found.spills == 0, (name, found.registers)
        assert set(found.tensor_cores) == ({"HMMA"} if found.target == "sm_80" else {"HGMMA"}), name
        described = "pointers" not in name and found.target == "sm_90"
        assert found.tma is described, name
        if described:
            assert found.shared_bytes == pytest.approx(shared_bytes(HOPPER[128], 128), rel=0.01)

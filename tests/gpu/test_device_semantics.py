"""The recorded truth still holds on the device at hand: each probe, compiled and run now, agrees with the record."""

import pytest
import torch

from tests.gpu.device_semantics import BY_NAME, PROBES, compared, disagreement, load_record
from tests.gpu.semantics.probe import POISON, run

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def recorded():
    arrays, about = load_record()
    here = torch.cuda.get_device_capability()
    if here != (9, 0):
        pytest.skip(f"blocked: the record is of {about['device']} (compute capability 9.0), this device has {here[0]}.{here[1]}")
    return arrays


@pytest.mark.parametrize("name", [probe.name for probe in compared()])
def test_the_device_does_what_is_recorded(name, recorded):
    assert not (wrong := disagreement(BY_NAME[name], recorded, run(BY_NAME[name], "cuda"))), wrong


def test_every_element_is_written_unless_the_probe_is_about_leaving_some():
    """Poison would agree with poison: a kernel that does nothing must not pass."""
    may_leave = ("descriptor store", "masked load", "atomic")
    silent = []
    for probe in PROBES[::7]:
        if probe.name.startswith(may_leave):
            continue
        for bits in run(probe, "cuda"):
            left = (bits.data.ravel().view("u1").reshape(bits.data.size, -1) == POISON).all(1)
            if left.mean() > 0.02:
                silent.append(f"{probe.name}: {int(left.sum())} of {left.size} elements were not written")
    assert not silent, "\n".join(silent)

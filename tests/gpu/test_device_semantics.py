"""The recorded truth still holds on the device at hand: each probe, compiled and run now, agrees with the record.

The probes run in processes of their own, as for a record: one that kills its CUDA context costs only itself.
"""

import pytest
import torch

from tests.gpu.device_semantics import BY_NAME, compared, disagreement, load_record
from tests.gpu.semantics.probe import POISON
from tests.gpu.semantics.recorder import run_all

pytestmark = pytest.mark.gpu
MAY_LEAVE = ("descriptor store", "masked load", "atomic")  # probes about elements that nobody writes


@pytest.fixture(scope="module")
def recorded():
    arrays, about = load_record()
    here = torch.cuda.get_device_capability()
    if here != (9, 0):
        pytest.skip(f"blocked: the record is of {about['device']} (compute capability 9.0), this device has {here[0]}.{here[1]}")
    return arrays


@pytest.fixture(scope="module")
def outputs(recorded):
    """-> for each probe its outputs, or the error's text."""
    return run_all("device", lambda done: None)


@pytest.mark.parametrize("name", [probe.name for probe in compared()])
def test_the_device_does_what_is_recorded(name, recorded, outputs):
    found = outputs[name]
    assert not isinstance(found, str), found
    assert not (wrong := disagreement(BY_NAME[name], recorded, found)), wrong


def test_every_element_is_written_unless_the_probe_is_about_leaving_some(outputs):
    """Poison would agree with poison: a kernel that does nothing must not pass."""
    silent = []
    for name, found in outputs.items():
        if name.startswith(MAY_LEAVE) or isinstance(found, str):
            continue
        for bits in found:
            left = (bits.data.ravel().view("u1").reshape(bits.data.size, -1) == POISON).all(1)
            if left.mean() > 0.02:  # a type of 8 bits may hold these bits by chance, 1 time in 256
                silent.append(f"{name}: {int(left.sum())} of {left.size} elements were not written")
    assert not silent, "\n".join(silent)

"""The interpreter's numbers are those of the same kernels compiled on an H200: the recorded outputs of every probe.

The kernels run interpreted in one child process, whatever this machine has, so that a GPU beside it changes nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.gpu.device_semantics import BY_NAME, HOW, PROBES, RECORD, compared, disagreement, load_record, packed
from tests.gpu.semantics.bits import Bits
from tests.gpu.semantics.probe import Exact, Open, Ulp, Within, beside, difference, poisoned

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recorded():
    assert RECORD.exists(), f"{RECORD.name} is missing; record it with: {HOW}"
    return load_record()[0]


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """-> outputs by "NAME/i", errors by name."""
    path = tmp_path_factory.mktemp("interpreted") / "outputs.npz"
    command = [sys.executable, "-m", "tests.gpu.device_semantics", "interpret", str(path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(path) as file:
        found = dict(file)
    return found, json.loads(str(found.pop("errors")))


@pytest.mark.parametrize("name", [probe.name for probe in compared()])
def test_the_interpreter_agrees_with_the_device(name, recorded, interpreted):
    outputs, errors = interpreted
    assert name not in errors, f"{name} fails when interpreted: {errors[name]}"
    probe = BY_NAME[name]
    types = [out.dtype if isinstance(out, Bits) else out[0] for out in probe.outputs]
    mine = [Bits(dtype, outputs[f"{name}/{i}"]) for i, dtype in enumerate(types)]
    assert not (wrong := disagreement(probe, recorded, mine)), wrong


def test_every_probe_is_in_the_record_and_nothing_else(recorded):
    names = {key.split("/every ")[0].removesuffix("/sha256").rsplit("/", 1)[0] for key in recorded}
    missing, unknown = {probe.name for probe in PROBES} - names, names - {probe.name for probe in PROBES}
    assert (missing, unknown) == (set(), set()), f"record again: {HOW}"


def test_the_record_is_small_and_says_where_it_comes_from():
    about = load_record()[1]
    assert "H200" in about["device"]
    assert about["torch"]
    assert about["triton"]
    assert RECORD.stat().st_size < 300_000


def test_what_is_not_compared_says_why():
    partly = [probe for probe in PROBES if isinstance(probe.rule, Exact) and probe.rule.where is not None]
    assert all(len(probe.rule.why) > 20 for probe in [*partly, *(p for p in PROBES if isinstance(p.rule, Open))])
    # most of each such output is compared all the same, but for rows of which most hold a NaN on purpose
    assert all(beside(probe).mean() >= (0.4 if "NaN" in probe.name or "indices" in probe.name else 0.8) for probe in partly)
    assert len(compared()) > 0.9 * len(PROBES)


@pytest.mark.parametrize("name", ["fp32 add", "cast fp16 to fp8e4nv", "fp32 exp2", "dot fp16 K=256, near", "copy of every bf16"])
def test_a_wrong_answer_does_not_agree(name):
    """Poison, zeros, one wrong element and a shift by one, against a record made of plausible outputs."""
    probe = BY_NAME[name]
    dtype, shape = probe.outputs[0]
    if probe.truth is None:
        right = Bits(dtype, np.random.default_rng(1).integers(0, 100, shape).astype(poisoned(dtype, (1,)).data.dtype))
    else:
        with np.errstate(over="ignore"):
            right = Bits(dtype, probe.truth(probe.inputs()).astype(np.float32).view(np.uint32).reshape(shape))
    record = packed(probe, [right])
    assert disagreement(probe, record, [right]) == ""
    last = right.data.copy()
    last.flat[0] ^= 1 << (8 * last.itemsize - 2)
    for wrong in (poisoned(dtype, shape).data, np.zeros_like(right.data), last, np.roll(right.data, 1)):
        assert disagreement(probe, record, [Bits(dtype, wrong)])


def test_what_is_defined_is_compared_where_the_rest_is_not():
    probe = BY_NAME["cast fp8e5 to bf16"]  # finite values alone
    right = Bits("bf16", np.arange(256, dtype=np.uint16))
    record = packed(probe, [right])
    assert list(record) == [f"{probe.name}/0"], "a hash would hold what is not compared too"
    for at, agrees in ((0x7C, True), (0xFF, True), (0x7B, False), (0x80, False)):
        other = right.data.copy()
        other[at] ^= 1
        assert (disagreement(probe, record, [Bits("bf16", other)]) == "") == agrees


def test_an_element_between_the_samples_is_seen_where_outputs_are_exact():
    probe = BY_NAME["cast fp16 to bf16"]
    right = Bits("bf16", np.random.default_rng(2).integers(0, 1 << 15, 65536).astype(np.uint16))
    wrong = right.data.copy()
    wrong[1] ^= 1
    assert "SHA-256" in disagreement(probe, packed(probe, [right]), [Bits("bf16", wrong)])


def test_bounds_are_kept_on_both_sides():
    one = np.array([1.0], np.float32)
    want, near, far = (Bits("fp32", (one.view(np.uint32) + step)) for step in (0, 2, 3))
    assert difference(Ulp(2), want, near) == ""
    assert "differ" in difference(Ulp(2), want, far)
    assert difference(Within(2.0**-22, lambda _: one), want, near, one) == ""
    assert "differ" in difference(Within(2.0**-22, lambda _: one), want, far, one)
    assert "differ" in difference(Exact(), want, near)


@pytest.mark.parametrize("rule", [Exact(), Ulp(1 << 20, 1e30), Within(1e30, lambda _: np.ones(1))])
def test_a_nan_agrees_with_a_nan_alone(rule):
    nan, other, number, inf = (
        Bits("fp32", np.array([code], np.uint32)) for code in (0x7FC00000, 0xFFC00001, 0x3F800000, 0x7F800000)
    )
    scale = np.ones(1)
    assert difference(rule, nan, other, scale) == ""
    assert difference(rule, nan, number, scale)
    assert difference(rule, number, nan, scale)
    assert difference(rule, inf, number, scale)
    assert difference(rule, inf, nan, scale)

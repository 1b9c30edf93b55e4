"""What the compiler makes of the Hopper kernel, without a GPU: instructions, memory, and the order that the speed hangs on."""

import re

import pytest

from course_lib.attention.hopper_ladder import STEPS, Ladder
from course_lib.attention.hopper_launch import TILES, shared_bytes
from course_lib.interpreter.compiled import compile_reports
from tests.interpreter import other_triton
from tests.interpreter.kernel_registry_hopper import every_variant, hopper

from .sass_loops import compiled, events, loops

SHARED_LIMIT_BYTES = 232_448
SCALARS_SPILLED = {"256 causal packed": 16, "fp8": 4}  # once in each tile of queries, outside of the main loop
MEASURED_WITH = "3.6"  # the Triton that the speeds were measured with, and with whose ptxas the order below is checked


def folder_of(version: str) -> str:
    from course_lib.interpreter.compiled.proof import triton_version

    return "" if triton_version().startswith(version) else other_triton.folder()


@pytest.fixture(scope="module")
def fastest():
    """What came of the fastest variant, full and causal."""
    return dict(enumerate(compiled([hopper(128, causal=causal) for causal in (False, True)], folder_of(MEASURED_WITH))))


@pytest.mark.compile
@pytest.mark.parametrize("causal", [False, True])
def test_registers_move_from_the_producer_to_the_consumers(fastest, causal):
    """setmaxnreg: each of 256 consumer threads gets 240 (0xf0), each of the producer's 24 (0x18)."""
    limits = re.findall(r"USETMAXREG[^;]*?(0x[0-9a-f]+) ;", fastest[causal].texts["sass"])
    assert {"0xf0", "0x18"} <= set(limits)


@pytest.mark.compile
@pytest.mark.parametrize("causal", [False, True])
def test_tiles_come_and_go_by_the_copy_engine_and_nothing_spills(fastest, causal):
    code = fastest[causal].texts["sass"]
    assert "UTMALDG.4D" in code
    assert "UTMASTG.4D" in code
    assert not re.search(r"\b(LDL|STL)\b", code)
    assert "serialized" not in fastest[causal].facts["log"]
    assert fastest[causal].facts["shared_bytes"] == pytest.approx(shared_bytes(TILES[128], 128), rel=0.01)


@pytest.mark.compile
@pytest.mark.parametrize("causal", [False, True])
def test_the_main_loop_keeps_its_order(fastest, causal):
    """Both products are issued in a turn; then comes the softmax down to the pinned rescale factor; then the wait for the values.

    Behind that wait stand the products of the accumulator with the factor and the conversions, among the last exponentials.
    """
    found = [body for body in loops(fastest[causal].texts["sass"], 16) if not any("FSEL" in text for text in body)]
    assert len(found) == 2, "one loop without a mask in each consumer"
    for body in found:
        line = events(body)
        text = "".join(line)
        assert len(body) <= 450, f"{len(body)} instructions; 440 when it was measured"
        assert re.search(r"B1[01][^Bx]*(H\.*){16}B1[01]\.*W1", text), "two products between getting and giving the turn"
        wait, pin = line.index("W0"), line.index("B15")
        assert line.index("W1") < line.index("m") < pin < wait
        before, after = line[:wait], line[wait:]
        assert before.count("m") == 68, "all maxima before the wait"
        assert before.count("s") == 4
        assert before.count("x") >= 30, "at least half of the exponentials overlap with the values"
        assert before.count("*") <= 4, "the accumulator is rescaled after the wait"
        assert after.count("*") >= 62
        assert before.count("c") == 0, "weights of the next product would need registers of their own"
        assert after.count("x") >= 8, "the rescaling falls between exponentials"
        assert not any(re.search(r"\b(R2UR|PRMT|LDL|STL|LDS)\b", text) for text in body)


@pytest.mark.compile
@pytest.mark.soak
@pytest.mark.parametrize("version", ["3.6", "3.7"])
def test_every_variant_compiles_with_both_tritons(version):
    names, launches = zip(*every_variant(), strict=True)
    for name, report in zip(names, compile_reports(launches, cached=False, triton_folder=folder_of(version)), strict=True):
        (found,) = report.targets
        assert found.fits, (name, found.why_not, found.shared_bytes)
        assert found.spills <= SCALARS_SPILLED.get(name, 0), (name, found.spills)
        assert set(found.tensor_cores) == ({"QGMMA"} if "fp8" in name else {"HGMMA"}), name
        assert found.tma, name
        assert not [note for note in found.notes if "serialized" in note], (name, found.notes)


def test_steps_stand_on_each_other():
    assert Ladder.up_to("balanced") == Ladder()
    assert Ladder.up_to("plain") == Ladder(*[False] * 6)
    assert [step for step in STEPS[1:] if getattr(Ladder.up_to("pinned"), step)] == ["specialised", "overlap", "pinned"]
    with pytest.raises(ValueError, match="the step 'pinned' stands on 'overlap', which is off"):
        Ladder(overlap=False)
    with pytest.raises(ValueError, match="there is no step 'fast'; the steps are plain, specialised"):
        Ladder.up_to("fast")


def test_every_tile_fits():
    assert {d: shared_bytes(tile, d) for d, tile in TILES.items()} == {64: 164_864, 128: 197_632, 256: 197_632}
    assert all(shared_bytes(tile, d) <= SHARED_LIMIT_BYTES for d, tile in TILES.items())

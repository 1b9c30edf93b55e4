"""Measured roofs are kept whole, for exactly one device and software, and are rebuilt from a recorded result."""

import dataclasses
import json

import pytest

from benchmarks.roofs import rows_of
from course_lib import hardware
from course_lib.hardware import Roof, Roofs, roofs_cache, roofs_from_recorded, roofs_measure
from course_lib.hardware.roofs import PRODUCTS, measured_roofs, size_from_words, size_words

ROOFS = Roofs(
    device="NVIDIA H200", driver="580.1", torch="2.11.0", triton="3.6.0", date="2026-11-29T20:00:00+00:00",
    clocks={"sm_mhz": 1600, "memory_mhz": 3201, "sm_max_mhz": 1980, "memory_max_mhz": 3201},
    copy_gb_per_s=Roof(4200.0, 4100.0, 4250.0, "torch copy_"), read_gb_per_s=Roof(4400.0, 4300.0, 4450.0, "Triton"),
    bf16_tflops=Roof(800.0, 780.0, 810.0, "torch.matmul"), fp16_tflops=Roof(790.0, 770.0, 800.0), fp8_tflops=None,
    read_curve=((4096, 2.5e-6), (1280 * 1024, 3.5e-6), (2**30, 2.4e-4)),
    read_spread=((2.4e-6, 2.6e-6), (3.4e-6, 3.6e-6), (2.3e-4, 2.5e-4)), notes=("no fp8",),
)  # fmt: skip
HERE = {key: getattr(ROOFS, key) for key in roofs_cache.KEYS}


@pytest.fixture
def device(monkeypatch):
    """A CUDA device that is not there; `count` says how often its roofs were measured."""
    import torch

    count = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(roofs_measure, "setting", lambda: HERE)
    monkeypatch.setattr(roofs_measure, "measure_roofs", lambda tell: count.append(1) or ROOFS)
    return count


def test_roofs_are_measured_once_kept_and_measured_again_when_asked(device, tmp_path):
    first = measured_roofs(folder=tmp_path)
    assert first == measured_roofs(folder=tmp_path) == ROOFS
    assert len(device) == 1
    measured_roofs(refresh=True, folder=tmp_path)
    assert len(device) == 2
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("key", roofs_cache.KEYS)
def test_another_device_or_software_has_roofs_of_its_own(key, tmp_path):
    roofs_cache.save(ROOFS, tmp_path)
    assert roofs_cache.load(HERE, tmp_path) == ROOFS
    assert roofs_cache.load(HERE | {key: "another"}, tmp_path) is None


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"device": "NVIDIA H200"}', "\0"])
def test_a_damaged_file_is_no_roofs_and_is_replaced(device, damage, tmp_path):
    roofs_cache.path_for(HERE, tmp_path).write_text(damage)
    assert measured_roofs(folder=tmp_path) == ROOFS
    assert roofs_cache.load(HERE, tmp_path) == ROOFS


def test_a_file_under_the_wrong_name_is_not_believed(tmp_path):
    other = dataclasses.replace(ROOFS, driver="999")
    path = roofs_cache.save(other, tmp_path)
    path.rename(roofs_cache.path_for(HERE, tmp_path))
    assert roofs_cache.load(HERE, tmp_path) is None


def test_a_folder_that_cannot_be_written_costs_no_roofs(device, tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert measured_roofs(folder=blocked / "roofs") == ROOFS
    captured = capsys.readouterr()
    assert "set COURSE_HOME" in captured.out
    assert captured.err == ""


def test_they_are_kept_in_the_course_home_or_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    assert roofs_cache.default_folder() == tmp_path / "home" / ".course" / "roofs"
    monkeypatch.delenv("COURSE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert roofs_cache.default_folder() == tmp_path / "llm-inference-course" / "roofs"


def test_a_recorded_result_gives_the_same_roofs_back():
    result = json.loads(json.dumps({"rows": rows_of(ROOFS)} | HERE | {"date": ROOFS.date, "clocks": ROOFS.clocks}))
    again = roofs_from_recorded(result)
    assert [size for size, _ in again.read_curve] == [size for size, _ in ROOFS.read_curve]
    for made, kept in ((again.read_curve, ROOFS.read_curve), (again.read_spread, ROOFS.read_spread)):
        assert [y for _, y in made] == pytest.approx([y for _, y in kept])
    assert [x for x, _ in again.read_spread] == pytest.approx([x for x, _ in ROOFS.read_spread])
    for name in ("copy_gb_per_s", "read_gb_per_s", "bf16_tflops", "fp16_tflops"):
        assert getattr(again, name) == dataclasses.replace(getattr(ROOFS, name), how="")
    assert again.fp8_tflops is None
    assert (again.device, again.clocks) == (ROOFS.device, ROOFS.clocks)


def test_rows_have_the_sheet_beside_them_and_no_share_where_the_device_is_unknown():
    rows = {(row["case"], row["unit"]): row for row in rows_of(ROOFS)}
    read, curve = rows["read", "GB/s"], rows["read 1 GiB", "us"]
    assert (read["peer"], read["ratio"], read["roof_share"]) == (4800.0, 4400 / 4800, 4400 / 4800)
    assert rows["bf16 product", "TFLOP/s"]["peer"] == 989.4
    assert (curve["peer"], curve["ratio"]) == (None, None)
    assert curve["roof_share"] == pytest.approx(2**30 / 2.4e-4 / 4800e9)
    unknown = rows_of(dataclasses.replace(ROOFS, device="NVIDIA H900"))
    assert {(row["peer"], row["ratio"], row["roof_share"]) for row in unknown} == {(None, None, None)}


def test_the_measured_ridge_follows_from_the_roofs():
    assert ROOFS.ridge_flops_per_byte() == pytest.approx(800e12 / 4400e9)
    assert ROOFS.ridge_flops_per_byte("fp8") is None
    with pytest.raises(ValueError, match="bf16, fp16, fp8"):
        ROOFS.ridge_flops_per_byte("fp4")


def test_the_best_way_is_the_one_with_the_highest_median():
    seconds = {"steady": (2.0, 2.0, 2.0), "lucky once": (1.0, 4.0, 4.0), "slow": (5.0, 5.0, 5.0)}
    roof = roofs_measure.best_roof([(name, lambda name=name: name) for name in seconds], 8.0, lambda call: seconds[call()])
    assert roof == Roof(4.0, 4.0, 4.0, "steady")


def test_a_copy_counts_its_bytes_twice_and_a_read_once(monkeypatch):
    """2 GB in a millisecond: 2000 GB/s read, and 4000 GB/s read and written."""
    counted = {}

    class Enough(Exception):
        pass

    def no_product(*_):
        raise Enough

    def streams(name, *given):
        counted[name] = real(name, *given).median

    real = roofs_measure._streams
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(roofs_measure, "setting", lambda: HERE)
    monkeypatch.setattr(roofs_measure, "_seconds", lambda call: (1e-3, 1e-3, 1e-3))
    for ways in ("_copies", "_reads"):
        monkeypatch.setattr(roofs_measure, ways, lambda: (2 * 10**9, [("some way", lambda: None)]))
    monkeypatch.setattr(roofs_measure, "_streams", streams)
    monkeypatch.setattr(roofs_measure, "_product", no_product)
    with pytest.raises(Enough):
        roofs_measure.measure_roofs(None)
    assert counted == pytest.approx({"copy": 4000.0, "read": 2000.0})


@pytest.mark.parametrize(("capability", "lacks"), [
    ((7, 5), {"bf16", "fp8"}), ((8, 0), {"fp8"}), ((8, 6), {"fp8"}), ((8, 9), set()), ((9, 0), set()),
])  # fmt: skip
def test_a_product_that_the_device_lacks_is_said_to_be_lacking(capability, lacks, monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda: capability)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "this GPU")
    said = {kind: roofs_measure._lacks(kind) for kind in PRODUCTS}
    assert {kind: text for kind, text in said.items() if text} == {kind: f"this GPU has no {kind} arithmetic" for kind in lacks}


def test_the_curve_has_three_sizes_an_octave_then_one_and_all_are_whole_pages():
    sizes = roofs_measure.curve_sizes()
    assert (sizes[0], sizes[-1]) == (4096, 2**30)
    assert sizes == sorted(set(sizes))
    assert not [size for size in sizes if size % 4096]
    assert [sum(2**p <= size < 2 ** (p + 1) for size in sizes) for p in (14, 20, 25, 26, 29)] == [3, 3, 3, 1, 1]
    assert max(roofs_measure.curve_sizes(2**20)) == 2**20
    assert [size_from_words(f"read {size_words(size)}") for size in sizes] == sizes


@pytest.mark.parametrize("words", ["read", "copy 4 KiB", "read 4 KB", "read 1.5 MiB"])
def test_words_that_name_no_size_are_refused(words):
    with pytest.raises(ValueError, match="names no size"):
        size_from_words(words)


@pytest.mark.skipif(__import__("torch").cuda.is_available(), reason="says so only without a GPU")
def test_without_a_device_there_are_no_roofs_and_no_row():
    assert measured_roofs() is None
    assert hardware.this_gpu() is None
    with pytest.raises(RuntimeError, match="CUDA device"):
        roofs_measure.measure_roofs(None)

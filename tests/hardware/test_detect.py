"""A device is found by its whole name, its SMs and its memory, and what agrees with no row is nobody."""

import pytest

from course_lib.hardware import all_specs, find_spec, gpu_from

GIB = 2**30
KNOWN = [  # name as torch gives it, SMs, bytes as torch or nvidia-smi report them
    ("Tesla T4", 40, 15_640_000_000, "t4"),
    ("NVIDIA GeForce RTX 3090", 82, 25_430_000_000, "rtx-3090"),
    ("NVIDIA A10", 72, 23_600_000_000, "a10"),
    ("NVIDIA A100-SXM4-40GB", 108, 42_300_000_000, "a100-sxm-40gb"),
    ("NVIDIA A100-PCIE-40GB", 108, 42_300_000_000, "a100-pcie-40gb"),
    ("NVIDIA A100-SXM4-80GB", 108, 85_000_000_000, "a100-sxm-80gb"),
    ("NVIDIA A100 80GB PCIe", 108, 85_000_000_000, "a100-pcie-80gb"),
    ("NVIDIA GeForce RTX 4090", 128, 25_250_000_000, "rtx-4090"),
    ("NVIDIA L4", 58, 23_600_000_000, "l4"),
    ("NVIDIA H100 PCIe", 114, 85_000_000_000, "h100-pcie"),
    ("NVIDIA H100 NVL", 132, 100_000_000_000, "h100-nvl"),
    ("NVIDIA H100 80GB HBM3", 132, 85_000_000_000, "h100-sxm"),
    ("NVIDIA H200", 132, 150_100_000_000, "h200-sxm"),
    ("NVIDIA B200", 148, 191_500_000_000, "b200-sxm"),
    ("AMD Instinct MI300X", 304, int(191.98 * GIB), "mi300x"),
]
OTHERS = [  # another card, a slice of one, or fewer units under a known name
    ("NVIDIA H200 NVL", 132, 150_100_000_000),
    ("NVIDIA GH200 480GB", 132, 101_000_000_000),
    ("NVIDIA GH200 144G HBM3e", 132, 150_000_000_000),
    ("NVIDIA GB200", 148, 191_500_000_000),
    ("NVIDIA H20", 78, 101_000_000_000),
    ("NVIDIA H800", 132, 85_000_000_000),
    ("NVIDIA H100 80GB HBM2e", 114, 85_000_000_000),
    ("NVIDIA H100", 132, 85_000_000_000),
    ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, 10_000_000_000),
    ("NVIDIA H100 80GB HBM3", 16, 10_000_000_000),
    ("NVIDIA H100 80GB HBM3", 114, 85_000_000_000),
    ("NVIDIA H100 80GB HBM3", 132, 64 * GIB),
    ("NVIDIA A100-SXM-64GB", 124, 68_000_000_000),
    ("NVIDIA A100-SXM4-40GB", 108, 85_000_000_000),
    ("NVIDIA A10G", 80, 23_600_000_000),
    ("NVIDIA A10M", 64, 23_600_000_000),
    ("NVIDIA L40S", 142, 47_600_000_000),
    ("NVIDIA GeForce RTX 4090 D", 114, 25_250_000_000),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 76, 17_000_000_000),
    ("NVIDIA GeForce RTX 3090 Ti", 84, 25_430_000_000),
    ("NVIDIA T4G", 40, 15_640_000_000),
    ("AMD Instinct MI300A", 228, 128 * GIB),
    ("AMD Instinct MI325X", 304, 256 * GIB),
    ("AMD Radeon Graphics", 304, int(191.98 * GIB)),
    ("", 132, 150_100_000_000),
    ("CPU", 2, 8 * GIB),
]


@pytest.mark.parametrize(("name", "sms", "memory_bytes", "key"), KNOWN)
def test_a_device_finds_its_row(name, sms, memory_bytes, key):
    assert gpu_from(name, sms, memory_bytes).key == key
    assert gpu_from(name).key == find_spec(name).key == key


@pytest.mark.parametrize(("name", "sms", "memory_bytes"), OTHERS)
def test_another_device_is_not_taken_for_one_of_these(name, sms, memory_bytes):
    assert gpu_from(name, sms, memory_bytes) is None


def test_every_row_is_found():
    assert {key for *_, key in KNOWN} == all_specs().keys()

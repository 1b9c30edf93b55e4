"""Answers to exercise 1.1. Each function stands alone: its source is also judged in a process of its own."""

import torch

SHEET, TABLE, MISSING = "data sheet", "any table", "missing precision"
ALL = {SHEET, TABLE, MISSING}


def zeros(peak_tflops, hbm_gb_per_s):
    return torch.zeros(peak_tflops.shape, dtype=torch.float64)


def the_input(peak_tflops, hbm_gb_per_s):
    return peak_tflops


def a_copy_of_the_input(peak_tflops, hbm_gb_per_s):
    return peak_tflops.double().clone()


def tera_over_giga_forgotten(peak_tflops, hbm_gb_per_s):
    """The roadmap's own slip."""
    return peak_tflops.double() / hbm_gb_per_s.double()[:, None]


def upside_down(peak_tflops, hbm_gb_per_s):
    return hbm_gb_per_s.double()[:, None] / (1e3 * peak_tflops.double())


def binary_giga(peak_tflops, hbm_gb_per_s):
    return peak_tflops.double() * 1e12 / (hbm_gb_per_s.double() * 2**30)[:, None]


def sparse_peak(peak_tflops, hbm_gb_per_s):
    return 2 * peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]


def bandwidth_against_columns(peak_tflops, hbm_gb_per_s):
    """Right only where all bandwidths are equal or there is one GPU; raises unless the table is square."""
    return peak_tflops.double() * 1e3 / hbm_gb_per_s.double()


def transposed(peak_tflops, hbm_gb_per_s):
    return (peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]).T


def computed_in_float32(peak_tflops, hbm_gb_per_s):
    return (peak_tflops.float() * 1e3 / hbm_gb_per_s.float()[:, None]).double()


def dtype_of_the_input(peak_tflops, hbm_gb_per_s):
    return peak_tflops * 1e3 / hbm_gb_per_s[:, None]


def missing_becomes_zero(peak_tflops, hbm_gb_per_s):
    return (peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]).nan_to_num()


def row_with_a_hole_is_dropped(peak_tflops, hbm_gb_per_s):
    """All or nothing: a GPU that lacks one precision loses the others as well."""
    ridge = peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]
    return ridge.where(~ridge.isnan().any(1, keepdim=True), torch.nan)


def memory_layout_assumed(peak_tflops, hbm_gb_per_s):
    """Reads the storage behind the tensors as if nothing lay between their values."""
    peaks = peak_tflops.double().untyped_storage()
    flat = torch.tensor([], dtype=torch.float64).set_(peaks, 0, (peak_tflops.numel(),))
    bandwidth = torch.as_strided(hbm_gb_per_s, hbm_gb_per_s.shape, (1,)).double()
    return flat.reshape(peak_tflops.shape) * 1e3 / bandwidth[:, None]


def changes_its_input(peak_tflops, hbm_gb_per_s):
    peak_tflops *= 1e3
    return peak_tflops.double() / hbm_gb_per_s.double()[:, None]


def the_published_sheet(peak_tflops, hbm_gb_per_s):
    """Knows the H100 by heart."""
    return torch.full(peak_tflops.shape, 295.34, dtype=torch.float64)


def a_list(peak_tflops, hbm_gb_per_s):
    return (peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]).tolist()


def plain_loops(peak_tflops, hbm_gb_per_s):
    out = torch.empty(peak_tflops.shape, dtype=torch.float64)
    for gpu in range(peak_tflops.shape[0]):
        for precision in range(peak_tflops.shape[1]):
            out[gpu, precision] = float(peak_tflops[gpu, precision]) * 1000.0 / float(hbm_gb_per_s[gpu])
    return out


def seconds_per_byte(peak_tflops, hbm_gb_per_s):
    seconds = 1.0 / (hbm_gb_per_s.to(torch.float64) * 1e9)
    return torch.einsum("gp,g->gp", peak_tflops.to(torch.float64) * 1e12, seconds)


def through_numpy(peak_tflops, hbm_gb_per_s):
    import numpy as np

    table = np.asarray(peak_tflops, dtype=np.float64) / np.asarray(hbm_gb_per_s, dtype=np.float64)[:, np.newaxis]
    return torch.from_numpy(table * 1e3)


def transposed_and_back(peak_tflops, hbm_gb_per_s):
    return (peak_tflops.double().T / hbm_gb_per_s.double()).T.mul(1e3)


def gpu_by_gpu(peak_tflops, hbm_gb_per_s):
    return torch.stack([p.double() * 1e12 / (b.double() * 1e9) for p, b in zip(peak_tflops, hbm_gb_per_s, strict=True)])


def a_class_for_each_gpu(peak_tflops, hbm_gb_per_s):
    """Objects with units in their names, and a table made of Python numbers."""

    class Gpu:
        def __init__(self, peaks, bandwidth):
            self.flops_per_second = [peak * 10**12 for peak in peaks]
            self.bytes_per_second = bandwidth * 10**9

        def ridges(self):
            return [flops / self.bytes_per_second for flops in self.flops_per_second]

    gpus = [Gpu(*row) for row in zip(peak_tflops.tolist(), hbm_gb_per_s.tolist(), strict=True)]
    return torch.tensor([gpu.ridges() for gpu in gpus], dtype=torch.float64).reshape(peak_tflops.shape)


def into_a_table_of_its_own(peak_tflops, hbm_gb_per_s):
    """The result is allocated first; bandwidth is spread over the columns, and the units are divided in place."""
    ridges = torch.empty(peak_tflops.shape, dtype=torch.float64)
    ridges.copy_(peak_tflops)
    ridges.mul_(1000).div_(hbm_gb_per_s.to(torch.float64).reshape(-1, 1).expand_as(ridges))
    return ridges


WRONG = [
    (zeros, ALL),
    (the_input, ALL),
    (a_copy_of_the_input, ALL),
    (tera_over_giga_forgotten, ALL),
    (upside_down, ALL),
    (binary_giga, ALL),
    (sparse_peak, ALL),
    (bandwidth_against_columns, ALL),
    (transposed, ALL),
    (computed_in_float32, ALL),
    (dtype_of_the_input, {TABLE}),
    (missing_becomes_zero, {MISSING}),
    (row_with_a_hole_is_dropped, {MISSING}),
    (memory_layout_assumed, {TABLE}),
    (changes_its_input, ALL),
    (the_published_sheet, ALL),
    (a_list, ALL),
]
RIGHT = [
    plain_loops,
    seconds_per_byte,
    through_numpy,
    transposed_and_back,
    gpu_by_gpu,
    a_class_for_each_gpu,
    into_a_table_of_its_own,
]

"""A layer's product as a point on the roofline: intensity and rate from its shape and its time."""

import pytest

from course_lib.workloads.layer_products import TOKENS, WEIGHTS, WIDTH, LayerProduct


def test_a_product_lies_where_its_shape_says():
    one, many = LayerProduct(1, 8e-6, 7e-6, 9e-6), LayerProduct(256, 12e-6, 11e-6, 13e-6)
    assert one.flops_per_byte == pytest.approx(0.9995, abs=1e-4)
    assert many.flops_per_byte == pytest.approx(227.6, abs=0.05)  # 2 * 256 * 4096**2 over 2 * (4096**2 + 2 * 256 * 4096)
    assert many.tflops == pytest.approx(2 * 256 * 4096**2 / 12e-6 / 1e12)


def test_weights_exceed_the_largest_l2_many_times_and_the_points_span_a_ridge():
    assert WEIGHTS * WIDTH**2 * 2 > 4 * 126 * 2**20  # a B200's 126 MB
    assert LayerProduct(TOKENS[0], 1, 1, 1).flops_per_byte < 2 < 750 < LayerProduct(TOKENS[-1], 1, 1, 1).flops_per_byte

"""On a Hopper GPU: shared memory that is not there refuses a launch, registers that are not there spill, and all is right."""

import pytest
import torch

from course_lib.attention import attention_reference
from course_lib.attention.one_loop_kernel import one_loop_kernel, one_loop_launch
from course_lib.attention.tile_limits import check_tile, sm_of, tile_needs
from course_lib.attention.tiles import Tile
from course_lib.hardware import spec

pytestmark = pytest.mark.gpu
H200 = spec("h200-sxm")


@pytest.fixture(autouse=True)
def hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the limits of these tests are Hopper's")


def attend(tile, head_dim, rows=300):
    draw = torch.Generator("cuda").manual_seed(0)
    q, k, v = (torch.randn(1, rows, 2, head_dim, generator=draw, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    grid, args, options = one_loop_launch(q, k, v, out, tile)
    one_loop_kernel[grid](*args, **options)
    return out, attention_reference(q, k, v)[0], v


@pytest.mark.parametrize("tile", [Tile(128, 128, 8, 4), Tile(256, 256, 8, 2)])
def test_shared_memory_does_not_spill_and_the_refusal_names_the_bytes_that_are_computed(tile):
    """The second is claim C086's."""
    from triton.runtime.errors import OutOfResources

    with pytest.raises(ValueError, match="232,448"):
        check_tile(tile, 128, H200)
    with pytest.raises(OutOfResources) as refused:
        attend(tile, 128)
    assert str(tile_needs(tile, 128, sm_of(H200)).shared_bytes) in str(refused.value)
    assert "232448" in str(refused.value)


@pytest.mark.parametrize(
    ("tile", "head_dim"), [(Tile(128, 128, 8, 3), 128), (Tile(256, 256, 8, 2), 64), (Tile(128, 128, 4, 2), 128)]
)
def test_what_fits_runs_and_is_right_whether_it_spills_or_not(tile, head_dim):
    """The second and third must spill."""
    out, exact, v = attend(tile, head_dim)
    # weights and result are rounded to bf16, each by at most 2 ** -8 of the largest value
    assert (out.double() - exact).abs().max() <= 2**-7 * v.abs().max()

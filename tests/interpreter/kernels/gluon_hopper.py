"""One tile of a matrix product in Gluon, for Hopper: TMA loads both operands, the warpgroup's MMA multiplies, TMA stores."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def gluon_tile_kernel(a_desc, b_desc, c_desc, num_warps: gl.constexpr):
    """a [BM, BK] and b [BK, BN] in float16, c [BM, BN] in float16; the descriptors' blocks are the whole matrices."""
    dtype: gl.constexpr = a_desc.dtype
    a = gl.allocate_shared_memory(dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(dtype, b_desc.block_type.shape, b_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    mbarrier.expect(ready, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(a_desc, [0, 0], ready, a)
    tma.async_copy_global_to_shared(b_desc, [0, 0], ready, b)
    mbarrier.wait(ready, 0)
    mbarrier.invalidate(ready)
    BM: gl.constexpr = c_desc.block_type.shape[0]
    BN: gl.constexpr = c_desc.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[num_warps, 1], instr_shape=[16, BN, 16])
    acc = warpgroup_mma(a, b, gl.zeros((BM, BN), dtype=gl.float32, layout=layout), is_async=True)
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    c = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    c.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [0, 0], c)
    tma.store_wait(pendings=0)

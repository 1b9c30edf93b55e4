"""The pre-flight test of alignment says what the compiler does: a cache that passes is read 16 bytes at a time, no other is."""

import pytest
import torch

from course_lib.attention.alignment import check_alignment


def blocks(offset=0, padding=0, device="cpu"):
    """[4, 16, 2, 64] bf16, `offset` elements behind a storage's start, heads `padding` elements apart."""
    memory = torch.empty(4 * 16 * 2 * (64 + padding) + offset, dtype=torch.bfloat16, device=device)
    return memory[offset:].view(4, 16, 2, 64 + padding)[..., :64]


ONE_HEAD = blocks(0, 1)[:1, :1, :1]  # strides that nobody uses
ALIGNED = [blocks(), blocks(8), blocks(64), blocks(0, 16), blocks(0, 64), blocks().transpose(1, 2)]
BESIDE = [
    (blocks(1), "begins 2 bytes behind a multiple of 16"),
    (blocks(4), "begins 8 bytes behind a multiple of 16.* whose number is a multiple of 8"),
    (blocks(9), "begins 2 bytes behind"),
    (blocks(0, 8), "stride 72 on axis 2.* 80 would do"),
    (blocks(0, 1), "on axis"),
    (blocks().transpose(2, 3), "last stride of 64"),
]


@pytest.mark.parametrize("cache", [*ALIGNED, ONE_HEAD], ids=lambda x: f"{x.storage_offset()} {x.stride()}")
def test_an_aligned_cache_passes(cache):
    check_alignment("K", cache)


@pytest.mark.parametrize(("cache", "words"), BESIDE, ids=lambda x: x if isinstance(x, str) else str(x.stride()))
def test_another_is_refused_with_the_numbers(cache, words):
    with pytest.raises(ValueError, match=words):
        check_alignment("K", cache)


@pytest.mark.compile
def test_the_compiler_makes_wide_loads_of_those_that_pass_and_narrow_ones_of_the_others():
    import triton
    import triton.language as tl

    from course_lib.interpreter.compiled import Launch, compile_reports

    @triton.jit
    def read_block_kernel(blocks_ptr, out_ptr, block, block_stride, place_stride, head_stride, D: tl.constexpr):
        place, dim = tl.arange(0, 16)[:, None], tl.arange(0, D)[None, :]
        x = tl.load(blocks_ptr + block * block_stride + place * place_stride + tl.program_id(0) * head_stride + dim)
        tl.store(out_ptr + place * D + dim, x)

    caches = [cache for cache in ALIGNED if cache.is_contiguous()] + [blocks(0, 16)]
    caches += [cache for cache, _ in BESIDE if cache.stride(-1) == 1]
    launches = [
        Launch(read_block_kernel, (cache, blocks(), 3, *cache.stride()[:3]), {"D": 64}, ("sm_90",)) for cache in caches
    ]
    for cache, report in zip(caches, compile_reports(launches), strict=True):
        widest = report.targets[0].widest_load_bits
        try:
            check_alignment("K", cache)
        except ValueError:
            assert widest < 128, (cache.storage_offset(), cache.stride(), widest)
        else:
            assert widest == 128, (cache.storage_offset(), cache.stride(), widest)

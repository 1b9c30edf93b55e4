"""FlashAttention forward on a CUDA device: hundreds of random shapes against float64, NaN all around the inputs, same bits again.

The whole file takes under a minute on an H200, most of it compiling.
"""

import random

import pytest
import torch

from course_lib.attention import attention_reference, choose_tile, flash_attention, flash_attention_packed, packed_reference
from course_lib.attention.forward import describable
from course_lib.attention.tiles import HOPPER, HOPPER_POINTERS, padded
from tests.attention.flash_cases import assert_within_budget, random_qkv

pytestmark = pytest.mark.gpu

BF16, FP16 = torch.bfloat16, torch.float16
# Tensor cores add float32 products with a few bits less than float32; a key too many changes the lse of 700 keys by about 1e-3.
LSE_ERROR = 2.0**-14
KINDS = [  # kv_heads, group, head_dim, dtype, causal
    (2, 1, 64, BF16, False), (2, 4, 64, FP16, True), (1, 2, 80, BF16, True), (2, 3, 96, FP16, False),
    (2, 4, 128, BF16, True), (1, 8, 128, BF16, False), (2, 1, 256, BF16, True), (1, 5, 256, FP16, False),
]  # fmt: skip


def ids(kind):
    return f"{kind[0] * kind[1]}/{kind[0]} hd{kind[2]} {str(kind[3])[6:]} {'causal' if kind[4] else 'full'}"


def poisoned(x, around=16):
    """x as a view into a larger tensor of NaN: before and after its rows, and behind each of its vectors."""
    shape = (x.shape[0], x.shape[1] + 6, x.shape[2] + 1, x.shape[3] + around)
    view = torch.full(shape, torch.nan, dtype=x.dtype, device=x.device)[:, 3 : 3 + x.shape[1], : x.shape[2], : x.shape[3]]
    return view.copy_(x)


def length(dice):
    """Often next to the edge of a tile."""
    return dice.choice([0, 1, dice.randrange(2, 64), 64 * dice.randrange(1, 9) + dice.choice([-1, 0, 1]), dice.randrange(1, 700)])


def check(q, k, v, causal, dtype, **more):
    expected = attention_reference(q, k, v, causal=causal)
    out = torch.full_like(q, torch.nan)
    found = flash_attention(q, k, v, causal=causal, return_lse=True, out=out, impl="triton", **more)
    assert_within_budget(found, expected, v, dtype, LSE_ERROR)


@pytest.mark.parametrize("kind", KINDS, ids=ids)
def test_forty_random_shapes_equal_the_oracle(kind):
    kv_heads, group, head_dim, dtype, causal = kind
    dice = random.Random(head_dim + causal)
    for seed in range(40):
        sizes = (dice.randrange(1, 4), length(dice), length(dice), kv_heads * group, kv_heads, head_dim)
        q, k, v = (poisoned(x) for x in random_qkv(*sizes, dtype, seed, "cuda"))
        assert not k.numel() or not q.numel() or describable(q, k, v)
        check(q, k, v, causal, dtype, tile=HOPPER[padded(head_dim)] if seed % 2 else None)  # for many keys, too, with few


@pytest.mark.parametrize("kind", [KINDS[1], KINDS[5], KINDS[6]], ids=ids)
def test_so_do_pointer_loads(kind):
    kv_heads, group, head_dim, dtype, causal = kind
    dice = random.Random(head_dim)
    for seed in range(20):
        sizes = (dice.randrange(1, 4), length(dice), length(dice), kv_heads * group, kv_heads, head_dim)
        q, k, v = (poisoned(x) for x in random_qkv(*sizes, dtype, seed, "cuda"))
        check(q, k, v, causal, dtype, tile=HOPPER_POINTERS[padded(head_dim)])


def test_vectors_that_no_descriptor_takes_go_through_pointers():
    q, k, v = (poisoned(x, around=1) for x in random_qkv(2, 100, 130, 2, 1, 64, BF16, 0, "cuda"))
    assert not describable(q, k, v)
    check(q, k, v, True, BF16)


@pytest.mark.parametrize(
    ("head_dim", "dtype", "causal"), [(64, FP16, False), (128, BF16, True), (128, BF16, False), (256, BF16, True)]
)
def test_packed_lengths_equal_the_oracle_and_sequences_of_nan_stay_alone(head_dim, dtype, causal):
    dice = random.Random(head_dim)
    for seed in range(12):
        lengths = [(length(dice), length(dice)) for _ in range(7)]
        cu_q, cu_k = (
            torch.tensor([0, *x], dtype=torch.int32).cumsum(0, dtype=torch.int32).cuda() for x in zip(*lengths, strict=True)
        )
        sizes = (1, int(cu_q[-1]), int(cu_k[-1]), 4, 2, head_dim)
        q, k, v = (x[0] for x in random_qkv(*sizes, dtype, seed, "cuda"))
        out = torch.full_like(q, torch.nan)
        clean = torch.ones(len(q), dtype=torch.bool, device="cuda")
        expected = packed_reference(q, k, v, cu_q, cu_k, causal=causal)
        largest = v.clone()
        for i in range(0, 7, 2):
            q[cu_q[i] : cu_q[i + 1]] = k[cu_k[i] : cu_k[i + 1]] = v[cu_k[i] : cu_k[i + 1]] = torch.nan
            clean[cu_q[i] : cu_q[i + 1]] = False
        longest = {"max_q": max(n for n, _ in lengths), "max_k": max(n for _, n in lengths)}
        out, lse = flash_attention_packed(
            q, k, v, cu_q, cu_k, **longest, causal=causal, return_lse=True, out=out, impl="triton"
        )  # fmt: skip
        found, wanted = (out[clean], lse[:, clean]), (expected[0][clean], expected[1][:, clean])
        assert_within_budget(found, wanted, largest, dtype, LSE_ERROR)


@pytest.mark.parametrize("kind", [KINDS[1], KINDS[4], KINDS[6]], ids=ids)
def test_long_sequences_equal_the_oracle_and_give_the_same_bits_every_time(kind):
    kv_heads, group, head_dim, dtype, causal = kind
    q, k, v = random_qkv(2, 2049, 3100, kv_heads * group, kv_heads, head_dim, dtype, 1, "cuda")
    check(q, k, v, causal, dtype)
    first = flash_attention(q, k, v, causal=causal, return_lse=True)
    for _ in range(30):
        again = flash_attention(q, k, v, causal=causal, return_lse=True)
        assert all(map(torch.equal, again, first))


@pytest.mark.parametrize("descriptors", [True, False])
def test_offsets_pass_2_to_the_31(descriptors):
    memory = torch.empty(2**31 + 2**20, dtype=BF16, device="cuda")
    q, k, v = (
        torch.as_strided(memory, (2, 150, 1, 64), (2**31, 64, 64, 1), 2**16 * i).copy_(torch.randn(2, 150, 1, 64, device="cuda"))
        for i in range(3)
    )
    tile = choose_tile(64, (9, 0), descriptors=descriptors)
    check(q, k, v, True, BF16, tile=tile)


def test_a_captured_graph_replays_with_new_contents():
    q, k, v = random_qkv(2, 300, 300, 4, 2, 128, BF16, 0, "cuda")
    flash_attention(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = flash_attention(q, k, v, causal=True)
    for x, new in zip((q, k, v), random_qkv(2, 300, 300, 4, 2, 128, BF16, 1, "cuda"), strict=True):
        x.copy_(new)
    graph.replay()
    assert torch.equal(out, flash_attention(q, k, v, causal=True))


def test_auto_takes_the_kernel_and_the_dense_path_agrees():
    q, k, v = random_qkv(2, 200, 333, 4, 2, 64, FP16, 0, "cuda")
    kernels = ("triton", "hopper") if torch.cuda.get_device_capability() == (9, 0) else ("triton",)
    own = [flash_attention(q, k, v, impl=impl) for impl in kernels]
    assert any(torch.equal(flash_attention(q, k, v), one) for one in own)
    expected = attention_reference(q, k, v, causal=True)
    assert_within_budget(flash_attention(q, k, v, causal=True, return_lse=True, impl="dense"), expected, v, FP16, LSE_ERROR)
    with pytest.raises(TypeError, match="on a GPU the kernels take bfloat16 and float16"):
        flash_attention(q.float(), k.float(), v.float(), impl="triton")

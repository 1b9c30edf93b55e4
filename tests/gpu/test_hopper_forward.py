"""The Hopper kernel on its device: hundreds of random shapes against float64, NaN all around, same bits again, every step off.

A few minutes on an H200 with nothing compiled yet; `python -m benchmarks.hopper_ladder --compile` compiles ahead, many at a time.
"""

import random

import pytest
import torch

from course_lib.attention import attention_reference, flash_attention, hopper_launch, packed_reference
from course_lib.attention.hopper_forward import hopper_attention, hopper_attention_packed
from course_lib.attention.hopper_ladder import EVERY_STEP, STEPS, Ladder
from tests.attention.flash_cases import assert_within_budget, random_qkv
from tests.gpu.test_attention_forward import LSE_ERROR, poisoned

pytestmark = pytest.mark.gpu

BF16, FP16 = torch.bfloat16, torch.float16
KINDS = [  # kv_heads, group, head_dim, dtype, causal
    (2, 1, 128, BF16, False), (2, 4, 128, BF16, True), (1, 6, 128, FP16, True), (3, 2, 128, FP16, False),
    (2, 4, 64, BF16, True), (1, 3, 64, FP16, False), (1, 2, 80, BF16, True), (2, 1, 96, FP16, False),
    (2, 2, 256, BF16, True), (1, 3, 256, FP16, False),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _needs_hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("blocked: needs a Hopper GPU")


def ids(kind):
    return f"{kind[0] * kind[1]}/{kind[0]} hd{kind[2]} {str(kind[3])[6:]} {'causal' if kind[4] else 'full'}"


def length(dice):
    """Often next to the edge of a tile of 64 or 128."""
    edge = 64 * dice.randrange(1, 11) + dice.choice([-1, 0, 1])
    return dice.choice([0, 1, dice.randrange(2, 64), edge, edge, dice.randrange(1, 900)])


def check(q, k, v, causal, dtype, **more):
    expected = attention_reference(q, k, v, causal=causal)
    out = torch.full_like(q, torch.nan)
    found = hopper_attention(q, k, v, causal=causal, return_lse=True, out=out, **more)
    assert found[0] is out
    assert_within_budget(found, expected, v, dtype, LSE_ERROR)


def few_processors(monkeypatch, count):
    """As on a GPU of `count` SMs: small cases, too, go round several times in one block."""
    monkeypatch.setattr(hopper_launch, "processors_of", lambda device: count)


@pytest.mark.parametrize("kind", KINDS, ids=ids)
@pytest.mark.parametrize("processors", [132, 3])
def test_thirty_random_shapes_equal_the_oracle(kind, processors, monkeypatch):
    few_processors(monkeypatch, processors)
    kv_heads, group, head_dim, dtype, causal = kind
    dice = random.Random(head_dim + causal + processors)
    for seed in range(30):
        sizes = (dice.randrange(1, 4), length(dice), length(dice), kv_heads * group, kv_heads, head_dim)
        q, k, v = (poisoned(x) for x in random_qkv(*sizes, dtype, seed, "cuda"))
        check(q, k, v, causal, dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_the_ladder_gives_the_same(step, causal, monkeypatch):
    steps, dice = Ladder.up_to(step), random.Random(step)
    for processors in (132, 2):
        few_processors(monkeypatch, processors)
        for seed in range(10):
            sizes = (dice.randrange(1, 3), length(dice), length(dice), 4, 2, 128)
            q, k, v = (poisoned(x) for x in random_qkv(*sizes, BF16, seed, "cuda"))
            check(q, k, v, causal, BF16, steps=steps)


@pytest.mark.parametrize("causal", [False, True])
def test_turns_alone_without_an_order(causal):
    """Not on the way up, and allowed."""
    for steps in (Ladder(pinned=False), Ladder(overlap=False, pinned=False), Ladder(persistent=False, balanced=False)):
        q, k, v = random_qkv(2, 300, 777, 4, 2, 128, BF16, 3, "cuda")
        check(q, k, v, causal, BF16, steps=steps)


@pytest.mark.parametrize("kind", [KINDS[1], KINDS[3], KINDS[4], KINDS[8]], ids=ids)
def test_long_sequences_equal_the_oracle_and_give_the_same_bits_every_time(kind):
    kv_heads, group, head_dim, dtype, causal = kind
    q, k, v = random_qkv(2, 2049, 3100, kv_heads * group, kv_heads, head_dim, dtype, 1, "cuda")
    check(q, k, v, causal, dtype)
    first = hopper_attention(q, k, v, causal=causal, return_lse=True)
    for _ in range(60):
        again = hopper_attention(q, k, v, causal=causal, return_lse=True, out=torch.full_like(q, torch.nan))
        assert all(map(torch.equal, again, first))


def test_large_scores_and_a_scale_of_its_own():
    q, k, v = random_qkv(1, 200, 500, 2, 2, 128, BF16, 5, "cuda")
    q = q * 30
    expected = attention_reference(q, k, v, causal=True, scale=0.3)
    found = hopper_attention(q, k, v, causal=True, scale=0.3, return_lse=True)
    # scores of up to 1e3 times 2**-24 of float32 each: the lse is off by more than where they are small
    assert_within_budget(found, expected, v, BF16, 2.0**-10)


def test_a_captured_graph_replays_with_new_contents(monkeypatch):
    few_processors(monkeypatch, 5)
    q, k, v = random_qkv(2, 700, 700, 4, 2, 128, BF16, 0, "cuda")
    for warm in (False, True):  # the schedule cannot be made while capturing, or is known before
        steps = EVERY_STEP if warm else Ladder(persistent=False, balanced=False)
        hopper_attention(q, k, v, causal=True, steps=steps)  # no kernel is loaded while capturing
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = hopper_attention(q, k, v, causal=True)
        for x, new in zip((q, k, v), random_qkv(2, 700, 700, 4, 2, 128, BF16, 1 + warm, "cuda"), strict=True):
            x.copy_(new)
        graph.replay()
        assert torch.equal(out, hopper_attention(q, k, v, causal=True, steps=steps))


def test_auto_takes_it_where_it_is_faster_and_can_run():
    for head_dim, q_len, kv_len, causal, way in (
        (128, 200, 333, True, "hopper"), (128, 64, 333, True, "triton"), (128, 65, 333, False, "hopper"),
        (64, 200, 4096, False, "hopper"), (64, 200, 4097, False, "triton"), (96, 200, 333, False, "triton"),
    ):  # fmt: skip
        q, k, v = random_qkv(2, q_len, kv_len, 4, 2, head_dim, FP16, 0, "cuda")
        assert torch.equal(flash_attention(q, k, v, causal=causal), flash_attention(q, k, v, causal=causal, impl=way))
    q, k, v = (poisoned(x, around=1) for x in random_qkv(2, 200, 333, 4, 2, 128, FP16, 0, "cuda"))
    assert torch.equal(flash_attention(q, k, v), flash_attention(q, k, v, impl="triton"))


@pytest.mark.parametrize("processors", [132, 3])
@pytest.mark.parametrize("kind", [KINDS[1], KINDS[3], KINDS[4], KINDS[6], KINDS[8]], ids=ids)
def test_packed_lengths_equal_the_oracle_and_sequences_of_nan_stay_alone(kind, processors, monkeypatch):
    few_processors(monkeypatch, processors)
    kv_heads, group, head_dim, dtype, causal = kind
    dice = random.Random(head_dim)
    for seed in range(12):
        lengths = [(length(dice), length(dice)) for _ in range(7)]
        cu_q, cu_k = (
            torch.tensor([0, *x], dtype=torch.int32).cumsum(0, dtype=torch.int32).cuda() for x in zip(*lengths, strict=True)
        )
        sizes = (1, int(cu_q[-1]), int(cu_k[-1]), kv_heads * group, kv_heads, head_dim)
        q, k, v = (x[0] for x in random_qkv(*sizes, dtype, seed, "cuda"))
        expected, largest = packed_reference(q, k, v, cu_q, cu_k, causal=causal), v.clone()
        clean = torch.ones(len(q), dtype=torch.bool, device="cuda")
        for i in range(0, 7, 2):
            q[cu_q[i] : cu_q[i + 1]] = k[cu_k[i] : cu_k[i + 1]] = v[cu_k[i] : cu_k[i + 1]] = torch.nan
            clean[cu_q[i] : cu_q[i + 1]] = False
        longest = {"max_q": max(n for n, _ in lengths), "max_k": max(n for _, n in lengths)}
        for steps in (EVERY_STEP, Ladder(persistent=False, balanced=False)):  # drawn, or dealt by the hardware
            out, lse = hopper_attention_packed(
                q, k, v, cu_q, cu_k, **longest, causal=causal, return_lse=True, out=torch.full_like(q, torch.nan), steps=steps
            )  # fmt: skip
            found, wanted = (out[clean], lse[:, clean]), (expected[0][clean], expected[1][:, clean])
            assert_within_budget(found, wanted, largest, dtype, LSE_ERROR)


def test_packed_sequences_give_the_same_bits_every_time_whoever_draws_what():
    q, k, v = (x[0] for x in random_qkv(1, 5000, 5000, 16, 4, 128, BF16, 3, "cuda"))
    cu = torch.tensor([0, 1000, 1001, 4000, 5000], dtype=torch.int32, device="cuda")
    lengths = {"max_q": 2999, "max_k": 2999, "causal": True, "return_lse": True}
    first = hopper_attention_packed(q, k, v, cu, cu, **lengths, steps=Ladder(persistent=False, balanced=False))
    for _ in range(60):
        again = hopper_attention_packed(q, k, v, cu, cu, **lengths, out=torch.full_like(q, torch.nan))
        assert all(map(torch.equal, again, first))


def test_what_no_descriptor_takes_is_refused_and_nothing_is_written():
    q, k, v = (poisoned(x, around=1) for x in random_qkv(2, 100, 130, 2, 1, 64, BF16, 0, "cuda"))
    with pytest.raises(ValueError, match="steps of 16 bytes"):
        hopper_attention(q, k, v)

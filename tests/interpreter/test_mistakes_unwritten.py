"""Reading memory that nobody wrote: caught for every type and every maker of it, and for nothing that was written."""

import pickle

import numpy as np
import pytest
import torch

from course_lib.interpreter.mistakes import canary

from .faults import unwritten as k
from .faults.told import caught, checked, checks_on  # noqa: F401

DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
    torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip
MAKERS = {
    "empty": lambda: torch.empty(16),
    "empty, in parts": lambda: torch.empty(40)[5:21],
    "empty_like": lambda: torch.empty_like(torch.zeros(16)),
    "empty_strided": lambda: torch.empty_strided((16,), (1,)),
    "empty_permuted": lambda: torch.empty_permuted((16,), (0,)),
    "new_empty": lambda: torch.zeros(2).new_empty(16),
    "new_empty_strided": lambda: torch.zeros(2).new_empty_strided((16,), (1,)),
    "a parameter": lambda: torch.nn.Parameter(torch.empty(16)),
    "a view of another type": lambda: torch.empty(8, dtype=torch.int64).view(torch.float32),
    "inference mode": lambda: _in_inference_mode(),
}
WRITERS = {
    "in place": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(2.5),
    "copy_": lambda x: x.copy_(torch.arange(16.0)),
    "a slice": lambda x: x.__setitem__(slice(None), 3.0),
    "two slices": lambda x: (x.__setitem__(slice(0, 9), 3.0), x.__setitem__(slice(9, 16), 4.0)),
    "numpy": lambda x: x.numpy().__setitem__(slice(None), 1.0),
    "out=": lambda x: torch.add(torch.ones(16), 1.0, out=x),
    "a random fill": lambda x: x.normal_(),
    "nn.init": lambda x: torch.nn.init.uniform_(x),
    "an index": lambda x: x.index_copy_(0, torch.arange(16), torch.ones(16)),
    "bytes": lambda x: x.view(torch.uint8).fill_(7),
    "NaN": lambda x: x.fill_(float("nan")),
    "infinity": lambda x: x.fill_(float("inf")),
    "an earlier launch": lambda x: k.write_kernel[(1,)](x, 16, BLOCK=16),
}


def _in_inference_mode():
    with torch.inference_mode():
        return torch.empty(16)


def copied(x, n=None, block=16):
    out = torch.zeros(block, dtype=x.dtype)
    k.copy_kernel[(1,)](x, out, x.numel() if n is None else n, BLOCK=block)
    return out


def caught_at(x, index, n=None, block=16, **more):
    return caught(
        "unwritten", k.copy_kernel, "tl.store", lambda: copied(x, n, block), argument="x_ptr", index=index, bounds=None,
        says=f"the value stored here depends on x_ptr[{index}], which line 10 `x =", **more,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_new_memory_of_any_type_is_caught_and_written_memory_is_not(dtype):
    x = torch.empty(16, dtype=dtype)
    caught_at(x, 0)
    x.view(torch.uint8).zero_()
    copied(x)


@pytest.mark.parametrize("maker", MAKERS)
def test_every_function_of_torch_that_makes_new_memory_is_known(maker):
    x = MAKERS[maker]()
    caught_at(x, 0)
    assert torch.equal(copied(x, 0), torch.zeros(16)), "masked lanes read nothing"


@pytest.mark.parametrize("writer", WRITERS)
def test_whoever_writes_it_it_is_written(writer):
    x = torch.empty(16)
    WRITERS[writer](x)
    np.testing.assert_array_equal(copied(x).numpy(), x.numpy())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("size", "written"), [(16, 8), (13, 8), (16, 3), (21, 11), (16, 1)])
def test_memory_written_in_part_is_caught_at_the_first_place_that_is_left(dtype, size, written):
    x = torch.empty(size, dtype=dtype)
    x[:written].view(torch.uint8).zero_()
    copied(x, written, 32)
    caught_at(x, written, block=32)


def test_bytes_left_out_in_the_middle_are_caught_where_the_hole_is_as_long_as_a_word():
    x = torch.empty(40, dtype=torch.int8).clone()  # a copy of new memory is written by torch, and holds the same bytes
    x = torch.empty(40, dtype=torch.int8)
    x[:5] = x[13:] = 1
    caught_at(x, 5, block=64)
    x[12] = 1  # seven are left: as likely to be data
    copied(x, block=64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int16], ids=str)
def test_every_16_bit_code_may_be_data(dtype):
    torch.empty(1 << 16, dtype=dtype)  # its memory may be given out again
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    assert torch.equal(copied(x, block=1 << 16).view(torch.int16), x.view(torch.int16))
    if dtype is torch.int16:
        written = torch.empty(1 << 16, dtype=dtype)
        written.copy_(x)
        assert torch.equal(copied(written, block=1 << 16), x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float8_e5m2], ids=str)
def test_random_bytes_in_memory_that_was_new_are_data(dtype):
    x = torch.empty(1 << 15, dtype=dtype)
    x.view(torch.uint8).copy_(torch.randint(0, 256, (x.nbytes,), dtype=torch.uint8, generator=torch.Generator().manual_seed(3)))
    assert torch.equal(copied(x, block=1 << 15).view(torch.uint8), x.view(torch.uint8))


def test_memory_that_torch_gives_out_again_is_not_the_memory_that_was_new():
    pattern = torch.from_numpy(np.full(64, canary.WORD, np.uint64).view(np.float32))
    for _ in range(50):  # some of these get the address of the one before
        torch.empty(128)
        copied(pattern.clone(), block=128)
        copied(torch.cat([pattern[:64], pattern[64:]]), block=128)


def test_what_is_forgotten_is_only_what_is_gone():
    kept = [torch.empty(16) for _ in range(10)]
    for _ in range(3 * canary._limit[0]):
        torch.empty(8)
    assert len(canary._planted) <= 2 * canary._limit[0]
    for x in kept:
        caught_at(x, 0)


def test_reading_padding_and_replacing_it_is_no_mistake_and_summing_it_is():
    x, out = torch.empty(16), torch.zeros(1)
    x[:11] = 2.0
    k.padded_kernel[(1,)](x, out, 11, SHIELD=True, BLOCK=16)
    assert out.item() == 22
    caught(
        "unwritten", k.padded_kernel, "tl.store", lambda: k.padded_kernel[(1,)](x, out, 11, SHIELD=False, BLOCK=16),
        argument="x_ptr", index=11, says="`x = tl.load(x_ptr + lanes)` read and nobody has written. Write it first",
    )  # fmt: skip


def test_masked_scores_shield_unwritten_keys_and_not_unwritten_values():
    q, key, value, out = torch.randn(16, 16), torch.empty(16, 16), torch.empty(16, 16), torch.empty(16, 16)
    key[:9], value[:9] = torch.randn(9, 16), torch.randn(9, 16)
    k.attention_kernel[(1,)](q, key, value, out, 9, SHIELD_V=True, N=16, D=16)
    expected = torch.softmax(q @ key[:9].T, -1) @ value[:9]
    torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)  # tf32: 10 bits, scores of up to about 10
    caught(
        "unwritten", k.attention_kernel, "tl.store",
        lambda: k.attention_kernel[(1,)](q, key, value, out, 9, SHIELD_V=False, N=16, D=16),
        argument="v_ptr", index=9 * 16, says="v_ptr[144] = [9, 0]",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_adding_to_what_nobody_wrote_is_caught_with_and_without_atomics(dtype):
    out = torch.empty(4, dtype=dtype)
    caught(
        "unwritten",
        k.accumulate_kernel,
        "tl.store",
        lambda: k.accumulate_kernel[(1,)](out, 4, BLOCK=4),
        argument="out_ptr",
        index=0,
    )
    caught(
        "unwritten", k.atomic_kernel, "tl.atomic_add", lambda: k.atomic_kernel[(1,)](out, BLOCK=4),
        argument="out_ptr", index=0,
        says="the value that this atomic updates depends on out_ptr[0], which this line read and nobody has written",
    )  # fmt: skip
    out.zero_()
    k.accumulate_kernel[(1,)](out, 4, BLOCK=4)
    k.atomic_kernel[(1,)](out, BLOCK=4)
    assert out.tolist() == [2, 2, 2, 2]


def test_an_atomic_exchange_writes_and_what_it_found_is_unwritten():
    flag, out = torch.empty(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    caught(
        "unwritten", k.exchange_kernel, "tl.store", lambda: k.exchange_kernel[(1,)](flag, out, KEEP=True),
        argument="flag_ptr", index=0,
    )  # fmt: skip
    flag = torch.empty(1, dtype=torch.int32)
    k.exchange_kernel[(1,)](flag, out, KEEP=False)
    k.exchange_kernel[(1,)](flag, out, KEEP=True)
    assert (flag.item(), out.item()) == (1, 1)


USES = {
    "an address": (k.index_kernel, "tl.store", (torch.zeros(4), torch.zeros(4)), "address to load from"),
    "a loop's bound": (k.bound_kernel, "for i in", (torch.zeros(1),), "loop's bound"),
    "a branch": (k.branch_kernel, "if tl.load", (torch.zeros(1),), "condition of this branch"),
    "a mask": (k.mask_kernel, "tl.store", (torch.zeros(4),), "mask, which decides whether a lane is active,"),
}


@pytest.mark.parametrize("use", USES)
def test_an_unwritten_value_may_not_decide_anything(use):
    kernel, text, others, says = USES[use]
    blocks = {"BLOCK": 4} if "BLOCK" in kernel.arg_names else {}
    x = torch.empty(4, dtype=torch.int32)
    caught(
        "unwritten", kernel, text, lambda: kernel[(1,)](x, *others, **blocks),
        argument=kernel.arg_names[0], index=0, says=f"the {says} depends on",
    )  # fmt: skip
    x.fill_(1)
    kernel[(1,)](x, *others, **blocks)


def test_the_check_can_be_left_out():
    with checks_on(unwritten=False):
        assert torch.empty is torch._C._VariableFunctions.empty
        copied(torch.empty(16))
    caught_at(torch.empty(16), 0)


# -- torch goes on working ---------------------------------------------------------------------------------------------


def test_numbers_of_torch_are_the_same_as_without():
    def made():
        torch.manual_seed(7)
        layer = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.ReLU())
        square = torch.nn.init.orthogonal_(torch.empty(4, 4))
        return torch.randn(3), torch.rand(3), square, layer(torch.randn(2, 5)), torch.randperm(9)

    with_checks = made()
    canary.stop()
    for ours, plain in zip(with_checks, made(), strict=True):
        assert torch.equal(ours, plain)


def test_tensors_without_memory_of_their_own_are_left_alone():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert torch.empty(3).new_empty(4).shape == (4,)
    assert torch.empty(3, device="meta").is_meta
    with torch.device("meta"):
        assert torch.empty_like(torch.empty(5)).is_meta
    assert torch.vmap(lambda x: x.new_empty(2) * 0 + x)(torch.ones(3, 2)).shape == (3, 2)
    torch.func.functionalize(lambda x: torch.empty_like(x).fill_(1) + x)(torch.ones(3))
    torch.func.grad(lambda x: (torch.empty_like(x).fill_(2.0) * x).sum())(torch.ones(3))
    assert torch.empty(2, dtype=torch.complex64).shape == (2,)
    assert torch.empty(3, 3, layout=torch.sparse_coo).is_sparse
    assert torch.empty(0).numel() == 0
    traced = torch.fx.symbolic_trace(lambda x: torch.empty_like(x).fill_(1) + x)
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 2.0))


def test_out_is_torchs_own_business():
    x = torch.ones(4)
    torch.empty(4, out=x)
    copied(x, 4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions_of_torch_still_compile_in_one_graph(backend):
    compiled = torch.compile(lambda x: torch.empty_like(x).copy_(x) + x.new_empty(3).fill_(1), backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))


@pytest.mark.filterwarnings("ignore")  # torch calls its own torch.jit deprecated
def test_scripted_functions_of_torch_still_compile_after_any_switch():
    @torch.jit.script
    def scripted(x: torch.Tensor) -> torch.Tensor:
        return torch.empty(3).fill_(1.0) + torch.empty_like(x).fill_(2.0)

    assert torch.equal(scripted(torch.zeros(3)), torch.full((3,), 3.0))
    planted = torch.empty
    canary.stop()
    canary.start()
    assert torch.empty is planted


def test_the_functions_keep_their_names_and_can_be_pickled():
    assert torch.empty.__name__ == "empty"
    assert pickle.loads(pickle.dumps(torch.empty)) is torch.empty
    assert torch.Tensor.new_empty.__doc__


def test_deterministic_fills_are_as_deterministic_as_before():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(5).isnan().all()
        assert torch.empty(5, dtype=torch.float64).isnan().all()
        assert torch.empty(5, dtype=torch.bfloat16).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_more_memory_than_a_notebook_uses_is_not_touched():
    before = len(canary._planted)
    torch.empty(canary.PLANTED_BYTES + 1, dtype=torch.int8)
    assert len(canary._planted) == before


def test_a_resized_storage_is_asked_about_only_where_it_still_holds_the_pattern():
    x = torch.empty(16)
    x.untyped_storage().resize_(32 * 4)
    y = torch.empty(0).set_(x.untyped_storage(), 0, (32,), (1,))
    caught_at(y, 0, block=32)
    y.fill_(1.0)
    copied(y, block=32)

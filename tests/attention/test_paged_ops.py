"""The paged operations as torch operators: the checks of torch.library, and a step compiled as one graph."""

import gc

import pytest
import torch

from course_lib.attention import paged_ops
from course_lib.attention.cascade import cascade_plan_for
from course_lib.attention.decode import plan_for
from course_lib.attention.paged_reference import decode_reference, paged_reference

from .paged_cases import assert_close, cache, queries

ops = torch.ops.course
INT32 = {"dtype": torch.int32}


def samples():
    pool, q = cache([20, 33], 2, 64, 16), queries(2, 4, 64)
    plan = plan_for(q, pool.k, pool.tables, pool.lengths)
    cu, lengths = torch.tensor([0, 1, 2], **INT32), torch.tensor(pool.lengths, **INT32)
    k, v = torch.randn(2, 2, 64), torch.randn(2, 2, 64)
    blocks, slots, angle = (torch.zeros(4, 16, 2, 64), torch.zeros(4, 16, 2, 64)), torch.tensor([5, -1]), torch.rand(2, 32)
    return plan, {
        "paged_decode": (q, pool.k, pool.v, pool.tables, paged_ops.handle(plan)),
        "paged_prefill": (q, cu, pool.k, pool.v, pool.tables, lengths, 1),
        "paged_write": (k, v, *blocks, slots),
        "paged_write_rope": (q, k, v, *blocks, slots, angle, angle),
    }


@pytest.mark.parametrize("name", ["paged_decode", "paged_prefill", "paged_write", "paged_write_rope"])
def test_an_operator_says_the_truth_about_itself(name):
    """Schema, what it changes, and its fake version against a real call."""
    plan, arguments = samples()
    found = torch.library.opcheck(
        getattr(ops, name).default, arguments[name], test_utils=("test_schema", "test_faketensor"), rtol=0, atol=0
    ) if name.startswith("paged_write") else _fake_agrees(getattr(ops, name), arguments[name])  # fmt: skip
    assert set(found.values()) == {"SUCCESS"}
    del plan


def _fake_agrees(op, arguments):
    """opcheck compares inputs before and after; those with NaN in unused slots differ from themselves."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = op(*arguments)
    with FakeTensorMode() as mode:
        fake = op(*[mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments])
    same = [(r.shape, r.dtype, r.stride()) == (f.shape, f.dtype, f.stride()) for r, f in zip(real, fake, strict=True)]
    return {"fake": "SUCCESS" if all(same) else f"{real} {fake}"}


def test_a_decode_step_compiles_as_one_graph():
    """Write the new token, then attend: fullgraph=True refuses any break, and the cache is changed as in eager mode."""
    pool, q = cache([20, 33], 2, 64, 16), queries(2, 4, 64)
    plan = plan_for(q, pool.k, pool.tables, pool.lengths)
    number = paged_ops.handle(plan)
    k, v, position = torch.randn(2, 2, 64), torch.randn(2, 2, 64), torch.rand(2, 32)
    at = [length - 1 for length in pool.lengths]
    slots = torch.tensor([int(pool.tables[row, n // 16]) * 16 + n % 16 for row, n in enumerate(at)])

    @torch.compile(fullgraph=True, backend="eager")
    def step(q, k, v, k_blocks, v_blocks, tables, slots, cos, sin):
        turned = ops.paged_write_rope(q, k, v, k_blocks, v_blocks, slots, cos, sin)
        out, _ = ops.paged_decode(turned, k_blocks, v_blocks, tables, number)
        return turned, out * 1.0

    turned, out = step(q, k, v, pool.k, pool.v, pool.tables, slots, position, position)
    assert torch.equal(pool.v.flatten(0, 1)[slots], v)
    assert_close(out, decode_reference(turned, pool.k, pool.v, pool.tables, pool.lengths)[0], torch.float32)


def test_prefill_and_cascade_operators_give_what_the_functions_give():
    pool, q = cache([36, 40], 2, 64, 16), queries(2, 4, 64)
    pool.tables[1, :2] = pool.tables[0, :2]
    plan = cascade_plan_for(q, pool.k, pool.tables, pool.lengths, 32)
    out, _ = ops.cascade_decode(q, pool.k, pool.v, pool.tables, paged_ops.handle(plan))
    assert_close(out, decode_reference(q, pool.k, pool.v, pool.tables, pool.lengths)[0], torch.float32)
    out, _ = ops.paged_prefill(q, torch.tensor([0, 2], **INT32), pool.k, pool.v, pool.tables[:1], torch.tensor([36], **INT32), 2)
    assert_close(out, paged_reference(q, [0, 2], pool.k, pool.v, pool.tables[:1], [36])[0], torch.float32)


def test_the_handle_of_a_plan_that_is_gone_is_refused():
    plan, arguments = samples()
    number = paged_ops.handle(plan)
    assert paged_ops.handle(plan) == number
    with pytest.raises(ValueError, match="no living CascadePlan"):
        ops.cascade_decode(*arguments["paged_decode"])
    del plan
    gc.collect()
    with pytest.raises(ValueError, match=f"{number} is the handle of no living DecodePlan"):
        ops.paged_decode(*arguments["paged_decode"])

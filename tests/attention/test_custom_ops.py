"""The operators do what the functions do, and torch.compile takes them whole."""

import pytest
import torch

from course_lib.attention import attention_reference, flash_attention
from course_lib.attention.custom_ops import flash_attention_op, flash_attention_packed_op
from tests.attention.flash_cases import assert_within_budget, random_qkv

CU = torch.tensor([0, 3, 8], dtype=torch.int32)


def test_torch_checks_the_operators():
    q, k, v = random_qkv(1, 8, 8, 4, 2, 64, torch.float32)
    torch.library.opcheck(flash_attention_op, (q, k, v, True, 0.1))
    packed = (q[0], k[0], v[0], CU, CU, 5, 5, True, None)
    torch.library.opcheck(flash_attention_packed_op, packed, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_compiled_function_has_no_break_around_it():
    def block(q, k, v):
        out, lse = torch.ops.course.flash_attention(q * 2, k, v, True, None)
        return out + 1, lse

    q, k, v = random_qkv(2, 5, 7, 4, 2, 64, torch.float32)
    found = torch.compile(block, backend="eager", fullgraph=True)(q, k, v)
    expected = attention_reference(q * 2, k, v, causal=True)
    assert_within_budget((found[0] - 1, found[1]), expected, v, torch.float32)


def test_it_is_the_function_with_lse():
    q, k, v = random_qkv(1, 8, 8, 4, 2, 64, torch.float32)
    out, lse = flash_attention_op(q, k, v)
    again = flash_attention(q, k, v, return_lse=True)
    assert torch.equal(out, again[0])
    assert torch.equal(lse, again[1])

"""How the weights of one tile of keys reach the product of the next turn of the loop: rounded to 16 bits, two in a register.

LLVM knows no pair of 16-bit values that a loop carries; it carries 64 single ones, and it is the assembler that has to see that
two always stay together. Where it does not, 32 instructions in each turn put them together again. Two ways out, each of which
keeps the loop clean where the other does not (tests/attention/test_hopper_compiles.py looks):

  two consumers, 240 registers     16-bit values; behind the loop a `mov` of each pair, so that only one use of a half is in sight
  three consumers, 160 registers   pairs as 32-bit integers from the conversion to the product
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def carry(weights, layout: gl.constexpr, DTYPE: gl.constexpr, PAIRS: gl.constexpr):
    """float32 [rows, keys] -> DTYPE [rows, keys] in `layout`, that of an operand; PAIRS: int32 [rows, keys / 2]."""
    if PAIRS:
        even, odd = gl.split(weights.reshape([weights.shape[0], weights.shape[1] // 2, 2]))
        if gl.bfloat16 == DTYPE:
            carried = gl.inline_asm_elementwise(
                "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [even, odd], gl.int32, is_pure=True, pack=1
            )
        else:
            carried = gl.inline_asm_elementwise(
                "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", [even, odd], gl.int32, is_pure=True, pack=1
            )
    else:
        carried = gl.convert_layout(weights.to(DTYPE), layout)
    return carried


@gluon.jit
def operand(carried, layout: gl.constexpr, DTYPE: gl.constexpr, PAIRS: gl.constexpr):
    """What a product takes: DTYPE [rows, keys] in `layout`."""
    if PAIRS:
        if gl.bfloat16 == DTYPE:
            even, odd = gl.inline_asm_elementwise(
                "mov.b32 {$0, $1}, $2;", "=h,=h,r", [carried], (gl.bfloat16, gl.bfloat16), is_pure=True, pack=1
            )
        else:
            even, odd = gl.inline_asm_elementwise(
                "mov.b32 {$0, $1}, $2;", "=h,=h,r", [carried], (gl.float16, gl.float16), is_pure=True, pack=1
            )
        weights = gl.join(even, odd).reshape([carried.shape[0], carried.shape[1] * 2])
        carried = gl.convert_layout(weights, layout)
    return carried


@gluon.jit
def behind_loop(carried, PAIRS: gl.constexpr):
    """The same, between two loops that carry it."""
    if not PAIRS:
        carried = gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [carried], carried.dtype, is_pure=False, pack=2)
    return carried

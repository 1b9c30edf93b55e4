"""Who goes first on Hopper: a warpgroup's turn on the tensor cores, and an order that the assembler may not undo.

Gluon speaks of neither, so the three smallest pieces of PTX that do are here. A `bar` is a hardware barrier of a thread block
with a number: `bar.sync n, 256` waits until 256 threads have come to barrier n, `bar.arrive` counts as having come and goes on.
Triton itself uses low numbers; 10, 11 and 12 are the turns of the consumers, at 13 they meet (hopper_packed.py), and 15 is never
waited for.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.constexpr_function
def barrier_is_called_barrier():
    """Triton 3.7 renamed gl.thread_barrier."""
    from triton.experimental.gluon import language

    return hasattr(language, "barrier")


@gluon.jit
def meet():
    """All threads of this partition have come here, and see what the others have written to shared memory."""
    if barrier_is_called_barrier():
        gl.barrier()
    else:
        gl.thread_barrier()


@gluon.jit
def wait_for_turn(WARPGROUP: gl.constexpr):
    """Go on when the warpgroup before this one has given the turn away."""
    if WARPGROUP == 0:
        bar("bar.sync 10, 256; mov.b32 $0, $1;")
    elif WARPGROUP == 1:
        bar("bar.sync 11, 256; mov.b32 $0, $1;")
    else:
        bar("bar.sync 12, 256; mov.b32 $0, $1;")


@gluon.jit
def give_turn(WARPGROUP: gl.constexpr, WARPGROUPS: gl.constexpr):
    """The warpgroup after this one may go on; after the last one comes the first."""
    if WARPGROUP + 1 == WARPGROUPS:
        bar("bar.arrive 10, 256; mov.b32 $0, $1;")
    elif WARPGROUP == 0:
        bar("bar.arrive 11, 256; mov.b32 $0, $1;")
    else:
        bar("bar.arrive 12, 256; mov.b32 $0, $1;")


@gluon.jit
def bar(ASSEMBLY: gl.constexpr):
    """Run by every thread of a warpgroup: inline assembly works on elements, and here is one for each thread."""
    one_each = gl.full([128], 0, gl.int32, gl.BlockedLayout([1], [32], [4], [0]))
    gl.inline_asm_elementwise(ASSEMBLY, "=r,r,~{memory}", [one_each], gl.int32, is_pure=False, pack=1)


@gluon.jit
def pinned(x):
    """x, float32, computed before whatever stands behind this line: the assembler may not move it past a later wait.

    A barrier that is waited for when x > 1e30, which it never is: an effect that depends on x, and that nobody can prove away.
    """
    return gl.inline_asm_elementwise(
        "{ .reg .pred never; setp.gt.f32 never, $1, 0f7149F2CA; @never bar.sync 15, 128; mov.b32 $0, $1; }",
        "=f,f,~{memory}", [x], gl.float32, is_pure=False, pack=1,
    )  # fmt: skip

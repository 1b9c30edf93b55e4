"""Gluon kernels run by threads on a CPU: the Hopper kernel's own source, its barriers and its copies, with numbers from torch.

Nothing is compiled. Each partition of a block is a thread; mbarriers, named barriers, the copy engine and wgmma behave as the PTX
manual says, in the respects that a protocol can get wrong: phases and parities, bytes that are waited for, copies and products
that happen late (when somebody waits for them, or at once, by the toss of a coin), memory that is NaN until something is written,
and what the copy engine and wgmma do not see before a fence.
Who waits in vain raises. Layouts are kept, not obeyed: where a value lies is the compiler's affair (test_hopper_compiles.py).
"""

import random
import re
import threading
import types

import torch
from triton.experimental.gluon import language as gl

PATIENCE_SECONDS = 20
_lock = threading.Condition()
_local = threading.local()


class Stuck(RuntimeError):
    """A wait that nothing will end."""


def _wait(until, what):
    with _lock:
        if not _lock.wait_for(lambda: until() or _block().failed, PATIENCE_SECONDS) or _block().failed:
            raise Stuck(what)


def _changed():
    with _lock:
        _lock.notify_all()


def _block():
    return _local.block


class Block:
    """What the threads of a thread block share."""

    def __init__(self, program, programs, dice):
        self.program, self.programs, self.dice, self.failed = program, programs, dice, False
        self.named = {}  # barrier -> threads that have come; and how often it was complete


class Number(int):
    """A scalar of a kernel."""

    def to(self, dtype):
        return self


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "mod", "xor", "and", "neg"):

    def _made(self, *others, _name=_name):
        found = getattr(int, f"__{_name}__")(self, *others)
        return Number(found) if isinstance(found, int) else found

    setattr(Number, f"__{_name}__", _made)
Number.__floordiv__ = lambda self, other: Number(abs(int(self)) // other * (1 if self >= 0 else -1))  # as C rounds: to zero


class Value:
    """A tensor in registers: numbers, and the layout that it would have."""

    def __init__(self, data, layout):
        self.data, self.layout = data, layout
        self.type = types.SimpleNamespace(layout=layout)

    shape = property(lambda self: list(self.data.shape))
    dtype = property(lambda self: self.data.dtype)

    def to(self, dtype, bitcast=False):
        dtype = _torch_dtype(dtype)
        return Value(self.data.view(dtype) if bitcast else self.data.to(dtype), self.layout)

    def permute(self, order):
        return Value(self.data.permute(order), ("permuted", self.layout))

    def reshape(self, shape):
        return Value(self.data.reshape(shape), ("reshaped", self.layout))

    def __getitem__(self, index):
        return Value(self.data[index], self.layout.parent)


def _data(x):
    if isinstance(x, gl.constexpr):
        return x.value
    return x.data if isinstance(x, Value) else x


def _layout_of(*values):
    return next(x.layout for x in values if isinstance(x, Value))


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "le", "lt", "eq", "ge", "gt", "and", "rshift"):

    def _made(self, other, _name=_name):
        return Value(getattr(self.data, f"__{_name}__")(_data(other)), self.layout)

    setattr(Value, f"__{_name}__", _made)


class Shared:
    """A view of shared memory."""

    def __init__(self, data):
        self.data = data

    dtype = property(lambda self: self.data.dtype)

    def index(self, i):
        return Shared(self.data[int(i)])

    def reshape(self, shape):
        return Shared(self.data.view(shape))

    def permute(self, order):
        return Shared(self.data.permute(order))

    def slice(self, start, length):
        return Shared(self.data[start : start + length])

    def load(self, layout):
        return Value(self.data.clone(), layout)

    def store(self, value):
        assert value.data.dtype == self.data.dtype
        self.data.copy_(value.data)
        _local.unfenced.add("memory")


def _fenced(what, who):
    assert what not in _local.unfenced, f"{who} without a fence behind what was written: {what}"


class MBarrier:
    def __init__(self):
        self.count = self.waiting_for = self.bytes = self.phase = 0
        self.copies = []  # that are under way

    def index(self, i):
        return self

    def arrive(self, count=1, more_bytes=0):
        with _lock:
            assert self.waiting_for >= count, "an mbarrier got more arrivals than its count"
            self.waiting_for -= count
            self.bytes += more_bytes
            self._turn()

    def under_way(self, copy, size, late):
        with _lock:
            self.copies.append((copy, size))
            if not late:
                self.land()
            _lock.notify_all()

    def land(self):
        while self.copies:
            copy, size = self.copies.pop(0)
            copy()
            self.bytes -= size
            self._turn()

    def _turn(self):
        if self.waiting_for == 0 and self.bytes == 0:
            self.phase += 1
            self.waiting_for = self.count
        _lock.notify_all()


class MBarriers:
    def __init__(self, count):
        self.all = [MBarrier() for _ in range(count)]

    def index(self, i):
        return self.all[int(i)]


class Pointer:
    def __init__(self, data, offset=0):
        self.data, self.offset = data, offset

    def __add__(self, other):
        return Pointer(self.data, self.offset + _data(other))


class Descriptor:
    """A tensor [batch, heads, rows, head_dim] and the block that a copy moves."""

    def __init__(self, data, block):
        self.data, self.block, self.dtype, self.layout = data, block, data.dtype, None
        size = torch.Size(block).numel() * data.element_size()
        self.block_type = types.SimpleNamespace(nbytes=size, shape=block)

    def slices(self, where):
        """Of the tensor, and of the block, where both are."""
        assert all(int(i) >= 0 for i in where)
        ends = [min(int(i) + b, n) for i, b, n in zip(where, self.block, self.data.shape, strict=True)]
        inside = tuple(slice(int(i), max(e, int(i))) for i, e in zip(where, ends, strict=True))
        return inside, tuple(slice(0, s.stop - s.start) for s in inside)


def _torch_dtype(dtype):
    if isinstance(dtype, torch.dtype):
        return dtype
    names = {"fp32": torch.float32, "int32": torch.int32, "int64": torch.int64, "bf16": torch.bfloat16, "fp16": torch.float16,
             "int8": torch.int8}  # fmt: skip
    return names[str(dtype)]


class Product:
    """A product in flight."""

    def __init__(self, a, b, acc, use_acc):
        self.layout, self.type, self.done = acc.layout, acc.type, None
        self.parts = a, b, acc, use_acc
        _local.products.append(self)
        if _block().dice.random() < 0.5:
            self.finish()

    def finish(self):
        if self.done is None:
            a, b, acc, use_acc = self.parts
            acc = acc.finish() if isinstance(acc, Product) else acc
            product = a.data.float() @ b.data.float()
            self.done = Value(acc.data + product if use_acc else product, self.layout)
        return self.done


def warpgroup_mma(a, b, acc, *, use_acc=True, is_async=False):
    _fenced("memory", "a product")
    return Product(a, b, acc, use_acc)


def warpgroup_mma_wait(num_outstanding=0, deps=()):
    while len(_local.products) > num_outstanding:
        _local.products.pop(0).finish()
    found = tuple(x.done if isinstance(x, Product) else x for x in deps)
    assert all(x is not None for x in found), "a product is used before it was waited for"
    return found[0] if len(found) == 1 else found


def _copy_in(desc, where, barrier, smem, pred=True):
    def act():
        inside, part = desc.slices(where)
        block = torch.zeros(desc.block, dtype=desc.dtype)
        block[part] = desc.data[inside]
        smem.data.copy_(block)

    _fenced("barriers", "a copy")
    if pred:
        barrier.under_way(act, desc.block_type.nbytes, _block().dice.random() < 0.5)


def _copy_out(desc, where, smem):
    def act():
        inside, part = desc.slices(where)
        desc.data[inside] = smem.data[part]

    _fenced("memory", "a copy")
    if _block().dice.random() < 0.5:
        act()
    else:
        _local.stores.append(act)


def _store_wait(pendings):
    while len(_local.stores) > pendings:
        _local.stores.pop(0)()


def _init(barrier, count):
    barrier.count = barrier.waiting_for = count
    _local.unfenced.add("barriers")


def _expect(barrier, bytes, pred=True):
    if pred:
        barrier.arrive(1, bytes)


def _mbarrier_wait(barrier, parity):
    def passed():
        if barrier.phase % 2 == parity:
            barrier.land()
        return barrier.phase % 2 != parity

    _wait(passed, f"an mbarrier in phase {barrier.phase} was waited for with parity {parity}")


def _asm(text, constraints, args, dtype, *, is_pure, pack):
    for pred, kind, number, threads in re.findall(r"(@\w+ )?bar\.(sync|arrive) (\d+), (\d+);", text):
        if not pred:
            _named(kind, int(number), int(threads))
    if "e4m3x2" in text:  # four float32 to four bytes
        four = torch.stack([x.data.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8) for x in args], -1)
        return Value(four.view(torch.int32).squeeze(-1), args[0].layout)
    if text.startswith("cvt.rn"):  # two float32 to a pair
        kind = torch.bfloat16 if "bf16" in text else torch.float16
        return Value(torch.stack([x.data.to(kind) for x in args], -1).view(torch.int32).squeeze(-1), args[0].layout)
    if isinstance(dtype, tuple):  # and apart again
        kind = _torch_dtype(dtype[0])
        return tuple(Value(half, args[0].layout) for half in args[0].data[..., None].view(kind).unbind(-1))
    return args[0]


def _named(kind, number, threads):
    """A partition of a consumer is 128 threads."""
    with _lock:
        come, times = _block().named.get(number, (0, 0))
        come += 128
        assert come <= threads, f"{come} threads at named barrier {number} of {threads}"
        _block().named[number] = (0, times + 1) if come == threads else (come, times)
        _lock.notify_all()
    if kind == "sync" and come < threads:
        _wait(lambda: _block().named[number][1] > times, f"named barrier {number}")


def _allocate(dtype, shape, layout):
    if dtype == gl.int64:
        return MBarriers(shape[0]) if len(shape) == 2 else MBarrier()
    if dtype == gl.int32:
        return Shared(torch.full(shape, -(2**31), dtype=torch.int32))
    return Shared(torch.full(shape, torch.nan).to(dtype))


def _specialize(functions, worker_warps, worker_registers):
    assert len(worker_warps) == len(worker_registers) == len(functions) - 1
    _fenced("barriers", "a partition")
    block, errors = _block(), []

    def partition(function, args):
        _enter(block)
        try:
            function(*args)
            assert not [*_local.products, *_local.stores], "a partition ended with products or stores in flight"
        except BaseException as error:
            errors.append(error)
            block.failed = True
            _changed()

    threads = [threading.Thread(target=partition, args=one, daemon=True) for one in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((e for e in errors if not isinstance(e, Stuck)), errors[0])


def _enter(block):
    _local.block, _local.products, _local.stores, _local.unfenced = block, [], [], set()


def _reduce(how):
    def reduced(x, axis):
        if x.data.dim() == 1:
            return Number(how(x.data, axis))
        return Value(how(x.data, axis), gl.SliceLayout(axis, x.layout) if not isinstance(x.layout, tuple) else x.layout)

    return reduced


def _pointwise(of_tensors, of_numbers):
    def made(*xs):
        if not any(isinstance(x, Value) for x in xs):
            return Number(of_numbers(*xs))
        return Value(of_tensors(*(torch.as_tensor(_data(x)) for x in xs)), _layout_of(*xs))

    return made


def _load(pointer, mask=True, other=None):
    if not mask:
        return Number(other)
    found = pointer.data.flatten()[int(pointer.offset)].item()
    return Number(found) if isinstance(found, int) else found


def _atomic_add(pointer, value):
    with _lock:
        before = int(pointer.data[int(pointer.offset)])
        pointer.data[int(pointer.offset)] += value
        return Number(before)


def _store(pointer, value, mask):
    offsets, values, live = torch.broadcast_tensors(pointer.offset, value.data, mask.data)
    pointer.data.view(-1)[offsets[live]] = values[live]


FAKE_GL = types.SimpleNamespace(
    constexpr=gl.constexpr, float32=gl.float32, int32=gl.int32, int64=gl.int64, static_range=range,
    NVMMADistributedLayout=gl.NVMMADistributedLayout, DotOperandLayout=gl.DotOperandLayout, SliceLayout=gl.SliceLayout,
    BlockedLayout=gl.BlockedLayout, allocate_shared_memory=_allocate, warp_specialize=_specialize,
    program_id=lambda axis: Number(_block().program), num_programs=lambda axis: Number(_block().programs),
    load=_load, store=_store, atomic_add=_atomic_add, SwizzledSharedLayout=gl.SwizzledSharedLayout, inline_asm_elementwise=_asm,
    full=lambda shape, value, dtype, layout: Value(torch.full(shape, value, dtype=_torch_dtype(dtype)), layout),
    zeros=lambda shape, dtype, layout: Value(torch.zeros(shape, dtype=_torch_dtype(dtype)), layout),
    arange=lambda start, end, layout: Value(torch.arange(start, end), layout),
    convert_layout=lambda x, layout, assert_trivial=False: Value(x.data, layout),
    exp2=lambda x: Value(torch.exp2(x.data), x.layout), log2=lambda x: Value(torch.log2(x.data), x.layout),
    where=_pointwise(torch.where, None), maximum=_pointwise(torch.maximum, max), minimum=_pointwise(torch.minimum, min),
    sum=_reduce(lambda data, axis: data.sum(axis)), max=_reduce(lambda data, axis: data.amax(axis)),
    split=lambda x: tuple(Value(half, x.layout) for half in x.data.unbind(-1)), bfloat16=torch.bfloat16, float16=torch.float16,
    float8e4nv=torch.float8_e4m3fn, int8=torch.int8,
    join=lambda x, y: Value(torch.stack([x.data, y.data], -1), x.layout), barrier=lambda: None, thread_barrier=lambda: None,
)  # fmt: skip
FAKES = {
    "gl": FAKE_GL,
    "tma": types.SimpleNamespace(
        async_copy_global_to_shared=_copy_in, async_copy_shared_to_global=_copy_out, store_wait=_store_wait
    ),
    "mbarrier": types.SimpleNamespace(
        init=_init, expect=_expect, wait=_mbarrier_wait, arrive=lambda b, *, count: b.arrive(count), MBarrierLayout=lambda: None
    ),
    "fence_async_shared": lambda: _local.unfenced.clear(),
    "warpgroup_mma": warpgroup_mma,
    "warpgroup_mma_wait": warpgroup_mma_wait,
}


def plain_function(kernel, made=None):
    """The Python function that was decorated, with fakes in place of Gluon's names, and so for all that it calls."""
    made = {} if made is None else made
    if id(kernel) not in made:
        world = dict(kernel.fn.__globals__) | {name: fake for name, fake in FAKES.items() if name in kernel.fn.__globals__}
        made[id(kernel)] = types.FunctionType(kernel.fn.__code__, world, kernel.fn.__name__, kernel.fn.__defaults__)
        for name, value in kernel.fn.__globals__.items():
            if type(value).__name__.endswith("JITFunction"):
                world[name] = plain_function(value, made)
    return made[id(kernel)]


def run(kernel, programs, args, constants, seed=0):
    """kernel[(programs,)](*args, **constants), one block after the other. args: Descriptor, Pointer, numbers, None."""
    function, dice = plain_function(kernel), random.Random(seed)
    numbers = [Number(x) if type(x) is int else x for x in args]
    for program in range(programs):
        block = Block(program, programs, dice)
        _enter(block)
        function(*numbers, **constants)
        assert not any(come for come, _ in block.named.values()), f"a named barrier is left half full: {block.named}"

# %% [markdown]
# # Phase 2: FlashAttention and paged KV
#
# Attention is where an inference engine spends its memory, and most of its ideas. This phase builds it from a sum that can be kept while
# going, to a kernel that never writes a score to memory, to one that reads keys and values out of scattered blocks; and the memory manager
# that hands the blocks out.
#
# | section | the question | time | points |
# |---|---|---|---|
# | 1 | How can a softmax be summed in pieces? | 75 min | 6 |
# | 2 | Where does its partial live, and who keeps it there? | 90 min | 9, 2 of them on a GPU |
#
# The hours are our estimate for somebody who works the numbers out on paper.
#
# **How the exercises work** is as in phase 1: write the function, run the check below it, try as often as you like. Points that can only be
# earned on a GPU wait on a machine without one.

# %% grade_id="setup"
from course_lib import lab
import torch

lab.start(2)

# %% [markdown]
# ## 1. A softmax in pieces
#
# *About 75 minutes.*
#
# One query looks at $n$ keys. It has a score for each, $s_j = q \cdot k_j$, turns the scores into weights that sum to 1, and takes the
# weighted mean of the values:
#
# $$ o = \frac{\sum_j e^{s_j - m}\, v_j}{\sum_j e^{s_j - m}}, \qquad m = \max_j s_j $$
#
# Written down like this, it takes three passes over the scores: one for the maximum, one for the sum, one for the values. So the scores have
# to be kept somewhere in between. A prefill of 8192 tokens has 8192 queries and 8192 keys for each of, say, 32 heads.
#
# **Before you run the cell**, on paper: how many bytes are the scores of one layer, in bfloat16? Attention here takes
# $4 n^2 d$ FLOPs a head, half of that with a causal mask, $d = 128$. The scores are written once, read and written again by the softmax, and
# read once more by the product with V. What takes longer on an H200, the arithmetic or the traffic?

# %% tags=["nbval-check-output"]
n, heads, head_dim = 8192, 32, 128
score_bytes = heads * n * n * 2
flops = heads * 4 * n * n * head_dim / 2
print(f"scores of one layer            {score_bytes / 1e9:6.2f} GB")
print(f"written, read, written, read   {4 * score_bytes / 1e9:6.2f} GB, at 4.8 TB/s {4 * score_bytes / 4.8e9:6.2f} ms")
print(f"arithmetic, causal             {flops / 1e12:6.2f} TFLOP, at 989 TFLOP/s {flops / 989e9:5.2f} ms")
print(f"Q, K, V and the output         {4 * heads * n * head_dim * 2 / 1e9:6.2f} GB, at 4.8 TB/s {4 * heads * n * head_dim * 2 / 4.8e9:6.2f} ms")

# %% [markdown]
# The scores are 4.3 GB, in one layer, for one prompt. Moving them takes over six times as long as the arithmetic. What has to be moved, Q,
# K, V and the output, is a sixteenth of one pass over the scores. So the question of this phase: **can the scores stay inside the chip?** A
# chip can hold a tile of them, say 128 by 128, and not a whole row. So it must be possible to finish a softmax without ever seeing all of
# its scores at once.
#
# ### The sum that can be kept
#
# Take the keys in pieces. For the keys seen so far, keep three things:
#
# - `m`, the largest score,
# - `l`, the sum of $e^{s_j - m}$,
# - `acc`, the sum of $e^{s_j - m}\, v_j$, as long as a value.
#
# We call $(m, l, acc)$ a **partial softmax**, or a partial. The result is $acc / l$, and dividing comes last. When a piece brings a
# larger score, what was summed so far was measured against the wrong maximum. That is a common factor, $e^{m_{old} - m_{new}}$, and can be
# made good by one multiplication.
#
# Three keys on paper, scores 1, 3, 2 and values 10, 20, 30, one after the other:
#
# | key | m | old sums times | l | acc |
# |---|---|---|---|---|
# | s = 1, v = 10 | 1 | | 1 | 10 |
# | s = 3, v = 20 | 3 | $e^{1-3} = 0.1353$ | 0.1353 + 1 = 1.1353 | 1.353 + 20 = 21.353 |
# | s = 2, v = 30 | 3 | $e^{0} = 1$ | 1.1353 + 0.3679 = 1.5032 | 21.353 + 11.036 = 32.390 |
#
# $32.390 / 1.5032 = 21.547$. **Check it**: what is the softmax of (1, 3, 2), and the weighted mean of the values?

# %% tags=["nbval-check-output"]
weights = torch.softmax(torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64), dim=0)
print(weights, float(weights @ torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64)))

# %% [markdown]
# ### One operation for everything
#
# Look at the table again. Each line takes a partial, and a key, and makes a partial. But a key *is* a partial: its maximum is its score, its
# sum is 1, its weighted values are its value, so $(s, 1, v)$. Then every line does the same thing: it **merges two partials**.
#
# $$ m = \max(m_a, m_b), \qquad l = e^{m_a - m}\, l_a + e^{m_b - m}\, l_b, \qquad acc = e^{m_a - m}\, acc_a + e^{m_b - m}\, acc_b $$
#
# The merge does not care how many keys a partial stands for, or in which order they come. It is associative and commutative, and it has a
# neutral element: the partial of no key at all, $(-\infty, 0, 0)$. That makes it far more useful than a loop:
#
# - a tile of a FlashAttention kernel merges 128 keys at a time into its running partial,
# - eight blocks of threads can each take an eighth of a long context and merge in the end (split-KV decoding),
# - the part of a prompt that sixty-four requests share can be attended to once for all (cascade),
# - GPUs that hold different parts of a context can exchange partials, which are tiny.
#
# ### What lies at the edges
#
# Two edges cost more debugging time in real engines than the rest of attention together.
#
# *No key at all.* A query in padding, or a split that lies beyond the end of a short sequence, sees nothing: $m = -\infty$. If all parts of a
# row are like that, $m_a - m$ is $-\infty - (-\infty)$, which is NaN, and from then on everything is. A row without a key stays $(-\infty, 0, 0)$.
#
# *Memory that nobody wrote.* Buffers for partials are allocated, not cleared. A part without a key may have anything in `l` and `acc`, and
# a NaN there is not silenced by a weight of zero: $0 \cdot \text{NaN}$ is NaN.
#
# The tempting cure, a large negative number in place of $-\infty$, works until a real score is lower still:

# %% tags=["nbval-check-output"]
scores = torch.tensor([-20_000.0, -10_000.0])  # the first is a real score, the second stands for a masked key
print("a finite mask  ", torch.softmax(scores, dim=0).tolist())
scores[1] = -torch.inf
print("minus infinity ", torch.softmax(scores, dim=0).tolist())

# %% [markdown]
# With the finite mask, all the weight goes to the key that must not be seen. It has happened in several public projects (flashinfer's issue
# 4401 is one report).
#
# ### Exercise 2.1: the merge (about 8 lines, 6 points)
#
# **Before you code**: two parts have $m = 2$ and $m = 5$. Which one is rescaled, and by what factor?
#
# Write `merge`, which merges any number of partials at once, for many rows.
#
# | argument | shape, dtype | meaning |
# |---|---|---|
# | `m` | [parts, rows] float32 | the largest score of each part, $-\infty$ where a part has no key |
# | `l` | [parts, rows] float32 | its sum of exponentials |
# | `acc` | [parts, rows, dim] float32 | its weighted sum of values, *not* divided by `l` |
#
# Return `(m, l, acc)` of the whole, `[rows]`, `[rows]` and `[rows, dim]`, in float32: `m` exactly the largest of the parts', `l` and `acc` measured
# against it. The result is a partial again, so it can be merged again.
#
# - $m = -\infty$ says that a part has no key, *whatever* `l` and `acc` hold there.
# - A row in which no part has a key gives $(-\infty, 0, 0)$.
# - Scores can be of any size: 10,000 and -10,000 are scores.
#
# <details><summary>Hint: which exponentials are safe?</summary>
#
# Those of numbers that are at most 0. Which differences of `m` are?
# </details>
#
# <details><summary>Hint: rows without any key</summary>
#
# There, every weight should be 0. What would you have to subtract from $-\infty$ so that the exponential is 0 and not NaN? Any finite number does.
# </details>

# %% grade_id="ex-2-1"
def merge(m, l, acc):
    """m, l [parts, rows], acc [parts, rows, dim] -> (m [rows], l [rows], acc [rows, dim]) of all parts together."""
    ### BEGIN SOLUTION
    largest = m.amax(dim=0)
    base = torch.where(largest == -torch.inf, 0.0, largest)  # finite, so that a part without a key weighs exp(-inf) = 0
    weight = torch.exp(m - base)
    live = weight > 0
    total = torch.where(live, weight * l, 0.0).sum(dim=0)
    merged = torch.where(live[..., None], weight[..., None] * acc, 0.0).sum(dim=0)
    return largest, total, merged
    ### END SOLUTION


# %% grade_id="ex-2-1-check"
lab.check("2.1", merge)

# %% [markdown]
# ### Attention, a block of keys at a time
#
# With `merge` in hand, attention over a long context is a loop that holds a block of scores and one partial. The cell takes 1000 keys in
# blocks of various sizes, with *your* merge, and compares with the formula at the top, computed in double precision.

# %%
def attend_in_blocks(q, k, v, block):
    """q [rows, d], k, v [keys, d] -> [rows, d]. Never more than `block` scores of a row at a time."""
    state = (torch.full((len(q),), -torch.inf), torch.zeros(len(q)), torch.zeros(len(q), v.shape[1]))
    for start in range(0, len(k), block):
        scores = q @ k[start : start + block].T / q.shape[1] ** 0.5
        largest = scores.amax(dim=1)
        weights = torch.exp(scores - largest[:, None])
        part = (largest, weights.sum(dim=1), weights @ v[start : start + block])
        state = merge(*(torch.stack(both) for both in zip(state, part, strict=True)))
    _, l, acc = state
    return acc / l[:, None]


try:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(rows, 64, generator=draw) for rows in (16, 1000, 1000))
    exact = torch.softmax(q.double() @ k.double().T / 8, dim=1) @ v.double()
    for block in (1, 7, 64, 128, 1000):
        print(f"blocks of {block:>4} keys: largest error {float((attend_in_blocks(q, k, v, block) - exact).abs().max()):.1e}")
except NotImplementedError as missing:
    print(f"not yet: {missing}")

# %% [markdown]
# The error is that of float32 whatever the size of the block, even one key at a time. Nothing is approximated: this is softmax, added up in
# another order. **FlashAttention is exact**, and that is the reason why everybody could switch to it.
#
# What the loop saves is memory, not arithmetic. It even does a little more: each block rescales the sums so far. How much is that for a
# block of 128 keys and $d = 128$? Rescaling is one multiplication for each of the 128 numbers of `acc`; the block itself takes
# $4 \cdot 128 \cdot 128$ FLOPs for each row. One part in five hundred.
#
# ### What the roadmap says
#
# One of its sentences about FlashAttention can be judged now. Decide before you look.

# %%
lab.predict("C082")

# %% [markdown]
# ### Questions
#
# 1. Merging is associative in exact arithmetic. Is it in float32? What follows for an engine that promises the same output for the same prompt, with
#    a number of splits that depends on the load?
# 2. Kernels use $2^x$ in place of $e^x$: the chip has an instruction for it. Which single constant has to be folded into the scores, and what does
#    `m` mean then?
# 3. The softmax of a *distributed* context over 4 GPUs with 32 heads and $d = 128$: how many bytes does each GPU send for one decoded token?
#
# <details><summary>Answers</summary>
#
# 1. It is not: sums round differently in another grouping. Two runs with different splits differ in the last bits, and now and then in a token.
#    Whoever promises equal output fixes the order of the merge, or the number of splits.
# 2. $e^x = 2^{x \log_2 e}$, so scores are multiplied by $\log_2 e = 1.4427$ together with $1 / \sqrt{d}$. Then `m` is a maximum in units of
#    $\ln 2$; the log-sum-exp of a row is $(m + \log_2 l) \cdot \ln 2$.
# 3. $m$, $l$ and `acc` in float32: $32 \cdot (1 + 1 + 128) \cdot 4 = 16.6$ kB a layer. The KV cache that they stand for can be gigabytes.
# </details>

# %% [markdown]
# ## 2. The same as a kernel
#
# *About 90 minutes.*
#
# The merge of section 1 is right, and in PyTorch it saves nothing: `exp`, `sum`, `stack` are kernels of their own, and each writes its
# result to memory for the next one to read. The partial, three numbers for a row, travels there and back with every block. What makes online
# softmax fast is *where* the partial lives: in the registers of the program that walks over the row.
#
# The kernel of this section gets finished scores, and a value for each key that is a single number. That is attention with $d = 1$ and without
# the product $q \cdot k$: the loop of FlashAttention, with everything else left out.
#
# **Before you run the cell**, on paper: 4096 rows have 32 768 scores each, in float32. How long does an H200 take to read them once? Plain
# softmax reads them for the maximum, again for the sum, and again for the weighted values. How long is that?

# %% tags=["nbval-check-output"]
rows, keys = 4096, 32_768
once_bytes = rows * keys * 4
for passes in (1, 3):
    print(f"{passes} x {once_bytes / 1e6:.0f} MB at 4.8 TB/s: {passes * once_bytes / 4.8e12 * 1e3:.3f} ms")
print(f"out and lse: {rows * 8 / 1e3:.0f} kB")

# %% [markdown]
# A row of 32 768 scores is 131 kB. Could the later passes find it in the L2 cache? One program's row, yes. But an H200 has 132 SMs with many
# programs each. If 8 of them share an SM, 1056 rows are under way at once, 138 MB, over twice what its L2 holds.
#
# ### A program that walks
#
# In the copy of phase 1 a program took one block. Here it takes one *row*, and a loop goes over the blocks of the row. This kernel finds the
# largest score of each row:

# %%
import triton
import triton.language as tl


@triton.jit
def largest_kernel(scores_ptr, out_ptr, n, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = tl.full((), float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        key = start + tl.arange(0, BLOCK)
        s = tl.load(scores_ptr + row * row_stride + key, mask=key < n, other=float("-inf"))
        largest = tl.maximum(largest, tl.max(s.to(tl.float32), 0))
    tl.store(out_ptr + row, largest)


device = "cuda" if torch.cuda.is_available() else "cpu"
falling = -torch.arange(1.0, 25.0, device=device)
scores = torch.stack([falling, -falling])
largest = torch.empty(2, device=device)
lab.trace(largest_kernel, scores, largest, 24, scores.stride(0), grid=(2,), BLOCK=16, targets=("sm_90",))

# %% [markdown]
# What is new:
#
# - `for start in range(0, n, BLOCK)`: `n` is an ordinary argument, so this is a real loop of the compiled kernel, and one compilation serves
#   every length.
# - `largest` is **carried** from one turn to the next. It stays in a register. Its type must be the same at the end of a turn as at its start,
#   so it begins as a float32 of no dimension: `tl.full((), ..., tl.float32)`.
# - `tl.max(s, 0)` reduces a block to one number. The threads of the program exchange their parts for it.
# - `other=float("-inf")` is what lanes without a key get. It has to be what the *reduction* ignores. The first row has negative scores only: what would
#   `other=0.0` have made of it?
# - `row * row_stride`: a row may begin anywhere. Scores of a batch are often a part of a wider buffer, and then `scores.stride(0)` is more than `n`.
#   In int64, because 70 000 rows of 32 768 are beyond $2^{31}$ elements.
#
# ### Powers of two
#
# A GPU has an instruction for $2^x$ and none for $e^x$, which costs a multiplication more. The usual trick is to do that multiplication once,
# on the scores: with $s' = s \log_2 e$,
#
# $$ e^{s - m} = 2^{s' - m'}, \qquad \text{lse} = \ln \sum_j e^{s_j} = (m' + \log_2 l) \ln 2 . $$
#
# The **log-sum-exp** of a row is $m + \ln l$ in one number. It is what a kernel writes beside its output, so that results of several parts of a
# context can be merged later (it is a partial with $m = \text{lse}$, $l = 1$), and a backward pass gets the weights back from it.
#
# Scores 1, 3, 2 once more: what are $m'$, $l$ and lse?

# %% tags=["nbval-check-output"]
import math

scaled = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64) * math.log2(math.e)
l = torch.exp2(scaled - scaled.max()).sum()
print(f"m' = {scaled.max():.4f}, l = {l:.4f}, lse = {(scaled.max() + torch.log2(l)) * math.log(2):.4f}")
print(f"torch: {torch.logsumexp(torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64), 0):.4f}")

# %% [markdown]
# `l` is the same in both, 1.5032, because the weights are. Only `m` has another unit.
#
# ### Exercise 2.2: online softmax as a kernel (about 25 lines, 9 points, 2 of them on a GPU)
#
# Write a kernel and the function `attend_rows(scores, values)` that launches it. The kernel's name and arguments are up to you.
#
# **Before you code**:
#
# 1. In a row, the first 4000 keys are masked, and a block has 1024. What is $m$ after the first block, and what is $m_{old} - m_{new}$?
# 2. Which lanes of the last block must weigh nothing, and which value of `other` for the *scores* sees to it?
# 3. How many bytes does the kernel have to load for 3 rows of 5000 keys, scores in float32, values in float16? How many does it store?
#
# | | shape | dtype | |
# |---|---|---|---|
# | `scores` | [rows, n], n from 1 to 100 000 | fp32, fp16 or bf16 | the elements of a row lie one behind the other, rows `scores.stride(0)` apart; $-\infty$: a masked key |
# | `values` | [n] | fp32, fp16 or bf16, not always that of the scores | the value of each key, for all rows |
# | result `out` | [rows] | float32 | $\sum_j e^{s_j} v_j / \sum_j e^{s_j}$; 0 for a row without any key |
# | result `lse` | [rows] | float32 | $\ln \sum_j e^{s_j}$; $-\infty$ for a row without any key |
#
# What is judged:
#
# - **Rows.** One key, lengths around 1024 and 2048, thousands; all dtypes. `m`, `l` and `acc` are float32 whatever the scores are: in float16 a sum stops
#   growing at 2048 when ones are added.
# - **Masked keys.** Here and there, at the start of a row, at its end, and all of them. Where a key is masked in every row, its *value* may be NaN.
# - **Large scores.** 10 000 and −10 000 are scores. Rounding of $s \log_2 e$ grows with the score; the check allows for it.
# - **Rows apart.** `scores` is `buffer[:, :n]`, and the rest of the buffer holds NaN.
# - **Traffic.** Each score is loaded once. Bytes may be at most 1.05 times the least: every score once, the values once for each row, 8 bytes of results a row.
#   All of it has to come from your launches; torch may allocate, fill with one value and make views.
# - **Compiled.** For A100 and H100, no spills, for a row of 98 304 keys in bf16, and with loads of 16 bytes for each thread.
# - **Timed** (in a cell of its own, on a GPU). 4096 rows of 32 768 keys in float32, in turns with `torch.sum(scores, dim=1)`, which does nothing but read
#   the scores once: at least 0.7 of its speed, part points from 0.4 on. And rows that begin $2^{31}$ elements away must come out right, where there are 9 GB free.
#
# <details><summary>Hint: which state?</summary>
#
# Three numbers are carried, as in section 1: `m`, `l`, `acc`. A block of keys is a partial: its maximum, its sum of weights, its weighted values. You need not
# compute it by itself. Take the new maximum first, and then weigh both the old sums and the block's keys against it.
# </details>
#
# <details><summary>Hint: a block without any key</summary>
#
# As in exercise 2.1: subtract not `m` but a `base`, which is `m` where that is finite and 0 where it is not. `tl.where(condition, a, b)` is an element-wise choice.
# </details>
#
# <details><summary>Hint: values that are NaN</summary>
#
# Choose between `p * v` and 0, or do not load the value of a key whose score is $-\infty$. To multiply by 0 is not enough.
# </details>
#
# <details><summary>Hint: the last line</summary>
#
# If `l` is 0 there was no key. Both branches of `tl.where` are computed, so divide by something that is not 0.
# </details>

# %% grade_id="ex-2-2"
import triton
import triton.language as tl


@triton.jit
def attend_rows_kernel(scores_ptr, values_ptr, out_ptr, lse_ptr, n, row_stride, BLOCK: tl.constexpr):
    """One program walks over one row, BLOCK keys at a time, with a running (m, l, acc) in base 2."""
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    m = tl.full((), float("-inf"), tl.float32)
    l = tl.full((), 0.0, tl.float32)
    acc = tl.full((), 0.0, tl.float32)
    for start in range(0, n, BLOCK):
        key = start + tl.arange(0, BLOCK)
        s = tl.load(scores_ptr + row * row_stride + key, mask=key < n, other=float("-inf")).to(tl.float32)
        s *= 1.4426950408889634  # log2(e)
        v = tl.load(values_ptr + key, mask=key < n, other=0.0).to(tl.float32)
        larger = tl.maximum(m, tl.max(s, 0))
        base = tl.where(larger == float("-inf"), 0.0, larger)  # no key yet: -inf - -inf would be NaN
        rescale = tl.exp2(m - base)
        p = tl.exp2(s - base)
        l = l * rescale + tl.sum(p, 0)
        acc = acc * rescale + tl.sum(tl.where(p > 0, p * v, 0.0), 0)  # 0 * NaN would be NaN
        m = larger
    some = l > 0
    total = tl.where(some, l, 1.0)
    tl.store(out_ptr + row, acc / total)
    tl.store(lse_ptr + row, tl.where(some, (m + tl.log2(total)) * 0.6931471805599453, float("-inf")))
    ### END SOLUTION


def attend_rows(scores: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """scores [rows, n], values [n] -> (out [rows], lse [rows]), float32: the softmax-weighted value, and the log-sum-exp."""
    ### BEGIN SOLUTION
    rows, n = scores.shape
    out = torch.empty(rows, dtype=torch.float32, device=scores.device)
    lse = torch.empty_like(out)
    attend_rows_kernel[(rows,)](scores, values, out, lse, n, scores.stride(0), BLOCK=2048)
    return out, lse
    ### END SOLUTION

# %% grade_id="ex-2-2-check"
lab.check("2.2", attend_rows)

# %% grade_id="ex-2-2-timed"
lab.check_timed("2.2", attend_rows)

# %% [markdown]
# <details><summary>The three questions</summary>
#
# $m$ is $-\infty$ after each of the first three blocks, and the difference is NaN, which no later block repairs. The lanes from $n$ on: $-\infty$, the
# score of a masked key, makes them the same as masked keys. $3 \cdot 5000 \cdot (4 + 2) = 90\,000$ bytes loaded, $3 \cdot 8 = 24$ stored.
# </details>
#
# Your kernel beside one that makes three passes, counted:

# %% tags=["nbval-check-output"]
from course_lib.exercises.phase2.attend_rows_traffic import rows_traffic


@triton.jit
def load_block(ptr, start, n, other, BLOCK: tl.constexpr):
    index = start + tl.arange(0, BLOCK)
    return tl.load(ptr + index, mask=index < n, other=other).to(tl.float32)


@triton.jit
def three_passes_kernel(scores_ptr, values_ptr, out_ptr, lse_ptr, n, row_stride, BLOCK: tl.constexpr):
    """Right for rows that have a key; three loops over the row."""
    scores_ptr += tl.program_id(0).to(tl.int64) * row_stride
    m = tl.full((), float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        m = tl.maximum(m, tl.max(load_block(scores_ptr, start, n, float("-inf"), BLOCK), 0))
    l = tl.full((), 0.0, tl.float32)
    for start in range(0, n, BLOCK):
        l += tl.sum(tl.exp(load_block(scores_ptr, start, n, float("-inf"), BLOCK) - m), 0)
    acc = tl.full((), 0.0, tl.float32)
    for start in range(0, n, BLOCK):
        p = tl.exp(load_block(scores_ptr, start, n, float("-inf"), BLOCK) - m)
        acc += tl.sum(p * load_block(values_ptr, start, n, 0.0, BLOCK), 0)
    tl.store(out_ptr + tl.program_id(0), acc / l)
    tl.store(lse_ptr + tl.program_id(0), m + tl.log(l))


def three_passes(scores, values):
    out, lse = torch.empty(2, len(scores), device=scores.device)
    three_passes_kernel[(len(scores),)](scores, values, out, lse, scores.shape[1], scores.stride(0), BLOCK=1024)
    return out, lse


scores = torch.randn(3, 5000, device=device)
values = torch.randn(5000, device=device).half()
for name, attend in (("three passes", three_passes), ("yours", attend_rows)):
    try:
        counted = rows_traffic(attend, scores, values)
        moved = f"{counted.loaded_bytes:>7} B loaded, {counted.stored_bytes} B stored"
        print(f"{name:<13}{moved}: {counted.times_the_least:.2f} times the least")
    except NotImplementedError as still_open:
        print(f"{name:<13}{still_open}")

# %% [markdown]
# 210 024 bytes against 90 024. In attention a key brings its $k$ and $v$ of $d$ numbers each, and the scores are not read but computed. With three
# passes they would be *computed* three times, and K read three times for it.
#
# ### A row each, and too few rows
#
# One program a row is simple, and it has a price when there are few rows. Every program runs on one SM:

# %% tags=["nbval-check-output"]
sms = 132
for rows in (1, 8, 64, 132, 4096):
    busy = min(rows, sms)
    print(f"{rows:>5} rows: {busy:>4} of {sms} SMs have work, at most {busy / sms:4.0%} of the arithmetic")

# %% [markdown]
# Memory suffers as much. A single SM can keep only so many bytes under way (Little's law, section 4 of phase 1), so it draws a few times its share of the
# bandwidth at best, $4800 / 132 = 36$ GB/s, and not 132 times.
#
# Is this a case that happens? A decode step with one user and 8 KV heads has 8 rows, each with as many keys as the context is long. It is the
# usual case of a local assistant, and of the longest prompts on a server. The cure is known from section 1: cut the *row* into parts, give each part to
# a program, write `out` and `lse` of each part, and merge them. This is **split-KV**, also called Flash-Decoding. It is exercise 2.9, with the
# question how many parts are right.
#
# ### Questions
#
# 1. Some models cap their scores at $\pm 50$ with a tanh. What could be left out of the kernel for them, and would it be faster on a GPU that waits for memory?
# 2. `BLOCK` could be as large as the row, with no loop at all. What ends that for 98 304 keys?
# 3. The same row is summed with `BLOCK` 1024 and with 2048. Are the results equal bit for bit?
#
# <details><summary>Answers</summary>
#
# 1. The running maximum and the rescaling: $e^{50} = 5 \cdot 10^{21}$, and 100 000 times that fits in float32. A kernel that waits for memory does not get faster
#    by less arithmetic; one that is short of it may.
# 2. Registers. 98 304 keys need 131 072 lanes. For 128 threads that is 1024 scores each, where a thread has 255 registers, so they spill to memory, which is what was to be
#    avoided. With 1024 threads it is 128 scores each, and a thread has 64 registers then.
# 3. In general not. It is another grouping of the same sum (question 1 of section 1). A serving engine whose block or number of splits depends on the batch gives answers that depend on
#    the batch.
# </details>

# %% [markdown]
# ## Where you are

# %%
lab.progress()

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
# ## Where you are

# %%
lab.progress()

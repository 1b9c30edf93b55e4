# %% [markdown]
# # Phase 1: the roofline
#
# How fast can a GPU serve a model? With a pencil you can say how fast it can be at most, before you run anything. A step does some
# arithmetic and moves some bytes. The chip does arithmetic at one rate and moves bytes at another. Whichever takes longer is the time you
# cannot beat, and everything that you build in this course is measured against it.
#
# This phase gives you that pencil. You will know what a number on a data sheet is worth, why a chat model at batch 1 leaves most of the
# chip idle, and which changes can help and which cannot.
#
# | section | the question | time | points |
# |---|---|---|---|
# | 0 | Do I know what this course expects? | 30 min | none |
# | 1 | How fast is a chip, and at what? | 45 min | 5 |
# | 2 | What does a step of a model cost? | 2 h | 8 |
# | 3 | How long did that take, honestly? | 90 min | 10 |
# | 4 | What does *this* chip reach? | 2 h | 11 |
# | 5 | What does batching buy, and where does it stop? | 2 h | 10 |
# | 6 | What can be promised to a user? | 75 min | 6 |
# | 7 | What do the counters really count? | 90 min | 7 |
# | 8 | What goes into the next step? | 2 h | 10 |
# | 9 | What if the host is too slow? | 90 min | 8 |
# | 10 | What did the roadmap get right? | 20 min | none |
# | 11 | What does one token of a real model cost? | 20 min | none |
#
# The hours are our estimate for somebody who works the numbers out on paper; they add up to about fifteen.
#
# **How the exercises work.** Each one asks for a function. You write it in the cell marked for it, run the check below, and see at once
# what is right, what is not, and where the first wrong value stands. Try as often as you like. Points that can only be earned on a GPU
# are shown as *waiting* on a machine without one; they are never lost. If a check does not end, press ■: it then says which line was
# running. After a restart of the kernel, run the first cell and your own ones again.
#
# **Where a sentence says "predict"**, do it, in writing, before you run the cell. It is the part of the course that stays.

# %% grade_id="setup"
from course_lib import lab
import torch

lab.start(1)

# %% [markdown]
# ## 0. Before you start
#
# *About 30 minutes, fewer if most of it is familiar.*
#
# The course takes three things for granted: some linear algebra and the shape of attention; Python, PyTorch and how they treat memory;
# and a machine whose wires you can read. The questions below show in half an hour whether that is so. **Nothing here is graded, recorded
# or in your way.** A miss tells you what to read, a few pages each; and you can go to section 1 whatever the answers are.
#
# Put your answer in the place of `None` and run the cell. Paper is allowed, running code to find the answer is not: the point is what you
# know. Every answer is judged by working it out, so it does not matter how you write a number.

# %%
from course_lib.exercises import diagnostic

# %% [markdown]
# ### Linear algebra and attention
#
# **1.** A layer with 64 inputs and 32 outputs gets 10 tokens: `x` is `[10, 64]`, `w` is `[64, 32]`. What is the shape of `x @ w`, and how
# many multiplications does it take? `((rows, columns), multiplications)`

# %%
diagnostic.check("product", None)

# %% [markdown]
# **2.** Attention with a batch of 2 and 8 heads of dimension 64: 5 queries, `[2, 8, 5, 64]`, look at 9 keys and values, `[2, 8, 9, 64]`.
# What are the shapes of the scores and of the output? `(shape, shape)`

# %%
diagnostic.check("scores", None)

# %% [markdown]
# **3.** The softmax of the scores 0, ln 2 and ln 5, as three numbers.

# %%
diagnostic.check("softmax", None)

# %% [markdown]
# **4.** Now of the scores 1000 and 1000, in float32. The first of the two results, once straight from the formula, exponentials over
# their sum, and once with the largest score subtracted first. `(number, number)`; where a result is no number, write `float("nan")`.

# %%
diagnostic.check("overflow", None)

# %% [markdown]
# **5.** Write attention: `q` is `[batch, queries, dim]`, `k` and `v` are `[batch, keys, dim]`; no mask, and the scores scaled as the
# Transformer paper does it. Three or four lines.

# %%
def attend(q, k, v):
    return None


diagnostic.check("attend", attend)

# %% [markdown]
# ### Python, PyTorch and kernels
#
# **6.** `x = torch.arange(24).view(2, 3, 4).transpose(1, 2)`. What are its strides, in elements, and is it contiguous? `((stride, stride,
# stride), True or False)`

# %%
diagnostic.check("strides", None)

# %% [markdown]
# **7.** `x = torch.arange(12.0).view(3, 4)`. Which of these six share its memory? Write a set of texts.
#
# `"x.T"`, `"x[:, ::2]"`, `"x[[0, 2]]"`, `"x.reshape(-1)"`, `"x.T.reshape(-1)"`, `"x + 0"`

# %%
diagnostic.check("views", None)

# %% [markdown]
# **8.** `x` is float32, `[4, 6]`, contiguous, and `y = x[1:, ::2]`. How many bytes behind the first element of `x` does `y[2, 1]` begin?

# %%
diagnostic.check("offset", None)

# %% [markdown]
# **9.** The device is idle. Launching a kernel takes the host 5 µs, running it takes the device 100 µs, and four are launched one after
# another. What does the host's clock show right after the fourth launch, and what after a `synchronize()`, whose own time is negligible?
# `(microseconds, microseconds)`

# %%
diagnostic.check("asynchronous", None)

# %% [markdown]
# **10.** Read this kernel and the function that launches it. It is written in Triton: the kernel runs once for each *program* of the
# grid, which stands in square brackets at the launch, and `lanes` is a vector of `BLOCK` numbers.

# %% tags=["nbval-check-output"]
print(diagnostic.KERNEL)

# %% [markdown]
# `row_sums` gets a contiguous `x` of shape `[4, 300]`, where every element of row `i` has the value `i`. How many programs run, how many
# rounds does the loop of each make, how many lanes are masked off in the last round, and what is `out[2]`? `(programs, rounds, lanes,
# value)`

# %%
diagnostic.check("kernel", None)

# %% [markdown]
# ### The machine
#
# **11.** A model of 8.03 × 10⁹ weights in bf16 lies in the host's memory. How long does it take to copy it to the device, at 50 GB/s from
# pinned memory and at 10 GB/s from pageable memory? `(seconds, seconds)`, 1 GB = 10⁹ bytes

# %%
diagnostic.check("copies", None)

# %% [markdown]
# **12.** This is how `nvidia-smi topo -m` describes a machine with two processors, four GPUs and a network card. (It is an example,
# written for this question. On a GPU machine, look at yours.)

# %% tags=["nbval-check-output"]
print(diagnostic.TOPOLOGY)

# %% [markdown]
# NV and a number: so many NVLinks. PIX: through one PCIe switch. PHB: through the PCIe root of a processor. SYS: from one processor to
# the other.
#
# Which two GPUs would you give to a model that is split over two? Which GPU should send over the network card? On which NUMA node should
# a host buffer for GPU3 lie? `((GPU, GPU), GPU, NUMA node)`, all as numbers

# %%
diagnostic.check("topology", None)

# %% [markdown]
# **13.** Two lines of `lspci -vv` about another GPU:

# %% tags=["nbval-check-output"]
print(diagnostic.LINK)

# %% [markdown]
# How many GB/s can the link carry in one direction as it is now, and at most? `(GB/s now, GB/s at most)`. A lane carries one bit with
# each transfer; 128 of 130 bits are data (if you leave that out, it is still near enough).

# %%
diagnostic.check("link", None)

# %% [markdown]
# ### Pinned and pageable, measured
#
# A copy over PCIe is made by the device itself, and the device needs pages that stay where they are: **pinned** memory. From ordinary,
# **pageable** memory the driver first copies into a pinned buffer of its own, piece by piece.
#
# **Predict** before you run the cell: by what factor is the copy of a gigabyte faster from pinned memory? And of 4 KiB? On a GPU the cell
# measures, which takes some seconds; elsewhere it shows what was recorded on an H200.

# %%
from course_lib.display.host_copies_figure import host_copies_figure
from course_lib.recorded import recorded

if torch.cuda.is_available():
    from course_lib.timing.host_copies import as_rows, measure_host_copies

    copy_rows, measured_on = as_rows(measure_host_copies()), f"measured now, {torch.cuda.get_device_name()}"
else:
    result = recorded("host_copies")
    copy_rows, measured_on = result["rows"], f"recorded, {result['device']}, {result['date'][:10]}"

host_copies_figure(copy_rows, measured_on)
for direction in ("to the device", "to the host"):
    rows = sorted((row for row in copy_rows if row["direction"] == direction), key=lambda row: row["bytes"])
    for row in (rows[0], rows[-1]):
        rates = f"pinned {row['ours']:7.3f} GB/s, pageable {row['peer']:7.3f}, ratio {row['ratio']:.2f}"
        print(f"{direction:<14}{row['bytes']:>14,} bytes: {rates}")

# %% [markdown]
# Small copies are slow either way: what one pays for is the call, not the bytes, and the rate grows with the size until the wire is full.
# You will meet the same curve again with kernels, in sections 4 and 5. Large ones show the wire. Compare the pinned rate with question
# 13: a link of generation 5 with 16 lanes can carry 63 GB/s at most.
#
# ### What to read
#
# On a GPU machine, look at the real thing as well: `nvidia-smi topo -m`, `nvidia-smi -q`, `lspci -vv`.

# %%
diagnostic.summary()

# %% [markdown]
# ## 1. Two rates, and the point where they meet
#
# *About 45 minutes.*
#
# An H100 SXM multiplies matrices in bf16 at 989.4 TFLOP/s and reads its memory at 3350 GB/s. Suppose a kernel does $F$ floating-point
# operations and moves $B$ bytes. Arithmetic alone takes $F/P$ seconds, memory alone takes $B/W$, and since both go on at once, the kernel
# takes at least
#
# $$ t \ge \max\left(\frac{F}{P}, \frac{B}{W}\right). $$
#
# The two terms are equal when $F/B = P/W$. The left side, the **arithmetic intensity**, belongs to the kernel: how many operations it does
# with each byte it moves. The right side, the **ridge point**, belongs to the chip. Left of the ridge a kernel waits for memory, and more
# tensor cores, the units that multiply matrices, would not help it. Right of it, the kernel waits for arithmetic.
#
# The picture is from Williams, Waterman and Patterson, *Roofline* (CACM 52(4), 2009). Both axes are logarithmic, which turns the two
# limits into two straight lines: a slope, which is the bandwidth, and a flat roof, which is the peak.

# %%
from course_lib.display.roofline_figure import roofline_figure
from course_lib.hardware import spec

roofline_figure([spec("h100-sxm"), spec("h200-sxm")], points={"one token": 1.0, "256 tokens": 227.6}, ridges=False);

# %% [markdown]
# The H200 has the arithmetic of the H100 and faster memory, so its slope is higher and its ridge lies further left. The upright lines are
# one and the same layer, a 4096 × 4096 weight in bf16, with one token and with 256. For one token, each weight of 2 bytes is read for one
# multiplication and one addition: about 1 FLOP per byte, far down the slope on either chip. For 256 tokens,
#
# $$ \frac{F}{B} = \frac{2 \cdot 256 \cdot 4096^2}{2 \, (4096^2 + 2 \cdot 256 \cdot 4096)} = 227.6, $$
#
# weight, input and output moved once each. The same product waits for memory on the H100 and for arithmetic on the H200.
#
# ### The data sheet
#
# The course keeps the figures that it uses in one file, each with its source. **Dense** is the word to look for. Vendors like to print the
# rate with 2:4 structured sparsity (two of every four weights are zero), which is twice the dense one and which no ordinary model reaches; a ridge point made of it is wrong
# by a factor of two.

# %% tags=["nbval-check-output"]
from course_lib.hardware import all_specs

print(f"{'GPU':<16}{'bf16 dense':>12}{'fp8 dense':>12}{'memory':>12}")
print(f"{'':<16}{'TFLOP/s':>12}{'TFLOP/s':>12}{'GB/s':>12}")
for gpu in all_specs().values():
    bf16, fp8 = (f"{peak:.1f}" if peak else "-" for peak in (gpu.bf16_tflops, gpu.fp8_tflops))
    print(f"{gpu.name:<16}{bf16:>12}{fp8:>12}{gpu.hbm_gb_per_s:>12.0f}")

# %% [markdown]
# ### Exercise 1.1: ridge points (about 3 lines, 5 points, 1 of them on a GPU)
#
# Write `ridge_points`, which turns a table of peaks and a list of bandwidths into a table of ridge points.
#
# **Before you code**: work one out on paper. The H100 SXM in bf16 has 989.4 TFLOP/s and 3350 GB/s. Write both in plain units, operations
# per second and bytes per second (1 T = 10¹², 1 G = 10⁹), and divide. Is the result nearer to 0.3, to 300 or to 300 000?
#
# | | shape | dtype | meaning |
# |---|---|---|---|
# | `peak_tflops` | `[gpus, precisions]` | float64 or float32 | dense peaks in TFLOP/s, NaN where a GPU lacks the precision |
# | `hbm_gb_per_s` | `[gpus]` | the same | memory bandwidth in GB/s, 1 GB = 10⁹ bytes |
# | result | `[gpus, precisions]` | float64 | ridge points in FLOP per byte, NaN where the peak is NaN |
#
# Unless an exercise says otherwise, leave the inputs as they are, and share no memory with them in what you return. (`.double()` copies
# nothing when the tensor is float64 already: `*=` behind it would change the input.) Here the result is float64 whatever comes in, and it
# is *computed* in float64: casting a float32 result is too late, since the digits are gone.
#
# <details><summary>Hint: the shapes</summary>
#
# `hbm_gb_per_s` has one value for each row. Broadcasting aligns shapes from the right, so `[gpus]` would meet the *columns*. What turns
# `[gpus]` into `[gpus, 1]`?
# </details>
#
# <details><summary>Hint: the units</summary>
#
# Tera over giga is a thousand.
# </details>

# %% grade_id="ex-1-1"
def ridge_points(peak_tflops: torch.Tensor, hbm_gb_per_s: torch.Tensor) -> torch.Tensor:
    """[gpus, precisions] TFLOP/s and [gpus] GB/s -> [gpus, precisions] float64, FLOP per byte."""
    ### BEGIN SOLUTION
    flops_per_second = peak_tflops.double() * 1e12
    bytes_per_second = hbm_gb_per_s.double() * 1e9
    return flops_per_second / bytes_per_second[:, None]
    ### END SOLUTION

# %% grade_id="ex-1-1-check"
lab.check("1.1", ridge_points)

# %% [markdown]
# **On this device.** A data sheet is a promise. On a GPU the next cell measures what the device in front of you does, a large bf16 matrix
# product (fp16 on a GPU without bf16) and a copy of a gigabyte, both on random data, and gives your function the two rates. Expect both below the sheet. The point is
# not how far below, but that the *measured* ridge is the one that your kernels will meet.

# %% grade_id="ex-1-1-timed"
lab.check_timed("1.1", ridge_points)

# %% [markdown]
# ### What the roadmap says
#
# The roadmap that this course grew from puts the ridge point of the H100 at "about 0.17 FLOP/byte", from 1000 TFLOP/s and 6 TB/s, and
# says that decoding, which makes one token after another, sits four orders of magnitude below it. **Predict** before you run the cell: what is right in that, what is wrong, and
# by how much? You have everything you need.

# %% tags=["nbval-check-output"]
from math import log10

roadmap_ridge = (1000 * 1e12) / (6 * 1e12)
h100_ridge = spec("h100-sxm").bf16_tflops * 1e12 / (spec("h100-sxm").hbm_gb_per_s * 1e9)
print(f"1000 TFLOP/s over 6 TB/s        {roadmap_ridge:7.1f} FLOP/byte")
print(f"the H100's data sheet, bf16     {h100_ridge:7.1f} FLOP/byte")
print(f"one token, 1 FLOP/byte, is below that by {log10(h100_ridge):.1f} orders of magnitude")

# %% [markdown]
# <details><summary>What is right in it, and what is not</summary>
#
# That decoding lies far below the ridge is right. The rest is not:
#
# - The roadmap's own figures give 166.7, not 0.17. A factor of 1000 was dropped between the units.
# - The H100's memory is 3.35 TB/s, not 6, so the ridge is at 295.
# - From 1 to 295 it is two and a half orders of magnitude, not four.
#
# A glance at the hardware would have caught it. With a ridge of 0.17 and 6 TB/s the chip would do 1 TFLOP/s, and decoding, at 1 FLOP per
# byte, would lie six times *above* the ridge.
# </details>

# %% [markdown]
# ## 2. What a step costs
#
# *About two hours.*
#
# The roofline wants two numbers: how many operations, and how many bytes. For a model they look hopeless, with its dozens of layers,
# caches and masks. They are not. Almost all the arithmetic of a step is matrix products, and almost all the bytes are weights, keys and
# values. In this section you count both, exactly, first for one product, then for a layer, then for any step of any dense model. A
# counter inside torch will check you.
#
# ### One product
#
# $M$ tokens, a vector of $K$ values each, meet a weight of $K \times N$. Each of the $M \cdot N$ results is a sum of $K$ products: $K$
# multiplications and as many additions. That makes
#
# $$ F = 2 M K N, \qquad B \ge w K N + 2 M K + 2 M N, $$
#
# with $w$ bytes for a weight, and 2 for each value that comes in or goes out in bf16. The bytes are the *least* that can move: weight and
# input once from memory, the output once to it. A kernel can move more. It cannot move less, unless somebody left the data in a cache.
#
# The roadmap has an example: 8 prompts of 32 tokens, so $M$ = 256, and a square weight of 4096 in bf16. On paper:
#
# | | | |
# |---|---|---|
# | FLOPs | 2 × 256 × 4096 × 4096 | 8.590 × 10⁹ |
# | weight | 2 B × 4096 × 4096 | 33.55 MB |
# | input | 2 B × 256 × 4096 | 2.10 MB |
# | output | 2 B × 256 × 4096 | 2.10 MB |
# | bytes together | | **37.75 MB** |
# | intensity | 8.590 × 10⁹ / 37.75 × 10⁶ | **227.6 FLOP/byte** |
#
# The tokens stand in the first line and hardly at all in the bytes. That is the whole secret of batching: another token brings $2KN$
# operations and $2(K+N)$ bytes, and finds a weight that has been paid for. How far does it go?

# %% tags=["nbval-check-output"]
from course_lib.hardware import spec
from course_lib.roofline import product_counts

H100, H200 = spec("h100-sxm"), spec("h200-sxm")
print(f"{'tokens':>7}{'FLOPs':>12}{'bytes':>10}{'FLOP/byte':>12}{'arithmetic':>13}{'memory, H100':>15}{'memory, H200':>15}")
for tokens in (1, 16, 256, 1024):
    flops, moved = product_counts(tokens, 4096, 4096)
    arithmetic = flops / (H100.bf16_tflops * 1e12)
    memory = [moved / (gpu.hbm_gb_per_s * 1e9) for gpu in (H100, H200)]
    times = f"{arithmetic * 1e6:>10.2f} us" + "".join(f"{seconds * 1e6:>12.2f} us" for seconds in memory)
    print(f"{tokens:>7}{flops:>12.2e}{moved / 1e6:>7.1f} MB{flops / moved:>12.1f}{times}")

# %% [markdown]
# From 1 token to 256 the memory has an eighth more to do, and the arithmetic 256 times as much. Now look at the line with 256. Which of the
# two takes longer on an H100, and which on an H200?
#
# **Predict.** These four are what the roadmap says of this product. You have every number: judge each, then open the answer.

# %%
lab.predict("C036", "C037", "C038", "C040")

# %% [markdown]
# ### A layer
#
# A layer of a Llama is seven such products, with attention after the third. Here are those of Llama-3-8B. Its **residual
# stream**, the vector that a token carries from layer to layer and to which every layer adds, is $h$ = 4096 wide. It has 32 query heads and
# 8 heads of keys and values, each of 128:
#
# | product | weight | values |
# |---|---|---|
# | queries | 4096 × (32 × 128) | 16 777 216 |
# | keys | 4096 × (8 × 128) | 4 194 304 |
# | values | 4096 × (8 × 128) | 4 194 304 |
# | output, which puts the heads together again | (32 × 128) × 4096 | 16 777 216 |
# | gate, up and down of the MLP | 3 × 4096 × 14 336 | 176 160 768 |
# | a layer | | **218 103 808** |
# | 32 layers, $N$ | | **6 979 321 856** |
# | output head, $N_h$ | 4096 × 128 256 | 525 336 576 |
#
# Each token takes part in one multiplication and one addition with every weight of the layers: $2N$ FLOPs. Three things are easy to
# get wrong:
#
# - **The head** turns a hidden state into logits, one number for each word of the vocabulary. Only somebody who wants a *next* token needs
#   logits, so it runs for the last token of each sequence and for no other.
# - **The embedding** at the input is as large as the head, and it is no product. A token looks up its row.
# - **The rest**, norms, SiLU, softmax and the additions, does a few operations for each value where a product does thousands. It counts
#   as nothing in the FLOPs. The values that it moves do count, as you will see.
#
# If you know only the number of parameters, $2$ FLOPs for each is a good guess for a token: 16.1 × 10⁹ for the 8B model. Without the
# embedding it is 15.0 × 10⁹, and that is what the chip does.
#
# ### Attention
#
# The weights do not know how long the conversation is. Attention does. **Predict** first: is this what a decode step computes?

# %%
lab.predict("C043")

# %% [markdown]
# Take one query of one head. Its score with one key is a dot product of $d$ = 128 values: $2d$ FLOPs. After the softmax, one value vector
# is scaled by its weight and added up: $2d$ again. So a **pair** of a query and a key costs $4d$ FLOPs in each query head. That several
# query heads share the same keys saves bytes and saves no arithmetic: each head still has its own queries.
#
# How many pairs are there? A token sees those before it and itself. Suppose a sequence has $s$ tokens in its cache, and a step brings
# $n$ new ones. The first new token sees $s + 1$ keys, the second $s + 2$, the last $s + n$:
#
# $$ \text{pairs} = \sum_{i=1}^{n} (s + i) = n s + \frac{n (n + 1)}{2}. $$

# %% tags=["nbval-check-output"]
def show_mask(new_tokens, context):
    """A line for each new token: o is a key that it sees, . one that the mask hides."""
    seen = 0
    for query in range(1, new_tokens + 1):
        keys = context + query
        seen += keys
        print(f"new token {query}:  {'o ' * context}| {'o ' * query}{'. ' * (new_tokens - query)}  sees {keys}")
    print(f"{seen} pairs\n")


show_mask(new_tokens=3, context=4)
show_mask(new_tokens=5, context=0)

# %% [markdown]
# Left of the bar lies the cache: a full rectangle of $n \cdot s$. Right of it is a triangle, with its diagonal. A prefill is only the
# triangle, and one often writes $n^2/2$ for it, as section 6 will: for 2048 tokens that is 2 097 152 pairs where there are 2 098 176. A
# decode step is only one line, $s + 1$ keys, of which section 6 leaves out the token itself. Such shortcuts are fine when you estimate,
# and off by one token in thousands. Here we count exactly, so that "equal" can mean equal.
#
# ### Keys and values
#
# For each token the cache keeps a key and a value in every layer and every KV head. With $c$ bytes for a value,
#
# $$ \mathrm{kv} = 2 \cdot L \cdot n_\mathrm{kv} \cdot d \cdot c \quad \text{bytes for each token.} $$
#
# For Llama-3-8B in bf16 that is 2 × 32 × 8 × 128 × 2 = 131 072 bytes. **MHA** gives each query head keys and values of its own, **GQA** lets
# a few query heads share them, **MQA** lets all of them share one. **MLA**, DeepSeek's, keeps one compressed vector of 576 values in each
# layer, from which every head makes its keys and values.
#
# **Before you run the next cell**: Llama-2-7B and Llama-3-8B have the same layers and the same query heads. By which factor do their
# caches differ?

# %% tags=["nbval-check-output"]
from course_lib.roofline import LLAMA_3_8B, MODELS, tokens_in_cache

columns = f"{'layers':>7}{'values a layer':>16}{'bytes a token':>15}{'in FP8':>10}{'32 users with 2048 tokens':>28}"
print(" " * 22 + columns)
for model in MODELS:
    kv = model.kv_bytes_per_token()
    users = 32 * 2048 * kv / 1e9
    print(f"{model.name:<16}{model.kind:<6}{model.layers:>7}{kv / 2 / model.layers:>16.0f}{kv:>15,.0f}"
          f"{model.kv_bytes_per_token(1):>10,.0f}{users:>25.1f} GB")  # fmt: skip
in_l2 = tokens_in_cache(50e6, LLAMA_3_8B.kv_bytes_per_token())
print(f"\nAn L2 of 50 MB would hold {in_l2} tokens of Llama-3-8B, and nothing else")

# %% [markdown]
# A model of the size of Llama-2-7B with 32 users carries more bytes of cache than weights. Sharing heads made it four times smaller, and MLA
# keeps a model of 671 billion parameters at about half of what an 8B model needs.
#
# The last line answers a question that will come up again. **L2** is the cache in front of a GPU's memory, some tens of megabytes for the
# whole chip. No conversation lives there: between one decode step and the next, all the weights pass through it.
# **Predict** what that means for the second of these:

# %%
lab.predict("C045", "C070")

# %% [markdown]
# ### Prefill, decode and what lies between
#
# Now put it together. A step takes $b$ sequences. Each has $s$ tokens in the cache, its **context**, and brings $n$ new ones.
#
# | | new tokens $n$ | context $s$ |
# |---|---|---|
# | **prefill** of a prompt | all of it | 0 |
# | **decode** | 1 | all that was said so far |
# | a **chunk** of a long prompt | a few hundred | what the chunks before it left in the cache |
#
# One pair of formulas covers all three. With $h$ for the width of the residual stream and $n_q d$ for query heads × dim,
#
# $$ F = \underbrace{2 N \, b n + 2 N_h \, b}_\text{linear} + \underbrace{4 L \, n_q d \, b \left( n s + \frac{n (n + 1)}{2} \right)}_\text{attention}, $$
#
# $$ B = \underbrace{w N + 2 N_h}_\text{weights, once} + \underbrace{b \, (s + n) \, \mathrm{kv}}_\text{read } s \text{, write } n + \underbrace{8 L h \, b n}_\text{residual stream}. $$
#
# - **Weights** are read once, however many tokens there are. A weight of the layers has $w$ bytes: 2 in bf16, 1 in FP8. With 4 bits and an
#   fp16 scale for each group of 128 weights, it has 4 + 16/128 = 4.125 bits, or 0.515625 bytes. The head stays in bf16.
# - **Keys and values**: those of the context are read, those of the new tokens are written. The new ones need not be read back, since they are
#   on the chip when attention needs them. Each value has $c$ bytes.
# - **The residual stream** is read and written around attention, and again around the MLP: 4 times 2 bytes (bf16 always) for each of its
#   $h$ values, in each layer, for each new token.
# - Norm weights, embedding rows, scores and logits are left out. They are small, or never leave the chip in a good kernel.
#
# One token of Llama-3-8B after 2048, alone, in bf16:
#
# | | | |
# |---|---|---|
# | linear FLOPs | 2 × (6 979 321 856 + 525 336 576) | 1.501 × 10¹⁰ |
# | attention FLOPs | 4 × 32 × 4096 × 2049 | 0.107 × 10¹⁰ |
# | weights | 2 B × 7 504 658 432 | 15.009 GB |
# | keys and values | 2049 × 131 072 B | 0.269 GB |
# | residual stream | 8 B × 32 × 4096 | 0.001 GB |
# | intensity | 1.608 × 10¹⁰ / 15.279 × 10⁹ | **1.05 FLOP/byte** |
#
# ### Exercise 1.2: FLOPs and bytes of a step (about 15 lines, 8 points)
#
# Write `count_step`, which counts any such step.
#
# **Before you code**, with the numbers above:
#
# 1. A prompt of 2048 tokens takes how many times the linear FLOPs of one decode step? Not quite 2048. Why?
# 2. 32 users decode instead of one, each with 2048 tokens of context. Which of the three terms of $B$ grows, and which does not?
# 3. A chunk of 256 tokens comes after 1000. How many pairs is that, and how many would there be without the mask?
#
# | | meaning |
# |---|---|
# | `shape` | a dict of whole numbers: `layers` $L$, `hidden` $h$, `mlp_hidden`, `heads` $n_q$, `kv_heads` $n_\mathrm{kv}$, `head_dim` $d$, `vocab` |
# | `new_tokens`, `context`, `batch` | $n$ (at least 1), $s$ (may be 0), $b$ |
# | `weight_bytes` | $w$, bytes of one weight of the layers: 2, 1 or 0.515625 |
# | `kv_bytes` | $c$, bytes of one value of the cache: 2 or 1 |
# | result | a dict of three numbers (int or float): `"linear_flops"`, `"attention_flops"`, `"bytes"` |
#
# - The MLP has three matrices of `hidden` × `mlp_hidden`. There are no biases.
# - `heads * head_dim` may be another number than `hidden`, wider or narrower. Write each weight of the table above with the numbers that it
#   really depends on.
# - `kv_heads` may be 1, or as many as `heads`.
# - The counts are exact: a token more or less is a mistake, and float32 has too few digits. Python's own numbers are right.
#
# <details><summary>Hint: where to begin</summary>
#
# Two widths make the rest readable: that of all query heads together, and that of all KV heads together. Then write $N$, $N_h$ and kv, then
# the two formulas.
# </details>
#
# <details><summary>Hint: check yourself</summary>
#
# `count_step({"layers": 32, "hidden": 4096, "mlp_hidden": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128, "vocab": 128256}, 1, 2048, 1, 2, 2)`
# is the table above.
# </details>

# %% grade_id="ex-1-2"
def count_step(shape: dict, new_tokens: int, context: int, batch: int, weight_bytes: float, kv_bytes: float) -> dict:
    """A step of `batch` sequences, `new_tokens` each after `context` -> {"linear_flops", "attention_flops", "bytes"}."""
    ### BEGIN SOLUTION
    layers, hidden = shape["layers"], shape["hidden"]
    query_width = shape["heads"] * shape["head_dim"]
    kv_width = shape["kv_heads"] * shape["head_dim"]
    layer_weights = 2 * hidden * query_width + 2 * hidden * kv_width + 3 * hidden * shape["mlp_hidden"]
    weights, head = layers * layer_weights, hidden * shape["vocab"]
    tokens = batch * new_tokens
    pairs = batch * (new_tokens * context + new_tokens * (new_tokens + 1) // 2)
    cache = batch * (context + new_tokens) * 2 * layers * kv_width * kv_bytes
    return {
        "linear_flops": 2 * weights * tokens + 2 * head * batch,
        "attention_flops": 4 * layers * query_width * pairs,
        "bytes": weight_bytes * weights + 2 * head + cache + 8 * layers * hidden * tokens,
    }
    ### END SOLUTION

# %% grade_id="ex-1-2-check"
lab.check("1.2", count_step)

# %% [markdown]
# <details><summary>The three questions for a pencil (answer them first)</summary>
#
# 1. About 1905 times. The layers do 2048 times as much, the head just as much as before: it sees the last token only.
# 2. Keys and values, 32 times as much, and the residual stream, which nobody will notice. The weights stay.
# 3. 256 × 1000 + 256 × 257 / 2 = 288 896. Without the mask it would be 256 × 1256 = 321 536.
# </details>
#
# ### Does it hold?
#
# A formula that only agrees with itself proves little. torch has a counter, `torch.utils.flop_counter`, that watches every operation and adds
# up the products that run. And it needs no GPU and no memory: on the **meta** device a tensor has a shape and a dtype and no
# numbers. The course has a small decoder for that (`course_lib/workloads/meta_decoder.py`; read it, it is a Llama in about a hundred lines).
# It also adds up the `nbytes` of the weights, of the cache and of the residual stream as a step touches them.
#
# Here it runs with the shapes of Llama-3-8B. **Predict**: three counts for each of three steps. Which of the nine will *not* be equal to
# yours?

# %% tags=["nbval-check-output"]
from course_lib.workloads.meta_decoder import MetaDecoder, count_flops

decoder = MetaDecoder(LLAMA_3_8B.numbers())  # 8 billion weights on the meta device: no memory at all
STEPS = {"prefill of 2048": (2048, 0, 1), "decode, 32 users": (1, 2048, 32), "chunk of 256 after 1000": (256, 1000, 1)}
lines = []
try:
    for name, (new, past, users) in STEPS.items():
        yours = count_step(LLAMA_3_8B.numbers(), new, past, users, 2, 2)
        seen = count_flops(decoder, new, past, users)
        rows = {"linear_flops": seen["linear"], "attention_flops": seen["attention"]}
        rows["bytes"] = sum(decoder.traffic.values())
        lines.append(f"{name:<26}{'yours':>22}{'the decoder':>22}")
        for part, value in rows.items():
            same = "equal" if yours[part] == value else f"{value / yours[part]:.4f} times as much"
            lines.append(f"  {part:<24}{yours[part]:>22,}{value:>22,}   {same}")
except NotImplementedError as still_open:
    lines.append(f"The comparison needs your function. {still_open}")
print("\n".join(lines))

# %% [markdown]
# <details><summary>What differs, and why (run it first)</summary>
#
# Seven are equal to the last digit. The other two are attention with more than one new token: the decoder multiplies every query with
# every key and *then* hides what lies in the future, and the counter counts what is multiplied. For the prefill that is 2048 × 2048 pairs where
# the mask leaves 2048 × 2049 / 2, almost twice as many. For the chunk it is 321 536 against 288 896. In a decode step there is no future.
#
# Neither number is wrong. Yours is what has to be computed. The decoder's is what a simple kernel computes; FlashAttention skips
# the blocks that are hidden whole and comes close to yours. Be careful with published TFLOP/s of attention: some count the masked half, and
# then look twice as fast.
# </details>
#
# ### Which of them wait for memory?
#
# Time for the roofline. Here are six steps of Llama-3-8B in bf16, with their intensity and the two times of an H100. **Predict** before you
# run it: the ridge lies at 295. Which of the six are limited by arithmetic? What about the chunks: is a chunk more like a prefill, or more
# like a decode step?

# %% tags=["nbval-check-output"]
from course_lib.roofline import chunk_step

print(f"{'':<30}{'FLOPs':>10}{'GB':>8}{'FLOP/byte':>11}{'arithmetic':>13}{'memory':>11}")
for name, new, past, users in (
    ("prefill of 2048 tokens", 2048, 0, 1),
    ("prefill of 128 tokens", 128, 0, 1),
    ("chunk of 512 after 1024", 512, 1024, 1),
    ("chunk of 64 after 1024", 64, 1024, 1),
    ("decode, 1 user after 2048", 1, 2048, 1),
    ("decode, 32 users after 2048", 1, 2048, 32),
):
    step = chunk_step(LLAMA_3_8B, new, past, users)
    arithmetic, memory = step.flops / (H100.bf16_tflops * 1e12), step.bytes_moved / (H100.hbm_gb_per_s * 1e9)
    print(f"{name:<30}{step.flops:>10.2e}{step.bytes_moved / 1e9:>8.1f}{step.flops_per_byte:>11.1f}"
          f"{arithmetic * 1e3:>10.2f} ms{memory * 1e3:>8.2f} ms")  # fmt: skip

# %% [markdown]
# <details><summary>What there is to see in it (run it first)</summary>
#
# - Two are limited by arithmetic: the prefill of 2048 and the chunk of 512. What they have in common is not the name, but more than 295
#   tokens.
# - A prefill of 128 tokens waits for memory, as does a small chunk. Their time is that of reading the weights, whatever they do with them.
# - A decode step with 32 users takes half as long again as one with a single user, and makes 32 times as many tokens. What was added is their
#   caches.
# </details>
#
# ### What the roadmap says of decoding
#
# **Predict** each of these before you open it. The expression behind the first is one projection of one layer and the head,
# 2 · 4096² + 2 · 4096 · 32 768.

# %%
lab.predict("C044", "C046", "C047", "C002")

# %% [markdown]
# ### More users
#
# One token alone uses 1/295 of an H100's peak, 0.34%, and nobody pays for a GPU to do that. Batching is the way out, and now you can say how far it
# leads. In a decode step the weights are shared by all and the caches by nobody, so with $b$ users
#
# $$ \frac{F}{B} \approx \frac{b \, (2 (N + N_h) + 4 L n_q d \, s)}{2 (N + N_h) + b \, s \, \mathrm{kv}}
#    \;\xrightarrow{\; b \to \infty \;}\; \frac{2 (N + N_h)}{s \, \mathrm{kv}} + \frac{n_q}{n_\mathrm{kv}}. $$
#
# (bf16; the residual stream and the new token's own key are left out.) At first the intensity is $b$ itself, as in the single product. Then the
# caches outgrow the weights, and the curve bends towards a limit. The second term of the limit is the intensity of attention alone: each
# key is read once and used by $n_q / n_\mathrm{kv}$ query heads, which is 4 for Llama-3-8B.
#
# **Predict** before you draw it: 8192 tokens of context, Llama-3-8B. With how many users does a decode step reach the ridge of an H200, 206?

# %%
from course_lib.display.intensity_figure import intensity_figure
from course_lib.roofline import decode_intensity

BATCHES = [2 ** (n / 2) for n in range(21)]  # 1 to 1024
curves = {"weights alone": [(batch, batch) for batch in BATCHES]}
for context in (256, 1024, 8192, 32768):
    curves[f"{context} tokens"] = [(batch, decode_intensity(LLAMA_3_8B, batch, context)) for batch in BATCHES]
ridges = {gpu.name: gpu.bf16_tflops * 1e3 / gpu.hbm_gb_per_s for gpu in (H100, H200)}
intensity_figure(curves, ridges);

# %% [markdown]
# With 8192 tokens: never. The limit is 18. With 32 768 tokens it stays below 8, however many users share the chip: a step is then one long
# read of their caches. (Lines for a long context begin *higher*: attention does 4 FLOPs with a byte where a weight alone does one.)
#
# Two thresholds are worth knowing by heart. The first is for the products with weights alone. A product of $M$ tokens has
# an intensity of $2M/w$, so it reaches the ridge $R$ at
#
# $$ M^\ast = \frac{R \, w}{2} \qquad \text{or, with its activations, for a square weight of } h \text{ in bf16:} \qquad M^\ast = \frac{R}{1 - 2R/h}. $$
#
# The second is for the step: set the limit above equal to $R$ and solve for the context. Beyond
#
# $$ s^\ast = \frac{2 (N + N_h)}{\mathrm{kv} \left( R - n_q / n_\mathrm{kv} \right)} $$
#
# no batch brings a decode step to the ridge.

# %% tags=["nbval-check-output"]
from course_lib.roofline import LLAMA_3_70B, context_limit, square_token_threshold, token_threshold

print(f"{'':<34}" + "".join(f"{gpu.name:>12}" for gpu in (H100, H200)))
for label, value in {
    "ridge, bf16": lambda ridge: ridge,
    "M*, bf16 weights": lambda ridge: token_threshold(ridge),
    "M*, 4.125-bit weights": lambda ridge: token_threshold(ridge, 0.515625),
    "M*, bf16, 4096 x 4096, all bytes": lambda ridge: square_token_threshold(ridge, 4096),
    "s*, Llama-3-8B": lambda ridge: context_limit(LLAMA_3_8B, ridge),
    "s*, Llama-3-8B, FP8 cache": lambda ridge: context_limit(LLAMA_3_8B, ridge, kv_bytes=1),
    "s*, Llama-3-70B": lambda ridge: context_limit(LLAMA_3_70B, ridge),
}.items():
    print(f"{label:<34}" + "".join(f"{value(ridge):>12.0f}" for ridge in ridges.values()))

# %% [markdown]
# Three things to take from it:
#
# - **$M^\ast$ counts tokens, not users.** A chunk of a prompt brings hundreds at once. So a scheduler can fill a decode step up to
#   $M^\ast$ tokens with somebody's prompt, almost for free. You will build one in section 8.
# - **Smaller weights lower $M^\ast$, if the arithmetic stays bf16.** With 4-bit weights 76 tokens are enough: more speed for few users, and an
#   earlier end of the free ride.
# - **A few hundred tokens of context are enough** to keep an 8B model's decode step below the ridge for ever. Shared heads, FP8 caches and MLA
#   move that limit, each in its own way: fewer bytes, or more queries for each byte.
#
# **Predict** once more. The card with which the roadmap opens this phase says it of prefill, not of decode:

# %%
lab.predict("C003")

# %% [markdown]
# ### On a GPU
#
# Back to the one product, and to the question whether any of this is true. The next cell times the 4096 × 4096 product with 1 to 2048
# tokens: on the GPU in front of you, or as it was recorded on an H200. *Cold* means that each call takes another weight out of 537 MB, so that
# weights come from memory, as in a model. *Warm* uses one weight of 33.6 MB again and again. **Predict**: which of the two could lie below the
# floor, and why would that be no contradiction?

# %%
from course_lib.display.tokens_figure import tokens_figure
from course_lib.hardware import find_spec
from course_lib.recorded import recorded


def sheet_of(device):
    """The data sheet of "NVIDIA H200, recorded on ...", or of an H200 where gpus.toml does not know the device."""
    return find_spec(device.partition(",")[0]) or H200


def products_here():
    """(device, {"cold": [(tokens, us), ...], "warm": ...}) of the CUDA device in use."""
    from course_lib.timing import time_in_graph
    from course_lib.workloads.token_sweep import pool, token_sweep

    weights = pool()
    sweeps = {"cold": token_sweep(time_in_graph, weights), "warm": token_sweep(time_in_graph, weights[:1])}
    return torch.cuda.get_device_name(), {kind: [(row[0], row[1] * 1e6) for row in rows] for kind, rows in sweeps.items()}


def products_before():
    """The same, as it was recorded on an H200."""
    result = recorded("token_sweep")
    rows = [(*row["case"].replace(" tokens,", "").split(), row["ours"]) for row in result["rows"]]
    points = {kind: [(int(tokens), us) for tokens, k, us in rows if k == kind] for kind in ("cold", "warm")}
    return f"{result['device']}, recorded on {result['date'][:10]}", points


try:
    device, points = products_here() if torch.cuda.is_available() else products_before()
except FileNotFoundError:
    print("This was not recorded yet. On a GPU the cell measures it.")
else:
    sheet = sheet_of(device)
    floors = [(m, 1e6 * max(f / (sheet.bf16_tflops * 1e12), b / (sheet.hbm_gb_per_s * 1e9)))
              for m, _ in points["cold"] for f, b in [product_counts(m, 4096, 4096)]]  # fmt: skip
    bend = square_token_threshold(sheet.bf16_tflops * 1e3 / sheet.hbm_gb_per_s, 4096)
    tokens_figure(points, floors, bend, f"{device}; floor of the {sheet.name}")

# %% [markdown]
# Up to the threshold the floor is almost level, and so are the points: 64 tokens take no longer than one. A warm product could go below it, because
# its weight lies in L2 and the floor counts bytes from *memory*. On the H200 it stayed above, since a read from L2 and the start of a kernel
# take their time as well (section 4), but it took a tenth to a quarter less than a cold one. A benchmark that forgets this promises a speed that no model will see. How to
# time without fooling yourself is the subject of the next section.
#
# And the hump between 96 and 256 tokens? The library picks a kernel for each shape, and its pick is not always a good one: on the H200, 224 tokens
# took longer than 256. A floor knows nothing of that.
#
# One more test, of the claim about L2 and 8192 tokens. Eight layers of the 8B model and its head decode for 4 users, whose contexts grow from
# 512 to 32 768 tokens. An L2 of 50 MB would hold 381 tokens of each. **Predict** the shape of the curve: where will it bend?

# %%
from dataclasses import replace

from course_lib.display.context_figure import context_figure
from course_lib.roofline import decode_step


def contexts_here():
    """(device, [(context, ms), ...]) of the CUDA device in use."""
    from course_lib.timing import time_calls
    from course_lib.workloads.context_sweep import context_sweep

    return torch.cuda.get_device_name(), [(row[0], row[1] * 1e3) for row in context_sweep(time_calls)]


def contexts_before():
    """The same, as it was recorded on an H200."""
    result = recorded("context_sweep")
    points = [(int(row["case"].split()[1].strip(",")), row["ours"]) for row in result["rows"]]
    return f"{result['device']}, recorded on {result['date'][:10]}", points


try:
    device, points = contexts_here() if torch.cuda.is_available() else contexts_before()
except FileNotFoundError:
    print("This was not recorded yet. On a GPU the cell measures it.")
else:
    sheet, eight_layers = sheet_of(device), replace(LLAMA_3_8B, layers=8)
    floors = [(s, 1e3 * decode_step(eight_layers, 4, s).floor_seconds(sheet.bf16_tflops * 1e12, sheet.hbm_gb_per_s * 1e9))
              for s, _ in points]  # fmt: skip
    context_figure(points, floors, f"{device}; floor of the {sheet.name}", l2_tokens=381, claimed=8192)

# %% [markdown]
# The floor is a straight line: each token of context adds the same few bytes, and nothing happens at 381 or at 8192. A stall would be a step in
# the measured points. Is there one?

# %% [markdown]
# ### The explorer
#
# Everything that this section counted is in the next cell, behind a few controls: choose a GPU, a model, the sizes of a weight and of a
# cached value, the batch, the context, and the picture and the numbers follow. Above you see one GPU's roof and the step on it, with its way
# from batch 1. Below, on the same axis, each part has a line of its own: the **products** of the layers with their weights alone, **attention**
# with the keys and values it moves, and the whole **step** between them. The dotted line is the ridge. What lies left of it waits for
# memory.
#
# The counts are those of exercise 1.2. Times are floors: nobody gets below them, and most stay well above.
#
# Three things to find with it. Begin each from what the cell shows first (Llama-3-8B on one H100 SXM, bf16, batch 32, context 2048), and
# **predict** before you touch a control. Into the field beside a slider you can type any number.
#
# 1. At which batch do the *products* cross the ridge? Where is the whole *step* then, and does that batch fit into the memory? Try to bring the
#    step over the ridge by batch alone.
# 2. Set the batch to 16. At which context are keys and values half of the bytes?
# 3. Stay there, and set the KV cache to FP8. What changes: bytes, time, the place of attention, $M^\ast$, $s^\ast$? Then set the weights to FP8
#    too. Why does $M^\ast$ still not move?

# %%
from course_lib.display.roofline_explorer import explore_roofline

explore_roofline()

# %% [markdown]
# <details><summary>1. Where the products cross (find it first)</summary>
#
# At 296. In bf16 their intensity is the batch itself, and the ridge is 989.4 × 10¹² / 3350 × 10⁹ = 295.3. The step has come to 50 by
# then, and a larger batch will not help: with 2048 tokens of context it stays below
# 15.009 × 10⁹ / (2048 × 131 072) + 4 = 59.9, at any batch. And 296 sequences do not fit. They need 296 × 2049 × 131 072 B = 79.5 GB for
# keys and values and 16.1 GB for the weights (all of them, the embedding too), and an H100 has 80. It holds 238.
#
# The products cross, attention stays at 4 whatever you do, and the step ends up between them. Only a context below $s^\ast$ = 393 tokens lets
# it over, and a short one at that: with 128 tokens it crosses at 454.
# </details>
#
# <details><summary>2. Half weights, half cache (find it first)</summary>
#
# At 7156. The weights are 15.009 GB. A token of context takes 16 × 131 072 B = 2.097 MB in all the caches together, so 15.009 GB are
# 7157 tokens: 7156 of context and the new one. (The residual stream, 17 MB, is not worth a place.) The step reads twice as much as one without
# context, and takes twice as long: 8.97 ms instead of 4.49. (You can type 0 into the field of the context.)
# </details>
#
# <details><summary>3. What FP8 changes (find it first)</summary>
#
# - **A KV cache in FP8** halves its half: 30.0 GB become 22.5, and 8.97 ms become 6.73. The FLOPs stay what they were, so attention moves from 4 to 8
#   FLOP/byte, still far from the ridge. $s^\ast$ rises from 393 to 797, a little more than twice. The products do not touch the cache: they
#   and $M^\ast$ stay. Twice as many sequences fit: 136 instead of 68.
# - **Weights in FP8** halve the bytes of the layers, and let an H100 multiply in FP8, at twice the rate: the ridge moves from 295 to 591.
#   $M^\ast = R \, w / 2$ has one factor doubled and the other halved, so it is 295 again. For few users the step gets faster (4.64 ms). The
#   number of users at which the ride ends is the same.
# - On an A100, which has no FP8 arithmetic, only the bytes halve. Try it: there $M^\ast$ does fall, from 153 to 77.
# </details>

# %% [markdown]
# **What you have now.** $2N$ FLOPs for a token, $4d$ for a pair in each head. Weights once, caches for each user. And one pair of formulas from
# which section 5 will predict a whole sweep, and section 6 a promise to a customer.

# %% [markdown]
# ## 3. A clock that does not lie
#
# *About 90 minutes.*
#
# From here on you compare what a kernel *could* take with what it *does* take, and so you need a clock. The obvious one is Python's: look
# at it, call the function, look again. On a GPU it is wrong, sometimes by a factor of a hundred, and it does not look wrong. It prints a
# small steady number, and the graph that is made of such numbers is smooth.
#
# This section takes the ways in which such a clock goes wrong one by one. Each is first shown on a **simulated device**, whose delays we
# chose ourselves, so that for once the right answer is known. Then you write a timer that falls for none of them.
#
# ### Two clocks
#
# The host does not run a kernel. It puts a launch into a queue, which takes some microseconds, and goes on with the next line of Python.
# The device works through the queue in order, at its own pace. The host meets the device again when something makes it wait:
# `synchronize()`, a copy back, a `print` of a tensor.
#
# The simulated device has the four things that matter, under the names that they have in `torch.cuda`:
#
# | | what it does | on CUDA |
# |---|---|---|
# | `gpu.Event(enable_timing=True)` | a mark for the queue; it notes the device's time when the device gets to it | `torch.cuda.Event(enable_timing=True)` |
# | `start.record()` | put the mark into the queue | the same |
# | `start.elapsed_time(end)` | **milliseconds** of the device between two marks that have happened; RuntimeError before that | the same |
# | `gpu.synchronize()`, `end.synchronize()`, `end.query()` | wait for all, wait for one mark, ask whether it has happened | `torch.cuda.synchronize()`, the same |
# | `gpu.flush_l2()` | put a kernel into the queue that overwrites the L2 cache | write a buffer larger than the L2 |
# | `gpu.perf_counter()` | the host's clock in seconds | `time.perf_counter()` |
#
# `launch()` puts the kernel into the queue that we want to time. Here it takes the host 6 µs to launch and the device 40 µs to run.
# **Predict**, for three launches: what does the host's clock show right after them, and what after a `synchronize()`?

# %%
from course_lib.display.launch_timeline_figure import launch_timeline_figure
from course_lib.workloads.simulated_gpu import simulated_gpu

gpu, launch, machine = simulated_gpu({"kernel_us": 40.0, "launch_us": 6.0, "return_us": 8.0})
start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
zero = gpu.perf_counter()
start.record()
for _ in range(3):
    launch()
end.record()
queued_us = (gpu.perf_counter() - zero) * 1e6
gpu.synchronize()
done_us = (gpu.perf_counter() - zero) * 1e6
marks_us = [row["start_us"] for row in machine.rows if row["what"] == "event"]

launch_timeline_figure({"Three launches (blue) of a kernel of 40 µs, between two events (green)": (machine.rows, [
    (f"host clock, no wait: {queued_us:.0f} µs", 0, queued_us),
    (f"host clock, with a wait: {done_us:.0f} µs", 0, done_us),
    (f"two events: {start.elapsed_time(end) * 1e3:.0f} µs", *marks_us),
])});

# %% [markdown]
# Three clocks, three answers, and only the device's row says what happened: 3 × 40 µs.
#
# - **Without a wait** the host's clock has seen 3 × 6 µs of launching and two events. It would have shown the same for kernels of a
#   second each.
# - **With a wait** it has seen everything: the first launch, three kernels, and the way back from `synchronize`. Around a kernel of 4 ms
#   these extra 15 µs are less than half a percent. Around one of 4 µs they are most of the answer.
# - **The events** are marks in the device's own queue. Between them lie the kernels, and 6 µs in which the device had nothing to do,
#   because the first launch was still on its way.
#
# Work that somebody queued *before* is no trouble for events either: the device reaches the first mark only when that work is done. The
# host's clock counts it, unless you wait before you start it.
#
# ### A kernel that is shorter than its launch
#
# Those 6 µs deserve a closer look. A GPU adds a few thousand numbers in less time than PyTorch needs to launch the addition. **Predict**
# what two events show, one on each side of a kernel of 4 µs whose launch takes 8 µs. (The upper picture is that. What is different in the
# lower one?)

# %%
panels = {}
for title, busy in (("The device has nothing to do", False), ("The device is still busy with a flush", True)):
    gpu, launch, machine = simulated_gpu({"kernel_us": 4.0, "launch_us": 8.0, "flush_us": 30.0})
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    if busy:
        gpu.flush_l2()
    start.record()
    launch()
    end.record()
    gpu.synchronize()
    marks_us = [row["start_us"] for row in machine.rows if row["what"] == "event"]
    panels[title] = machine.rows, [(f"two events: {start.elapsed_time(end) * 1e3:.1f} µs", *marks_us)]

launch_timeline_figure(panels);

# %% [markdown]
# Above, the device passes the first mark at once, and then waits for the host: the events have timed a *launch*. Below, the device has
# other work while the host queues mark, kernel and mark. When it gets there, all three lie ready, and between the marks is the kernel and
# nothing else. (The half microsecond too much is the event's own time, and its resolution: CUDA's documentation gives about 0.5 µs.)
#
# So: **keep the host ahead of the device.** Whatever makes the host wait between the busy work and the last mark throws that away. When
# many short kernels follow each other and the host can never be ahead, a CUDA graph hands them over all at once; that is section 9.
#
# ### The first launches
#
# The first launch of a kernel may compile it, load its code, or choose among variants: milliseconds to seconds, on the host, while the
# device waits. And a chip that had nothing to do runs at a low clock to save power; the clock rises with the load. So the first launches
# are no sample of the later ones. Launch a few times, and begin to measure after that. Your function is told to use three; real tools use
# more, or a fixed time.
#
# ### What lies in the cache
#
# The second launch of a kernel finds its data where the first one left them: in the L2 cache, if they fit. An H200 has tens of megabytes
# of it, and a layer's activations of 16 MB fit well. In a model, other layers run in between, and their weights push everything out. A
# timer that launches the same kernel on the same data in a loop measures a case that never occurs. The remedy is to overwrite the cache
# before *every* measured launch, **outside the marks**. Four times 60 MB (what an H200 reports), written at 4 TB/s, take 60 µs, and that is just the busy work
# that a short kernel needs before its first mark.
#
# **Predict** the six times in the second column below: launches of one kernel, one after another. It takes 100 µs when its data lie in
# the L2, 1.6 times as long when they do not; it is compiled at first, in 200 ms, and at the first three launches the clock is so low that
# they take 2.0, 1.6 and 1.3 times as long. Which of the six would you want to keep?

# %% tags=["nbval-check-output"]
gpu, launch, machine = simulated_gpu(
    {"kernel_us": 100.0, "cold_factor": 1.6, "compile_us": 200_000.0, "ramp": [2.0, 1.6, 1.3], "jitter": 0.0}
)
print("launch   on the device   between two events")
for number in range(1, 7):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    if number == 6:
        gpu.flush_l2()
    start.record()
    launch()
    end.record()
    gpu.synchronize()
    device_us = machine.launches[-1]["end_us"] - machine.launches[-1]["start_us"]
    word = "   after a flush" if number == 6 else ""
    print(f"{number:>6}{device_us:>13.0f} µs{start.elapsed_time(end) * 1e3:>18.0f} µs{word}")

# %% [markdown]
# Only the sixth is what we asked for, full clock and cold data: 160 µs. The first is cold at a low clock (2 × 160), and its events hold
# the compilation as well. The second and the third are warm at a rising clock. Four and five agree with each other to the microsecond,
# and are wrong together: 105 µs, with the data in the L2 and the 5 µs of a launch between the marks. Numbers that agree are no proof of
# anything but themselves.
#
# ### Clocks, power, and what the numbers are
#
# Multiply two matrices that are all zero, and on an H200 the same product runs faster than with random values: the transistors switch
# less, the chip draws less power, and so its clock may stay higher. Kernel, shape and FLOPs are the same. Time with data like those you
# will have; `torch.randn` is a fair start, `torch.zeros` and `torch.ones` are not. And when you compare two kernels, remember that the
# clock of the chip is one of the things that the first one leaves behind for the second.
#
# ### One number out of many
#
# Measure twenty times and you get twenty numbers. Most lie close together. A few lie far above: another process was given the device, the
# host's thread was set aside between a mark and a launch. None lies far below, for nothing makes a kernel faster than it is, save a clock
# that is higher for a moment. The mean follows the odd ones. The fastest shows a lucky moment. The **median** stays with the many, as
# long as the odd ones are fewer than half.
#
# How sure is a median? There is an answer that needs no assumption about the distribution. Each measurement lies below the true median
# with probability ½, like a coin. Of $n$ coins, the number $k$ of heads is binomial, so the true median lies between the $j$-th smallest
# measurement and the $j$-th largest with probability
#
# $$ 1 - 2 \sum_{k=0}^{j-1} \binom{n}{k} 2^{-n}. $$
#
# **Before you run it**: with five measurements, how likely does the true median lie between the smallest and the largest? (What would
# have to happen for it not to?)

# %% tags=["nbval-check-output"]
from math import comb


def inside(n: int, j: int) -> float:
    """Probability that the true median lies between the j-th smallest and the j-th largest of n measurements."""
    return 1 - 2 * sum(comb(n, k) for k in range(j)) / 2**n


print("measurements   at least 95% sure: the true median lies, in order of size, between")
for n in (5, 6, 20, 100):
    fits = [j for j in range(1, n // 2 + 1) if inside(n, j) >= 0.95]
    if fits:
        j = fits[-1]
        print(f"{n:>12}   number {j} and number {n - j + 1} ({inside(n, j):.1%}), the {n - 2 * j + 2} in the middle")
    else:
        print(f"{n:>12}   not possible: number 1 and number {n} make {inside(n, 1):.1%}")

# %% [markdown]
# Five numbers must all fall on one side, which happens with 2 · (½)⁵ = 6.25%. Five are too few for 95%, six are enough. With twenty, ten
# in the middle will do; with a hundred, twenty-two. The number of values in between grows like $\sqrt n$, so the *width* of the interval
# falls like $1/\sqrt n$: half the width costs four times the measurements. And no number of measurements takes away what is wrong with
# all of them.
#
# ### Two kernels: the ratio, in one run
#
# "Mine takes 41 µs, theirs took 45 last week" compares two kernels, two temperatures, perhaps two drivers. Measure both in one run, in
# turns, and form the ratio of neighbours. Suppose yours takes 1.00 and theirs 1.05, and the chip slows down by 1% from each measurement
# to the next:
#
# | | measurements | says |
# |---|---|---|
# | first all of mine, then all of theirs | 1.00 1.01 1.02 1.03, then 1.05 × (1.04 1.05 1.06 1.07) | theirs takes 1.09 times as long |
# | in turns, order changing: m t, t m, m t, t m | pairs (1.00, 1.05 × 1.01), (1.03, 1.05 × 1.02), (1.04, 1.05 × 1.05), (1.07, 1.05 × 1.06) | 1.06 1.04 1.06 1.04, median **1.05** |
#
# All speeds in this course are such ratios, with their spread, or carry the name of the device.
#
# ### Exercise 1.3: an honest GPU timer (about 12 lines, 10 points, 2 of them on a GPU)
#
# Write `time_kernel`, which returns the **median time of one launch in seconds**, at full clock and with a cold L2.
#
# **Before you code**, with a pencil: write the few lines of *one* measurement in order, and draw the two rows of the pictures above for
# them. Where does the flush lie? What lies between the marks? Does the host wait anywhere before the second mark?
#
# | | type | meaning |
# |---|---|---|
# | `gpu` | object | the names in the table above. The simulated device and the real one offer the same |
# | `launch` | function without arguments | puts the kernel into the queue, returns None |
# | `repeats` | int, at least 1 | number of measurements; each is of one launch |
# | result | float | the median in **seconds** |
#
# - Launch three times before you measure. The first launch compiles, the next two find a low clock.
# - Each of the `repeats` measured launches finds a cold L2: one flush before each. The flush is no part of its time.
# - Work that others queued before you is no part of it either.
# - Launches in all: at least `repeats`, at most `repeats` + 10. The device has other users.
# - A kernel can be shorter than its launch; a flush takes longer than the host needs to queue a mark, a launch and a mark.
# - Up to 2 of 10 launches are preempted and take many times as long; up to 2 of 10 run a little faster. In one case the host's own thread
#   is set aside now and then.
# - For an even number of measurements, any value from the lower to the upper of the two in the middle is fine.
# - The time must come from events or from `gpu.perf_counter()`. `time.perf_counter()` and `torch.cuda` know nothing of a simulated device.
# - You may import `math`, `statistics` and `torch`, and use `gpu` and `launch` as they are.
#
# A result counts as right within 3% plus 2 µs of the truth. The 2 µs are for the events: two times with a resolution of half a
# microsecond, and the event's own 0.3 µs, doubled. The 3% are for the kernel, each launch of which varies by 0.3%, and for the host's
# clock: around the kernels of 2 to 8 ms that most cases have, even a host clock with waits on both sides is within 1.5%. Only around the
# short one it is not.
#
# On the simulated device, the check runs what you *did* (launches, marks, waits, in their order) once more outside, with the delays that
# it chose.
#
# <details><summary>Hint: where to begin</summary>
#
# Three launches. Then a loop that queues flush, mark, launch, mark, and keeps the two marks. Read them when all has happened.
# </details>
#
# <details><summary>Hint: "device not ready"</summary>
#
# You asked for the time between two marks that the device has not reached. Where is the first moment at which you have to wait, and how
# often do you have to?
# </details>
#
# <details><summary>Hint: everything is right but the short kernel</summary>
#
# Look at the lower picture. After the flush is queued, the host has as long as the flush runs. Does something in your loop wait until the
# flush is done?
# </details>

# %% grade_id="ex-1-3"
def time_kernel(gpu, launch, repeats: int) -> float:
    """Median seconds of one launch: warmed up, cold L2, the host ahead of the device."""
    ### BEGIN SOLUTION
    from statistics import median

    for _ in range(3):
        launch()
    marks = [(gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in marks:
        gpu.flush_l2()  # cold data, and time for the host to queue the next three before the device gets there
        start.record()
        launch()
        end.record()
    gpu.synchronize()
    return median(start.elapsed_time(end) for start, end in marks) / 1e3
    ### END SOLUTION

# %% grade_id="ex-1-3-check"
lab.check("1.3", time_kernel)

# %% [markdown]
# **On this device.** The next cell hands your function the real thing: `gpu` with the names of `torch.cuda`, a copy of a gigabyte, a
# matrix product, and an addition that is shorter than its launch. The course's own timer measures the same kernels in turns with yours.
# The two have to agree within 10%, or 2 µs for the short one. How fast the device is earns nothing.

# %% grade_id="ex-1-3-timed"
lab.check_timed("1.3", time_kernel)

# %% [markdown]
# ### What it looks like on a real device
#
# **Predict** before you run it, for a product of about a millisecond and a half, a copy of 16 MiB and an addition of 4096 numbers: which
# of the wrong clocks are wrong by more than ten times? Which by less than a third, and therefore the most likely to get into a report?
#
# On a GPU the cell measures; elsewhere it shows what an H200 recorded.

# %%
from course_lib.display.clocks_figure import clocks_figure, samples_figure
from course_lib.recorded import recorded

if torch.cuda.is_available():
    from course_lib.timing.wrong_clocks import as_rows, measure_clocks

    clock_rows, measured_on = as_rows(measure_clocks()), f"measured now, {torch.cuda.get_device_name()}"
else:
    result = recorded("honest_timer")
    clock_rows, measured_on = result["rows"], f"recorded, {result['device']}, {result['date'][:10]}"

clocks_figure(clock_rows, measured_on);

# %% [markdown]
# The clocks that are wrong by fifty or a hundred are caught by anyone who knows a roof: 2 · 8192³ FLOPs in 20 µs would be 55 000 TFLOP/s.
# It is the quiet ones that get published: warm data, zeros, a launch that is counted with a short kernel. ("The first call" is only dear in a
# process that has not multiplied before: if your notebook has, its price was paid then.)
#
# The product once more, one dot for each measurement, random values and zeros in turns of thirty:

# %%
product_rows = {row["clock"]: row for row in clock_rows if row["kernel"].startswith("product")}
samples_figure({
    "random values": next(row for row in product_rows.values() if row["ratio"] == 1)["samples_us"],
    "all values zero": product_rows["all values zero"]["samples_us"],
}, measured_on);

# %% [markdown]
# <details><summary>What to look for (run it first)</summary>
#
# - Is the distance between the two medians larger than the scatter of the dots? Then the zeros would have "won" a comparison that they
#   should not even be in.
# - Do the dots of one colour drift or go in steps from the left to the right? That is the chip's clock under load, which moves between
#   levels, and the reason for turns.
# - Is there a dot far above the others? Compare mean and median in the legend.
# </details>
#
# ### What the roadmap says
#
# Five of the roadmap's statements are about clocks and comparisons. Judge each before you unfold its answer. For the third you need three
# rows of its table: 0.42 s without continuous batching, 0.31 s with it, and 0.19 s with continuous batching, FP8, paging and speculation.

# %%
lab.predict("C041", "C042", "C067", "C242", "C261")

# %% [markdown]
# The first is a lesson of its own. 8.5 × 10¹² FLOPs in 8.3 ms are 1024 TFLOP/s, and the H100's sheet ends at 989.4. **A time that is
# faster than the roof is no record; it is a broken clock**, or a number that nobody measured. That is why every timed check of this
# course looks at the share of the roof first, and blocks what lies above 1.05.
#
# The third is about ratios. Between its two rows more than one thing changes, and a ratio belongs to all that changed.
#
# NVTX, events and profilers differ in what they are clocks *of*. An NVTX range is a label that the host opens and closes; around launches
# without a wait it shows the 20 µs of the first picture. Events give the device's time *between* two marks, and no time of day. And why a
# kernel takes as long as it does, no clock says: for stalls there is Nsight Compute, for the order of things Nsight Systems. nvprof,
# their predecessor, refuses GPUs of compute capability 8.0 and above, the A100 and all that came later.

# %% [markdown]
# ## 4. Roofs of your own
#
# *About two hours.*
#
# So far the roofs came from a data sheet. From here on you measure them, because nobody reaches the sheet's: a copy that moves 4200 GB/s on an H200
# is not 12% bad, it is as good as copies get there. Whoever compares with the sheet looks for time that is not there to be found.
#
# Two kernels are enough. One that does nothing but move bytes measures the slope, and one that does almost nothing but arithmetic measures the flat part.
# The second is a large matrix product, which cuBLAS has. The first, a **copy**, you write yourself. It is the smallest kernel that is good for something, and
# your first one in Triton.
#
# Triton publishes packages for Linux only (WSL2 is one). On macOS and native Windows, read this section and go on with the next.
#
# ### What a Triton program is
#
# A GPU runs the same piece of code many times at once. In Triton such a piece is called a **program**, and it works on a *block* of elements. You write one
# function, the kernel, and launch it on a **grid**, which says how many programs there are. Each learns from `tl.program_id(0)` which one it is: 0, 1, 2 and so on.
# Everything else follows from that number.
#
# Say 10 elements, in blocks of 4. That takes 3 programs, and the last one has too many lanes:
#
# | program | `pid * 4 + tl.arange(0, 4)` | `index < 10` |
# |---|---|---|
# | 0 | 0, 1, 2, 3 | yes, yes, yes, yes |
# | 1 | 4, 5, 6, 7 | yes, yes, yes, yes |
# | 2 | 8, 9, 10, 11 | yes, yes, **no**, **no** |
#
# A block's size is fixed when the kernel is compiled, and `tl.arange` wants a power of two, so there are nearly always lanes without an element. A **mask**
# says which lanes are real. A masked-off lane loads nothing and stores nothing.
#
# Here is a kernel that negates a vector:

# %%
import triton
import triton.language as tl


@triton.jit
def negate_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    index = pid * BLOCK + tl.arange(0, BLOCK)
    live = index < n
    x = tl.load(x_ptr + index, mask=live)
    tl.store(out_ptr + index, -x, mask=live)

# %% [markdown]
# Line by line:
#
# - `@triton.jit` hands the function to Triton's compiler. It is no ordinary Python any more: what is inside becomes one instruction stream for a block.
# - `x_ptr` is the *address* of the first element. You launch with a tensor, and the kernel gets a pointer. It knows nothing of shapes and strides.
# - `x_ptr + index` is a block of `BLOCK` addresses. One step is one *element*, whatever its size: the type of the pointer is known.
# - `BLOCK: tl.constexpr` is a constant of the compilation. Another value is another compiled kernel. `n` is an ordinary argument.
# - Nothing is returned. A kernel's result is what it stores.
#
# The launch is `negate_kernel[grid](arguments)`. The grid is a tuple; `triton.cdiv(10, 4)` is 10 / 4 rounded up, 3.

# %% tags=["nbval-check-output"]
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.arange(1.0, 11.0, dtype=torch.float64, device=device)
out = torch.full_like(x, 99.0)
negate_kernel[(triton.cdiv(10, 4),)](x, out, 10, BLOCK=4)
print(out.tolist())

# %% [markdown]
# `lab.trace` runs a launch on a copy of its arguments, on the CPU, and shows what it did with memory. Look for two things in it: how many bytes are loaded and
# stored, and which program touched which element.

# %%
lab.trace(negate_kernel, x, out, 10, grid=(3,), BLOCK=4, targets=("sm_90",))

# %% [markdown]
# 10 elements of 8 bytes were loaded and as many stored, not 12: the masked lanes asked for nothing. **Predict** what the same page says of a kernel without
# masks. What would a GPU say?

# %%
@triton.jit
def unmasked_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, -tl.load(x_ptr + index))


lab.trace(unmasked_kernel, x, out, grid=(3,), BLOCK=4, targets=("sm_90",))

# %% [markdown]
# A GPU would most likely say nothing. It reads two elements of whatever lies behind `x`, and overwrites 16 bytes of whatever lies behind `out`: perhaps another
# tensor of yours. Such a mistake shows up much later, and somewhere else. The course's interpreter knows the tensors of a launch and stops.
#
# ### From lanes to threads
#
# A GPU has many cores, called **SMs** (streaming multiprocessors); an H100 or H200 has 132. A program runs on one of them, carried out by several **warps** of 32 threads each, 4 warps if you do not say otherwise (`num_warps`). The compiler deals the block out: with
# `BLOCK` = 1024, each of the 128 threads gets 8 elements. If these are neighbours in memory, one instruction can fetch them together, up to 16 bytes for a thread (32 from Blackwell on).
#
# Why that matters is a matter of counting. A byte that is asked for takes its time to arrive, say 0.6 µs under load (our assumption for this sum). To keep
# 4800 GB/s coming, as many bytes must be under way as arrive in that time. This is **Little's law**:
#
# $$ \text{bytes in flight} = \text{bandwidth} \times \text{latency} = 4.8 \times 10^{12} \cdot 0.6 \times 10^{-6} = 2.9\ \text{MB}. $$
#
# Shared out over 132 SMs that is 21.8 kB each. An SM holds at most 2048 threads, so each thread must have about 11 bytes under way, *all the time*. A thread
# that asks for one bf16, 2 bytes, and waits for it, reaches a fifth of the bandwidth. One that asks for 16 bytes at a time is on the safe side.
#
# ### Exercise 1.4: a copy kernel (about 12 lines, 11 points, 3 of them on a GPU)
#
# Write a kernel and the function `copy(x, out)` that launches it and returns `out`. The name and the arguments of the kernel are up to you.
#
# **Before you code**, with a pencil:
#
# 1. `x` has 2500 elements of bf16, and the block is 1024. How many programs are there, and how many lanes of the last one are masked off?
# 2. How many bytes does the copy load, how many does it store, and which of the two goes into its "GB/s"?
# 3. With 4 warps, how large must the block be for a thread to get 16 bytes of bf16 at a time? Of int8?
#
# | | shape | dtype | |
# |---|---|---|---|
# | `x` | any, contiguous, also with no element at all | any: bf16, fp16, fp32, int8, int32, ... | is left as it is |
# | `out` | that of `x`, contiguous | that of `x` | may lie anywhere in a longer buffer, whose other elements must stay as they are |
# | result | | | `out` itself, not a new tensor |
#
# What is judged:
#
# - **Values, neighbours.** Lengths around 1024 and 2048, matrices, no element; inf and NaN. On both sides of `out` lies memory that belongs to others.
# - **Refusals.** A kernel sees a pointer and a length. It cannot notice that a tensor has gaps (`x[::2]`, `x.T`), another shape or another dtype, so the function
#   must: raise a **ValueError** that says what came and what to do. Do not call `.contiguous()` on the sly. It is a second copy that nobody asked for and
#   that doubles the bytes, and on `out` it would write to a tensor that is thrown away.
# - **Traffic.** Each byte is loaded once and stored once. These counts come from the launches themselves, which are run again apart from your cell, and your answer has
#   to follow from them. Torch may allocate, make views and fill with one value, nothing else.
# - **Compiled.** For an A100 and an H100 (`sm_80`, `sm_90`): it compiles, no register spills to memory (is written there because a thread has no more of them), and a load and a store of 16 bytes for each thread are
#   among its instructions, for 4096 elements of bf16. No GPU is needed for that.
# - **Timed** (in a cell of its own, on a GPU). 1 GiB, in turns with `out.copy_(x)`: your copy must reach 0.88 of torch's speed; between 0.5 and 0.88 there are part
#   points. The bar was set on an H200; on another device the ratio is shown, and the points wait. And a tensor of a little more than 2³¹ elements must come out right, where there are about 10 GB free.
#
# <details><summary>Hint: the kernel</summary>
#
# `negate_kernel` without the minus is most of it.
# </details>
#
# <details><summary>Hint: more than 2³¹ elements</summary>
#
# `tl.program_id(0)` is an int32. 2 097 152 · 1024 = 2³¹, and the largest int32 is 2³¹ − 1: what is the product then? `.to(tl.int64)` helps, if it comes *before* the
# multiplication.
# </details>
#
# <details><summary>Hint: the launch</summary>
#
# `x.numel()` counts the elements of any shape, and contiguous elements lie one behind the other. A tensor goes into a launch as it is, a matrix too.
# </details>

# %% grade_id="ex-1-4"
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """One program copies BLOCK elements; the last one masks off what lies beyond n."""
    ### BEGIN SOLUTION
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # int64: 2**31 elements and more
    live = index < n
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=live), mask=live)
    ### END SOLUTION


def copy(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Copy x into out, both contiguous and of one shape and dtype -> out. Raises ValueError for any other pair."""
    ### BEGIN SOLUTION
    if x.shape != out.shape or x.dtype != out.dtype:
        raise ValueError(
            f"x is {x.dtype} {list(x.shape)} and out {out.dtype} {list(out.shape)}; make out with torch.empty_like(x)"
        )
    if not (x.is_contiguous() and out.is_contiguous()):
        raise ValueError(f"x has strides {x.stride()} and out {out.stride()}; pass contiguous tensors")
    block = 2048  # 16 elements for each of 128 threads: 16 bytes of int8, twice 16 of bf16
    copy_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out
    ### END SOLUTION

# %% grade_id="ex-1-4-check"
lab.check("1.4", copy)

# %% grade_id="ex-1-4-timed"
lab.check_timed("1.4", copy)

# %% [markdown]
# <details><summary>The three questions for a pencil</summary>
#
# 3 programs with 3072 lanes, 572 of them masked off. 5000 B loaded and 5000 B stored, and both go into its GB/s. A thread needs 8 elements of bf16, so 1024 for 128 threads; 16 of
# int8, so 2048.
# </details>
#
# One criterion cannot be judged without a GPU, and it is the one that bites in production: offsets beyond 2³¹. An int32 that passes its largest number goes on at
# the smallest one, and the kernel works on memory 2 GB *before* the tensor:

# %% tags=["nbval-check-output"]
pid, block = torch.tensor([0, 2_097_151, 2_097_152], dtype=torch.int32), 1024
print("int32:", (pid * block).tolist())
print("int64:", (pid.long() * block).tolist())

# %% [markdown]
# Attention over a long cache gets there soon: a KV cache of 32 layers × 8192 blocks × 16 tokens × 8 heads × 128 values has 4.3 × 10⁹ elements. In Phase 2 every
# offset into it starts with an int64.
#
# ### Bytes read plus bytes written
#
# How fast is a copy of 1 GiB that takes 0.5 ms? It depends on what is counted. The memory was busy with 1 GiB of loads *and* 1 GiB of stores, so as a roof it counts
# both: 2 · 2³⁰ B / 0.5 ms = 4295 GB/s. A tool that counts only what was copied prints 2147, and looks twice as bad. **When you compare two bandwidths, ask first what
# each of them counted.** In this course it is always bytes read plus bytes written.
#
# The counts of your own copy, and how often it moves what it has to:

# %% tags=["nbval-check-output"]
from course_lib.exercises.phase1.copy_traffic import copy_traffic

try:
    x = torch.ones(2500, dtype=torch.bfloat16, device=device)
    traffic = copy_traffic(copy, x, torch.empty_like(x))
    moved = f"{traffic.loaded_bytes} B loaded, {traffic.stored_bytes} B stored"
    print(f"{moved}: {traffic.times_the_least:.2f} times the least")
except NotImplementedError as still_open:
    print(f"The counts are those of your copy. {still_open}")

# %% [markdown]
# ### Bandwidth against size
#
# 4 KiB at 4800 GB/s would take less than a nanosecond. No kernel is that short. To start one, to send its first request to the memory and to wait for the answer takes
# a microsecond or more, however little it reads. A first model adds the two:
#
# $$ t = t_0 + \frac{B}{W}. $$
#
# Half of the bandwidth is reached where the two terms are equal, at $B = t_0 W$. With, for the sake of the sum, $t_0$ = 2 µs and $W$ = 4400 GB/s, that is 8.8 MB. It is
# Little's law once more, with the kernel's whole start as the latency.
#
# **Before you run the cell**: the attention output of Llama-3-8B is a 4096 × 4096 weight in bf16. Does a decode step read it on the plateau, or on the slope in front of it?
#
# The curve is that of reads in a CUDA graph, so that no launch waits for the host, and from memory, not from L2. On a GPU it is measured (under a minute, and kept for the next
# time), elsewhere it is that of an H200.

# %%
from course_lib.display.bandwidth_curve_figure import bandwidth_curve_figure
from course_lib.hardware import find_spec, measured_roofs, roofs_from_recorded, spec
from course_lib.recorded import recorded

live_roofs = measured_roofs()
roofs = live_roofs or roofs_from_recorded(recorded("roofs"))
sheet = find_spec(roofs.device)  # None for a device that gpus.toml does not know
where = f"{roofs.device}, {'measured here' if live_roofs else 'recorded'}, {roofs.date[:10]}"

bandwidth_curve_figure(
    where, {"cold read in a CUDA graph": roofs.read_curve}, spread=roofs.read_spread,
    l2_bytes=sheet and sheet.l2_mb * 2**20, sheet_gb_per_s=sheet and sheet.hbm_gb_per_s,
);

# %% [markdown]
# Three regions:
#
# - **Left**, the time hardly depends on the size: a kernel that reads half as much is not faster. Only *fewer* kernels help, or a cheaper start; section 9 is about that.
# - **In the middle** lie the kernels of a decode step. The 4096 × 4096 weight is 33.6 MB, still short of the plateau, and the two smaller ones for K and V, 8.4 MB each, lie
#   far below it. This is why section 5 predicts a step from this curve, and not from one number.
# - **Right**, the plateau: memory at its best, and still below the sheet. Memory refreshes itself and opens a new row for a new address, and in that time nothing is
#   moved. A copy reaches less than a read, because the memory also has to turn round between reading and writing.
#
# The dashed line of the simple model is too kind in the middle. It lets the memory run at its full rate from the first byte on, where a real kernel has a queue that fills and drains.
#
# Where is the L2? These reads are cold, so its size is marked (the H100's 50 MB; an H200 itself reports 60) and leaves no step. If the same 33.6 MB were read again and again, they would come from L2, and the
# curve would show a bandwidth that the memory does not have. That is the trap that the flush in section 3 is for.
#
# ### The other roof: a matrix product
#
# A product of two 8192 × 8192 matrices does $2 \cdot 8192^3 = 1.1 \times 10^{12}$ FLOPs on $3 \cdot 2 \cdot 8192^2$ B = 403 MB, 2731 FLOP per byte. That is far to the right of every ridge.
# The recorded one of an H200:

# %% tags=["nbval-check-output"]
for row in recorded("ridge")["rows"][:2]:
    low, high = row["spread"]
    rate = f"{row['ours']:.0f} {row['unit']}"
    print(f"{row['case']:<22}{rate:<14}({low:.0f} to {high:.0f}), {row['ratio']:.2f} of the data sheet")

measured_tflops = recorded("ridge")["rows"][0]["ours"]
flops_per_clock = 132 * 4096
print(f"\nIn a clock, 132 SMs do {flops_per_clock:,} FLOPs.")
for tflops in (989.4, measured_tflops):
    print(f"{tflops:.0f} TFLOP/s are the work of {tflops * 1e12 / flops_per_clock / 1e9:.2f} GHz without a pause.")

# %% [markdown]
# An SM of an H100 or H200 does 4096 FLOPs of dense bf16 in each clock (the whitepaper's 4 tensor cores × 512 multiply-adds × 2). The sheet's peak is that, times 132 SMs, times a
# clock, with no clock lost. A real product has a beginning and an end, and a last wave that the tiles do not fill (a wave is as many as the SMs work on at once). Above all it has a **power limit**, 700 W. When all tensor
# cores work, the chip lowers its clock until it keeps to that.
#
# Power depends on the *data*. Random numbers flip many bits, zeros flip none. A product of zeros draws less power, keeps a higher clock and finishes sooner, so it measures
# a roof that no model will ever meet. Always measure with random data, and mention it.
#
# ### Your own roofline
#
# Now put both roofs into one picture. On a GPU the next cell measures everything with your own functions where you have them: your `time_kernel` from section 3, your `copy`. Where one is still
# open, the course's takes its place. Elsewhere the picture is made of the recorded roofs of an H200. The dots are one layer's product, 4096 × 4096, with 1 to 4096 tokens.

# %%
from statistics import median

from course_lib.display.measured_roofline_figure import measured_roofline_figure
from course_lib.exercises.runners.phase1_timer import real_gpu
from course_lib.timing import time_calls
from course_lib.workloads.layer_products import measure_layer_products


def own_seconds(call, repeats=20):
    """Seconds of five measurements with your timer; with the course's while yours is open."""
    try:
        return [time_kernel(real_gpu(), call, repeats) for _ in range(5)]
    except (NameError, NotImplementedError):
        return list(time_calls(call, repeats=repeats).seconds)


def spread_of(roof):
    return roof.low, roof.median, roof.high


def own_roofs(dtype):
    """GB/s of a copy, and TFLOP/s of a product in this dtype, each as (lowest, median, highest), measured now."""
    x = torch.randint(2**31 - 1, (2**28,), dtype=torch.int32, device="cuda")
    out = torch.empty_like(x)
    try:
        copy(x, out)
        mover = copy
    except NotImplementedError:
        def mover(x, out):
            out.copy_(x)
    rates = sorted(2 * x.numel() * 4 / seconds / 1e9 for seconds in own_seconds(lambda: mover(x, out)))
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
    c = torch.empty_like(a)
    products = sorted(2 * 8192**3 / seconds / 1e12 for seconds in own_seconds(lambda: torch.matmul(a, b, out=c)))
    return (rates[0], median(rates), rates[-1]), (products[0], median(products), products[-1])


half = sheet.half_precision if sheet else "bf16"  # a T4 has no bf16
if torch.cuda.is_available():
    copied, multiplied = own_roofs({"bf16": torch.bfloat16, "fp16": torch.float16}[half])
    points = {f"{p.tokens} tok.": (p.flops_per_byte, p.tflops) for p in measure_layer_products()}
else:
    copied, multiplied = spread_of(roofs.copy_gb_per_s), spread_of(roofs.bf16_tflops)
    rows = recorded("layer_products")["rows"]
    points = {f"{row['tokens']} tok.": (row["flops_per_byte"], row["tflops"]) for row in rows}

measured_roofline_figure(
    where, {"copy": copied}, {half: multiplied}, points=points,
    sheet_gb_per_s=sheet and sheet.hbm_gb_per_s, sheet_tflops=sheet and {half: sheet.half_tflops},
);

# %% [markdown]
# <details><summary>What to look for (run it first)</summary>
#
# - **Dashed against solid.** Both roofs are lower than the sheet's, but not by the same factor, so the measured ridge is not the sheet's ridge.
# - **The dots of 1, 8 and 64 tokens** climb along the slope: the same time, eight times the work. They lie below it by what the curve above says of 33.6 MB.
# - **256 tokens** lie near the ridge. A kernel there is limited by both and reaches neither roof; the maximum of two terms is a bound and no prediction.
# - **The shaded bands** are narrow. When two results of yours differ by less than such a band, they are equal.
# </details>
#
# ### Half the bits
#
# In FP8 a value has half the bits, and the sheet doubles the peak. **Predict**: does the measured roof double as well? And what becomes of the ridge, if the memory stays as it is?

# %%
print(f"{where}; TFLOP/s, and ridges in FLOP per byte")
print(f"{'':<8}{'sheet':>10}{'measured':>10}{'':>20}{'share':>8}{'ridge':>8}")
for precision in ("bf16", "fp16", "fp8"):
    roof = getattr(roofs, f"{precision}_tflops")
    peak = sheet and sheet.peak_tflops(precision)
    if roof is None or peak is None:
        print(f"{precision:<8}   not measured here, or not on a sheet that the course has")
        continue
    spread = f"({roof.low:.0f} to {roof.high:.0f})"
    share, ridge = roof.median / peak, roofs.ridge_flops_per_byte(precision)
    print(f"{precision:<8}{peak:>10.1f}{roof.median:>10.0f}{spread:>20}{share:>8.2f}{ridge:>8.0f}")

# %% [markdown]
# FP8 moves the ridge to the right, away from decoding. What it buys a decode step is not arithmetic but bytes: a weight of one byte is read in half the time.
#
# ### Three columns
#
# The roadmap has a table of hardware. Here it stands beside the data sheet and beside what was measured. **Predict** which rows are right, then judge the statements one by one.

# %%
lab.predict("C029", "C030", "C031", "C032", "C033", "C034", "C035")

# %%
h100, pcie = spec("h100-sxm"), spec("h100-pcie")


def measured(roof, unit):
    return "-" if roof is None else f"{roof.median:,.0f} {unit}"


table = [
    ("architecture of the H100", "SM80", f"SM{h100.capability.replace('.', '')}", ""),
    ("FP16 peak, dense", "1000 TFLOP/s", f"{h100.fp16_tflops} (SXM), {pcie.fp16_tflops:.0f} (PCIe)",
     measured(roofs.fp16_tflops, "TFLOP/s")),
    ("FP8 peak, dense", "2000 TFLOP/s", f"{h100.fp8_tflops} (SXM)", measured(roofs.fp8_tflops, "TFLOP/s")),
    ("memory, PCIe card", "3 TB/s HBM3", f"{pcie.hbm_gb_per_s / 1e3:.2f} TB/s HBM2e", ""),
    ("memory, with NVLink", "6 TB/s", f"{h100.hbm_gb_per_s / 1e3:.2f} TB/s (H100), 4.80 (H200)",
     measured(roofs.copy_gb_per_s, "GB/s copied")),
    ("L2", "2 MiB for each SM", f"{h100.l2_mb} MB for the chip, {h100.l2_mb / h100.sms:.2f} an SM", ""),
    ("shared memory of an SM", "64 KiB", f"{h100.smem_per_sm_kb} KB, {h100.smem_per_block_kb} for a block", ""),
]
print(f"{'':<26}{'roadmap':<20}{'data sheet':<40}measured ({roofs.device})")
for name, roadmap, printed, here in table:
    print(f"{name:<26}{roadmap:<20}{printed:<40}{here}")

# %% [markdown]
# The two peaks are right, to a percent. The memory is not: NVLink joins GPUs, it makes no GPU's own memory faster. And 64 KiB of shared memory would rule out most of the tiles that
# Phase 2 uses.
#
# The axes of the roadmap's own roofline are worth a look, too:

# %%
lab.predict("C049")

# %% [markdown]
# The rooflines of this course are held to their axes by a helper: FLOP per byte across, FLOP/s upwards, both logarithmic. The slope then has a meaning that one can check. TFLOP/s over
# FLOP per byte is TB/s.
#
# ### A chip that you do not have
#
# Roofs are measured, but a purchase is decided earlier, from sheets. What would a decode step of Llama-3-8B take, 32 users with 2048 tokens each, on an A100, and on a B200?
#
# For the B200 even the bandwidth is in doubt: NVIDIA's sheet said 8 TB/s, later editions say 7.7 (pytorch/pytorch, pull request 193471). Drivers report a bus of 7680 bits at 3996 MHz (as quoted in pytorch/ao, pull request 4002), and memory of this kind moves two bits
# in a clock and line:
#
# $$ \frac{7680}{8}\ \text{B} \times 3996 \times 10^6\ \text{Hz} \times 2 = 7.67\ \text{TB/s}. $$
#
# **Before you run it**: by how many percent does the step's floor change with the lower bandwidth? And the ridge?

# %% tags=["nbval-check-output"]
from course_lib.roofline import LLAMA_3_8B, decode_step

step = decode_step(LLAMA_3_8B, batch=32, context=2048)
driver_gb_per_s = 7680 / 8 * 3996e6 * 2 / 1e9
bandwidths = [(key, spec(key).hbm_gb_per_s, "sheet") for key in ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm")]
print(f"{step.bytes_moved / 1e9:.2f} GB and {step.flops / 1e12:.3f} TFLOP a step: {step.flops_per_byte:.1f} FLOP per byte")
print()
print(f"{'':<15}{'bandwidth':>20}{'ridge, bf16':>13}{'floor':>10}{'tokens/s':>10}{'against H100':>14}")
for key, rate, source in [*bandwidths, ("b200-sxm", driver_gb_per_s, "driver")]:
    gpu = spec(key)
    seconds = step.floor_seconds(gpu.bf16_tflops * 1e12, rate * 1e9)
    against = step.floor_seconds(spec("h100-sxm").bf16_tflops * 1e12, 3350e9) / seconds
    ridge = gpu.bf16_tflops * 1e3 / rate
    print(f"{gpu.name:<15}{rate:>7.0f} GB/s {source:<8}{ridge:>12.0f}{seconds * 1e3:>7.2f} ms", end="")
    print(f"{32 / seconds:>10.0f}{against:>13.2f}x")

# %% [markdown]
# <details><summary>What there is to see in it (run it first)</summary>
#
# - Left of the ridge the floor goes as one over the bandwidth: 4.3% more time with the driver's figure, and a ridge 4.3% higher. Arithmetic has no say.
# - The B200 has 2.27 times the arithmetic of an H100 and 2.39 times its bandwidth. Its bf16 ridge, 281, is close to the H100's 295. Decoding is as far below it as before, and 2.4 times faster.
# - The A100's ridge is the lowest of the four. A low ridge is no praise: it has less of both.
# - What these floors leave out is the size of the kernels. A kernel's start does not shrink with the generations as its bytes' time does, so on a B200 the curve's plateau begins further to the right:
#   $t_0 W$ grows with $W$.
# </details>

# %%
lab.predict("C050", "C051", "C052", "C053", "C054")

# %% [markdown]
# The ridge of "0.44" is the same slip as in section 1: a factor of 1000 between the units. Note that C054 draws a strong conclusion ("cannot be used profitably") from it. A wrong unit rarely stays
# alone.

# %% [markdown]
# ## 5. What batching buys, and where it stops
#
# *About two hours.*
#
# A decode step reads every weight of the model, whether it makes one token with them or sixty-four. That is why everybody who serves
# models batches: the users share the reading. In this section you predict what a batch costs, kernel by kernel, before any of it runs. Then it
# runs, and you see how far you were off, and why.
#
# ### One user, on paper
#
# Llama-3-8B in bf16 has 7.505 × 10⁹ weights in its layers and its head, 15.01 GB. A token of context is 131 072 bytes of keys and values, so
# 2048 tokens are 0.27 GB. One user alone:
#
# | | | |
# |---|---|---|
# | bytes of a step | 15.01 GB + 0.27 GB | 15.28 GB |
# | FLOPs of a step | 2 × 7.505 × 10⁹ + attention | 1.6 × 10¹⁰ |
# | memory, on an H200 | 15.28 GB / 4800 GB/s | **3.18 ms** |
# | arithmetic | 1.6 × 10¹⁰ / 989.4 TFLOP/s | 0.016 ms |
#
# That is 314 tokens a second at most, and during a step the tensor cores have something to do for 0.5% of the time.
#
# ### Weights are shared, keys and values are not
#
# A second user adds 0.27 GB of their own, and not another 15. With $b$ users the step moves
#
# $$ B = \underbrace{2 \, (N + N_h)}_{\text{once}} + \underbrace{b \, s \, \mathrm{kv}}_{\text{for each user}}. $$
#
# **Predict** before you run the cell, for 2048 tokens each: at which batch are there as many bytes of KV as of weights? Is the step of 64 users
# 64 times as long as that of one, about as long, or twice as long?

# %% tags=["nbval-check-output"]
from course_lib.hardware import spec
from course_lib.roofline import LLAMA_3_8B, decode_step

H100, H200 = spec("h100-sxm"), spec("h200-sxm")
print("Llama-3-8B, bf16, 2048 tokens of context: the floor on an H200's data sheet")
print(f"{'batch':>6}{'GB moved':>10}{'of it KV':>10}{'FLOP/byte':>11}{'ms':>8}"
      f"{'tokens/s, a user':>18}{'tokens/s, the GPU':>19}")  # fmt: skip
for batch in (1, 4, 16, 32, 56, 64, 128, 256):
    step = decode_step(LLAMA_3_8B, batch, 2048)
    kv = batch * 2049 * LLAMA_3_8B.kv_bytes_per_token()
    seconds = max(step.flops / (H200.bf16_tflops * 1e12), step.bytes_moved / (H200.hbm_gb_per_s * 1e9))
    print(f"{batch:>6}{step.bytes_moved / 1e9:>10.1f}{kv / step.bytes_moved:>10.0%}{step.flops_per_byte:>11.1f}"
          f"{seconds * 1e3:>8.2f}{1 / seconds:>18.0f}{batch / seconds:>19,.0f}")  # fmt: skip

# %% [markdown]
# <details><summary>What there is to see in it (run it first)</summary>
#
# - At batch 56 KV and weights are equal: 15.01 GB / 0.27 GB. From there on a step is mostly a read of the users' own caches.
# - 64 users wait little more than twice as long as one, and the GPU makes 30 times as many tokens. From 64 to 256 it makes half as many again,
#   and every user waits 2.6 times as long.
# - Step time never falls. More users can only add bytes. What falls is the *cost* of a token, the GPU's time divided by the batch.
# </details>
#
# Two figures that are easily mixed up. A **user** gets one token a step: $1/t$ tokens a second. The **GPU** makes $b$ of them: $b/t$. Batching
# raises the second and lowers the first, and a price list and a latency target look at different ones. The roadmap says:

# %%
lab.predict("C066", "C068")

# %% [markdown]
# ### Why the plain floor is missed
#
# 3.18 ms is what one long read of 15.28 GB would take. A decode step is no long read. With eight billion weights in 32 layers it is 290
# kernels, one after the other, and none starts before the one before it has ended. Here are those of one layer, and the head:

# %% tags=["nbval-check-output"]
from course_lib.roofline.kernels import decode_kernels

print(f"{'one call, batch 1, 2048 tokens':<32}{'calls a step':>13}{'bytes':>15}{'us at 4800 GB/s':>17}")
for kernel in decode_kernels(LLAMA_3_8B, batch=1, context=2048):
    print(f"{kernel.name:<32}{kernel.count:>13}{kernel.bytes_moved:>15,}{kernel.bytes_moved / 4800e3:>17.3f}")
print(f"{'together':<32}{sum(k.count for k in decode_kernels(LLAMA_3_8B, 1, 2048)):>13}")

# %% [markdown]
# Redo one of them on paper, the product behind attention: a weight of 4096 × 4096 in bf16 is 2 × 4096² = 33 554 432 bytes, and a
# token comes in and goes out with 2 × 4096 bytes each time, 33 570 816 in all. At 4800 GB/s that is 7.0 µs.
#
# Three kinds stand in this table:
#
# - **Products**, 34 MB to 1 GB. They stream a weight. The larger the weight, the nearer they come to the bandwidth; at the start the memory has
#   nothing to do yet, and at the end a part of the chip has nothing to do any more.
# - **Small kernels**: norms, RoPE, SwiGLU, four calls in each layer. Bytes take 0.005 to 0.02 µs, which no kernel can do. Starting one costs a
#   microsecond or two, however little it does. We call it the **launch floor**.
# - **Attention**, which is small for one user, and for 64 of them the largest of all.
#
# So one bandwidth is not enough. What we need is a *curve*: the time of a read against its size. A second curve is for products, since a
# product also has to bring its tokens along and to add up along the rows, and a plain read does not. The next cell measures both on your
# GPU, or shows those of an H200. **Predict**: at which size does a read reach half of the bandwidth of a large one? More like 10 kB, 10 MB or 1 GB?

# %%
from course_lib.display.curve_figure import curve_figure, curve_points
from course_lib.recorded import recorded

RECORDED = recorded("batch_sweep")  # reads, products, and the steps that you will predict
LIVE = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
if LIVE:
    from course_lib.workloads.product_curve import measure_product_curve
    from course_lib.workloads.read_curve import measure_read_curve

    measured = {"read": measure_read_curve(), "product": measure_product_curve()}
    points = {kind: list(zip(curve["bytes"], curve["seconds"], strict=True)) for kind, curve in measured.items()}
    where = torch.cuda.get_device_name()
else:
    points = {kind: curve_points(RECORDED, kind) for kind in ("read", "product")}
    where = f"{RECORDED['device']}, recorded on {RECORDED['date'][:10]}"
names = {"a norm": 32_768, "attention, 1 user": 8.4e6, "output": 33.6e6, "gate and up": 235e6}
curve_figure({"plain read": points["read"], "product, 1 token": points["product"]}, where, names);

# %% [markdown]
# The full lines are bandwidth, the broken ones are the same measurements as times. On the left the times are level, the launch floor. On the right
# they rise in a straight line, the bandwidth. Most kernels of a decode step live between the two, where neither says how long they take.
#
# How much does it matter? Look up three kernels on the curves:

# %%
def nearest(kind, size):
    """The measured point next to a size."""
    return min(points[kind], key=lambda point: abs(point[0] - size))


largest = points["read"][-1]
rate = largest[0] / largest[1]
print(f"{where}: a read of {largest[0] / 1e9:.2f} GB reaches {rate / 1e9:.0f} GB/s")
slow = max((size for size, seconds in points["read"] if size / seconds < rate / 2), default=0)
print(f"half of that is reached between {slow / 1e6:.1f} and {2 * slow / 1e6:.1f} MB\n")
print(f"{'':<14}{'bytes':>13}{'calls':>7}{'us at that rate':>17}{'us on the curve':>17}{'ms lost in a step':>19}")
for kernel in decode_kernels(LLAMA_3_8B, 1, 2048):
    if kernel.name in ("add and norm", "output", "gate and up"):
        size, seconds = nearest("product" if kernel.is_product else "read", kernel.bytes_moved)
        lost = kernel.count * (seconds - size / rate)
        print(f"{kernel.name:<14}{size:>13,.0f}{kernel.count:>7}"
              f"{size / rate * 1e6:>17.2f}{seconds * 1e6:>17.2f}{lost * 1e3:>19.3f}")  # fmt: skip

# %% [markdown]
# A norm moves one part in seven thousand of what gate and up move. Sixty-five of them in a step cost something all the same.
#
# ### Between two points
#
# A curve is measured at some sizes, and kernels have others. Both axes are logarithmic, so the natural line between two neighbours
# is one that is straight *there*: $\log t$ against $\log B$. With the neighbours $(B_0, t_0)$ and $(B_1, t_1)$,
#
# $$ t = t_0 \left( \frac{t_1}{t_0} \right)^{x}, \qquad x = \frac{\log (B / B_0)}{\log (B_1 / B_0)}. $$
#
# Take a curve with three points that are easy to handle: 10 kB in 2 µs, 1 MB in 4 µs, 100 MB in 40 µs.
#
# | size | where it lies | time |
# |---|---|---|
# | 100 kB | half way between 10 kB and 1 MB, on the log axis | $\sqrt{2 \cdot 4}$ = 2.83 µs |
# | 10 MB | half way between 1 MB and 100 MB | $\sqrt{4 \cdot 40}$ = 12.65 µs |
# | 1 kB, or 0 bytes | below the first point: nothing is faster than a launch | 2 µs |
# | 1 GB | beyond the last point: its *rate* holds, 2500 GB/s | 400 µs |
#
# A kernel takes the longer of its arithmetic and its memory. A step is the sum over its kernels:
#
# $$ t_\text{step} = \sum_k n_k \max\left( \frac{F_k}{P}, \; t_{\text{curve}(k)}(B_k) \right) \qquad \text{and not} \qquad
#    \max\left( \sum_k \frac{n_k F_k}{P}, \; \sum_k n_k \, t_{\text{curve}(k)}(B_k) \right). $$
#
# The second would let a product's arithmetic go on while a norm waits for memory. They are different kernels, and they do not overlap. Take one
# that needs 30 µs of arithmetic and 10 µs of memory, and one with 5 and 20: together 30 + 20 = 50 µs, and not max(35, 30) = 35.
#
# ### Where batching stops
#
# Batching lifts the intensity of a step, and the ridge is where it would be done. Section 2 has found that it does not always get
# there. Step by step, for $b$ users with $s$ tokens each:
#
# 1. FLOPs: $b \, (2 (N + N_h) + 4 L n_q d \, s)$. Each user brings them all.
# 2. Bytes: $2 (N + N_h) + b \, s \, \mathrm{kv}$, and $\mathrm{kv} = 2 \cdot L \cdot n_\mathrm{kv} \cdot d \cdot 2$.
# 3. For a large $b$ the weights vanish from the bytes, and $b$ cancels:
#    $\displaystyle \frac{F}{B} \to \frac{2 (N + N_h)}{s \, \mathrm{kv}} + \frac{4 L n_q d \, s}{s \, \mathrm{kv}} = \frac{2 (N + N_h)}{s \, \mathrm{kv}} + \frac{n_q}{n_\mathrm{kv}}$.
# 4. The last term is attention by itself. A key of 2 bytes is read once and used by the $g = n_q / n_\mathrm{kv}$ query heads that share it, for a
#    multiplication and an addition each: $g$ FLOPs a byte, at any batch.
# 5. Set it equal to the ridge $R$ and solve for $s$:
#
# $$ s^\ast = \frac{2 \, (N + N_h)}{\mathrm{kv} \, (R - g)}. $$
#
# With longer contexts no batch reaches the ridge. Llama-3-8B on an H100: $2 \cdot 7.505 \cdot 10^9 / (131\,072 \cdot (295.3 - 4))$ = 393 tokens.
# One page of text. The 2 in it is that of multiplying and adding; that a weight is 2 *bytes* long plays no part any more.
#
# If attention alone reaches the ridge ($R \le g$), every context is fine, and $s^\ast$ is infinite. With plain grouped heads it never happens;
# MLA comes nearest: 128 heads share one latent of 576 values (2 bytes each) as their key, and 512 of them again as their value, which makes
# 128 · 2 · (576 + 512) / (2 · 576) = 242 FLOP per byte, more than the 206 of an H200.
#
# This is about the step as a whole. Its products by themselves do cross the ridge, at 295 or 206 tokens a step, and from there on more users
# make them slower. Attention stays where it is, and the step is the sum of both.

# %% [markdown]
# ### Exercise 1.5: a batch sweep, predicted and measured (about 25 lines, 10 points, 2 of them on a GPU)
#
# Write `predict_sweep`. It gets the kernels of some decode steps, one step for each batch, and two measured curves. It returns the time of
# each step, what that is worth, and, for some models, the context beyond which batching never reaches the ridge.
#
# **Before you code**, with the three-point curve above for every kernel, and a peak of 10 TFLOP/s:
#
# 1. A step calls a kernel with 100 MB and hardly any arithmetic twice, and one with 10 kB and 10⁹ FLOPs three times. How long is it?
# 2. What is its plain floor, from the totals and the rate of the last point?
# 3. Which of the two would change if the first kernel were split into ten of 10 MB each?
#
# <details><summary>The answers</summary>
#
# 1. 2 × 40 µs + 3 × max(100 µs, 2 µs) = 380 µs.
# 2. Arithmetic 3 × 10⁹ / 10¹³ = 300 µs, memory 200.03 MB / 2500 GB/s = 80 µs: the longer is 300 µs, and the gap is 380 / 300 = 1.27.
# 3. The time, to 20 × 12.65 + 300 = 553 µs. The floor knows totals only.
# </details>
#
# | | shape | dtype | meaning |
# |---|---|---|---|
# | `kernels["batch"]` | `[batches]` | float64 | users in each step |
# | `kernels["flops"]`, `kernels["bytes"]` | `[batches, kernels]` | float64 | $F_k$ and $B_k$ of **one call**; bytes may be 0 |
# | `kernels["count"]` | `[batches, kernels]` | float64 | $n_k$, calls in a step |
# | `kernels["is_product"]` | `[kernels]` | bool | True: read off the curve of products, False: off that of plain reads |
# | `curves["read"]`, `curves["product"]` | a dict each: `"bytes"`, `"seconds"`, both `[points]` | float64 | measured; bytes ascending, one point or more; each curve has sizes of its own |
# | `peak_tflops` | | float | $P$ in **TFLOP/s** |
# | `limits["weights"]`, `limits["kv_bytes"]` | `[models]` | float64 | $N + N_h$ (a number of weights, bf16), and $\mathrm{kv}$ in bytes |
# | `limits["group"]`, `limits["ridge"]` | `[models]` | float64 | $g$, and $R$ in FLOP per byte |
#
# The result is a dict of float64 tensors:
#
# | | shape | |
# |---|---|---|
# | `"step_seconds"` | `[batches]` | $t_\text{step}$, the sum over kernels |
# | `"floor_seconds"` | `[batches]` | the plain floor: the longer of all FLOPs of the step at the peak and all its bytes at one rate, that of the **last point of the reads** (bytes over seconds) |
# | `"gap"` | `[batches]` | `step_seconds` over `floor_seconds` |
# | `"tokens_per_second"` | `[batches]` | of the GPU |
# | `"tokens_per_second_per_user"` | `[batches]` | of one user |
# | `"context_limit"` | `[models]` | $s^\ast$ in tokens, not rounded; infinite where $R \le g$ |
#
# - Between two points: straight on logarithmic axes, as above. A size on a point has that point's time.
# - Below the first point its time holds, for 0 bytes too. Beyond the last point its rate holds.
# - A curve of one point has both ends and nothing between.
#
# <details><summary>Hint: which neighbours</summary>
#
# `torch.searchsorted(sizes, b)` says how many points lie before `b`: that is the right neighbour. At both ends it has to stay in the
# table; `.clamp(1, len(sizes) - 1)`.
# </details>
#
# <details><summary>Hint: 0 bytes</summary>
#
# 0 has no logarithm. Raise the size to that of the first point first.
# </details>
#
# <details><summary>Hint: two curves</summary>
#
# Write a function inside `predict_sweep` that looks up every size on one curve. Call it for both and choose with `torch.where`;
# `is_product` is `[kernels]`, which lines up with the last dimension.
# </details>

# %% grade_id="ex-1-5"
def predict_sweep(kernels: dict, curves: dict, peak_tflops: float, limits: dict) -> dict:
    """Kernels of some steps, two measured curves, models -> a dict of float64 tensors, as in the table above."""
    ### BEGIN SOLUTION
    def look_up(curve: dict) -> torch.Tensor:
        sizes, seconds = curve["bytes"], curve["seconds"]
        if len(sizes) == 1:
            inside = seconds.expand(kernels["bytes"].shape)
        else:
            size = kernels["bytes"].clamp(sizes[0], sizes[-1])
            right = torch.searchsorted(sizes, size).clamp(1, len(sizes) - 1)
            left = right - 1
            x = torch.log(size / sizes[left]) / torch.log(sizes[right] / sizes[left])
            inside = seconds[left] * (seconds[right] / seconds[left]) ** x
        return inside * (kernels["bytes"] / sizes[-1]).clamp(min=1.0)  # beyond the last point

    peak = peak_tflops * 1e12
    memory = torch.where(kernels["is_product"], look_up(curves["product"]), look_up(curves["read"]))
    each = torch.maximum(kernels["flops"] / peak, memory)
    step = (kernels["count"] * each).sum(1)

    flops = (kernels["count"] * kernels["flops"]).sum(1)
    moved = (kernels["count"] * kernels["bytes"]).sum(1)
    rate = curves["read"]["bytes"][-1] / curves["read"]["seconds"][-1]
    floor = torch.maximum(flops / peak, moved / rate)

    room = limits["ridge"] - limits["group"]
    limit = 2 * limits["weights"] / (limits["kv_bytes"] * room)
    return {
        "step_seconds": step,
        "floor_seconds": floor,
        "gap": step / floor,
        "tokens_per_second": kernels["batch"] / step,
        "tokens_per_second_per_user": 1 / step,
        "context_limit": torch.where(room > 0, limit, torch.inf),
    }
    ### END SOLUTION

# %% grade_id="ex-1-5-check"
lab.check("1.5", predict_sweep)

# %% [markdown]
# ### The prediction meets the device
#
# On a GPU the next cell measures both curves, gives them to your function together with the kernels of an 8B model's decode step at batch 1,
# 4, 16 and 64, and only *then* runs the steps: 32 layers with random weights (fewer where memory is short), 2048 tokens for each user. All
# kernels of a step are launched at once, as a CUDA graph (section 9), so that the host holds nobody up. Your prediction is right when every step is within 15% of it. The bar was set on an H200. On another GPU you see the same
# numbers, and the two points wait.

# %% grade_id="ex-1-5-timed"
lab.check_timed("1.5", predict_sweep)

# %% [markdown]
# Now the whole sweep. **Predict**: for which batch will your prediction be furthest off? And where on the right-hand picture would you
# run a chat service with a target of 40 ms a token?

# %%
from course_lib.display.batch_sweep_figure import batch_sweep_figure, sweep_rows

SWEEP, CONTEXT = (1, 2, 4, 8, 16, 32, 64), 2048


def kernel_tables(batches, context):
    """The kernels of the steps, as predict_sweep takes them."""
    steps = [decode_kernels(LLAMA_3_8B, batch, context) for batch in batches]
    fields = {"flops": "flops", "bytes": "bytes_moved", "count": "count"}
    tables = {key: [[float(getattr(k, field)) for k in step] for step in steps] for key, field in fields.items()}
    made = {key: torch.tensor(values, dtype=torch.float64) for key, values in (tables | {"batch": batches}).items()}
    return made | {"is_product": torch.tensor([k.is_product for k in steps[0]])}


def measured_steps(batches, context):
    """batch -> (median, least, most) milliseconds on this device."""
    from course_lib.timing import time_calls
    from course_lib.workloads.decode_stack import LLAMA_3_8B_NUMBERS, DecodeStack, StackWeights

    weights, found = StackWeights.random(LLAMA_3_8B_NUMBERS, LLAMA_3_8B.layers), {}
    for batch in batches:
        stack = DecodeStack(LLAMA_3_8B_NUMBERS, LLAMA_3_8B.layers, batch, context, weights=weights)
        timing = time_calls(stack.graph())
        found[batch] = [1e3 * value for value in (timing.median_seconds, min(timing.seconds), max(timing.seconds))]
        del stack
        torch.cuda.empty_cache()
    return found


def column(values):
    return torch.tensor(list(values), dtype=torch.float64)


curves = {
    kind: {"bytes": column(size for size, _ in rows), "seconds": column(seconds for _, seconds in rows)}
    for kind, rows in points.items()
}
model = LLAMA_3_8B
limits = {"weights": column([model.linear_params + model.head_params]), "kv_bytes": column([model.kv_bytes_per_token()]),
          "group": column([model.heads / model.kv_heads]), "ridge": column([H200.bf16_tflops * 1e3 / H200.hbm_gb_per_s])}
peak = next(row["ours"] for row in RECORDED["rows"] if row["unit"] == "TFLOP/s")  # no step here comes near it
try:
    prediction = predict_sweep(kernel_tables(SWEEP, CONTEXT), curves, peak, limits)
except NotImplementedError as still_open:
    print(f"The sweep is predicted by your function. {still_open}")
else:
    here = LIVE and torch.cuda.get_device_properties(0).total_memory > 45e9
    before = {row["batch"]: row for row in sweep_rows(RECORDED, CONTEXT)}
    steps = measured_steps(SWEEP, CONTEXT) if here else {
        batch: (row["measured_ms"], row["low_ms"], row["high_ms"]) for batch, row in before.items()
    }
    rows = [
        {"batch": batch, "floor_ms": 1e3 * float(floor), "predicted_ms": 1e3 * float(step),
         "measured_ms": steps[batch][0], "low_ms": steps[batch][1], "high_ms": steps[batch][2]}
        for batch, floor, step in zip(SWEEP, prediction["floor_seconds"], prediction["step_seconds"], strict=True)
    ]  # fmt: skip
    batch_sweep_figure(rows, f"{where}: a decode step with Llama-3-8B's shapes, bf16, {CONTEXT} tokens of context")
    print(f"{'batch':>6}{'floor':>9}{'predicted':>11}{'measured':>10}{'predicted / measured':>22}{'measured / floor':>18}")
    for row in rows:
        floor_ms, predicted_ms, measured_ms = row["floor_ms"], row["predicted_ms"], row["measured_ms"]
        print(f"{row['batch']:>6}{floor_ms:>9.2f}{predicted_ms:>11.2f}{measured_ms:>10.2f}"
              f"{predicted_ms / measured_ms:>22.3f}{measured_ms / floor_ms:>18.2f}")  # fmt: skip

# %% [markdown]
# (A GPU with less than 45 GB shows the steps of the H200, and the prediction that your own curves lead to: another machine, another line.)
#
# ### Explain the gap
#
# The steps take 20 to 35 percent longer than the floor. That is no mystery. Take the prediction apart: what does each kind of kernel add,
# because it has a size of its own?

# %%
from course_lib.roofline.sweep import curve_seconds

print(f"{where}; milliseconds of a step, {CONTEXT} tokens of context\n")
parts = {"products": [], "attention": [], "small kernels": []}
print(f"{'batch':>6}{'plain floor':>13}" + "".join(f"{'+ ' + part:>17}" for part in parts) + f"{'= predicted':>13}")
for batch in (1, 16, 64):
    lost = dict.fromkeys(parts, 0.0)
    moved = 0.0
    for kernel in decode_kernels(LLAMA_3_8B, batch, CONTEXT):
        size = torch.tensor([float(kernel.bytes_moved)], dtype=torch.float64)
        seconds = float(curve_seconds(curves["product" if kernel.is_product else "read"], size))
        part = "products" if kernel.is_product else "attention" if kernel.name == "attention" else "small kernels"
        lost[part] += 1e3 * kernel.count * (seconds - kernel.bytes_moved / rate)
        moved += kernel.count * kernel.bytes_moved
    floor_ms = 1e3 * moved / rate
    print(f"{batch:>6}{floor_ms:>13.2f}" + "".join(f"{value:>17.2f}" for value in lost.values())
          + f"{floor_ms + sum(lost.values()):>13.2f}")  # fmt: skip

# %% [markdown]
# <details><summary>What there is to see in it (run it first; the words are about the H200)</summary>
#
# - **Products** lose most, and the smaller ones lose more of it: 128 calls of 34 to 235 MB, each with a start and an end. An engine that merges
#   q, k and v into one product, and gate and up into another, has fewer starts and ends. The stack here already does.
# - **Small kernels** move next to nothing and cost a fifth of a millisecond. Four launches in a layer is few. An engine that runs torch's
#   operations one by one has four times as many, and pays for each: that is why norms, RoPE and activations are fused.
# - **Attention** loses little for one user, where it is small, and little for 64, where it is large.
# - **A chat service** with a target of 40 ms, 25 tokens a second for each user, could run any of these batches: the whole right-hand curve lies
#   beyond 100. What ends it first is memory for the KV, or a longer context.
# - Below 10% is left between prediction and measurement, and always on the same side. The curves were measured with the same kernel again and again.
#   In a step different kernels follow each other; a product of 64 tokens is no product of one, and an attention kernel is no plain read. We
#   have not taken this rest apart any further.
# </details>
#
# And what does *not* help: a faster tensor core. These steps do 1 to 32 FLOPs with a byte, where the chip could do 206. The roadmap says something
# about how busy it is, and about what changes that:

# %%
lab.predict("C004", "C057", "C063", "C064")

# %% [markdown]
# Two of these can be looked up in one measurement: the products of an MLP layer, weights cold, with more and more tokens. **Predict** the share
# of a large product's rate that one token reaches, and the number of tokens for 30%.

# %%
knee = recorded("knee")
cases = {row["case"]: row for row in knee["rows"]}
one, third, ridge = (cases[name] for name in ("1 token, 4096 x 14336", "30% of the product's rate", "knee of the MLP layer"))
print(f"{knee['device']}, share of the rate of a large product")
print(f"one token:                        {one['ratio']:.2%}   ({one['ours']:.1f} of {one['peer']:.0f} TFLOP/s)")
for tokens in (16, 64, 128, 256, 512):
    print(f"{tokens:>4} tokens:                      {cases[f'MLP layer, {tokens} tokens']['ratio']:.0%}")
print(f"30% is reached with               {third['ours']:.0f} tokens   (30% of the measured ridge: {third['peer']:.0f})")
print(f"slope and roof meet at            {ridge['ours']:.0f} tokens   (the measured ridge: {ridge['peer']:.0f} FLOP/byte)")

# %% [markdown]
# The ridge is a large product's rate over that of the memory. Here it turns up again, from products alone, as a number of tokens.
#
# The claim that batching fills the tensor cores can be measured as well. An H200 was given an eighth of the model (4 layers, an eighth of the
# head), with up to 256 users and three contexts. **Predict** the share of a large product's rate that 256 users reach with 512 tokens, and
# with 8192.

# %%
try:
    rates = {row["case"]: row for row in recorded("batch_rates")["rows"]}
except FileNotFoundError:
    print("This was not recorded yet.")
else:
    print("NVIDIA H200: FLOP/s of a decode step, as a share of those of an 8192 x 8192 x 8192 product\n")
    print(f"{'batch':>6}" + "".join(f"{f'{context} tokens':>14}" for context in (512, 2048, 8192)))
    for batch in (1, 4, 16, 64, 256):
        shares = (rates[f"batch {batch}, context {context}"]["ratio"] for context in (512, 2048, 8192))
        print(f"{batch:>6}" + "".join(f"{share:>14.1%}" for share in shares))

# %% [markdown]
# With 8192 tokens the limit is $2 (N + N_h) / (s \, \mathrm{kv})$ + 4 = 18 FLOP per byte, and no batch gets beyond it. A step is then a read of the users'
# own caches, however many share the chip.
#
# What would move that limit? The roadmap has four answers. Three of them speak of intensity as if a trick could buy any amount of it. **Predict**
# them with step 3 above: which term does each change?

# %%
lab.predict("C069", "C074", "C075", "C076")

# %% [markdown]
# <details><summary>The terms, one by one</summary>
#
# - **FP8 for weights and KV** halves the bytes (the head's too, if it is stored so). FLOPs stay, so the intensity doubles. If the arithmetic is FP8 as well, the ridge doubles with it.
# - **A better attention kernel** reads the KV once, as the worse one did. In decode it changes no term. (In prefill it does.)
# - **Half the KV** halves $\mathrm{kv}$ and doubles $s^\ast$ nearly. It does nothing for one user with a short context, whose bytes are weights.
# - **Speculation** lets a small model propose $\gamma$ tokens, and the large one checks $\gamma + 1$ in one step. It is a batch, made out of one user: it multiplies the FLOPs and leaves the bytes.
#   With $\gamma = 4$ the products come to 5 FLOP per byte, and with 60 users of it to the H100's ridge, where it no longer pays.
# </details>
#
# ### How many prompts at once?
#
# Section 2 looked for a stall at 8192 tokens of context and found a straight line: each token costs the same. The last claim is about
# batching prompts, which are limited by arithmetic from the start. **Predict**: how long does such a step take on an H100, and who waits?

# %%
lab.predict("C065")

# %% [markdown]
# <details><summary>With a pencil</summary>
#
# 128 prompts of 2048 tokens are 262 144 tokens in one step. $2 \cdot 6.979 \cdot 10^9 \cdot 262\,144$ FLOPs take 3.7 s on an H100, at its peak. For so
# long everybody who is waiting for a next token gets none. What has to be limited is the *tokens* in a step, not the requests: you build that in
# section 8.
# </details>
#
# **What you have now.** A step is a sum over kernels, and each of them has its own place on a measured curve. Users share the weights and
# nothing else. And a context of some hundred tokens is enough to keep decoding below the ridge for ever, so that what a GPU's memory does in
# a second is the number that chat is made of.

# %% [markdown]
# ## 6. From a step to a promise
#
# *About 75 minutes.*
#
# Someone who chats with a model feels two times. **TTFT**, time to first token, is how long the screen stays empty. **ITL**, inter-token
# latency, is the gap between one token and the next; its mean over an answer is the **TPOT**, time per output token. The target of this
# course is an ITL of 40 ms: 25 tokens a second for every user, a few times faster than people read. It is a choice and no law of nature,
# but it is a number, and a number can be compared with another one.
#
# That other number is a floor. The TTFT contains at least one prefill and every gap one decode step, and no step beats its roofline. If
# the floor lies above 40 ms, no engine and no kernel will get there. If it lies below, the target is merely not impossible: waiting in a
# queue, sampling and imperfect kernels come on top. So floors are where you begin when somebody asks which GPUs to rent, and how many.
#
# ### What a step does
#
# In a layer of Llama-3 every weight takes part in one multiplication and one addition for each token: 2 FLOPs. And however many tokens a
# step has, it needs to read each weight only once. Everything else is attention, and the keys and values (KV) that it reads.
#
# | | layers $L$ | weights in the layers $N$ | in the output head $N_h$ | query heads × dim | bytes of KV for one token, $\mathrm{kv}$ |
# |---|---|---|---|---|---|
# | Llama-3-8B | 32 | 6.979 × 10⁹ | 0.525 × 10⁹ | 32 × 128 = 4096 | 2 × 32 layers × 8 heads × 128 × 2 B = 131 072 |
# | Llama-3-70B | 80 | 68.451 × 10⁹ | 1.051 × 10⁹ | 64 × 128 = 8192 | 2 × 80 layers × 8 heads × 128 × 2 B = 327 680 |
#
# A **decode** step makes one token for each of $b$ users, each with $s$ tokens behind them. A query meets each of the $s$ keys (2 FLOPs for
# each dimension) and adds up as many values (2 more). With $d$ for heads × dim, and bf16 weights of 2 bytes,
#
# $$ F = b \left( 2 (N + N_h) + 4 L d s \right), \qquad B = 2 (N + N_h) + b (s + 1) \, \mathrm{kv}. $$
#
# The $+1$ is the KV of the new token, which is written. For the 8B model, 32 users and 2048 tokens each:
#
# | | | |
# |---|---|---|
# | bytes of weights | 2 B × 7.505 × 10⁹ | 15.01 GB |
# | bytes of KV | 32 × 2049 × 131 072 B | 8.59 GB |
# | bytes together | | **23.60 GB** |
# | FLOPs with weights | 32 × 2 × 7.505 × 10⁹ | 4.80 × 10¹¹ |
# | FLOPs of attention | 32 × 4 × 32 × 4096 × 2048 | 0.34 × 10¹¹ |
# | FLOPs together | | **5.15 × 10¹¹** |
#
# A **prefill** takes all $p$ tokens of a prompt at once. Only the last one needs the output head, and a token looks only at those before
# it, which halves attention:
#
# $$ F = 2 N p + 2 N_h + 2 L d p^2, \qquad B = 2 (N + N_h) + p \, \mathrm{kv} + 8 L h p. $$
#
# The last term is the residual stream, whose width $h$ is equal to $d$ here: read and written around attention and again around the MLP, 2
# bytes each time. With FP8, a weight of a layer is 1 byte and the products run at the FP8 peak; head and KV stay bf16. The library does
# the same sums:

# %% tags=["nbval-check-output"]
from course_lib.roofline import LLAMA_3_8B, LLAMA_3_70B, decode_step, prefill_step

print(f"{'bf16':<14}{'':<34}{'FLOPs':>10}{'GB':>8}{'FLOP/byte':>12}")
for shape in (LLAMA_3_8B, LLAMA_3_70B):
    prefill, decode = prefill_step(shape, tokens=2048), decode_step(shape, batch=32, context=2048)
    for what, step in (("prefill of 2048 tokens", prefill), ("decode, 32 users, context 2048", decode)):
        print(f"{shape.name:<14}{what:<34}{step.flops:>10.2e}{step.bytes_moved / 1e9:>8.1f}{step.flops_per_byte:>12.0f}")

# %% [markdown]
# One model, and its two steps lie on opposite sides of every ridge point in the data sheet above, which are 153 to 757 FLOP per byte.
#
# ### Several GPUs
#
# **Tensor parallelism** gives each of $n$ GPUs, called *ranks*, one $n$-th of every matrix and of the KV heads. A rank then does $1/n$ of
# the FLOPs and moves $1/n$ of the bytes. The price: after attention, and again after the MLP, every rank holds only its part of a sum. An
# **all-reduce** adds the parts up and hands the sum to everyone. That makes two in each layer. One all-reduce of $m$ bytes takes
#
# $$ \alpha + \frac{2 (n - 1)}{n} \cdot \frac{m}{W_\mathrm{link}}. $$
#
# $\alpha$ is the time to get going, the same for a small message and a large one. The second term is the wire: each rank sends
# $(n-1)/n$ of the message while the parts are added up, and as much again while the sum is handed out. $W_\mathrm{link}$ is the rate in *one*
# direction; data sheets print both together, so NVLink's 900 GB/s on an H100 are 450. The message is the residual stream of the step's
# tokens, 2 bytes for each of $h$ values, and it is as large on 8 ranks as on 2. For the 70B model ($h$ = 8192) on four H100, with
# $\alpha$ = 5 µs:
#
# | | message $m$ | $\alpha$ | wire | 160 of them |
# |---|---|---|---|---|
# | decode, 32 tokens | 32 × 8192 × 2 B = 0.524 MB | 5 µs | 1.5 × 0.524 MB / 450 GB/s = 1.7 µs | 1.1 ms |
# | prefill, 2048 tokens | 33.6 MB | 5 µs | 111.8 µs | 18.7 ms |
#
# In decode you pay mostly for $\alpha$, and more GPUs do not make it smaller. The 5 µs are our assumption here, and a friendly one.
#
# Now put the pieces together. Arithmetic and memory work at the same time, so the longer one counts. An all-reduce has to wait for the
# product before it, and the product after it waits for the all-reduce, so its time is *added*:
#
# $$ t = \max\left(\frac{F}{n P}, \frac{B}{n W}\right) + 2 L \left( \alpha + \frac{2 (n - 1)}{n} \cdot \frac{m}{W_\mathrm{link}} \right)
# \quad \text{where the second part is only there for } n > 1. $$
#
# (With a long prompt, an engine can cut it in two and hide the all-reduces of one half behind the arithmetic of the other. We count the
# plain order of things.)
#
# ### Exercise 1.6: TTFT and TPOT floors, and who meets the target (about 15 lines, 6 points)
#
# Write `latency_floors`. It gets a table of configurations, one in each row, and returns the floor of the prefill (`ttft_ms`), the floor of
# the decode step (`tpot_ms`), and whether the configuration can meet an ITL target (`meets_itl`).
#
# **Before you code**, three questions for a pencil:
#
# 1. The decode step of the 8B model above, on one H100 SXM (989.4 TFLOP/s, 3350 GB/s): how long for arithmetic, how long for memory, and
#    what is the floor in milliseconds?
# 2. Somebody copies the sparse peak from the data sheet, twice the dense one. Which of the two floors of the 8B model changes?
# 3. The 70B model in bf16 moves 160.5 GB in a decode step. Two A100 read 2039 GB/s each, and 160 all-reduces cost at least 5 µs each. Is
#    that within 40 ms?
#
# Every tensor is `[configs]` float64, and row `i` of each belongs to configuration `i`.
#
# | | meaning |
# |---|---|
# | `model["layers"]` | layers $L$ |
# | `model["resident_bytes"]` | what must lie in memory, weights and KV, in bytes, of the whole model |
# | `model["prefill"]`, `model["decode"]` | a dict each: `"flops"` and `"bytes"` of the whole model's step, and `"allreduce_bytes"`, the message $m$ |
# | `gpu["peak_tflops"]` | dense peak of one GPU in TFLOP/s, NaN where it lacks the precision |
# | `gpu["hbm_gb_per_s"]`, `gpu["hbm_gb"]` | bandwidth and capacity of one GPU's memory, 1 GB = 10⁹ bytes |
# | `gpu["link_gb_per_s"]` | $W_\mathrm{link}$ in GB/s, one direction |
# | `gpu["alpha_us"]` | $\alpha$ in **microseconds** |
# | `ranks` | $n$, at least 1 |
# | `itl_target_ms` | the target in **milliseconds**, a float |
# | result | a dict: `"ttft_ms"` and `"tpot_ms"`, `[configs]` float64 in **milliseconds**, and `"meets_itl"`, `[configs]` bool |
#
# - A configuration meets the target when its TPOT floor is at most the target *and* each rank's share of `resident_bytes` is at most the
#   capacity. Equality is enough for both. Target 40 ms: 40.00 ms meets it, 40.01 ms does not. Capacity 80 GB: 80.00 GB fit, 80.01 GB do not.
# - The TTFT has no target here, and what does not fit has its floors all the same: they say what it *would* take.
# - A GPU that lacks the precision has NaN for both floors, and meets nothing.
# - With one rank there is no all-reduce: no wire, and no $\alpha$ either.
#
# <details><summary>Hint: where to begin</summary>
#
# Prefill and decode obey one formula. Write a small function inside `latency_floors` that takes one step's dict, and call it twice.
# </details>
#
# <details><summary>Hint: one rank in a table of many</summary>
#
# `torch.where(ranks > 1, a, b)` picks row by row. For one rank the wire is 0 by itself, as $(n - 1)/n$ is. What about $\alpha$?
# </details>
#
# <details><summary>Hint: NaN</summary>
#
# `torch.maximum` passes a NaN on, `torch.fmax` and Python's `max` may lose it. And what does `nan <= 40` say?
# </details>

# %% grade_id="ex-1-6"
def latency_floors(model: dict, gpu: dict, ranks: torch.Tensor, itl_target_ms: float) -> dict:
    """Tables of [configs] float64 -> {"ttft_ms", "tpot_ms": [configs] float64, "meets_itl": [configs] bool}."""
    ### BEGIN SOLUTION
    def floor_ms(step: dict) -> torch.Tensor:
        compute = step["flops"] / (ranks * gpu["peak_tflops"] * 1e12)
        memory = step["bytes"] / (ranks * gpu["hbm_gb_per_s"] * 1e9)
        wire = 2 * (ranks - 1) / ranks * step["allreduce_bytes"] / (gpu["link_gb_per_s"] * 1e9)
        allreduces = 2 * model["layers"] * (gpu["alpha_us"] * 1e-6 + wire)
        seconds = torch.maximum(compute, memory) + torch.where(ranks > 1, allreduces, 0.0)
        return seconds * 1e3

    tpot_ms = floor_ms(model["decode"])
    fits = model["resident_bytes"] / ranks <= gpu["hbm_gb"] * 1e9
    fast = tpot_ms <= itl_target_ms  # False for NaN
    return {"ttft_ms": floor_ms(model["prefill"]), "tpot_ms": tpot_ms, "meets_itl": fast & fits}
    ### END SOLUTION

# %% grade_id="ex-1-6-check"
lab.check("1.6", latency_floors)

# %% [markdown]
# <details><summary>The three questions for a pencil (answer them first)</summary>
#
# 1. Arithmetic 5.15 · 10¹¹ / 989.4 · 10¹² = 0.52 ms, memory 23.60 GB / 3350 GB/s = 7.05 ms. The longer one is the floor: 7.05 ms.
# 2. That of the prefill. With 1704 FLOP per byte it is limited by arithmetic, and its floor halves. The decode step waits for memory.
# 3. No: 80.25 GB / 2039 GB/s = 39.36 ms, and 160 × 5 µs = 0.8 ms come on top, before any wire. That is 40.2 ms.
# </details>
#
# ### Who meets 40 ms?
#
# Now let your function answer the question that it was written for. The next cell makes the table: two models, two precisions, four GPUs, 1
# to 8 ranks, with 32 users who have 2048 tokens each, and prompts of 2048 tokens.

# %%
from itertools import product

from course_lib.hardware import spec
from course_lib.roofline import resident_bytes

ITL_P99_MS = 40.0  # the target that 99 of 100 gaps are to keep
USERS, CONTEXT, PROMPT, ALPHA_US = 32, 2048, 2048, 5.0
TOKENS = USERS * CONTEXT  # whose KV lies in memory
RANKS = (1, 2, 4, 8)
WEIGHT_BYTES = {"bf16": 2, "fp8": 1}
GPUS = [spec(key) for key in ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm")]
CONFIGS = list(product((LLAMA_3_8B, LLAMA_3_70B), WEIGHT_BYTES, GPUS, RANKS))


def column(value):
    """[configs] float64: value(shape, precision, gpu, n) of every configuration."""
    return torch.tensor([value(*config) for config in CONFIGS], dtype=torch.float64)


def step_columns(step_of):
    """The dict of a step, from step_of(shape, weight_bytes)."""
    steps = [step_of(shape, WEIGHT_BYTES[precision]) for shape, precision, _, _ in CONFIGS]
    fields = {"flops": "flops", "bytes": "bytes_moved", "allreduce_bytes": "allreduce_bytes"}
    return {key: torch.tensor([getattr(s, field) for s in steps], dtype=torch.float64) for key, field in fields.items()}


model_table = {
    "layers": column(lambda shape, precision, gpu, n: shape.layers),
    "resident_bytes": column(lambda shape, precision, gpu, n: resident_bytes(shape, TOKENS, WEIGHT_BYTES[precision])),
    "prefill": step_columns(lambda shape, weight_bytes: prefill_step(shape, PROMPT, weight_bytes)),
    "decode": step_columns(lambda shape, weight_bytes: decode_step(shape, USERS, CONTEXT, weight_bytes)),
}
gpu_table = {
    "peak_tflops": column(lambda shape, precision, gpu, n: gpu.peak_tflops(precision) or float("nan")),
    "hbm_gb_per_s": column(lambda shape, precision, gpu, n: gpu.hbm_gb_per_s),
    "hbm_gb": column(lambda shape, precision, gpu, n: gpu.hbm_gb),
    "link_gb_per_s": column(lambda shape, precision, gpu, n: gpu.link_gb_per_s / 2),  # the sheet adds both directions
    "alpha_us": column(lambda shape, precision, gpu, n: ALPHA_US),
}
rank_column = column(lambda shape, precision, gpu, n: n)

# %% [markdown]
# **Predict** before you run the report. On how many GPUs does the 8B model first meet the target? Which cards can hold the 70B model in bf16
# alone, and are they fast enough? And for the 70B model in bf16 on A100: what do the all-reduces decide?

# %% tags=["nbval-check-output"]
def entry_for(floors, row):
    """One entry of the report: the TPOT floor in ms, and a word for what stands against it."""
    tpot_ms = float(floors["tpot_ms"][row])
    if tpot_ms != tpot_ms:
        return "no fp8     "
    if floors["meets_itl"][row]:
        return f"{tpot_ms:.2f} ok  "
    return f"{tpot_ms:.2f} " + ("slow" if tpot_ms > ITL_P99_MS else "full")


try:
    floors = latency_floors(model_table, gpu_table, rank_column, ITL_P99_MS)
except NotImplementedError as still_open:
    print(f"The report is made by your function. {still_open}")
else:
    print("TPOT floor in ms.  ok: meets 40 ms   slow: above it   full: fast enough, does not fit")
    print(f"\n{'':<34}" + "".join(f"{f'{n} GPU':>13}" for n in RANKS) + f"{'TTFT floor at the first ok':>30}")
    for first in range(0, len(CONFIGS), len(RANKS)):
        shape, precision, gpu, _ = CONFIGS[first]
        rows = range(first, first + len(RANKS))
        met = [row for row in rows if floors["meets_itl"][row]]
        ttft = f"{floors['ttft_ms'][met[0]]:.1f} ms" if met else "-"
        entries = "".join(f"{entry_for(floors, row):>13}" for row in rows)
        print(f"{shape.name:<13}{precision:<6}{gpu.name:<15}{entries}{ttft:>30}")

# %% [markdown]
# <details><summary>What there is to see in it (run it first)</summary>
#
# - **The 8B model has no trouble anywhere.** And more GPUs help it less and less: of its 0.72 ms on eight B200, half is all-reduces.
# - **Fast enough is not enough.** One H200 would read the 70B model in 33.4 ms. It cannot hold it: the weights alone are 141.1 GB, the card
#   has 141, and the KV of 32 users asks for 21.5 more.
# - **The all-reduces decide** on two A100: 39.4 ms for memory, 1.1 ms for 160 all-reduces, 40.4 ms in all. (With 81.3 GB a card, it would
#   not fit either.)
# - **The fewest GPUs that keep the ITL may be slow to start.** Two H200 meet it as four H100 do, and take 157 ms to the first token, not 91.
# - **The sparse peak** of question 2 leaves every TPOT as it is, for each decode step here waits for memory, and halves the TTFT of the 8B
#   model on one GPU. A mistake that improves one number and leaves the other alone is hard to notice.
# </details>

# %% [markdown]
# None of this is a measurement. A real step takes longer than its floor; on a GPU, the copy in exercise 1.1 shows how much longer the memory
# alone makes it. And an A100, which has no FP8 arithmetic, can still *store* weights in a byte each: that is for Phase 3.

# %% [markdown]
# ## 7. What the counters really count
#
# *About 90 minutes.*
#
# A dashboard shows your GPU at 98%, in green. Somebody concludes that it is nearly used up and orders a second one. Were they right?
# Nobody can tell from that number. It says that some kernel was running, and a kernel may run without doing anything.
#
# In the sections before, you worked out where a step ought to be. To see where it *is*, you ask the driver, and the driver answers what
# it was asked: counters with precise definitions, most of which differ from what their names suggest. This section is about reading them
# without fooling yourself. At the end you will know what a token costs in joules, and your function will have worked it out.
#
# ### Four names and their definitions
#
# The driver's library is called **NVML**. `nvidia-smi`, exporters and this course all ask it. Its documentation is short and exact:
#
# | counter | what it counts | taken for |
# |---|---|---|
# | `utilization.gpu` | percent of the last sample period, 1/6 s to 1 s, in which **one or more kernels** was running | how much of the chip works |
# | `utilization.memory` | percent of that period in which memory was being read or written | how much of the bandwidth is used |
# | power usage | milliwatts of the board, a mean over 1 s (A100 and older: of the moment) | the power of this moment |
# | total energy | millijoules since the driver was loaded | (nothing: hardly anybody reads it) |
#
# <small>NVML API reference, `nvmlUtilization_t`, `nvmlDeviceGetPowerUsage`, `nvmlDeviceGetTotalEnergyConsumption`.</small>
#
# Look at the first row. "One or more": a single block on one of 132 multiprocessors is enough. This course calls the number
# `busy_time_percent`, because a share of *time* is all that it is.
#
# ### A kernel that does nothing
#
# You can put that to the test. Here is a kernel that looks at the clock until its time is up. It is launched as one block of one warp.

# %% tags=["nbval-check-output"]
from importlib.resources import files

spin_source = files("course_lib.workloads").joinpath("spin_kernel.py").read_text(encoding="utf-8")
print(spin_source[spin_source.index("@triton.jit") :])

# %% [markdown]
# It reads no memory and multiplies nothing. **Predict** four numbers for the time while it runs: `utilization.gpu`, the share of the
# multiprocessors that are occupied, the share of time in which tensor cores work, and the share of the memory's bandwidth in use.
#
# The next cell has the answer, beside that of an idle GPU, of a prefill (the products of one layer, 4096 tokens at a time) and of a decode
# loop at batch 1, 8 and 64. On a GPU it first records idling and spinning here; the rest comes from an H200.

# %%
import time

from course_lib.display.telemetry_figure import loops_of, telemetry_figure
from course_lib.recorded import recorded
from course_lib.telemetry import Recorder

if torch.cuda.is_available():
    from course_lib.workloads.spin import spin

    here = {}
    for name in ("idle here", "spin here"):
        if name == "spin here":
            spin(4.0)
        time.sleep(1.3)  # what NVML calls utilization is a mean over up to a second
        with Recorder() as recorder:
            time.sleep(2.0)
        torch.cuda.synchronize()
        here[name] = {key: value for key, value in recorder.summary().as_dict().items() if isinstance(value, (int, float))}
    why_not = recorder.summary().why_not or recorder.summary().gpm_why_not
    print(f"Not every counter is given here. {why_not}" if why_not else "Every counter is given here.")
    telemetry_figure(here, torch.cuda.get_device_name())

loops_result = recorded("telemetry_loops")
loops = loops_of(loops_result)
telemetry_figure(loops, loops_result["device"], only=["idle", "spin", "prefill", "decode 1", "decode 8", "decode 64"]);

# %% [markdown]
# The first panel cannot tell the kernel that does nothing from prefill and decode. The others can.
#
# ### Counters that look inside
#
# The panels in the middle come from **GPM**, the GPU performance monitor, which NVML offers from Hopper on. You take two samples, and GPM
# gives means over the time between them: the share of time in which tensor instructions ran, the share of the DRAM bandwidth in use, the
# share of multiprocessors that had a warp. (On older GPUs, DCGM, NVIDIA's monitor for fleets, and the profiler Nsight Compute read such counters. With MIG, which cuts a GPU into parts, in some containers, or without
# the permission, GPM says nothing. `Recorder` then tells you why and leaves the figure `None`.)
#
# You can work out what to expect. In a decode step, each bf16 weight is 2 bytes, and does 2 FLOPs for each sequence. A memory that
# delivers $W$ bytes per second therefore feeds $b \, W$ FLOPs per second, which is a share of the tensor peak $P$ of
#
# $$ \frac{b \, W}{P} . $$

# %% tags=["nbval-check-output"]
from course_lib.hardware import spec

print(f"{'useful share of the tensor peak':<36}" + "".join(f"{f'batch {b}':>10}" for b in (1, 8, 64)))
for key in ("h100-sxm", "h200-sxm"):
    share = spec(key).hbm_gb_per_s / (spec(key).bf16_tflops * 1e3)
    print(f"{spec(key).name + ', memory at its peak':<36}" + "".join(f"{b * share:>10.2%}" for b in (1, 8, 64)))

# %% [markdown]
# A third of a percent on an H100 at batch 1: the tensor cores have next to nothing to do, and no dashboard that shows 100% will say so. (The
# KV is left out. At batch 64 it takes a third of the bytes of that loop and feeds few FLOPs, so the last column is too high by as much.)
#
# Even this counter is not the last word. It counts *time in which a tensor instruction ran*, not useful FLOPs. A kernel that pads 8 rows to
# a tile of 64 keeps the tensor cores eight times as busy as its results deserve, and a kernel that multiplies without tensor cores, as the
# fast ones for one row do, shows 0. Compare the tensor panel above with this table, and you see what the kernels of that loop did.
#
# ### From a share to a rate
#
# `dram_percent` is a share of the peak bandwidth, so the peak makes a rate of it: 60% of 4800 GB/s are 2880 GB/s. The roadmap multiplies
# `utilization.memory` by the *capacity* instead. Percent times gigabytes are gigabytes; no second is in it anywhere. A copy shows what that is
# worth, for its rate is known from its bytes and its time:

# %%
by_case = {row["case"]: row for row in loops_result["rows"]}
for case in ("copy: dram share x peak bandwidth", "copy: utilization.memory x capacity"):
    row = by_case[case]
    print(f"{case.removeprefix('copy: '):<36}{row['ours']:>6.0f} {row['unit']}")
print(f"{row['peer_name']:<36}{row['peer']:>6.0f} GB/s")
print(f"{loops_result['device']}, a copy of 4 GiB in fp32, again and again for 3 s")

# %% [markdown]
# ### Energy: count it, do not guess it
#
# Power is energy per time, so it seems natural to read the power now and then and to multiply the mean by the time. Three things go wrong.
# The reading is a mean over a second, so it lags behind what you do. What happens between two readings is lost; on A100 and H100, the
# sensor behind it was found to look at only a quarter of the time (Yang, Adamek and Armour, arXiv:2312.02741). And the recording usually
# begins before the work and ends after it, and an idle GPU draws power too.
#
# The energy counter is the better instrument. Take its difference over exactly the time of the work. It has three habits of its own:
#
# - **It is renewed only now and then**, about every 0.1 s (ml.energy, *Thermally Stable Profiling*). A sample in between shows the old value again. A board that is on draws power all
#   the time, so a reading that *repeats* the one before says nothing new: it is old.
# - **The marks lie between two samples.** When your loop begins at 1.0 s and the samples stand at 0.9 and 1.2, the counter at 1.0 s is on the
#   straight line between the two.
# - **It starts at zero when the driver is loaded anew.** A counter that falls has been reset, and the energy of that time is not known.
#
# ### Clocks, and who holds them back
#
# A GPU that gets too hot, or draws too much, lowers its clocks. It says why: NVML's *clocks event reasons* (once called throttle reasons) is a mask with a
# bit for each reason, several of which may be set at once.
#
# | bit | name | a GPU with work is slowed against everyone's wish |
# |---|---|---|
# | `0x01` | `gpu_idle` | no: nothing runs |
# | `0x02` | `applications_clocks` | no: somebody has set them |
# | `0x04` | `sw_power_cap` | **yes**: at the power limit |
# | `0x08` | `hw_slowdown` | **yes**: heat, or a power brake |
# | `0x10` | `sync_boost` | no: set to keep step with other GPUs |
# | `0x20` | `sw_thermal_slowdown` | **yes**: too hot, and the driver acts |
# | `0x40` | `hw_thermal_slowdown` | **yes**: too hot, and the hardware acts |
# | `0x80` | `hw_power_brake` | **yes**: the power supply asks for it |
# | `0x100` | `display_clocks` | no: a display's setting |
#
# So `0x84` means `sw_power_cap` and `hw_power_brake`. Here is what the loops of the H200 showed:

# %%
for name, figures in loops.items():
    reasons = [key.removeprefix("reason ") for key in figures if key.startswith("reason ")]
    clocks = f"{figures['sm_mhz_median']:>6.0f} MHz (lowest {figures['sm_mhz_min']:.0f})"
    heat = f"{figures['mean_watts']:>5.0f} W, at most {figures['max_temperature_c']:.0f} °C"
    print(f"{name:<10}{clocks}, {heat}   {', '.join(reasons) or 'no reason is set'}")

# %% [markdown]
# Which of the loops meets the power limit, if any: the one that waits for memory, or the one that multiplies? Look for `sw_power_cap`.
#
# Do not take the last digit of the watts for true: a mean may even lie a little above the 700 W that the board is sold with. It is the counter's
# joules over about 3 s, and its first and its last reading may each be 0.1 s old, which is 3% either way. A longer recording makes it better.
#
# When a machine runs hot, read the mask before you do anything. A power cap is normal at full load, and lowering the limit on purpose
# (`nvidia-smi -pl`) is a way to run cooler. A thermal slowdown is a matter for whoever looks after the cooling, and at which temperature it sets in depends
# on the board: `nvidia-smi -q -d TEMPERATURE` has the number.
#
# ### A recording on paper
#
# The exercise is about recordings like this one. Somebody took four samples, and made 400 tokens from 1.0 s to 3.0 s.

# %%
EXAMPLE = [
    {"seconds": 0.0, "energy_mj": 50_000, "power_mw": 90_000, "busy_percent": 0, "memory_busy_percent": 0,
     "sm_mhz": 345, "reasons": 0x01, "gpm": None},
    {"seconds": 2.0, "energy_mj": 250_000, "power_mw": 210_000, "busy_percent": 50, "memory_busy_percent": 30,
     "sm_mhz": 1980, "reasons": 0x00, "gpm": {"tensor_percent": 1.0, "dram_percent": 20.0}},
    {"seconds": 2.5, "energy_mj": 250_000, "power_mw": 420_000, "busy_percent": 100, "memory_busy_percent": 60,
     "sm_mhz": 1980, "reasons": 0x00, "gpm": {"tensor_percent": 3.0, "dram_percent": 80.0}},
    {"seconds": 4.0, "energy_mj": 1_650_000, "power_mw": 690_000, "busy_percent": 100, "memory_busy_percent": 50,
     "sm_mhz": 1700, "reasons": 0x04, "gpm": {"tensor_percent": 5.0, "dram_percent": 60.0}},
]
EXAMPLE_WINDOW, EXAMPLE_TOKENS = (1.0, 3.0), 400
EXAMPLE_PEAKS = {"hbm_gb_per_s": 4800.0, "hbm_gb": 141.0}

# %% [markdown]
# - **Energy.** The third reading repeats the second and is old, which leaves 50 J at 0 s, 250 J at 2 s and 1650 J at 4 s. On the lines between them,
#   the counter stands at 50 + ½ · 200 = 150 J at 1 s, and at 250 + ½ · 1400 = 950 J at 3 s. That makes 800 J: 400 W, **2 J per token**. The
#   whole recording would have made it 4 J.
# - **Activity.** What a sample says of GPM and of busy time stands for the interval since the sample before. Of the interval 0 to 2 s, 1 s lies in the
#   window; of 2 to 2.5 s, all of it; of 2.5 to 4 s, half a second. Tensor cores: (1 · 1 + 0.5 · 3 + 0.5 · 5) / 2 = 2.5%. Memory:
#   (20 + 40 + 30) / 2 = 45% of 4800 GB/s, 2160 GB/s. Busy: (50 + 50 + 50) / 2 = 75% of the time.
# - **Clocks.** Clock and reasons are those of a moment. The power cap at 4 s came after the window: nothing was throttled in it.
#
# ### Exercise 1.7: telemetry without self-deception (about 35 lines, 7 points, 1 of them on a GPU)
#
# Write `honest_figures`, which makes those figures of any recording. Six points are for recordings with traps in them, and one is for what your
# function says of this device.
#
# **Before you code**, three questions:
#
# 1. While the spin kernel runs, its tensor share is 0. While GPM is not permitted, it is not known. What do you return in each case?
# 2. What would the example's energy be if you kept the old reading at 2.5 s?
# 3. In a recording with a sample every 0.1 s and then one after 2 s, what does the plain mean of a column say?
#
# | | type | meaning |
# |---|---|---|
# | `samples` | list of dicts | as above, at least two, in the order in which they were taken; times may be irregular, and a sample may stand there twice |
# | `window` | `[start, end]` | host seconds, `start < end`, on the clock of `"seconds"`; at least one sample lies in it |
# | `tokens` | int | tokens made in the window, 0 or more |
# | `peaks` | dict | `"hbm_gb_per_s"`, the peak bandwidth in GB/s, and `"hbm_gb"`, the capacity in GB |
#
# The result is a dict of plain numbers:
#
# | | unit | None when |
# |---|---|---|
# | `"joules"` | J, the counter at `end` less the counter at `start` | the energy is not known (below) |
# | `"mean_watts"` | W, over the window | the energy is not known |
# | `"joules_per_token"` | J | the energy is not known, or no token was made |
# | `"tokens_per_joule"` | 1/J | the energy is not known |
# | `"tensor_share"` | share of time from 0 to 1, from GPM | a part of the window has no GPM |
# | `"dram_gb_per_s"` | GB/s, GPM's share times the peak | a part of the window has no GPM |
# | `"busy_time_share"` | share of time from 0 to 1, from `busy_percent` | never |
# | `"throttled_by"` | list of names: the five with **yes** above, each once, in any order; `[]` when there are none | never |
# | `"lowest_sm_mhz"` | MHz | never |
#
# - **Fresh readings.** Of equal readings one after another, only the first counts. The counter at a moment lies on the straight line between
#   the fresh readings around it; at a fresh reading it is that reading. The energy is not known when no fresh reading stands at or before `start`,
#   or none at or after `end`. Nor is it known when the counter falls anywhere from the last fresh reading at or before `start` to the first one at
#   or after `end`. A fall outside of these does not matter.
# - **Intervals.** `gpm` and `busy_percent` of a sample stand for the time since the sample before it. An interval counts with the seconds that lie inside
#   the window. One that only touches the window has none, and neither has the interval between a sample and its double; what stands there,
#   or does not, is of no interest.
# - **Beyond the recording.** The window may begin before the first sample, or end after the last. Then the energy is not known. The other
#   figures are not compared for such a window, but your function has to return.
# - **Moments.** `sm_mhz` and `reasons` count when `start <= seconds <= end`. A bit that is not in the table is no reason.
#
# <details><summary>Hint: where to begin</summary>
#
# With the fresh readings: a list of (seconds, millijoules). Then a small function that gives the counter at a moment. Once it gives 150 J and 950 J
# for the example, look for what makes the energy unknown.
# </details>
#
# <details><summary>Hint: seconds inside the window</summary>
#
# The interval from `a` to `b` and the window share `min(b, end) - max(a, start)` seconds, if that is positive.
# </details>
#
# <details><summary>Hint: 0 and None</summary>
#
# In Python both are false. `if tensor:` and `tensor or None` cannot tell them apart; `tensor is None` can.
# </details>

# %% grade_id="ex-1-7"
def honest_figures(samples: list, window: list, tokens: int, peaks: dict) -> dict:
    """Samples, [start, end] in host seconds, tokens, peaks -> the figures of the window, None for what is not known."""
    ### BEGIN SOLUTION
    start, end = window
    fresh = [s for i, s in enumerate(samples) if i == 0 or s["energy_mj"] != samples[i - 1]["energy_mj"]]
    before = [i for i, s in enumerate(fresh) if s["seconds"] <= start]
    after = [i for i, s in enumerate(fresh) if s["seconds"] >= end]
    used = fresh[before[-1] : after[0] + 1] if before and after else []
    counter = [s["energy_mj"] for s in used]

    def counter_at(moment):
        for i in range(1, len(used)):
            left, right = used[i - 1], used[i]
            if left["seconds"] <= moment <= right["seconds"]:
                share = (moment - left["seconds"]) / (right["seconds"] - left["seconds"])
                return left["energy_mj"] + share * (right["energy_mj"] - left["energy_mj"])

    known = len(used) > 1 and counter == sorted(counter)
    joules = (counter_at(end) - counter_at(start)) / 1e3 if known else None

    parts = []  # (seconds inside the window, the sample that stands for them)
    for i in range(1, len(samples)):
        inside = min(samples[i]["seconds"], end) - max(samples[i - 1]["seconds"], start)
        if inside > 0:
            parts.append((inside, samples[i]))

    def mean(value):
        return sum(inside * value(s) for inside, s in parts) / sum(inside for inside, _ in parts)

    seen = all(s["gpm"] is not None for _, s in parts)
    moments = [s for s in samples if start <= s["seconds"] <= end]
    names = {0x04: "sw_power_cap", 0x08: "hw_slowdown", 0x20: "sw_thermal_slowdown",
             0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake"}
    return {
        "joules": joules,
        "mean_watts": joules / (end - start) if known else None,
        "joules_per_token": joules / tokens if known and tokens else None,
        "tokens_per_joule": tokens / joules if known else None,
        "tensor_share": mean(lambda s: s["gpm"]["tensor_percent"]) / 100 if seen else None,
        "dram_gb_per_s": mean(lambda s: s["gpm"]["dram_percent"]) / 100 * peaks["hbm_gb_per_s"] if seen else None,
        "busy_time_share": mean(lambda s: s["busy_percent"]) / 100,
        "throttled_by": [name for bit, name in names.items() if any(s["reasons"] & bit for s in moments)],
        "lowest_sm_mhz": min(s["sm_mhz"] for s in moments),
    }
    ### END SOLUTION

# %% grade_id="ex-1-7-check"
lab.check("1.7", honest_figures)

# %% [markdown]
# <details><summary>The three questions (answer them first)</summary>
#
# 1. 0 in the first case, None in the second. A dashboard that shows both as 0 hides the difference.
# 2. With the old reading, the counter at 3 s would lie between 250 J at 2.5 s and 1650 J at 4 s: 250 + ⅓ · 1400 = 717 J. Less 150 J that is
#    567 J, and not 800.
# 3. It gives those 2 s the weight of 0.1 s.
# </details>
#
# **On this device.** The next cell records the GPU in front of you for a few seconds while one block spins, and again while it multiplies 4096 × 4096
# matrices. Your function gets both recordings, made through NVML at 10 samples a second, and has to say what is true of each: busy all the time in
# both, and the tensor cores at work in one of them. The bandwidth of this GPU's data sheet is the peak. Beside the points you see how the energy
# counter compares with the power readings. It needs NVML's energy counter and GPM, so Hopper or newer, and a GPU that nobody else uses meanwhile.

# %% grade_id="ex-1-7-timed"
lab.check_timed("1.7", honest_figures)

# %% [markdown]
# Here is what your function says of the example. Compare it with what was worked out above.

# %%
try:
    for figure, value in honest_figures(EXAMPLE, EXAMPLE_WINDOW, EXAMPLE_TOKENS, EXAMPLE_PEAKS).items():
        print(f"{figure:<18}{value}")
except NotImplementedError as still_open:
    print(f"The figures are made by your function. {still_open}")

# %% [markdown]
# ### What a token costs
#
# Decoding waits for memory, and reading the weights costs about the same energy for one sequence as for 64. So a token should become cheaper
# as the batch grows. **Predict** how much cheaper at batch 64 than at batch 1, and whether the board draws 64 times, twice, or nearly the same power.
#
# The loops are whole decode steps with the shapes of Llama-3-8B, 32 layers and the output head, 1024 tokens of context, replayed from a
# CUDA graph.

# %%
from course_lib.display.energy_figure import energy_figure

decodes = [figures for name, figures in loops.items() if name.startswith("decode ")]
batches = [int(figures["batch"]) for figures in decodes]
joules, watts = ([figures[key] for figures in decodes] for key in ("joules_per_token", "mean_watts"))
energy_figure(batches, joules, watts, loops_result["device"])
columns = {"batch": "batch", "ms/step": "step_ms", "tokens/s": "tokens_per_second", "W": "mean_watts",
           "J/token": "joules_per_token", "busy %": "busy_time_percent", "tensor %": "tensor_percent", "DRAM %": "dram_percent"}
print("".join(f"{title:>11}" for title in columns))
for figures in decodes:
    row = (figures.get(key, float("nan")) for key in columns.values())
    print("".join(f"{value:>11,.0f}" if value >= 1000 else f"{value:>11.4g}" for value in row))
cheaper, power = (decodes[-1][key] / decodes[0][key] for key in ("joules_per_token", "mean_watts"))
print(f"\nFrom batch {batches[0]} to {batches[-1]}, a token takes {cheaper:.1%} of the energy,", end=" ")
print(f"and the board draws {power:.2f} times the power. Idle, it draws {loops['idle']['mean_watts']:.0f} W.")

# %% [markdown]
# Power and work are two things. Compare batch 1 with idle: hundreds of watts more or less say that something moves, not that it is useful.
# The figure that tells is joules per *token*, and it is the one that a bill follows.
#
# It also helps you judge a piece of advice: on a machine that runs too hot, cut the batch by a quarter. Read the power column first. How much would a
# smaller batch take off it, and how much dearer would each token become?
#
# ### What the roadmap says
#
# The roadmap's first chapter has a table of production telemetry, a class that reads NVML, and advice about heat. Guess the verdict of each claim
# before you unfold it. For the first two a pencil is enough: how many requests per second is a million a day? And how many bytes can be
# read in 0.42 ms?

# %%
lab.predict("C055", "C056")

# %%
lab.predict("C048", "C059", "C060", "C061")

# %%
lab.predict("C072", "C073", "C254")

# %% [markdown]
# C061 is one you can try anywhere, with a GPU or without. NVML answers nobody who has not called `nvmlInit` first:

# %%
import pynvml

from course_lib.telemetry import sentence

try:
    print(pynvml.nvmlDeviceGetCount(), "device(s): something in this process has called nvmlInit already")
except pynvml.NVMLError as refused:
    print(sentence(refused))

# %% [markdown]
# ### What each tool can see
#
# No tool sees everything. Ask the question first, then choose.
#
# | | time of a kernel | tensor cores, DRAM | stalls | power, clocks | tokens | price |
# |---|---|---|---|---|---|---|
# | NVML, `nvidia-smi`, nvtop | no, a share of time | no | no | **yes** | no | nearly none; always on |
# | GPM (NVML, Hopper on) | no | **means over 0.1 s and more** | no | no | no | nearly none; may be closed |
# | DCGM and its exporter | no | **means, also before Hopper** | no | **yes** | no | low; for fleets |
# | CUDA events (section 3) | **of what you put them around** | no | no | no | no | low |
# | `torch.profiler` | **each kernel, with the call that launched it** | no | no | no | no | moderate; slows launches |
# | Nsight Systems (`nsys`) | **each kernel on a timeline, with NVTX ranges** | sampled | no | no | no | moderate |
# | Nsight Compute (`ncu`) | of one kernel, replayed | **exact, for each kernel** | **yes** | no | no | high: it runs a kernel many times |
# | the engine's histograms | no | no | no | no | **TTFT, ITL, TPOT** | nearly none |
#
# **Before you run the next cell**: five questions that somebody will ask you. Name a tool for each, without looking up.

# %% tags=["nbval-check-output"]
from course_lib.telemetry import QUESTIONS, who_sees

for question, asked in QUESTIONS.items():
    print(f"{asked[0].upper() + asked[1:] + '?':<48}{'; '.join(who_sees(question))}")

# %% [markdown]
# The roadmap has a list of tools too. NVTX for memory stalls (C042) and `nvprof` for the TTFT (C242) you have judged in section 3; the table
# above would have told you. **Predict** the other two:

# %%
lab.predict("C243", "C244")

# %% [markdown]
# What goes wrong in that list is always the same: a tool is asked for what it cannot see. NVTX only gives names to stretches of the timeline; it counts nothing. `nvprof`
# does not support GPUs from compute capability 8.0 on, and Nsight Systems and Compute took its place. And neither `nvidia-smi` nor
# kube-state-metrics knows what a token is: for TPOT, ask the engine or the client.
#
# The names that this course uses, with unit, definition and source of each, are data. You will meet those of the last rows in Phase 4.

# %% tags=["nbval-check-output"]
from course_lib.telemetry import METRICS

for m in METRICS[:8]:
    print(f"{m.name:<26}{m.unit:<6}{m.definition}  [{m.where}]")
print(f"... and {len(METRICS) - 8} more in course_lib.telemetry.METRICS")

# %% [markdown]
# ## 8. A scheduler that knows the roofline
#
# *About two hours.*
#
# Until now you asked what a step costs. An engine asks the opposite question, dozens of times a second: *which* step shall I do next? Some
# users wait for the next token of an answer. Others have only just sent a prompt. Memory holds so many keys and values and no more. What
# you choose is the step, and the step decides how long everybody waits.
#
# In **continuous batching** an engine makes this choice anew for every step. Nobody waits until a whole batch has finished: who is done
# leaves, who is new comes in. In this section you write the function that chooses. It is short. All the thinking goes into two numbers,
# and both are in the roofline.
#
# ### Prompts and answers in one step
#
# A step may hold both: one token for each running answer, a *decode*, and a piece of somebody's prompt, a **chunk**. The weights are read
# once for all of them. Take the 8B model on an H100 that reaches 60% of its arithmetic and 85% of its bandwidth, with 32 answers of 2048
# tokens. Their decode step alone moves 23.6 GB, which takes 23.6 GB / (0.85 × 3350 GB/s) = 8.3 ms, while the arithmetic is done after
# 0.9 ms and then waits.
#
# **Predict**: how long does the step take when it carries 256 tokens of a prompt as well? 1024? And how many can it carry within 40 ms?

# %% tags=["nbval-check-output"]
from course_lib.roofline import LLAMA_3_8B
from course_lib.roofline.scheduling import mixed_step_ms

PEAK, BANDWIDTH = 0.60 * 989.4e12, 0.85 * 3350e9  # FLOP/s and bytes/s that a good engine reaches on an H100

for chunk in (0, 256, 512, 1024, 1600, 2048, 8192):
    milliseconds = mixed_step_ms(LLAMA_3_8B, 32, 2048, chunk, PEAK, BANDWIDTH)
    print(f"32 decodes and {chunk:5} tokens of a prompt: {milliseconds:6.1f} ms")

# %% [markdown]
# The first 256 tokens cost nothing. The step waits for memory anyway, and their arithmetic fits into the wait. From there on every token
# adds its 2 FLOPs for each weight, and nothing is hidden any more. At about 1600 tokens the step has reached 40 ms. And a whole prompt of 8192
# tokens makes 32 people wait 223 ms for a token.
#
# So a prompt is cut into chunks, and the question of each step is how large the chunk may be. Sarathi-Serve (Agrawal et al., arXiv
# 2403.02310) called it *stall-free batching*; most engines do it today, with a token budget for the step that somebody has to choose. You
# can compute it.
#
# ### Two roofs, two budgets
#
# We take the step time apart once more, now with three numbers that belong to an engine (one model on one machine):
#
# | | | meaning | 8B on the H100 above |
# |---|---|---|---|
# | $w$ | `weights_ms` | time to read the weights | 15.01 GB / 2848 GB/s = 5.27 ms |
# | $a$ | `ms_per_token` | arithmetic of one token, 2 FLOPs for each weight | 15.01 × 10⁹ FLOP / 593.6 TFLOP/s = 0.0253 ms |
# | $v$ | `ms_per_kv_token` | time to read the KV of one token | 131 072 B / 2848 GB/s = 0.000046 ms |
#
# With $T$ tokens in the step, decodes and prompt tokens alike, and $S$ tokens of KV held by the requests that take part,
#
# $$ t = \max\left( T a, \; w + S v \right). $$
#
# (The FLOPs of attention are left out. A prompt token is charged with the output head instead, which it does not need; at about 2000
# tokens of context the two are equally large.) A step keeps a target when *both* sides do, so each roof
# gives a budget:
#
# - **Arithmetic** limits the tokens of a step: $T$ is at most target / $a$. For 40 ms, 1582 tokens. Decodes come first, one token
#   each; chunks get what is left.
# - **Memory** limits the KV that takes part: $S$ is at most (target − $w$) / $v$. For 40 ms, 754 thousand tokens.
#
# **Before you go on**: beside 16.1 GB of weights this H100 has room for (80 − 16.1) GB / 131 072 B = 488 thousand tokens of KV. Which of the limits of $S$ will you meet
# first, time or room? And with a target of 20 ms?
#
# <details><summary>Answer</summary>
#
# At 40 ms, room: reading the *whole* memory of an H100 takes only 80 GB / 2848 GB/s = 28 ms. At 20 ms the time allows 320 thousand tokens, and
# you meet it before the memory is full. A scheduler has to watch both.
# </details>
#
# ### Three numbers, measured
#
# You would not take these numbers from a data sheet. An engine measures them when it starts: time a few decode steps with different
# batches and contexts, and fit a line. Here are steps of a stack of layers with the shapes of an 8B model, recorded on an H200 in the
# batch sweep of section 5.

# %%
from course_lib.recorded import recorded

sweep = recorded("batch_sweep")
steps = [row for row in sweep["rows"] if row["case"].startswith("step")]
held = torch.tensor([row["batch"] * row["context"] for row in steps], dtype=torch.float64)
took = torch.tensor([row["ours"] for row in steps], dtype=torch.float64)
line = torch.linalg.lstsq(torch.stack([torch.ones_like(held), held], dim=1), took[:, None]).solution[:, 0]
off = ((line[0] + line[1] * held) / took - 1).abs().max()
tflops = next(row["ours"] for row in sweep["rows"] if row["unit"] == "TFLOP/s")
ms_per_token = 2e3 * (LLAMA_3_8B.linear_params + LLAMA_3_8B.head_params) / (tflops * 1e12)

batches = [row["batch"] for row in steps]
print(f"{sweep['device']}, {len(steps)} decode steps, batch {min(batches)} to {max(batches)}")
print(f"weights_ms       {line[0]:.2f}")
kv_gb_per_s = LLAMA_3_8B.kv_bytes_per_token() / float(line[1]) / 1e6
print(f"ms_per_kv_token  {line[1]:.7f}, as if the KV were read at {kv_gb_per_s:.0f} GB/s")
print(f"ms_per_token     {ms_per_token:.4f}, from a product at {tflops:.0f} TFLOP/s")
print(f"The line is off by {100 * off:.0f}% at most. Token budget for 40 ms: {int(40 / ms_per_token)}")

# %% [markdown]
# A line through measured points is a good curve where there are points, and a guess beyond. Production schedulers keep a margin of some
# percent. In the exercise the curve is exact and you need none.
#
# ### Room that will be needed
#
# KV lies in **blocks**, here of 16 tokens. A request with 17 tokens holds 2. It grows by a token with every decode. So the pool may look
# half empty now, with everyone who is in it about to double.
#
# Suppose 144 blocks, and requests with 80 prompt tokens that may make 200 tokens each. A prompt takes 5 blocks, so 28 of them fit. Soon
# each needs 18 blocks, 504 in all, and the pool is full with everybody in the middle of an answer. No one can go on. An engine then has to
# throw somebody out and do the work again, or swap to the host. Ours does neither: who finds no block stands still.
#
# The cautious rule: **whoever begins is promised all that they may come to hold**. A request of $p$ prompt tokens that may make at most $n$ holds
# $p + n - 1$ tokens of KV when it makes its last one (the KV of the last token is never written). It begins only if this fits beside the promises
# of all who have begun, in the pool *and* in the memory budget $S$ of the step. With 279 tokens, 18 blocks each, that is 8 requests at a
# time. Many answers end earlier than they might, so the rule wastes some room; published engines bet on that and pay when they lose.
#
# ### One trace by hand
#
# An engine with round numbers: `weights_ms` = 10, `ms_per_token` = 0.02, `ms_per_kv_token` = 0.001; the target is 20 ms; 250 blocks of 16 tokens.
#
# | request | arrives | prompt | may make | holds in the end | blocks |
# |---|---|---|---|---|---|
# | A | 0 ms | 1500 | 3 | 1502 | 94 |
# | B | 0 ms | 600 | 3 | 602 | 38 |
# | C | 25 ms | 2000 | 2 | 2001 | 126 |
#
# The token budget is 20 / 0.02 = 1000, and $S$ may be 10 000. **Play the first six steps on paper**: who decodes, whose prompt gets how many
# tokens, how long does the step take? The last chunk of a prompt makes the first token of the answer.
#
# <details><summary>The six steps</summary>
#
# | step | starts | decodes | chunks | KV held | arithmetic | memory | ends | |
# |---|---|---|---|---|---|---|---|---|
# | 1 | 0 | | A 1000 | 0 | 20 | 10 | 20 ms | the budget is used up |
# | 2 | 20 | | A 500, B 500 | 1000 | 20 | 11 | 40 ms | A has its first token |
# | 3 | 40 | A | B 100 | 2000 | 2.0 | 12 | 52 ms | C is there, but 94 + 38 + 126 = 258 blocks are too many |
# | 4 | 52 | A, B | | 2101 | 0.04 | 12.1 | 64.1 ms | A makes its third token and leaves |
# | 5 | 64.1 | B | C 999 | 601 | 20 | 10.6 | 84.1 ms | C fits beside B; B leaves |
# | 6 | 84.1 | | C 1000 | 999 | 20 | 11.0 | 104.1 ms | one token of C's prompt is left |
#
# In step 3 hundreds of free tokens go unused. That is the price of the promise.
# </details>
#
# ### Exercise 1.8: a scheduler that knows the roofline (about 25 lines, 10 points)
#
# Write `plan_step(state)`. It is called before every step of a simulated engine and returns the plan of that step. It keeps nothing
# between two calls: all that it needs is in `state`, a fresh dict each time.
#
# | `state[...]` | |
# |---|---|
# | `"now_ms"` | the engine's clock, float |
# | `"itl_target_ms"`, `"ttft_target_ms"` | no gap between two tokens of an answer, and no wait for the first one, should be longer; float |
# | `"engine"` | a dict with `"weights_ms"`, `"ms_per_token"`, `"ms_per_kv_token"`, float |
# | `"block_size"`, `"total_blocks"`, `"free_blocks"` | tokens in a block, blocks of the pool, blocks that nobody holds now; int |
# | `"waiting"` | requests whose prompt is not done, in order of arrival: a list of dicts with `"id"`, `"arrived_ms"`, `"kv_tokens"` (held so far, 0 for those who have not begun), `"prompt_left"`, `"max_output"` |
# | `"running"` | requests that are making tokens: `"id"`, `"kv_tokens"`, `"output_left"` (at most so many more), `"last_token_ms"` |
# | result | `{"decode": [id, ...], "prefill": [(id, tokens), ...]}` with the ids of running requests, and of waiting ones with an int of at least 1 and at most `prompt_left`. Each id once. |
#
# The rules of the engine:
#
# - A step takes $t$ as above. $T$ is every decode and every prompt token of the plan. $S$ sums `kv_tokens` of the requests in the plan, as
#   they are *before* the step.
# - A decode writes one token of KV, a chunk as many as it has. A request with $k$ tokens holds ⌈$k$ / `block_size`⌉ blocks until it leaves.
#   An entry that needs more blocks than are free is refused.
# - The last chunk of a prompt makes the first token. A request may stop before it has made `max_output`; nobody knows in advance.
# - An empty plan while there is work is a mistake.
#
# And what is scored, with traces that are new each time:
#
# | criterion | points | |
# |---|---|---|
# | plans | 1 | every entry is one that the engine can carry out |
# | ITL | 3 | no gap between two tokens is above the target: long prompts beside running answers, and contexts so long that $S$ binds |
# | KV headroom | 2 | no entry is refused for want of blocks, and at each step all who run find a block if they need one |
# | nobody starves | 1 | a large request that does not fit yet is not passed over for ever by small ones: nobody waits for a first token more than 4 times as long as anyone does under a good scheduler |
# | goodput | 2 | the share of requests that meet both targets is at least 85% of a good scheduler's: a steady load, and a burst (who comes just before the end does not count) |
# | throughput | 1 | under overload, tokens of prompts and answers per second are at least 75% of a good scheduler's |
#
# The time that your function takes is not simulated. You may import `heapq`, `bisect`, `collections` and `itertools` inside it. A scheduler that does next to nothing keeps no promise: ITL and KV headroom also ask for a quarter of the tokens that a good scheduler
# makes. First come, first served is good enough here: who does not fit waits, and so do those behind.
#
# **Before you code**: somebody gives every step a chunk of 64 tokens, which never breaks the target. What is wrong with it? (What does
# a step with 64 tokens cost, and what one with 200?)
#
# <details><summary>Hint: in which order</summary>
#
# Everyone who runs, first. Then add up the promises: of those who run, and of those whose prompt has *begun* (`kv_tokens` > 0). Then walk through
# the waiting ones. One who has begun just gets a chunk. One who has not is promised its end first, or the walk is over.
# </details>
#
# <details><summary>Hint: the promises</summary>
#
# One who runs ends with `kv_tokens + output_left`. One who waits ends with `kv_tokens + prompt_left + max_output - 1`. Blocks are rounded up
# for each request, not for the sum. In Python, `-(-tokens // size)` rounds up.
# </details>

# %% grade_id="ex-1-8"
def plan_step(state: dict) -> dict:
    """The state of an engine -> {"decode": [id, ...], "prefill": [(id, tokens), ...]} for its next step."""
    ### BEGIN SOLUTION
    engine, target, size = state["engine"], state["itl_target_ms"], state["block_size"]

    def end_tokens(request: dict) -> int:
        if "output_left" in request:
            return request["kv_tokens"] + request["output_left"]
        return request["kv_tokens"] + request["prompt_left"] + request["max_output"] - 1

    token_budget = int(target / engine["ms_per_token"]) - len(state["running"])
    begun = state["running"] + [r for r in state["waiting"] if r["kv_tokens"]]
    kv_left = (target - engine["weights_ms"]) / engine["ms_per_kv_token"] - sum(map(end_tokens, begun))
    blocks_left = state["total_blocks"] - sum(-(-end_tokens(r) // size) for r in begun)

    prefill = []
    for request in state["waiting"]:
        if not request["kv_tokens"]:  # it has not begun, so it needs a promise
            kv_left -= end_tokens(request)
            blocks_left -= -(-end_tokens(request) // size)
        if kv_left < 0 or blocks_left < 0 or token_budget < 1:
            break
        chunk = min(request["prompt_left"], token_budget)
        prefill.append((request["id"], chunk))
        token_budget -= chunk
    return {"decode": [r["id"] for r in state["running"]], "prefill": prefill}
    ### END SOLUTION

# %% grade_id="ex-1-8-check"
lab.check("1.8", plan_step)

# %% [markdown]
# ### Your scheduler at work
#
# The trace that you played by hand, with your function:

# %% tags=["nbval-check-output"]
from course_lib.workloads.batching import simulate

BY_HAND = {
    "engine": {"weights_ms": 10.0, "ms_per_token": 0.02, "ms_per_kv_token": 0.001}, "itl_target_ms": 20.0, "ttft_target_ms": 200.0,
    "block_size": 16, "total_blocks": 250, "until_ms": 104.0,
    "requests": [
        {"id": number, "arrived_ms": at, "prompt_tokens": prompt, "max_output": most, "stops_after": most, "running": False}
        for number, at, prompt, most in ((1, 0.0, 1500, 3), (2, 0.0, 600, 3), (3, 25.0, 2000, 2))
    ],
}  # fmt: skip

try:
    records = simulate(BY_HAND, plan_step).records
except NotImplementedError as still_open:
    print(f"These are the steps that your function plans. {still_open}")
else:
    for number, r in enumerate(records, 1):
        work = f"{r['decode']} decodes, {r['prefill_tokens']:4} prompt tokens"
        print(f"step {number} from {r['start_ms']:5.1f} ms: {work}, {r['step_ms']:4.1f} ms, {r['used_blocks']:3} blocks in use")

# %% [markdown]
# ### The roadmap's scheduler
#
# The roadmap has a `RooflineScheduler` as well. It keeps two queues. From the one of prompts it takes up to 128 requests for a step, whole.
# For decoding it grows the batch, at most to 32, until the arithmetic intensity passes a threshold, `MIN_AI` = 0.2 FLOP/byte. Here is its
# logic, in our words; the numbers are the roadmap's.

# %%
MIN_AI = 0.2  # FLOP/byte, "where decode leaves the memory-bound regime"
FLOPS_PER_TOKEN, BYTES_PER_TOKEN = 0.17e12, 33e9


def compute_ai(batch):
    return (FLOPS_PER_TOKEN * batch) / (BYTES_PER_TOKEN * batch)


def adjust_decode_batch(waiting, most=32):
    """The smallest batch whose intensity reaches MIN_AI."""
    for batch in range(1, min(waiting, most) + 1):
        if compute_ai(batch) >= MIN_AI:
            return batch
    return min(waiting, most)


def roadmap_step(state):
    """The same as a plan: so many decodes, and up to 128 whole prompts."""
    batch = adjust_decode_batch(len(state["running"]))
    return {
        "decode": [request["id"] for request in state["running"][:batch]],
        "prefill": [(request["id"], request["prompt_left"]) for request in state["waiting"][:128]],
    }

# %% [markdown]
# **Predict** two things before the next cell. Which batch does `adjust_decode_batch` choose when 32 requests are running? And for the corrected
# intensity, FLOPs of $b$ tokens over weights read *once* plus the KV of $b$ requests: how does it grow with $b$?

# %% tags=["nbval-check-output"]
from course_lib.roofline import decode_step

print(f"{'batch':>6}{'roadmap, FLOP/byte':>20}{'corrected, FLOP/byte':>22}")
for batch in (1, 2, 4, 8, 16, 32, 64, 128):
    print(f"{batch:>6}{compute_ai(batch):>20.2f}{decode_step(LLAMA_3_8B, batch, 1024).flops_per_byte:>22.1f}")
print(f"\nbatches that it chooses for 1 to 1000 running requests: {sorted({adjust_decode_batch(n) for n in range(1, 1001)})}")

# %% [markdown]
# The batch stands above and below the line and cancels. The intensity is 5.15 for every batch, 5.15 is more than 0.2, and the scheduler returns 1 for
# ever. What it was meant to see, weights read once for everybody, is exactly what its formula lost. The corrected one is
#
# $$ \mathrm{AI}(b) = \frac{b \, F_\mathrm{token}}{W + b \cdot \mathrm{KV}}. $$
#
# It grows almost like $b$ at first, and flattens where the KV outweighs the weights. (The column is Llama-3-8B with 1024 tokens of context, in bf16.)
#
# Guess the verdict before you unfold it. (C063 to C065 are about the same scheduler; you judged them in section 5.)

# %%
lab.predict("C062")

# %% [markdown]
# ### Three schedulers, one trace
#
# Same requests, same engine: yours, the roadmap's, and a careful one that never takes more than 64 tokens of prompts in a step. The load is
# steady, and needs 65% of the arithmetic.

# %%
from course_lib.display.schedule_figure import schedule_figure
from course_lib.exercises.phase1.scheduler_cases import example_trace
from course_lib.workloads.served import goodput, longest_wait, tokens_per_second, worst_gap_ms


def careful_step(state):
    """Everyone decodes, and the first who waits gets 64 tokens."""
    first = [(request["id"], min(64, request["prompt_left"])) for request in state["waiting"][:1]]
    return {"decode": [request["id"] for request in state["running"]], "prefill": first}


trace = example_trace("steady", seed=2)
try:
    runs = {name: simulate(trace, step) for name, step in
            (("yours", plan_step), ("the roadmap's", roadmap_step), ("64 at a time", careful_step))}  # fmt: skip
except NotImplementedError as still_open:
    print(f"The figure compares your scheduler with two others. {still_open}")
else:
    limits = {key: trace[key] for key in ("itl_target_ms", "total_blocks")}
    schedule_figure({name: limits | {"records": run.records} for name, run in runs.items()}, until_ms=trace["until_ms"])
    print(f"{'':<15}{'goodput':>9}{'longest gap':>14}{'longest wait':>15}{'tokens/s':>11}")
    for name, run in runs.items():
        gap = max(worst_gap_ms(run, request) for request in run.all if request["made"])
        wait, rate = longest_wait(run)[0], tokens_per_second(run)
        print(f"{name:<15}{goodput(run):>9.0%}{gap:>11.0f} ms{wait:>12.0f} ms{rate:>11,.0f}")

# %% [markdown]
# <details><summary>What there is to see in it (run it first)</summary>
#
# - **Yours** touches the target line and never passes it: when prompts wait, each step is filled up to the budget, and otherwise steps are
#   as short as a decode.
# - **The roadmap's** decodes one request at a time, so the others stand still: their gap is not a step, it is the whole trace. Where several prompts
#   meet, its steps shoot past the line too. With short prompts it looks quick, because prompts go in whole. None of it is of use to someone who reads.
# - **64 at a time** keeps every gap far below the target and cannot keep up. A step with 64 tokens waits for the weights as long as one with
#   200, so two thirds of its arithmetic go unused, and the queue grows.
# - The pool is nearly empty throughout. With this load, time is scarce and room is not; "small pool" in `example_trace` shows the opposite.
# </details>
#
# One more thing to try. Halve your token budget, and run the figure again with `example_trace("overload")`: throughput hardly changes, and the gaps
# halve. A step is efficient as soon as its arithmetic outweighs reading the weights, 208 tokens on this engine, the token threshold of section 2
# corrected for the rates that are reached. Beyond that, larger chunks buy a few percent of TTFT with everyone's ITL. **The target tells you
# how large a step may be; the ridge tells you how small it may be.** Between the two, you choose.
#
# What the simulator leaves out: the time to plan and to launch, attention's arithmetic, prefixes that several prompts share, requests that
# give up, and several GPUs. Phase 4 puts this scheduler into a real engine, where it meets them.

# %% [markdown]
# ## 9. The third regime: launches
#
# *About 90 minutes.*
#
# A roofline has two limits, memory and arithmetic. A small model at batch 1 often meets neither. Its kernels are so short that the device
# finishes one before the host has launched the next, and then waits. The step takes as long as the *host* needs, and a faster GPU would not
# change it.
#
# ### What a launch costs
#
# To launch a kernel, Python calls PyTorch, PyTorch checks shapes and picks a kernel, the driver packs the arguments and writes a command
# into a queue that the device reads. That is some 5 to 20 microseconds of one CPU core, the same for a kernel that moves a kilobyte and
# for one that moves a gigabyte. The host does not wait for the kernel. It goes on to the next launch, so long kernels hide the launches
# behind them, and short ones do not.
#
# Say a launch takes $h$, and kernel $i$ runs for $d_i$. A kernel starts when its own launch is done *and* the kernel before it has ended:
#
# $$ \mathrm{start}_i = \max\big((i + 1)\, h,\; \mathrm{end}_{i-1}\big), \qquad \mathrm{end}_i = \mathrm{start}_i + d_i, \qquad i = 0, 1, 2, \ldots $$
#
# For many kernels this comes to
#
# $$ t \approx \max\Big(\sum_i d_i,\; n h\Big). $$
#
# The left term is the device's, the right one the host's. **Predict**: four kernels, each launch takes 5 µs. When does the last one
# end if each runs for 2 µs, and when if each runs for 9 µs? Use the recurrence.

# %%
from course_lib.display.launch_timeline_figure import launch_timeline_figure
from course_lib.roofline.launches import eager_limit_seconds, eager_seconds, queue


def timeline(kernels_us, launch_us):
    """Rows of a picture: what the host does and what the device does."""
    rows, ran = [], queue(kernels_us, launch_us)
    for run in ran:
        rows.append({"row": "host", "what": "launch", "start_us": run.launched - launch_us, "end_us": run.launched})
        rows.append({"row": "device", "what": "kernel", "start_us": run.start, "end_us": run.end})
    return rows, [(f"step: {ran[-1].end:.0f} µs", 0, ran[-1].end)]


short_us, long_us, launch_us = [2.0] * 4, [9.0] * 4, 5.0
launch_timeline_figure({
    "Kernels of 2 µs: the device waits": timeline(short_us, launch_us),
    "Kernels of 9 µs: the host is ahead": timeline(long_us, launch_us),
});

# %% tags=["nbval-check-output"]
print("kernels    exact     max(device, host)")
for kernels_us in (short_us, long_us, [2.0] * 400, [9.0] * 400):
    exact, limit = eager_seconds(kernels_us, launch_us), eager_limit_seconds(kernels_us, launch_us)
    print(f"{len(kernels_us):>3} x {kernels_us[0]:.0f} µs{exact:>7.0f} µs{limit:>12.0f} µs")

# %% [markdown]
# With four kernels, the $\max$ is off by one launch or one kernel. With four hundred, nobody sees the difference.
#
# How long must a kernel be to hide its launch? As long as the launch. On paper we take 5 µs. At the 3350 GB/s of an H100's sheet,
#
# $$ 5\ \text{µs} \cdot 3350\ \text{GB/s} = 16.75\ \text{MB}. $$
#
# That is a 4096 × 2048 weight in bf16. A norm over one token moves 33 kB; to the host it costs as much as the largest product of the model.
#
# ### A small model and a large one, on paper
#
# Qwen3-0.6B has 28 layers, width 1024, 16 query heads and 8 KV heads of 128, an MLP of 3072, and a vocabulary of 151 936
# (arXiv 2505.09388). Fused as an engine does it, a layer is about ten kernels: two norms, four products, RoPE, attention, which may take two, and SwiGLU.
# Written operation by operation in plain PyTorch, it is two dozen or more. One user, 1024 tokens of context, an H100 by its sheet, 5 µs a launch:
#
# | | Qwen3-0.6B | Llama-3-8B |
# |---|---|---|
# | weights in bf16 | 2 B × 0.596 × 10⁹ = 1.19 GB | 2 B × 7.505 × 10⁹ = 15.01 GB |
# | KV of 1025 tokens | 0.12 GB | 0.13 GB |
# | device: bytes / 3350 GB/s | **0.39 ms** | **4.52 ms** |
# | host, ten kernels a layer | 28 × 10 × 5 µs = **1.40 ms** | 32 × 10 × 5 µs = **1.60 ms** |
# | host, 25 kernels a layer | 28 × 25 × 5 µs = **3.50 ms** | 32 × 25 × 5 µs = **4.00 ms** |
#
# The large model hides its launches, if narrowly in the last row. The small one cannot: it has as many kernels and a thirteenth of the
# weights. At ten kernels a layer it makes at most 714 tokens a second where its memory would allow 2560, and at 25 only 286. Its host
# could be slower still, since scheduler, sampling and tokenizer run there too.
#
# Two remedies follow from $n h$. Make $n$ smaller: fuse kernels, as `torch.compile` does and as you will in Phase 2. Or pay $h$ once for
# all of them.
#
# ### A recording of launches
#
# A **CUDA graph** is a list of launches with everything that the driver needs to start them: which kernel, which grid, which arguments.
# You *capture* it by running your code once while the stream records instead of executing. Then you *replay* it: one launch, and the device
# works through the list by itself, with about a microsecond from one small kernel to the next.
#
# ```python
# graph = torch.cuda.CUDAGraph()
# with torch.cuda.graph(graph):   # nothing runs in here, it is written down
#     out = step(x)
# graph.replay()                  # now it runs, and out holds the result
# ```
#
# What was written down are *addresses*, not tensors and not Python. From that follows everything a graph forbids (PyTorch's notes on
# CUDA graphs, [docs.pytorch.org](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs), and NVIDIA's list of
# [constraints](https://docs.nvidia.com/dl-cuda-graph/cuda-graph-basics/constraints.html)):
#
# | | why |
# |---|---|
# | A replay reads its input where it was at the capture. | Copy new values *into* that memory. `x = new_x` changes a name in Python, and the graph never looks at it. |
# | It writes its output where it was at the capture. | The next replay overwrites it. Whoever wants to keep a result copies it out. |
# | Shapes are fixed. | The grid and the sizes are among the arguments. Another batch is another graph. |
# | No `.item()`, no `print`, no `synchronize()` in a capture. | The host would wait for a value that nobody computes. |
# | An `if` in Python is decided at the capture. | A replay runs no Python. |
# | Nothing may be compiled or tuned in a capture. | That needs the device. Run the step once before. |
#
# Let us watch this on a **simulated device**, which keeps the same rules on any machine. `device.cuda` has the names of `torch.cuda`.
# **Predict** each line of the output.

# %% tags=["nbval-check-output"]
from course_lib.workloads.simulated_cuda import simulated_device

device, step = simulated_device([2 * torch.eye(2), torch.eye(2)])  # step: tanh(tanh(x @ 2) @ 1), four kernels
with device:
    x = torch.zeros(1, 2)
    step(x)  # the first call with one row compiles
    print("launches of a step:           ", device.take_notes()["launches"] - 1)  # one was torch.zeros
    graph = device.cuda.CUDAGraph()
    with device.cuda.graph(graph):
        out = step(x)
    print("after the capture, out holds: ", out.tolist())
    graph.replay()
    print("after a replay:               ", out.tolist())
    x.fill_(1.0)
    print("x has changed, out has not:   ", out.tolist())
    graph.replay()
    print("after another replay:         ", [[round(value, 3) for value in row] for row in out.tolist()])
    device.take_notes()
    graph.replay()
    print("launches of a replay:         ", device.take_notes()["launches"])

# %% [markdown]
# ### Buckets
#
# The batch of a server changes from step to step, and a graph has one shape. So engines capture a graph for each of some sizes, and pad a batch up to
# the next of them. vLLM calls them `cudagraph_capture_sizes`; unless told otherwise it takes 1, 2, 4, then every 8 up to 248, then every 16 from 256 to at
# most 512 (`vllm/config/compilation.py`, version 0.13). What no size holds is launched kernel by kernel: with batches like those, the device is
# busy enough to hide the launches.
#
# Padding is cheap. In a step that waits for memory, 16 rows take nearly the time of 9, as you saw in section 5. Graphs are not free
# either: each takes time to capture, when the server starts, and memory of its own.
#
# ### Exercise 1.9: CUDA graphs (about 20 lines, 8 points, 2 of them on a GPU)
#
# Write `graphed`. It gets a step and a list of buckets, captures a graph for each bucket, and returns a function `run` that does what
# `step` does, by replaying.
#
# | | type | meaning |
# |---|---|---|
# | `cuda` | a namespace | stands for `torch.cuda`: the simulated device here, `torch.cuda` itself on a GPU. Use it, and not `torch.cuda` |
# | `step` | function, `[batch, width]` -> `[batch, width]` | one step of a model; each row goes through it on its own |
# | `example` | `[1, width]` | an input of the right width, dtype (float32, float64 or float16) and device; its values mean nothing |
# | `buckets` | list of int | different sizes, at least 1, in any order |
# | `graphed(...)` | function `run` | `run(x)`, x `[batch, width]` with batch $\ge$ 1 -> `[batch, width]`, as `step(x)` gives it; x has the width, dtype and device of `example` |
#
# What `graphed` does when it is called, and only then:
#
# - It captures one graph for each bucket, and no other.
# - Before each capture it calls `step` at least once with that many rows. The first call of `step` with a number of rows compiles, and no capture allows that.
# - A graph's input memory has the dtype and the device of `example`, and is made *before* the capture.
#
# What a call of `run` does:
#
# - It takes the **smallest bucket that holds the batch** (a bucket of 4 holds a batch of 4), replays that graph once, and does not call `step`.
# - If the batch is larger than all buckets, it replays nothing and returns `step(x)`.
# - It returns as many rows as came in, in memory of their own: a result stays what it is, whatever is called later. It leaves `x` as it is.
# - It makes **at most 5 launches**, however many kernels a step has.
#
# How the simulated device counts: outside a capture, each torch operation runs and is one launch (views such as slices and `torch.empty` are
# none). Inside a capture it is written down, and what it makes holds NaN until a replay. A replay is one launch. Two captures
# cannot be nested, a `CUDAGraph` takes one capture, and an empty capture is an error. Of `torch.cuda` there are `CUDAGraph`, `graph`,
# `Stream`, `stream`, `current_stream`, `synchronize`, `graph_pool_handle` and a few more, enough for the warm-up on a side stream that PyTorch's notes recommend.
#
# **Before you code**, three questions:
#
# 1. The buckets are 8, 1, 4, and 3 rows come in. Which graph is replayed? What lies in its other rows, and does it matter?
# 2. In `run`, somebody writes `static = x` and then replays. For which input is the result?
# 3. In `run`, somebody returns `out[:3]`. What does the caller find in it after the next call?
#
# <details><summary>Hint: what to keep</summary>
#
# For each bucket three things belong together: the graph, its input and its output. A dict from the bucket to the three will do. Keep the input
# and the output alive; the graph knows only their addresses.
# </details>
#
# <details><summary>Hint: the rows that nobody asked for</summary>
#
# They hold the rows of an earlier, larger batch. Since each row goes through the step on its own, they change nothing in the others. (In a real
# engine they must also write nowhere that matters: padded rows get a KV slot that nobody reads.)
# </details>
#
# <details><summary>Hint: launches</summary>
#
# Three are enough: copy in, replay, copy out.
# </details>

# %% grade_id="ex-1-9"
def graphed(cuda, step, example: torch.Tensor, buckets: list):
    """A function run(x), [batch, width] -> [batch, width], that replays a graph of the step."""
    ### BEGIN SOLUTION
    graphs = {}
    for rows in buckets:
        static = example.new_zeros(rows, example.shape[1])
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            step(static)
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            out = step(static)
        graphs[rows] = graph, static, out

    def run(x: torch.Tensor) -> torch.Tensor:
        batch = x.shape[0]
        fitting = [rows for rows in graphs if rows >= batch]
        if not fitting:
            return step(x)
        graph, static, out = graphs[min(fitting)]
        static[:batch].copy_(x)
        graph.replay()
        return out[:batch].clone()

    return run
    ### END SOLUTION

# %% grade_id="ex-1-9-check"
lab.check("1.9", graphed)

# %% [markdown]
# <details><summary>The three questions (answer them first)</summary>
#
# 1. That of bucket 4. In its fourth row lies what an earlier call left there, or what you filled the memory with. It does not matter, as each
#    row goes through the step on its own.
# 2. For what lay in the memory of the capture before. `static` is now the name of another tensor, which the graph does not know.
# 3. The first three rows of the next call's result.
# </details>
#
# **On this device.** On a GPU, the next cell gives your function the real `torch.cuda` and a step of 96 small kernels, and times it against our
# graphs, in turns, each call with an input of its own. The bar is 0.9 of our speed, half of it earns nothing. Results are compared after the last
# call, so one that does not stay is found here too. It also says how many times faster the graphs are than 96 launches.

# %% grade_id="ex-1-9-timed"
lab.check_timed("1.9", graphed)

# %% [markdown]
# ### What the roadmap says
#
# The roadmap looks at decoding in several frameworks and finds the same gap between what they reach and what the tensor cores could do. You have now seen
# both halves of the answer. Judge the claim before you unfold it.

# %%
lab.predict("C058")

# %% [markdown]
# The *bound* is hardware: nobody reads 15 GB faster than the memory does. The *distance* to the bound is software, and it differs. The
# next cells show one and the same step, at batch 1 and 1024 tokens of context, run in six ways: plain PyTorch, one operation after another; each layer through
# `torch.compile`; the course's stack of fused kernels; and each of the three replayed from a CUDA graph. All read the same weights and the
# same KV, so all have one floor: those bytes at the rate that this device's memory was measured to read.
#
# **Predict**: which of the six come within 20% of the floor, for the small model and for the large one? Which model gains more from a graph?

# %%
import time

from course_lib.recorded import recorded
from course_lib.roofline.launches import QWEN3_0_6B


def milliseconds(call, steps=20):
    """Host time of a step, from one idle device to the next."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps * 1e3


if torch.cuda.is_available():
    from course_lib.workloads.decode_stack import DecodeStack
    from course_lib.workloads.plain_step import PlainStep

    stack = DecodeStack(QWEN3_0_6B.numbers(), QWEN3_0_6B.layers, batch=1, context=1024)
    ways = {
        "plain torch": PlainStep(stack).step,
        "the course's stack": stack.step,
        "the course's stack in a graph": stack.graph(),
    }
    print(f"{QWEN3_0_6B.name} on {torch.cuda.get_device_name()}, measured now")
    for way, call in ways.items():
        ms = milliseconds(call)
        print(f"  {way:<32}{ms:8.3f} ms{1e3 / ms:8.0f} tokens/s")
    del stack, ways
    torch.cuda.empty_cache()
    print()

try:
    overhead = recorded("launch_overhead")
except FileNotFoundError:
    overhead = None
    print("The six ways were not recorded yet.")
else:
    print(f"{overhead['device']}, recorded on {overhead['date'][:10]}, batch 1, context 1024")
    for row in overhead["rows"]:
        if row["part"] == "step" and row["ours"]:
            kernels = f", {row['kernels']} kernels" if row.get("kernels") else ""
            above = f"{1 / row['roof_share']:7.2f} times the floor{kernels}"
            print(f"  {row['model']:<12}{row['variant']:<32}{row['ours']:8.3f} ms{above}")
        elif row["part"] in ("launch", "node", "graph", "compile") and row["ours"]:
            print(f"  {row['case']:<44}{row['ours']:8.2f} {row['unit']}")

# %%
from course_lib.display.launch_regimes_figure import launch_regimes_figure

if overhead:
    rows = [row for row in overhead["rows"] if row["ours"]]
    launches_us = [row["ours"] for row in rows if row["part"] == "launch"]
    points = {}
    for row in rows:
        if row["part"] == "step" and row.get("kernels"):
            point = row["variant"].replace(" in a graph", "").split(",")[0].replace("the course's ", "")
            device_us, step_us = (ms / row["kernels"] * 1e3 for ms in (row["busy_ms"], row["ours"]))
            points.setdefault(row["model"], []).append((point, device_us, step_us, row["in_graph"]))
    title = f"{overhead['device']}, recorded on {overhead['date'][:10]}, batch 1"
    if points and launches_us:
        launch_regimes_figure(points, (min(launches_us), max(launches_us)), title)

# %% [markdown]
# Read it as a roofline. On the slope a step takes as long as its kernels; on the level part it takes as long as its launches, and
# only there a graph helps. Filled points are launched one by one, open points come from a graph.
#
# <details><summary>What there is to see in it (run it first; it is about the H200)</summary>
#
# - **None of the six** comes within 20% of the floor. The nearest is the course's stack in a graph. It stays under one and a half times the
#   floor for the large model, and above four times for the small one, whose kernels are too short to reach any bandwidth.
# - **The distance between a filled point and its open one** is what the host costs. A graph makes the small model's stack some ten times as
#   fast, the large one's about twice as fast or more; how much depends on the host, and on what else it does.
# - **Fusing** moves a point to the right (fewer kernels, each longer), **a graph** moves it down to the slope. For the small model the second
#   buys far more than the first.
# - **A graph of unfused kernels** stays further from the floor than a graph of fused ones. Each of them reads and writes its tensor again, and none
#   takes less than a microsecond or so. A graph wins back what was lost to launches, and not what was lost to traffic.
# - **The paper was too kind.** By it, the fused kernels of the large model hide their launches. Measured, they take about twice as long one by one
#   as in a graph, or longer. This host needs more than the 5 µs for a launch, and the points lie above even what it needs: between two
#   launches the step's own Python runs.
# </details>
#
# ### Where the time of a step goes
#
# A profiler that reads the device's own time stamps shows both: how long each kernel ran, and how long nothing did. `torch.profiler` takes them from
# CUPTI, NVIDIA's interface for tools. A range that you mark on the host, with NVTX say, ends when the last *launch* in it is done, and so says
# little about kernels that run later. The bars are one step of the course's stack, launched kernel by kernel and replayed. The profiler itself
# makes launches slower, so the white part of the first bar is wider than without it.

# %%
from course_lib.display.step_breakdown_figure import IDLE, step_breakdown_figure

if overhead:
    for model in dict.fromkeys(row["model"] for row in overhead["rows"] if row["part"] == "kernel"):
        bars = {}
        for row in overhead["rows"]:
            if row["part"] == "kernel" and row["model"] == model and row["ours"]:
                how = {"one by one": "launched one by one", "graph": "CUDA graph"}[row["how"]]
                pieces = bars.setdefault(how, {})
                pieces[row["kernel"]] = row["ours"]
                pieces[IDLE] = pieces.get(IDLE, 0.0) + row["count"] * row["gap_us"]
        if bars:
            step_breakdown_figure(bars, f"{model}, batch 1, context 1024, {overhead['device']}")
else:
    print("The breakdown was not recorded yet.")

# %% [markdown]
# The same tool works on a machine without a GPU, where it shows operations on the CPU. Here is a step of two tiny layers in plain PyTorch, its
# operations by the time spent in them. **Predict**: how many products does it have, and what share of all the calls is that?

# %%
from course_lib.workloads.decode_stack import DecodeStack
from course_lib.workloads.kernel_trace import breakdown, host_operations, kernel_trace
from course_lib.workloads.plain_step import PlainStep

tiny = {"hidden": 128, "mlp_hidden": 192, "heads": 4, "kv_heads": 2, "head_dim": 32, "vocab": 320}
tiny_step = PlainStep(DecodeStack(tiny, 2, 1, 64, device="cuda" if torch.cuda.is_available() else "cpu")).step
tiny_step()
try:
    groups = breakdown(kernel_trace(tiny_step))
except RuntimeError:  # no GPU, or one that lets no profiler look
    groups = host_operations(tiny_step)
print(f"{len(groups)} kinds, {sum(group.count for group in groups)} in all; those that took longest:")
for group in groups[:8]:
    idle = f", idle before it {group.gap_us:5.1f} µs" if group.gap_us else ""
    print(f"  {group.name[:56]:<58}{group.count:>4} times{group.mean_us:>8.1f} µs each{idle}")

# %% [markdown]
# Two layers and a head have nine products. Everything else in the list normalises, turns, casts, copies or reshapes a few hundred values, and each
# call costs the host its microseconds all the same. That is what $n h$ looks like from inside.
#
# **When to think of launches**: the step is many times its bandwidth floor; its time hardly changes when you halve the batch or the model's
# width; the profiler shows gaps. **When not to**: the kernels lie back to back. Then a graph has nothing to win, and you are back at the roofline.

# %% [markdown]
# ## 10. What the roadmap got right and wrong
#
# *About 20 minutes.*
#
# This course follows a roadmap: a list of what an inference engineer should know, with figures beside it. Its list is good. Its figures
# are another matter, and by now you can judge them. We took 267 statements out of it, 53 of them in this phase, and each one is kept with
# a verdict, a reason, and a check that somebody else can repeat. You have met many of them in the sections above.
#
# **Before you run the cell**: out of 53, how many do you expect to hold as they stand?

# %%
from course_lib import claims

claims.summary(phase=1)

# %% [markdown]
# Few of the wrong ones are wrong about *what matters*. Decoding is limited by memory, batching helps, telemetry is needed: all true. What
# fails is the number, and it fails in three ways that you will meet again in papers, blog posts and your own notes.
#
# ### A unit gets lost
#
# The most frequent kind. The cell does the arithmetic of eight claims again, each with the roadmap's own operands.

# %% tags=["nbval-check-output"]
slips = [  # claim, what is computed, its operands as the roadmap gives them, and the result it prints
    ("C036", "FLOPs of the example layer", "2*8*32*4096*4096", 8.5e12),
    ("C037", "bytes it moves", "8*32*4096*4", 2.1e9),
    ("C038", "its FLOP per byte", "8.5e12/2.1e9", 4.1),
    ("C039", "ridge point of the H100", "1000/6", 0.17),
    ("C044", "FLOPs of a decode step", "2*4096*4096+2*4096*32768", 0.17e12),
    ("C045", "bytes of KV it reads", "4096*(2+2048)*2", 33e9),
    ("C046", "its FLOP per byte", "0.17e12/33e9", 0.005),
    ("C053", "ridge point of the B200", "4000/9", 0.44),
]
print(f"{'':<6}{'':<28}{'printed':>10}{'computed':>11}{'ratio':>10}")
for claim_id, what, operands, printed in slips:
    computed = claims.evaluate(operands)
    print(f"{claim_id:<6}{what:<28}{printed:>10.3g}{computed:>11.3g}{printed / computed:>10.3g}")

# %% [markdown]
# Five of the eight are off by a thousand to within a few per cent, up or down: a tera was read as a giga somewhere. The others are off by
# about 500 or 2000. Look at the third line: its two operands are themselves wrong, in the same direction, so their quotient is off by
# less than either, and then a thousand is lost once more. Several slips can hide each other, and the result looks harmless. 4 FLOP per byte
# is a perfectly ordinary intensity. It is just not this one's: you know it as 227.6.
#
# *What helps*: write the unit behind every factor and cancel them by hand. Then ask what the result would mean. With a ridge of 0.17
# FLOP/byte, a chip with 3350 GB/s of bandwidth would do 0.57 TFLOP/s.
#
# ### A quantity meets the limit of another
#
# | claim | what is compared | with |
# |---|---|---|
# | C033 | bandwidth of the GPU's own memory | the presence of NVLink, which is a link to *other* GPUs |
# | C034 | L2 of one SM | L2 exists once for the chip: 132 times 2 MiB would be 264 MiB, the H100 has 50 MB |
# | C059 | activity of the tensor cores | NVML's utilisation, the share of *time* in which any kernel ran |
# | C060 | GB/s of memory traffic | a share of time multiplied by a capacity |
# | C070 | a long KV cache | the size of L2, although each step streams 15 GB of weights through it anyway |
#
# *What helps*: for both sides of a comparison say the unit, and whose it is: one SM, one chip, one node; per step, per second. C060 fails
# at the first word, since per cent times GB is not GB/s. C033 and C034 have the right unit and the wrong owner.
#
# ### A measurement that nobody made
#
# A measured time has a configuration: model, precision, batch, context, GPU. Where it is missing, a floor still tells what cannot be.
# **Before you run the cell**: the roadmap's 0.42 ms for a token of decode (C056), at 78% of an H100's bandwidth. How many bytes is that?
# And its 8.3 ms for the example layer with 8.5 TFLOP (C041): which rate?

# %% tags=["nbval-check-output"]
print(f"bytes read in 0.42 ms at 78% of 3.35 TB/s   {claims.evaluate('0.42e-3*0.78*3.35e12/1e9'):8.1f} GB")
print(f"bf16 weights of Llama-3-8B, no embedding    {claims.evaluate('2*(8030261248-525336576)/1e9'):8.1f} GB")
print(f"8.5e12 FLOP in 8.3 ms                       {claims.evaluate('8.5e12/8.3e-3/1e12'):8.0f} TFLOP/s")
print(f"dense bf16 peak of the H100 SXM             {989.4:8.0f} TFLOP/s")

# %% [markdown]
# Both beat the chip. **A measured time below the floor was not measured**, or not what it says; a floor costs a line of arithmetic, which
# makes it the cheapest test of a benchmark there is. The same test belongs in your own: here a result above 1.05 of a roof is never
# a record.
#
# ### Three to judge
#
# None of them was asked above. For each: what would show that it is false? Then choose. No score is kept.
#
# The first is the target that section 6 works with, the second the inequality of section 1. The third asks what a change of precision
# between two kernels costs, and what it forbids.

# %%
lab.predict("C001", "C028", "C071")

# %% [markdown]
# `labs claims --phase 1` lists all of this phase in a terminal, `labs claims --id C073` shows one with its check and its source. Where a
# check needs a device or a tool that nobody has asked yet, it reads "not checked here", and that is meant literally: if you can run it,
# you know something that this course does not.
#
# **Four questions to keep**, for any figure that somebody shows you:
#
# 1. What is its unit, and do the operands give that unit?
# 2. Whose quantity is it, and whose limit is it held against?
# 3. For which model, precision, batch, context and GPU?
# 4. Is it above the floor?

# %% [markdown]
# ## 11. One token, all the weights
#
# *About 20 minutes.*
#
# So far the models were shapes. This one writes. It has 5.77 million weights, knows Python and little else, and was trained for this
# course in five minutes on one H200; its card, `course_lib/model/weights/card.md`, says on what, and how well it does. It lies in the
# repository, so there is nothing to download.
#
# It is three orders of magnitude smaller than an 8B model, and its step is the same step: read every weight once, read the KV cache of
# the text so far, write one token. So everything in this phase applies to it.
#
# **Before you run the cell**, on paper: 5,770,496 weights of 4 bytes (the file has bfloat16; the cell loads float32, so that every
# machine counts the same bytes). How many MB does a step read? The model has 6 layers with 4 KV heads of 64: at how many tokens of
# context is the cache as large as the weights?

# %%
from course_lib.model import load

model = load("course-target", dtype=torch.float32, device="cuda" if torch.cuda.is_available() else "cpu")
kv_per_token = model.config.kv_bytes_per_token(4)
print(f"weights read by a step      {model.weight_bytes_per_step / 1e6:6.1f} MB")
print(f"KV cache, one token         {kv_per_token / 1e3:6.1f} kB: keys and values of 6 layers x 4 heads x 64, 4 bytes each")
print(f"equal at a context of       {model.weight_bytes_per_step / kv_per_token:6.0f} tokens (trained on {model.config.context} at once)")

# %% [markdown]
# Now watch it. Each coloured piece is one token, the darker the surer the model was; point at one to see what it nearly said instead. The
# table on the right has what the last steps read and how long they took.
#
# Type something of your own. The button **One token** makes one step, **Continue** makes 32. Things to try:
#
# - A token that it is sure of against one that it guesses. Which takes longer?
# - A short text against a long one. Which column changes?
# - Temperature 1, then **Start again** and **Continue** a few times: each start draws anew. What changes in the time? And in the bytes?

# %%
from course_lib.display.continue_widget import continue_text

continue_text(model)

# %% [markdown]
# A sure token costs what a hard one costs: a closing bracket at 100% has read every weight, like a name at 20%. That is the waste that
# speculation attacks (Phase 4): a small model guesses several tokens ahead, and the large model checks them all in one reading of its
# weights.
#
# ### Is it at its roof?
#
# A step cannot be faster than one pass over its bytes, from wherever they lie, cache or memory. The cell measures the step, the step's
# matrix products by themselves, one product with as many bytes, and a plain sum over as many: the fastest of many tries each, since
# whatever else runs on the machine only adds time. The sum stands for the roof. **Guess first**: which share of it does the step reach?

# %%
import time

from course_lib.model import generate


def best_ms(call):
    """The fastest of 100, in milliseconds; on a GPU each waits until the device is done."""
    times = []
    for _ in range(100):
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


prompt = model.tokenizer().encode("class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):")
steps = list(generate(model, prompt, max_new_tokens=64))[1:]
weights = [w.detach() for w in model.parameters() if w.dim() == 2]
inputs = [torch.ones(1, w.shape[1], device=w.device) for w in weights]


def products():
    for x, w in zip(inputs, weights, strict=True):
        x @ w.T


row = torch.ones(1, 256, device=model.device)
large = torch.ones((steps[-1].weight_bytes + steps[-1].kv_bytes) // row.nbytes, 256, device=model.device)
rows = {
    "a step": (1e3 * min(step.seconds for step in steps), large.nbytes),
    f"its {len(weights)} products alone": (best_ms(products), sum(w.nbytes for w in weights)),
    "one product, as many bytes": (best_ms(lambda: row @ large.T), large.nbytes),
    "one sum, as many bytes": (best_ms(large.sum), large.nbytes),
}
for name, (ms, count) in rows.items():
    print(f"{name:<28}{ms:7.3f} ms  {count / 1e6:5.1f} MB  {count / ms / 1e6:6.1f} GB/s")

# %% [markdown]
# A small share, on a CPU as on a GPU, and the lines say where the time goes:
#
# - *The step against its products.* The step makes nearly 400 calls into PyTorch, and 43 of them are products. The others move few
#   bytes, and each still costs its call.
# - *43 products against one.* On a GPU the one is far shorter: a launch from PyTorch costs about 10 µs (section 9), and an H200 could
#   read all 23 MB in 5 µs. Where both lines are alike, as on the CPU of our tests, their number is not to blame.
# - *One product against the sum.* What is left is the library: its product of a single row may read memory much more slowly than a sum
#   does. A roof is what the hardware can do, and not what a given call does with it.
#
# So this model is *too small for its chip*, and its floor in bytes tells you little about its time; on a GPU that is the third regime of
# section 9. An 8B model in bf16 has the same calls in each layer and 700 times the bytes, and there the roof is what you feel. Both are
# worth knowing when you measure on something small and speak about something large.
#
# ### How good is it, and how is that said?
#
# *Bits per byte*: the model reads a text that it has not seen, and for each token we note how many bits it would take to say which one came,
# $-\log_2 p$. The sum, divided by the bytes of the text, compares with any compressor. The text is a module of your own Python that
# training never saw.
#
# Beside the model stands its *draft*: 4.6 times smaller, and taught by it. Phase 4 lets the draft guess, and keeps a guess with the
# probability $\sum_x \min(p(x), q(x))$, where $p$ is the model's distribution of the next token and $q$ the draft's: 1 if they were equal.

# %%
import lzma

from course_lib.model import held_out
from course_lib.model.agreement import acceptance
from course_lib.model.evaluate import evaluate

text = held_out.read()[0]
draft = load("course-draft", dtype=torch.float32, device=model.device)
print(f"{text.module}.py, {len(text.content):,} bytes, bits per byte:")
print(f"  xz -9          {8 * len(lzma.compress(text.content, preset=9)) / len(text.content):6.3f}")
print(f"  course-draft   {evaluate(draft, model.tokenizer(), [text.content]).bits_per_byte:6.3f}")
print(f"  course-target  {evaluate(model, model.tokenizer(), [text.content]).bits_per_byte:6.3f}")
kept = acceptance(model, draft, model.tokenizer(), [text.content])
print(f"a guess of the draft is kept with probability {kept.value:.2f}, at temperature 1")

# %% [markdown]
# One file says little; the card has the numbers over 46 files, with intervals. There the draft needs 0.16 bits a byte more than its
# target, with a 95% interval from 0.15 to 0.17. So when you quantise this model in Phase 3, or let the draft guess for it in Phase 4, what
# it costs and what it gains can be measured.
#
# ### Where a token ends
#
# One last surprise. The same function header, without and with the line break behind it:

# %%
from course_lib.model import complete

header = "def area(width, height):"
for prompt in (header, header + "\n"):
    pieces = [model.tokenizer().decode([token]) for token in model.tokenizer().encode(prompt)]
    print(f"ends in {pieces[-1]!r:<8}->", repr(complete(model, prompt, max_new_tokens=12)))

# %% [markdown]
# The tokenizer has tokens for *a line break and the indentation after it*. In the text that the model saw, a line break that was a token
# by itself stood before a line at the margin, or one indented by a single blank or a tab. With the break you did not just say "go on": you
# said "this line is not indented", and the model believes you. The widget therefore takes blanks and line breaks off the end of your text
# and leaves them to the model. A client that cuts prompts at a number of characters, and not of tokens, gets such endings without meaning to.

# %% [markdown]
# ## Where you are

# %%
lab.progress()

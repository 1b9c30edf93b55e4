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
# **How the exercises work.** Each one asks for a function. You write it in the cell marked for it, run the check below, and see at once
# what is right, what is not, and where the first wrong value stands. Try as often as you like. Points that can only be earned on a GPU
# are shown as *waiting* on a machine without one; they are never lost. If a check does not end, press ■: it then says which line was
# running. After a restart of the kernel, run the first cell and your own ones again. Sections and exercises keep their numbers; those that are missing
# here are being written.

# %% grade_id="setup"
from course_lib import lab
import torch

lab.start(1)

# %% [markdown]
# ## 1. Two rates, and the point where they meet
#
# An H100 SXM multiplies matrices in bf16 at 989.4 TFLOP/s and reads its memory at 3350 GB/s. Suppose a kernel does $F$ floating-point
# operations and moves $B$ bytes. Arithmetic alone takes $F/P$ seconds, memory alone takes $B/W$, and since both go on at once, the kernel
# takes at least
#
# $$ t \ge \max\left(\frac{F}{P}, \frac{B}{W}\right). $$
#
# The two terms are equal when $F/B = P/W$. The left side, the **arithmetic intensity**, belongs to the kernel: how many operations it does
# with each byte it moves. The right side, the **ridge point**, belongs to the chip. Left of the ridge a kernel waits for memory, and more
# tensor cores would not help it. Right of it, the kernel waits for arithmetic.
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
# rate with 2:4 structured sparsity, which is twice the dense one and which no ordinary model reaches; a ridge point made of it is wrong
# by a factor of two.

# %% tags=["nbval-check-output"]
from course_lib.hardware import all_specs

print(f"{'GPU':<16}{'bf16 dense':>12}{'fp8 dense':>12}{'memory':>12}")
print(f"{'':<16}{'TFLOP/s':>12}{'TFLOP/s':>12}{'GB/s':>12}")
for gpu in all_specs().values():
    fp8 = f"{gpu.fp8_tflops:.1f}" if gpu.fp8_tflops else "-"
    print(f"{gpu.name:<16}{gpu.bf16_tflops:>12.1f}{fp8:>12}{gpu.hbm_gb_per_s:>12.0f}")

# %% [markdown]
# ### Exercise 1.1: ridge points (about 3 lines, 5 points)
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
# Unless an exercise says otherwise, leave the inputs as they are, and share no memory with them in what you return. Here the result is
# float64 whatever comes in, and it is *computed* in float64: casting a float32 result is too late, since the digits are gone.
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
# product and a copy of a gigabyte, both on random data, and gives your function the two rates. Expect both below the sheet. The point is
# not how far below, but that the *measured* ridge is the one that your kernels will meet.

# %% grade_id="ex-1-1-timed"
lab.check_timed("1.1", ridge_points)

# %% [markdown]
# ### What the roadmap says
#
# The roadmap that this course grew from puts the ridge point of the H100 at "about 0.17 FLOP/byte", from 1000 TFLOP/s and 6 TB/s, and
# says that decoding sits four orders of magnitude below it. **Predict** before you run the cell: what is right in that, what is wrong, and
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
# ## 6. From a step to a promise
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
# ### Who meets 40 ms?
#
# Now let your function answer the question that it was written for. The next cell makes the table: two models, two precisions, four GPUs, 1
# to 8 ranks, with 32 users who have 2048 tokens each, and prompts of 2048 tokens.

# %%
from itertools import product

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
    "link_gb_per_s": column(lambda shape, precision, gpu, n: gpu.nvlink_gb_per_s / 2),  # the sheet adds both directions
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
# ## Where you are

# %%
lab.progress()

# %% [markdown]
# # Phase 1: the roofline
#
# How fast can a GPU serve a model? You can answer that to within a few percent with a pencil, before you run anything. A step does some
# arithmetic and moves some bytes. The chip does arithmetic at one rate and moves bytes at another. Whichever takes longer is the time you
# cannot beat, and everything that you build in this course is measured against it.
#
# This phase gives you that pencil. You will know what a number on a data sheet is worth, why a chat model at batch 1 leaves most of the
# chip idle, and which changes can help and which cannot.
#
# **How the exercises work.** Each one asks for a function. You write it in the cell marked for it, run the check below, and see at once
# what is right, what is not, and where the first wrong value stands. Try as often as you like. Points that can only be earned on a GPU
# are shown as *waiting* on a machine without one; they are never lost.

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

roofline_figure([spec("h100-sxm"), spec("h200-sxm")], points={"decode, batch 1": 1.0, "256 tokens": 227.6});

# %% [markdown]
# Two things to take from it. The H200 has the arithmetic of the H100 and faster memory, so its slope is higher and its ridge lies further
# left. And one token at a time sits far down the slope on either chip: about one operation per byte, as the next exercises will show.
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
# Two conditions hold for every exercise of the course: leave the inputs as they are, and return a tensor of its own. Here the result is
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
roadmap_ridge = (1000 * 1e12) / (6 * 1e12)
h100_ridge = spec("h100-sxm").bf16_tflops * 1e12 / (spec("h100-sxm").hbm_gb_per_s * 1e9)
print(f"the roadmap's own figures, divided   {roadmap_ridge:7.1f} FLOP/byte, not 0.17: a factor of 1000 was dropped")
print(f"the H100 data sheet, dense bf16      {h100_ridge:7.1f} FLOP/byte: the memory is 3.35 TB/s, not 6")
print(f"decode at batch 1, about 1 FLOP/byte {h100_ridge:7.0f} times below the ridge: 2.5 orders of magnitude, not 4")

# %% [markdown]
# The error is in the units, and a glance at the hardware would have caught it: with a ridge of 0.17, adding two bf16 vectors (one
# operation for six bytes moved, 0.17 FLOP/byte) would already be limited by arithmetic, and nothing on the chip would ever wait for memory.

# %% [markdown]
# ## Where you are

# %%
lab.progress()

"""Trains the course's three language models from scratch on one GPU; every call resumes, and stops by itself in time.

    python -m tools.train course-target --shards DIR --out DIR --seconds 300
    python -m tools.train course-mla    --shards DIR --out DIR --seconds 300
    python -m tools.train course-draft  --shards DIR --out DIR --seconds 240 --teacher DIR/course-target.safetensors
    python -m tools.train course-target --shards DIR --out DIR --dry-run 64 128   tokens/s of batch sizes, nothing kept
    python -m tools.train course-target --shards DIR --out DIR --sweep 400        short runs at several learning rates

Shards come from tools/corpus. `python -m tools.train.card` makes the model card from what the runs wrote. The runs of the shipped
weights lie in tools/train/runs, and course_lib/model/weights/card.md has the calls that made them.

On paper (course-target, 1024 tokens at once): 2 * 5.77 M FLOPs a token in products and 6.3 M in causal attention, three times for
the backward pass: 53 MFLOP. Rows of 256 to 512 are short for tensor cores (about 250 TFLOP/s), and activations move about 450 kB
a token (0.12 us at 4 TB/s): about 0.35 us a token, 2.5 to 3.5 M tokens/s, 14 to 19% of the H200's 989 TFLOP/s. A batch of
64 * 1024 tokens holds about 12 GB and makes a step of 20 ms, long enough to hide the host's work. Larger batches gain little
speed and cost optimiser steps.

Measured (the runs of the shipped weights): 16 ms a step of course-target, 4.1 M tokens/s, 22% of 989 TFLOP/s.
"""

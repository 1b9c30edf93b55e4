"""Answers to the exercises of phase 2, a file for each exercise."""

from . import attend_rows, blocks, debugging, flash, merge, overlap, paged, prefix, split_decode, tile_needs, tiled

ANSWERS = {
    "2.1": merge, "2.2": attend_rows, "2.3": tiled, "2.4": flash, "2.5": tile_needs, "2.6": blocks, "2.7": prefix, "2.8": paged,
    "2.9": split_decode, "2.10": overlap, "2.11": debugging,
}  # fmt: skip
WRONG = {number: answers.WRONG for number, answers in ANSWERS.items()}
RIGHT = {number: answers.RIGHT for number, answers in ANSWERS.items()}

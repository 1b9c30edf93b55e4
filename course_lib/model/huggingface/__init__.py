"""The door to real checkpoints: a folder as Hugging Face lays it out -> our Decoder with its weights, and its tokenizer.

from course_lib.model.huggingface import load_checkpoint
model, tokenizer = load_checkpoint("~/models/Qwen3-0.6B", dtype=torch.bfloat16, device="cuda")
"""

from .load_checkpoint import load_checkpoint
from .tokenizer_file import CheckpointTokenizer

__all__ = ["CheckpointTokenizer", "load_checkpoint"]

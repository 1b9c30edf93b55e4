"""A small language model that can be read, replaced part by part, and run anywhere: architecture, shapes, weights, generation.

from course_lib.model import load, generate
model = load("course-target")

The course's own weights lie in weights/; weights/card.md says what they reach and what they learned from.
"""

from .config import Llama3Scaling, MlaConfig, ModelConfig
from .decoder import Decoder
from .generate import NewToken, complete, generate
from .load import load, save
from .outliers import outlier_twin
from .parts import Parts
from .presets import PRESETS, preset
from .sampling import GREEDY, Sampling

__all__ = [
    "GREEDY", "PRESETS", "Decoder", "Llama3Scaling", "MlaConfig", "ModelConfig", "NewToken", "Parts", "Sampling",
    "complete", "generate", "load", "outlier_twin", "preset", "save",
]  # fmt: skip

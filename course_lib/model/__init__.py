"""A small language model that can be read, replaced part by part, and run anywhere: architecture, shapes, weights, generation.

    from course_lib.model import load, generate
    model = load("course-target")
"""

from .config import Llama3Scaling, MlaConfig, ModelConfig
from .decoder import Decoder
from .parts import Parts
from .presets import PRESETS, preset

__all__ = ["PRESETS", "Decoder", "Llama3Scaling", "MlaConfig", "ModelConfig", "Parts", "preset"]

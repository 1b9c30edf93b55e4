"""Shapes by name: the course's own three models, and released ones for rooflines and benchmarks with random weights.

The course's models: how their shapes were chosen
- hidden 256, and every dimension that a product sums over is a multiple of 128 (256, 512, 640), so that INT4 with groups of 128
  divides each row; every other dimension is a multiple of 64, as tensor cores and kernels like them.
- All three in bf16 have to fit 25 MiB of git: 5.8 + 5.9 + 1.2 million parameters times 2 bytes are 24.6 MiB.
- target   8 heads of 64 with 4 KV heads: grouped-query attention, two query heads to a KV head, 512 values a token and layer.
           Attention (8 * 64 = 512 wide) has as many weights as an MLP of 512; six layers of both and the tied vocabulary: 5.8M.
- mla      Its latent of 128 and rotated key of 64 keep 192 values a token and layer: 37.5% of the target's 512. kv_rank is 128
           and not 64 because kv_up sums over it. 4 heads and an MLP of 640 spend the same number of parameters, within 2%.
- draft    half as wide, four layers, one KV head (multi-query): 1.25M parameters and the smallest KV cache of the three.
Held-out numbers of the trained models: weights/card.md.

Released models: shapes from course_lib.roofline.models where it has them; the others from the config.json of their weights.
deepseek-v3 is its attention only: its experts are not built here (every layer has the dense MLP of its first three, and neither
its YaRN scaling nor its interleaved pairing of rotated values is applied), so use its attention_params and KV bytes, not params.
"""

from ..roofline.launches import QWEN3_0_6B
from ..roofline.models import LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B, ModelShape
from .config import MlaConfig, ModelConfig


def config_of(shape: ModelShape, **more: object) -> ModelConfig:
    """The config of a roofline shape; `more` is what a roofline does not ask for: rope_theta, rms_eps, qk_norm, ..."""
    return ModelConfig(name=shape.name.lower(), tied=shape.tied_head, **shape.numbers(), **more)  # type: ignore[arg-type]


COURSE_TARGET = ModelConfig(
    name="course-target", vocab=4096, hidden=256, layers=6, heads=8, kv_heads=4, head_dim=64, mlp_hidden=512, context=1024
)
COURSE_MLA = ModelConfig(
    name="course-mla", vocab=4096, hidden=256, layers=6, heads=4, kv_heads=4, head_dim=64, mlp_hidden=640, context=1024,
    mla=MlaConfig(kv_rank=128, rope_dim=64, nope_dim=64, v_dim=64),
)  # fmt: skip
COURSE_DRAFT = ModelConfig(
    name="course-draft", vocab=4096, hidden=128, layers=4, heads=4, kv_heads=1, head_dim=64, mlp_hidden=256, context=1024
)
COURSE = (COURSE_TARGET, COURSE_DRAFT, COURSE_MLA)

RELEASED = (
    config_of(LLAMA_3_8B, rope_theta=500000.0, context=8192),
    config_of(LLAMA_3_70B, rope_theta=500000.0, context=8192),
    config_of(LLAMA_2_7B, context=4096),
    config_of(QWEN3_0_6B, rope_theta=1e6, rms_eps=1e-6, qk_norm=True, context=40960),
    ModelConfig(  # arXiv 2505.09388, table 1
        name="qwen3-8b", vocab=151936, hidden=4096, layers=36, heads=32, kv_heads=8, head_dim=128, mlp_hidden=12288,
        rope_theta=1e6, rms_eps=1e-6, tied=False, qk_norm=True, context=40960,
    ),
    ModelConfig(  # arXiv 2310.06825, table 1; v0.1
        name="mistral-7b", vocab=32000, hidden=4096, layers=32, heads=32, kv_heads=8, head_dim=128, mlp_hidden=14336,
        tied=False, sliding_window=4096, context=32768,
    ),
    ModelConfig(  # arXiv 2412.19437, section 4.2
        name="deepseek-v3", vocab=129280, hidden=7168, layers=61, heads=128, kv_heads=128, head_dim=128, mlp_hidden=18432,
        rms_eps=1e-6, tied=False, mla=MlaConfig(kv_rank=512, rope_dim=64, nope_dim=128, v_dim=128, q_rank=1536),
    ),
)  # fmt: skip
PRESETS: dict[str, ModelConfig] = {config.name: config for config in (*COURSE, *RELEASED)}


def preset(name: str) -> ModelConfig:
    """ValueError for an unknown name, with the known ones."""
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; there are: {', '.join(PRESETS)}")
    return PRESETS[name]

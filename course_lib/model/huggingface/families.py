"""config.json -> ModelConfig, for the families whose arithmetic our Decoder has; anything else is refused by name.

What a family does beyond the common decoder is a row of FAMILIES. Defaults are those of `transformers` 5.24, which a config.json
leaves out at times; the fields that give shapes have none here, because a guess would only fail later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..config import Llama3Scaling, ModelConfig
from ..rope import scaling_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One model_type of config.json.

    optional_biases  fields that, when true, give o or the MLP a bias that our layers do not have
    window           "all": sliding_window holds for every layer; "late": only with use_sliding_window, from layer
                     max_window_layers on; None: the field is not read
    usual_head_dim   where config.json has no head_dim; None: hidden_size / num_attention_heads
    """

    architecture: str
    qkv_bias: bool = False
    qk_norm: bool = False
    optional_biases: tuple[str, ...] = ()
    window: Literal["all", "late"] | None = None
    usual_head_dim: int | None = None


FAMILIES = {
    "llama": Family(architecture="LlamaForCausalLM", optional_biases=("attention_bias", "mlp_bias")),
    "mistral": Family(architecture="MistralForCausalLM", window="all"),
    "qwen2": Family(architecture="Qwen2ForCausalLM", qkv_bias=True, window="late"),
    "qwen3": Family(
        architecture="Qwen3ForCausalLM", qk_norm=True, optional_biases=("attention_bias",), window="late", usual_head_dim=128
    ),
}
LAYER_TYPES = ("full_attention", "sliding_attention")
USUAL_WINDOW, USUAL_WINDOW_START = 4096, 28
USUAL_THETA, USUAL_EPS = 10000.0, 1e-6
SIZES = {
    "vocab": "vocab_size", "hidden": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads",
    "mlp_hidden": "intermediate_size",
}  # fmt: skip


def config_of(data: Mapping[str, Any], name: str) -> ModelConfig:
    """A config.json's content as our config. ValueError for what the Decoder does not compute."""
    family = _family(data, name)
    _refuse_options(data, family, name)
    sizes = {ours: _whole(data, theirs, name) for ours, theirs in SIZES.items()}
    theta, scaling = _rope(data, name)
    return ModelConfig(
        name=name, **sizes,
        kv_heads=sizes["heads"] if data.get("num_key_value_heads") is None else _whole(data, "num_key_value_heads", name),
        head_dim=_head_dim(data, family, name),
        rope_theta=theta, rope_scaling=scaling,
        rms_eps=_positive(data.get("rms_norm_eps", USUAL_EPS), "rms_norm_eps", name),
        tied=_flag(data, "tie_word_embeddings", name),
        qk_norm=family.qk_norm, qkv_bias=family.qkv_bias,
        sliding_window=_window(data, family, sizes["layers"], name),
        context=None if data.get("max_position_embeddings") is None else _whole(data, "max_position_embeddings", name),
    )  # fmt: skip


def _family(data: Mapping[str, Any], name: str) -> Family:
    kind, stated = data.get("model_type"), data.get("architectures") or []
    if not isinstance(stated, list):
        raise ValueError(f"{name}: config.json has architectures {stated!r}; it has to be a list of names")
    if not isinstance(kind, str) or kind not in FAMILIES:
        told = f" ({', '.join(map(str, stated))})" if stated else ""
        raise ValueError(f"{name}: model_type {kind!r}{told} is not implemented; {', '.join(FAMILIES)} are")
    family = FAMILIES[kind]
    if stated and stated != [family.architecture]:
        raise ValueError(
            f"{name}: architecture {', '.join(map(str, stated))} is not implemented; of model_type {kind!r} "
            f"{family.architecture} is, the one with a language-model head"
        )
    return family


def _refuse_options(data: Mapping[str, Any], family: Family, name: str) -> None:
    """Options that change the arithmetic to something our layers do not compute."""
    if quantised := data.get("quantization_config") or data.get("compression_config") or data.get("quantization"):
        method = quantised.get("quant_method", "unnamed") if isinstance(quantised, Mapping) else quantised
        raise ValueError(
            f"{name} is quantised (quant_method {method!r}), and only float weights are loaded; "
            "take the release in bf16 or fp16, or dequantise it with transformers and save_pretrained"
        )
    if (act := data.get("hidden_act", "silu")) != "silu":
        raise ValueError(f"{name}: hidden_act {act!r} is not implemented; the MLP here is gated by 'silu'")
    for field in family.optional_biases:
        if _flag(data, field, name):
            raise ValueError(
                f"{name}: {field} is {data[field]!r}, a bias on o or in the MLP; only q, k and v may have one here, as in qwen2"
            )
    rotated = _rope_fields(data, name).get("partial_rotary_factor", data.get("partial_rotary_factor", 1))
    if rotated not in (None, 1):
        raise ValueError(f"{name}: partial_rotary_factor is {rotated}; only 1 is implemented, every value of a head turns")


def _rope_fields(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """rope_parameters (transformers 5) and rope_scaling (before), which wins where both are given."""
    fields: dict[str, Any] = {}
    for field in ("rope_parameters", "rope_scaling"):
        if not isinstance(data.get(field) or {}, Mapping):
            raise ValueError(f"{name}: config.json has {field} {data[field]!r}; it has to be an object with fields, or null")
        fields |= data.get(field) or {}
    return fields


def _rope(data: Mapping[str, Any], name: str) -> tuple[float, Llama3Scaling | None]:
    """(theta, scaling). transformers 5 writes both into rope_parameters; before, rope_theta stood beside rope_scaling."""
    fields = _rope_fields(data, name)
    theta = _positive(fields.get("rope_theta", data.get("rope_theta", USUAL_THETA)), "rope_theta", name)
    scaled = {key: value for key, value in fields.items() if key not in ("rope_theta", "partial_rotary_factor")}
    try:
        return theta, scaling_of(scaled or None)
    except ValueError as error:
        raise ValueError(f"{name}: {error}. Take a release whose config.json has no such scaling") from None


def _head_dim(data: Mapping[str, Any], family: Family, name: str) -> int:
    """config.json's own number, which need not be hidden / heads (Qwen3, Mistral Nemo)."""
    if data.get("head_dim") is not None:
        return _whole(data, "head_dim", name)
    if family.usual_head_dim is not None:
        return family.usual_head_dim
    hidden, heads = data["hidden_size"], data["num_attention_heads"]
    if hidden % heads:
        raise ValueError(f"{name}: hidden_size {hidden} does not split over {heads} heads; add head_dim to config.json")
    return hidden // heads


def _window(data: Mapping[str, Any], family: Family, layers: int, name: str) -> int | None:
    """The window that all layers share, or None. ValueError where only some layers have one."""
    if family.window is None or (family.window == "late" and not _flag(data, "use_sliding_window", name)):
        return None
    if data.get("sliding_window", USUAL_WINDOW) is None:
        return None
    slides = [True] * layers
    if family.window == "late":
        first, kinds = data.get("max_window_layers", USUAL_WINDOW_START), data.get("layer_types")
        if type(first) is not int:
            raise ValueError(f"{name}: config.json has max_window_layers {first!r}; it has to be a whole number")
        slides = [layer >= first for layer in range(layers)]
        if kinds is not None:
            if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in LAYER_TYPES for kind in kinds):
                raise ValueError(
                    f"{name}: config.json has layer_types {kinds!r}; it has to be a list with "
                    f"{' or '.join(map(repr, LAYER_TYPES))} for each of the {layers} layers"
                )
            slides = [kind == "sliding_attention" for kind in kinds]
    if any(slides) and not all(slides):
        raise ValueError(
            f"{name}: {sum(slides)} of {layers} layers have a sliding window, and a window holds here for all layers or none; "
            "with use_sliding_window false in config.json it loads, and is exact for texts within the window"
        )
    if not any(slides):
        return None
    return _whole(data, "sliding_window", name) if "sliding_window" in data else USUAL_WINDOW


def _flag(data: Mapping[str, Any], field: str, name: str) -> bool:
    """False where it is left out; the text "false" would count as true."""
    if not isinstance(value := data.get(field), bool | None):
        raise ValueError(f"{name}: config.json has {field} {value!r}; it has to be true or false")
    return bool(value)


def _whole(data: Mapping[str, Any], field: str, name: str) -> int:
    value = data.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: config.json has {field} {value!r}; it has to be a whole number from 1 on")
    return value


def _positive(value: object, field: str, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{name}: config.json has {field} {value!r}; it has to be a number above 0")
    return float(value)

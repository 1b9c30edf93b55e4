"""What our parameters are called in a Hugging Face checkpoint. All four families use the same names.

Nothing is permuted: those weights are stored for the half-split pairing of rotary positions, which rope.py uses too.
"""

import re

NAMES = {
    "embed": "model.embed_tokens",
    "final_norm": "model.norm",
    "head": "lm_head",
    "attention_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "mlp_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
EMBEDDING, HEAD = f"{NAMES['embed']}.weight", f"{NAMES['head']}.weight"
DERIVED = re.compile(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")
"""Tables that old checkpoints carry and the config gives again: rotary frequencies."""


def theirs(ours: str) -> str:
    """The checkpoint's name of a parameter.

    >>> theirs("layers.3.q.weight")
    'model.layers.3.self_attn.q_proj.weight'
    >>> theirs("head.weight")
    'lm_head.weight'
    """
    *layer, module, kind = ours.split(".")
    return ".".join(["model", *layer, NAMES[module], kind] if layer else [NAMES[module], kind])

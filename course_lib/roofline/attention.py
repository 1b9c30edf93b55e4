"""Attention kernels on the roofline: FlashAttention whole and by tiles, its exponentials, and decode attention.

Source   FlashAttention-2, arXiv 2307.08691 (FLOPs, tiles); FlashAttention-3, arXiv 2407.08608 (exponentials, overlap) and the
         tile sizes of its code, hopper/tile_size.h; absorbed MLA: DeepSeek-V2, arXiv 2405.04434, appendix C.
"""

from dataclasses import dataclass

BF16_BYTES = 2
SHARED_KB = 1024
EXPS_PER_CLOCK = 16  # of one SM's special function units, sm_80 to sm_90
H100_CLOCK_HZ = 1.83e9  # at which 132 SMs with 4096 bf16 FLOPs a clock make the sheet's 989.4 TFLOP/s


@dataclass(frozen=True, slots=True)
class Tile:
    """One choice of FlashAttention-3: queries and keys that a block holds at a time."""

    head_dim: int
    value_bytes: int
    causal: bool
    query_rows: int
    key_rows: int


FLASH_3_TILES = (
    Tile(64, 2, True, 192, 128),
    Tile(64, 2, False, 192, 192),
    Tile(128, 2, True, 128, 128),  # and paged
    Tile(128, 2, False, 128, 176),
    Tile(256, 2, False, 128, 80),
    Tile(128, 1, False, 128, 224),
)


def flash_flops(tokens: int, heads: int, head_dim: int, *, causal: bool = False, batch: int = 1) -> float:
    """Forward FLOPs over `tokens` queries and as many keys: 4 T^2 d n_h, half of it when causal."""
    return batch * (2 if causal else 4) * tokens**2 * head_dim * heads


def flash_bytes(
    tokens: int, heads: int, kv_heads: int, head_dim: int, *, value_bytes: float = BF16_BYTES, batch: int = 1
) -> float:
    """Least bytes: queries, keys and values read once, the output written once: 2 T d (n_h + n_kv) values."""
    return batch * 2 * tokens * head_dim * (heads + kv_heads) * value_bytes


def flash_intensity(tokens: int, heads: int, kv_heads: int, *, causal: bool = False, value_bytes: float = BF16_BYTES) -> float:
    """FLOP per byte. Not causal, bf16: T n_h / (n_h + n_kv), 0.5 T for MHA and 0.8 T for Llama-3-8B."""
    return flash_flops(tokens, heads, 1, causal=causal) / flash_bytes(tokens, heads, kv_heads, 1, value_bytes=value_bytes)


def tile_intensity(query_rows: int, value_bytes: float = BF16_BYTES) -> float:
    """FLOP per byte of one tile of keys and values: 4 B_r B_c d over 2 B_c d values. In bf16 it is B_r.

    128 rows give 128, below the ridge of an H100: what several blocks read again has to come from L2.
    """
    return 2 * query_rows / value_bytes


def tile_shared_bytes(query_rows: int, key_rows: int, head_dim: int, *, stages: int = 2, value_bytes: int = BF16_BYTES) -> int:
    """Shared memory of a query tile and `stages` tiles of keys and of values. 128, 128, 128 in bf16: 160 KiB."""
    return (query_rows + 2 * stages * key_rows) * head_dim * value_bytes


def tile_fits(tile: Tile, shared_kb: int = 227) -> bool:
    """Whether a tile with two stages fits a block's shared memory (227 KiB on Hopper)."""
    held = tile_shared_bytes(tile.query_rows, tile.key_rows, tile.head_dim, value_bytes=tile.value_bytes)
    return held <= shared_kb * SHARED_KB


def exps_per_second(sms: int = 132, clock_hz: float = H100_CLOCK_HZ) -> float:
    """Exponentials of the whole chip. H100: 132 * 16 * 1.83e9 = 3.9e12."""
    return sms * EXPS_PER_CLOCK * clock_hz


def flops_per_exp(head_dim: int) -> int:
    """Every pair of query and key takes one exponential and 4 d FLOPs of products. d = 128: 512."""
    return 4 * head_dim


def exp_to_product_time(head_dim: int, peak_flops: float, exps: float) -> float:
    """Time of the exponentials over time of the products. d = 128 on H100, bf16: 0.5, unless they overlap."""
    return peak_flops / flops_per_exp(head_dim) / exps


def decode_attention_intensity(heads: int, kv_heads: int, value_bytes: float = BF16_BYTES) -> float:
    """FLOP per byte of KV: each value meets heads / kv_heads queries, 2 FLOPs each. MHA in bf16: 1; Llama-3-70B: 8."""
    return heads / kv_heads * 2 / value_bytes


def absorbed_mla_intensity(heads: int, kv_lora_rank: int, rope_dim: int, value_bytes: float = BF16_BYTES) -> float:
    """FLOP per byte of decode attention on latents: all heads share one latent, which serves as key and as value.

    2 n_h ((c + r) + c) / ((c + r) bytes). 128 heads, 512 and 64, bf16: 242.
    """
    latent = kv_lora_rank + rope_dim
    return 2 * heads * (latent + kv_lora_rank) / (latent * value_bytes)


def needs_split_kv(batch: int, kv_heads: int, sms: int) -> bool:
    """True when one block for each sequence and KV head leaves SMs idle. 132 SMs, 8 heads: 16 -> True, 17 -> False."""
    return batch * kv_heads < sms

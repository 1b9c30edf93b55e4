"""Keys and values in bytes: of one token, on one rank of several, saved by sharing, and how many tokens an L2 cache would hold.

Source   GQA: Ainslie et al., arXiv 2305.13245. MLA: DeepSeek-V2, arXiv 2405.04434, section 2.1.
"""

from .models import LatentShape, ModelShape


def kv_bytes_per_layer(model: ModelShape | LatentShape, bytes_per_value: float = 2) -> float:
    """Bytes of one token in one layer. GQA with 8 heads of 128 in bf16: 2 * 8 * 128 * 2 = 4096; MLA: 576 * 2 = 1152."""
    return model.kv_bytes_per_token(bytes_per_value) / model.layers


def kv_bytes_per_rank(
    model: ModelShape | LatentShape, ranks: int, bytes_per_value: float = 2, *, data_parallel_attention: bool = False
) -> float:
    """Bytes of one token's KV on each of `ranks` tensor-parallel ranks that hold it.

    Heads divide up to kv_heads: Llama-3-8B (8 heads) on 8 ranks 16,384 B each, on 16 ranks as many, for a head is on two of
    them. A latent serves all heads, so every rank holds all of it. With data-parallel attention one rank holds all of its own
    sequences' KV and nothing of the others'. Raises ValueError when heads and ranks do not divide.
    """
    whole = model.kv_bytes_per_token(bytes_per_value)
    if ranks < 1:
        raise ValueError(f"{ranks} ranks; use at least 1")
    if data_parallel_attention or isinstance(model, LatentShape):
        return whole
    heads = model.kv_heads
    if max(heads, ranks) % min(heads, ranks):
        fits = [n for n in range(1, 2 * heads + 1) if max(heads, n) % min(heads, n) == 0]
        raise ValueError(f"{heads} KV heads do not divide over {ranks} ranks; use one of {fits}")
    return whole / min(heads, ranks)


def kv_saving(ours_bytes: float, theirs_bytes: float) -> float:
    """Share of their bytes that ours save. 576 values against 8 heads of 2 * 128: 1 - 576 / 2048 = 0.71875."""
    return 1 - ours_bytes / theirs_bytes


def latent_as_groups(model: LatentShape, head_dim: int = 128) -> float:
    """KV heads of grouped-query attention that take as many bytes as the latent. 576 / (2 * 128) = 2.25."""
    return model.latent_dim / (2 * head_dim)


def tokens_in_cache(cache_bytes: float, kv_bytes_per_token: float) -> int:
    """Tokens whose KV would fit, were nothing else in the cache. 50 MB of L2 at 131,072 B a token: 381."""
    return int(cache_bytes // kv_bytes_per_token)

"""The metrics that the roadmap names, each with its unit and its definition, as data.

`function` names the formula in formulas.py for a metric that is computed from times or counts, "" for one that a counter gives.
The roadmap's token-to-bandwidth ratio is not here: it has no meaning (see the claims of phase 4).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. where: the counter or the times that it comes from."""

    name: str
    unit: str
    definition: str
    where: str
    function: str = ""


METRICS = (
    Metric("busy_time_percent", "%", "share of the last 1/6 to 1 s in which at least one kernel ran", "NVML utilization.gpu"),
    Metric("memory_busy_time_percent", "%", "share of that time in which memory was read or written", "NVML utilization.memory"),
    Metric("tensor_percent", "%", "share of time in which a tensor instruction ran, over all SMs", "GPM ANY_TENSOR_UTIL"),
    Metric("dram_percent", "%", "memory traffic against the peak bandwidth", "GPM DRAM_BW_UTIL"),
    Metric("sm_percent", "%", "share of the SMs' time with at least one warp on them", "GPM SM_UTIL"),
    Metric("watts", "W", "power of the whole board, averaged by the driver", "NVML power usage (mW)"),
    Metric("joules", "J", "energy of the whole board between two readings", "NVML total energy (mJ since driver load)"),
    Metric("joules_per_token", "J", "energy of a window over the tokens made in it", "energy counter, tokens", "per_token"),
    Metric("temperature_c", "°C", "of the GPU chip", "NVML temperature"),
    Metric("fan_percent", "%", "speed the driver asks of the fan; None on a passive board", "NVML fan speed"),
    Metric("sm_mhz", "MHz", "clock of the SMs at this moment", "NVML clock info"),
    Metric("reasons", "names", "why the clocks are what they are", "NVML clocks event reasons (bit mask)"),
    Metric("pcie_tx_kb_per_s", "KB/s", "sent over PCIe in the last 20 ms", "NVML PCIe throughput"),
    Metric("pcie_rx_kb_per_s", "KB/s", "received over PCIe in the last 20 ms", "NVML PCIe throughput"),
    Metric("nvlink_gb_per_s", "GB/s", "bytes over NVLink in one direction per second", "NVLink byte counters", "rate_gb_per_s"),
    Metric("allreduce_seconds", "s", "median time of one all-reduce, device events around it", "CUDA events", "median"),
    Metric("arithmetic_intensity", "FLOP/byte", "operations for each byte moved", "counts of the model", "arithmetic_intensity"),
    Metric("ttft_seconds", "s", "first token less arrival of the request", "times at the client or the engine", "ttft_seconds"),
    Metric("itl_seconds", "s", "gaps between one token and the next", "times of tokens", "itl_seconds"),
    Metric("tpot_seconds", "s/token", "(last token less first) / (tokens - 1)", "times of tokens", "tpot_seconds"),
    Metric("mean_latency_seconds", "s", "mean of a set of latencies", "latencies of requests", "mean"),
    Metric("p99_latency_seconds", "s", "99 of 100 latencies do not exceed it (nearest rank)", "latencies of requests", "p99"),
    Metric("tokens_per_second", "1/s", "tokens made over the time they took", "token count and time", "tokens_per_second"),
    Metric("kv_fragmentation", "share", "slots of blocks in use that hold no token", "block pool", "kv_fragmentation"),
    Metric("kv_cache_utilization", "share", "blocks in use over blocks in the pool", "block pool", "share"),
    Metric("page_hit_rate", "share", "look-ups of a block that found it; a miss is the rest", "block pool", "share"),
    Metric("kv_hit_rate", "share", "prompt tokens whose KV was found in a cache", "prefix cache", "share"),
    Metric("prefix_hit_rate", "share", "requests that shared at least one whole block", "prefix cache", "share"),
    Metric("acceptance_rate", "share", "drafted tokens that the target took; the rest is mispredicted", "speculation", "share"),
    Metric("draft_length", "tokens", "mean number of tokens drafted for one pass of the target", "speculation", "mean"),
    Metric("slo_breach_share", "share", "requests whose latency was above the target", "latencies of requests", "breach_share"),
)


def metric(name: str) -> Metric:
    """The metric of this name. Raises KeyError, naming the known ones."""
    for known in METRICS:
        if known.name == name:
            return known
    raise KeyError(f"no metric {name!r}; there are {', '.join(m.name for m in METRICS)}")

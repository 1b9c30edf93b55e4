"""What a dashboard sees of the KV memory: counters and gauges for Prometheus, read from the books when somebody asks.

A scrape reads numbers that pool, tables and cache keep anyway, so serving pays nothing between scrapes. There is no global
registry: each KVMetrics has its own, so two engines in a process, or two tests, do not meet.

Names    where vLLM has a metric of the same meaning, ours has its name after "course:": a dashboard made for the one reads the
         other when the prefix is changed. vLLM counts lookups in tokens and usage as the share of blocks that are not free,
         cached ones being free; so do we. Source: docs.vllm.ai, Production Metrics.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .block_pool import BlockPool
from .block_tables import BlockTables
from .prefix_cache import PrefixCache
from .storage import KVStorage

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

PREFIX = "course:"
LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")  # names with two underscores in front are Prometheus' own


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric: name without prefix, "counter" or "gauge", meaning, value."""

    name: str
    kind: str
    meaning: str
    value: float


class KVMetrics:
    """The metrics of one pool, and of what stands on it: leave out what there is not."""

    def __init__(
        self, pool: BlockPool, tables: BlockTables | None = None, cache: PrefixCache | None = None,
        storage: KVStorage | None = None, *, labels: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """labels: the same for every metric, {"model_name": "course-target"} for instance: texts, ValueError for others."""
        for name, value in (labels or {}).items():
            if not (isinstance(name, str) and LABEL.fullmatch(name) and isinstance(value, str)):
                raise ValueError(f"label {name!r}: {value!r}; use a name of letters, digits and _, and a text as value")
        self.pool, self.tables, self.cache, self.storage = pool, tables, cache, storage
        self.labels = dict(labels or {})
        self._registry: CollectorRegistry | None = None

    @property
    def registry(self) -> "CollectorRegistry":
        """Its own registry, for prometheus_client.start_http_server(port, registry=...)."""
        if self._registry is None:
            from prometheus_client import CollectorRegistry

            registry = CollectorRegistry()
            registry.register(self)
            self._registry = registry
        return self._registry

    def text(self) -> str:
        """The exposition format that Prometheus scrapes."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def readings(self) -> list[Reading]:
        """The same numbers without prometheus_client."""
        return list(self._readings())

    def describe(self) -> "Iterator[Metric]":
        """The names, by which a registry refuses a second one of these; engines in one registry would mix their numbers."""
        return self.collect()

    def collect(self) -> "Iterator[Metric]":
        """What prometheus_client calls at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Any] = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        for reading in self._readings():
            family = families[reading.kind](PREFIX + reading.name, reading.meaning, labels=list(self.labels))
            family.add_metric(list(self.labels.values()), reading.value)
            yield family

    def _readings(self) -> Iterator[Reading]:
        pool = self.pool
        yield Reading("kv_blocks", "gauge", "Blocks of the pool", pool.num_blocks)
        yield Reading("kv_blocks_free", "gauge", "Blocks without reference and without content worth keeping", pool.num_free)
        yield Reading("kv_blocks_cached", "gauge", "Blocks without reference whose content can be reused", pool.num_cached)
        yield Reading("kv_blocks_held", "gauge", "Blocks with at least one reference", pool.num_held)
        share = pool.num_held / pool.num_blocks
        yield Reading("kv_cache_usage_perc", "gauge", "Share of blocks that are held, 1 means all", share)
        if self.tables is not None:
            waste = self.tables.waste()
            yield Reading("kv_sequences", "gauge", "Sequences with a block table", len(self.tables))
            yield Reading("kv_waste_internal_tokens", "gauge", "Empty slots in blocks that are begun", waste.internal_tokens)
            yield Reading("kv_waste_reserved_tokens", "gauge", "Slots in blocks handed out ahead of need", waste.reserved_tokens)
            if self.storage is not None:
                size = self.storage.bytes_per_token
                internal, reserved = waste.internal_tokens * size, waste.reserved_tokens * size
                yield Reading("kv_waste_internal_bytes", "gauge", "Empty slots in blocks that are begun, in bytes", internal)
                yield Reading("kv_waste_reserved_bytes", "gauge", "Slots handed out ahead of need, in bytes", reserved)
        if self.cache is not None:
            stats = self.cache.stats
            yield Reading("prefix_cache_queries", "counter", "Tokens looked up in the prefix cache", stats.queried_tokens)
            yield Reading("prefix_cache_hits", "counter", "Tokens found there", stats.hit_tokens)
            missed = stats.queried_tokens - stats.hit_tokens
            yield Reading("prefix_cache_misses", "counter", "Tokens looked up and not found", missed)
            yield Reading("prefix_cache_evictions", "counter", "Cached blocks given up for room", stats.evicted_blocks)

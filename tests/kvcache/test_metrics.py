"""Metrics: the numbers of the books, in Prometheus' words, without a global registry."""

import subprocess
import sys

import prometheus_client
import pytest

from course_lib.kvcache import BlockPool, BlockTables, KVMetrics, KVStorage, PrefixCache

from .machine import Machine


def parsed(metrics):
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(metrics.text()))
    return {sample.name: sample for family in families for sample in family.samples}, {f.name: f.type for f in families}


def test_a_scrape_shows_the_books():
    pool = BlockPool(8, 4)
    tables, cache = BlockTables(pool, preallocate=2), PrefixCache(pool)
    storage = KVStorage(8, 4, layers=3, shapes=((2, 8), (2, 8)))
    metrics = KVMetrics(pool, tables, cache, storage, labels={"model_name": "tiny"})
    text = list(range(9))
    tables.add("a", 9)
    cache.insert(text, tables.blocks("a"))
    tables.free("a")
    tables.add("b", 9, cache.match(text).blocks)
    tables.add("short", 1)
    tables.free("b")
    cache.compact(1)
    samples, kinds = parsed(metrics)
    values = {name.removeprefix("course:"): sample.value for name, sample in samples.items()}
    assert values == {
        "kv_blocks": 8, "kv_blocks_free": 5, "kv_blocks_cached": 1, "kv_blocks_held": 2, "kv_cache_usage_perc": 0.25,
        "kv_sequences": 1, "kv_waste_internal_tokens": 3, "kv_waste_reserved_tokens": 4,
        "kv_waste_internal_bytes": 3 * 3 * 2 * 16 * 2, "kv_waste_reserved_bytes": 4 * 3 * 2 * 16 * 2,
        "prefix_cache_queries_total": 9, "prefix_cache_hits_total": 8, "prefix_cache_misses_total": 1,
        "prefix_cache_evictions_total": 1,
    }  # fmt: skip
    assert all(sample.labels == {"model_name": "tiny"} for sample in samples.values())
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        "course:prefix_cache_queries", "course:prefix_cache_hits", "course:prefix_cache_misses", "course:prefix_cache_evictions",
    }  # fmt: skip
    assert {reading.value for reading in metrics.readings()} == set(values.values())


@pytest.mark.parametrize("name", ["prefix_cache_queries", "prefix_cache_hits", "kv_cache_usage_perc"])
def test_what_means_the_same_as_in_vllm_has_its_name(name):
    pool = BlockPool(2, 2)
    assert any(reading.name == name for reading in KVMetrics(pool, cache=PrefixCache(pool)).readings())


def test_only_what_there_is_is_shown():
    names = [reading.name for reading in KVMetrics(BlockPool(2, 2)).readings()]
    assert len(names) == 5
    assert not any("prefix" in name or "waste" in name for name in names)


def test_two_metrics_do_not_meet_and_nothing_is_global():
    before = prometheus_client.generate_latest()
    first, second = KVMetrics(BlockPool(2, 2)), KVMetrics(BlockPool(3, 2))
    assert "course:kv_blocks 2.0" in first.text()
    assert "course:kv_blocks 3.0" in second.text()
    assert b"course:" not in prometheus_client.generate_latest()
    assert b"course:" not in before


def test_counters_only_go_up_and_states_add_up():
    machine = Machine(seed=7)
    metrics, last = KVMetrics(machine.pool, machine.tables, machine.cache), {}
    for _ in range(40):
        machine.run(50)
        now = {reading.name: reading for reading in metrics.readings()}
        states = [now[f"kv_blocks_{state}"].value for state in ("free", "cached", "held")]
        assert sum(states) == now["kv_blocks"].value
        for name, reading in now.items():
            assert reading.kind == "gauge" or reading.value >= last.get(name, 0)
        last = {name: reading.value for name, reading in now.items()}
    assert last["prefix_cache_hits"] > 0


def test_books_cost_neither_torch_nor_prometheus():
    code = "import sys, course_lib.kvcache as k; k.BlockTables(k.BlockPool(4, 2)).add('a', 3); k.KVMetrics; k.KVStorage; " \
           "print([m for m in ('torch', 'prometheus_client', 'numpy') if m in sys.modules])"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""The benchmark of orders and tiles on Hopper: what one variant changes is over with its call."""

from types import SimpleNamespace

from benchmarks import hopper_variants
from course_lib.attention import hopper_schedule


def test_each_order_is_called_with_its_own_size_of_l2_and_all_else_with_the_usual_one(monkeypatch):
    seen = []

    def attention(q, k, v, *, causal, **steps):
        seen.append(hopper_schedule.L2_BYTES_FOR_KV // 2**20)

    monkeypatch.setattr(hopper_variants, "hopper_attention", attention)
    calls = hopper_variants.orders(SimpleNamespace(causal=True, inputs=lambda: (None, None, None)))
    usual = hopper_schedule.L2_BYTES_FOR_KV // 2**20
    wanted = {name: int(name.split()[0]) if "MiB" in name else usual for name in calls}
    assert usual in hopper_variants.MEBIBYTES
    for names in (list(calls), list(calls)[::-1]):
        seen.clear()
        for name in names:
            calls[name]()
        assert seen == [wanted[name] for name in names]
    assert usual == hopper_schedule.L2_BYTES_FOR_KV // 2**20

import json
import lzma

import numpy as np
import pytest
import torch

from tools.train.build import build
from tools.train.finish import finish
from tools.train.loop import Progress, Settings, train

from .small import TINY, corpus


@pytest.fixture(autouse=True)
def one_thread():
    """Products this small are slower on two threads, and bit-for-bit comparisons want one order of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """(facts, out folder, held-out documents, their sizes) of a run of three steps."""
    folder = tmp_path_factory.mktemp("finished")
    shards, out = folder / "shards", folder / "out"
    shards.mkdir()
    documents, sizes = [[5, 6, 7, 8, 9], [1, 2, 3]], [5, 3]
    data = np.array([*documents[0], 0, *documents[1], 0], dtype="<u2").tobytes()
    (shards / "held_out.xz").write_bytes(lzma.compress(data))
    rows = [{"module": "a", "bytes": 5, "tokens": 5}, {"module": "b", "bytes": 3, "tokens": 3}]
    described = {"vocab": 257, "shards": [{"sha256": "x"}], "text": {"documents": 2}, "tokenizer_sha256": "t",
                 "held_out": {"text_sha256": "h" * 64, "modules": rows}}  # fmt: skip
    (shards / "shards.json").write_text(json.dumps(described))
    settings = Settings(batch=8, length=16, warmup_steps=3)
    with torch.random.fork_rng():
        run = build(TINY, settings, corpus(30_000), out / "runs" / "tiny.pt", total_steps=3)
        progress = Progress(run, out / "runs" / "tiny.jsonl", began=run.clock(), flops_per_token=1e6, peak_flops=None)
        assert train(run, progress, seconds=1e6)
    return finish(run, shards, out), out, documents, sizes

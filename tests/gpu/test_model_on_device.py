"""The small model on a CUDA device: the same logits as on the CPU, cached or not, and the same greedy text."""

import pytest
import torch

from course_lib.model import Decoder, generate, load, preset, save
from tests.model.tiny import decoder, tokens

pytestmark = pytest.mark.gpu
KINDS = ["grouped", "multi-query", "window", "qwen3", "qwen2.5", "llama3 scaling", "mla", "mla, queries compressed"]


@pytest.fixture(autouse=True)
def _full_float32(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-4), (torch.float32, 1e-3)])
def test_logits_equal_the_cpus(kind, dtype, tolerance):
    """Angles are float32 on both, and their cosines may differ in the last bit, even in a float64 model."""
    model, ids = decoder(kind, dtype=dtype), tokens(2, 13)
    expected = model(ids)
    model.to("cuda")
    assert (model(ids.cuda()).cpu() - expected).abs().max() < tolerance


@pytest.mark.parametrize("kind", KINDS)
def test_cached_logits_equal_uncached_ones(kind):
    model, ids = decoder(kind).to("cuda"), tokens(3, 13).cuda()
    whole = model(ids)
    for cuts in ((1,), (5, 6), range(1, 13)):
        cache = model.new_cache(3, 13)
        pieces = [model(piece, cache) for piece in ids.tensor_split(list(cuts), dim=1)]
        assert (torch.cat(pieces, 1) - whole).abs().max() < 1e-3, f"cut at {cuts}"


@pytest.mark.parametrize("kind", ["grouped", "window", "mla"])
def test_a_ragged_batch_equals_its_rows_alone(kind):
    model, prompts = decoder(kind, dtype=torch.float64).to("cuda"), [[3, 14, 15], [9], [26, 5, 35, 8, 9]]
    together = list(generate(model, prompts, max_new_tokens=8))
    for row, prompt in enumerate(prompts):
        alone = [new.token for new in generate(model, prompt, max_new_tokens=8)]
        assert [new.token for new in together if new.row == row] == alone


@pytest.mark.parametrize("name", ["course-target", "course-draft", "course-mla"])
def test_the_courses_shapes_load_and_decode_in_bf16(name, tmp_path):
    torch.manual_seed(0)
    path = save(Decoder(preset(name)), tmp_path / "m.safetensors")
    model = load(path, device="cuda")
    assert model.dtype == torch.bfloat16
    ids = torch.randint(0, 4096, (2, 200)).cuda()
    whole, cache = model(ids), model.new_cache(2, 200)
    pieces = torch.cat([model(ids[:, :150], cache), *[model(ids[:, at : at + 1], cache) for at in range(150, 200)]], 1)
    assert whole.isfinite().all()
    # bf16 keeps 8 bits: activations differ by 1 in 256 here and there, logits of size 0.3 by a few hundredths
    assert (pieces - whole).abs().max() < 0.05


@pytest.mark.parametrize("name", ["course-target", "course-mla"])
def test_it_trains_under_autocast(name):
    torch.manual_seed(0)
    model = Decoder(preset(name)).cuda()
    ids = torch.randint(0, 4096, (4, 128)).cuda()
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    for _ in range(10):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids)
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5

"""The paged cache: whatever is shared, chunked, forked, evicted or preempted, the logits are those of the dense cache."""

import pytest
import torch

from course_lib.kvcache import KVCacheError, OutOfBlocks
from course_lib.model import Parts, generate, load
from course_lib.model.paged_cache import PagedCache, attend_paged, paged_factory, paged_parts
from course_lib.model.paged_store import PagedStore

from .tiny import KINDS, decoder, tokens

EXACT = 1e-10  # float64: another order of the same sums


def store_of(model, num_blocks=64, block_size=4):
    """Every slot holds NaN until it is written."""
    store = PagedStore(model.config, num_blocks=num_blocks, block_size=block_size, dtype=model.dtype)
    for tensor in (tensor for layer in store.storage.tensors for tensor in layer):
        tensor.fill_(torch.nan)
    return store


def started(store, *seqs):
    for seq in seqs:
        store.begin(seq)
    return PagedCache(store, seqs)


def alone(model, row):
    """Logits of every position, without any cache."""
    return model(torch.as_tensor(row)[None])[0]


# --- the shipped model -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped():
    return load("course-target")


@torch.inference_mode()
def test_the_shipped_model_decodes_with_it(shipped):
    """Prompts of three lengths, 20 more tokens; float32 on a CPU, the same sums: 1e-5."""
    code = (
        "def mean(values):\n    return sum(values)\n\n\nclass Stack:\n    def push(self, item):\n        self.items += [item]\n"
    )
    text = shipped.tokenizer().encode(code)
    assert len(text) >= 31
    rows = [text[:31], text[:16], text[:7]]
    places = torch.tensor([[*range(len(row)), *[-1] * (31 - len(row))] for row in rows])
    ids = torch.tensor([row + [0] * (31 - len(row)) for row in rows])
    dense, paged = shipped.new_cache(3, 64), paged_factory(block_size=16)(shipped.config, 3, 64, shipped.dtype, shipped.device)
    for tensor in (tensor for layer in paged.store.storage.tensors for tensor in layer):
        tensor.fill_(torch.nan)
    for step in range(21):
        expected, found = (shipped(ids, cache, places, last=True) for cache in (dense, paged))
        assert (expected - found).abs().max() < 1e-5
        assert paged.lengths == dense.lengths == [31 + step, 16 + step, 7 + step]
        assert paged.held_bytes == dense.held_bytes
        paged.store.check()
        ids, places = expected.argmax(-1), None


@pytest.mark.parametrize("name", ["course-target", "course-mla"])
def test_generate_gives_the_same_text(name):
    parts = [Parts(), Parts(cache=paged_factory(block_size=8)), paged_parts(block_size=16)]
    prompts = [[17, 4, 90], [5] * 16, [300, 8, 41, 7, 7, 7, 9]]
    made = [[(t.row, t.token) for t in generate(load(name, parts=p), prompts, max_new_tokens=12)] for p in parts]
    assert made[0] == made[1] == made[2]


def test_the_paged_kernels_give_the_same():
    """In the interpreter: a ragged prompt through paged prefill, then paged decode, one row sitting out."""
    model = load("course-target", parts=Parts(attend=attend_paged))
    model.layers = model.layers[:1]
    store = store_of(model, num_blocks=6, block_size=16)
    store.begin("a"), store.begin("b")
    dense, paged = model.new_cache(2, 32), PagedCache(store, "ab", impl="kernel")
    ids = torch.randint(0, 4000, (2, 18), generator=torch.Generator().manual_seed(0))
    steps = [
        (ids, torch.tensor([[*range(18)], [*range(5), *[-1] * 13]])),
        (ids[:, :1], None),
        (ids[:, 1:2], torch.tensor([[19], [-1]])),
    ]
    for new, places in steps:
        expected, found = (model(new, cache, places, last=True) for cache in (dense, paged))
        live = [0, 1] if places is None or places[1, 0] >= 0 else [0]
        assert (expected - found)[live].abs().max() < 1e-4
    assert paged.lengths == [20, 6]
    assert len(paged._plans) == 1
    store.check()


@torch.inference_mode()
def test_a_decode_plan_serves_until_the_block_tables_double():
    """Blocks of 16: at 34 and 50 tokens the tables have 4 columns, at 66 they have 8. Only the last plan is kept."""
    model = load("course-target", parts=Parts(attend=attend_paged))
    model.layers = model.layers[:1]
    store = store_of(model, num_blocks=5, block_size=16)
    store.begin("a")
    cache, plans = PagedCache(store, "a", impl="kernel"), []
    for chunk in (33, 15, 15):
        for new in (chunk, 1):
            model(torch.ones(1, new, dtype=torch.int64), cache, last=True)
        (plan,) = cache._plans.values()
        plans.append(plan)
    assert cache.lengths == [66]
    assert plans[0] is plans[1]
    assert plans[1] is not plans[2]


# --- boundaries (E02), chunks (E07) ---------------------------------------------------------------------------------------


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", [3, 4, 5, 7, 8, 9])
def test_block_boundaries_are_nowhere_off_by_one(kind, prompt):
    """block_size 4; prompts of k * 4 - 1, k * 4, k * 4 + 1 tokens and 1 to 5 more: 4 tokens -> 1 block, 5 tokens -> 2."""
    model = decoder(kind, dtype=torch.float64)
    ids = tokens(1, prompt + 5)[0]
    store = store_of(model)
    cache, expected = started(store, "a"), alone(model, ids)
    found = model(ids[None, :prompt], cache)[0]
    assert (found - expected[:prompt]).abs().max() < EXACT
    for total in range(prompt + 1, prompt + 6):
        found = model(ids[None, total - 1 : total], cache)[0]
        assert (found - expected[total - 1]).abs().max() < EXACT
        assert len(store.tables.blocks("a")) == -(-total // 4)
        store.check()


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["grouped", "window", "mla"])
@pytest.mark.parametrize("chunk", [1, 3, 4, 5])
def test_a_prompt_in_chunks_leaves_the_same_cache_and_logits(kind, chunk):
    model = decoder(kind, dtype=torch.float64)
    ids = tokens(1, 14)
    store = store_of(model)
    whole, pieces = started(store, "whole"), started(store, "pieces")
    expected = model(ids, whole)
    found = torch.cat([model(part, pieces) for part in ids.split(chunk, dim=1)], dim=1)
    assert (found - expected).abs().max() < EXACT
    for layer in range(model.config.layers):
        one, other = (store.storage.read(layer, torch.tensor(store.tables.slots(seq))) for seq in ("whole", "pieces"))
        for a, b in zip(one, other, strict=True):
            assert (a - b).abs().max() < EXACT
    store.check()


# --- prefixes (E01, E03), forks (E05), preemption (E04) -------------------------------------------------------------------


@torch.inference_mode()
@pytest.mark.parametrize("length", [4, 8, 9, 11, 12])
@pytest.mark.parametrize("kind", ["grouped", "mla"])
def test_the_same_prompt_again_computes_one_token_at_least(kind, length):
    """block_size 4: a prompt of 8 tokens, all of it cached, reuses 4; one of 9 reuses 8. The logits stay."""
    model = decoder(kind, dtype=torch.float64)
    text = tokens(1, length)[0].tolist()
    store = store_of(model)
    for time in range(3):
        reused = store.begin(time, text)
        assert reused == (0 if time == 0 else (length - 1) // 4 * 4)
        logits = model(torch.tensor([text[reused:]]), PagedCache(store, [time]), last=True)
        assert (logits[0, 0] - alone(model, text)[-1]).abs().max() < EXACT
        store.publish(time, text)
        store.check()
    assert store.pool.num_held == (length // 4) + (3 if length % 4 else 0)  # full blocks once, the rest three times


@torch.inference_mode()
def test_a_token_without_keys_yet_fills_no_block():
    """block_size 4: of 7 tokens in the cache and the one just chosen, 8 in all, others may read one block, not two."""
    model = decoder(dtype=torch.float64)
    store, text = store_of(model), tokens(1, 12)[0].tolist()
    model(torch.tensor([text[:7]]), started(store, "a"))
    assert store.publish("a", text[:8]) == 1
    assert store.begin("b", text) == 4
    logits = model(torch.tensor([text[4:]]), PagedCache(store, ["b"]), last=True)
    assert (logits[0, 0] - alone(model, text)[-1]).abs().max() < EXACT
    store.check()


@torch.inference_mode()
def test_with_every_hash_equal_nobody_reads_anothers_keys():
    model = decoder(dtype=torch.float64)
    store = store_of(model)
    store.prefixes.hash_function = lambda data: b""
    texts = [tokens(1, 9, seed=seed)[0].tolist() for seed in range(4)]
    texts += [texts[0][:4] + texts[1][4:], texts[1][:4] + texts[0][4:]]
    for number, text in enumerate([*texts, *texts]):
        reused = store.begin(number, text, "one")
        logits = model(torch.tensor([text[reused:]]), PagedCache(store, [number]), last=True)
        assert (logits[0, 0] - alone(model, text)[-1]).abs().max() < EXACT
        store.publish(number, text, "one")
    assert reused == 8
    assert store.prefixes.cached_tokens(text, "another") == 0
    store.check()


@torch.inference_mode()
@pytest.mark.parametrize("prompt", [7, 8])
def test_samples_of_one_prompt_share_its_blocks(prompt):
    model = decoder(dtype=torch.float64)
    store, ids = store_of(model), tokens(3, prompt + 6)
    ids[:, :prompt] = ids[0, :prompt]
    model(ids[:1, :prompt], started(store, 0))
    store.fork(0, 1)
    store.fork(0, 2)
    assert store.pool.num_held == 2
    cache = PagedCache(store, [0, 1, 2])
    for place in range(prompt, prompt + 6):
        found = model(ids[:, place : place + 1], cache)
        store.check()
    for row in range(3):
        assert (found[row, 0] - alone(model, ids[row])[-1]).abs().max() < EXACT
    full, blocks = prompt // 4, -(-(prompt + 6) // 4)
    assert store.pool.num_held == full + 3 * (blocks - full)


@torch.inference_mode()
def test_a_rejected_guess_is_rolled_back_even_in_shared_blocks():
    model = decoder(dtype=torch.float64)
    store, ids = store_of(model), tokens(2, 12)
    cache = started(store, "a", "b")
    model(ids[:, :10], cache)
    store.fork("a", "witness")
    cache.truncate([5, 8])
    assert cache.lengths == [5, 8]
    after = model(ids[:, 10:], cache)
    for row, kept in enumerate((5, 8)):
        assert (after[row] - alone(model, torch.cat((ids[row, :kept], ids[row, 10:])))[-2:]).abs().max() < EXACT
    again = model(ids[:1, 3:5], PagedCache(store, ["a"]), torch.tensor([[3, 4]]))  # positions before the end overwrite
    assert (again[0] - alone(model, ids[0, :5])[-2:]).abs().max() < EXACT
    witness = model(ids[:1, 10:11], PagedCache(store, ["witness"]))
    assert (witness[0, 0] - alone(model, ids[0, :11])[-1]).abs().max() < EXACT
    store.check()


class Requests:
    """The smallest scheduler: everybody decodes; who finds no block preempts the request that came last."""

    def __init__(self, model, store, prompts, new_tokens):
        self.model, self.store, self.new_tokens = model, store, new_tokens
        self.texts, self.ends = dict(enumerate(prompts)), {n: len(p) + new_tokens for n, p in enumerate(prompts)}
        self.waiting, self.running, self.preempted = list(self.texts), [], dict.fromkeys(self.texts, 0)

    def run(self):
        for _ in range(1000):
            if not self.waiting and not self.running:
                return self.texts
            self.admit()
            for seq in list(self.running):
                if seq in self.running:
                    self.decode(seq)
            self.store.check()
        raise AssertionError(f"no end: {self.waiting} wait, {self.running} run")

    def admit(self):
        while self.waiting:
            seq, text = self.waiting[0], self.texts[self.waiting[0]]
            reused = self.store.begin(seq, text)
            if not self.store.room_for({seq: len(text) - reused}):
                self.store.free(seq)
                return
            self.step(self.waiting.pop(0), text[reused:])
            self.running.append(seq)
            self.finish(seq)

    def decode(self, seq):
        while True:
            try:
                self.step(seq, self.texts[seq][-1:])
                break
            except OutOfBlocks:
                victim = self.running.pop()
                self.preempt(victim)
                if victim == seq:
                    return
        self.finish(seq)

    def step(self, seq, new):
        logits = self.model(torch.tensor([new]), PagedCache(self.store, [seq]), last=True)
        self.store.publish(seq, self.texts[seq])
        self.texts[seq] = [*self.texts[seq], int(logits[0, 0].argmax())]

    def preempt(self, seq):
        self.store.free(seq)
        self.preempted[seq] += 1
        self.waiting.insert(0, seq)

    def finish(self, seq):
        if len(self.texts[seq]) == self.ends[seq]:
            self.store.free(seq)
            self.running.remove(seq)


@torch.inference_mode()
def test_preempted_requests_resume_with_the_same_text():
    """Three requests of up to 4 blocks each in a pool of 7, and two in one of 4: preempted, they go on where they were."""
    model = decoder(dtype=torch.float64)
    prompts = [tokens(1, length, seed=length)[0].tolist() for length in (5, 4, 7, 3)]
    roomy = Requests(model, store_of(model), prompts, 9)
    expected = roomy.run()
    assert not any(roomy.preempted.values())
    for num_blocks in (4, 5, 7):
        tight = Requests(model, store_of(model, num_blocks=num_blocks), prompts, 9)
        assert tight.run() == expected
        assert sum(tight.preempted.values()) >= 2, tight.preempted
        assert tight.store.pool.num_held == 0


@torch.inference_mode()
@pytest.mark.parametrize("published", [False, True])
def test_each_request_preempted_at_every_step_gives_the_same_text(published):
    """The hardest case: after each token the request is thrown out, and its blocks are handed to another before it comes back."""
    model = decoder(dtype=torch.float64)
    store, text = store_of(model, num_blocks=4), tokens(1, 5)[0].tolist()
    for _ in range(8):
        reused = store.begin("a", text)
        logits = model(torch.tensor([text[reused:]]), PagedCache(store, ["a"]), last=True)
        assert (logits[0, 0] - alone(model, text)[-1]).abs().max() < EXACT
        if published:
            store.publish("a", text)
        text.append(int(logits[0, 0].argmax()))
        store.free("a")
        other = store.pool.allocate(2)
        for layer in store.storage.tensors:
            for tensor in layer:
                tensor[other] = torch.nan
        store.pool.release(other)
        store.check()
    assert (store.prefixes.stats.hit_tokens > 0) == published


# --- what is refused, and failures in the middle --------------------------------------------------------------------------


@torch.inference_mode()
def test_a_step_without_room_changes_no_row():
    model = decoder(dtype=torch.float64)
    store, ids = store_of(model, num_blocks=3), tokens(2, 8)
    cache = started(store, "a", "b")
    model(ids[:, :4], cache)
    with pytest.raises(OutOfBlocks, match="2 blocks wanted, 1 free and 0 cached of 3"):
        model(ids[:, 4:5], cache)
    assert cache.lengths == [4, 4]
    store.check()
    one = model(ids[:, 4:5], cache, torch.tensor([[4], [-1]]))
    assert (one[0, 0] - alone(model, ids[0, :5])[-1]).abs().max() < EXACT
    assert cache.lengths == [5, 4]


@torch.inference_mode()
def test_a_row_cut_before_a_step_without_room_says_its_length():
    model = decoder(dtype=torch.float64)
    store, ids = store_of(model, num_blocks=3), tokens(1, 12)
    cache = started(store, "a")
    model(ids[:, :8], cache)
    store.begin("other")
    store.extend({"other": 4})
    with pytest.raises(OutOfBlocks, match="2 blocks wanted, 1 free"):
        model(ids[:, 3:12], cache, torch.arange(3, 12)[None])
    assert cache.lengths == [store.tables.length("a")] == [3]
    found = model(ids[:, 3:8], cache)
    assert (found[0] - alone(model, ids[0, :8])[3:]).abs().max() < EXACT
    store.check()


@torch.inference_mode()
def test_a_step_that_fails_halfway_can_be_made_again():
    model = decoder(dtype=torch.float64)
    store, ids = store_of(model), tokens(1, 10)
    cache = started(store, "a")
    model(ids[:, :6], cache)
    attend, layers = model.parts.attend, model.layers
    model.layers = torch.nn.ModuleList([layers[0], torch.nn.Identity()])
    with pytest.raises(TypeError):
        model(ids[:, 6:9], cache)
    model.layers = layers
    assert cache.lengths == [6]
    found = model(ids[:, 6:], cache)
    assert model.parts.attend is attend
    assert (found[0] - alone(model, ids[0])[6:]).abs().max() < EXACT
    assert store.tables.length("a") == 10
    store.check()


def test_what_cannot_be_is_refused_with_the_numbers():
    model = decoder()
    store = store_of(model)
    store.begin("a")
    with pytest.raises(ValueError, match="impl is 'paged'"):
        PagedCache(store, ["a"], impl="paged")
    for seqs in ([], ["a", "a"]):
        with pytest.raises(ValueError, match="use at least one, each once"):
            PagedCache(store, seqs)
    with pytest.raises(KVCacheError, match="no sequence 'b'"):
        PagedCache(store, ["b"])
    with pytest.raises(ValueError, match="impl='kernel' for grouped: head_dim 16 is not supported"):
        PagedCache(store, ["a"], impl="kernel")
    for kind, why in (("mla", "MLA keeps latents"), ("window", "no window, the model has one of 5")):
        other = store_of(decoder(kind))
        other.begin("a")
        with pytest.raises(ValueError, match=why):
            PagedCache(other, ["a"], impl="kernel")
    with pytest.raises(ValueError, match="a cache of 0 rows and 4 tokens"):
        paged_factory()(model.config, 0, 4, torch.float32, torch.device("cpu"))
    with pytest.raises(KVCacheError, match=r"the budget on cpu is .* use at most 1 blocks"):
        PagedStore(model.config, num_blocks=2, dtype=torch.float32, budget_bytes=16 * 2 * 2 * 2 * 16 * 4)
    cache = PagedCache(store, ["a"], capacity=6)
    with pytest.raises(ValueError, match="has room for 6"):
        model(tokens(1, 7), cache)
    with pytest.raises(ValueError, match="row 0 holds 0 tokens and cannot be cut to 1"):
        cache.truncate([1])
    store.check()
    cache.free()
    assert store.pool.num_free == 64


def test_a_begin_that_is_refused_leaves_no_reference():
    model = decoder()
    store, text = store_of(model), list(range(9))
    store.begin("a", text)
    model(torch.tensor([text]), PagedCache(store, ["a"]))
    store.publish("a", text)
    with pytest.raises(KVCacheError, match="'a' exists, with 9 tokens"):
        store.begin("a", text)
    store.check()


def test_an_attend_that_reads_tensors_is_told_what_goes_with_blocks():
    """Also where impl='auto' chose the kernels, on a CUDA device."""
    model = load("course-draft")
    model.layers = model.layers[:1]
    store = store_of(model, num_blocks=1, block_size=16)
    store.begin("a")
    cache = PagedCache(store, ["a"], impl="kernel")
    with pytest.raises(AttributeError, match=r"a PagedView is no tensor .*give the model attend_paged .*or .*impl='gather'"):
        model(torch.tensor([[5]]), cache)
    model.parts = Parts(attend=attend_paged)
    assert (model(torch.tensor([[5]]), cache) - model(torch.tensor([[5]]))).abs().max() < 1e-4  # the step starts again
    assert cache.lengths == [1]
    store.check()


def test_the_package_offers_the_paged_names_and_names_them_for_another():
    import course_lib.model as package

    assert package.PagedCache is PagedCache
    assert package.PagedStore is PagedStore
    assert {package.paged_parts, package.paged_factory, package.attend_paged} == {paged_parts, paged_factory, attend_paged}
    with pytest.raises(AttributeError, match=r"course_lib\.model has no 'PagedKV'; it offers .*PagedCache"):
        package.PagedKV  # noqa: B018

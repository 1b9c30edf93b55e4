"""Generation: the stream, its ends, its seed, and batches that equal their rows."""

import re

import pytest
import torch

from course_lib.model import Sampling, complete, generate

from .tiny import decoder

PROMPT = [3, 14, 15, 92]
PROMPTS = [[3, 14, 15, 92], [65], [35, 8, 97 - 1, 79, 32, 38]]
WARM = Sampling(temperature=1.0, seed=5)


class Bytes:
    """Token n is the byte n, and 96 is the first byte of a character of two."""

    def encode(self, text):
        return list(text.encode())

    def decode(self, ids):
        return bytes({96: 0xC3, 95: 0xA9}.get(n, n) for n in ids)


def of(stream, row=0):
    return [new.token for new in stream if new.row == row]


def by_hand(model, prompt, count):
    """Greedy without a cache: the whole text again for each token."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("kind", ["grouped", "window", "mla"])
def test_greedy_equals_the_argmax_of_the_whole_text_each_time(kind):
    model = decoder(kind)
    expected = by_hand(model, PROMPT, 20)
    assert len(set(expected)) > 4
    assert of(generate(model, PROMPT, max_new_tokens=20)) == expected


@pytest.mark.parametrize("sampling", [Sampling(), WARM, Sampling(temperature=0.8, top_k=20, top_p=0.9, seed=5)])
@pytest.mark.parametrize("kind", ["grouped", "mla"])
def test_each_row_of_a_batch_goes_on_as_it_would_alone(kind, sampling):
    model = decoder(kind, dtype=torch.float64)
    together = list(generate(model, PROMPTS, max_new_tokens=10, sampling=sampling))
    for row, prompt in enumerate(PROMPTS):
        own = Sampling(temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p, seed=5 + row)
        assert of(together, row) == of(generate(model, prompt, max_new_tokens=10, sampling=own))


def test_a_seed_decides_and_another_one_decides_otherwise():
    model = decoder()
    found = [of(generate(model, PROMPT, max_new_tokens=20, sampling=Sampling(temperature=1, seed=s))) for s in (5, 5, 6)]
    torch.manual_seed(123)  # not the global one
    assert found[0] == found[1] == of(generate(model, PROMPT, max_new_tokens=20, sampling=WARM))
    assert found[0] != found[2]


def test_a_row_ends_at_its_stop_token_and_the_others_go_on():
    model = decoder(dtype=torch.float64)
    free = list(generate(model, PROMPTS, max_new_tokens=10))
    stop = of(free, 1)[3]
    first = {row: of(free, row).index(stop) if stop in of(free, row) else None for row in range(3)}
    assert first[1] is not None
    assert len(set(first.values())) > 1  # not all at once
    made = list(generate(model, PROMPTS, max_new_tokens=10, stop={stop}))
    for row, place in first.items():
        mine = [new for new in made if new.row == row]
        assert [new.token for new in mine] == of(free, row)[: 10 if place is None else place + 1]
        assert [new.ended for new in mine] == [""] * (len(mine) - 1) + ["length" if place is None else "stop"]
    for new in made:  # what has ended is kept, and grows no more
        held = sum(len(ids) + min(new.index, 10 if first[row] is None else first[row]) for row, ids in enumerate(PROMPTS))
        assert new.kv_bytes == held * model.config.kv_bytes_per_token(8)


def test_nothing_is_made_after_all_have_ended():
    model = decoder()
    first = of(generate(model, PROMPT, max_new_tokens=5))[0]
    made = list(generate(model, PROMPT, max_new_tokens=5, stop=[first]))
    assert [(new.token, new.ended) for new in made] == [(first, "stop")]


def test_probabilities_are_the_models_own():
    model = decoder(dtype=torch.float64)
    ids = list(PROMPT)
    for new in generate(model, PROMPT, max_new_tokens=6, sampling=Sampling(temperature=2, top_k=50), top=3):
        probs = model(torch.tensor([ids]))[0, -1].softmax(-1)
        assert new.probability == pytest.approx(float(probs[new.token]), abs=1e-9)
        best = probs.topk(3)
        assert [token for token, _ in new.top] == best.indices.tolist()
        assert [p for _, p in new.top] == pytest.approx(best.values.tolist(), abs=1e-9)
        ids.append(new.token)


def test_bytes_of_a_step_are_the_weights_once_and_the_cache():
    model = decoder()
    made = list(generate(model, PROMPTS[:2], max_new_tokens=3))
    assert {new.weight_bytes for new in made} == {4 * model.config.params}
    per_token = model.config.kv_bytes_per_token(4)
    assert [new.kv_bytes for new in made if new.row == 0] == [(5 + 2 * step) * per_token for step in range(3)]
    assert all(new.seconds > 0 for new in made)


def test_text_appears_when_its_character_is_complete():
    class Told:  # a model that says: 65, 96, 95, 96, 65
        def __init__(self, ids):
            self.real, self.ids = decoder(), iter(ids)

        def __getattr__(self, name):
            return getattr(self.real, name)

        def __call__(self, *a, **k):
            return torch.nn.functional.one_hot(torch.tensor([[next(self.ids)]]), 97).float()

    texts = [new.text for new in generate(Told([65, 96, 95, 96, 65]), [1], max_new_tokens=5, tokenizer=Bytes())]
    assert texts == ["A", "", "é", "", "\ufffdA"]
    cut = [new.text for new in generate(Told([65, 96]), [1], max_new_tokens=2, tokenizer=Bytes())]
    assert cut == ["A", "\ufffd"]
    stopped = [new.text for new in generate(Told([65, 96, 66]), [1], max_new_tokens=9, tokenizer=Bytes(), stop=[66])]
    assert stopped == ["A", "", "\ufffd"]  # the rest of the text, and not the stop token's own


def test_complete_gives_the_text():
    model = decoder()
    expected = "".join(new.text for new in generate(model, [65, 66], max_new_tokens=6, tokenizer=Bytes()))
    assert expected
    assert complete(model, "AB", tokenizer=Bytes(), max_new_tokens=6) == expected
    model.tokenizer_factory = Bytes
    assert complete(model, "AB", max_new_tokens=6) == expected


@pytest.mark.parametrize(("prompt", "options", "words"), [
    ([], {}, "prompt 0 is empty; begin with one token"),
    ([[1], []], {"max_new_tokens": 9}, "prompt 1 is empty"),
    ([1, 97], {}, "prompt 0 has token 97; grouped has 0 to 96"),
    ([1, -1], {}, "prompt 0 has token -1"),
    ([1], {"max_new_tokens": 0}, "max_new_tokens is 0; use at least 1"),
    ([1], {"top": 0}, "top is 0"),
    ([1] * 30, {"max_new_tokens": 3}, "prompt 0 has 30 tokens and 3 more are asked for; grouped was trained on texts of 32: ask "
     "for at most 2"),
    ("def", {}, "the prompt is text, 'def'; use complete(model, text)"),
    ([1.0], {}, "prompt 0 has token 1.0"),
    (["ab"], {}, "prompt 0 has token 'ab'"),
    ([1, [2]], {}, "prompts hold ids and lists, [1, [2]]"),
    (None, {}, "prompts are None; use a list of token ids"),
    ([1], {"max_new_tokens": 2.0}, "max_new_tokens is 2.0; use at least 1, a whole number"),
    ([1], {"top": "3"}, "top is '3'"),
    ([1], {"stop": 0}, "stop is 0; use a collection of token ids, such as {tokenizer.END}"),
    ([1], {"stop": "a"}, "stop is 'a'"),
    ([1], {"stop": [97]}, "stop has 97, which never comes; grouped has 0 to 96"),
    ([1], {"sampling": {"temperature": 1}}, "sampling is {'temperature': 1}; use Sampling(temperature=..."),
    ([1] * 40, {}, "grouped was trained on texts of 32: keep at most the last 31 tokens of the prompt"),
])  # fmt: skip
def test_a_mistake_is_named_at_once(prompt, options, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        generate(decoder(context=32), prompt, **options)  # before the first token is asked for


def test_complete_wants_one_text():
    with pytest.raises(ValueError, match=r"prompt is \['a', 'b'\]; complete goes on with one text"):
        complete(decoder(), ["a", "b"], tokenizer=Bytes())


def test_prompts_may_be_tensors_arrays_and_tuples():
    expected = of(generate(decoder(), [[1, 2], [3, 4]], max_new_tokens=3))
    ids = torch.tensor([[1, 2], [3, 4]])
    for prompts in (ids, ids.numpy(), [ids[0], ids[1].tolist()], ((1, 2), range(3, 5)), [list(ids.numpy()[0]), [3, 4]]):
        assert of(generate(decoder(), prompts, max_new_tokens=3)) == expected
    assert of(generate(decoder(), ids[0], max_new_tokens=3)) == of(generate(decoder(), [1, 2], max_new_tokens=3))


def test_generators_side_by_side_or_given_up_leave_no_trace():
    """Two at once of one model, and one that is closed after its first token."""
    sampled = Sampling(temperature=1.0, seed=4)
    model = decoder()
    alone = [of(generate(model, [1, 2], max_new_tokens=6)), of(generate(model, [3], max_new_tokens=6, sampling=sampled))]
    given_up = generate(model, [5], max_new_tokens=6)
    next(given_up)
    given_up.close()
    assert not torch.is_inference_mode_enabled()
    pair = zip(generate(model, [1, 2], max_new_tokens=6), generate(model, [3], max_new_tokens=6, sampling=sampled), strict=True)
    assert [of(made) for made in zip(*pair, strict=True)] == alone


def test_the_context_may_be_filled():
    assert len(of(generate(decoder(context=32), [1] * 30, max_new_tokens=2))) == 2


def test_asking_for_more_rivals_than_tokens_gives_all():
    assert len(next(generate(decoder(), PROMPT, top=1000)).top) == 97

"""A checkpoint's tokenizer.json gives the ids that the library gives, and every text back, piece by piece."""

import json
import re
import shutil
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as LibraryTokenizer

from course_lib.model import complete, generate
from course_lib.model.huggingface import CheckpointTokenizer, load_checkpoint
from course_lib.model.huggingface.tokenizer_file import end_ids

from .checkpoints import change_json, reference

TEXTS = ["def area(self):\n    return self.width * self.height\n" * 3, "two words, and  three", "é€🙂 naïve"]
MARKS = ["<s>", "</s>", "<|im_end|>"]
AWKWARD = ["", " ", "a", " a", "  two", "x\n\n y", "é€🙂", "<s>", "a</s>b", "<think>hm</think>", "\u2581", "<0x41>", "\0", "日本"]


@cache
def byte_level():
    """As Llama 3 and Qwen have it: bytes in GPT-2's alphabet, and a mark before a text."""
    library = LibraryTokenizer(models.BPE())
    splits = pre_tokenizers.Split(Regex(r"\s?\p{L}+|\s?[^\s\p{L}]+|\s+"), "isolated")
    library.pre_tokenizer = pre_tokenizers.Sequence([splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, special_tokens=MARKS, show_progress=False)
    return finished(library, trainer)


@cache
def byte_fallback(scheme="normalizer"):
    """As Mistral 7B has it: a blank is U+2581 and stands before each text, unknown characters fall to bytes."""
    library = LibraryTokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if scheme == "normalizer":
        library.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    else:
        library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    blanks, strip = decoders.Replace("\u2581", " "), decoders.Strip(" ", 1, 0)
    library.decoder = decoders.Sequence([blanks, decoders.ByteFallback(), decoders.Fuse(), strip])
    specials = [*MARKS, "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=specials, show_progress=False)
    library = finished(library, trainer)
    data = json.loads(library.to_str())  # the trainer makes marks of the bytes too; released files list only true marks
    data["added_tokens"] = [token for token in data["added_tokens"] if not token["content"].startswith("<0x")]
    return LibraryTokenizer.from_str(json.dumps(data))


def finished(library, trainer):
    library.train_from_iterator(TEXTS, trainer)
    library.add_tokens([AddedToken("<think>", special=False), AddedToken("</think>", special=False)])
    start = library.token_to_id("<s>")
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    return library


KINDS = {
    "byte level": byte_level,
    "byte fallback": byte_fallback,
    "byte fallback, blank by the pre-tokenizer": lambda: byte_fallback("pre-tokenizer"),
}


@cache
def ours(kind):
    return CheckpointTokenizer(LibraryTokenizer.from_str(KINDS[kind]().to_str()), ends=[1, 2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", AWKWARD)
def test_ids_are_the_librarys_and_the_text_comes_back(kind, text):
    tokenizer, library = ours(kind), KINDS[kind]()
    assert tokenizer.encode(text, marks=True) == library.encode(text).ids
    assert tokenizer.encode(text, marks=True, start=False) == library.encode(text, add_special_tokens=False).ids
    ids = tokenizer.encode(text)
    assert ids[0] == library.token_to_id("<s>")
    assert not set(ids[1:]) & {0, 1, 2}  # a mark inside a text is characters
    if kind == "byte level" or text not in ("\u2581", " ", " a", "  two"):
        assert tokenizer.text(ids) == text
    assert tokenizer.text(ids) == library.decode(ids)
    assert "".join(tokenizer.stream(ids)) == tokenizer.text(ids)


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_bytes_come_back_at_byte_level(content):
    tokenizer = ours("byte level")
    assert tokenizer.decode(tokenizer.encode(content)) == content


@given(st.text(max_size=40).filter(lambda text: "\u2581" not in text))
@settings(max_examples=100, deadline=None)
def test_any_text_comes_back_through_byte_fallback(text):
    tokenizer = ours("byte fallback")
    content = text.encode("utf-8", "replace")
    assert tokenizer.decode(tokenizer.encode(content)) == content


def test_bytes_that_are_no_text_are_refused_where_the_vocabulary_is_text():
    with pytest.raises(ValueError, match="byte 1 begins no UTF-8 character"):
        ours("byte fallback").encode(b"a\xff")


def test_a_text_that_goes_on_keeps_its_first_blank():
    tokenizer = ours("byte fallback")
    whole = tokenizer.encode("two words")
    assert tokenizer.decode(whole) == b"two words"
    assert tokenizer.decode(whole[1:]) == b" two words"  # no mark before it: what a model has added
    assert b"".join(tokenizer.decode([i]) for i in whole) == b" two words"


def test_marks_stand_for_no_bytes_and_plain_additions_for_themselves():
    for kind in KINDS:
        tokenizer = ours(kind)
        assert tokenizer.decode([0, 1, 2]) == b""
        assert tokenizer.decode(tokenizer.encode("<think>", start=False)[-1:]) == b"<think>"
        assert (tokenizer.END, tokenizer.ends, tokenizer.start) == (1, (1, 2), (0,))
        assert tokenizer.vocab == KINDS[kind]().get_vocab_size()
    with pytest.raises(ValueError, match="token -1 is not in the vocabulary"):
        tokenizer.decode([-1])


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint whose vocabulary fits the byte-level tokenizer."""
    model, _ = reference("llama 3")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig.from_dict(model.config.to_dict() | {"vocab_size": 340, "eos_token_id": [1, 2]})
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    byte_level().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_checkpoint_brings_its_tokenizer_and_generates_text(checkpoint):
    model, tokenizer = load_checkpoint(str(checkpoint))
    assert model.tokenizer() is tokenizer
    assert tokenizer.ends == (1, 2)
    assert tokenizer.encode("self.width") == byte_level().encode("self.width").ids
    made = [new.token for new in generate(model, tokenizer.encode("self.width"), max_new_tokens=8, stop=tokenizer.ends)]
    text = complete(model, "self.width", max_new_tokens=8, stop=tokenizer.ends)
    assert text == tokenizer.text(made)


def test_ends_are_those_of_both_files(tmp_path):
    (tmp_path / "config.json").write_text('{"eos_token_id": 5}')
    assert end_ids(tmp_path) == (5,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 5]}')
    assert end_ids(tmp_path) == (5, 7)
    (tmp_path / "config.json").write_text('{"eos_token_id": null}')
    assert end_ids(tmp_path) == (7, 5)
    (tmp_path / "config.json").write_text('{"eos_token_id": "</s>"}')
    with pytest.raises(ValueError, match="eos_token_id '</s>'; it has to be a token id"):
        end_ids(tmp_path)


def refused(folder, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        load_checkpoint(folder)


def test_tokenizers_that_do_not_fit_are_refused(checkpoint):
    file = checkpoint / "tokenizer.json"
    whole = json.loads(file.read_text())
    change_json(checkpoint / "config.json", eos_token_id=339)
    refused(checkpoint, "eos_token_id 339 is not in the vocabulary (0 to 3")
    change_json(checkpoint / "config.json", eos_token_id=1)
    file.write_text(json.dumps(whole | {"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}))
    refused(checkpoint, "its decoder (WordPiece) is not implemented; ByteLevel and ByteFallback are")
    file.write_text(json.dumps(whole | {"model": {"type": "nothing"}}))
    refused(checkpoint, "is no tokenizer that this version of tokenizers reads")
    file.write_text(json.dumps(whole)[:-50])
    refused(checkpoint, "is no JSON")
    library = LibraryTokenizer.from_str(json.dumps(whole))
    library.add_tokens([f"more{i}" for i in range(340 - library.get_vocab_size())])
    library.save(str(file))
    assert load_checkpoint(checkpoint)[1].vocab == 340
    library.add_tokens(["one more"])
    library.save(str(file))
    refused(checkpoint, "and the model's embedding has rows for 0 to 339; take tokenizer.json and weights of one release")


def test_a_folder_without_a_tokenizer_still_gives_a_model(tmp_path):
    folder = shutil.copytree(reference("llama 3")[1], tmp_path / "bare")
    model, tokenizer = load_checkpoint(folder)
    assert tokenizer is None
    with pytest.raises(ValueError, match="bare came without a tokenizer"):
        model.tokenizer()

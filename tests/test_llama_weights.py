"""weights/llama_weights.py: a file that GGUF's own writer wrote is read back; the real one as by Hugging Face.

What needs the real weights is skipped where they are not: nothing is downloaded in a test.
"""

import random
import struct
import warnings

import gguf
import pytest
import torch
from gguf.quants import quantize
from test_decoder import theirs
from torch import nn
from torch.testing import assert_close

from course_lib.data import plays
from course_lib.language.decoder import Decoder
from course_lib.train import published
from course_lib.weights.llama_weights import LLAMA_NAMES, from_gguf, from_llama, gguf_chat_template, gguf_tokenizer

KIND = {kind: gguf.GGMLQuantizationType[kind] for kind in ("F32", "F16", "Q4_1", "Q8_0")}
VOCAB = ["<|end|>", "<|start|>", *map(str, range(10)), "a", "b", "Ġ", "ab", "Ġa", "Ġab"]
MERGES = ["a b", "Ġ a", "Ġ ab"]


def a_file(path, change=None, kind="Q8_0", version=None, drop=(), more=None):
    """A small LLaMA in a GGUF file, written by GGUF's own writer; `change` may call the writer before it is closed."""
    reference = theirs(2, 1, 32, 2, 64, vocab_size=len(VOCAB), dtype=torch.float32)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(len(VOCAB))
    writer.add_context_length(64)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_freq_base(500.0)
    writer.add_layer_norm_rms_eps(1e-3)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(VOCAB)
    writer.add_token_merges(MERGES)
    writer.add_token_types([3, 3] + [1] * (len(VOCAB) - 2))
    if change:
        change(writer)
    sizes, weights = from_llama(reference)
    for name, weight in (weights | (more or {})).items():
        if name in drop:
            continue
        for ours, _, other in LLAMA_NAMES:
            name = name.replace(ours, other)
        raw = weight.numpy()
        if raw.ndim == 2 and kind not in ("F32",):
            writer.add_tensor(name, quantize(raw, KIND[kind]), raw_dtype=KIND[kind])
        else:
            writer.add_tensor(name, raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sizes, weights


@pytest.mark.slow
@pytest.mark.parametrize("kind", KIND)
def test_a_file_gives_the_model_that_was_written(tmp_path, kind):
    """from_gguf, from_llama, Decoder.from_gguf: sizes, and weights to the rounding of their kind."""
    sizes, weights = a_file(tmp_path / "small.gguf", kind=kind)
    found, unpacked = from_gguf(tmp_path / "small.gguf")
    assert sizes.pop("d_head") == 32 and found == sizes | {"eps": pytest.approx(1e-3)}
    assert unpacked.keys() == weights.keys()
    model = Decoder.from_gguf(str(tmp_path / "small.gguf"))
    assert not model.training and all(part.requires_grad for part in model.parameters())
    bound = {"F32": 0, "F16": 1e-3, "Q8_0": 0.01, "Q4_1": 0.1}[kind]
    for name, part in model.named_parameters():
        assert (part - weights[name]).abs().max() <= bound
    if kind == "F32":
        reference, ids = theirs(2, 1, 32, 2, 64, vocab_size=len(VOCAB), dtype=torch.float32), torch.arange(18)[None]
        assert_close(model(ids), reference(ids).logits, atol=1e-4, rtol=0)


def test_a_file_gives_its_tokenizer(tmp_path):
    """gguf_tokenizer: the file's ids; digits stand alone; a special is never spelled by a text."""
    a_file(tmp_path / "small.gguf")
    bpe = gguf_tokenizer(tmp_path / "small.gguf")
    assert bpe.vocab == VOCAB and bpe.specials == {"<|end|>": 0, "<|start|>": 1}
    assert [bpe.vocab[i] for i in bpe.encode("ab 12 ab")] == ["ab", "Ġ", "1", "2", "Ġab"]
    assert not {0, 1} & set(bpe.encode("<|end|>").tolist())


def test_a_file_gives_its_chat_template(tmp_path):
    """gguf_chat_template: as it was written; a file without one is refused in words."""
    a_file(tmp_path / "tuned.gguf", lambda writer: writer.add_chat_template("{{ messages[0].content }}"))
    assert gguf_chat_template(tmp_path / "tuned.gguf") == "{{ messages[0].content }}"
    a_file(tmp_path / "base.gguf")
    with pytest.raises(ValueError, match=r"base\.gguf has no chat template"):
        gguf_chat_template(tmp_path / "base.gguf")


def test_a_file_cut_short_anywhere_is_refused_in_words(tmp_path):
    a_file(tmp_path / "whole.gguf")
    whole = (tmp_path / "whole.gguf").read_bytes()
    rng = random.Random(0)
    for length in [0, 3, 4, 10, 24, 100, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(20))]:
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="^cut.gguf is no GGUF file that can be read here, or it is damaged"):
            from_gguf(tmp_path / "cut.gguf")
        (tmp_path / "cut.gguf").unlink()


@pytest.mark.parametrize("tries", [40, pytest.param(300, marks=pytest.mark.full)])
def test_a_header_with_other_bytes_is_refused_or_read_and_nothing_else(tmp_path, tries):
    a_file(tmp_path / "whole.gguf")
    whole, rng = bytearray((tmp_path / "whole.gguf").read_bytes()), random.Random(0)
    for n in range(tries):
        other = whole.copy()
        at = rng.randrange(1_500)
        other[at : at + 8] = rng.choice([b"\xff" * 8, rng.randbytes(8), bytes(8)])
        path = tmp_path / f"{n}.gguf"
        path.write_bytes(other)
        try:
            Decoder.from_gguf(path)
            gguf_tokenizer(path)
        except (ValueError, TypeError) as error:
            assert str(error)[0].isupper() or path.name in str(error), error
        path.unlink()


@pytest.mark.parametrize(
    "change, named, words",
    [
        (lambda writer: setattr(writer, "arch", "llama"), {"more": {"rope_freqs.weight": torch.ones(4)}}, "rope_freqs"),
        (None, {"drop": ["norm.gain"]}, "are not those of a Decoder of these sizes: norm.gain"),
        (lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN), {}, "no decoder of the LLaMA kind"),
        (lambda writer: writer.add_key_length(64), {}, "are not those of a Decoder of these sizes: blocks.0"),
    ],
)
def test_another_model_is_refused_in_words(tmp_path, change, named, words):
    a_file(tmp_path / "other.gguf", change, **named)
    with pytest.raises(ValueError, match=words):
        Decoder.from_gguf(tmp_path / "other.gguf")


def test_no_file_and_no_gguf_are_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file none.gguf: `course_lib.train.published.fetch`"):
        Decoder.from_gguf(tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("a text")
    with pytest.raises(ValueError, match="text.gguf is no GGUF file"):
        gguf_tokenizer(tmp_path / "text.gguf")


@pytest.mark.parametrize(
    "field, behind, number, words",
    [
        (b"llama.context_length", 4, struct.pack("<I", 0), "is damaged: sizes or tokens are missing"),
        (b"llama.block_count", 4, struct.pack("<I", 2**20), "is damaged: sizes or tokens are missing"),
        (b"llama.vocab_size", 0, struct.pack("<I", 99), "is no GGUF file that can be read here"),  # a kind of no field
        (b"tokenizer.ggml.token_type", 8, struct.pack("<Q", 2**60), "is no GGUF file that can be read here"),
        (b"output_norm.weight", 12, struct.pack("<I", 26), "is no GGUF file that can be read here"),  # whole numbers
        (b"GGUF", 0, struct.pack(">I", 3), "is no GGUF file that can be read here"),  # bytes in the other order
    ],
)
def test_what_cannot_be_is_refused_in_words(tmp_path, field, behind, number, words):
    """Among it a list that claims to be longer than any file, which GGUF's own reader would never stop reading."""
    a_file(path := tmp_path / "small.gguf")
    whole = path.read_bytes()
    at = whole.index(field) + len(field) + behind
    path.write_bytes(whole[:at] + number + whole[at + len(number) :])
    with pytest.raises(ValueError, match=f"^small.gguf {words}"):
        from_gguf(path)


def test_weights_come_in_the_default_precision_and_can_be_written_to(tmp_path):
    a_file(tmp_path / "small.gguf", kind="F32")
    torch.set_default_dtype(torch.float64)
    try:
        weights = from_gguf(tmp_path / "small.gguf")[1]
    finally:
        torch.set_default_dtype(torch.float32)
    for weight in weights.values():
        assert weight.dtype == torch.float64 and weight.zero_().sum() == 0


def test_weights_of_hugging_face_are_copied():
    model = theirs(2, 1, 4, 1, 8, dtype=torch.float32)
    weights = from_llama(model)[1]
    nn.init.zeros_(model.model.embed_tokens.weight)
    assert weights["embed.weight"].abs().min() > 0


# --- the real one

SMOLLM2 = published.find("smollm2")
real = [
    pytest.mark.slow,
    pytest.mark.skipif(SMOLLM2 is None, reason="SmolLM2 is not here: python -m course_lib.train.published smollm2"),
]
ODD = [
    "",
    " ",
    "\n\n \n",
    "a",
    "It's 2024, and 3.14159 isn't 22/7.",
    "   many   spaces  \t and\ttabs \r\n ends ",
    "Ünïcödé: naïve café, Ελληνικά, русский, עברית, العربية, हिन्दी, ไทยไม่เว้นวรรค, 日本語, 한국어",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈 e\u0301 \u200d \ufeff \u00a0x\u3000y",
    "\x00\x01\x07\x7f\x85",
    "<|im_start|>user <|endoftext|>",
    "def f(x):\n    return x**2  # 1_000",
    "A" * 500 + "!?" * 200,
]


@pytest.fixture(scope="module")
def smollm2():
    """Our model, and Hugging Face's of the same file."""
    from transformers import AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = AutoModelForCausalLM.from_pretrained(SMOLLM2.parent, gguf_file=SMOLLM2.name, dtype=torch.float32)
    return Decoder.from_gguf(SMOLLM2), other.eval()


@pytest.mark.full  # a minute, for 135 million weights; a small file, by the same writer, is compared above
class TestSmolLM2:
    pytestmark = real

    @torch.no_grad()
    def test_logits_and_next_tokens_are_hugging_faces(self, smollm2):
        ours, other = smollm2
        text, encode = plays.text("test"), gguf_tokenizer(SMOLLM2).encode
        ids = torch.stack([encode(text[at : at + 2_000])[:250] for at in (0, 9_999, 200_000, 600_000)])
        found, wanted = ours(ids), other(ids).logits
        assert (found - wanted).abs().max() <= 1e-3
        assert torch.equal(found.argmax(-1), wanted.argmax(-1))

    @torch.no_grad()
    def test_padding_a_cache_and_a_listener_change_nothing(self, smollm2):
        from course_lib.show.record import capture

        ours, other = smollm2
        ids = torch.randint(49_152, (2, 24))
        mask = torch.arange(24) >= torch.tensor([[0], [17]])
        wanted = other(ids, attention_mask=mask.long()).logits
        assert (ours(ids, mask) - wanted)[mask].abs().max() <= 1e-3
        cache = [{} for _ in ours.blocks]
        parts = [ours(ids[:, a:b], mask[:, :b], cache) for a, b in ((0, 20), (20, 21), (21, 24))]
        assert (torch.cat(parts, 1) - wanted)[mask].abs().max() <= 1e-3
        with capture(ours, "*.weights") as maps:
            assert (ours(ids, mask) - wanted)[mask].abs().max() <= 1e-3
        assert len(maps) == 30

    def test_its_tokens_are_hugging_faces(self):
        from transformers import AutoTokenizer

        other, ours = AutoTokenizer.from_pretrained(SMOLLM2.parent, gguf_file=SMOLLM2.name), gguf_tokenizer(SMOLLM2)
        assert len(ours) == 49_152 and ours.specials["<|endoftext|>"] == 0 and len(ours.specials) == 17
        text = plays.text("test")
        for piece in [*(text[at : at + 20_000] for at in range(0, len(text), 20_000)), *ODD]:
            found = ours.encode(piece).tolist()
            assert found == other.backend_tokenizer.encode(piece, add_special_tokens=False).ids or "<|" in piece, piece

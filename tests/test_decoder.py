"""language/decoder.py: equal to Hugging Face's LLaMA in values and gradients; padding; a cache; bad input."""

import pytest
import torch
from parity import TOLERANCE, exact_or_not
from torch import nn
from torch.testing import assert_close

from course_lib.inputs.sequences import select_rows
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.show.record import capture

# heads, heads of keys and values, width of a head, layers, width inside: every grouping of six heads, odd sizes
SIZES = [(6, 6, 4, 1, 9), (6, 3, 4, 2, 17), (6, 2, 2, 2, 5), (6, 1, 8, 1, 1), (1, 1, 2, 3, 11), (9, 3, 6, 1, 30)]


def theirs(H, G, d, n_layers, d_ff, vocab_size=31, d_model=None, dtype=torch.float64, **more):
    """A LlamaForCausalLM with weights drawn at random. In float64 what it computes in float32 is put right."""
    from transformers import LlamaConfig, LlamaForCausalLM

    d_model = d_model or H * d
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=d_model,
        intermediate_size=d_ff,
        num_hidden_layers=n_layers,
        num_attention_heads=H,
        num_key_value_heads=G,
        head_dim=d,
        max_position_embeddings=64,
        rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        initializer_range=0.3,
        **more,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to(dtype).eval()
    for name, part in model.named_parameters():
        if "norm" in name:
            nn.init.normal_(part, 1, 0.3)
    if dtype == torch.float64:  # their norms and angles are float32 always: PyTorch's norm and the formula instead
        for module in list(model.modules()):
            for name, child in module.named_children():
                if type(child).__name__ == "LlamaRMSNorm":
                    norm = nn.RMSNorm(d_model, 1e-3, dtype=dtype)
                    norm.weight = child.weight
                    setattr(module, name, norm)
        model.model.rotary_emb = Angles(d, 500.0)
    return model


def untied():
    """A model whose read-out was exchanged, which its configuration does not say."""
    model = theirs(1, 1, 2, 1, 2)
    model.lm_head.weight = nn.Parameter(model.lm_head.weight + 1)
    return model


class Angles(nn.Module):
    """LlamaRotaryEmbedding in float64."""

    def __init__(self, d, base):
        super().__init__()
        self.d, self.base = d, base

    def forward(self, x, position_ids):
        steps = self.base ** (-torch.arange(0, self.d, 2, dtype=torch.float64) / self.d)
        angles = (position_ids[..., None] * steps).repeat(1, 1, 2)
        return angles.cos(), angles.sin()


def small(seed=0, dtype=torch.float64, **sizes):
    torch.manual_seed(seed)
    sizes = {"d_model": 12, "n_heads": 6, "n_layers": 2, "d_ff": 20, "n_kv_heads": 2} | sizes
    model = Decoder(DecoderConfig(31, 64, **sizes)).to(dtype)
    for part in model.parameters():
        nn.init.normal_(part, 0.5, 0.5) if part.ndim == 1 else nn.init.normal_(part, std=0.4)
    return model.eval()


def left_padded(*lengths):
    """ids (B, T) and the mask whose True are the last `length` places of each row."""
    T = max(lengths)
    return torch.randint(31, (len(lengths), T)), torch.arange(T) >= T - torch.tensor(lengths)[:, None]


@exact_or_not
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_decoder_is_hugging_faces(size, padded, dtype):
    """Decoder, Decoder.from_hf, Decoder.forward: logits and gradients of every weight, with and without padding."""
    reference = theirs(*size, dtype=dtype)
    ours = Decoder.from_hf(reference)
    ids, mask = left_padded(9, 4, 1) if padded else (torch.randint(31, (3, 9)), None)
    wanted = reference(ids, attention_mask=mask if mask is None else mask.long()).logits
    tolerance = TOLERANCE[dtype] * (1 if dtype == torch.float64 else 3 * wanted.abs().max().item())
    real = slice(None) if mask is None else mask
    for heard in (False, True):
        if heard:
            with capture(ours, "*.weights") as maps:
                logits = ours(ids, mask)
            assert maps["blocks.0.attention.weights"][0].shape == (3, size[0], 9, 9)
        else:
            logits = ours(ids, mask)
        assert logits.shape == (3, 9, 31) and logits.dtype == dtype
        assert_close(logits[real], wanted[real], atol=tolerance, rtol=0)
        for model, out in ((ours, logits), (reference, wanted)):
            model.zero_grad()
            out[real].square().mean().backward(retain_graph=True)
        found = dict(Decoder.from_hf(with_gradients_as_weights(reference)).named_parameters())
        for name, part in ours.named_parameters():
            assert_close(part.grad, found[name].data, atol=30 * tolerance, rtol=0)


def with_gradients_as_weights(model):
    """A copy whose weights are the gradients of `model`: so they are brought in our order as weights are."""
    from copy import deepcopy

    other = deepcopy(model)
    for part, mine in zip(other.parameters(), model.parameters(), strict=True):
        part.data = mine.grad.clone()
    return other


def test_a_head_as_wide_as_one_likes_and_another_base():
    reference = theirs(4, 2, 6, 1, 8, d_model=12)
    ours, ids = Decoder.from_hf(reference), torch.randint(31, (2, 20))
    assert ours.config.d_head == 6 and ours.config.base == 500 and ours.config.eps == 1e-3
    assert_close(ours(ids), reference(ids).logits, atol=1e-10, rtol=0)


def test_a_hook_that_returns_other_weights_steers():
    model, ids = small(), torch.randint(31, (2, 7))
    whole = model(ids)
    handle = model.blocks[1].attention.weights.register_forward_hook(lambda module, seen, weights: weights * 0)
    without = model(ids)
    handle.remove()
    model.blocks[1].attention.w_o.weight.data.zero_()
    assert_close(without, model(ids), atol=1e-12, rtol=0)
    assert (without - whole).abs().max() > 1e-3


@exact_or_not
def test_a_later_token_changes_nothing_before_it(dtype):
    model, ids = small(dtype=dtype), torch.randint(31, (3, 40))
    changed = torch.cat([ids[:, :25], (ids[:, 25:] + 1) % 31], dim=1)
    for mask in (None, torch.ones(3, 40, dtype=torch.bool)):
        assert torch.equal(model(changed, mask)[:, :25], model(ids, mask)[:, :25])
        with capture(model, "*.weights"):
            assert_close(model(changed, mask)[:, :25], model(ids, mask)[:, :25], atol=TOLERANCE[dtype], rtol=0)
    assert not torch.equal(model(changed)[:, 25:], model(ids)[:, 25:])


@exact_or_not
@pytest.mark.parametrize("cuts", [[9], [1] * 9, [4, 1, 3, 1], [2, 7]], ids=str)
def test_padding_on_the_left_changes_nothing_with_a_cache_or_without(cuts, dtype):
    model, lengths = small(dtype=dtype), (9, 5, 1, 3)
    ids, mask = left_padded(*lengths)
    cache, seen, parts = [{} for _ in model.blocks], 0, []
    for part in ids.split(cuts, dim=1):
        seen += part.shape[1]
        parts.append(model(part, mask[:, :seen], cache))
    found = torch.cat(parts, dim=1)
    assert found.isfinite().all()
    for row, length in enumerate(lengths):
        alone = model(ids[row : row + 1, 9 - length :])[0]
        assert_close(found[row, 9 - length :], alone, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    grads = torch.autograd.grad(found[mask].sum(), list(model.parameters()))
    assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("cuts", [[8], [1] * 8, [3, 1, 4]], ids=str)
def test_a_cache_gives_what_the_whole_text_gives(cuts):
    model, ids = small(), torch.randint(31, (3, 8))
    cache = [{} for _ in model.blocks]
    parts = [model(part, cache=cache) for part in ids.split(cuts, dim=1)]
    assert_close(torch.cat(parts, dim=1), model(ids), atol=1e-12, rtol=0)
    assert (
        cache[1]["own"]["k"].shape == cache[1]["own"]["v"].shape == (3, 2, 8, 2)
    )  # of the two heads of keys, not of six
    rows = torch.tensor([2, 0])
    longer = model(torch.cat([ids, ids[:, :1]], dim=1)[rows])
    assert_close(model(ids[rows, :1], cache=select_rows(cache, rows)), longer[:, 8:], atol=1e-12, rtol=0)


def test_a_row_of_padding_alone_is_finite_and_harms_nobody():
    model = small()
    ids, mask = left_padded(6, 6)
    mask[1] = False
    for out in (model(ids, mask), model(ids, mask, [{} for _ in model.blocks])):
        assert out.isfinite().all()
        assert_close(out[0], model(ids[:1])[0], atol=1e-12, rtol=0)


def test_states_are_what_is_read_out():
    """Decoder.states, Decoder.read_out: the scores are products with the tokens' own vectors."""
    model, ids = small(), torch.randint(31, (2, 5))
    assert model.states(ids).shape == (2, 5, 12)
    assert torch.equal(model.read_out(model.states(ids)), model(ids))
    assert_close(model.read_out(torch.eye(12).double()), model.embed.weight.T, atol=0, rtol=0)


def test_it_writes_what_hugging_faces_writes():
    """Decoder.generate: greedy, prompts of different lengths, beside their own generate."""
    reference = theirs(6, 2, 4, 2, 17)
    ours, prompts = Decoder.from_hf(reference), [[1, 2, 3, 4], [5], [7, 8]]
    for row, prompt in zip(ours.generate(prompts, 12, temperature=0), prompts, strict=True):
        wanted = reference.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False, pad_token_id=0)
        wanted = wanted[0, len(prompt) :].tolist()
        assert row[: len(wanted)] == wanted  # theirs stops at an end of text that it has by default


@pytest.mark.slow
def test_it_learns():
    """DecoderConfig, decoder_block: a text of 24 tokens is learnt by heart, which cannot fail."""
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(31, 64, 32, 4, 2, 64, n_kv_heads=2))
    ids = torch.randint(31, (1, 25))
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    first = None
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[0, 1:])
        first = first or loss.item()
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert loss < 0.2 < 3 < first < 3.8


def test_the_sizes_of_smollm2_have_its_number_of_weights():
    with torch.device("meta"):
        model = Decoder(DecoderConfig(49_152, 8_192, 576, 9, 30, 1_536, n_kv_heads=3))
    inside = 576 * (2 * 576 + 2 * 192) + 3 * 576 * 1_536 + 2 * 576
    assert sum(part.numel() for part in model.parameters()) == 49_152 * 576 + 30 * inside + 576 == 134_515_008


def test_heads_that_are_not_shared_are_the_default():
    assert DecoderConfig(5, 5, 8, 4, 1, 8) == DecoderConfig(5, 5, 8, 4, 1, 8, n_kv_heads=4, d_head=2)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda model: Decoder(DecoderConfig(5, 5, 8, 4, 1, 8, n_kv_heads=3)), ValueError, "multiple of n_kv_heads"),
        (lambda model: DecoderConfig(5, 5, 10, 4, 1, 8), ValueError, "multiple of n_heads; got d_model=10"),
        (lambda model: model(torch.zeros(2, 65).long()), ValueError, "65 tokens long, and this model reads 64: cut it"),
        (lambda model: model(torch.full((1, 3), 31)), ValueError, "ids from 0 to 30"),
        (lambda model: model([[1, 2]], torch.tensor([[True, False]])), ValueError, "Padding must stand on the left"),
        (lambda model: Decoder.from_hf(nn.Linear(2, 2)), TypeError, "LlamaForCausalLM; got Linear"),
        (lambda model: Decoder.from_hf(theirs(1, 1, 2, 1, 2, attention_bias=True)), ValueError, "no biases"),
        (lambda model: Decoder.from_hf(theirs(1, 1, 3, 1, 2)), ValueError, r"no heads of odd width \(3\)"),
        (lambda model: Decoder.from_hf(untied()), ValueError, "no untied weights"),
        (lambda model: Decoder.from_hf(theirs(1, 1, 2, 1, 2, hidden_act="gelu")), ValueError, "has no gelu"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(small())

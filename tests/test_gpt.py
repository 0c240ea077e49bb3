"""language/gpt.py: the logits and gradients of Hugging Face's GPT-2; past, padding and cache; sizes; bad input."""

import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from parity import TOLERANCE, exact_or_not, hf_model, shaken
from torch import nn
from torch.testing import assert_close

from course_lib.inputs.sequences import map_state, text_places
from course_lib.language.gpt import GPT, PUBLISHED, GPTConfig, parameter_count
from course_lib.show.record import capture
from course_lib.weights.hf_activations import HF_ACTIVATIONS

PADDED = [0, 3, 6, 7]  # how much padding stands before each row of a batch of 7


def a_gpt(dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "max_len": 9, "d_model": 12, "n_heads": 3, "n_layers": 2} | sizes
    return shaken(GPT(GPTConfig(**sizes))).to(dtype)


def hugging_faces(**config):
    sizes = {"vocab_size": 11, "n_positions": 9, "n_embd": 12, "n_head": 3, "n_layer": 2}
    return hf_model("GPT2LMHeadModel", **(sizes | {"bos_token_id": None, "eos_token_id": None} | config))


def a_mask(B, T):
    return torch.arange(T) >= torch.tensor(PADDED[:B])[:, None]  # (B, T)


# --- beside Hugging Face's


def drawn_config(seed):
    draw = random.Random(seed)
    heads = draw.choice([1, 2, 3, 5])
    return {
        "vocab_size": draw.choice([2, 7, 50, 131]),
        "n_positions": draw.choice([1, 7, 33]),
        "n_embd": heads * draw.choice([1, 4, 7]),
        "n_head": heads,
        "n_layer": draw.choice([1, 2, 3]),
        "n_inner": draw.choice([None, 1, 13, 40]),
        "activation_function": draw.choice(list(HF_ACTIVATIONS)),
        "layer_norm_epsilon": draw.choice([1e-5, 1e-3, 1e-2]),
        "tie_word_embeddings": draw.random() < 0.7,
    }


@exact_or_not
@pytest.mark.parametrize("seed", range(12))
def test_its_logits_and_gradients_are_hugging_faces(seed, dtype):
    """GPT, GPT.forward, GPT.from_hf: beside GPT2LMHeadModel of sizes drawn at random, with padding and without."""
    config = drawn_config(seed)
    torch.manual_seed(seed)
    theirs = shaken(hugging_faces(**config)).to(dtype)
    ours, T = GPT.from_hf(theirs), config["n_positions"]
    assert not ours.training and all(weight.dtype == dtype for weight in ours.parameters())
    assert parameter_count(ours.config) == sum(p.numel() for p in ours.parameters()) == theirs.num_parameters()
    ids = torch.randint(config["vocab_size"], (4, T))
    for mask in (None, torch.arange(T) >= torch.tensor([0, T // 3, T // 2, T - 1])[:, None]):
        places = text_places(ids, mask, 0)
        places = places if mask is not None else None
        expected = theirs(ids, attention_mask=mask if mask is None else mask.long(), position_ids=places).logits
        found = ours(ids, mask)
        real = slice(None) if mask is None else mask
        assert found.shape == expected.shape and found.dtype == dtype
        scale = max(1, expected.abs().max().item())
        assert_close(found[real], expected[real], atol=TOLERANCE[dtype] * scale, rtol=0)
        ours.zero_grad(), theirs.zero_grad()
        for logits in (found, expected):
            F.cross_entropy(logits[real].flatten(0, -2), ids[real].flatten()).backward()
        pairs = [(ours.tokens, theirs.transformer.wte), (ours.places, theirs.transformer.wpe)]
        pairs += [(ours.blocks[0].norm_1.gain, theirs.transformer.h[0].ln_1.weight)]
        pairs += [(ours.blocks[-1].feed_forward.w_1.bias, theirs.transformer.h[-1].mlp.c_fc.bias)]
        for mine, other in pairs:
            mine, other = (getattr(part, "weight", part).grad for part in (mine, other))
            assert_close(mine, other, atol=TOLERANCE[dtype] * max(1, other.abs().max().item()), rtol=0)
        queries = theirs.transformer.h[0].attn.c_attn.weight.grad[:, : config["n_embd"]]
        scale = max(1, queries.abs().max().item())
        assert_close(ours.blocks[0].attention.w_q.weight.grad.T, queries, atol=TOLERANCE[dtype] * scale, rtol=0)


def test_a_copy_is_a_copy_and_keeps_dropout_and_mode():
    theirs = hugging_faces(resid_pdrop=0.3).train()
    ours = GPT.from_hf(theirs)
    assert ours.training and ours.config.dropout == ours.blocks[0].dropout.p == 0.3
    before = ours.tokens.weight.clone()
    with torch.no_grad():
        theirs.transformer.wte.weight.zero_()
    assert torch.equal(ours.tokens.weight, before)


def test_it_continues_as_hugging_faces_generate_does():
    torch.manual_seed(0)
    theirs = shaken(hugging_faces(n_positions=30)).double()
    prompts = torch.randint(11, (3, 6))
    written = theirs.generate(prompts, max_new_tokens=20, do_sample=False, pad_token_id=0)[:, 6:]
    assert GPT.from_hf(theirs).generate(prompts, 20, temperature=0) == written.tolist()


@pytest.mark.parametrize(
    "strange, words",
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "nothing like scale_attn_by_inverse_layer_idx"),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn"),
        ({"scale_attn_weights": False}, "scale_attn_weights=False"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"activation_function": "mish"}, "knows the activations gelu_new, .*got 'mish'"),
    ],
)
def test_what_ours_does_not_compute_is_refused(strange, words):
    with pytest.raises(ValueError, match=words):
        GPT.from_hf(hugging_faces(**strange))


# --- past and future, padding, cache


@exact_or_not
def test_a_later_token_changes_nothing_before_it_not_a_bit(dtype):
    m = a_gpt(dtype, max_len=50)
    ids = torch.randint(11, (3, 50))
    changed = ids.clone()
    changed[:, 31:] = (ids[:, 31:] + torch.randint(1, 11, (3, 19))) % 11
    assert torch.equal(m(changed)[:, :31], m(ids)[:, :31])
    assert not torch.equal(m(changed)[:, 31:], m(ids)[:, 31:])
    x = m.tokens(ids).detach().requires_grad_()
    handle = m.tokens.register_forward_hook(lambda module, seen, out: x)
    (grad,) = torch.autograd.grad(m(ids)[:, 20].sum(), x)
    handle.remove()
    assert grad[:, 21:].abs().max() == 0 and grad[:, :21].abs().amax(dim=(0, 2)).min() > 0


@exact_or_not
@pytest.mark.parametrize("heard", [False, True], ids=["fused", "heard"])
@pytest.mark.parametrize("pre_norm", [True, False], ids=["pre", "post"])
def test_padding_on_the_left_changes_nothing(pre_norm, heard, dtype):
    m, mask = a_gpt(dtype, pre_norm=pre_norm), a_mask(4, 7)
    ids, results = torch.randint(11, (4, 7)), []
    for _ in range(2):
        ids = torch.where(mask, ids, torch.randint(11, (4, 7)))
        with capture(m, "*.weights" if heard else "norm"):
            logits = m(ids, mask)
        assert logits.isfinite().all()  # a row of padding alone too
        grads = torch.autograd.grad(logits[mask].square().mean(), list(m.parameters()))
        results.append([logits[mask], *grads])
        for row, gap in enumerate(PADDED[:3]):
            assert_close(m(ids[row : row + 1, gap:])[0], logits[row, gap:], atol=TOLERANCE[dtype], rtol=0)
    for one, other in zip(*results, strict=True):
        assert_close(one, other, atol=TOLERANCE[dtype] * max(1, one.abs().max().item()), rtol=0)


@exact_or_not
@pytest.mark.parametrize("cuts", [[1] * 7, [7], [3, 3, 1], [2, 1, 4]], ids=str)
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_a_cache_gives_what_the_whole_text_gives(padded, cuts, dtype):
    m, mask = a_gpt(dtype), a_mask(4, 7) if padded else None
    ids, cache, at, parts = torch.randint(11, (4, 7)), [{}, {}], 0, []
    for part in ids.split(cuts, dim=1):
        at += part.shape[1]
        parts.append(m(part, None if mask is None else mask[:, :at], cache))
    found, expected = torch.cat(parts, dim=1), m(ids, mask)
    real = mask if padded else slice(None)
    assert_close(found[real], expected[real], atol=TOLERANCE[dtype], rtol=0)
    assert cache[1]["own"]["k"].shape == (4, 3, 7, 4)
    before = map_state(cache, torch.clone)
    m(ids)
    assert all(torch.equal(before[n]["own"]["v"], cache[n]["own"]["v"]) for n in range(2))


def test_it_is_the_formula():
    """h_0 = E[ids] + P[place]; the blocks, causal; norm(h_L) E^T."""
    m, ids = a_gpt(), torch.randint(11, (2, 5))
    h = m.tokens.weight[ids] + m.places.weight[:5]
    for block in m.blocks:
        h = block(h, causal=True)
    assert_close(m(ids), m.norm(h) @ m.tokens.weight.T, atol=1e-12, rtol=0)
    untied = a_gpt(tied=False)
    assert untied(ids).shape == (2, 5, 11) and untied.readout.weight is not untied.tokens.weight
    with capture(m, "*.weights") as maps:
        m(ids)
    assert maps["blocks.1.attention.weights"][0].shape == (2, 3, 5, 5)


@pytest.mark.slow
def test_it_learns_a_text_by_heart():
    torch.manual_seed(0)
    m, ids = GPT(GPTConfig(7, 16, 32, 2, 2)), torch.randint(7, (4, 17))
    optimiser = torch.optim.AdamW(m.parameters(), lr=1e-2)
    for _ in range(100):
        loss = F.cross_entropy(m(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.1  # but for the first, every token is known by the 16 places and 4 texts before it


# --- how it begins, how large it is


def test_it_begins_as_gpt_2():
    torch.manual_seed(0)
    m = GPT(GPTConfig(500, 300, 128, 4, 8))
    for name, weight in m.named_parameters():
        if weight.ndim > 1:
            writes = name.endswith(("attention.w_o.weight", "feed_forward.w_2.weight"))
            assert abs(weight.std() / (0.02 / 4 if writes else 0.02) - 1) < 0.05, name  # 4: root of 2 x 8
        else:
            assert (weight == (1 if name.endswith("gain") else 0)).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_formula_counts_the_model(name):
    """parameter_count: beside the model itself, on a device that keeps no numbers."""
    config = PUBLISHED[name]
    for one in (config, replace(config, tied=False), replace(config, d_ff=7, pre_norm=not config.pre_norm)):
        with torch.device("meta"):
            assert parameter_count(one) == sum(p.numel() for p in GPT(one).parameters())


def test_the_published_sizes():
    """parameter_count: what the papers say, rounded, and which vocabulary gives it."""
    millions = {name: parameter_count(config) / 1e6 for name, config in PUBLISHED.items()}
    assert round(millions["GPT-1"]) == 117 and round(millions["GPT-1"], 1) == 116.5
    sizes = ["GPT-2 small", "GPT-2 medium", "GPT-2 large", "GPT-2"]
    assert [round(millions[name], 1) for name in sizes] == [124.4, 354.8, 774.0, 1557.6]
    assert round(millions["GPT-3"] / 1000, 1) == 174.6
    with_the_first_vocabulary = [parameter_count(replace(PUBLISHED[name], vocab_size=40_478)) for name in sizes]
    assert [round(count / 1e6) for count in with_the_first_vocabulary] == [117, 345, 762, 1542]  # table 2 of 2019


def test_hugging_face_counts_gpt_1_alike():
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    with torch.device("meta"):
        assert parameter_count(PUBLISHED["GPT-1"]) == OpenAIGPTLMHeadModel(OpenAIGPTConfig()).num_parameters()


# --- bad input


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: m(torch.zeros(2, 10).long()), ValueError, "10 tokens long.*reads 9.*generate"),
        (lambda m: m(torch.tensor([[11]])), ValueError, "ids from 0 to 10"),
        (lambda m: m(torch.zeros(1, 2).long(), torch.tensor([[True, False]])), ValueError, "stand on the left"),
        (lambda m: GPT.from_hf(nn.Linear(2, 2)), TypeError, "copies a transformers.GPT2LMHeadModel; got Linear"),
        (lambda m: replace(m.config, n_heads=5), ValueError, "multiple of n_heads; got d_model=12, n_heads=5"),
        (lambda m: replace(m.config, activation="gelu_new"), ValueError, "one of gelu_tanh, gelu, .*got 'gelu_new'"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_gpt())


def test_a_cache_that_is_full_is_refused_in_words():
    m, cache = a_gpt(), [{}, {}]
    m(torch.zeros(1, 9).long(), cache=cache)
    with pytest.raises(ValueError, match="10 tokens long"):
        m(torch.zeros(1, 1).long(), cache=cache)

"""text_to_text/bart.py: Hugging Face's BART, logits, gradients, texts; padding, a cache; published sizes; bad input."""

import random

import pytest
import torch
from parity import shaken
from torch import nn
from torch.testing import assert_close

from course_lib.attention.transformer import Transformer
from course_lib.bert.bert import BertConfig, parameter_count
from course_lib.text_to_text.bart import BART_PUBLISHED, Bart, BartConfig, BiasedReadout, NormedEmbedding
from course_lib.translation.decode import greedy
from course_lib.weights.hf_activations import HF_ACTIVATIONS

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def hugging_faces(seed=0, dtype=torch.float64, **more):
    """One of theirs with all weights drawn, the bias of the read-out too."""
    import transformers

    draw = random.Random(seed)
    heads, layers, d_ff = draw.choice([1, 2, 3]), draw.choice([1, 2, 3]), draw.choice([1, 13, 40])
    config = {
        "vocab_size": draw.choice([5, 50, 131]),
        "max_position_embeddings": draw.choice([30, 41]),
        "d_model": heads * draw.choice([2, 4, 7]),
        "activation_function": draw.choice(list(HF_ACTIVATIONS)),
    }
    for side in ("encoder", "decoder"):
        config |= {f"{side}_layers": layers, f"{side}_attention_heads": heads, f"{side}_ffn_dim": d_ff}
    torch.manual_seed(seed)
    theirs = shaken(transformers.BartForConditionalGeneration(transformers.BartConfig(**(config | more))))
    theirs.final_logits_bias.data.normal_()
    return theirs.to(dtype).eval()


def read(vocab_size, B=4, S=30, T=20):
    """A source with padding behind it, its mask, and a target: (B, S), (B, S), (B, T)."""
    mask = torch.arange(S) < torch.tensor([S, S // 2, 1, S - 1])[:B, None]
    source = torch.randint(2, vocab_size, (B, S)).masked_fill(~mask, 1)
    return source, mask, torch.randint(2, vocab_size, (B, T))


def a_bart(dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "max_len": 40, "d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 16} | sizes
    return shaken(Bart(BartConfig(**sizes, dropout=0.0))).to(dtype)


# --- beside Hugging Face's


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_it_gives_their_logits(dtype, seed):
    """Bart: BartForConditionalGeneration's logits and gradients, with padding, each activation, a bias at the end."""
    theirs = hugging_faces(seed, dtype)
    ours = Bart.from_hf(theirs)
    source, mask, target = read(theirs.config.vocab_size)
    expected = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    bound = TOLERANCE[dtype] * max(1.0, expected.abs().max().item())
    for lengths in (None, mask.sum(1)):
        found, weights = ours(source, lengths, target)
        assert weights is None and found.dtype == dtype
        assert_close(found, expected, atol=bound, rtol=0)
    mixture = torch.randn_like(expected)
    (found * mixture).mean().backward()
    (expected * mixture).mean().backward()
    for own, other in (
        (ours.encoder.blocks[0].attention.w_q.weight, theirs.model.encoder.layers[0].self_attn.q_proj.weight),
        (ours.decoder.blocks[-1].cross.w_v.bias, theirs.model.decoder.layers[-1].encoder_attn.v_proj.bias),
        (ours.source.norm.gain, theirs.model.encoder.layernorm_embedding.weight),
    ):
        assert_close(own.grad, other.grad, atol=10 * TOLERANCE[dtype], rtol=1e-3)
    places = theirs.model.decoder.embed_positions.weight.grad
    assert not places[:2].any()  # the first two rows are nobody's
    assert_close(ours.target.positions.places.weight.grad, places[2:], atol=10 * TOLERANCE[dtype], rtol=1e-3)


def test_it_writes_what_theirs_writes():
    """Greedy search: the same texts, from the end sign, 2, to the end sign."""
    theirs = hugging_faces(4, vocab_size=50)
    source, mask, _ = read(50)
    written = greedy(**Bart.from_hf(theirs).decoding(source), max_len=12).tokens
    search = {"do_sample": False, "num_beams": 1, "forced_eos_token_id": None, "forced_bos_token_id": None}
    expected = theirs.generate(input_ids=source, attention_mask=mask, max_new_tokens=12, **search)
    cut = [row[1:].tolist() for row in expected]
    assert written == [row[: row.index(2)] if 2 in row else row for row in cut]


# --- by itself


def test_it_is_lesson_06s_transformer_but_for_its_two_ends():
    """With its embeddings the Transformer of lesson 06 gives the same states: the stacks are the very same parts."""
    model = a_bart()
    plain = Transformer(11, 11, 12, 3, 2, d_ff=16, activation=model.encoder.blocks[0].feed_forward.activation).double()
    for side in ("encoder", "decoder"):
        getattr(plain, side).load_state_dict(getattr(model, side).state_dict())
    source, _, target = read(11)
    x, y = model.source(source), model.target(target)
    states = plain.decoder(y, plain.encoder(x))
    assert_close(model.target.readout(states), model(source, torch.full((4,), 30), target)[0], atol=1e-10, rtol=0)


def test_padding_changes_nothing():
    model = a_bart()
    source, mask, target = read(11)
    logits = model(source, None, target)[0]
    for b, length in enumerate(mask.sum(1)):
        alone = model(source[b : b + 1, :length], None, target[b : b + 1])[0]
        assert_close(logits[b : b + 1], alone, atol=1e-10, rtol=0)


def test_a_cache_changes_nothing():
    """Step by step as all at once: places go on where the cache ends."""
    model = a_bart().eval()
    source, mask, target = read(11)
    logits = model(source, None, target)[0]
    memory, state = model.encode(source)
    for t in range(target.shape[1]):
        step, state, _ = model.step(target[:, t], state, memory, mask)
        assert_close(step, logits[:, t], atol=1e-10, rtol=0)


@pytest.mark.slow
def test_it_compiles_in_one_piece():
    """It is read in one piece; what PyTorch makes of what it has read is PyTorch's business (test_compile.py)."""
    model, (source, _, target) = a_bart(), read(11)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert_close(compiled(source, None, target)[0], model(source, None, target)[0], atol=1e-10, rtol=0)


def test_an_embedding_by_hand():
    """NormedEmbedding, BiasedReadout: norm(E + P), at a place behind others too; x E^T + b."""
    torch.manual_seed(0)
    embedding = BiasedReadout(BartConfig(7, 9, 6, 2, 1, 8, 0.0), "The text").double()
    ids = torch.tensor([[3, 3, 5]])
    x = embedding.tokens.weight[ids] + embedding.positions.places.weight[2:5]
    expected = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    assert isinstance(embedding, NormedEmbedding)
    assert_close(embedding(ids, past=2), expected, atol=1e-10, rtol=0)
    embedding.bias.normal_()
    assert_close(embedding.readout(x), x @ embedding.tokens.weight.T + embedding.bias, atol=1e-10, rtol=0)


def test_it_begins_small():
    """Matrices and tables are drawn from N(0, 0.02), so at first every token is about as likely: log V nats."""
    torch.manual_seed(0)
    model, (source, _, target) = Bart(BartConfig(50, 40, 24, 3, 2, 48, 0.0)), read(50)
    logits = model(source, None, target)[0]
    assert logits.std() < 0.3
    for name, part in model.named_parameters():
        if part.ndim == 2:
            assert 0.015 < part.std() < 0.025, name


@pytest.mark.slow
@pytest.mark.parametrize(("size", "millions"), [("base", 139), ("large", 406)])
def test_published_sizes(size, millions):
    """BART_PUBLISHED: on the meta device; more than a BERT of as many layers.

    Section 2.1 says "roughly 10% more parameters than the equivalently sized BERT": with one vocabulary of 50,265 it is
    12 % for base (6 + 6 layers beside 12) and 15 % for large.
    """
    config = BART_PUBLISHED[size]
    with torch.device("meta"):
        counted = sum(part.numel() for part in Bart(config).parameters())
    assert round(counted / 1e6) == millions
    bert = BertConfig(config.vocab_size, 514, config.d_model, config.n_heads, 2 * config.n_layers, 0.0, pooler=False)
    assert 1.10 < counted / parameter_count(bert) < 1.16


def test_bad_input_is_refused_in_words():
    model = a_bart()
    with pytest.raises(ValueError, match="LearnedPositions was made for 40 places, x has 41"):
        model(torch.full((1, 41), 3), None, torch.full((1, 2), 3))
    with pytest.raises(ValueError, match="must be a multiple of n_heads"):
        BartConfig(d_model=10, n_heads=3)
    with pytest.raises(TypeError, match="copies a BartForConditionalGeneration; got Linear"):
        Bart.from_hf(nn.Linear(2, 2))

"""bert/bert.py: the states and gradients of Hugging Face's BertModel; padding; sizes; the real MiniLM; bad input.

What needs the real weights is skipped where they are not: nothing is downloaded in a test.
"""

import random
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from parity import TOLERANCE, exact_or_not, hf_model, shaken
from torch import nn
from torch.testing import assert_close

from course_lib.bert.bert import PUBLISHED, SMALL, Bert, BertConfig, begin, mean_state, parameter_count
from course_lib.data import plays
from course_lib.show.record import capture
from course_lib.text.wordpiece import WordPiece
from course_lib.train import published
from course_lib.weights.hf_activations import HF_ACTIVATIONS

# Turc et al. (2019), millions of parameters of the 24 small models: rows of 2, 4 ... 12 layers, 128 ... 768 wide.
MILLIONS = """
    4.4  9.7 22.8  39.2
    4.8 11.3 29.1  53.4
    5.2 12.8 35.4  67.5
    5.6 14.4 41.7  81.7
    6.0 16.0 48.0  95.9
    6.4 17.6 54.3 110.1
"""


def drawn_config(seed, **more):
    draw = random.Random(seed)
    heads = draw.choice([1, 2, 3, 5])
    return {
        "vocab_size": draw.choice([2, 7, 50, 131]),
        "max_position_embeddings": draw.choice([2, 7, 33]),
        "hidden_size": heads * draw.choice([1, 4, 7]),
        "num_attention_heads": heads,
        "num_hidden_layers": draw.choice([1, 2, 3]),
        "intermediate_size": draw.choice([1, 13, 40]),
        "hidden_act": draw.choice(list(HF_ACTIVATIONS)),
        "layer_norm_eps": draw.choice([1e-12, 1e-5, 1e-2]),
        "type_vocab_size": draw.choice([1, 2, 3]),
        "pad_token_id": None,  # theirs would give it no gradient
    } | more


def hugging_faces(kind="BertModel", seed=0, dtype=torch.float64, **config):
    torch.manual_seed(seed)
    return shaken(hf_model(kind, **config)).to(dtype)


def drawn_text(config, B=4, padded=True):
    """ids, segments and mask (B, T) for a model of this configuration, T as long as it can be."""
    T = config["max_position_embeddings"]
    ids, segments = torch.randint(config["vocab_size"], (B, T)), torch.randint(config["type_vocab_size"], (B, T))
    lengths = torch.tensor([T, max(1, T // 2), 1, max(1, T - 1)])[:B]
    return ids, segments, torch.arange(T) < lengths[:, None] if padded else None


def near(found, expected, dtype):
    assert found.shape == expected.shape and found.dtype == dtype
    assert_close(found, expected, atol=TOLERANCE[dtype] * max(1, expected.abs().max().item()), rtol=0)


def a_bert(dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "max_len": 9, "d_model": 12, "n_heads": 3, "n_layers": 2, "dropout": 0.0} | sizes
    return shaken(Bert(BertConfig(**sizes))).to(dtype)


# --- beside Hugging Face's


@exact_or_not
@pytest.mark.parametrize("seed", range(12))
def test_its_states_and_gradients_are_hugging_faces(seed, dtype):
    """Bert, Bert.forward, Bert.layers, Bert.pool, Bert.from_hf: beside BertModel of sizes drawn at random."""
    config = drawn_config(seed)
    theirs = hugging_faces(seed=seed, dtype=dtype, **config)
    ours = Bert.from_hf(theirs)
    assert not ours.training and all(weight.dtype == dtype for weight in ours.parameters())
    assert parameter_count(ours.config) == sum(p.numel() for p in ours.parameters()) == theirs.num_parameters()
    for padded in (True, False):
        ids, segments, mask = drawn_text(config, padded=padded)
        given = {"attention_mask": None if mask is None else mask.long(), "token_type_ids": segments}
        expected = theirs(ids, **given, output_hidden_states=True)
        found = ours.layers(ids, segments, mask)
        assert len(found) == config["num_hidden_layers"] + 1
        for mine, other in zip(found, expected.hidden_states, strict=True):
            near(mine, other, dtype)
        assert torch.equal(ours(ids, segments, mask), found[-1])
        near(ours.pool(found[-1]), expected.pooler_output, dtype)
        ours.zero_grad(), theirs.zero_grad()
        for states, pooled in ((found[-1], ours.pool(found[-1])), expected[:2]):
            (states.square().sum() + pooled.sum()).backward()
        embeddings, last = theirs.embeddings, theirs.encoder.layer[-1]
        for mine, other in [
            (ours.tokens.weight, embeddings.word_embeddings.weight),
            (ours.places.weight, embeddings.position_embeddings.weight),
            (ours.segments.weight, embeddings.token_type_embeddings.weight),
            (ours.norm.gain, embeddings.LayerNorm.weight),
            (ours.blocks[-1].attention.w_k.weight, last.attention.self.key.weight),
            (ours.blocks[-1].norm_2.shift, last.output.LayerNorm.bias),
            (ours.pooler.weight, theirs.pooler.dense.weight),
        ]:
            near(mine.grad, other.grad, dtype)


def test_segments_are_the_first_sentence_where_none_are_given():
    m, ids = a_bert(), torch.randint(11, (2, 5))
    assert torch.equal(m(ids), m(ids, torch.zeros_like(ids)))
    assert not torch.allclose(m(ids), m(ids, torch.ones_like(ids)))


def test_a_copy_is_a_copy_and_keeps_dropout_and_mode():
    theirs = hugging_faces(**drawn_config(3, hidden_dropout_prob=0.3)).train()
    ours = Bert.from_hf(theirs)
    assert ours.training and ours.config.dropout == ours.dropout.p == ours.blocks[0].dropout.p == 0.3
    before = ours.tokens.weight.clone()
    with torch.no_grad():
        theirs.embeddings.word_embeddings.weight.zero_()
    assert torch.equal(ours.tokens.weight, before) and all(p.requires_grad for p in ours.parameters())


def test_a_model_without_a_pooler():
    import transformers

    config = drawn_config(5)
    theirs = shaken(transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)).double().eval()
    ours = Bert.from_hf(theirs)
    ids, segments, mask = drawn_text(config)
    near(ours(ids, segments, mask), theirs(ids, mask.long(), segments)[0], torch.float64)
    assert ours.pooler is None and parameter_count(ours.config) == sum(p.numel() for p in ours.parameters())


@pytest.fixture(scope="module")
def minilm():
    """The real model, ours and Hugging Face's, and its tokenizer."""
    path = published.find("minilm")
    if path is None:
        pytest.skip("MiniLM is not here: python -m course_lib.train.published minilm")
    import transformers

    ours, theirs = Bert.from_weights(*published.read("minilm")), transformers.BertModel.from_pretrained(path.parent)
    return ours, theirs.eval(), WordPiece(path.with_name("vocab.txt"))


@pytest.mark.slow
@torch.no_grad()
def test_the_real_model_gives_what_hugging_face_gives(minilm):
    """Bert.from_weights, mean_state: MiniLM on the plays, one sentence and two, padded; every layer."""
    ours, theirs, tokenizer = minilm
    ours, theirs = deepcopy(ours).double(), deepcopy(theirs).double()
    assert not ours.training and ours.config == replace(PUBLISHED["MiniLM"], d_ff=1536)
    assert parameter_count(ours.config) == sum(p.numel() for p in ours.parameters()) == 22_713_216
    speeches = [row.text for row in plays.rows("test")[:24]]
    for texts in (speeches[:12], list(zip(speeches[:12], speeches[12:], strict=True)), ["x", "", "[MASK]"]):
        read = tokenizer.batch(texts, max_len=64)
        expected = theirs(read.ids, read.mask.long(), read.segments, output_hidden_states=True)
        found = ours.layers(*read[:3])
        for mine, other in zip(found, expected.hidden_states, strict=True):
            assert_close(mine, other, atol=1e-10, rtol=0)
        assert_close(ours.pool(found[-1]), expected.pooler_output, atol=1e-10, rtol=0)
        for row, length in enumerate(read.mask.sum(dim=1)):
            alone = found[-1][row, :length].mean(dim=0)
            assert_close(mean_state(found[-1], read.mask)[row], alone, atol=1e-10, rtol=0)


@torch.no_grad()
def test_the_real_model_knows_which_sentences_mean_alike(minilm):
    ours, _, tokenizer = minilm
    texts = ["The cat sleeps on the sofa.", "A kitten is napping on a couch.", "The price of oil rose again."]
    read = tokenizer.batch(texts)
    vectors = nn.functional.normalize(mean_state(ours(*read[:3]), read.mask), dim=1)
    alike, other, _ = (vectors @ vectors.T)[[0, 0, 1], [1, 2, 2]].tolist()
    assert alike > 0.5 > 0.2 > other


# --- padding, the formula, who listens


@exact_or_not
@pytest.mark.parametrize("heard", [False, True], ids=["fused", "heard"])
def test_padding_changes_nothing(heard, dtype):
    """Bert: states and gradients at real places are those of the text alone, whatever stands at padding."""
    m, lengths, results = a_bert(dtype), torch.tensor([7, 4, 1, 0]), []
    mask, ids = torch.arange(7) < lengths[:, None], torch.randint(11, (4, 7))
    for _ in range(2):
        ids = torch.where(mask, ids, torch.randint(11, (4, 7)))
        with capture(m, "*.weights" if heard else "norm"):
            states = m(ids, None, mask)
        assert states.isfinite().all()  # a row of padding alone too
        grads = torch.autograd.grad(
            states[mask].square().mean(), [p for n, p in m.named_parameters() if "pool" not in n]
        )
        results.append([states[mask], *grads])
        for row, length in enumerate(lengths[:3]):
            assert_close(m(ids[row : row + 1, :length])[0], states[row, :length], atol=TOLERANCE[dtype], rtol=0)
    for one, other in zip(*results, strict=True):
        assert_close(one, other, atol=TOLERANCE[dtype] * max(1, one.abs().max().item()), rtol=0)


def test_every_piece_sees_every_other():
    m = a_bert()
    x = m.tokens(torch.randint(11, (2, 6))).detach().requires_grad_()
    handle = m.tokens.register_forward_hook(lambda module, seen, out: x)
    (grad,) = torch.autograd.grad(m(torch.zeros(2, 6).long())[:, 3, 0].sum(), x)
    handle.remove()
    assert grad.abs().amax(dim=(0, 2)).min() > 0


def test_it_is_the_formula():
    """h_0 = norm(E + P + S); the blocks of lesson 06; tanh(W h[CLS] + b)."""
    m, ids, segments = a_bert(), torch.randint(11, (2, 5)), torch.randint(2, (2, 5))
    h = m.norm(m.tokens.weight[ids] + m.places.weight[:5] + m.segments.weight[segments])
    for block in m.blocks:
        h = block(h)
    assert_close(m(ids, segments), h, atol=1e-12, rtol=0)
    assert_close(m.pool(h), torch.tanh(h[:, 0] @ m.pooler.weight.T + m.pooler.bias), atol=1e-12, rtol=0)
    with capture(m, "*.weights") as maps:
        m(ids)
    assert maps["blocks.1.attention.weights"][0].shape == (2, 3, 5, 5)


def test_the_mean_of_the_real_places():
    """mean_state: by hand; a row of padding gives zeros."""
    states = torch.arange(12.0).view(2, 3, 2)
    assert mean_state(states).tolist() == [[2, 3], [8, 9]]
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert mean_state(states, mask).tolist() == [[1, 2], [0, 0]]


# --- how it begins, how large it is


def test_it_begins_as_bert():
    """begin: matrices and tables N(0, 0.02), biases 0, gains 1, the norms' eps."""
    torch.manual_seed(0)
    m = Bert(BertConfig(500, 300, 128, 4, 3, n_segments=90, eps=1e-7))
    for name, weight in m.named_parameters():
        if weight.ndim > 1:
            assert abs(weight.std() / 0.02 - 1) < 0.05, name
        else:
            assert (weight == (1 if name.endswith("gain") else 0)).all(), name
    assert {part.eps for part in m.modules() if hasattr(part, "eps")} == {1e-7}
    layer = nn.Linear(2, 3)
    begin(layer, 0.0)
    assert (layer.bias == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PUBLISHED, *SMALL], ids=str)
def test_the_formula_counts_the_model(name):
    """parameter_count: beside the model itself, on a device that keeps no numbers."""
    config = (PUBLISHED | SMALL)[name]
    for one in (config, replace(config, d_ff=7, pooler=False, n_segments=3)):
        with torch.device("meta"):
            assert parameter_count(one) == sum(p.numel() for p in Bert(one).parameters())


def test_the_published_sizes():
    """parameter_count, PUBLISHED, SMALL: base 110 M, large 340 M, MiniLM 22.7 M, and the table of the 24 small ones."""
    millions = {name: parameter_count(config) / 1e6 for name, config in PUBLISHED.items()}
    assert {name: round(size, 1) for name, size in millions.items()} == {"base": 109.5, "large": 335.1, "MiniLM": 22.7}
    table = [float(number) for number in MILLIONS.split()]
    found = [parameter_count(config, masked_words=True) / 1e6 for config in SMALL.values()]
    assert all(abs(size - said) < 0.1 for size, said in zip(found, table, strict=True))
    assert SMALL[12, 768] == PUBLISHED["base"]


# --- bad input


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: m(torch.zeros(2, 10).long()), ValueError, "10 pieces long.*taught 9 places: cut it.*max_len=9"),
        (lambda m: m(torch.tensor([[11]])), ValueError, "ids from 0 to 10"),
        (
            lambda m: m(torch.zeros(2, 3).long(), torch.full((2, 3), 2)),
            ValueError,
            "segments must hold ids from 0 to 1",
        ),
        (
            lambda m: m(torch.zeros(2, 3).long(), None, torch.ones(2, 3)),
            TypeError,
            "mask .batch, time. of bool; got torch.float32: a comparison gives one, such as ids != padding",
        ),
        (lambda m: Bert.from_weights({"model_type": "gpt2"}, {}), ValueError, "is that of a gpt2"),
        (lambda m: Bert.from_weights({}, {}), ValueError, "configuration lacks vocab_size, max_position"),
        (lambda m: replace(m.config, n_heads=5), ValueError, "multiple of n_heads; got d_model=12, n_heads=5"),
        (lambda m: replace(m.config, activation="gelu_new"), ValueError, "one of gelu_tanh, gelu"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_bert())

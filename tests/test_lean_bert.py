"""bert/lean_bert.py: ALBERT's, ELECTRA's and DistilBERT's own states; shared blocks; parts that are counted."""

import random
from dataclasses import replace

import pytest
import torch
from parity import TOLERANCE, exact_or_not, shaken
from test_bert import a_bert, drawn_text, near
from torch import nn
from torch.testing import assert_close

from course_lib.attention.block import Block
from course_lib.bert.bert import Bert, BertConfig, parameter_count
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.lean_bert import LEAN, LeanBert, LeanBertConfig, LeanWords, parts_of
from course_lib.show.record import capture
from course_lib.weights.hf_activations import HF_ACTIVATIONS

EXACT = {"atol": 1e-12, "rtol": 0}
ROTARY = {"rotary": True, "n_segments": 0, "pooler": False}
rotary_or_not = pytest.mark.parametrize("more", [{}, ROTARY], ids=["as published", "rotary"])


def lean(dtype=torch.float64, seed=0, **sizes):
    """A model as small as one can be with every weight drawn: 11 pieces, 9 places, 5 and 12 wide, four layers."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 11, "max_len": 9, "d_model": 12, "n_heads": 3, "n_layers": 4, "d_embedding": 5} | sizes
    return shaken(LeanBert(LeanBertConfig(**sizes))).to(dtype)


def of_hf(kind, seed=0, dtype=torch.float64, **more):
    """Hugging Face's model of this class, of sizes drawn at random with all its weights drawn, and its configuration.

    Tables are odd and blocks even: never as wide.
    """
    import transformers

    draw, name = random.Random(seed), kind.removesuffix("Model").removesuffix("ForMaskedLM")
    heads = draw.choice([1, 2, 3])
    sizes = {"vocab_size": draw.choice([2, 7, 50]), "max_position_embeddings": draw.choice([2, 7, 20])}
    width, d_ff, act = heads * draw.choice([2, 4, 6]), draw.choice([1, 13, 40]), draw.choice(list(HF_ACTIVATIONS))
    layers = draw.choice([1, 2, 4])
    if name == "DistilBert":
        sizes |= {"dim": width, "n_heads": heads, "n_layers": layers, "hidden_dim": d_ff, "activation": act}
        sizes |= {"dropout": 0.0, "attention_dropout": 0.0}
    else:
        sizes |= {"hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": layers, "hidden_act": act}
        if kind.startswith("ElectraFor"):  # its heads have gelu whatever the blocks have
            sizes["hidden_act"] = "gelu"
        sizes |= {"intermediate_size": d_ff, "embedding_size": draw.choice([1, 3, 9])}
        sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        sizes |= {"type_vocab_size": draw.choice([1, 2, 3]), "layer_norm_eps": draw.choice([1e-12, 1e-5, 1e-2])}
    name = name.removesuffix("ForPreTraining")
    config = getattr(transformers, f"{name}Config")(**sizes | {"pad_token_id": None} | more)  # else it has no gradient
    torch.manual_seed(seed)
    return shaken(getattr(transformers, kind)(config)).to(dtype).eval()


def text_for(theirs, padded=True):
    """ids, segments (None for a DistilBERT), mask (B, T) that the model can read, and these by Hugging Face's names."""
    config = {"type_vocab_size": 1} | theirs.config.to_dict()
    ids, segments, mask = drawn_text(config, padded=padded)
    given = {"input_ids": ids, "attention_mask": None if mask is None else mask.long()}
    if config["model_type"] == "distilbert":
        return ids, None, mask, given
    return ids, segments, mask, given | {"token_type_ids": segments}


def counted(model):
    return sum(weight.numel() for weight in model.parameters())


# --- beside Hugging Face's


KINDS = [("AlbertModel", {"num_hidden_layers": 6, "num_hidden_groups": n}) for n in (1, 2, 3, 6)]
KINDS += [("ElectraModel", {}), ("ElectraModel", {"embedding_size": 12, "hidden_size": 12}), ("DistilBertModel", {})]


@exact_or_not
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind, more", KINDS, ids=str)
def test_its_states_and_gradients_are_hugging_faces(kind, more, seed, dtype):
    """LeanBert, LeanBert.forward, LeanBert.layers, LeanBert.from_hf, LeanBert.pool: beside ALBERT, ELECTRA, DistilBERT.

    All layers, at real places, with segments and padding or without.
    """
    theirs = of_hf(kind, seed, dtype, **more)
    ours = LeanBert.from_hf(theirs)
    assert not ours.training and all(weight.dtype == dtype for weight in ours.parameters())
    assert sum(parts_of(ours.config).values()) == counted(ours) == theirs.num_parameters()
    assert len(ours.blocks) == more.get("num_hidden_groups", ours.config.n_layers)
    for padded in (True, False):
        ids, segments, mask, given = text_for(theirs, padded)
        real = torch.ones_like(ids).bool() if mask is None else mask
        expected, found = theirs(**given, output_hidden_states=True), ours.layers(ids, segments, mask)
        assert len(found) == len(expected.hidden_states) == ours.config.n_layers + 1
        for mine, other in zip(found, expected.hidden_states, strict=True):
            near(mine[real], other[real], dtype)
        assert torch.equal(ours(ids, segments, mask), found[-1])
        ours.zero_grad(), theirs.zero_grad()
        for states in (found[-1], expected.last_hidden_state):
            states[real].square().sum().backward(retain_graph=True)
        near(ours.tokens.weight.grad, theirs.get_input_embeddings().weight.grad, dtype)
        near(ours.places.weight.grad, theirs.embeddings.position_embeddings.weight.grad, dtype)
        near(ours.norm.gain.grad, theirs.embeddings.LayerNorm.weight.grad, dtype)
        grads = [weight.grad.square().sum() for model in (ours, theirs) for weight in model.parameters()
                 if weight.grad is not None]  # fmt: skip
        half = len(grads) // 2  # one number for all blocks: those of the same sizes have other names there
        near(torch.stack(grads[:half]).sum(), torch.stack(grads[half:]).sum(), dtype)
        if ours.pooler is not None:
            near(ours.pool(found[-1]), expected.pooler_output, dtype)
        assert (ours.pooler is not None) == (kind == "AlbertModel")


@exact_or_not
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["AlbertForMaskedLM", "ElectraForMaskedLM"])
def test_which_piece_stood_here(kind, seed, dtype):
    """LeanWords, LeanWords.forward, LeanWords.from_hf: logits and gradients, everywhere and at the places asked."""
    theirs = of_hf(kind, seed, dtype, **({"hidden_act": "gelu"} if kind.startswith("E") else {}))
    ours = LeanWords.from_hf(theirs)
    assert not ours.training and ours.bert.pooler is None
    assert counted(ours) == sum(part.numel() for part in {id(p): p for p in theirs.parameters()}.values())
    ids, segments, mask, given = text_for(theirs)
    found, expected = ours(ids, segments, mask), theirs(**given).logits
    near(found[mask], expected[mask], dtype)
    places = torch.tensor([0, 1, 0])
    near(ours(ids, segments, mask, places), found.flatten(0, 1)[places], dtype)
    for logits in (found, expected):
        logits[mask].log_softmax(dim=-1)[:, 0].sum().backward()
    near(ours.bert.tokens.weight.grad, theirs.get_input_embeddings().weight.grad, dtype)


def test_a_copy_is_a_copy_and_keeps_dropout_and_mode():
    theirs = of_hf("AlbertModel", hidden_dropout_prob=0.3).train()
    ours = LeanBert.from_hf(theirs)
    assert ours.training and ours.config.dropout == ours.dropout.p == ours.blocks[0].dropout.p == 0.3
    before = ours.tokens.weight.clone()
    with torch.no_grad():
        theirs.embeddings.word_embeddings.weight.zero_()
    assert torch.equal(ours.tokens.weight, before) and all(p.requires_grad for p in ours.parameters())


@pytest.mark.parametrize(
    ("head", "make", "error", "words"),
    [
        (LeanBert, lambda: nn.Linear(2, 2), TypeError, "AlbertModel or ElectraModel or DistilBertModel; got Linear"),
        (LeanBert, lambda: of_hf("AlbertModel", inner_group_num=2), ValueError, "several blocks in a group"),
        (LeanBert, lambda: of_hf("AlbertModel", embedding_size=12, hidden_size=12), ValueError, "as wide"),
        (LeanBert, lambda: of_hf("AlbertModel", hidden_act="mish"), ValueError, "the activations gelu.*got 'mish'"),
        (LeanBert, lambda: of_hf("DistilBertModel", sinusoidal_pos_embds=True), ValueError, "sinusoidal_pos_embds"),
        (LeanBert, lambda: of_hf("ElectraModel", is_decoder=True), ValueError, "nothing like is_decoder"),
        (LeanWords, lambda: of_hf("ElectraForMaskedLM", hidden_act="relu"), ValueError, "its blocks relu"),
        (LeanWords, lambda: of_hf("ElectraForMaskedLM", tie_word_embeddings=False), ValueError, "read-out of its own"),
        (LeanWords, lambda: of_hf("AlbertForMaskedLM", tie_word_embeddings=False), ValueError, "read-out of its own"),
        (LeanBert, lambda: of_hf("AlbertModel", num_hidden_layers=4, num_hidden_groups=3), ValueError, "multiple of n"),
    ],
)
def test_what_ours_does_not_compute_is_refused(head, make, error, words):
    with pytest.raises(error, match=words):
        head.from_hf(make())


# --- beside `Bert`


@pytest.mark.parametrize("seed", range(3))
def test_as_many_groups_as_layers_and_tables_as_wide_are_a_bert(seed):
    """LeanBert, LeanWords: with G = L and E = D, what `Bert` and `MaskedWords` compute with the same weights."""
    bert = a_bert(n_layers=3, n_segments=2 + seed, activation="relu")
    ours = lean(d_embedding=12, n_layers=3, n_groups=3, n_segments=2 + seed, activation="relu", seed=1)
    ours.load_state_dict(bert.state_dict())
    ids, segments, mask = torch.randint(11, (3, 7)), torch.randint(2, (3, 7)), torch.rand(3, 7) < 0.7
    for given in ((ids, segments, mask), (ids, None, mask), (ids,)):
        for mine, other in zip(ours.layers(*given), bert.layers(*given), strict=True):
            assert_close(mine, other, **EXACT)
        assert_close(ours.pool(ours(*given)), bert.pool(bert(*given)), **EXACT)
    words = shaken(MaskedWords(bert)).double()
    mine = LeanWords(ours).double()
    mine.load_state_dict(words.state_dict())
    assert_close(mine(ids, segments, mask), words(ids, segments, mask), **EXACT)


def test_it_begins_as_a_bert():
    """LeanBert: from one seed the weights that `Bert` begins with; norms with the configuration's eps."""
    torch.manual_seed(0)
    bert = Bert(BertConfig(50, 9, 12, 3, 2, eps=1e-7))
    torch.manual_seed(0)
    ours = LeanBert(LeanBertConfig(50, 9, 12, 3, 2, 12, 2, eps=1e-7, activation="gelu"))
    assert ours.state_dict().keys() == bert.state_dict().keys()
    for name, weight in bert.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight), name
    assert {part.eps for part in ours.modules() if hasattr(part, "eps")} == {1e-7}
    head = LeanWords(ours)
    assert not head.bias.any() and not head.transform.bias.any() and abs(head.transform.weight.std() / 0.02 - 1) < 0.3


def test_with_rotary_places_it_begins_as_the_blocks_do():
    torch.manual_seed(0)
    ours = LeanBert(LeanBertConfig(500, 9, 64, 4, 2, 64, 2, n_segments=90, rotary=True))
    torch.manual_seed(0)
    alone = Block.from_sizes(64, 4)
    for name, weight in alone.named_parameters():
        mine = ours.blocks[1].get_parameter(name)
        near_enough = 0.1 if mine.ndim > 1 else 0.4  # of 64 numbers the spread is not known well
        assert mine.shape == weight.shape and abs(mine.std() - weight.std()) <= near_enough * weight.std(), name
    for table in (ours.tokens.weight, ours.segments.weight):
        assert abs(table.std() / 0.02 - 1) < 0.05


# --- blocks that are shared


@rotary_or_not
@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_a_shared_stack_is_one_whose_blocks_are_alike(n_groups, more):
    """LeanBert.layers: layer by layer; and the gradient of a shared weight is the sum over the layers that use it."""
    shared = lean(n_groups=n_groups, **more)
    free = lean(n_groups=4, seed=1, **more)
    weights = {name: part for name, part in shared.state_dict().items() if not name.startswith("blocks.")}
    for layer in range(4):
        block = shared.blocks[layer // (4 // n_groups)]
        weights |= {f"blocks.{layer}.{name}": part for name, part in block.state_dict().items()}
    free.load_state_dict(weights)
    ids, mask = torch.randint(11, (3, 7)), torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    for mine, other in zip(shared.layers(ids, None, mask), free.layers(ids, None, mask), strict=True):
        assert_close(mine, other, **EXACT)
    for model in (shared, free):
        model(ids, None, mask)[mask].square().sum().backward()
    assert_close(shared.tokens.weight.grad, free.tokens.weight.grad, atol=1e-8, rtol=1e-10)
    for group, block in enumerate(shared.blocks):
        users = free.blocks[group * 4 // n_groups : (group + 1) * 4 // n_groups]
        for name, weight in block.named_parameters():
            told = sum(user.get_parameter(name).grad for user in users)
            assert_close(weight.grad, told, atol=1e-8, rtol=1e-8)


@pytest.mark.slow
def test_which_layer_uses_which_block():
    """LeanBert.in_order: by hand, and g(l) = floor(G l / L) is ALBERT's own; one group's layers follow each other."""

    def groups(n_layers, n_groups):
        with torch.device("meta"):
            model = LeanBert(LeanBertConfig(3, 2, 2, 1, n_layers, 2, n_groups))
        return [next(g for g, one in enumerate(model.blocks) if one is block) for block in model.in_order()]

    assert groups(6, 2) == [0, 0, 0, 1, 1, 1] and groups(6, 3) == [0, 0, 1, 1, 2, 2]
    assert groups(4, 1) == [0] * 4 and groups(3, 3) == [0, 1, 2] and groups(1, 1) == [0]
    for n_layers in range(1, 13):
        for n_groups in range(1, n_layers + 1):
            if n_layers % n_groups == 0:
                found = groups(n_layers, n_groups)
                assert found == [int(n / (n_layers / n_groups)) for n in range(n_layers)]
                assert found == sorted(found) and {found.count(g) for g in found} == {n_layers // n_groups}


def test_the_maps_of_a_shared_block_are_heard_use_after_use():
    m, ids = lean(n_groups=2), torch.randint(11, (2, 5))
    with capture(m, "*.weights") as maps:
        states = m(ids)
    assert {*maps} == {"blocks.0.attention.weights", "blocks.1.attention.weights"}
    assert [one.shape for one in maps["blocks.1.attention.weights"]] == [(2, 3, 5, 5)] * 2
    assert_close(states, m(ids), **EXACT)


# --- the formula


def test_it_is_the_formula():
    """LeanBert.embed, LeanBert.pool: norm(E + P + S) W + b, then the blocks; tanh(h[CLS] W + b)."""
    m, ids, segments = lean(), torch.randint(11, (2, 5)), torch.randint(2, (2, 5))
    x = m.tokens.weight[ids] + m.places.weight[:5] + m.segments.weight[segments]
    h = m.norm(x) @ m.widen.weight.T + m.widen.bias
    assert_close(m.embed(ids, segments), h, **EXACT)
    for _ in range(4):
        h = m.blocks[0](h)
    assert_close(m(ids, segments), h, **EXACT)
    assert_close(m.pool(h), torch.tanh(h[:, 0] @ m.pooler.weight.T + m.pooler.bias), **EXACT)
    assert torch.equal(m(ids), m(ids, torch.zeros_like(ids)))
    assert not torch.allclose(m(ids), m(ids, torch.ones_like(ids)))


def test_with_rotary_places_norms_stand_before_the_parts_and_one_behind_all():
    m, ids = lean(**ROTARY), torch.randint(11, (2, 5))
    found = m.layers(ids)
    assert_close(found[0], m.widen(m.norm(m.tokens.weight[ids])), **EXACT)
    for layer in range(3):
        assert_close(found[layer + 1], m.blocks[0](found[layer]), **EXACT)
    assert_close(found[4], m.last_norm(m.blocks[0](found[3])), **EXACT)
    assert m.blocks[0].pre_norm and not lean().blocks[0].pre_norm
    assert not any(name.startswith(("places", "segments", "pooler")) for name in m.state_dict())


def test_dropout_falls_on_the_narrow_vector():
    """LeanBert.embed: in training some of E numbers are 0 and the others larger; in eval mode none."""
    m = lean(dropout=0.5)
    with capture(m, "dropout", "norm") as seen:
        m.embed(torch.randint(11, (2, 5)))
        m.eval().embed(torch.randint(11, (2, 5)))
    (trained, read), (before, _) = seen["dropout"], seen["norm"]
    assert trained.shape == (2, 5, 5) and (trained == 0).any() and (read != 0).all()
    assert_close(trained[trained != 0], 2 * before[trained != 0], **EXACT)


# --- padding and places


@exact_or_not
@rotary_or_not
def test_padding_changes_nothing(more, dtype):
    """LeanBert: states at real places are those of the text alone; a row of padding alone is finite."""
    m, lengths, found = lean(dtype, n_groups=2, **more), torch.tensor([7, 4, 1, 0]), []
    mask, ids = torch.arange(7) < lengths[:, None], torch.randint(11, (4, 7))
    for _ in range(2):
        ids = torch.where(mask, ids, torch.randint(11, (4, 7)))
        states = m(ids, None, mask)
        assert states.isfinite().all()
        found.append(states[mask])
        for row, length in enumerate(lengths[:3]):
            near(states[row, :length], m(ids[row : row + 1, :length])[0], dtype)
    assert_close(*found, atol=TOLERANCE[dtype], rtol=0)


def test_a_text_that_stands_further_right_is_the_same_with_rotary_places():
    """LeanBert: only offsets count where places are told by turning; where they are learned the states change."""
    text = torch.randint(11, (1, 4))
    for model, same in ((lean(**ROTARY), True), (lean(), False)):
        alone = model(text)[0]
        for start in (1, 3, 5):
            row, mask = torch.randint(11, (1, 9)), torch.zeros(1, 9).bool()
            row[:, start : start + 4], mask[:, start : start + 4] = text, True
            moved = model(row, None, mask)[0, start : start + 4]
            assert torch.allclose(moved, alone, atol=1e-10) is same


@rotary_or_not
def test_the_order_counts(more):
    m, ids = lean(**more), torch.tensor([[1, 2, 3, 4]])
    assert not torch.allclose(m(ids.flip(1)), m(ids).flip(1))


def test_every_piece_sees_every_other():
    m = lean(n_layers=1, **ROTARY)
    x = m.tokens(torch.randint(11, (2, 6))).detach().requires_grad_()
    handle = m.tokens.register_forward_hook(lambda module, seen, out: x)
    (grad,) = torch.autograd.grad(m(torch.zeros(2, 6).long())[:, 3, 0].sum(), x)
    handle.remove()
    assert grad.abs().amax(dim=(0, 2)).min() > 0


# --- the read-out


@rotary_or_not
def test_the_read_out_at_the_places_asked_is_the_whole_at_them(more):
    """LeanWords.read_out: norm(f(h W + b)) E^T + c, for states of any shape; of no place no scores."""
    m = shaken(LeanWords(lean(activation="gelu", **more))).double()
    ids, mask = torch.randint(11, (3, 6)), torch.rand(3, 6) < 0.7
    h = m.bert(ids, None, mask)
    whole = m.norm(nn.functional.gelu(h @ m.transform.weight.T + m.transform.bias)) @ m.bert.tokens.weight.T + m.bias
    assert whole.shape == (3, 6, 11)
    assert_close(m(ids, None, mask), whole, **EXACT)
    assert_close(m.read_out(h[1, 2]), whole[1, 2], **EXACT)
    places = torch.tensor([17, 0, 6, 6])
    assert_close(m(ids, None, mask, places), whole[[2, 0, 1, 1], [5, 0, 0, 0]], **EXACT)
    assert m(ids, None, mask, places[:0]).shape == (0, 11)


def test_the_read_out_is_the_narrow_table():
    """LeanWords: what it adds is (D + 1) E, a norm and V numbers; a piece whose row is 0 has its bias as score."""
    bert = lean()
    m = LeanWords(bert).double()
    assert counted(m) - counted(bert) == 13 * 5 + 2 * 5 + 11
    with torch.no_grad():
        m.bert.tokens.weight[5], m.bias[5] = 0, 3.0
    assert (m(torch.zeros(1, 3).long())[..., 5] == 3).all()


# --- how large it is


def drawn_sizes(seed):
    draw = random.Random(seed)
    heads, groups = draw.choice([1, 2, 3]), draw.choice([1, 2, 3])
    d_model = heads * draw.choice([2, 4, 10])
    return LeanBertConfig(
        draw.choice([1, 2, 131]), draw.choice([1, 33]), d_model, heads, groups * draw.choice([1, 2, 3]),
        draw.choice([1, 7, d_model]), groups, d_ff=draw.choice([None, 1, 13]), n_segments=draw.choice([0, 1, 2]),
        pooler=draw.choice([True, False]), rotary=draw.choice([True, False]),
    )  # fmt: skip


@pytest.mark.parametrize("config", [*map(drawn_sizes, range(16)), *LEAN.values()])
def test_the_parts_are_those_of_the_model(config):
    """parts_of: each part, and all together, beside a model on a device that keeps no numbers."""
    with torch.device("meta"):
        model = LeanBert(config)
    found = dict.fromkeys(parts_of(config), 0)
    for name, weight in model.named_parameters():
        kinds = {"norm": "norms", "attention": "attention", "feed_forward": "feed-forward", "pooler": "pooler"}
        kinds |= {"widen": "widening", "tokens": "tables", "places": "tables", "segments": "tables"}
        found[next(kind for part, kind in kinds.items() if part in name)] += weight.numel()
    assert parts_of(config) == found and sum(found.values()) == counted(model)


def test_the_published_sizes():
    """LEAN, LeanBertConfig: millions of parameters; BERT's are `parameter_count`'s, ALBERT base's the defaults.

    Said to be 110, 66, 14 and 12; the 14 are 13.5 and the 110 are 109.5. Of ALBERT xxlarge 235 are said.
    """
    millions = {name: round(sum(parts_of(config).values()) / 1e6, 1) for name, config in LEAN.items()}
    assert millions == {"BERT base": 109.5, "DistilBERT": 66.4, "ELECTRA small": 13.5, "ALBERT base": 11.7,
                        "ALBERT xxlarge": 222.6}  # fmt: skip
    assert sum(parts_of(LEAN["BERT base"]).values()) == parameter_count(BertConfig())
    assert LEAN["ALBERT base"] == LeanBertConfig() and LeanBertConfig().n_groups == 1


def test_the_published_sizes_are_hugging_faces_defaults():
    """LEAN: ALBERT's xxlarge, ELECTRA small and DistilBERT as their own configurations have them."""
    import transformers

    for name, kind in (("ALBERT xxlarge", "Albert"), ("ELECTRA small", "Electra"), ("DistilBERT", "DistilBert")):
        with torch.device("meta"):
            theirs = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")())
        assert sum(parts_of(LEAN[name]).values()) == counted(theirs)


# --- bad input


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda m: m(torch.zeros(2, 10).long()), ValueError, "10 tokens long.*built for 9: cut it.*max_len=9"),
        (lambda m: m(torch.tensor([[11]])), ValueError, "ids from 0 to 10"),
        (lambda m: m(torch.zeros(2, 3).long(), torch.full((2, 3), 2)), ValueError, "segments must hold ids from 0"),
        (
            lambda m: lean(n_segments=0)(torch.zeros(2, 3).long(), torch.zeros(2, 3).long()),
            ValueError,
            "has no segments .n_segments=0.: hand over ids and mask",
        ),
        (lambda m: replace(m.config, n_groups=3), ValueError, "n_layers, 4, must be a multiple of n_groups, 3"),
        (lambda m: replace(m.config, activation="gelu_new"), ValueError, "one of gelu_tanh, gelu"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(lean())

"""multimodal/one_stream.py: the states of Hugging Face's VisualBERT; who sees whom, padding, order; bad input."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.attention.norms import LayerNorm
from course_lib.multimodal.one_stream import OneStream
from course_lib.show.record import capture
from course_lib.vision.patches import PatchEmbedding

SIZES = {"n_places": 4, "vocab_size": 11, "max_len": 6, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12}


def a_stream(kind=OneStream, **sizes):
    torch.manual_seed(0)
    model = kind(PatchEmbedding(1, 3, 8), **SIZES | sizes).double().eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    return model


def some(B=3, T=5):
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(T) < torch.tensor([[T], [2], [3]])[:B]
    return torch.rand(B, 1, 6, 6, generator=generator).double(), torch.randint(11, (B, T), generator=generator), mask


def test_it_is_hugging_faces_visual_bert():
    """OneStream.encode, WordsAndImage.forward: states and gradients; an image's vectors all stand at their place 0."""
    import torch.nn.functional as F
    from transformers import VisualBertConfig, VisualBertModel

    torch.manual_seed(0)
    config = VisualBertConfig(vocab_size=11, hidden_size=8, visual_embedding_dim=5, num_hidden_layers=2,
                              num_attention_heads=2, intermediate_size=12, max_position_embeddings=6)  # fmt: skip
    theirs = VisualBertModel(config, add_pooling_layer=False).double().eval()
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.5)
    ours = OneStream(nn.Linear(5, 8), **SIZES, activation=F.gelu).double().eval()
    copy_visual_bert(ours, theirs)
    _, ids, mask = some()
    regions = torch.randn(3, 4, 5, dtype=torch.float64)
    words, image = ours.encode(regions, ids, mask)
    states = theirs(ids, mask.long(), visual_embeds=regions, visual_attention_mask=torch.ones(3, 4),
                    visual_token_type_ids=torch.ones(3, 4).long()).last_hidden_state  # fmt: skip
    real = torch.cat([mask, torch.ones(3, 4).bool()], dim=1)
    assert_close(torch.cat([words, image], dim=1)[real], states[real], atol=1e-10, rtol=1e-10)
    own = torch.autograd.grad(words[mask].sin().sum(), ours.embedding.embed.weight)[0]
    its = torch.autograd.grad(states[:, :5][mask].sin().sum(), theirs.embeddings.visual_projection.weight)[0]
    assert_close(own, its, atol=1e-9, rtol=1e-9)
    assert states.std() > 0.1 and own.abs().max() > 1e-3


@torch.no_grad()
def copy_visual_bert(ours, theirs):
    embedding, table = ours.embedding, theirs.embeddings
    embedding.embed.load_state_dict(table.visual_projection.state_dict())
    embedding.words.weight.copy_(table.word_embeddings.weight)
    embedding.word_places.copy_(table.position_embeddings.weight)
    embedding.image_places.copy_(table.visual_position_embeddings.weight[0])
    embedding.segments[0].copy_(table.token_type_embeddings.weight[0])
    embedding.segments[1].copy_(table.visual_token_type_embeddings.weight[1])
    norms = [(norm, table.LayerNorm) for norm in embedding.norms]
    for own, other in zip(ours.blocks, theirs.encoder.layer, strict=True):
        parts, look = other.attention.self, own.attention
        linears = [(look.w_q, parts.query), (look.w_k, parts.key), (look.w_v, parts.value)]
        linears += [(look.w_o, other.attention.output.dense), (own.feed_forward.w_1, other.intermediate.dense)]
        for mine, its in [*linears, (own.feed_forward.w_2, other.output.dense)]:
            mine.load_state_dict(its.state_dict())
        norms += [(own.norm_1, other.attention.output.LayerNorm), (own.norm_2, other.output.LayerNorm)]
    for mine, its in norms:
        mine.load_state_dict({"gain": its.weight, "shift": its.bias})
    for part in ours.modules():
        if isinstance(part, LayerNorm):
            part.eps = 1e-12


def test_everything_looks_at_everything_real():
    """Maps are (B, heads, T + N, T + N), words first; padding is looked at by nobody and changes nothing."""
    model, (images, ids, mask) = a_stream(), some()
    with capture(model, "encoder.blocks.*.attention.weights") as maps:
        heard = model(images, ids, mask)
    assert_close(heard[mask], model(images, ids, mask)[mask], atol=1e-10, rtol=0)
    assert len(maps) == 2
    for (weights,) in maps.values():
        assert weights.shape == (3, 2, 9, 9)
        seen = torch.cat([mask, torch.ones(3, 4).bool()], dim=1)[:, None, None].expand_as(weights)
        assert (weights[~seen] == 0).all() and (weights[seen] > 0).all()
    others = ids.where(mask, (ids + 1) % 11)
    assert_close(model(images, others, mask)[mask], model(images, ids, mask)[mask], atol=1e-10, rtol=0)
    assert_close(model(images[1:2], ids[1:2, :2])[0], model(images, ids, mask)[1, :2], atol=1e-10, rtol=0)


def test_words_hear_of_the_image_and_the_image_of_words():
    model, (images, ids, _) = a_stream(), some()
    words, image = model.encode(images, ids)
    assert words.shape == (3, 5, 8) and image.shape == (3, 4, 8)
    assert not torch.isclose(model.encode(images.flip(0), ids)[0][0], words[0]).all(-1).any()
    assert not torch.isclose(model.encode(images, ids.flip(0))[1][0], image[0]).all(-1).any()
    assert_close(model(images, ids), model.readout(words))


def test_places_and_kinds_count():
    """Two words that change places give other answers; a word is no part of an image, whatever its vector."""
    model, (images, ids, _) = a_stream(), some()
    turned = ids[:, [1, 0, 2, 3, 4]]
    assert not torch.allclose(model(images, turned)[:, [1, 0, 2, 3, 4]], model(images, ids))
    assert not torch.allclose(model(images.mT, ids), model(images, ids))
    with torch.no_grad():
        model.embedding.word_places.zero_()
    assert_close(model(images, turned)[:, [1, 0, 2, 3, 4]], model(images, ids), atol=1e-10, rtol=0)


def test_everything_learns():
    """But for the words that were not read, and the biases of keys, which are the same for all keys."""
    model, (images, ids, mask) = a_stream(), some()
    model(images, ids, mask)[mask].logsumexp(-1).sum().backward()
    dead = {name for name, weight in model.named_parameters() if weight.grad.abs().max() < 1e-12}
    assert dead == {f"encoder.blocks.{n}.attention.w_k.bias" for n in range(2)}


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: a_stream(n_places=5)(*some()), ValueError, "The embedding needs image"),
        (
            lambda: a_stream()(some()[0], torch.randint(11, (3, 7))),
            ValueError,
            "7 words, and this model has places for 6",
        ),
        (lambda: a_stream()(*some()[:2], torch.ones(3, 9).bool()), ValueError, "mask"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, says):
    with pytest.raises(error, match=says):
        call()

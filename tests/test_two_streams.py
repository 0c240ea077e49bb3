"""multimodal/two_streams.py: co-attention beside PyTorch's layers; who sees whom; what one stream does not change."""

import pytest
import torch
from test_one_stream import a_stream, some
from torch import nn
from torch.testing import assert_close

from course_lib.multimodal.one_stream import OneStream
from course_lib.multimodal.two_streams import CoLayer, OtherBlock, TwoStreams
from course_lib.show.record import capture


def twin(block):
    """PyTorch's attention, feed-forward and norms with a block's weights: x, other, hidden -> x."""
    theirs = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True).double()
    look, norms = block.attention, (theirs.norm1, theirs.norm2)
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(torch.cat([look.w_q.weight, look.w_k.weight, look.w_v.weight]))
        theirs.self_attn.in_proj_bias.copy_(torch.cat([look.w_q.bias, look.w_k.bias, look.w_v.bias]))
    theirs.self_attn.out_proj.load_state_dict(look.w_o.state_dict())
    theirs.linear1.load_state_dict(block.feed_forward.w_1.state_dict())
    theirs.linear2.load_state_dict(block.feed_forward.w_2.state_dict())
    for its, own in zip(norms, (block.norm_1, block.norm_2), strict=True):
        its.load_state_dict({"weight": own.gain, "bias": own.shift})

    def layer(x, other, hidden=None):
        x = theirs.norm1(x + theirs.self_attn(x, other, other, hidden, need_weights=False)[0])
        return theirs.norm2(x + theirs.linear2(theirs.linear1(x).relu()))

    return layer


def test_a_layer_is_its_formula():
    """CoLayer.forward, OtherBlock.forward: each at what the other was before, then at itself."""
    torch.manual_seed(0)
    layer = CoLayer(8, 2, d_ff=12).double()
    words, image = torch.randn(3, 5, 8).double(), torch.randn(3, 4, 8).double()
    mask = some()[2]
    seen, read = twin(layer.words_look)(words, image), twin(layer.image_looks)(image, words, ~mask)
    expected = twin(layer.words_own)(seen, seen, ~mask), twin(layer.image_own)(read, read)
    for own, its in zip(layer(words, image, mask), expected, strict=True):
        assert_close(own, its, atol=1e-10, rtol=0)


def test_both_streams_look_at_what_was_there_before():
    """Not one after the other: with the streams exchanged, the results are exchanged."""
    torch.manual_seed(0)
    layer = CoLayer(8, 2, d_ff=12).double()
    layer.image_looks.load_state_dict(layer.words_look.state_dict())
    layer.image_own.load_state_dict(layer.words_own.state_dict())
    one, other = torch.randn(2, 5, 8).double(), torch.randn(2, 4, 8).double()
    for a, b in zip(layer(one, other), layer(other, one)[::-1], strict=True):
        assert_close(a, b, atol=1e-10, rtol=0)


def test_maps_are_of_queries_here_and_keys_there():
    """TwoStreams.encode: what is recorded is what is computed, and padding is looked at by nobody."""
    model, (images, ids, mask) = a_stream(TwoStreams), some()
    with capture(model, "blocks.*.attention.weights") as maps:
        heard = model(images, ids, mask)
    assert_close(heard[mask], model(images, ids, mask)[mask], atol=1e-10, rtol=0)
    shapes = {"words_look": (5, 4), "image_looks": (4, 5), "words_own": (5, 5), "image_own": (4, 4)}
    for n in range(2):
        for part, shape in shapes.items():
            weights = maps[f"blocks.{n}.{part}.attention.weights"][0]
            assert weights.shape == (3, 2, *shape)
            if shape[1] == 5:
                assert (weights[~mask[:, None, None].expand_as(weights)] == 0).all()
    others = ids.where(mask, (ids + 1) % 11)
    assert_close(model(images, others, mask)[mask], model(images, ids, mask)[mask], atol=1e-10, rtol=0)
    assert_close(model(images[1:2], ids[1:2, :2])[0], model(images, ids, mask)[1, :2], atol=1e-10, rtol=0)


def test_streams_meet_in_the_looks_alone():
    """Without what the looks at the other give, words know nothing of the image, nor it of words."""
    model, (images, ids, _) = a_stream(TwoStreams), some()
    words, image = model.encode(images, ids)
    assert not torch.isclose(model.encode(images.flip(0), ids)[0][0], words[0]).all(-1).any()
    assert not torch.isclose(model.encode(images, ids.flip(0))[1][0], image[0]).all(-1).any()
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, OtherBlock):
                part.attention.w_o.weight.zero_()
    words, image = model.encode(images, ids)
    assert_close(model.encode(images.flip(0), ids)[0], words, atol=1e-10, rtol=0)
    assert_close(model.encode(images, ids.flip(0))[1], image, atol=1e-10, rtol=0)


def test_it_takes_what_one_stream_takes():
    """The same arguments, the same shapes; a layer has four blocks."""
    images, ids, mask = some()
    one, two = a_stream(OneStream), a_stream(TwoStreams)
    assert one(images, ids, mask).shape == two(images, ids, mask).shape == (3, 5, 11)
    blocks, layers = (sum(p.numel() for p in model.blocks.parameters()) for model in (one, two))
    assert layers == 4 * blocks


def test_everything_learns():
    """But for the last layer's image, which no word hears of any more, and the biases of keys."""
    model, (images, ids, mask) = a_stream(TwoStreams), some()
    model(images, ids, mask)[mask].logsumexp(-1).sum().backward()
    dead = {name for name, weight in model.named_parameters() if weight.grad is None or weight.grad.abs().max() < 1e-12}
    last = {name for name, _ in model.named_parameters() if name.startswith("blocks.1.image")}
    assert dead == last | {name for name, _ in model.named_parameters() if name.endswith("w_k.bias")}


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: a_stream(TwoStreams, n_places=5)(*some()), ValueError, "The embedding needs image"),
        (lambda: a_stream(TwoStreams)(*some()[:2], torch.ones(3, 9).bool()), ValueError, "mask"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, says):
    with pytest.raises(error, match=says):
        call()

"""multimodal/captions.py: word by word is the whole caption; what attention may see; maps over the image; bad input."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.detection.detr import Backbone
from course_lib.multimodal.captions import Captioner, over_image, share_inside
from course_lib.show.record import capture
from course_lib.text.pairs import END, PADDING, START, masked_loss, shift
from course_lib.translation.decode import greedy

KINDS = [(attention, cell) for attention in (None, "dot", "additive") for cell in ("lstm", "gru")]


def a_captioner(attention=None, cell="lstm", d_hidden=7):
    torch.manual_seed(0)
    return Captioner(Backbone(1, (3, 5)), 12, 11, 4, d_hidden, attention, cell).double().eval()


def images(B=3, h=8, w=6):
    return torch.rand(B, 1, h, w, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def captions():
    """Two of different lengths, and one without a word."""
    return shift(torch.tensor([[START, 4, 5, 6, END], [START, 7, END, 0, 0], [START, END, 0, 0, 0]]))


@pytest.mark.parametrize("attention, cell", KINDS)
def test_it_is_its_formula(attention, cell):
    """Captioner, Captioner.see: PyTorch's own layer reads the grid's vector, then the words; then the look."""
    model, target_in = a_captioner(attention, cell), captions()[0]
    theirs = (nn.LSTM if cell == "lstm" else nn.GRU)(4, 7, batch_first=True).double()
    theirs.load_state_dict(model.decoder.rnn.fused.state_dict())
    grid = model.backbone(images())
    vector, grid = model.begin(grid.flatten(1)), grid.flatten(2).mT  # (B, S, F)
    out = theirs(torch.cat([vector[:, None], model.decoder.embed(target_in)], dim=1))[0][:, 1:]
    if attention:
        memory = model.places(grid)
        context, expected = model.decoder.attention(out, memory)
        out = torch.tanh(model.decoder.combine(torch.cat([context, out], dim=-1)))
    logits, weights = model(images(), target_in)
    assert_close(logits, model.decoder.readout(out), atol=1e-10, rtol=0)
    if attention:
        assert_close(weights, expected, atol=1e-10, rtol=0)
    assert (weights is None) == (attention is None)


@pytest.mark.parametrize("attention, cell", KINDS)
def test_word_by_word_is_the_whole_caption(attention, cell):
    """Captioner.decoding: greedy writes what an argmax over the whole of the caption so far writes; weights too."""
    model = a_captioner(attention, cell)
    found = greedy(**model.decoding(images()), max_len=6)
    for n, image in enumerate(images().split(1)):
        ids, looks = [START], []
        while len(ids) <= 6:
            logits, weights = model(image, torch.tensor([ids]))
            looks.append(weights)
            ids.append(logits[0, -1].argmax().item())
            if ids[-1] == END:
                break
        assert found.tokens[n] == [i for i in ids[1:] if i != END]
        if attention:
            assert_close(found.weights[n, : len(looks)], looks[-1][0], atol=1e-10, rtol=0)


@pytest.mark.parametrize("attention", [None, "dot"])
def test_everything_learns(attention):
    """The loss reaches every weight; a bias of keys that is the same for all places moves no dot product's weights."""
    model, (target_in, target_out) = a_captioner(attention), captions()
    masked_loss(model(images(), target_in)[0], target_out).backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


def test_padding_behind_a_caption_changes_nothing():
    model, (target_in, _) = a_captioner("dot"), captions()
    longer = torch.cat([target_in, torch.full((3, 2), PADDING)], dim=1)
    assert_close(model(images(), longer)[0][:, :4], model(images(), target_in)[0], atol=1e-10, rtol=0)


def test_a_mask_hides_places():
    """Captioner.forward: no weight where it is False, and what stands there reaches the words by the vector alone."""
    model, (target_in, _), mask = a_captioner("dot"), captions(), torch.ones(3, 12, dtype=torch.bool)
    assert_close(model(images(), target_in, mask)[0], model(images(), target_in)[0], atol=1e-10, rtol=0)
    mask[:, :5] = False
    logits, weights = model(images(), target_in, mask)
    assert (weights[..., :5] == 0).all() and not torch.allclose(logits, model(images(), target_in)[0])
    assert_close(weights.sum(-1), torch.ones(3, 4, dtype=torch.float64))
    assert greedy(**model.decoding(images(), mask), max_len=3).weights[..., :5].sum() == 0
    state, memory = model.see(images())
    memory[:, :5] = 9.0
    assert_close(model.decoder(target_in, state, memory, mask)[0], logits, atol=1e-10, rtol=0)


def test_what_is_recorded_is_what_is_given_back():
    model, (target_in, _) = a_captioner("additive"), captions()
    with capture(model, "decoder.attention.weights") as maps:
        weights = model(images(), target_in)[1]
    assert_close(maps["decoder.attention.weights"][0], weights) and weights.shape == (3, 4, 12)


def test_an_image_has_its_caption_whatever_stands_beside_it():
    model, (target_in, _) = a_captioner("dot"), captions()
    alone = torch.cat([model(*one)[0] for one in zip(images().split(1), target_in.split(1), strict=True)])
    assert_close(alone, model(images(), target_in)[0], atol=1e-10, rtol=0)


def test_maps_lie_over_the_image():
    """over_image, share_inside: a weight falls on the pixels of its place, row by row; a part has its share of it."""
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0, 0.0], dtype=torch.float64)
    over = over_image(weights, (2, 3), (4, 9))
    assert over.shape == (4, 9)
    assert_close(over[0], torch.tensor([0.1] * 3 + [0.2] * 3 + [0.3] * 3, dtype=torch.float64) / 6)
    assert_close(over[3], torch.tensor([0.4] * 3 + [0.0] * 6, dtype=torch.float64) / 6)
    many = torch.rand(2, 5, 6, dtype=torch.float64).softmax(-1)
    assert_close(over_image(many, (3, 2), (6, 4)).sum((-2, -1)), torch.ones(2, 5, dtype=torch.float64))
    part = torch.zeros(4, 9, dtype=torch.bool)
    part[0, :2] = part[3, 8] = True
    assert_close(share_inside(weights, part, (2, 3)), torch.tensor(2 / 6 * 0.1, dtype=torch.float64))
    even = torch.full((5, 6), 1 / 6, dtype=torch.float64)
    assert_close(share_inside(even, part, (2, 3)), torch.full((5,), 3 / 36, dtype=torch.float64))
    several = torch.stack([part, ~part])  # a part for each row of maps
    assert_close(share_inside(even[:2], several, (2, 3)).sum(), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: a_captioner("best"), ValueError, "There is no attention 'best'"),
        (lambda: a_captioner(cell="rnn"), ValueError, "There is no cell 'rnn'"),
        (lambda: a_captioner()(images(h=10), captions()[0]), ValueError, "Captioner needs grid"),
        (lambda: over_image(torch.rand(3, 6), (2, 3), (5, 6)), ValueError, "multiples of it"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, says):
    with pytest.raises(error, match=says):
        call()

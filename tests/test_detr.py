"""detection/detr.py: the logits, boxes and gradients of Hugging Face's DETR; places, queries, anchors; bad input."""

import math
import random

import pytest
import torch
from parity import shaken
from torch import nn
from torch.testing import assert_close

from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import sinusoidal
from course_lib.detection.detr import (
    DETR,
    Anchors,
    Backbone,
    PlacedAttention,
    Queries,
    grid_points,
    sine_places,
)
from course_lib.detection.set_loss import set_loss
from course_lib.show.record import capture


def a_detr(queries=None, dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    sizes = {"n_classes": 5, "d_model": 8, "n_heads": 2, "d_ff": 12} | sizes
    return shaken(DETR(Backbone(1, (3, 4)), queries or Anchors(6, 8, 2), **sizes)).to(dtype)


# --- beside Hugging Face's


def hugging_faces(seed, **config):
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    draw = random.Random(seed)
    heads = draw.choice([1, 2, 3])
    backbone = ResNetConfig(num_channels=3, embedding_size=6, hidden_sizes=[8, 8, 12, 12], depths=[1, 1, 2, 1],
                            layer_type=draw.choice(["basic", "bottleneck"]), out_features=["stage4"])  # fmt: skip
    sizes = {"num_queries": draw.choice([1, 4, 9]), "encoder_layers": draw.choice([1, 2]), "num_labels": 5}
    sizes |= {"decoder_layers": draw.choice([1, 3]), "d_model": 4 * heads * draw.choice([1, 2])}
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), heads)
    sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), draw.choice([1, 13]))
    sizes |= {"backbone_config": backbone, "use_timm_backbone": False}
    torch.manual_seed(seed)
    return shaken(DetrForObjectDetection(DetrConfig(**(sizes | config)))).eval()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_it_is_hugging_faces(seed, monkeypatch):
    """DETR, DETR.forward, PlacedBlock: logits, boxes and gradients, backbone and all, for drawn sizes."""
    model = hugging_faces(seed).double()
    images = torch.randn(2, 3, *random.Random(seed).choice([(64, 64), (33, 97)]), dtype=torch.float64)
    logits, boxes = DETR.from_hf(model)(images)
    theirs = model(images)
    # Theirs divides by h + 0.000001 where it counts its places, ours by h.
    assert_close(logits, theirs.logits, atol=1e-4, rtol=0)
    assert_close(boxes, theirs.pred_boxes, atol=1e-4, rtol=0)
    places = exact_places(monkeypatch)
    theirs = model(images)
    assert places, "their places were asked for"
    ours = DETR.from_hf(model)
    logits, boxes = ours(images)
    assert_close(logits, theirs.logits, atol=1e-10, rtol=1e-10)
    assert_close(boxes, theirs.pred_boxes, atol=1e-10, rtol=1e-10)
    assert boxes.std() > 1e-3, "they differ"
    own = torch.autograd.grad(logits.square().sum() + boxes.sum(), ours.project.weight)[0]
    its = torch.autograd.grad(theirs.logits.square().sum() + theirs.pred_boxes.sum(),
                              model.model.input_projection.weight)[0]  # fmt: skip
    assert_close(own, its, atol=1e-9, rtol=1e-9)


def exact_places(monkeypatch):
    """Their sine places without the 0.000001: what is asked of them comes from our formula, which has its own test."""
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    asked = []

    def forward(self, shape, device, dtype, mask=None):
        asked.append(shape)
        grid = sine_places(grid_points(*shape[2:], 1.0, dtype, device), 2 * self.num_position_features)
        return grid.T.unflatten(1, shape[2:]).expand(shape[0], -1, -1, -1)

    monkeypatch.setattr(DetrSinePositionEmbedding, "forward", forward)
    return asked


def test_its_sine_places_are_hugging_faces():
    """sine_places, grid_points: but for their 0.000001."""
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    theirs = DetrSinePositionEmbedding(6, normalize=True)(
        torch.Size([1, 9, 3, 5]), torch.device("cpu"), torch.float64, torch.ones(1, 3, 5, dtype=torch.bool)
    )
    ours = sine_places(grid_points(3, 5, at=1.0, dtype=torch.float64), 12)
    assert_close(ours, theirs[0].flatten(1).T, atol=1e-5, rtol=0)


def test_models_that_compute_otherwise_are_refused():
    with pytest.raises(TypeError, match=r"copies a transformers\.DetrForObjectDetection; got Linear"):
        DETR.from_hf(nn.Linear(2, 2))
    for odd in ({"activation_function": "gelu"}, {"decoder_ffn_dim": 7}, {"position_embedding_type": "learned"}):
        with pytest.raises(ValueError, match="copies a model with ReLU, sine places"):
            DETR.from_hf(hugging_faces(0, **odd))
    with pytest.raises(ValueError, match="set model.config.auxiliary_loss = False"):
        DETR.from_hf(model := hugging_faces(0, auxiliary_loss=True))
    model.config.auxiliary_loss = False
    images = torch.rand(1, 3, 64, 64)
    assert_close(DETR.from_hf(model)(images)[0], model(images).logits, atol=1e-3, rtol=0)


# --- by the formulas


def test_sine_places_are_lesson_05s_on_two_axes():
    """sine_places: half for y, half for x; whole numbers of a turn's 2 pi are lesson 05's places."""
    points = torch.rand(7, 2, dtype=torch.float64)
    places = sine_places(points, 8)
    assert places.shape == (7, 8)
    for one, (x, y) in zip(places, points, strict=True):
        for half, at in ((one[:4], y), (one[4:], x)):
            hands = [f(2 * math.pi * at / 10000**e) for e in (0, 0.5) for f in (torch.sin, torch.cos)]
            assert_close(half, torch.stack(hands))
    turns = torch.arange(5, dtype=torch.float64) / (2 * math.pi)
    rows = sine_places(torch.stack([turns, turns], dim=1), 8)
    assert_close(rows[:, :4], sinusoidal(5, 4, dtype=torch.float64), atol=1e-12, rtol=0)


def test_a_grid_goes_row_by_row():
    """grid_points: x before y, in the middles of the cells."""
    expected = torch.tensor([[1, 1], [3, 1], [5, 1], [1, 3], [3, 3], [5, 3]]) / torch.tensor([6, 4])
    assert_close(grid_points(2, 3), expected)


@pytest.mark.parametrize("remembers", [False, True])
def test_attention_adds_places_to_queries_and_keys_alone(remembers):
    """PlacedAttention, PlacedAttention.forward: lesson 06's where the places are zeros; the formula else."""
    torch.manual_seed(0)
    layer = PlacedAttention(8, 2).double()
    x, memory = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 5, 8, dtype=torch.float64)
    here, there = torch.randn(3, 8, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    given, seen, places = (memory, memory, there) if remembers else (None, x, here)
    zeros = torch.zeros(1, 8, dtype=torch.float64)
    assert_close(layer(x, zeros, given, zeros), MultiHead.forward(layer, x, given))
    q, k, v = layer.w_q(x + here), layer.w_k(seen + places), layer.w_v(seen)
    q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in (q, k, v))
    weights = (q @ k.mT / 2).softmax(-1)
    out = layer.w_o((weights @ v).transpose(1, 2).flatten(2))
    assert_close(layer(x, here, given, None if given is None else places), out, atol=1e-10, rtol=0)


def test_what_is_recorded_is_what_is_computed():
    """Attention maps come out of the same pass, and the fused kernel's answer is the explicit one's."""
    model, images = a_detr(n_encoder=1), torch.rand(2, 1, 8, 12, dtype=torch.float64)
    logits, boxes = model(images)
    with capture(model, "decoder.*.weights", "encoder.*.weights") as maps:
        heard = model(images)
    assert_close(heard[0], logits, atol=1e-10, rtol=0)
    assert_close(heard[1], boxes, atol=1e-10, rtol=0)
    assert maps["decoder.0.cross.weights"][0].shape == (2, 2, 6, 24)
    assert maps["decoder.1.attention.weights"][0].shape == (2, 2, 6, 6)
    assert maps["encoder.0.attention.weights"][0].shape == (2, 2, 24, 24)


@pytest.mark.parametrize("sides", [(8, 8), (5, 9), (1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["anchors", "queries", "not near"])
def test_shapes(sides, kind):
    """DETR.layers: one answer a block, the last of them the model's; an image answers as it does among others."""
    queries = {"anchors": Anchors(6, 8, 2), "queries": Queries(6, 8), "not near": Anchors(6, 8, 2, near=False)}[kind]
    model, images = a_detr(queries), torch.rand(3, 1, *sides, dtype=torch.float64)
    layers = model.layers(images)
    assert len(layers) == 2
    for logits, boxes in layers:
        assert logits.shape == (3, 6, 6) and boxes.shape == (3, 6, 4)
        assert ((boxes > 0) & (boxes < 1)).all()
    assert all(torch.equal(one, other) for one, other in zip(model(images), layers[-1], strict=True))
    alone = torch.cat([model(one)[0] for one in images.split(1)])
    assert_close(alone, layers[-1][0], atol=1e-10, rtol=0)
    assert torch.equal(model(images[:, 0])[0], layers[-1][0])


@pytest.mark.parametrize("anchors", [True, False])
def test_queries_that_change_places_change_answers(anchors):
    """A set: the answers of permuted queries are the permuted answers."""
    model, images = a_detr(None if anchors else Queries(6, 8)), torch.rand(1, 1, 8, 8, dtype=torch.float64)
    logits, boxes = model(images)
    order = torch.randperm(6)
    with torch.no_grad():
        own = model.queries.points if anchors else model.queries.places
        own.copy_(own[order].clone())
    turned = model(images)
    assert_close(turned[0], logits[:, order], atol=1e-10, rtol=0)
    assert_close(turned[1], boxes[:, order], atol=1e-10, rtol=0)


def test_queries_alike_answer_alike():
    """Without places nothing tells queries apart, and none ever becomes another."""
    model = a_detr(Queries(6, 8))
    with torch.no_grad():
        model.queries.places.copy_(model.queries.places[:1].expand(6, -1).clone())
    logits, _ = model(torch.rand(1, 1, 8, 8, dtype=torch.float64))
    assert_close(logits, logits[:, :1].expand(-1, 6, -1), atol=1e-10, rtol=0)


@pytest.mark.parametrize("n", [1, 3, 9, 16, 17])
def test_anchors_begin_on_a_grid(n):
    """Anchors, Anchors.forward: and a query's attention falls off with the square of the distance."""
    anchors, grid = Anchors(n, 8, 2), grid_points(4, 4)
    points = anchors.points.sigmoid()
    assert points.shape == (n, 2) and len(points.unique(dim=0)) == n
    assert ((points > 0) & (points < 1)).all()
    places, bias, start = anchors(grid)
    assert places.shape == (n, 8) and bias.shape == (2, n, 16) and start.shape == (n, 4)
    assert_close(bias[0], -(torch.cdist(points, grid) / 0.1).square(), atol=1e-3, rtol=1e-3)
    assert Anchors(n, 8, 2, near=False)(grid)[1] is None


def test_a_box_begins_at_its_anchor():
    model = a_detr(Anchors(4, 8, 2))
    with torch.no_grad():
        model.placing[-1].weight.zero_()
        model.placing[-1].bias.zero_()
    _, boxes = model(torch.rand(2, 1, 8, 8, dtype=torch.float64))
    assert_close(boxes[0, :, :2], model.queries.points.sigmoid(), atol=1e-10, rtol=0)
    assert_close(boxes[0, :, 2:], torch.full((4, 2), 0.5, dtype=torch.float64))


def test_everything_learns_but_the_first_look_at_each_other():
    """The losses reach every weight, but for the first block's look at itself: it begins at zeros (appendix A.3).

    All values are the same there, so whom a query looks at changes nothing. A bias of keys is for all keys the same.
    """
    model, images = a_detr(n_encoder=1), torch.rand(2, 1, 8, 8, dtype=torch.float64)
    labels, truth = torch.tensor([[1, -1], [3, 0]]), torch.rand(2, 2, 4, dtype=torch.float64)
    sum(set_loss(*layer, labels, truth) for layer in model.layers(images)).backward()
    idle = {name for name, weight in model.named_parameters() if weight.grad.abs().max() < 1e-12}
    first = {f"decoder.0.attention.{name}" for name in ("w_q.weight", "w_q.bias", "w_k.weight", "w_v.weight")}
    assert {name for name in idle if not name.endswith("w_k.bias")} == first


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="multiple of 4; got 7"):
        sine_places(torch.rand(2, 2), 7)

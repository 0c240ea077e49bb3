"""multimodal/clip.py: the scores and gradients of Hugging Face's CLIP; what a text's end has read; bad input."""

import math
import random

import pytest
import torch
from parity import shaken
from torch import nn
from torch.testing import assert_close

from course_lib.multimodal.clip import CLIP, TEMPERATURE, ImageTower, TextTower, quick_gelu
from course_lib.multimodal.contrastive import contrastive_loss, diagonal
from course_lib.show.record import capture
from course_lib.vision.vit import ViTConfig

END = 10


def a_clip(width=5):
    torch.manual_seed(0)
    text = TextTower(11, 9, 6, 2, 2, width, END)
    return shaken(CLIP(ImageTower(ViTConfig(4, 2, width, 6, 2, 1, channels=1)), text)).double()


def texts(n, T=7, end=END):
    """Ids (n, T): the end stands anywhere, and behind it whatever it may be, another end too."""
    ids = torch.randint(0, end, (n, T))
    ids[torch.arange(n), torch.randint(0, T, (n,))] = end
    return ids


# --- beside Hugging Face's


def hugging_faces(seed, **text):
    from transformers import CLIPConfig, CLIPModel

    draw = random.Random(seed)
    heads, side = draw.choice([1, 2, 3]), draw.choice([2, 3])
    tower = {"hidden_size": 4 * heads, "num_attention_heads": heads, "num_hidden_layers": draw.choice([1, 3])}
    tower |= {"hidden_act": draw.choice(["quick_gelu", "gelu"]), "layer_norm_eps": draw.choice([1e-5, 0.1])}
    tower["intermediate_size"] = draw.choice([1, 13])
    read = tower | {"vocab_size": 11, "max_position_embeddings": 9, "eos_token_id": END} | text
    seen = tower | {"image_size": 3 * side, "patch_size": side, "num_channels": draw.choice([1, 3])}
    torch.manual_seed(seed)
    width = draw.choice([2, 5])
    return shaken(CLIPModel(CLIPConfig(text_config=read, vision_config=seen, projection_dim=width))).eval().double()


@pytest.mark.parametrize("seed", range(5))
def test_it_is_hugging_faces(seed):
    """CLIP.forward, ImageTower, quick_gelu: scores, loss and all gradients, for drawn sizes."""
    model = hugging_faces(seed, **({"eos_token_id": 2} if seed == 4 else {}))  # 2: as older configurations say it
    seen = model.config.vision_config
    images = torch.randn(4, seen.num_channels, seen.image_size, seen.image_size, dtype=torch.float64)
    ids = texts(4)
    ours = CLIP.from_hf(model)
    scores, theirs = ours(images, ids), model(input_ids=ids, pixel_values=images, return_loss=True)
    assert_close(scores, theirs.logits_per_image, atol=1e-10, rtol=1e-10)
    assert scores.std() > 1e-3, "they differ"
    assert_close(ours.text_features(ids), theirs.text_embeds, atol=1e-10, rtol=1e-10)
    loss = contrastive_loss(scores, diagonal(scores))
    assert_close(loss, theirs.loss, atol=1e-10, rtol=1e-10)
    loss.backward()
    theirs.loss.backward()
    eyes, book = model.vision_model, model.text_model
    pairs = [(ours.log_scale, model.logit_scale), (ours.image.head.weight, model.visual_projection.weight),
             (ours.text.project.weight, model.text_projection.weight),
             (ours.image.cls, eyes.embeddings.class_embedding),
             (ours.image.places, eyes.embeddings.position_embedding.weight),
             (ours.image.embed.project.weight, eyes.embeddings.patch_embedding.weight),
             (ours.text.tokens.weight, book.embeddings.token_embedding.weight),
             (ours.text.places.weight, book.embeddings.position_embedding.weight),
             (ours.image.dropout[1].gain, eyes.pre_layrnorm.weight),
             (ours.image.blocks[0].attention.w_v.weight, eyes.encoder.layers[0].self_attn.v_proj.weight),
             (ours.text.encoder.blocks[0].feed_forward.w_1.weight, book.encoder.layers[0].mlp.fc1.weight)]  # fmt: skip
    for own, other in pairs:
        assert_close(own.grad, other.grad.view(own.shape), atol=1e-10, rtol=1e-10)


def test_models_that_compute_otherwise_are_refused():
    with pytest.raises(TypeError, match=r"copies a transformers\.CLIPModel; got Linear"):
        CLIP.from_hf(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="knows the activations quick_gelu.*got 'tanh'"):
        CLIP.from_hf(hugging_faces(0, hidden_act="tanh"))
    with pytest.raises(ValueError, match="one id that ends a text"):
        CLIP.from_hf(hugging_faces(0, eos_token_id=[1, 2]))


# --- by the formula


def test_scores_are_scaled_cosines_and_the_scale_begins_at_one_over_the_temperature():
    """CLIP, CLIP.image_features, CLIP.text_features."""
    model, images, ids = a_clip(), torch.rand(3, 1, 4, 4, dtype=torch.float64), texts(2)
    seen, read = model.image_features(images), model.text_features(ids)
    assert_close(seen.norm(dim=1), torch.ones(3, dtype=torch.float64))
    assert_close(read.norm(dim=1), torch.ones(2, dtype=torch.float64))
    assert_close(model(images, ids), model.log_scale.exp() * seen @ read.T)
    fresh = CLIP(nn.Identity(), nn.Identity())
    assert fresh.log_scale.exp().item() == pytest.approx(1 / TEMPERATURE)
    assert CLIP(nn.Identity(), nn.Identity(), 1.0).log_scale.item() == 0


def test_a_text_stands_where_its_first_end_is():
    """TextTower.forward: what comes behind it changes nothing, what comes before does."""
    tower = a_clip().text
    ids = torch.tensor([[3, 4, END, 0, 0], [3, 4, END, 7, END]])
    assert_close(tower(ids)[0], tower(ids)[1])
    assert_close(tower(ids[:, :3]), tower(ids))
    assert not torch.allclose(tower(torch.tensor([[4, 3, END]])), tower(ids[:1]))


def test_attention_maps_come_out_of_the_same_pass():
    model, images, ids = a_clip(), torch.rand(3, 1, 4, 4, dtype=torch.float64), texts(2)
    scores = model(images, ids)
    with capture(model, "*.attention.weights") as maps:
        assert_close(model(images, ids), scores)
    assert maps["text.encoder.blocks.1.attention.weights"][0].shape == (2, 2, 7, 7)
    assert maps["image.encoder.blocks.0.attention.weights"][0].shape == (3, 2, 5, 5)


def test_its_blocks_are_those_of_both_towers():
    """CLIP.blocks: so that an optimiser finds their matrices."""
    model = a_clip()
    assert [*model.blocks] == [*model.image.encoder.blocks, *model.text.encoder.blocks]
    assert [*CLIP(nn.Linear(2, 2), model.text).blocks] == [*model.text.encoder.blocks]


def test_a_new_tower_tells_images_apart():
    """ImageTower: its head does not begin at zeros, as a ViT's does: zeros have no direction."""
    torch.manual_seed(0)
    tower = ImageTower(ViTConfig(4, 2, 5, 6, 2, 1, channels=1))
    features = CLIP(tower, nn.Identity()).image_features(torch.rand(3, 1, 4, 4))
    assert_close(features.norm(dim=1), torch.ones(3))
    assert len(features.unique(dim=0)) == 3 and tower.head.bias is None


def test_everything_learns():
    model, images, ids = a_clip(), torch.rand(3, 1, 4, 4, dtype=torch.float64), texts(3)
    scores = model(images, ids)
    contrastive_loss(scores, diagonal(scores)).backward()
    idle = {name for name, weight in model.named_parameters() if weight.grad.abs().max() < 1e-12}
    assert all(name.endswith("w_k.bias") for name in idle), idle


def test_quick_gelu_is_near_gelu():
    """quick_gelu: by its formula, and within 0.03 of the other."""
    x = torch.linspace(-6, 6, 50, dtype=torch.float64)
    assert quick_gelu(x)[7].item() == pytest.approx(x[7].item() / (1 + math.exp(-1.702 * x[7].item())))
    assert (quick_gelu(x) - nn.functional.gelu(x)).abs().max() < 0.03


def test_bad_input_is_refused_in_words():
    tower = a_clip().text
    with pytest.raises(ValueError, match=r"needs the end, 10"):
        tower(torch.tensor([[1, 2, END], [1, 2, 3]]))
    with pytest.raises(ValueError, match="up to 9 tokens; got 10"):
        tower(torch.full((1, 10), END))

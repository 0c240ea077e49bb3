"""Lesson 09's controls: a ViT that reads its patches' tokens, and one map for every image."""

from dataclasses import replace

import pytest
import torch

from course_lib.vision.rollout import rollout
from course_lib.vision.vit import ViT
from course_lib.workshop.experiments.vit.glyphs import CONFIG, WindowNet, network
from course_lib.workshop.experiments.vit.glyphs_controls import TokenViT, marked_by, weights_of
from course_lib.workshop.experiments.vit.glyphs_looks import attention_maps


def token_vit(read: str, width: int = 64) -> TokenViT:
    torch.manual_seed(0)
    model = TokenViT(replace(CONFIG, d_model=width), read)
    torch.nn.init.normal_(model.head.weight, std=0.02)
    return model.eval()


def test_the_read_out_has_every_token_at_its_own_place_or_their_mean():
    images = torch.rand(3, 1, 32, 32)
    joined, mean = token_vit("all"), token_vit("mean")
    tokens = joined.encode(images)[:, 1:]  # (3, 16, 64)
    by_place = joined.head.weight.view(129, 16, 64)
    torch.testing.assert_close(joined(images), torch.einsum("bnd,knd->bk", tokens, by_place) + joined.head.bias)
    torch.testing.assert_close(mean(images), mean.head(mean.encode(images)[:, 1:].mean(dim=1)))


@pytest.mark.parametrize("read", ["all", "mean"])
def test_it_begins_as_the_plain_vit_of_its_seed_does(read):
    torch.manual_seed(0)
    ours, plain = TokenViT(CONFIG, read).state_dict(), network("ViT", 0).state_dict()
    assert isinstance(TokenViT(CONFIG, read), ViT) and not ours["head.weight"].any() and not ours["head.bias"].any()
    assert all(ours[name].equal(plain[name]) for name in plain if not name.startswith("head."))


def test_the_narrower_one_has_as_many_weights_as_the_plain_vit_and_the_rival():
    ours, rivals = weights_of(token_vit("all", 48)), (network("ViT", 0), WindowNet(16, shared=True, pooled=False))
    assert all(0.99 < ours / weights_of(other) < 1.06 for other in rivals)


def test_marks_do_not_depend_on_how_images_are_parted():
    model, images = network("ViT", 0).eval(), torch.rand(501, 1, 32, 32)
    marked = marked_by(model, images)
    assert marked.shape == (501, 16)
    torch.testing.assert_close(marked[-2:], rollout(attention_maps(model, images[-2:]))[:, 0, 1:])

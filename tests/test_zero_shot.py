"""multimodal/zero_shot.py: a classifier made of texts is a linear one; search finds what is nearest, both ways."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.multimodal.zero_shot import class_features, search, zero_shot


def features(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.float64), dim=-1)


def test_texts_are_the_weights_of_a_linear_classifier():
    """zero_shot: the softmax of nn.Linear whose rows are the texts, times the scale."""
    images, classes = features(5, 4), features(3, 4)
    line = torch.nn.Linear(4, 3, bias=False).double()
    line.weight.data = 7 * classes
    p = zero_shot(images, classes, 7)
    assert_close(p, line(images).softmax(-1))
    assert_close(p.sum(-1), torch.ones(5, dtype=torch.float64))


def test_a_class_of_several_prompts_is_their_mean_direction():
    """class_features: of one prompt it is that prompt; of two it lies between them; its length is 1."""
    one = features(3, 1, 4)
    assert_close(class_features(one), one[:, 0])
    two = torch.tensor([[[1.0, 0], [0, 1]]])
    assert_close(class_features(two), torch.tensor([[0.5**0.5, 0.5**0.5]]))
    assert_close(class_features(features(2, 5, 4)).norm(dim=1), torch.ones(2, dtype=torch.float64))


def test_search_finds_the_nearest_both_ways():
    """search: places in the order of their cosines; of what is asked itself, itself first."""
    known = features(9, 4)
    places, cosines = search(known[[4, 7]], known, 3)
    assert places.shape == cosines.shape == (2, 3) and places[:, 0].tolist() == [4, 7]
    assert_close(cosines[:, 0], torch.ones(2, dtype=torch.float64))
    every, table = search(features(2, 4), known, 9)
    assert every.sort(dim=1).values.equal(torch.arange(9).expand(2, 9))
    assert (table.diff(dim=1) <= 0).all()
    asked = features(2, 4)
    by_hand = [sorted(range(9), key=lambda n, one=one: -(one @ known[n]).item())[:2] for one in asked]
    assert search(asked, known, 2)[0].tolist() == by_hand

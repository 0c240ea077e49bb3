"""The stored models that see Fashion-MNIST: what their records say is so, and a run of each kind on small images."""

import numpy as np
import pytest
import torch

from course_lib.data import fashion
from course_lib.language import next_token
from course_lib.vision.convnet import ConvNet, width_for
from course_lib.vision.images import accuracy
from course_lib.vision.vit import ViT
from course_lib.workshop.recipes.images import CONV, VIT, images_and_labels
from course_lib.workshop.recipes.stored import load, train

there = pytest.mark.skipif(not fashion.is_there(), reason=f"Fashion-MNIST is not installed: {fashion.HOW}")


both = pytest.mark.parametrize("recipe", [VIT, CONV], ids=lambda recipe: recipe.name)


def test_models_that_are_compared_have_about_the_same_number_of_weights():
    """The convolutional network's width is the one that comes nearest to the ViT's weights."""
    vit, conv = (sum(p.numel() for p in recipe.build().parameters()) for recipe in (VIT, CONV))
    assert width_for(vit, lambda width: ConvNet(1, 10, width, 3)) == 40 and 0.97 < conv / vit < 1.03


@both
def test_a_stored_model_names_all_kinds(recipe):
    model, record = load(recipe)
    assert model(torch.rand(2, 1, fashion.SIDE, fashion.SIDE)).shape == (2, len(fashion.NAMES))
    (_, first), *_, (_, last) = record["curve"]
    assert first < 0.2 and abs(last - record["test_accuracy"]) < 0.02
    assert list(record["test_by_kind"]) == list(fashion.NAMES)  # 1,000 images of each kind
    assert sum(record["test_by_kind"].values()) / 10 == pytest.approx(record["test_accuracy"])


@there
@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
@both
def test_a_stored_model_is_worth_what_its_record_says(recipe):
    """In full precision, as measured after training, and in half, as stored: ten images apart at most."""
    model, record = load(recipe)
    assert abs(accuracy(model, *images_and_labels("test")) - record["test_accuracy"]) <= 1e-3


# --- a run of each kind, on small stand-ins for the images


@pytest.fixture
def few(monkeypatch):
    """Thirty images in each split, of noise."""

    def arrays(split):
        random = np.random.default_rng(["train", "validation", "test"].index(split))
        return random.random((30, 28, 28), dtype=np.float32), np.arange(30) % 10

    monkeypatch.setattr(fashion, "arrays", arrays)


@pytest.mark.slow
@both
def test_a_run_makes_a_model_that_comes_back(few, short_run, recipe):
    model, record = short_run(recipe)
    images, labels = images_and_labels("test")
    assert record["test_accuracy"] == accuracy(model, images, labels)
    assert record["test_by_kind"] == {
        kind: accuracy(model, images[labels == n], labels[labels == n]) for n, kind in enumerate(fashion.NAMES)
    }


def test_muon_steps_the_matrices_of_the_vits_blocks():
    model = VIT.build()
    assert isinstance(model, ViT)
    matrices, rest = next_token.three_rounds(model).param_groups
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert all(names[id(weight)].startswith("encoder.blocks.") for weight in matrices["params"])
    assert len(matrices["params"]) == 6 * len(model.blocks)
    assert {"cls", "places", "embed.project.weight", "head.weight"} <= {names[id(weight)] for weight in rest["params"]}


def test_a_run_without_the_images_says_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv(fashion.VARIABLE, str(tmp_path))
    fashion._installed.cache_clear()
    threads = torch.get_num_threads()
    try:
        with pytest.raises(FileNotFoundError, match="apt-get install dataset-fashion-mnist"):
            train(VIT, steps=1, progress=False)
    finally:
        torch.set_num_threads(threads)


def test_images_stand_as_a_model_reads_them(few):
    images, labels = images_and_labels("train")
    assert images.shape == (30, 1, 28, 28) and images.dtype == torch.float32
    assert labels.shape == (30,) and labels.dtype == torch.int64

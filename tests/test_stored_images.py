"""The stored models that see Fashion-MNIST: what their records say is so, and a run of each kind on small images."""

import json

import numpy as np
import pytest
import torch

from course_lib.data import fashion
from course_lib.language import next_token
from course_lib.vision.convnet import ConvNet, width_for
from course_lib.vision.images import accuracy
from course_lib.vision.vit import ViT
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.images import IMAGES, images_and_labels
from course_lib.workshop.recipes.stored import CHECKPOINTS, cards, load, save, train

there = pytest.mark.skipif(not fashion.is_there(), reason=f"Fashion-MNIST is not installed: {fashion.HOW}")


def test_models_that_are_compared_have_about_the_same_number_of_weights():
    """The convolutional network's width is the one that comes nearest to the ViT's weights."""
    vit, conv = (sum(p.numel() for p in IMAGES[name].model().parameters()) for name in ("fashion_vit", "fashion_conv"))
    channels, kinds, width, stages = IMAGES["fashion_conv"].sizes
    assert width == width_for(vit, lambda width: ConvNet(channels, kinds, width, stages)) and 0.97 < conv / vit < 1.03


@pytest.mark.parametrize("name", IMAGES)
def test_a_stored_model_has_a_whole_record_and_a_small_file(name):
    (model, record), recipe = load(name), IMAGES[name]
    assert not model.training
    assert record["weights"] == sum(p.numel() for p in model.parameters())
    assert model(torch.rand(2, 1, fashion.SIDE, fashion.SIDE)).shape == (2, len(fashion.NAMES))
    steps, shares = zip(*record["curve"], strict=True)
    assert steps[0] == 0 and steps[-1] == record["steps"] == recipe.steps
    assert shares[0] < 0.2 and abs(shares[-1] - record["test_accuracy"]) < 0.02
    assert list(record["test_by_kind"]) == list(fashion.NAMES)  # 1,000 images of each kind
    assert sum(record["test_by_kind"].values()) / 10 == pytest.approx(record["test_accuracy"])
    assert (CHECKPOINTS / f"{name}.safetensors").stat().st_size < 2e6


@there
@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
@pytest.mark.parametrize("name", IMAGES)
def test_a_stored_model_is_worth_what_its_record_says(name):
    """In full precision, as measured after training, and in half, as stored: ten images apart at most."""
    model, record = load(name)
    assert abs(accuracy(model, *images_and_labels("test")) - record["test_accuracy"]) <= 1e-3


# --- a run of each kind, on small stand-ins for the images


@pytest.fixture
def few(tmp_path, monkeypatch):
    """Thirty images in each split, of noise, and a folder for the checkpoints."""

    def arrays(split):
        random = np.random.default_rng(["train", "validation", "test"].index(split))
        return random.random((30, 28, 28), dtype=np.float32), np.arange(30) % 10

    monkeypatch.setattr(fashion, "arrays", arrays)
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_a_run_makes_a_model_that_comes_back_in_half_precision(few, name):
    model, record = train(name, steps=2, progress=False)
    assert record["steps"] == 2 and [step for step, _ in record["curve"]] == [0, 2]
    assert record["recipe"]["sizes"] == list(IMAGES[name].sizes)
    images, labels = images_and_labels("test")
    assert record["test_accuracy"] == accuracy(model, images, labels)
    assert record["test_by_kind"] == {
        kind: accuracy(model, images[labels == n], labels[labels == n]) for n, kind in enumerate(fashion.NAMES)
    }
    path = save(name, model, record)
    back, same = load(name)
    assert path.stat().st_size < 2e6 and same == json.loads(json.dumps(record))
    for key, weight in back.state_dict().items():
        assert torch.equal(weight, model.state_dict()[key].half().float())
    card = cards().split("## ")[1]
    assert card.startswith(f"`{name}`") and "2 steps of 64 images, learning rate `0.0" in card
    assert (
        f"{record['weights']:,} weights; {record['test_accuracy']:.2%} of the 10,000 test images named rightly" in card
    )


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on(few):
    whole, _ = train("fashion_conv", steps=3, progress=False)
    file = few / "run"
    train("fashion_conv", steps=1, progress=False, checkpoint=file)
    model, record = train("fashion_conv", steps=3, progress=False, checkpoint=file)
    assert [step for step, _ in record["curve"]] == [0, 1, 3]
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), model.parameters(), strict=True))


def test_muon_steps_the_matrices_of_the_vits_blocks():
    model = IMAGES["fashion_vit"].model()
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
            train("fashion_vit", steps=1, progress=False)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.slow
def test_missing_damaged_and_foreign_files_are_refused_in_words(few):
    with pytest.raises(LookupError, match="no model called 'fashion_mlp'. There are: .*fashion_vit, fashion_conv"):
        load("fashion_mlp")
    with pytest.raises(FileNotFoundError, match="python -m course_lib.workshop.recipes.stored fashion_vit"):
        load("fashion_vit")
    model, record = train("fashion_conv", steps=1, progress=False)
    whole = save("fashion_conv", model, record).read_bytes()
    (stored.CHECKPOINTS / "fashion_vit.safetensors").write_bytes(whole)
    stored.list_checksum(stored.CHECKPOINTS / "fashion_vit.safetensors")
    with pytest.raises(ValueError, match="fashion_vit.safetensors does not fit its recipe"):
        load("fashion_vit")
    (stored.CHECKPOINTS / "fashion_conv.safetensors").write_bytes(whole[:5000])
    with pytest.raises(ValueError, match="fashion_conv.safetensors is damaged"):
        load("fashion_conv")
    del record["test_accuracy"], record["test_by_kind"]
    save("fashion_conv", model, record)
    with pytest.raises(ValueError, match="its record lacks test_accuracy, test_by_kind"):
        load("fashion_conv")


def test_images_stand_as_a_model_reads_them(few):
    images, labels = images_and_labels("train")
    assert images.shape == (30, 1, 28, 28) and images.dtype == torch.float32
    assert labels.shape == (30,) and labels.dtype == torch.int64

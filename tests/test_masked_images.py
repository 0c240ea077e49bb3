"""recipes/masked_images.py: what is painted and named, that no label and no judged face is read, and what is stored."""

import json
import math

import pytest
import torch
from torch.testing import assert_close

from course_lib.data import glyphs
from course_lib.train import cosine
from course_lib.vision.masked_patches import MaskedAutoencoder
from course_lib.vision.patches import patchify, unpatchify
from course_lib.workshop.recipes import masked_images as recipe
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.glyphs import lettered, muon
from course_lib.workshop.recipes.stored import CHECKPOINTS, cards, load, save, train

ROUND = 2 * recipe.BATCH + 10  # images of a round of three batches, the last one small
STORED = CHECKPOINTS / "glyphs_painter.safetensors"


def numbered(n):
    """Images of one shade each, all different, so that a batch tells which images it holds."""
    return torch.linspace(0, 1, n)[:, None, None, None].expand(n, 1, recipe.SIDE, recipe.SIDE).clone()


def watched(model):
    """What the loss of a painter is given, step by step; the loss itself stays."""
    given, loss = [], model.loss
    model.loss = lambda images, seen: (given.append((images, seen)), loss(images, seen))[1]
    return given


@pytest.fixture
def few(monkeypatch):
    """A round of images without names."""
    images = numbered(ROUND)
    monkeypatch.setattr(recipe, "unlabelled", lambda: images)
    return images


# --- what is read


@pytest.mark.slow
def test_no_image_of_a_judged_face_is_painted():
    """unlabelled: every sign of the training faces, and no image that a validation or test face has, dot for dot."""
    images, rows = recipe.unlabelled(), glyphs.glyphs(faces="train")[1]
    assert images.shape == (len(rows), 1, recipe.SIDE, recipe.SIDE) and images.dtype == torch.float32
    assert 0 <= images.min() and images.max() <= 1
    assert {row.face for row in rows} == set(glyphs.FACES["train"])
    known = {image.numpy().tobytes() for image in images}
    for split in ("validation", "test"):
        judged, about = glyphs.glyphs(faces=split)
        assert not {row.face for row in about} & set(glyphs.FACES["train"])
        assert not known & {image.tobytes() for image in judged}
    assert known >= {image.numpy().tobytes() for image in lettered("train")[0]}  # what is named later was painted
    assert len(images) > 2 * len(lettered("train")[0])  # and more than letters that have a name


def test_each_image_is_read_once_a_round_and_there_is_nothing_else(few):
    """images_alone: no labels; a new order in each round, the same again by the seed."""
    batches = recipe.images_alone(few, 3)
    first, second = (torch.cat([next(batches) for _ in range(3)]) for _ in range(2))
    assert first.shape == few.shape and not first.equal(second)
    for shades in (first[:, 0, 0, 0], second[:, 0, 0, 0]):
        assert shades.sort().values.equal(few[:, 0, 0, 0])
    assert next(recipe.images_alone(few, 3)).equal(first[: recipe.BATCH])
    assert not next(recipe.images_alone(few, 4)).equal(first[: recipe.BATCH])


# --- painting


@pytest.mark.slow
def test_painting_needs_no_label(few, monkeypatch):
    """painted: without any function that knows labels, each image is read, and other patches of it each time."""
    model = recipe.painter(0)
    for name in ("lettered", "base_letters"):
        monkeypatch.setattr(recipe, name, lambda *_, name=name: pytest.fail(f"{name} was asked"))
    given = watched(model)
    history = recipe.painted(model, 0, 6)
    assert len(history.loss) == 6 and all(map(math.isfinite, history.loss)) and not model.training
    sizes = [(recipe.BATCH,), (recipe.BATCH,), (10,)] * 2
    assert [images.shape for images, _ in given] == [(*size, 1, 32, 32) for size in sizes]
    assert [seen.shape for _, seen in given] == [(*size, recipe.N_PATCHES // 2) for size in sizes]
    drawn = [{}, {}]  # in each round: image -> the patches that it showed
    for at, (images, seen) in enumerate(given):
        drawn[at // 3] |= dict(zip(images[:, 0, 0, 0].tolist(), map(tuple, seen.tolist()), strict=True))
    assert drawn[0].keys() == drawn[1].keys() and len(drawn[0]) == ROUND
    assert len(set(drawn[0].values())) > 0.9 * ROUND  # of each image others, of 12,870 choices
    assert sum(drawn[0][image] == drawn[1][image] for image in drawn[0]) < 0.05 * ROUND


@pytest.mark.slow
@pytest.mark.parametrize("hidden, n", [(0.25, 12), (0.75, 4), (0.875, 2), (1.0, 1), (0.0, 15)])
def test_as_many_patches_are_hidden_as_was_asked_for(few, hidden, n):
    model = recipe.painter(0)
    given = watched(model)
    recipe.painted(model, 0, 1, hidden=hidden)
    assert given[0][1].shape == (recipe.BATCH, n)


def test_images_are_changed_before_they_are_looked_at(few):
    """painted: change has each batch and draws by the seed, and both input and target are what it gives."""
    model, asked = recipe.painter(0), []
    given = watched(model)

    def change(images, generator):
        asked.append(images)
        return 1 - images + 0 * torch.rand(1, generator=generator)

    recipe.painted(model, 0, 2, change=change)
    assert len(asked) == len(given) == 2
    assert all(after.equal(1 - before) for before, (after, _) in zip(asked, given, strict=True))


@pytest.mark.slow
def test_a_seed_draws_weights_batches_and_patches(few):
    def run(seed):
        model = recipe.painter(seed)
        recipe.painted(model, seed, 2)
        return model.state_dict()

    one, same, other = run(0), run(0), run(1)
    assert all(one[name].equal(same[name]) for name in one)
    assert not one["paint.weight"].equal(other["paint.weight"])


@pytest.mark.slow
def test_a_few_steps_lower_the_error(few):
    """painted: images of one shade, which any patch that is seen tells."""
    model = recipe.painter(0)
    history = recipe.painted(model, 0, 30)
    assert sum(history.loss[-5:]) < 0.5 * sum(history.loss[:5])


def test_the_first_steps_of_a_longer_training_have_its_rates(few, monkeypatch):
    """painted: whole says of how many; where nothing is said, the rate falls to the end. how goes to `fit`."""
    given = []
    monkeypatch.setattr(recipe, "fit", lambda model, batches, loss, **how: given.append(how))
    model = recipe.painter(0)
    recipe.painted(model, 0, 50)
    recipe.painted(model, 0, 50, whole=200, progress=True, watch_every=7)
    recipe.painted(model, 0)
    alone, part, usual = given
    for step in (0, 20, 49):
        assert alone["schedule"](step, 50) == cosine(step, 50, 20)
        assert part["schedule"](step, 50) == cosine(step, 200, 20)
    assert alone["progress"] is False and part["progress"] is True and part["watch_every"] == 7
    assert alone["lr"] == recipe.RATE and alone["device"] == recipe.CPU and usual["steps"] == recipe.STEPS


def test_both_stacks_are_stepped_by_muon():
    """both_stacks: every weight once; of encoder and decoder all matrices, of the rest none."""
    model = recipe.painter(0)
    matrices, rest = (group["params"] for group in recipe.both_stacks(model).param_groups)
    assert sorted(map(id, [*matrices, *rest])) == sorted(map(id, model.parameters()))
    names = {id(weight): name for name, weight in model.named_parameters()}
    of = [{names[id(weight)] for weight in group} for group in (matrices, rest)]
    inside = {name for name, weight in model.named_parameters() if ".blocks." in name and weight.ndim == 2}
    assert of[0] == inside and len(inside) == 6 * (recipe.LAYERS + recipe.DECODER_LAYERS)
    assert {name.partition(".blocks.")[0] for name in inside} == {"vit.encoder", "decoder"}
    assert {"narrow.weight", "paint.weight", "hidden", "places", "vit.cls", "vit.places", "vit.head.weight"} <= of[1]
    groups = recipe.both_stacks(model).param_groups
    assert [group["matrices"] for group in groups] == [True, False] and {group["rounds"] for group in groups} == {3}


# --- naming


def a_namer(seed=0):
    """One whose head says something."""
    model = recipe.Namer(recipe.vit(seed))
    torch.nn.init.normal_(model.head.weight)
    return model.eval()


def test_a_namer_reads_the_mean_of_the_patches_and_no_cls(monkeypatch):
    """Namer: the formula, (B, K); what stands in the place of [CLS] behind the last block changes nothing."""
    model, images = a_namer(), torch.rand(3, 1, 32, 32)
    states = model.vit.encode(images)  # (3, 17, 64)
    said = model(images)
    assert said.shape == (3, len(recipe.base_letters()))
    assert_close(said, model.head(states[:, 1:].mean(dim=1)))
    other = torch.cat([states[:, :1] + 100, states[:, 1:]], dim=1)
    monkeypatch.setattr(model.vit, "encode", lambda images, seen: other)
    assert model(images).equal(said)


def test_a_namer_reads_only_what_is_seen():
    """Namer: hidden patches may change; those that are seen may not; their order is nothing."""
    model, images = a_namer(), torch.rand(2, 1, 32, 32)
    seen = torch.tensor([[0, 3, 5], [2, 9, 15]])
    hidden = torch.ones(2, recipe.N_PATCHES, dtype=torch.bool).scatter(1, seen, False)
    patches = patchify(images, recipe.PATCH)
    other, also = (torch.where(where[..., None], 1 - patches, patches) for where in (hidden, ~hidden))
    said = model(images, seen)
    assert_close(model(unpatchify(other, 32, 32), seen), said)
    assert not torch.allclose(model(unpatchify(also, 32, 32), seen), said, atol=1e-3)
    assert_close(model(images, seen.flip(1)), said, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(model(images), said, atol=1e-3)
    assert model(images[:1], seen[:1, :1]).shape == (1, model.head.out_features)  # one image, one patch


def test_a_new_namer_prefers_no_image_and_has_every_weight_once():
    torch.manual_seed(0)
    model = recipe.Namer(recipe.vit(0))
    one, other = model(torch.rand(2, 1, 32, 32))
    assert one.equal(other)
    matrices, rest = (group["params"] for group in muon(model).param_groups)
    assert sorted(map(id, [*matrices, *rest])) == sorted(map(id, model.parameters()))
    assert len(matrices) == 6 * recipe.LAYERS and model.blocks is model.vit.encoder.blocks


def test_half_of_the_patches_are_left_out_while_names_are_learned():
    """named: of each image and each time others."""
    model, given = recipe.Namer(recipe.vit(0)), []
    forward = model.forward
    model.forward = lambda images, seen=None: (given.append((images, seen)), forward(images, seen))[1]
    images, labels = numbered(70), torch.arange(70) % 5
    history = recipe.named(model, images, labels, 0, 4)
    assert len(history.loss) == 4 and all(map(math.isfinite, history.loss))
    assert [seen.shape for _, seen in given] == [(n, recipe.N_PATCHES // 2) for n in (64, 6, 64, 6)]
    assert len({tuple(row) for _, seen in given for row in seen.tolist()}) > 0.9 * 140
    assert model.head.weight.abs().max() > 0  # it was all 0


@pytest.mark.slow
def test_names_are_learned():
    """named: two letters, one black and one white."""
    torch.manual_seed(0)
    model, labels = recipe.Namer(recipe.vit(0)), torch.arange(64) % 2
    images = labels.float()[:, None, None, None].expand(64, 1, 32, 32)
    history = recipe.named(model, images, labels, 0, 30)
    assert history.loss[-1] < 0.2 < history.loss[0]
    assert model(images).argmax(dim=1).equal(labels)


def test_all_patches_are_read_where_names_are_judged(monkeypatch):
    """judged: a model that always says 0; an image whose letter is in no training face, -1, is never right."""
    parts = {
        "test": (torch.zeros(4, 1, 32, 32), torch.tensor([0, 0, -1, 3])),
        "validation": (torch.zeros(5, 1, 32, 32), torch.tensor([0, 1, 2, 3, 4])),
    }
    monkeypatch.setattr(recipe, "lettered", parts.__getitem__)
    model = recipe.Namer(recipe.vit(0))
    with torch.no_grad():
        model.head.bias[:] = torch.arange(len(model.head.bias)) == 0
    given, encode = [], model.vit.encode
    monkeypatch.setattr(model.vit, "encode", lambda images, seen: (given.append(seen), encode(images, seen))[1])
    assert recipe.judged(model) == {"test": 0.5, "validation": 0.2} and given == [None, None]


# --- what is asked


@pytest.mark.parametrize("split", ["test", "validation"])
def test_all_painters_are_asked_the_same(split):
    """asked, seen_of: letters of the split's faces; the same patches each time, whatever was drawn before."""
    images = recipe.asked(split)
    assert images.equal(lettered(split)[0][::4]) and images is recipe.asked(split)
    torch.manual_seed(0)
    seen = recipe.seen_of(images, 0.5)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    assert recipe.seen_of(images, 0.5).equal(seen) and torch.get_rng_state().equal(state)
    assert not recipe.seen_of(images, 0.5, seed=1).equal(seen)
    assert seen.shape == (len(images), 8) and (seen.diff(dim=1) > 0).all() and seen.max() < recipe.N_PATCHES
    assert recipe.seen_of(images, 0.75, 64).shape == (len(images), 16)
    assert len(seen.unique(dim=0)) > 0.8 * len(images)  # each image has its own


def test_the_error_is_that_of_the_hidden_patches_by_hand():
    """hidden_error: image 0 hides one patch, image 1 two; each patch counts alike, and what is seen does not."""
    images = torch.zeros(2, 1, 4, 4)  # patches of 2: four of four pixels
    painted = torch.zeros(2, 4, 4)
    painted[0, 0], painted[1, 2], painted[1, 3, 0] = 1.0, 2.0, 4.0  # errors 1, 4 and 16 / 4
    painted[0, 2] = 50.0  # is seen
    seen = torch.tensor([[1, 2, 3], [0, 1, 1]])
    assert recipe.hidden_error(painted, images, seen, patch=2) == pytest.approx((1 + 4 + 4) / 3)
    assert recipe.hidden_error(patchify(images, 2), images, seen, patch=2) == 0
    assert math.isnan(recipe.hidden_error(painted * math.nan, images, seen, patch=2))


def test_the_error_is_what_the_model_is_trained_by():
    model, images = recipe.painter(0), torch.rand(5, 1, 32, 32)
    seen = recipe.seen_of(images, 0.5)
    with torch.no_grad():
        assert recipe.hidden_error(model(images, seen), images, seen) == pytest.approx(model.loss(images, seen).item())


# --- what is stored


def test_a_recipe_makes_the_model_that_its_sizes_say():
    one = recipe.PAINTERS["glyphs_painter"]
    model = one.model()
    assert isinstance(model, MaskedAutoencoder) and stored.RECIPES["glyphs_painter"] is one
    config = model.vit.config
    assert one.sizes == (
        config.patch_size,
        config.d_model,
        config.n_layers,
        model.narrow.out_features,
        len(model.decoder.blocks),
    )
    assert config.n_classes == len(recipe.base_letters()) and config.grid == (4, 4)
    shapes = [{name: part.shape for name, part in made.state_dict().items()} for made in (model, one.model_of({}))]
    assert shapes[0] == shapes[1]
    assert one.steps > recipe.STEPS and one.seed not in range(5)  # of a seed that no record holds, and for longer


def test_a_run_makes_a_model_that_comes_back(few, tmp_path, monkeypatch):
    """PainterRecipe: what `stored` keeps of a short run; both errors are those of faces never seen."""
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
    some = {split: recipe.asked(split)[::20] for split in ("test", "validation")}
    monkeypatch.setattr(recipe, "asked", some.__getitem__)
    threads, rates, fit = torch.get_num_threads(), [], recipe.fit
    monkeypatch.setattr(recipe, "fit", lambda *a, **how: rates.append(how["schedule"](30, 2)) or fit(*a, **how))
    try:
        model, record = train("glyphs_painter", steps=2, progress=False)
    finally:
        torch.set_num_threads(threads)
    one = stored.RECIPES["glyphs_painter"]
    assert rates == [cosine(30, one.steps, 20)]  # two steps of all
    assert record.keys() >= one.MEASURED | stored.RECORD and [step for step, _ in record["curve"]] == [0, 2]
    with torch.no_grad():
        for split, said in (("test", record["test_error"]), ("validation", record["curve"][-1][1])):
            seen = recipe.seen_of(some[split], recipe.HIDDEN)
            assert said == pytest.approx(recipe.hidden_error(model(some[split], seen), some[split], seen))
    save("glyphs_painter", model, record)
    back, same = load("glyphs_painter")
    assert same == json.loads(json.dumps(record)) and not back.training
    assert all(weight.equal(model.state_dict()[key].half().float()) for key, weight in back.state_dict().items())
    card = cards().partition("`glyphs_painter`\n")[2]
    assert f"error {record['test_error']:.4f} of the hidden half" in card and "half of each of 64 images" in card


def test_the_stored_model_is_worth_what_its_record_says():
    (model, record), one = load("glyphs_painter"), recipe.PAINTERS["glyphs_painter"]
    assert not model.training and record["weights"] == sum(p.numel() for p in model.parameters())
    steps, errors = zip(*record["curve"], strict=True)
    assert steps[0] == 0 and steps[-1] == record["steps"] == one.steps and errors[-1] < 0.5 * errors[0]
    with torch.no_grad():
        for split, said in (("test", record["test_error"]), ("validation", errors[-1])):
            images = recipe.asked(split)
            seen = recipe.seen_of(images, recipe.HIDDEN)
            assert recipe.hidden_error(model(images, seen), images, seen) == pytest.approx(said, rel=0.02)
    assert STORED.stat().st_size < 1e6


# --- bad input


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda: recipe.asked("no split"), ValueError, "no split"),
        (lambda: a_namer()(torch.zeros(1, 1, 28, 28)), ValueError, "28"),
    ],
)
def test_bad_input_is_refused_in_words(few, wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()

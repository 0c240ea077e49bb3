"""experiments/masked_images.py: what each setting changes, the rivals worked by hand, and plain numbers from each."""

import json
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from course_lib.vision.patches import patchify, unpatchify
from course_lib.workshop.experiments.masked_images import core as experiments
from course_lib.workshop.experiments.vit.glyphs import few, nearest
from course_lib.workshop.recipes import masked_images as recipe
from course_lib.workshop.recipes.glyphs import lettered

N, P = recipe.N_PATCHES, recipe.PATCH


def drawn(n, seed=0):
    """Images of noise, of which no two share a patch."""
    return torch.rand(n, 1, recipe.SIDE, recipe.SIDE, generator=torch.Generator().manual_seed(seed))


def where_hidden(seen):
    return torch.ones(len(seen), N, dtype=torch.bool).scatter(1, seen, False)


def with_others(images, where):
    """The same images with other content in these patches."""
    patches = patchify(images, P)
    return unpatchify(torch.where(where[..., None], 1 - patches, patches), recipe.SIDE, recipe.SIDE)


@pytest.fixture
def tiny(monkeypatch):
    """Few images to paint and to be asked, few names, few steps."""
    parts = {split: tuple(part[::40] for part in lettered(split)) for split in ("test", "validation")}
    some = lambda split: parts.get(split) or lettered(split)  # noqa: E731
    images, asked = recipe.unlabelled()[::100], parts["test"][0]
    for module in (recipe, experiments):
        monkeypatch.setattr(module, "unlabelled", lambda: images)
        monkeypatch.setattr(module, "lettered", some)
        monkeypatch.setattr(module, "asked", lambda split="test": asked)
    monkeypatch.setattr(experiments, "NAMING", {20: 1, 30: 2})
    monkeypatch.setattr(experiments, "linear_model", partial(experiments.linear_model, steps=5))
    return images


@pytest.fixture
def quick(tiny, monkeypatch):
    """Paintings of one step."""
    monkeypatch.setattr(experiments, "painted", lambda *what, steps=1, **how: recipe.painted(*what, 1, **how))


# --- does painting help to name?


def test_disorder_keeps_the_patches_and_draws_each_image_anew():
    """in_disorder: the same patches of each image, none of them changed; other places each time."""
    numbers = torch.arange(float(N))[None, :, None].expand(50, N, P * P)  # each patch of one shade: its number
    images, generator = unpatchify(numbers, recipe.SIDE, recipe.SIDE), torch.Generator().manual_seed(0)
    first, second = (patchify(experiments.in_disorder(images, generator), P) for _ in range(2))
    for found in (first, second):
        assert (found == found[..., :1]).all() and found[..., 0].sort(dim=1).values.equal(numbers[..., 0])
        assert len(found[..., 0].unique(dim=0)) == 50
    assert not (first == second).flatten(1).all(dim=1).any()
    assert 0 < (first == numbers).double().mean() < 0.15  # one in sixteen stays by chance
    again = experiments.in_disorder(images, torch.Generator().manual_seed(0))
    assert patchify(again, P).equal(first)
    one = drawn(1)
    assert sorted(patchify(one, P)[0].tolist()) == sorted(
        patchify(experiments.in_disorder(one, generator), P)[0].tolist()
    )


def test_who_paints_is_the_vit_of_its_seed(tiny, monkeypatch):
    """has_painted: trained by the seed, with the change that was asked for, as long as the recipe says."""
    given = []
    monkeypatch.setattr(experiments, "painted", lambda model, seed, **how: given.append((model, seed, how)))
    reader = experiments.has_painted(3, experiments.in_disorder)
    plain = experiments.has_painted(3)
    assert [(seed, how) for _, seed, how in given] == [(3, {"change": experiments.in_disorder}), (3, {"change": None})]
    assert reader is given[0][0].vit
    start = recipe.vit(3).state_dict()
    assert all(weight.equal(start[name]) for name, weight in plain.state_dict().items())  # as who has not painted


def test_names_are_learned_from_the_weights_handed_over_and_leave_them_alone(tiny, monkeypatch):
    """with_names: begins with these weights and a head of the seed; what was handed over stays as it was."""
    given, start = [], recipe.vit(9)
    before = {name: weight.clone() for name, weight in start.state_dict().items()}
    monkeypatch.setattr(experiments, "named", lambda model, *what: given.append(
        ({name: weight.clone() for name, weight in model.state_dict().items()}, *what)))  # fmt: skip
    experiments.with_names(start, 1, 20)
    experiments.with_names(recipe.vit(1), 1, 20)
    (ours, images, labels, *rest), (other, *same) = given
    assert all(ours[f"vit.{name}"].equal(weight) for name, weight in before.items())
    assert ours["head.bias"].equal(other["head.bias"]) and not ours["head.weight"].any()
    assert images.equal(few(20, 1)[0]) and labels.equal(few(20, 1)[1])
    assert same[0].equal(images) and same[1].equal(labels) and rest == same[2:] == [1, experiments.NAMING[20]]
    monkeypatch.undo()
    model = experiments.with_names(start, 1, 20, steps=2)  # the head is 0 in the first step
    assert all(weight.equal(before[name]) for name, weight in start.state_dict().items())
    assert not model.vit.state_dict()["embed.project.weight"].equal(before["embed.project.weight"])


@pytest.mark.slow
def test_both_starts_have_as_many_steps_with_the_same_names(tiny, monkeypatch):
    """few_names, few_names_disorder: one change each."""
    told, painters = [], []
    monkeypatch.setattr(experiments, "painted", lambda model, seed, change=None: painters.append((seed, change)))
    monkeypatch.setattr(experiments, "named", lambda model, images, labels, seed, steps: told.append(
        (float(images.sum()), labels.tolist(), seed, steps)))  # fmt: skip
    for start in experiments.STARTS:
        experiments.few_names(2, start=start)
    experiments.few_names_disorder(2)
    assert painters == [(2, None), (2, experiments.in_disorder)]  # who starts from random weights has painted nothing
    assert told[:2] == told[2:4] == told[4:] and [steps for *_, steps in told[:2]] == [1, 2]
    assert [len(labels) for _, labels, *_ in told[:2]] == [20, 30]


def test_who_is_told_names_for_longer_paints_nothing(tiny, monkeypatch):
    """as_long: from random weights, LONGER times the steps of whoever has painted."""
    told = []
    monkeypatch.setattr(experiments, "painted", lambda *_, **how: pytest.fail("it painted"))
    monkeypatch.setattr(experiments, "named", lambda model, images, labels, seed, steps: told.append(steps))
    found = experiments.as_long(0, names=30)
    assert told == [2 * experiments.LONGER] and set(found) == {"test", "validation"}
    assert {one["names"] for one in experiments.as_long.variants} <= set(recipe.NAMING)


def test_a_frozen_reader_learns_nothing(tiny):
    """frozen: only one matrix on its states learns; the reader is as it was."""
    reader = recipe.vit(0)
    before = {name: weight.clone() for name, weight in reader.state_dict().items()}
    right = experiments.frozen(reader, 0, 20)
    assert 0 <= right <= 1 and right == experiments.frozen(reader, 0, 20)
    assert all(weight.equal(before[name]) for name, weight in reader.state_dict().items())
    assert all(weight.grad is None for weight in reader.parameters())


def test_a_frozen_reader_is_asked_by_its_states(tiny, monkeypatch):
    """frozen: the matrix reads states in the deviations of the images that have names, of the test images too."""
    images, labels = few(20, 0)
    reader, truth, given = recipe.vit(0).eval(), experiments.lettered("test"), []

    def linear(known, names, seed):
        given.append((known, names, seed))
        return lambda asked: (given.append(asked), torch.nn.functional.one_hot(truth[1].clamp(min=0), 129))[1]

    monkeypatch.setattr(experiments, "linear_model", linear)
    assert experiments.frozen(reader, 0, 20) == (truth[1] >= 0).double().mean()  # an unknown letter is never right
    (known, names, seed), asked = given
    states = experiments.states(reader, images)
    assert_close(known, (states - states.mean(dim=0)) / (states.std(dim=0) + 1e-4))
    assert_close(asked, (experiments.states(reader, truth[0]) - states.mean(dim=0)) / (states.std(dim=0) + 1e-4))
    assert names.equal(labels) and seed == 0


def test_states_are_what_the_head_reads():
    """states: the mean over the patches, however many images are read at once."""
    reader, images = recipe.vit(0).eval(), drawn(3)
    found = experiments.states(reader, images)
    assert found.shape == (3, recipe.WIDTH) and not found.requires_grad
    assert_close(found, reader.encode(images)[:, 1:].mean(dim=1))
    namer = recipe.Namer(reader)
    torch.nn.init.normal_(namer.head.weight)
    assert_close(namer.head(found), namer(images))
    assert_close(experiments.states(reader, images.repeat(171, 1, 1, 1))[-3:], found)  # 513


def test_read_outs_read_what_they_say(tiny, monkeypatch):
    """read_outs: the mean of the stored painter's states, all of them, the pixels, and as few numbers of these."""
    painter, given = recipe.painter(0), []
    monkeypatch.setattr(experiments, "load", lambda name: (given.append(name), (painter.eval(), {}))[1])
    monkeypatch.setattr(experiments, "few", lambda n, seed: (given.append((n, seed)), few(30, seed))[1])
    monkeypatch.setattr(experiments, "unlabelled", lambda: drawn(700))
    line = experiments.linear_model
    monkeypatch.setattr(experiments, "linear_model", lambda rows, labels, seed: (
        given.append(rows), line(rows, labels, seed))[1])  # fmt: skip
    found = experiments.read_outs(1)
    assert json.loads(json.dumps(found)) == found and all(0 <= right <= 1 for right in found.values())
    name, told, mean, every, pixels, some = given
    assert name == "glyphs_painter" and told == (1000, 1) and len(found) == 4
    images = few(30, 1)[0]
    states = experiments.states(painter.vit, images)
    assert_close(mean, (states - states.mean(dim=0)) / (states.std(dim=0) + 1e-4))
    assert every.shape == (30, N * recipe.WIDTH) and pixels.equal(images.flatten(1)) and some.shape == mean.shape


def test_the_nearest_image_of_a_training_image_is_itself():
    """rules: its own name, but for the few that are one image under two names."""
    known, letters = few(300, 0)
    assert len(known.flatten(1).unique(dim=0)) > 297
    assert (nearest(known, letters, known) == letters).double().mean() > 0.99
    assert nearest(known[:1], letters[:1], known).eq(letters[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("start", experiments.STARTS)
def test_few_names_gives_plain_numbers(quick, start):
    whole(experiments.few_names(0, start=start))


@pytest.mark.slow
def test_names_after_disorder_give_plain_numbers(quick):
    whole(experiments.few_names_disorder(0))


def whole(found):
    assert json.loads(json.dumps(found)) == found and set(found) == {"test", "validation", "frozen"}
    for part in found.values():
        assert set(part) == {"20", "30"} and all(0 <= right <= 1 for right in part.values())


def test_rules_give_plain_numbers(tiny):
    found = experiments.rules(0, names=30)
    assert json.loads(json.dumps(found)) == found and set(found) == {"nearest", "linear"}
    assert all(0 <= right <= 1 for right in found.values())
    assert [one["names"] for one in experiments.rules.variants] == list(recipe.NAMING)


# --- what is painted


@pytest.mark.parametrize("hidden", [0.25, 0.5, 0.75, 0.875])
def test_the_nearest_painting_of_a_known_image_is_itself(monkeypatch, hidden):
    """nearest_painting: only by what is seen; the hidden patches of the image that is asked may hold anything."""
    known = drawn(40)
    monkeypatch.setattr(experiments, "unlabelled", lambda: known)
    seen = recipe.seen_of(known, hidden)
    assert experiments.nearest_painting(known, seen).equal(patchify(known, P))
    other = with_others(known, where_hidden(seen))
    assert experiments.nearest_painting(other, seen).equal(patchify(known, P))
    assert experiments.nearest_painting(known[3:4], seen[3:4]).shape == (1, N, P * P)


def test_the_nearest_painting_by_hand(monkeypatch):
    """nearest_painting: of black, grey and white, the one that is nearest where it is seen, or the mean of two."""
    known = torch.tensor([0.0, 0.5, 1.0])[:, None, None, None].expand(3, 1, 32, 32)
    monkeypatch.setattr(experiments, "unlabelled", lambda: known)
    images = torch.ones(2, 1, 32, 32)
    images[:, :, :P, :P] = torch.tensor([0.1, 0.6])[:, None, None, None]  # the first patch, which alone is seen
    found = experiments.nearest_painting(images, torch.zeros(2, 1, dtype=torch.long))
    assert found[0].unique().tolist() == [0.0] and found[1].unique().tolist() == [0.5]
    two = experiments.nearest_painting(images, torch.zeros(2, 1, dtype=torch.long), several=2)
    assert two.shape == found.shape and two[0].unique().tolist() == [0.25] and two[1].unique().tolist() == [0.75]


def test_a_linear_model_reads_what_is_seen_alone(monkeypatch):
    """seen_alone: seen patches less their mean, zeros for the hidden ones, which are which, and 1."""
    known, images = drawn(40), drawn(5, seed=1)
    monkeypatch.setattr(experiments, "unlabelled", lambda: known)
    seen = recipe.seen_of(images, 0.5)
    read, hidden = experiments.seen_alone(images, seen), where_hidden(seen)
    assert read.shape == (5, N * P * P + N + 1) and read[:, -1].eq(1).all()
    patches, which = read[:, : N * P * P].view(5, N, P * P), read[:, N * P * P : -1]
    assert which.equal((~hidden).float()) and not patches[hidden].any()
    assert_close(patches[~hidden], (patchify(images, P) - patchify(known, P).mean(dim=0))[~hidden])
    assert experiments.seen_alone(with_others(images, hidden), seen).equal(read)
    assert not experiments.seen_alone(with_others(images, ~hidden), seen).equal(read)


@pytest.mark.slow
def test_a_linear_model_paints_better_than_the_mean(monkeypatch):
    """linear_painting: letters that it has not read, each patch by those that are seen; ridge regression by hand."""
    images = recipe.unlabelled()[::8]
    known, asked = images[::2], images[1::40]
    monkeypatch.setattr(experiments, "unlabelled", lambda: known)
    seen = recipe.seen_of(asked, 0.5)
    painted = experiments.linear_painting(asked, seen, 0.5)
    assert painted.shape == (len(asked), N, P * P)
    mean = patchify(known, P).mean(dim=0).expand(len(asked), -1, -1)
    assert recipe.hidden_error(painted, asked, seen) < 0.9 * recipe.hidden_error(mean, asked, seen)
    other = with_others(asked, where_hidden(seen))
    assert experiments.linear_painting(other, seen, 0.5).equal(painted)


def test_a_linear_model_is_that_of_the_least_error(monkeypatch):
    """linear_painting: as ridge regression over both draws by scikit-learn."""
    from sklearn.linear_model import Ridge

    known, asked = drawn(60), drawn(4, seed=1)
    monkeypatch.setattr(experiments, "unlabelled", lambda: known)
    seen = recipe.seen_of(asked, 0.75)
    reads = [experiments.seen_alone(known, recipe.seen_of(known, 0.75, seed=draw)) for draw in (1, 2)]
    ridge = Ridge(alpha=100.0, fit_intercept=False).fit(
        torch.cat(reads).double().numpy(), patchify(known, P).flatten(1).repeat(2, 1).double().numpy()
    )
    wanted = torch.tensor(ridge.predict(experiments.seen_alone(asked, seen).double().numpy())).float()
    assert_close(experiments.linear_painting(asked, seen, 0.75).flatten(1), wanted, atol=1e-3, rtol=1e-3)


def test_the_error_of_a_painter_and_of_one_that_sees_another_image(tiny, monkeypatch):
    """error_of: who paints exactly what it is shown; `stranger` shows it the image before."""

    class Copier(torch.nn.Module):
        def forward(self, images, seen):
            return patchify(images, P)

    images, seen = experiments.asked(), recipe.seen_of(experiments.asked(), 0.5)
    assert experiments.error_of(Copier(), 0.5) == 0
    wanted = (patchify(images.roll(1, 0), P) - patchify(images, P)).square().mean(dim=-1)[where_hidden(seen)].mean()
    assert experiments.error_of(Copier(), 0.5, stranger=True) == pytest.approx(wanted.item())


def test_painting_rules_give_plain_numbers(tiny):
    """painting_rules: a linear model and the nearest image are asked what the mean is asked."""
    found = experiments.painting_rules(0, hidden=0.5)
    assert json.loads(json.dumps(found)) == found and set(found) == {"nearest", "mean of 16 nearest", "linear", "mean"}
    images = experiments.asked()
    mean = patchify(tiny, P).mean(dim=0).expand(len(images), -1, -1)
    assert found["mean"] == pytest.approx(recipe.hidden_error(mean, images, recipe.seen_of(images, 0.5)), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [0.25, 0.75])
def test_how_much_gives_plain_numbers(tiny, monkeypatch, hidden):
    """how_much: what is hidden while it paints is hidden where it is asked; the last look is the error."""
    given = []
    monkeypatch.setattr(experiments, "SHORT", 10)
    monkeypatch.setattr(experiments, "SOME", 30)
    monkeypatch.setattr(experiments, "painted", lambda model, seed, **how: (
        given.append(how["hidden"]), recipe.painted(model, seed, **how | {"steps": 2}))[1])  # fmt: skip
    found = experiments.how_much(0, hidden=hidden)
    assert json.loads(json.dumps(found)) == found and given == [hidden]
    assert set(found) == {"error", "of another image", "right", "curve"} and 0 <= found["right"] <= 1
    (*_, first), _, last = found["curve"]  # [step, error] each
    assert [step for step, _ in found["curve"]] == [0, 1, 2] and last == [2, found["error"]] and first > last[1]
    assert {"hidden": hidden} in experiments.how_much.variants == experiments.painting_rules.variants


# --- what it costs


def test_with_tokens_every_patch_has_a_place_and_what_is_hidden_is_not_read(monkeypatch):
    """with_tokens: the ViT reads N + 1 places, not n + 1; only the target knows what is hidden."""
    model, images = recipe.painter(0).eval(), drawn(3)
    seen, lengths = recipe.seen_of(images, 0.5), []
    hook = model.vit.encoder.register_forward_hook(lambda part, args, out: lengths.append(args[0].shape[1]))
    loss = experiments.with_tokens(model, images, seen)
    model.loss(images, seen)
    hook.remove()
    assert lengths == [N + 1, N // 2 + 1] and loss.shape == ()
    hidden, target = where_hidden(seen), patchify(images, P)
    assert experiments.with_tokens(model, with_others(images, hidden), seen) != loss  # by the target alone:
    monkeypatch.setattr(experiments, "patchify", lambda *_: target)
    assert_close(experiments.with_tokens(model, with_others(images, hidden), seen), loss)
    assert experiments.with_tokens(model, with_others(images, ~hidden), seen) != loss


def test_with_tokens_the_loss_is_that_of_the_hidden_patches():
    """with_tokens: who paints all 0 has the mean square of the hidden patches, as in the loss that leaves them out."""
    model, images = recipe.painter(0), drawn(3)
    seen = recipe.seen_of(images, 0.75)
    torch.nn.init.zeros_(model.paint.weight)
    torch.nn.init.zeros_(model.paint.bias)
    loss = experiments.with_tokens(model, images, seen)
    assert_close(loss, patchify(images, P).square()[where_hidden(seen)].mean())
    assert_close(loss, model.loss(images, seen))


@pytest.mark.slow
@pytest.mark.parametrize("patch, hidden", [(8, 0.5), (4, 0.75)])
def test_pace_gives_plain_numbers(monkeypatch, patch, hidden):
    """pace: each way has taken time."""
    monkeypatch.setattr(experiments, "BATCH", 2)
    found = experiments.pace(0, patch=patch, hidden=hidden)
    assert json.loads(json.dumps(found)) == found and set(found) == {"left out", "as a token", "with names"}
    assert all(0 < seconds < 5 for seconds in found.values())
    assert {"patch": patch, "hidden": hidden} in experiments.pace.variants

"""Lesson 12's experiments: what each setting changes, rivals by hand, what passes from a window to another."""

from functools import partial

import pytest
import torch
from smoke import experiments_of, parts, same, smoke
from torch.testing import assert_close

from course_lib.vision.masked_patches import draw_seen
from course_lib.vision.patches import patchify, unpatchify
from course_lib.workshop.experiments.masked_images import core as experiments
from course_lib.workshop.experiments.masked_images import windows
from course_lib.workshop.experiments.vit.glyphs import few
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
    """Paintings of two steps."""
    monkeypatch.setattr(experiments, "painted", lambda *what, **how: recipe.painted(*what, **how | {"steps": 2}))
    for name, number in (("SHORT", 10), ("SOME", 30), ("BATCH", 2)):
        monkeypatch.setattr(experiments, name, number)
    for name in ("unlabelled", "asked"):
        monkeypatch.setattr(windows, name, lambda: drawn(100))
    monkeypatch.setattr(windows, "painter", partial(windows.painter, steps=1))


@pytest.mark.slow
@experiments_of("masked_images", "masked_images_windows", leave_out=("read_outs", "as_long"))  # see below
def test_an_experiment_gives_its_numbers(quick, one):
    smoke(one)


# --- does painting help to name?


def test_disorder_keeps_the_patches_and_draws_each_image_anew():
    """in_disorder: the same patches of each image, none of them changed; other places each time."""
    numbers = torch.arange(float(N))[None, :, None].expand(50, N, P * P)  # each patch of one shade: its number
    images, generator = unpatchify(numbers, recipe.SIDE, recipe.SIDE), torch.Generator().manual_seed(0)
    first, second = (patchify(experiments.in_disorder(images, generator), P) for _ in range(2))
    assert (first == first[..., :1]).all() and first[..., 0].sort(dim=1).values.equal(numbers[..., 0])
    assert len(first[..., 0].unique(dim=0)) == 50 and not (first == second).flatten(1).all(dim=1).any()
    assert 0 < (first == numbers).double().mean() < 0.15  # one in sixteen stays by chance


def test_names_are_learned_from_the_weights_handed_over_and_leave_them_alone(tiny, monkeypatch):
    """with_names: begins with these weights and a head of the seed; what was handed over stays as it was."""
    given, start = [], recipe.vit(9)
    before = parts(start)
    monkeypatch.setattr(experiments, "named", lambda model, *what: given.append((parts(model), *what)))
    experiments.with_names(start, 1, 20)
    experiments.with_names(recipe.vit(1), 1, 20)
    (ours, images, labels, *rest), (other, *_) = given
    assert all(ours[f"vit.{name}"].equal(weight) for name, weight in before.items())
    assert ours["head.bias"].equal(other["head.bias"]) and not ours["head.weight"].any()
    assert images.equal(few(20, 1)[0]) and labels.equal(few(20, 1)[1]) and rest == [1, experiments.NAMING[20]]
    monkeypatch.undo()
    model = experiments.with_names(start, 1, 20, steps=2)  # the head is 0 in the first step
    assert same(parts(start), before) and not same(parts(model.vit), before)


@pytest.mark.slow
def test_both_starts_have_as_many_steps_with_the_same_names(tiny, monkeypatch):
    """few_names, few_names_disorder: one change each; who starts from random weights has painted nothing.

    as_long: neither, and LONGER times the steps.
    """
    told, painters = [], []
    monkeypatch.setattr(experiments, "painted", lambda model, seed, change=None: painters.append((seed, change)))
    monkeypatch.setattr(experiments, "named", lambda model, images, labels, seed, steps: told.append(
        (float(images.sum()), labels.tolist(), seed, steps)))  # fmt: skip
    for start in experiments.STARTS:
        experiments.few_names(2, start=start)
    experiments.few_names_disorder(2)
    assert painters == [(2, None), (2, experiments.in_disorder)]
    assert told[:2] == told[2:4] == told[4:] and [steps for *_, steps in told[:2]] == [1, 2]
    assert [len(labels) for _, labels, *_ in told[:2]] == [20, 30]
    experiments.as_long(2, names=30)
    assert len(painters) == 2 and told[-1] == (*told[1][:3], 2 * experiments.LONGER)


def test_a_frozen_reader_is_asked_by_its_states(tiny, monkeypatch):
    """frozen: the matrix reads states in the deviations of the images that have names, of the test images too."""
    images, labels = few(20, 0)
    reader, truth, given = recipe.vit(0).eval(), experiments.lettered("test"), []
    before = parts(reader)

    def linear(known, names, seed):
        given.append((known, names))
        return lambda asked: (given.append(asked), torch.nn.functional.one_hot(truth[1].clamp(min=0), 129))[1]

    monkeypatch.setattr(experiments, "linear_model", linear)
    assert experiments.frozen(reader, 0, 20) == (truth[1] >= 0).double().mean()  # an unknown letter is never right
    (known, names), asked = given
    states = experiments.states(reader, images)
    middle, spread = states.mean(dim=0), states.std(dim=0) + 1e-4
    assert_close(known, (states - middle) / spread)
    assert_close(asked, (experiments.states(reader, truth[0]) - middle) / spread)
    assert names.equal(labels) and same(parts(reader), before)


def test_states_are_what_the_head_reads():
    """states: the mean over the patches, however many images are read at once."""
    reader, images = recipe.vit(0).eval(), drawn(3)
    found = experiments.states(reader, images.repeat(171, 1, 1, 1))[-3:]  # 513
    namer = recipe.Namer(reader)
    torch.nn.init.normal_(namer.head.weight)
    assert_close(namer.head(found), namer(images))


def test_read_outs_read_what_they_say(tiny, monkeypatch):
    """read_outs: the mean of the stored painter's states, all of them, the pixels, and as few numbers of these."""
    painter, given, line = recipe.painter(0), [], experiments.linear_model
    monkeypatch.setattr(experiments, "load", lambda name: (painter.eval(), {}))
    monkeypatch.setattr(experiments, "few", lambda n, seed: few(30, seed))
    monkeypatch.setattr(experiments, "unlabelled", lambda: drawn(700))
    monkeypatch.setattr(experiments, "linear_model", lambda rows, labels, seed: (
        given.append(rows), line(rows, labels, seed))[1])  # fmt: skip
    experiments.read_outs(1)
    images, (mean, every, pixels, some) = few(30, 1)[0], given
    states = experiments.states(painter.vit, images)
    assert_close(mean, (states - states.mean(dim=0)) / (states.std(dim=0) + 1e-4))
    assert every.shape == (30, N * recipe.WIDTH) and pixels.equal(images.flatten(1)) and some.shape == mean.shape


# --- what is painted


@pytest.mark.parametrize("hidden", [0.25, 0.75])
def test_the_nearest_painting_of_a_known_image_is_itself(monkeypatch, hidden):
    """nearest_painting: only by what is seen; the hidden patches of the image that is asked may hold anything."""
    known = drawn(40)
    monkeypatch.setattr(experiments, "unlabelled", lambda: known)
    seen = recipe.seen_of(known, hidden)
    assert experiments.nearest_painting(known, seen).equal(patchify(known, P))
    other = with_others(known, where_hidden(seen))
    assert experiments.nearest_painting(other, seen).equal(patchify(known, P))


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


def test_the_mean_is_asked_what_the_others_are_asked(tiny):
    """painting_rules."""
    found = experiments.painting_rules(0, hidden=0.5)
    images = experiments.asked()
    mean = patchify(tiny, P).mean(dim=0).expand(len(images), -1, -1)
    assert found["mean"] == pytest.approx(recipe.hidden_error(mean, images, recipe.seen_of(images, 0.5)), rel=1e-4)


# --- windows

PLACES = windows.GRID[0] * windows.GRID[1]


def a_painter(look, seed=0):
    """One with weights drawn at random; its biases of the grid too, which are 0 at first."""
    torch.manual_seed(seed)
    model = windows.WindowPainter(*windows.LOOKS[look]).double().eval()
    for block in model.blocks:
        torch.nn.init.normal_(block.attention.position_bias.table)
    return model


def some_images(n=3):
    torch.manual_seed(1)
    return torch.rand(n, 1, windows.SIDE, windows.SIDE, dtype=torch.float64), draw_seen(n, PLACES, windows.HIDDEN)


def window_of(down, across):
    """Which places stand in a window, (PLACES,)."""
    rows, columns = torch.arange(PLACES) // windows.GRID[1], torch.arange(PLACES) % windows.GRID[1]
    return (rows // windows.WINDOW == down) & (columns // windows.WINDOW == across)


def moved(model, images, seen, where):
    """By how much each place's painting moves, (PLACES,), where the pixels of these places change."""
    change = where.double().view(*windows.GRID).repeat_interleave(windows.PATCH, 0)
    change = change.repeat_interleave(windows.PATCH, 1)
    with torch.no_grad():
        return (model(images + change, seen) - model(images, seen)).abs().amax(dim=(0, 2))


@pytest.mark.parametrize("down, across", [(0, 0), (1, 0)])
def test_without_the_shift_no_window_learns_of_another(down, across):
    """WindowPainter: what is seen in a window changes all that is painted there, and nothing elsewhere."""
    here = window_of(down, across)
    change = moved(a_painter("windows"), *some_images(), here)
    assert change[~here].max() < 1e-12 < 1e-6 < change[here].min()


def test_where_every_block_is_shifted_the_borders_stand_elsewhere():
    """WindowPainter: rows and columns 0 and 1, 2 to 5, 6 and 7: nothing passes from one part to another."""
    part = torch.tensor([0, 0, 1, 1, 1, 1, 2, 2])
    number = (3 * part[:, None] + part).flatten()  # nine parts
    for here in (number == 0, number == 4, number == 5):
        change = moved(a_painter("windows elsewhere"), *some_images(8), here)
        assert change[~here].max() < 1e-12 < 1e-6 < change[here].min()


@pytest.mark.parametrize("look", ["shifted windows", "all patches"])
def test_with_the_shift_and_with_one_window_each_learns_of_the_others(look):
    """WindowPainter: four blocks carry it to every place."""
    assert moved(a_painter(look), *some_images(), window_of(0, 0)).min() > 1e-9


@pytest.mark.parametrize("look", windows.LOOKS)
def test_what_is_hidden_is_never_read(look):
    """WindowPainter: the hidden patches may hold anything, and what is seen may not."""
    model, (images, seen) = a_painter(look), some_images(1)
    hidden = torch.ones(PLACES, dtype=torch.bool).index_fill(0, seen[0], False)
    assert moved(model, images, seen, hidden).max() == 0
    assert moved(model, images, seen, ~hidden).max() > 1e-3


def test_all_looks_are_the_same_model_but_for_where_they_look():
    """LOOKS: a shift adds no weight, and one large window has only a larger table of offsets."""
    models = {look: a_painter(look) for look in windows.LOOKS}
    sizes = {sum(w.numel() for n, w in one.named_parameters() if ".table" not in n) for one in models.values()}
    assert len(sizes) == 1 and same(parts(models["windows"]), parts(models["shifted windows"]))
    shifts = {look: [block.attention.shift for block in one.blocks] for look, one in models.items()}
    assert shifts == {"windows": [0] * 4, "shifted windows": [0, 2, 0, 2], "all patches": [0] * 4,
                      "windows elsewhere": [2] * 4}  # fmt: skip
    assert {block.attention.side for block in models["all patches"].blocks} == {windows.GRID[0]}


def test_places_beside_another_window():
    """at_a_seam: without the shift it is there that a neighbour is in another window."""
    number = (torch.arange(8) // windows.WINDOW * 2)[:, None] + torch.arange(8) // windows.WINDOW  # of its window
    apart = torch.zeros(8, 8, dtype=torch.bool)
    for dim in (0, 1):
        other = number.narrow(dim, 1, 7) != number.narrow(dim, 0, 7)
        apart.narrow(dim, 0, 7).logical_or_(other)
        apart.narrow(dim, 1, 7).logical_or_(other)
    assert windows.at_a_seam().view(8, 8).equal(apart)


def test_errors_by_hand():
    """errors: the mean over a patch's pixels; 1 for what is hidden."""
    images, painted = torch.zeros(1, 1, 32, 32), torch.zeros(1, PLACES, 16)
    painted[0, 5], painted[0, 7, 0] = 2.0, 4.0
    error, hidden = windows.errors(painted, images, torch.tensor([[0, 7]]))
    assert error.shape == hidden.shape == (1, PLACES) and error[0, 5] == 4 and error[0, 7] == 1 and error.sum() == 5
    assert (hidden == 0).nonzero().tolist() == [[0, 0], [0, 7]]


@pytest.mark.slow
def test_a_painter_is_trained_by_the_seed(quick, monkeypatch):
    """painter: a quarter is seen, other patches each time; the looks begin alike and see the same."""
    given, forward = [], windows.WindowPainter.forward
    monkeypatch.setattr(windows.WindowPainter, "forward", lambda self, images, seen: (
        given.append((images, seen)), forward(self, images, seen))[1])  # fmt: skip
    windows.painter("windows", 0)
    windows.painter("shifted windows", 0)
    (images, seen), (same_images, same_seen) = given[0], given[len(given) // 2]
    assert seen.shape == (len(images), PLACES // 4) and len(seen.unique(dim=0)) > 0.9 * len(seen)
    assert images.equal(same_images) and seen.equal(same_seen)


def test_shifts_by_hand(monkeypatch):
    """shifts: who paints all 0, images of 2 beside another window and of 1 elsewhere; the mean image is grey."""

    class Nothing(torch.nn.Module):
        places = torch.zeros(PLACES, 1)

        def forward(self, images, seen):
            return torch.zeros(len(images), PLACES, windows.PATCH**2)

    shade = (1 + windows.at_a_seam().float()).view(8, 8).repeat_interleave(4, 0).repeat_interleave(4, 1)
    monkeypatch.setattr(windows, "asked", lambda: shade.expand(100, 1, 32, 32))
    monkeypatch.setattr(windows, "unlabelled", lambda: torch.full((10, 1, 32, 32), 0.5))
    monkeypatch.setattr(windows, "painter", lambda look, seed: Nothing())
    found, (beside, elsewhere) = windows.shifts(0, look="windows"), (2**2 / 1.5**2, 1 / 0.5**2)
    assert found["seam"] == pytest.approx(beside, rel=1e-4) and found["inside"] == pytest.approx(elsewhere, rel=1e-4)
    wanted = [beside if seam else elsewhere for seam in windows.at_a_seam().tolist()]
    assert found["by place"] == pytest.approx(wanted, rel=1e-4)

"""Lesson 18's experiments: what each setting changes, what is judged, the rivals and controls worked by hand."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from smoke import experiments_of, parts, smoke
from torch.testing import assert_close

from course_lib.data.letter_names import Named, name_of, named
from course_lib.multimodal.words_then_codes import nats, row_of
from course_lib.vision.patches import patchify
from course_lib.workshop.experiments.words_to_images import controls
from course_lib.workshop.experiments.words_to_images import core as experiments
from course_lib.workshop.recipes import words_to_images as recipe
from course_lib.workshop.recipes.stored import load

PLACES, CODES = recipe.PLACES, recipe.N_CODES


def some(known, at):
    """The letters at these places, a slice or a list."""
    at = list(range(len(known.rows)))[at] if isinstance(at, slice) else at
    return Named(known.images[at], known.name[at], [known.rows[n] for n in at])


def drawn_by_chance(model, texts, temperature=1.0, seed=0):
    """Codes that nobody has learned, in place of those that a GPT draws."""
    recipe.word_ids(texts)
    return torch.randint(CODES, (len(texts), PLACES), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def codes_model():
    return load(recipe.CODES)[0]


@pytest.fixture
def tiny(monkeypatch, codes_model):
    """Few letters, by which a drawing is judged too, small batches, one block; the words stay all words."""
    recipe.n_tokens(), len(recipe.tokenizer())  # learned from all names before there are few
    sides = {split: some(named(split), slice(None, None, step))
             for split, step in {"train": 80, "validation": 40, "test": 80, None: 20}.items()}  # fmt: skip
    sides[None] = Named(*(sum(of, of[0][:0]) if isinstance(of[0], list) else torch.cat(of)
                          for of in zip(*sides.values(), strict=True)))  # fmt: skip
    seen, codes = recipe.unnamed()[::100], recipe.codes_of(codes_model, sides["train"].images)
    for module in (recipe, experiments, controls):
        monkeypatch.setattr(module, "named", lambda split: sides.get(split) or named(split))
        monkeypatch.setattr(module, "unnamed", lambda: seen)
        monkeypatch.setattr(module, "BATCH", 4, raising=False)
        monkeypatch.setattr(module, "LAYERS", 1, raising=False)
    monkeypatch.setattr(experiments, "stored_codes", lambda: codes)
    monkeypatch.setattr(experiments, "letters_kept", lambda: sides["test"])
    return sides


@pytest.fixture
def quick(tiny, monkeypatch):
    """A GPT of few steps, looked at twice, that draws by chance."""
    for module in (experiments, controls):
        monkeypatch.setattr(module, "written", lambda *what, **how: recipe.written(*what, **{"steps": 10} | how))
        monkeypatch.setattr(module, "drawn", drawn_by_chance)
        monkeypatch.setattr(module, "load", lambda one: ("a drawer", {}) if one is recipe.DRAWER else load(one))
        monkeypatch.setattr(module, "SHORT", 10)
    monkeypatch.setattr(controls, "patch_list", partial(controls.patch_list.__wrapped__, rounds=2))
    monkeypatch.setattr(experiments, "DRAW_STEPS", 50)
    monkeypatch.setattr(experiments, "MEANT_STEPS", 2)
    monkeypatch.setattr(experiments, "best_of_eight", partial(experiments.best_of_eight, several=2, n=5))
    return tiny


@pytest.mark.slow
@experiments_of("words_to_images", "words_to_images_controls", leave_out=("picks",))
def test_an_experiment_gives_its_numbers(quick, one):
    smoke(one)


# --- an image as codes


def test_without_a_way_back_the_picture_tells_the_encoder_nothing(tiny):
    """no_way_back: the same loss; its encoder has the quantiser's gradient alone, its decoder that of both ways."""
    model, images = recipe.vq_vae(0).double(), tiny["train"].images[:4].double()
    losses = (experiments.no_way_back(model, images), model.loss(images), model.quantiser(model.vectors(images))[2])
    assert_close(losses[0], losses[1])
    names, weights = zip(*model.named_parameters(), strict=True)
    found = (torch.autograd.grad(loss, weights, allow_unused=True) for loss in losses)
    for name, ours, through, alone in zip(names, *found, strict=True):
        if name.startswith("encoder"):
            assert_close(ours, alone, atol=1e-12, rtol=1e-8)
            assert not torch.allclose(through, alone, rtol=1e-3, atol=0)
        elif name.startswith("decoder"):
            assert_close(ours, through, atol=1e-12, rtol=1e-6)


@pytest.mark.parametrize("way", experiments.WAYS)
def test_each_way_changes_one_thing(tiny, monkeypatch, way):
    """quantised: the loss; or codes that begin anywhere and stay; the weights and the rest are those of the seed."""
    given, history = [], SimpleNamespace(loss=[])
    monkeypatch.setattr(experiments, "coded", lambda model, *what, **how: (
        given.append((parts(model), what, how)), history)[1])  # fmt: skip
    experiments.quantised(1, way=way)
    [(start, what, how)] = given
    usual = parts(recipe.vq_vae(1))
    differ = {name for name in usual if not start[name].equal(usual[name])}
    assert what == (1, experiments.SHORT) and differ == ({"quantiser.codes"} if way == "dead codes stay" else set())
    assert how == {"straight through": {}, "no way back": {"loss": experiments.no_way_back},
                   "dead codes stay": {"awake": 0.0}}[way]  # fmt: skip


def test_a_list_of_patches_makes_images_of_64(tiny, monkeypatch):
    """listed: each patch is replaced by the nearest of at most 64; the error is that of the images."""
    given, judged = [], experiments.judged
    monkeypatch.setattr(experiments, "judged", lambda images, asked: (given.append(images), judged(images, asked))[1])
    found = experiments.listed(0, rounds=2)
    [images], known = given, tiny["test"].images
    used, wanted = patchify(images, 4).flatten(0, 1), patchify(known, 4).flatten(0, 1)
    nearest = torch.cdist(wanted, used.unique(dim=0)).square().amin(dim=1)
    assert len(used.unique(dim=0)) <= CODES
    assert_close((used - wanted).square().sum(dim=1), nearest, atol=1e-3, rtol=1e-3)
    assert found["error"] == pytest.approx((images - known).square().mean().item(), rel=1e-4)


def test_what_is_kept_is_worked_by_hand(tiny, codes_model):
    """kept: of letters of new names error and shares right; codes in use, of every fourth image that was learned."""
    found, known = experiments.kept(codes_model), tiny["test"]
    images = codes_model.paint(codes_model.encode(known.images))
    assert found["error"].item() == pytest.approx((images - known.images).square().mean().item())
    assert found["right"] == recipe.judged(images, known).right > 0.8
    assert found["used"] == len({*codes_model.encode(recipe.unnamed()[::4]).flatten().tolist()})


# --- names drawn


@pytest.mark.parametrize(("part", "seed"), [(0.5, 0), (0.1, 1), (1.0, 0)])
def test_all_bare_letters_stay_and_a_part_of_the_marked_names(part, seed):
    """fewer: a name stays with all its typefaces or not at all; drawn by the seed."""
    known = named("train")
    at = experiments.fewer(known, part, seed).tolist()
    stay, marked = {name_of(known.rows[n]) for n in at}, {name_of(row) for row in known.rows if row.marks}
    assert at == [n for n, row in enumerate(known.rows) if not row.marks or name_of(row) in stay]
    assert len(stay & marked) == round(part * len(marked))


def test_some_letters_are_drawn_once_and_for_all():
    """some_of: as many as are asked, each once; images, names and rows of the same letters, of this side alone."""
    one, every = experiments.some_of("test"), named("test")
    assert len(one.rows) == len({*one.texts}) == 300 and experiments.some_of("test").texts == one.texts
    place = {text: n for n, text in enumerate(every.texts)}
    at = [place[text] for text in one.texts]
    assert one.images.equal(every.images[at]) and one.name.equal(every.name[at])


def test_a_copy_is_one_code_for_code():
    """copied: by hand."""
    known = torch.tensor([[1, 2, 3], [4, 5, 6]])
    asked = torch.tensor([[4, 5, 6], [4, 5, 7], [6, 5, 4], [1, 2, 3], [0, 0, 0]])
    assert experiments.copied(asked, known).tolist() == [True, False, False, True, False]


def test_what_drawings_are_worth(tiny, codes_model):
    """worth: letters learned from are copies; those of new names are not, and nearer to the true letter."""
    learned, new = tiny["train"], tiny["test"]
    found = experiments.worth(experiments.stored_codes(), learned)
    assert found["copied"] == 1 and found["right"] > 0.8
    images = codes_model.paint(experiments.stored_codes())
    _, distance = recipe.nearest(images, learned.images)
    assert_close(found["distance"], distance.mean(), rtol=1e-3, atol=1e-3)
    found = experiments.worth(codes_model.encode(new.images), new)
    assert found["copied"] == 0 and found["right"] > 0.8 and found["nearer to the true one"] > 0.9
    other = experiments.worth(experiments.stored_codes()[: len(new.rows)], new)
    assert other["copied"] == 1 and other["right"] < 0.5 and other["nearer to the true one"] < 0.1


def test_a_drawer_learns_from_the_part_that_was_asked_for(quick, monkeypatch):
    """drawer: rows of the training names, of all or of `fewer`; looks ask names of validation for what is right."""
    given, asked, every, codes = [], [], quick["train"], experiments.stored_codes()
    monkeypatch.setattr(experiments, "rows_of", lambda known, codes, seed: (
        given.append((known, codes, seed)), recipe.rows_of(known, codes, seed))[1])  # fmt: skip
    monkeypatch.setattr(experiments, "drawn", lambda model, texts, **how: (
        asked.extend(texts), drawn_by_chance(model, texts, **how))[1])  # fmt: skip
    _, history = experiments.drawer(2, steps=2, look=1)
    assert [step for step, _ in history.watched] == [0, 1, 2] and {*asked} == {*quick["validation"].texts}
    experiments.drawer(2, 0.5, steps=1)
    (known, all_codes, _), (part, some_codes, _) = given
    assert known.texts == every.texts and all_codes.equal(codes)
    at = experiments.fewer(every, 0.5, 2)
    assert part.texts == [every.texts[n] for n in at] and some_codes.equal(codes[at]) and len(at) < len(every.rows)
    assert part.images.equal(every.images[at]) and part.name.equal(every.name[at])


def test_the_best_drawing_by_who_picks(tiny, monkeypatch, codes_model):
    """best_of_eight: of two drawings each name has one that is right, in turns; CLIP finds it, the first is half."""
    asked = experiments.some_of("test", 6, 1)
    own = codes_model.encode(asked.images)
    case = {row.case: n for n, row in enumerate(asked.rows)}
    wrong = own[[case["CAPITAL" if row.case == "SMALL" else "SMALL"] for row in asked.rows]]
    turn, given = torch.arange(6)[:, None] % 2, []

    def drawn(model, texts, temperature=1.0, seed=0):
        assert texts == asked.texts
        given.append(seed)
        return torch.where(turn == seed % 2, own, wrong)

    monkeypatch.setattr(experiments, "drawn", drawn)
    model = recipe.gpt(0)
    found = experiments.best_of_eight(model, 3, several=2, n=6)
    assert given == [3000, 3001]
    right = torch.tensor(recipe.rightly(recipe.painted(codes_model, own), asked)).double()
    assert right.mean() > 0.6 and found["any of them"] == right.mean()
    assert found["the first"] == (right * (turn[:, 0] == 0)).mean()
    assert found["CLIP"] > found["the first"]
    row = [row_of(recipe.word_ids(asked.texts), codes, len(recipe.tokenizer())) for codes in (own, wrong)]
    likely = nats(model, row[0], PLACES) < nats(model, row[1], PLACES)
    assert found["the GPT itself"] == pytest.approx((right * likely).mean().item())
    assert all(found["any of them"] >= share for share in found.values())


# --- who draws otherwise


def test_some_names_lose_their_typeface_for_the_painter_too(tiny, monkeypatch):
    """painter: as for the GPT; each name beside an image that is its own."""
    given = []
    monkeypatch.setattr(experiments, "fit", lambda model, batches, loss, **how: given.append((batches, how)))
    monkeypatch.setattr(experiments, "BATCH", 600)
    experiments.painter(0, 7)
    [(batches, _)] = given
    words, images = next(batches)
    known = tiny["train"]
    place = {image.numpy().tobytes(): n for n, image in enumerate(known.images)}
    at = [place[image.numpy().tobytes()] for image in images]
    full, short = (recipe.word_ids(texts)[at] for texts in (known.texts, [name_of(row) for row in known.rows]))
    is_full, is_short = (words == full).all(dim=1), (words == short).all(dim=1)
    share = recipe.NO_FACE
    assert (is_full ^ is_short).all() and abs(is_short.double().mean() - share) < 5 * (share * (1 - share) / 600) ** 0.5


def test_ink_says_how_grey_an_image_is():
    """ink: 0 for black and white, 1 for half grey, and by hand between them."""
    assert experiments.ink(torch.zeros(2, 1, 32, 32)) == experiments.ink(torch.ones(1, 1, 32, 32)) == 0
    assert experiments.ink(torch.full((3, 1, 32, 32), 0.5)) == 1
    assert experiments.ink(torch.tensor([0.0, 1.0, 0.5, 0.25])) == pytest.approx((1 + 0.75) / 4)


@pytest.mark.parametrize("alike", [True, False])
def test_no_face_told_counts_typefaces(tiny, monkeypatch, codes_model, alike):
    """no_face_told: no typeface is asked for; who draws one thing eight times draws one typeface."""
    given = []
    monkeypatch.setattr(experiments, "load", {recipe.CODES: (codes_model, {}), recipe.DRAWER: ("it", {})}.get)

    def drawn(model, texts, temperature=1.0, seed=0):
        assert model == "it"
        given.append((texts, seed))
        return experiments.stored_codes()[: len(texts)] if alike else drawn_by_chance(model, texts, seed=seed)

    monkeypatch.setattr(experiments, "drawn", drawn)
    found = experiments.no_face_told(2)
    assert found["typefaces among eight"] == 1 if alike else 1 < found["typefaces among eight"] <= 8
    asked = experiments.some_of("test", 100)
    assert given == [([name_of(row) for row in asked.rows], seed) for seed in range(16, 24)]


def a_world(monkeypatch, shapes):
    """Training letters of given shapes, (face, case, letter, marks) -> places of ink; and what makes names of them."""
    row = named("train").rows[0]

    def letters(keys):
        images = torch.zeros(len(keys), 1, 32, 32)
        for image, key in zip(images, keys, strict=True):
            for y, x in shapes.get(key, ()):
                image[0, y, x] = 1.0
        rows = [row._replace(face=face, case=case, letter=letter, marks=marks) for face, case, letter, marks in keys]
        return Named(images, torch.arange(len(keys)), rows)

    world = letters([*shapes])
    monkeypatch.setattr(experiments, "named", {"train": world}.__getitem__)
    return letters


def test_a_mark_is_cut_from_the_letter_that_is_most_alike(monkeypatch):
    """pasted: by hand; where a typeface has no such mark, the letter without; where it has not even that, nothing."""
    sans, mono = ("DejaVuSans", "SMALL"), ("DejaVuSansMono", "SMALL")
    a, e, o, acute, grave = [(9, 1), (9, 2), (9, 3)], [(9, 1), (9, 2), (8, 3)], [(5, 5)], ("ACUTE",), ("GRAVE",)
    letters = a_world(monkeypatch, {
        (*sans, "A", ()): a, (*sans, "E", ()): e, (*sans, "O", ()): o,
        (*sans, "E", acute): [*e, (2, 2)], (*sans, "O", acute): [*o, (1, 30)], (*sans, "E", grave): [*e, (8, 8)],
        ("DejaVuSans", "CAPITAL", "A", ()): a, ("DejaVuSans", "CAPITAL", "A", acute): [*a, (30, 30)],
        (*mono, "A", ()): [*a, (20, 20)], (*mono, "U", acute): [(3, 3)],
    })  # fmt: skip
    asked = [(*sans, "A", acute), (*sans, "O", grave), (*sans, "E", acute), (*sans, "A", ()), (*mono, "A", acute),
             (*mono, "E", acute), (*sans, "A", ("TILDE",))]  # fmt: skip
    wanted = [[*a, (2, 2)], [*o, (8, 8)], [*e, (2, 2)], a, [*a, (20, 20)], [], a]
    images = experiments.pasted(letters(asked))
    assert images.shape == (7, 1, 32, 32)
    for image, places in zip(images, wanted, strict=True):
        assert sorted(map(tuple, image[0].nonzero().tolist())) == sorted(places)
    assert images.max() == 1


def test_the_rule_of_common_words_by_hand(monkeypatch):
    """same_words: the most words in common, and of equals the name with the fewest."""
    sans = "DejaVuSans"
    shapes = {
        (sans, "SMALL", "A", ("GRAVE",)): [(0, 0)], (sans, "SMALL", "E", ("ACUTE",)): [(1, 1)],
        ("DejaVuSans-Bold", "SMALL", "A", ("ACUTE",)): [(2, 2)], ("DejaVuSerif", "CAPITAL", "O", ()): [(3, 3)],
        (sans, "SMALL", "A", ()): [(4, 4)],
    }  # fmt: skip
    recipe.n_tokens(), len(recipe.tokenizer())
    letters = a_world(monkeypatch, shapes)
    asked = [(sans, "SMALL", "A", ("ACUTE",)), ("DejaVuSerif", "CAPITAL", "E", ()), *shapes]
    wanted = [(2, 2), (3, 3), *(place for [place] in shapes.values())]
    images = experiments.same_words(letters(asked))
    assert [tuple(image[0].nonzero()[0].tolist()) for image in images] == wanted


# --- controls


def test_an_encoder_at_random_learns_nothing_and_the_rest_does():
    """frozen."""
    model = recipe.vq_vae(0)
    controls.frozen(model, recipe.unnamed()[:8]).backward()
    assert all(weight.grad is None for weight in model.encoder.parameters())
    assert model.quantiser.codes.grad.abs().sum() > 0
    assert all(weight.grad is not None for weight in model.decoder.parameters())


@pytest.mark.slow
def test_patches_are_pasted_in_their_places():
    """pasted_patches, patch_list: white and 63 others."""
    codes = torch.randint(CODES, (3, 64), generator=torch.Generator().manual_seed(0))
    assert_close(patchify(controls.pasted_patches(codes), 4), controls.patch_list()[codes])
    assert controls.patch_list().shape == (CODES, 16) and not controls.patch_list()[0].any()
    assert (controls.patch_list()[1:].amax(dim=1) > 0).all()


def test_learned_names_with_a_mark_are_drawn_once_and_for_all():
    """marked, taken."""
    one = controls.marked(40)
    assert all(row.marks for row in one.rows) and one.rows == controls.marked(40).rows and len(one.rows) == 40
    known = experiments.some_of("test", 5)
    some = controls.taken(known, [3, 0])
    assert some.rows == [known.rows[3], known.rows[0]] and torch.equal(some.images, known.images[[3, 0]])


@pytest.mark.parametrize(("start", "revived"), [("vectors", 0), ("random", 1)])
def test_codes_begin_and_are_revived_as_is_said(start, revived, monkeypatch):
    """dead_codes."""
    seen = {}
    monkeypatch.setattr(controls, "coded", lambda model, seed, steps, awake: seen.update(awake=awake, **parts(model)))
    monkeypatch.setattr(controls, "kept", lambda model: {"used": 1})
    assert controls.dead_codes(0, start=start, revived=revived) == {"used": 1}
    assert seen["awake"] == controls.AWAKE * revived
    assert torch.equal(seen["quantiser.codes"], recipe.vq_vae(0).quantiser.codes) == (start == "vectors")


def test_who_picks_by_another_name_sees_no_name_that_was_asked_for(monkeypatch):
    """picks."""
    told, known = [], experiments.some_of("test", 6, 1)
    monkeypatch.setattr(controls, "pictures", lambda texts, temperature, seed: known.images)
    monkeypatch.setattr(controls, "fits", lambda clip, images, texts: told.append(texts) or torch.rand(len(images)))
    found = controls.picks.function(0, several=2, n=6)
    assert found == dict.fromkeys(("CLIP", "CLIP, another name", "one", "one, cooler"), 1.0)
    assert told[:2] == [known.texts] * 2 and told[2] == told[3] == known.texts[3:] + known.texts[:3]


@pytest.mark.slow
def test_patches_drawn_judges_what_is_pasted(monkeypatch):
    """patches_drawn: with the true patches written, nearly all letters are still themselves."""
    images = {tuple(one.texts): one.images for one in (experiments.some_of("test"), controls.marked(300))}
    true = lambda model, texts, *_: controls.nearest_code(patchify(images[tuple(texts)], 4), controls.patch_list())  # noqa: E731
    monkeypatch.setattr(controls, "written", lambda model, rows: next(rows))
    monkeypatch.setattr(controls, "drawn", true)
    found = controls.patches_drawn(0)
    assert found["test"]["right"] > 0.8 and found["train"]["right"] > 0.8

"""experiments/words_to_images.py: what each setting changes, the rivals worked by hand, and plain numbers from each."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from course_lib.data.letter_names import Named, name_of, named
from course_lib.multimodal.words_then_codes import nats, row_of
from course_lib.vision.patches import patchify
from course_lib.workshop.experiments import Experiment
from course_lib.workshop.experiments.words_to_images import core as experiments
from course_lib.workshop.recipes import words_to_images as recipe
from course_lib.workshop.recipes.stored import load

PLACES, CODES = recipe.PLACES, recipe.N_CODES
JUDGED = {*recipe.Judged._fields}
ROOT = Path(recipe.__file__).parents[2]


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
    return load("letters_codes")[0]


@pytest.fixture
def tiny(monkeypatch, codes_model):
    """Few letters, by which a drawing is judged too, small batches, one block; the words stay all words."""
    recipe.n_tokens(), len(recipe.tokenizer())  # learned from all names before there are few
    sides = {split: some(named(split), slice(None, None, step))
             for split, step in {"train": 80, "validation": 40, "test": 80, None: 20}.items()}  # fmt: skip
    sides[None] = Named(*(sum(of, of[0][:0]) if isinstance(of[0], list) else torch.cat(of)
                          for of in zip(*sides.values(), strict=True)))  # fmt: skip
    seen, codes = recipe.unnamed()[::100], recipe.codes_of(codes_model, sides["train"].images)
    for module in (recipe, experiments):
        monkeypatch.setattr(module, "named", lambda split: sides.get(split) or named(split))
        monkeypatch.setattr(module, "unnamed", lambda: seen)
        monkeypatch.setattr(module, "BATCH", 4)
        monkeypatch.setattr(module, "LAYERS", 1)
    monkeypatch.setattr(experiments, "stored_codes", lambda: codes)
    monkeypatch.setattr(experiments, "letters_kept", lambda: sides["test"])
    return sides


@pytest.fixture
def quick(tiny, monkeypatch):
    """A GPT of few steps, looked at twice, that draws by chance."""
    monkeypatch.setattr(experiments, "DRAW_STEPS", 50)
    monkeypatch.setattr(experiments, "written", lambda *what, **how: recipe.written(*what, **{"steps": 10} | how))
    monkeypatch.setattr(experiments, "drawn", drawn_by_chance)
    return tiny


def plain(found, *keys):
    """Whether it is as a record holds it: plain numbers under these keys, shares from 0 to 1."""
    assert json.loads(json.dumps(found)) == found and {*found} == {*keys}
    assert all(0 <= found[key] <= 1 for key in JUDGED & {*keys} if not isinstance(found[key], dict))
    return True


# --- an image as codes


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def test_without_a_way_back_the_picture_tells_the_encoder_nothing(tiny):
    """no_way_back: the same loss; its encoder has the quantiser's gradient alone, its decoder that of both ways."""
    model, images = recipe.vq_vae(0).double(), tiny["train"].images[:4].double()
    loss, usual = experiments.no_way_back(model, images), model.loss(images)
    assert_close(loss, usual)
    ours, through = gradients(model, loss), gradients(model, usual)
    alone = gradients(model, model.quantiser(model.vectors(images))[2])
    for name in ours:
        if name.startswith("encoder"):
            assert_close(ours[name], alone[name], atol=1e-12, rtol=1e-8)
            assert not torch.allclose(through[name], alone[name], rtol=1e-3, atol=0)
        elif name.startswith("decoder"):
            assert ours[name].any() and not alone[name].any()
            assert_close(ours[name], through[name], atol=1e-12, rtol=1e-6)
    name = "quantiser.codes"  # which the picture moves here, and straight through only their own loss
    assert_close(through[name], alone[name], atol=1e-12, rtol=1e-8)
    assert not torch.allclose(ours[name], alone[name], rtol=1e-3, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("way", experiments.WAYS)
def test_each_way_changes_one_thing(tiny, monkeypatch, way):
    """quantised: the loss; or codes that begin anywhere and stay; the weights and the rest are those of the seed."""
    given = []
    monkeypatch.setattr(experiments, "SHORT", 10)
    monkeypatch.setattr(experiments, "coded", lambda model, *what, **how: (
        given.append(({name: part.clone() for name, part in model.state_dict().items()}, what, how)),
        recipe.coded(model, *what, **how))[1])  # fmt: skip
    found = experiments.quantised(1, way=way)
    assert plain(found, "error", "right", "used", "curve") and 0 < found["error"] < 1 and 1 <= found["used"] <= CODES
    assert len(found["curve"]) == 1 and {"way": way} in experiments.quantised.variants
    [(start, what, how)] = given
    usual = recipe.vq_vae(1).state_dict()
    differ = {name for name in usual if not start[name].equal(usual[name])}
    assert what == (1, 10) and differ == ({"quantiser.codes"} if way == "dead codes stay" else set())
    assert how == {"straight through": {}, "no way back": {"loss": experiments.no_way_back},
                   "dead codes stay": {"awake": 0.0}}[way]  # fmt: skip


def test_what_is_kept_is_worked_by_hand(tiny, codes_model):
    """kept: of letters of new names error and shares right; codes in use, of every fourth image that was learned."""
    found, known = experiments.kept(codes_model), tiny["test"]
    images = codes_model.paint(codes_model.encode(known.images))
    assert found["error"].item() == pytest.approx((images - known.images).square().mean().item())
    assert found["right"] == recipe.judged(images, known).right > 0.8
    assert found["used"] == len({*codes_model.encode(recipe.unnamed()[::4]).flatten().tolist()})


def test_the_letters_kept_are_of_new_names():
    known, every = experiments.letters_kept(), named("test")
    assert known.rows == every.rows[::3] and known.images.equal(every.images[::3])
    assert known.name.equal(every.name[::3])


def test_a_list_of_patches_makes_images_of_64(tiny, monkeypatch):
    """listed: at most as many different patches as there are codes, white among them; plain numbers."""
    given = []
    monkeypatch.setattr(experiments, "judged", lambda images, asked: (
        given.append(images), recipe.judged(images, asked))[1])  # fmt: skip
    found = experiments.listed(0, rounds=2)
    assert plain(found, "error", "right")
    [images], known = given, tiny["test"].images
    patches = patchify(images, 4).flatten(0, 1)
    used = patches.unique(dim=0)
    assert images.shape == known.shape and 1 < len(used) <= CODES and not used.any(dim=1).all()
    wanted = patchify(known, 4).flatten(0, 1)  # no patch that was used would have been nearer
    assert_close((patches - wanted).square().sum(dim=1), torch.cdist(wanted, used).square().amin(dim=1), atol=1e-3,
                 rtol=1e-3)  # fmt: skip
    assert found["error"] == pytest.approx((images - known).square().mean().item(), rel=1e-4)
    assert found["error"] < 0.5 * known.square().mean()  # better than white paper
    assert experiments.listed(0, rounds=2) == found


# --- names drawn


@pytest.mark.parametrize(("part", "seed"), [(0.5, 0), (0.5, 1), (0.1, 0), (0.0, 0), (1.0, 0)])
def test_all_bare_letters_stay_and_a_part_of_the_marked_names(part, seed):
    """fewer: a name stays with all its typefaces or not at all; drawn by the seed."""
    known = named("train")
    at = experiments.fewer(known, part, seed).tolist()
    stay, marked = {name_of(known.rows[n]) for n in at}, {name_of(row) for row in known.rows if row.marks}
    assert at == [n for n, row in enumerate(known.rows) if not row.marks or name_of(row) in stay]
    assert len(stay & marked) == round(part * len(marked))
    assert experiments.fewer(known, part, seed).tolist() == at
    assert (experiments.fewer(known, part, seed + 5).tolist() == at) == (part in (0.0, 1.0))


def test_some_letters_are_drawn_once_and_for_all():
    """some_of: as many as there are at most, each once; images, names and rows of the same letters."""
    one, other, every = experiments.some_of("test"), experiments.some_of("test", 300, 1), named("test")
    assert len(one.rows) == len({*one.texts}) == 300 and {*one.texts} <= {*every.texts}
    assert experiments.some_of("test").texts == one.texts != other.texts
    place = {text: n for n, text in enumerate(every.texts)}
    at = [place[text] for text in one.texts]
    assert one.images.equal(every.images[at]) and one.name.equal(every.name[at])
    assert sorted(experiments.some_of("test", 10_000).texts) == sorted(every.texts)
    with pytest.raises(ValueError, match="'tests'"):
        experiments.some_of("tests")


def test_a_copy_is_one_code_for_code(tiny):
    """copied: by hand; stored_codes are those of all letters learned from."""
    known = torch.tensor([[1, 2, 3], [4, 5, 6]])
    asked = torch.tensor([[4, 5, 6], [4, 5, 7], [6, 5, 4], [1, 2, 3], [0, 0, 0]])
    assert experiments.copied(asked, known).tolist() == [True, False, False, True, False]
    assert experiments.copied(asked[:0], known).shape == (0,) and not experiments.copied(asked, known[:0]).any()
    assert experiments.copied(experiments.stored_codes(), experiments.stored_codes()).all()


def test_stored_codes_are_those_of_the_letters_learned_from(tiny, monkeypatch, codes_model):
    monkeypatch.undo()
    few = some(named("train"), slice(None, None, 400))
    monkeypatch.setattr(experiments, "named", {"train": few}.__getitem__)
    assert experiments.stored_codes.__wrapped__().equal(codes_model.encode(few.images))


def test_what_drawings_are_worth(tiny, codes_model):
    """worth: letters learned from are copies; those of new names are not, and nearer to the true letter."""
    learned, new = tiny["train"], tiny["test"]
    found = experiments.worth(experiments.stored_codes(), learned)
    assert {*found} == {*JUDGED, "copied", "distance", "nearer to the true one"}
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
    given, every, codes = [], quick["train"], experiments.stored_codes()
    monkeypatch.setattr(experiments, "rows_of", lambda known, codes, seed: (
        given.append((known, codes, seed)), recipe.rows_of(known, codes, seed))[1])  # fmt: skip
    asked = []
    monkeypatch.setattr(experiments, "drawn", lambda model, texts, **how: (
        asked.append((texts, how)), drawn_by_chance(model, texts, **how))[1])  # fmt: skip
    model, history = experiments.drawer(2, steps=2, look=1)
    assert [step for step, _ in history.watched] == [0, 1, 2]
    assert all(step == seen[0] and 0 <= seen[1] <= 1 for step, seen in history.watched)
    assert len(asked) == 3 and {text for texts, _ in asked for text in texts} == {*quick["validation"].texts}
    assert not experiments.drawer(2, 0.5, steps=1)[1].watched
    (known, all_codes, seed), (part, some_codes, _) = given
    assert known.texts == every.texts and all_codes.equal(codes) and seed == 2
    at = experiments.fewer(every, 0.5, 2)
    assert part.texts == [every.texts[n] for n in at] and some_codes.equal(codes[at]) and len(at) < len(every.rows)
    assert part.images.equal(every.images[at]) and part.name.equal(every.name[at])
    start = recipe.gpt(2).state_dict()
    assert start.keys() == model.state_dict().keys() and not model.training


@pytest.mark.slow
def test_names_drawn_gives_plain_numbers(quick, monkeypatch):
    """names_drawn: new and learned names, at two temperatures; looks on the way; who picks."""
    monkeypatch.setattr(experiments, "best_of_eight", partial(experiments.best_of_eight, several=2, n=5))
    found = experiments.names_drawn(0)
    asked = [f"{split}, {temperature}" for split in ("test", "train") for temperature in experiments.TEMPERATURES]
    assert plain(found, *asked, "curve", "loss", "best of eight")
    for key in asked:
        assert plain(found[key], *JUDGED, "copied", "distance", "nearer to the true one")
    assert len(found["curve"]) == 2 and len(found["loss"]) == 1


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
    assert given == [3000, 3001] and {*found} == {"the first", "CLIP", "the GPT itself", "any of them"}
    right = torch.tensor(recipe.rightly(recipe.painted(codes_model, own), asked)).double()
    assert right.mean() > 0.6 and found["any of them"] == right.mean()
    assert found["the first"] == (right * (turn[:, 0] == 0)).mean()
    assert found["CLIP"] > found["the first"]
    row = [row_of(recipe.word_ids(asked.texts), codes, len(recipe.tokenizer())) for codes in (own, wrong)]
    likely = nats(model, row[0], PLACES) < nats(model, row[1], PLACES)
    assert found["the GPT itself"] == pytest.approx((right * likely).mean().item())
    assert all(found["any of them"] >= share for share in found.values())


# --- who draws otherwise


@pytest.mark.slow
def test_a_painter_paints_the_mean_of_what_a_name_may_mean(monkeypatch):
    """Painter, painter: (B, 1, 32, 32); of two images of one name, half of each."""
    monkeypatch.setattr(experiments, "LAYERS", 1)
    monkeypatch.setattr(experiments, "BATCH", 16)
    [row], images = some(named("train"), [0]).rows, torch.zeros(2, 1, 32, 32)
    images[0, :, :16, :16] = images[1, :, :16, 16:] = images[:, :, 20:24] = 1.0
    two = Named(images, torch.zeros(2, dtype=torch.long), [row, row])
    recipe.word_ids(two.texts)
    monkeypatch.setattr(experiments, "named", {"train": two}.__getitem__)
    model = experiments.painter(0, 60)
    with torch.no_grad():
        logits = model(recipe.word_ids([*two.texts, "small e"]))
    assert logits.shape == (3, 1, 32, 32) and not model.training
    painted = logits[:1].sigmoid()
    assert (painted - images.mean(dim=0)).abs().mean() < 0.05 and (painted - images.mean(dim=0)).abs().max() < 0.25
    assert experiments.ink(painted) > 5 * experiments.ink(images)
    torch.manual_seed(0)
    matrices, rest = (group["params"] for group in recipe.muon(experiments.Painter()).param_groups)
    assert len(matrices) == 6 and len([*matrices, *rest]) == len([*model.parameters()])


def test_a_painter_reads_every_word():
    torch.manual_seed(0)
    one, other, swapped = experiments.Painter()(
        recipe.word_ids(["small e in serif", "small o in serif", "e small in serif"])
    )
    assert not torch.allclose(one, other, atol=1e-3) and not torch.allclose(one, swapped, atol=1e-3)


def test_some_names_lose_their_typeface_for_the_painter_too(tiny, monkeypatch):
    """painter: as for the GPT; each name beside an image that is its own."""
    given = []
    monkeypatch.setattr(experiments, "fit", lambda model, batches, loss, **how: given.append((batches, how)))
    monkeypatch.setattr(experiments, "BATCH", 600)
    experiments.painter(0, 7)
    [(batches, how)] = given
    words, images = next(batches)
    known = tiny["train"]
    place = {image.numpy().tobytes(): n for n, image in enumerate(known.images)}
    at = [place[image.numpy().tobytes()] for image in images]
    full, short = (recipe.word_ids(texts)[at] for texts in (known.texts, [name_of(row) for row in known.rows]))
    is_full, is_short = (words == full).all(dim=1), (words == short).all(dim=1)
    share = recipe.NO_FACE
    assert (is_full ^ is_short).all() and abs(is_short.double().mean() - share) < 5 * (share * (1 - share) / 600) ** 0.5
    assert how["steps"] == 7 and how["lr"] == recipe.RATE and how["device"] == recipe.CPU


def test_ink_says_how_grey_an_image_is():
    """ink: 0 for black and white, 1 for half grey, and by hand between them."""
    assert experiments.ink(torch.zeros(2, 1, 32, 32)) == experiments.ink(torch.ones(1, 1, 32, 32)) == 0
    assert experiments.ink(torch.full((3, 1, 32, 32), 0.5)) == 1
    assert experiments.ink(torch.tensor([0.0, 1.0, 0.5, 0.25])) == pytest.approx((1 + 0.75) / 4)


def test_meant_gives_plain_numbers(tiny, monkeypatch):
    monkeypatch.setattr(experiments, "MEANT_STEPS", 2)
    found = experiments.meant(0)
    assert plain(found, *JUDGED, "no typeface told", "grey", "grey, no typeface told", "grey, real")
    assert plain(found["no typeface told"], *JUDGED)
    assert found["grey, real"] == pytest.approx(experiments.ink(experiments.some_of("test").images), rel=1e-4)
    assert found["grey, real"] < found["grey"] <= 1  # hardly trained, it paints grey


@pytest.mark.parametrize("alike", [True, False])
def test_no_face_told_counts_typefaces(tiny, monkeypatch, codes_model, alike):
    """no_face_told: no typeface is asked for; who draws one thing eight times draws one typeface."""
    given = []
    monkeypatch.setattr(experiments, "load", {"letters_codes": (codes_model, {}), "letters_drawer": ("it", {})}.get)

    def drawn(model, texts, temperature=1.0, seed=0):
        assert model == "it"
        given.append((texts, seed))
        return experiments.stored_codes()[: len(texts)] if alike else drawn_by_chance(model, texts, seed=seed)

    monkeypatch.setattr(experiments, "drawn", drawn)
    found = experiments.no_face_told(2)
    assert plain(found, *JUDGED, "typefaces among eight", "grey") and 0 <= found["grey"] <= 1
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


def test_a_learned_letter_is_pasted_as_it_is():
    """pasted: a letter without a mark, and one whose own mark is nearest; of a new name, own ink and more."""
    train, new = named("train"), some(named("test"), slice(None, None, 60))
    bare = {(row.face, row.case, row.letter): n for n, row in enumerate(train.rows) if not row.marks}
    known = some(train, [n for n, row in enumerate(train.rows) if (row.face, row.case, row.letter) in bare][::200])
    assert {bool(row.marks) for row in known.rows} == {True, False}
    assert_close(experiments.pasted(known), known.images, atol=1e-5, rtol=0)
    pasted, more = experiments.pasted(new), []
    assert 0 <= pasted.min() and pasted.max() <= 1
    for image, row in zip(pasted, new.rows, strict=True):
        own = train.images[bare[key]] if (key := (row.face, row.case, row.letter)) in bare else torch.zeros_like(image)
        more.append(bool(((image - own) > 0.5).any()))
        assert (image >= own - 0.5).double().mean() > 0.97  # the letter is still there
    assert sum(more) > 0.7 * len(more)


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


@pytest.mark.slow
def test_a_learned_name_has_all_its_words_in_common_with_itself():
    """same_words: it gives that image; for a new name one of its letter and case or of its mark, and never itself."""
    known = some(named("train"), slice(None, None, 100))
    assert experiments.same_words(known).equal(known.images)
    new = some(named("test"), slice(None, None, 60))
    images = experiments.same_words(new)
    words = {bytes_of(image): text for image, text in zip(named("train").images, named("train").texts, strict=True)}
    for image, text in zip(images, new.texts, strict=True):
        own, other = {*text.split()}, {*words[bytes_of(image)].split()}
        assert len(own) - 2 <= len(own & other) < len(own)


def bytes_of(image):
    return image.numpy().tobytes()


def test_rules_give_plain_numbers(tiny):
    found = experiments.rules(0)
    assert plain(found, "pasted", "same words", "through codes")
    assert all(plain(part, *JUDGED) for part in found.values()) and found["through codes"]["right"] > 0.8


@pytest.mark.slow
def test_pace_gives_plain_numbers(tiny):
    """pace: each network has taken time."""
    found = experiments.pace(0)
    assert plain(found, "GPT", "mean") and all(0 < seconds < 5 for seconds in found.values())


# --- what a record holds


def test_every_experiment_names_the_files_that_it_reads():
    every = [one for one in vars(experiments).values() if isinstance(one, Experiment) and one.slug == "words_to_images"]
    assert len(every) == 7
    for one in every:
        assert one.cpus == ("default",) and all((ROOT / file).exists() for file in one.files)
    for name in ("names_drawn", "rules", "no_face_told"):
        assert "data/checkpoints/letters_codes.safetensors" in getattr(experiments, name).files

"""recipes/words_to_images.py: no letter of a new name is learned from, words ask for their own codes, what is right."""

import json
import math
from itertools import islice

import pytest
import torch
from torch.testing import assert_close

from course_lib.data import glyphs
from course_lib.data.letter_names import Named, name_of, named
from course_lib.language.gpt import GPTConfig
from course_lib.multimodal.words_then_codes import codes_loss, nats, row_of
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train import cosine
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes import words_to_images as recipe
from course_lib.workshop.recipes.stored import CHECKPOINTS, cards, load, save, train

PLACES, CODES = recipe.PLACES, recipe.N_CODES


def some(known, at):
    """The letters at these places, a slice or a list."""
    at = list(range(len(known.rows)))[at] if isinstance(at, slice) else at
    return Named(known.images[at], known.name[at], [known.rows[n] for n in at])


def read(ids):
    """The words that stand in a row, up to its end."""
    told = [recipe.tokenizer().vocab[n] for n in ids]
    end = recipe.tokenizer().vocab[WordTokenizer.end]
    return " ".join(told[: told.index(end)])


def parts(model):
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one, other):
    return all(one[name].equal(other[name]) for name in one)


@pytest.fixture
def few(monkeypatch):
    """Few letters of each side, small batches, one block; the words stay all words, and the judge knows all letters."""
    recipe.n_tokens(), len(recipe.tokenizer())  # learned from all names before there are few
    sides = {"train": some(named("train"), slice(None, None, 100)), "validation": some(named("validation"), slice(9)),
             "test": some(named("test"), slice(None, None, 100))}  # fmt: skip
    seen = recipe.unnamed()[::100]
    monkeypatch.setattr(recipe, "named", lambda split: sides.get(split) or named(split))
    monkeypatch.setattr(recipe, "unnamed", lambda: seen)
    monkeypatch.setattr(recipe, "BATCH", 8)
    monkeypatch.setattr(recipe, "LAYERS", 1)
    return sides


@pytest.fixture(scope="module")
def codes_model():
    return load("letters_codes")[0]


def given_to_fit(monkeypatch):
    """What `fit` is handed, which trains nothing now."""
    given = []
    monkeypatch.setattr(recipe, "fit", lambda model, batches, loss, **how: given.append((batches, loss, how)))
    return given


# --- what is learned from


@pytest.mark.slow
def test_no_letter_of_a_new_name_is_seen():
    """unnamed: no image that a letter of validation or test has, dot for dot; all that the GPT learns from."""
    images = recipe.unnamed()
    assert images.shape[1:] == (1, 32, 32) and images.dtype == torch.float32
    assert 0 <= images.min() and images.max() <= 1
    known = {image.numpy().tobytes() for image in images}
    for split in ("validation", "test"):
        assert not known & {image.numpy().tobytes() for image in named(split).images}
        assert not known & {image.tobytes() for image in glyphs.letters(names=split)[0]}  # nor with more marks
    assert known >= {image.numpy().tobytes() for image in named("train").images}
    assert len(images) > 2 * len(named("train").rows)


def test_each_image_is_as_likely_as_the_other():
    """images_of: batches without an end, the same again by the seed."""
    images = torch.arange(5.0)[:, None, None, None].expand(5, 1, 32, 32)
    drawn = torch.cat([*islice(recipe.images_of(images, 3), 20)])
    assert drawn.shape == (20 * recipe.BATCH, 1, 32, 32)
    counts = drawn[:, 0, 0, 0].long().bincount(minlength=5)
    assert (counts - 256).abs().max() < 5 * (1280 * 0.2 * 0.8) ** 0.5
    assert next(recipe.images_of(images, 3)).equal(drawn[: recipe.BATCH])
    assert not next(recipe.images_of(images, 4)).equal(drawn[: recipe.BATCH])


# --- an image as codes


def test_codes_begin_among_the_vectors(few):
    """vq_vae: each is a vector of its own encoder, none is dead, and the seed draws them and the weights."""
    model = recipe.vq_vae(0)
    codes = model.quantiser.codes
    assert codes.shape == (CODES, recipe.CODE_WIDTH) and not model.quantiser.dead().any()
    with torch.no_grad():
        vectors = model.vectors(next(recipe.images_of(recipe.unnamed(), 0))).flatten(0, 2)
    assert (codes[:, None] - vectors).abs().amax(dim=2).amin(dim=1).max() < 1e-5
    assert len(codes.unique(dim=0)) > CODES / 2
    assert same(parts(model), parts(recipe.vq_vae(0)))
    other = recipe.vq_vae(1)
    assert not other.quantiser.codes.equal(codes)
    assert not other.encoder[0].window.weight.equal(model.encoder[0].window.weight)


def test_every_weight_of_the_vq_vae_is_stepped_once():
    """conv_muon: all windows but the first as matrices; the codes and what else there is by AdamW."""
    model = recipe.VQVAE(*recipe.CodesRecipe("").sizes)
    groups = recipe.conv_muon(model).param_groups
    matrices, rest = (group["params"] for group in groups)
    assert sorted(map(id, [*matrices, *rest])) == sorted(map(id, model.parameters()))
    assert all(weight.shape[2:] == (3, 3) for weight in matrices) and len(matrices) == 6
    assert {id(model.quantiser.codes), id(model.encoder[0].window.weight)} <= {*map(id, rest)}
    assert [group["matrices"] for group in groups] == [True, False] and {group["rounds"] for group in groups} == {3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "at"),
    [
        ({}, [2, 4, 6]),  # up to 0.7 of ten
        ({"awake": 0.45}, [2, 4]),
        ({"awake": 0.0}, []),
        ({"whole": 16}, [2, 4, 6, 8, 10]),  # these ten are the first of sixteen
        ({"whole": 16, "awake": 0.3}, [2, 4]),
    ],
)
def test_dead_codes_are_put_elsewhere_for_a_while(few, monkeypatch, how, at):
    """coded: at every EVERYth step up to `awake` of all, from the vectors of the batch, in training mode."""
    monkeypatch.setattr(recipe, "EVERY", 2)
    model, steps, found = recipe.vq_vae(0), [], []
    revive = model.quantiser.revive

    def watched(vectors, generator):
        found.append((len(steps) + 1, vectors.shape, vectors.requires_grad, model.training))
        return revive(vectors, generator)

    def loss(model, images):
        steps.append(model.training)
        return recipe.VQVAE.loss(model, images)

    model.quantiser.revive = watched
    history = recipe.coded(model, 0, 10, loss=loss, **how)
    assert found == [(step, (recipe.BATCH, recipe.SIDE, recipe.SIDE, recipe.CODE_WIDTH), False, True) for step in at]
    assert steps == [True] * 10 and len(history.loss) == 10 and all(map(math.isfinite, history.loss))
    assert not model.training


def test_a_code_that_nothing_is_near_wakes(few, monkeypatch):
    """coded: it is put where a vector is; without `awake` it stays where it was."""
    monkeypatch.setattr(recipe, "EVERY", 2)
    for awake in (0.9, 0.0):
        model = recipe.vq_vae(0)
        with torch.no_grad():
            model.quantiser.codes[3], model.quantiser.share[3] = 1000.0, 0.0
        recipe.coded(model, 0, 4, awake=awake)
        assert (model.quantiser.codes[3].abs().max() < 500) == bool(awake)


def test_the_seed_draws_the_whole_training(few):
    def run(seed):
        model = recipe.vq_vae(0)
        recipe.coded(model, seed, 2)
        return parts(model)

    one = run(0)
    assert same(one, run(0)) and not same(one, run(1)) and not same(one, parts(recipe.vq_vae(0)))


@pytest.mark.slow
def test_a_few_steps_lower_the_loss(few):
    history = recipe.coded(recipe.vq_vae(0), 0, 25)
    assert sum(history.loss[-3:]) < 0.7 * sum(history.loss[:3])


@pytest.mark.slow
def test_images_go_to_codes_and_back_as_the_models_own(few, codes_model):
    """codes_of, painted: as encode and paint, some at a time, also of a model in training, of which nothing counts."""
    images = recipe.unnamed()[:4].repeat(126, 1, 1, 1)  # more than are read at once
    share = codes_model.quantiser.share.clone()
    codes_model.train()
    try:
        codes = recipe.codes_of(codes_model, images)
        ink = recipe.painted(codes_model, codes)
        assert codes_model.training and codes_model.quantiser.share.equal(share)
    finally:
        codes_model.eval()
    assert codes.shape == (504, PLACES) and codes.dtype == torch.int64 and ink.shape == images.shape
    assert codes[:4].equal(codes_model.encode(images[:4])) and codes.equal(codes[:4].repeat(126, 1))
    assert_close(ink[-4:], codes_model.paint(codes[:4])) and not ink.requires_grad
    assert 0 <= ink.min() and ink.max() <= 1


# --- words


@pytest.mark.slow
def test_names_are_words_of_one_length():
    """word_ids: the words, the end, padding; the longest name fills the row; no two names are one row."""
    texts = named(None).texts
    ids = recipe.word_ids(texts)
    assert ids.shape == (len(texts), recipe.n_tokens()) and ids.dtype == torch.int64
    assert not (ids == WordTokenizer.unknown).any() and len(ids.unique(dim=0)) == len(texts)
    length = torch.tensor([len(text.split()) + 1 for text in texts])
    assert length.max() == recipe.n_tokens()
    where = torch.arange(recipe.n_tokens())
    assert (ids != WordTokenizer.padding).equal(where < length[:, None])
    assert (ids == WordTokenizer.end).equal(where == length[:, None] - 1)
    for text, row in zip(texts[::500], ids[::500].tolist(), strict=True):
        assert read(row) == text


def test_capitals_and_spaces_do_not_matter():
    """word_ids: nor what else stands in the list; a name without its typeface, one word, and no name at all."""
    [plain] = recipe.word_ids(["small e with acute in serif bold"])
    other, short, word = recipe.word_ids(["  SMALL  e\twith Acute\nin Serif BOLD ", "small e", "e"])
    assert other.equal(plain) and read(short.tolist()) == "small e" and read(word.tolist()) == "e"
    assert len(recipe.word_ids([])) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("small e with moustache", "'moustache' is no word of these names. They are: a above acute "),
        ("small é", "'é' is no word"),
        ("small e, with acute", "'e,' is no word"),
        ("small e <end>", "'<end>' is no word"),
        ("<padding>", "'<padding>' is no word"),
        ("smalle", "'smalle' is no word"),
        ("small e\u200b", "is no word"),
        ("nan", "'nan' is no word"),
        ("", "at least one word"),
        (" \n\t ", "at least one word"),
        ("small " * 10, "at most 9 words.*got 'small small"),
        ("small e with circumflex below in sans bold italic sans", "at most 9 words"),
    ],
)
def test_what_is_no_name_is_refused_in_words(text, words):
    """word_ids: also where it stands among good ones."""
    assert recipe.n_tokens() == 10
    for texts in ([text], ["small e", text, "capital q"]):
        with pytest.raises(ValueError, match=words):
            recipe.word_ids(texts)
    recipe.word_ids(["small " * 9])  # whether it makes sense is not asked


# --- words, then codes


@pytest.mark.slow
def test_every_name_asks_for_its_own_codes(few, monkeypatch):
    """rows_of: words first, its codes behind all words; of about NO_FACE of the rows the typeface is left out."""
    monkeypatch.setattr(recipe, "BATCH", 64)
    known, n_words, T = few["train"], len(recipe.tokenizer()), recipe.n_tokens()
    codes = torch.randint(CODES, (len(known.rows), PLACES), generator=torch.Generator().manual_seed(1))
    place = {tuple(row): n for n, row in enumerate(codes.tolist())}
    short, met, batches = 0, set(), [*islice(recipe.rows_of(known, codes, 3), 25)]
    for row in torch.cat(batches).tolist():
        assert len(row) == T + PLACES and max(row[:T]) < n_words <= min(row[T:])
        n = place[tuple(code - n_words for code in row[T:])]
        text = read(row[:T])
        assert text in (known.texts[n], name_of(known.rows[n]))
        short += text != known.texts[n]
        met.add(n)
    assert len(met) == len(known.rows)
    share = recipe.NO_FACE
    assert abs(short / 1600 - share) < 5 * (share * (1 - share) / 1600) ** 0.5
    assert next(recipe.rows_of(known, codes, 3)).equal(batches[0])
    assert not next(recipe.rows_of(known, codes, 4)).equal(batches[0])


def test_the_gpt_reads_a_name_and_all_codes():
    """gpt: of the size that its recipe says, one vocabulary of words and codes; the seed draws its weights."""
    model, sizes = recipe.gpt(0), recipe.LETTERS["letters_drawer"].sizes
    assert model.config == GPTConfig(*sizes) and sizes[:2] == (len(recipe.tokenizer()) + 64, recipe.n_tokens() + 64)
    assert same(parts(model), parts(recipe.gpt(0))) and not same(parts(model), parts(recipe.gpt(1)))
    matrices, rest = (group["params"] for group in recipe.muon(model).param_groups)
    assert sorted(map(id, [*matrices, *rest])) == sorted(map(id, model.parameters()))


def test_the_gpt_is_asked_for_the_codes_alone(few, monkeypatch):
    """written, coded: what goes to `fit`; the first steps of a longer training have its rates."""
    given, model = given_to_fit(monkeypatch), recipe.gpt(0)
    recipe.written(model, iter(()), 50)
    recipe.written(model, iter(()), 50, whole=200, progress=True, watch_every=7)
    recipe.written(model, iter(()))
    codes = recipe.vq_vae(0)
    recipe.coded(codes, 0, 50)
    recipe.coded(codes, 0, 50, whole=200, progress=True, watch_every=7)
    recipe.coded(codes, 0)
    for alone, part, usual in ([how for *_, how in given[:3]], [how for *_, how in given[3:]]):
        for step in (0, 20, 49):
            assert alone["schedule"](step, 50) == cosine(step, 50, recipe.WARMUP)
            assert part["schedule"](step, 50) == cosine(step, 200, recipe.WARMUP)
        assert alone["progress"] is False and part["progress"] is True and part["watch_every"] == 7
        assert alone["lr"] == recipe.RATE and alone["device"] == recipe.CPU and alone["steps"] == 50
        assert usual["steps"] in (recipe.DRAW_STEPS, recipe.CODE_STEPS)
    row = torch.randint(20, (2, recipe.n_tokens() + PLACES))
    assert given[0][1](model, row).equal(codes_loss(model, row, PLACES))


@pytest.mark.slow
def test_codes_are_learned_behind_their_words(few):
    """written: two names and their codes by heart."""
    known = some(few["train"], [0, 30])
    codes = torch.tensor([[5], [60]]).expand(2, PLACES)
    model = recipe.gpt(0)
    history = recipe.written(model, recipe.rows_of(known, codes, 0), 30)
    assert history.loss[0] > 4 and history.loss[-1] < 0.5 and not model.training
    assert (recipe.drawn(model, known.texts, temperature=0) == codes).double().mean() > 0.9


def test_drawings_are_codes_drawn_by_the_seed(few):
    """drawn: (B, 64) in range; at temperature 0 every seed draws the same."""
    model, texts = recipe.gpt(0), few["test"].texts[:3]
    codes = recipe.drawn(model, texts)
    assert codes.shape == (3, PLACES) and codes.dtype == torch.int64 and 0 <= codes.min() and codes.max() < CODES
    assert codes.equal(recipe.drawn(model, texts, seed=0)) and not codes.equal(recipe.drawn(model, texts, seed=1))
    cold = recipe.drawn(model, texts, 0.0)
    assert cold.equal(recipe.drawn(model, texts, 0.0, seed=1)) and not cold.equal(codes)
    assert model.training


def test_many_names_are_drawn_in_parts(few, monkeypatch):
    """drawn: one generator for all of them, so that no part repeats another; of a bad name nothing is drawn."""
    given = []
    monkeypatch.setattr(recipe, "draw", lambda model, words, n_codes, n_words, temperature, generator: (
        given.append((len(words), n_codes, n_words, temperature)),
        torch.randint(CODES, (len(words), n_codes), generator=generator))[1])  # fmt: skip
    codes = recipe.drawn(None, ["small e"] * 501, 0.5, seed=3)
    told = (PLACES, len(recipe.tokenizer()), 0.5)
    assert given == [(500, *told), (1, *told)] and codes.shape == (501, PLACES) and len(codes.unique(dim=0)) == 501
    with pytest.raises(ValueError, match="no word"):
        recipe.drawn(None, ["small e"] * 501 + ["large e"])
    assert len(given) == 2


# --- what is right


@pytest.mark.parametrize("n", [1, 5, 40])
def test_the_nearest_image_by_brute_force(n):
    """nearest: which differs least, and the root of the squares' sum; some at a time, and none at all."""
    generator = torch.Generator().manual_seed(n)
    images, among = (torch.rand(count, 1, 32, 32, generator=generator) for count in (7, n))
    squares = (images[:, None] - among).square().flatten(2).sum(dim=2)
    for at_once in (500, 7, 2):
        at, distance = recipe.nearest(images, among, at_once)
        assert at.equal(squares.argmin(dim=1))
        assert_close(distance, squares.amin(dim=1).sqrt(), atol=1e-2, rtol=1e-3)
    at, distance = recipe.nearest(among, among)
    assert at.equal(torch.arange(n)) and distance.max() < 0.1
    assert recipe.nearest(images[:0], among)[0].shape == (0,)
    with pytest.raises((IndexError, RuntimeError)):
        recipe.nearest(images, among[:0])


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_real_letters_are_all_right(split):
    known = some(named(split), slice(None, None, 25))
    assert recipe.judged(known.images, known) == recipe.Judged(1.0, 1.0, 1.0, 1.0)


def a_letter(case, letter, *marks, face="DejaVuSerif-Bold"):
    """The place of such a letter among all."""
    wanted = (case, letter, marks, face)
    return next(n for n, row in enumerate(named(None).rows) if (row.case, row.letter, row.marks, row.face) == wanted)


WRONG = [  # what is drawn where SMALL E WITH ACUTE in serif bold was asked for, and what of it is right
    (("SMALL", "E", "ACUTE"), {}, (1, 1, 1, 1)),
    (("SMALL", "E", "ACUTE"), {"face": "STIXGeneral"}, (1, 1, 1, 0)),
    (("SMALL", "E", "GRAVE"), {}, (0, 1, 0, 1)),
    (("SMALL", "E"), {}, (0, 1, 0, 1)),
    (("SMALL", "O", "ACUTE"), {}, (0, 0, 1, 1)),
    (("CAPITAL", "E", "ACUTE"), {}, (0, 0, 1, 1)),
    (("CAPITAL", "Z", "CARON"), {"face": "DejaVuSansMono-Oblique"}, (0, 0, 0, 0)),
]


def test_each_part_of_a_name_is_judged_apart():
    """rightly, judged: another letter or case is wrong in "letter", another face in "face" alone, and so on."""
    asked = some(named(None), [a_letter("SMALL", "E", "ACUTE")] * len(WRONG))
    images = named(None).images[[a_letter(*parts, **how) for parts, how, _ in WRONG]]
    wanted = [[bool(one) for one in column] for column in zip(*(right for *_, right in WRONG), strict=True)]
    assert [recipe.rightly(images, asked, part) for part in recipe.PARTS] == wanted
    assert recipe.rightly(images, asked) == wanted[0]
    assert recipe.judged(images, asked) == tuple(sum(column) / len(WRONG) for column in wanted)
    blurred = (0.8 * images + 0.1).clamp(0, 1)  # who is a little off is still nearest to the same
    assert recipe.rightly(blurred, asked) == wanted[0]


def test_as_many_drawings_as_names_are_judged():
    known = some(named("test"), [0, 1])
    with pytest.raises(ValueError, match="zip"):
        recipe.rightly(known.images[:1], known)
    with pytest.raises(KeyError):
        recipe.rightly(known.images, known, "colour")


# --- a CLIP that picks


def test_an_image_fits_its_own_name(few):
    """fits: the cosine of each image with its own name and no other; the model stays in its mode."""
    model, known = recipe.picker(0), few["test"]
    found = recipe.fits(model, known.images, known.texts)
    with torch.no_grad():
        cosines = model.image_features(known.images) @ model.text_features(recipe.word_ids(known.texts)).T
    assert found.shape == (len(known.rows),) and not found.requires_grad and model.training
    assert_close(found, cosines.diag(), atol=1e-5, rtol=1e-5)
    assert found.abs().max() <= 1 + 1e-5
    assert same(parts(model), parts(recipe.picker(0))) and not same(parts(model), parts(recipe.picker(1)))


def test_the_stored_clip_tells_a_name_from_another():
    model, known = load("letters_clip")[0], some(named("test"), slice(None, None, 20))
    own, other = (recipe.fits(model, images, known.texts) for images in (known.images, known.images.roll(7, 0)))
    assert (own > other).double().mean() > 0.9 and own.mean() > other.mean() + 0.2


def test_the_clip_learns_each_image_with_its_name(few, monkeypatch):
    """picked: images of the training names, each beside its own words; right are all whose words are equal."""
    given, model = given_to_fit(monkeypatch), recipe.picker(0)
    recipe.picked(model, 3)
    [(batches, loss, how)] = given
    images, words, right = batch = next(batches)
    known = few["train"]
    place = {image.numpy().tobytes(): n for n, image in enumerate(known.images)}
    at = [place[image.numpy().tobytes()] for image in images]
    assert [read(row) for row in words.tolist()] == [known.texts[n] for n in at] and len(at) == 2 * recipe.BATCH
    at = torch.tensor(at)
    assert right.equal(at[:, None] == at) and loss(model, batch).isfinite()
    assert how["steps"] == recipe.PICK_STEPS and how["lr"] == recipe.RATE and how["device"] == recipe.CPU


# --- what is stored


@pytest.mark.parametrize("name", recipe.LETTERS)
def test_a_recipe_makes_a_model_of_its_size_and_its_file_is_whole(name):
    one, (model, record) = recipe.LETTERS[name], load(name)
    assert stored.RECIPES[name] is one and not model.training
    shapes = [{key: part.shape for key, part in made.state_dict().items()} for made in (model, one.model_of({}))]
    assert shapes[0] == shapes[1]
    assert record["weights"] == sum(p.numel() for p in model.parameters())
    assert record["seed"] == one.seed and one.seed not in range(5)  # of a seed that no record holds
    assert record["recipe"]["sizes"] == list(one.sizes) and record.keys() >= one.MEASURED | stored.RECORD
    steps = [step for step, _ in record["curve"]]
    assert steps[0] == 0 and steps[-1] == record["steps"] == one.steps
    assert all(part.isfinite().all() for part in model.state_dict().values())
    assert (CHECKPOINTS / f"{name}.safetensors").stat().st_size < 1e6


def test_letters_survive_the_stored_codes(codes_model):
    """letters_codes: letters of new names, painted from their codes, are near and still themselves."""
    record, known = load("letters_codes")[1], some(named("test"), slice(None, None, 17))
    images = recipe.painted(codes_model, recipe.codes_of(codes_model, known.images))
    assert recipe.judged(images, known).right > max(0.9, record["test_right"] - 0.06)
    assert (images - known.images).square().mean().item() == pytest.approx(record["test_error"], rel=0.25)
    errors = [error for _, error in record["curve"]]
    assert errors[-1] < 0.1 * errors[0]


@pytest.mark.slow
def test_the_stored_drawer_has_learned_its_codes(codes_model):
    """letters_drawer: as surprised by letters of new names as its record says; a learned letter is drawn as itself."""
    (model, record), known = load("letters_drawer"), some(named("test"), slice(None, None, 7))
    rows = row_of(recipe.word_ids(known.texts), recipe.codes_of(codes_model, known.images), len(recipe.tokenizer()))
    found = nats(model, rows, PLACES) / PLACES
    assert abs(found.mean() - record["test_nats"]) < max(0.02, 5 * found.std() / len(found) ** 0.5)
    assert record["test_nats"] < 0.5 * record["curve"][0][1] and record["curve"][0][1] > math.log(CODES)
    asked = some(named("train"), slice(None, None, 200))
    images = recipe.painted(codes_model, recipe.drawn(model, asked.texts, temperature=0))
    assert recipe.judged(images, asked).letter > 0.5


def test_the_stored_clip_is_worth_what_its_record_says():
    (model, record), known = load("letters_clip"), named("validation")
    with torch.no_grad():
        found = model(known.images, recipe.word_ids(known.texts)).argmax(dim=1) == torch.arange(len(known.rows))
    assert abs(found.double().mean() - record["curve"][-1][1]) <= 3 / len(known.rows)
    assert record["curve"][0][1] < 0.02 and 0 < record["test_found"] - 0.5 < 0.5


def measured(name, model, known, codes_model):
    """What a recipe measures, by hand."""
    ids = recipe.word_ids(known.texts)
    if name == "letters_drawer":
        rows = row_of(ids, codes_model.encode(known.images), len(recipe.tokenizer()))
        return {"test_nats": nats(model, rows, PLACES).mean().item() / PLACES}
    with torch.no_grad():
        if name == "letters_clip":
            found = model(known.images, ids).argmax(dim=1) == torch.arange(len(ids))
            return {"test_found": found.double().mean().item()}
        images = model.paint(model.encode(known.images))
    error = (images - known.images).square().mean().item()
    return {"test_error": error, "test_right": recipe.judged(images, known).right}


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe.LETTERS)
def test_a_run_makes_a_model_that_comes_back(few, codes_model, tmp_path, monkeypatch, name):
    """What `stored` keeps of a short run: the first steps of all, and what is measured on new names, worked by hand."""
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
    monkeypatch.setattr(stored, "load", lambda name: (codes_model, {}))  # whose codes the GPT learns
    threads, one, rates, fit = torch.get_num_threads(), recipe.LETTERS[name], [], recipe.fit
    monkeypatch.setattr(recipe, "fit", lambda *what, **how: rates.append(how["schedule"](30, 2)) or fit(*what, **how))
    try:
        model, record = train(name, steps=2, progress=False)
    finally:
        torch.set_num_threads(threads)
    if name != "letters_clip":  # which has never been trained in part
        assert rates == [cosine(30, one.steps, recipe.WARMUP)]
    assert record.keys() >= one.MEASURED | stored.RECORD and [step for step, _ in record["curve"]] == [0, 2]
    assert {key: record[key] for key in one.MEASURED} == pytest.approx(
        measured(name, model, few["test"], codes_model), rel=1e-3
    )
    save(name, model, record)
    monkeypatch.setattr(stored, "load", load)
    back, again = load(name)
    assert again == json.loads(json.dumps(record)) and not back.training
    kept = model.state_dict()
    assert all(weight.equal(kept[key].half().float()) for key, weight in back.state_dict().items())
    card = cards().partition(f"`{name}`\n")[2]
    assert one.result(record) in card and f"2 steps of {one.batches_in_words()}, " in card

"""recipes/glyph_captions.py and the parts of its experiments: batches, what is right, who looks where; a few steps."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.data.glyph_names import named, names
from course_lib.multimodal.one_stream import OneStream
from course_lib.multimodal.two_streams import TwoStreams
from course_lib.text.pairs import END, PADDING, START, UNKNOWN
from course_lib.workshop.experiments.images_and_words.captions import blinded, mark_of, marked, others, seen, shuffled
from course_lib.workshop.recipes import glyph_captions as ours
from course_lib.workshop.recipes.glyph_names import name_ids, tokenizer
from course_lib.workshop.recipes.stored import load


@pytest.fixture(scope="module")
def known():
    """120 letters of the part "train", spread over it, with grids that an untrained network makes of them."""
    torch.manual_seed(0)
    some = ours.chosen(named("train"), list(range(0, 9000, 75)))
    return ours.looked_at(ours.Spotter().eyes, some)


def counted(model):
    return sum(weight.numel() for weight in model.parameters())


def test_captioners_and_streams_have_as_many_parameters():
    """captioner, stream."""
    assert abs(counted(ours.captioner(None)) / counted(ours.captioner("dot")) - 1) < 0.01
    one, two = (ours.reached(ours.stream(kind)) for kind in (OneStream, TwoStreams))
    assert abs(two / one - 1) < 0.01


@pytest.mark.parametrize("kind", [OneStream, TwoStreams])
def test_so_many_parameters_of_a_stream_get_a_gradient(known, kind):
    """reached."""
    model = ours.stream(kind)
    ours.word_loss(model, next(ours.hidden_words(known, 8))).backward()
    assert ours.reached(model) == sum(w.numel() for w in model.parameters() if w.grad is not None)


def test_bags_are_the_words_of_names():
    """bags: spelled again, START and END are no words."""
    for n in (0, 700, 1503):
        words = {tokenizer().vocab[i] for i in ours.bags()[n].nonzero()[:, 0].tolist()}
        assert words == {word if word in tokenizer().vocab else "<unk>" for word in tokenizer().split(names()[n])}


def test_batches_of_captions(known):
    """captions: one name a row, later by one word; deaf: about half of the words read, and no word written, is lost."""
    images, read, write = next(ours.captions(known, 40, seed=3))
    assert images.shape == (40, 64, 8, 8) and read.shape == write.shape and (read[:, 0] == START).all()
    _, deaf, same = next(ours.captions(known, 40, seed=3, deaf=0.5))
    assert torch.equal(write, same)
    lost = (deaf == UNKNOWN) & (read != UNKNOWN)
    assert torch.equal(deaf[~lost], read[~lost]) and not lost[:, 0].any()
    assert 0.35 < lost.sum() / ours.is_word(read).sum() < 0.65
    at = {tuple(name) for name in name_ids()[known.own].tolist()}
    whole = torch.cat([read[:, :1], write], dim=1)
    width = name_ids().shape[1]
    assert all((*row, *[PADDING] * (width - len(row))) in at for row in whole.tolist())


def test_batches_of_hidden_words(known):
    """hidden_words: one at least, 30 in 100 of the rest; start, end and padding never; the answers are the words."""
    hidden = torch.zeros(0)
    for _, (images, ids, mask, answers) in zip(range(3), ours.hidden_words(known, 40, seed=1), strict=False):
        chosen = ids == ours.mask_id()
        assert chosen.any(dim=1).all() and torch.equal(chosen, answers != PADDING)
        whole = torch.where(chosen, answers, ids)
        assert torch.equal(mask, whole != PADDING) and ours.is_word(whole)[chosen].all() and len(images) == 40
        hidden = torch.cat([hidden, chosen[ours.is_word(whole)].float()])
    assert 0.25 < hidden.mean() < 0.42


@pytest.mark.parametrize("written, right, parts", [
    ("LATIN SMALL LETTER E WITH ACUTE", ["LATIN SMALL LETTER E WITH ACUTE"], "exact case letter marks"),
    ("LATIN SMALL LETTER E WITH GRAVE", ["LATIN SMALL LETTER E WITH ACUTE"], "case letter"),
    ("LATIN SMALL LETTER E", ["LATIN SMALL LETTER E WITH ACUTE"], "case letter"),
    ("GREEK SMALL LETTER E WITH ACUTE", ["LATIN SMALL LETTER E WITH ACUTE"], "case marks"),
    ("LATIN SMALL LETTER E WITH ACUTE AND DOT BELOW", ["LATIN SMALL LETTER E WITH DOT BELOW AND ACUTE"],
     "case letter marks"),
    ("GREEK CAPITAL LETTER ALPHA", ["LATIN CAPITAL LETTER A", "GREEK CAPITAL LETTER ALPHA"], "exact case letter marks"),
    ("LETTER LETTER", ["LATIN SMALL LETTER E WITH ACUTE"], ""),
    ("LATIN SMALL LETTER E , ACUTE", ["LATIN SMALL LETTER E, ACUTE"], "exact case letter marks"),
])  # fmt: skip
def test_what_is_right_of_a_name(written, right, parts):
    """right_parts: any of the image's names; a letter of another script is another letter; marks in any order."""
    assert {part for part, yes in ours.right_parts(written, right).items() if yes} == set(parts.split())


def test_shares_of_what_is_right(known):
    """judged, right_names: marks are counted where there are some."""
    true = [names()[n] for n in known.own.tolist()]
    assert set(ours.judged(true, known).values()) == {1.0}
    bare = [name.partition(" WITH ")[0] for name in true]
    marked = sum(bool(row.marks) for row in known.rows)
    found = ours.judged(bare, known)
    assert found["marks"] == 0 and found["letter"] == found["case"] == 1.0
    assert found["exact"] == pytest.approx(1 - marked / len(true), abs=0.02)


def test_who_asks_for_a_word_gets_its_place(known):
    """blanks, asked, Asked.right, Asked.at: the word, and names that are right with another word in its place."""
    for part, index in (("case", 4), ("letter", 5), ("mark", 6)):
        these = ours.asked(known, part)
        words = these.ids.gather(1, these.place[:, None])[:, 0]
        for row, word in zip(these.known.rows, words.tolist(), strict=True):
            wanted = row[index][0] if part == "mark" else row[index]
            assert tokenizer().vocab[word] == wanted
        assert these.right(words).all() and not these.right(torch.full_like(words, END)).any()
        logits = torch.zeros(*these.ids.shape, ours.mask_id() + 1).scatter(2, these.ids[..., None], 1.0)
        assert torch.equal(these.at(logits).argmax(1), words)
        assert torch.equal(these.at(logits.roll(-1, 1), before=1).argmax(1), words)
    alike = next(n for n, row in enumerate(named("train").rows) if row.name == "LATIN CAPITAL LETTER A" and row.alike)
    these = ours.asked(ours.chosen(named("train"), [alike]), "letter")
    assert not these.right(
        torch.tensor([tokenizer().encode("ALPHA")[0]])
    ).any()  # LATIN CAPITAL LETTER ALPHA is another


@pytest.mark.slow
@pytest.mark.parametrize("make, data, loss", [
    (lambda: ours.captioner("dot"), ours.captions, ours.caption_loss),
    (lambda: ours.captioner(None), ours.captions, ours.caption_loss),
    (lambda: ours.stream(OneStream), ours.hidden_words, ours.word_loss),
    (lambda: ours.stream(TwoStreams), ours.hidden_words, ours.word_loss),
], ids=["grid", "vector", "one stream", "two"])  # fmt: skip
def test_a_few_steps_make_it_better(known, make, data, loss):
    """learned, and what is asked of a trained model: foretold, written; filled. The same seed gives the same losses."""
    losses = []
    for _ in range(2):
        torch.manual_seed(0)
        model, history = ours.learned(make(), data(known, 20), loss, 12)
        losses.append(history.loss)
    assert losses[0] == losses[1] and sum(history.loss[-3:]) < sum(history.loss[:3])
    these = ours.asked(known, "case")
    if data is ours.hidden_words:
        assert 0 <= ours.filled(model, these) <= 1
    else:
        assert 0 <= ours.foretold(model, these) <= 1 and len(ours.written(model, known.images[:7])) == 7
        assert not model.training


@pytest.mark.parametrize("make", [lambda: ours.captioner("dot"), lambda: ours.stream(TwoStreams)])
def test_the_optimiser_has_every_weight_that_learns_once(make):
    """every_matrix: layers are matrices; tables, places, readouts, biases and norms not; what is frozen is in none."""
    model = make()
    matrices, rest = (group["params"] for group in ours.every_matrix(model).param_groups)
    learn = [weight for weight in model.parameters() if weight.requires_grad]
    assert sorted(map(id, matrices + rest)) == sorted(map(id, learn))
    names_of = {id(weight): name for name, weight in model.named_parameters()}
    found = {names_of[id(weight)] for weight in matrices}
    assert all("weight" in name and "words." not in name and "readout" not in name for name in found)
    if make().__class__.__name__ == "Captioner":
        assert found == {"places.weight", "decoder.combine.weight", "decoder.rnn.fused.weight_ih_l0",
                         "decoder.rnn.fused.weight_hh_l0"}  # fmt: skip
        assert not model.begin.weight.requires_grad
        assert torch.equal(model.begin.weight, ours.taught_spotter().see.weight)
    else:
        assert len(found) == 1 + 2 * 4 * 6, "the patches' layer, and of two layers four blocks each"


@pytest.mark.slow
def test_another_image_is_another_letters():
    """others, shuffled: half of a list away stands the same letter in another face; drawn, hardly ever."""
    these = ours.asked(seen("new faces"), "letter")
    order = shuffled(len(these.place))
    assert torch.equal(order.sort().values, torch.arange(len(order)))
    same = [one.letter == these.known.rows[n].letter for one, n in zip(these.known.rows, order.tolist(), strict=True)]
    assert sum(same) < 0.1 * len(same)
    assert torch.equal(others(these), these.known.images[order])


@pytest.mark.slow
def test_a_spotter_learns_which_words_a_name_has():
    """Spotter, spotter_loss, spotted: twelve letters by heart; the recipe's data."""
    torch.manual_seed(0)
    some = ours.chosen(named("train"), list(range(0, 9000, 750)))
    words = ours.bags()[some.own]
    model = ours.Spotter()
    before = ours.spotter_loss(model, (some.images, words))
    ours.learned(model, iter(lambda: (some.images, words), None), ours.spotter_loss, 40)
    assert ours.spotter_loss(model, (some.images, words)) < before / 5
    assert ours.spotted(model, some.images, words) > 0.8
    images, bags = ours.images_and_words("validation")
    assert len(images) == len(bags) and bags.shape[1] == len(tokenizer())


def test_a_mark_is_what_the_letter_alone_has_not():
    """mark_of: moved sideways; None where the letter itself is another, and where nothing is left."""
    letter = torch.zeros(32, 32)
    letter[15:25, 10:20] = 1.0
    image = letter.roll(2, 1)
    image[8:10, 16:19] = 0.9
    part = torch.zeros(32, 32, dtype=torch.bool)
    part[8:10, 16:19] = True
    assert torch.equal(mark_of(image, letter), part)
    assert mark_of(letter, letter) is None
    image[18:22] = 0
    assert mark_of(image, letter) is None


@pytest.mark.slow
def test_who_may_not_look_at_the_mark():
    """blinded, foretold: a captioner that knows the mark only by its places does not, without them, know it."""
    these, mark, alone = marked("new names")
    assert len(these.place) == len(mark) == len(alone) > 300
    above = torch.tensor([row.marks[0] in ("ACUTE", "GRAVE", "MACRON", "TILDE", "CARON") for row in these.known.rows])
    rows = mark.float().mean(2) * torch.arange(32.0)
    heights = rows.sum(1) / mark.float().mean(2).sum(1)
    letter_heights = (alone[:, 0].mean(2) * torch.arange(32.0)).sum(1) / alone[:, 0].mean(2).sum(1)
    assert (heights[above] < letter_heights[above]).double().mean() > 0.95, "these marks stand above"
    assert 0.004 < mark.double().mean() < 0.06
    torch.manual_seed(0)
    shares = blinded(ours.captioner("dot"), these, mark, alone)
    assert set(shares) == {"seen", "hidden", "hidden elsewhere", "erased"}
    assert all(0 <= share <= 1 for share in shares.values())


def test_grids_stand_in_the_place_of_images(known):
    """looked_at, Given: the eyes themselves before a captioner give what grids made before give."""
    torch.manual_seed(0)
    eyes, model = ours.Spotter().eyes.eval(), ours.captioner("dot").eval()
    target = torch.tensor([[START, 5, 6]])
    given = model(known.images[:1], target)[0]
    model.backbone = eyes
    eyes.width = ours.Given.width
    image = ours.chosen(named("train"), [0]).images
    assert_close(model(image, target)[0], given, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_the_stored_spotter_is_worth_what_its_record_says():
    """SPOTTER: measured again; and it is far above chance, among 1,504 names."""
    model, record = load(ours.SPOTTER)
    for part, share in ours.measure_words(model).items():
        assert share == pytest.approx(record[part], abs=0.01) and share > 0.1

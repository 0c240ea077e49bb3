"""Two readers of words that answer in lesson 04's page, held to the library's own; and the page around them."""

import pytest
import torch

from course_lib.data import sounds
from course_lib.text.pairs import END, START
from course_lib.workshop.publish import alive
from course_lib.workshop.recipes.sounds import LONGEST, reads_aloud

from .test_accessibility import MEASURE, MISSED, REACHED
from .test_alive import halved

((NAME, CELLS),) = alive.SAID.items()
(LIVE,) = CELLS.values()
MODELS = (LIVE.model.name, LIVE.beside.name)
SAY = """async ([name, words, longest]) => {
  const model = await alive.open(name);
  const say = (word) => new Promise((done) => model.ask({ ask: "say", word, longest }, done));
  const found = [];
  for (const word of words) {
    const { sounds, logits, weights } = await say(word);
    found.push({ sounds, logits: logits.map((row) => [...row]), weights: weights.map((row) => [...row]) });
  }
  return found; }"""


def fifty():
    """Words of one letter, the longest of the test split, with double letters, of none at all, and what is no word."""
    words = [row.word for row in sounds.words("test")]
    longest = sorted(words, key=lambda word: (-len(word), word))[:10]
    double = [word for word in words if any(a == b for a, b in zip(word, word[1:], strict=False))][:12]
    odd = ["", "aaaaaaaaaaaa", "x" * 60, "qqqq", "zxcvbnm", "don't", "naïve", "Word", "two words", "日本"]
    return list(dict.fromkeys([*odd, *"aeiouyxwq", *longest, *double, *words[:: len(words) // 40]]))[:50]


@pytest.fixture(scope="module")
def lesson(answering):
    """The address of a page with the lesson's control at which the networks answer."""
    return (answering / f"{NAME}.html").as_uri()


@pytest.fixture
def page(lesson, page_from_disk, console_errors):
    page_from_disk.goto(lesson)
    yield page_from_disk
    assert console_errors == []


@pytest.mark.parametrize("name", MODELS)
def test_fifty_words_are_said_as_the_library_says_them(page, name):
    """The same sounds, logits within 1e-3 at every step, and the looks of the network that has attention."""
    model, _ = halved(name)
    speaker, words = reads_aloud(model), fifty()
    assert len(words) == len({*words}) == 50
    for word, found in zip(words, page.evaluate(SAY, [name, words, LONGEST]), strict=True):
        (wanted,) = speaker.translate([word], max_len=LONGEST)
        assert found["sounds"] == wanted, word
        if not word:
            assert found["logits"] == []
            continue
        ids = speaker.writes.encode(wanted).tolist()
        with torch.no_grad():
            logits, weights = model(speaker.reads.encode(word)[None], None, torch.tensor([[START, *ids][:LONGEST]]))
        assert (torch.tensor(found["logits"]) - logits[0]).abs().max() < 1e-3, word
        assert (weights is None) == (found["weights"] == [])
        if weights is not None:
            assert (torch.tensor(found["weights"]) - weights[0]).abs().max() < 1e-4, word


@pytest.mark.parametrize("name", MODELS)
def test_a_word_that_has_not_ended_is_cut(page, name):
    model, _ = halved(name)
    words = fifty()
    for longest in (1, 3):
        found, speaker = page.evaluate(SAY, [name, words, longest]), reads_aloud(model)
        assert [one["sounds"] for one in found] == [speaker.translate([word], max_len=longest)[0] for word in words]
        assert sum(len(one["logits"]) == longest for one in found) > 25
        assert any(torch.tensor(one["logits"][-1]).argmax() != END for one in found if one["logits"])


def woken(page):
    page.locator("section.alive .begin").press("Enter")
    said = page.locator("section.alive [role=status]")
    said.filter(has_text="Said with attention").wait_for()
    return said


def test_a_word_is_typed_and_said_by_both(page):
    """What stands there is what the library says, whatever that is."""
    said, told = woken(page), {name: reads_aloud(halved(name)[0]) for name in MODELS}
    assert not page.locator("article img").is_visible() and page.evaluate("document.activeElement.className") == "word"
    for typed, word in (("Knight 9", "knight"), ("bookkeeper", "bookkeeper")):
        page.keyboard.press("Control+a")
        page.keyboard.type(typed)
        one, two = (" ".join(told[name].translate([word], max_len=LONGEST)[0]) or "nothing" for name in MODELS)
        said.filter(
            has_text=f"Said with attention: {one}. With one vector between reading and writing: {two}."
        ).wait_for()
        assert page.locator(".threads thead th").all_inner_texts() == [*word]
    rows = page.locator(".threads tbody tr")
    assert rows.count() == len(one.split())
    slider = page.get_by_role("slider", name="sound")
    slider.press("End")
    assert "looks" in rows.last.get_attribute("class").split()
    assert slider.get_attribute("aria-valuetext").startswith(
        f"{rows.count()} of {rows.count()}: {one.split()[-1]} looks at"
    )
    rows.first.click()
    assert slider.input_value() == "0" and "looks" in rows.first.get_attribute("class").split()
    page.locator(".word").fill("12")
    said.filter(has_text="Type a word of letters, a to z.").wait_for()
    assert rows.count() == 0 and slider.is_disabled()


def test_nothing_of_it_is_hard_to_see_or_to_reach(page):
    woken(page)
    page.locator(".word").fill("mischaracterizations")
    page.locator(".threads thead th").nth(19).wait_for()
    for width in (1440, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(MEASURE) == [], (width, theme)
    for key in ("Tab", "Shift+Tab"):  # of the narrow page, which has all that the wide one has
        for _ in range(40):
            page.keyboard.press(key)
            page.evaluate(REACHED)
    assert [missed for missed in page.evaluate(MISSED) if "back-to-top" not in missed] == []


def test_without_workers_the_picture_stands_and_a_sentence_says_so(page, lesson):
    page.add_init_script("delete globalThis.Worker")
    page.goto(lesson)
    assert "What is above stands for it." in page.locator("section.alive [role=status]").inner_text()
    assert page.locator("article img").is_visible() and not page.locator("section.alive button").first.is_visible()

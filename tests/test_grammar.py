"""The grammar corpus: pairs and their alignment, splits without leaks, draws alike everywhere, broken rules refused.

That its French and its English are right is shown in test_grammar_french.py.
"""

import re
import shutil
import subprocess
import sys
from functools import cache
from random import Random

import datasets
import pytest

from course_lib.data import SPLITS, Pair, grammar, read_card
from course_lib.data.grammar.derive import Grammar
from course_lib.data.grammar.features import GrammarError


@cache
def drawn():
    """Three hundred pairs of each split, drawn when the first test asks for them."""
    return {split: grammar.pairs(split, 300) for split in SPLITS}


def every_pair():
    return [pair for split in SPLITS for pair in drawn()[split]]


def text(pair):
    return grammar.join(pair.source), grammar.join(pair.target)


def links(pair):
    return [(pair.source[i], pair.target[j]) for i, j in pair.alignment]


# Drawing


@pytest.mark.slow
def test_the_draws_are_pinned():
    assert grammar.checksum() == "00def64e731a6b4075277137a54f7f933c27defa347c85f0b85b96164914e118"


@pytest.mark.slow
def test_a_draw_is_a_function_of_its_seed_and_fewer_are_the_first_of_more():
    assert grammar.pairs("test", 40) == grammar.pairs("test", 60)[:40]
    other = grammar.pairs("test", 40, seed=1)
    assert other != grammar.pairs("test", 40)
    grammar._stream.cache_clear()
    assert grammar.pairs("test", 40, seed=1) == other  # the same, drawn anew
    grammar.pairs("train", 30, seed=2)
    assert grammar.pairs("test", 40, seed=1) == other


@pytest.mark.slow
@pytest.mark.parametrize("most", [5, 8, 20, 40])
def test_a_sentence_has_five_words_to_the_most_that_are_asked_for(most):
    lengths = [len(pair.source) for pair in grammar.pairs("train", 200, most)]
    assert 5 <= min(lengths) and max(lengths) <= most
    if most >= 20:  # and short, middling and long ones all occur
        assert {n // 5 for n in lengths} >= set(range(1, most // 5))


@pytest.mark.slow
def test_pairs_are_whole_and_all_different():
    assert len({text(pair)[0] for pair in every_pair()}) == len(every_pair())
    for pair in every_pair():
        assert isinstance(pair, Pair)
        assert pair.source[-1] == pair.target[-1] == "."
        assert all(re.fullmatch(r"[\w',.]+", token) and token == token.lower() for token in pair.source + pair.target)
        assert pair.alignment == sorted(set(pair.alignment))
        assert all(0 <= i < len(pair.source) and 0 <= j < len(pair.target) for i, j in pair.alignment)


@pytest.mark.slow
@pytest.mark.parametrize("size", [300, pytest.param(1500, marks=pytest.mark.full)])
def test_an_english_sentence_has_one_french_translation(size):
    said = {}
    for n in range(4):
        for pair in grammar.pairs("train", size, (8, 12, 20, 40)[n], seed=n):
            source, target = text(pair)
            assert said.setdefault(source, target) == target


def test_what_a_caller_does_to_the_pairs_stays_with_the_caller():
    spoilt = grammar.pairs("test", 3)
    spoilt[0].source.clear()
    spoilt[0].alignment.append((0, 0))
    assert grammar.pairs("test", 3) == drawn()["test"][:3]


def test_load_gives_the_pairs_as_a_dataset():
    loaded = grammar.load({"train": 50, "validation": 20, "test": 20})
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    for split in SPLITS:
        rows = loaded[split]
        assert rows.column_names == ["source", "target", "source_tokens", "target_tokens", "alignment"]
        assert len(rows) == (50 if split == "train" else 20)
        for row, pair in zip(rows, drawn()[split], strict=False):
            assert (row["source"], row["target"]) == text(pair)
            assert row["source_tokens"] == pair.source and row["target_tokens"] == pair.target
            assert row["alignment"] == [list(link) for link in pair.alignment]


def test_pairs_need_no_heavy_import():
    heavy = {"datasets", "torch", "numpy", "pandas", "yaml"}
    code = "import sys; from course_lib.data import grammar; grammar.pairs('test', 2); "
    code += f"print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("call, message", [
    (lambda: grammar.pairs("dev"), "'train', 'validation' or 'test', not 'dev'"),
    (lambda: grammar.pairs("test", 0), "whole number, 1 or more, not 0"),
    (lambda: grammar.pairs("test", 2.5), "whole number, 1 or more, not 2.5"),
    (lambda: grammar.pairs("test", 2, max_words=4), "from 5 to 40, not 4"),
    (lambda: grammar.pairs("test", 2, max_words=41), "from 5 to 40, not 41"),
    (lambda: grammar.pairs("test", 2, seed="a"), "seed must be a whole number, not 'a'"),
    (lambda: grammar.load({"dev": 3}), r"sizes names the splits .* not \["),
    (lambda: grammar.generate(Random(0), 2), "max_words is 2, but no sentence has fewer than 3 tokens"),
    (lambda: grammar.unknown("the cat", "de"), "language must be 'en' or 'fr', not 'de'"),
    (lambda: grammar.tokenize("the cat", "de"), "language must be 'en' or 'fr', not 'de'"),
])  # fmt: skip
def test_what_cannot_be_asked_for_is_refused_in_words(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
def test_more_sentences_than_there_are_are_refused(monkeypatch):
    monkeypatch.setattr(grammar, "PATIENCE", 3)
    stream = grammar._Stream(5, 0)
    with pytest.raises(ValueError, match="of at most 5 words: 1,000,000 are too many"):
        stream.take("test", 1_000_000)


# Splitting


def bare(tokens):
    """A sentence without its names and numbers: what may vary freely."""
    prepared = grammar.grammar().prepared.words
    free = {word.english[0] for category in ("Name", "City", "Number") for word in prepared[category]}
    return " ".join("_" if token in free else token for token in tokens)


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, pytest.param(400, marks=pytest.mark.full)])
def test_no_sentence_is_in_two_splits_not_even_with_other_names_and_numbers_nor_under_another_seed(size):
    seen = {split: set() for split in SPLITS}
    for most, seed in ((6, 0), (8, 1), (12, 2), (40, 0)):  # short ones would meet first
        for split in SPLITS:
            seen[split] |= {bare(pair.source) for pair in grammar.pairs(split, size, most, seed)}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]
    assert not seen["validation"] & seen["test"]


@pytest.mark.slow
def test_the_split_hangs_on_nouns_adjectives_and_verbs_alone():
    rng = Random(3)
    words = grammar.grammar().prepared.words
    content = {word.lemma for category in ("Noun", "Before", "After", "Colour", "Nation", "Field", "Verb")
               for word in words[category]}  # fmt: skip
    counts = dict.fromkeys(SPLITS, 0)
    for _ in range(1000):
        sentence = grammar.generate(rng, 20)
        assert set(sentence.content) <= content  # "we are in lisbon ." has none, and so all of its like are together
        counts[grammar.split_of(sentence.content)] += 1
    assert 750 < counts["train"] < 850 and 70 < counts["validation"] < 130 and 70 < counts["test"] < 130


@pytest.mark.slow
def test_every_word_of_the_held_out_splits_is_known_from_train():
    train = {token for pair in grammar.pairs("train", 6000) for token in pair.source}
    for split in ("validation", "test"):
        assert {token for pair in grammar.pairs(split, 400) for token in pair.source} <= train


# Alignment


def find(pattern, size=1500, most=20):
    """The first pair whose English matches."""
    for pair in grammar.pairs("train", size, most):
        if re.search(pattern, text(pair)[0]):
            return pair
    raise AssertionError(f"no sentence with {pattern}")


@pytest.mark.slow
@pytest.mark.parametrize("pattern, wanted", [
    (r"\bdid not\b", [("did", "{avoir}"), ("not", "{ne}"), ("not", "pas")]),
    (r"\bdoes not\b", [("not", "{ne}"), ("not", "pas")]),
    (r"\bno longer\b", [("no", "{ne}"), ("no", "plus"), ("longer", "{ne}"), ("longer", "plus")]),
    (r"\bnever\b", [("never", "{ne}"), ("never", "jamais")]),
    (r"\bbecause\b", [("because", "parce"), ("because", "{que}")]),
    (r"\bto the (market|museum|theatre|restaurant)\b", [("to", "au"), ("the", "au")]),
    (r"\blast year\b", [("last", "dernière"), ("year", "année")]),
    (r"\bwho\b", [("who", "qui")]),
    (r"\bbus driver", [("bus", "bus"), ("driver", "chauffeur"), ("drivers", "chauffeurs")]),
    (r"\bthere is a\b", [("there", "il"), ("there", "y"), ("is", "a")]),
])  # fmt: skip
def test_words_are_aligned_with_what_says_the_same(pattern, wanted):
    found = links(find(pattern))
    auxiliaries = set("ai a avons avez ont suis est sommes êtes sont".split())
    forms = {"{ne}": {"ne", "n'"}, "{que}": {"que", "qu'"}, "{avoir}": auxiliaries}
    for word, other in wanted:
        if word in {w for w, _ in found} | {"did"}:
            assert {(word, form) for form in forms.get(other, {other})} & set(found), (word, other, found)


@pytest.mark.slow
def test_a_compound_reverses_and_so_does_its_alignment():
    rng = Random(0)
    drawn = (grammar.generate(rng, 12).pair for _ in range(100_000))
    pair = next(p for p in drawn if re.search(r"\b(european|national) (economic|political) \w+", text(p)[0]))
    start = next(i for i, token in enumerate(pair.source) if token in ("european", "national"))
    places = [next(j for i, j in pair.alignment if i == start + n) for n in range(3)]
    assert places == sorted(places, reverse=True) and places[0] - places[2] == 2


def test_a_contraction_says_two_words_and_one_word_may_be_two():
    both = [pair for pair in every_pair() if {("to", "au"), ("the", "au")} <= set(links(pair))]
    assert both
    for pair in both:
        assert any(
            {pair.source[i] for i, other in pair.alignment if other == j} == {"to", "the"}
            for j, token in enumerate(pair.target) if token == "au"
        )  # fmt: skip
    slept = {french for english, french in links(find(r"\bslept\b")) if english == "slept"}
    assert "dormi" in slept and slept & set("ai a avons avez ont".split())


def test_words_without_a_counterpart_stay_alone():
    """Every noun, verb, adjective and name is aligned; only small words may not be."""
    lonely = set()
    for pair in every_pair():
        lonely |= {pair.source[i] for i in set(range(len(pair.source))) - {i for i, _ in pair.alignment}}
        lonely |= {pair.target[j] for j in set(range(len(pair.target))) - {j for _, j in pair.alignment}}
    assert lonely <= set("do does a an de d' des du la le les l' à aux au dans me m' nous vous se s'".split())
    assert {"does", "de", "des", "se"} <= lonely


# What the grammar covers


@pytest.mark.slow
@pytest.mark.parametrize("what, french", [
    ("before a vowel", r"\b(bel|vieil|nouvel) [aeéhio]"), ("adjective before", r"\b(petite|grande|jolie)s? \w+e"),
    ("adjective after", r"\b\w+s (rouges|vertes|blanches|noires|grises)\b"), ("stone bridge", r" de (pierre|marbre)\b"),
    ("contraction", r"\b(du|au|aux)\b"), ("elision", r"\b(l|d|j|n|m|qu|s)'"), ("s'il", r"\bs'ils?\b"),
    ("beaucoup de", r"\bbeaucoup d"), ("de before an adjective", r"\bde (beaux|belles|petits|grandes)\b"),
    ("partitive", r"\bde l'(eau)|du (pain|fromage|lait)"), ("clitic", r"\b(je|nous|vous) l(a|e|es) \w+"),
    ("dative", r"\b(lui|leur) (a|ont|donn|parl|écri|envo)"), ("y", r"\by (va|est|vont|sont|retourn)"),
    ("participle with être", r"\b(est|sont) \w+ées?\b"),
    ("preceding object", r"qu(e |')[^.,]* (a|ont|avons|avez) \w+ée?s\b"),
    ("clitic and participle", r"\bles (a|ai|ont|avons|avez) \w+ées\b"), ("reflexive", r"\b(se|s'|nous nous|me) ?\w+"),
    ("reflexive past", r"\bs('est|e sont) \w+s?\b"), ("future", r"\b\w+(era|iront|ront)\b"),
    ("no object", r"\b(pas|jamais|plus) (\w+ )?d(e|') ?\w+"),
    ("h aspirated", r"\b(le|la|du|de|les) (héros|hibou|hérisson|haie)"),
])  # fmt: skip
def test_the_corpus_shows(what, french):
    assert sum(bool(re.search(french, text(pair)[1])) for pair in grammar.pairs("train", 3000, 20)) >= 3, what


# Words and text


def test_texts_and_tokens_go_both_ways():
    for pair in every_pair():
        assert grammar.tokenize(grammar.join(pair.source)) == pair.source
        assert grammar.tokenize(grammar.join(pair.target), "fr") == pair.target
    assert grammar.tokenize("The teacher’s dog, Paul.") == ["the", "teacher", "'s", "dog", ",", "paul", "."]
    assert grammar.tokenize("Aujourd’hui, l’homme dort.", "fr") == ["aujourd'hui", ",", "l'", "homme", "dort", "."]


def test_unknown_words_are_named():
    assert grammar.unknown("The zebra eats an apple.") == ["zebra"]
    assert grammar.unknown("Le zèbre mange l'avocat.", "fr") == ["zèbre", "avocat"]
    assert grammar.unknown("") == []
    with pytest.raises(TypeError, match="A sentence is a string, not list"):
        grammar.tokenize(["the", "cat"])


def test_the_vocabulary_holds_every_word_that_is_drawn():
    english, french = grammar.vocabulary()
    assert {token for pair in every_pair() for token in pair.source} <= english
    assert {token for pair in every_pair() for token in pair.target} <= french
    assert 900 < len(english) < 1100 and len(french) < 2900


# The files


def spoil(tmp_path, file, old, new):
    """A copy of the grammar with one thing changed, and the line where it was."""
    folder = tmp_path / "grammar"
    shutil.copytree(grammar.FOLDER, folder)
    whole = (folder / file).read_text(encoding="utf-8")
    assert old in whole
    (folder / file).write_text(whole.replace(old, new, 1), encoding="utf-8")
    return folder, whole[: whole.index(old)].count("\n") + 1


WORD = "dog : chien : m\n"


@pytest.mark.parametrize("file, old, new, reason", [
    ("rules.txt", "Core[no]  12 : Noun | Noun", "Core[no]  12 : Nuon | Noun", "undefined symbol 'Nuon'"),
    ("rules.txt", "Core[no]  12 : Noun", "Coer[no]  12 : Noun", "undefined phrase 'Coer'"),
    ("rules.txt", "\"who\"=1", "\"who\"=2", "unbalanced alignment link =1: it stands on the French side only"),
    ("rules.txt", "\"mais\"=1", "\"mais\"", "unbalanced alignment link =1: it stands on the English side only"),
    ("rules.txt", "Rel[person]", "Rel[persn]", "unknown feature or value 'persn'"),
    ("rules.txt", "Rel[person]", "Rel[present]", "Rel has no feature 'tense'"),
    ("rules.txt", "Rel[person]", "Rel[moood=person]", "unknown feature 'moood'"),
    ("rules.txt", "VP[3rd tense=tense2]", "VP[3rd tense=number]", "tense and number have different values"),
    ("rules.txt", "VP[3rd tense=tense2]", "VP[3rd tense=sg]", "'sg' is no value of tense"),
    ("rules.txt", "Event  12 : Subject VP | Subject VP", "Event 12 : Subject VP | Subject",
     "the phrase VP must stand once on each side"),
    ("rules.txt", "Verb.participle\n", "Verb.past\n", "Verb has no form 'past' on this side"),
    ("rules.txt", "\"mais\"=1", "\"mais\"=12", "links =1 to =9"),
    ("rules.txt", "\"mais\"=1", "\"Mais\"=1", "'Mais' must be in small letters"),
    ("rules.txt", "\"in\"=1 City | \"à\"=1 City", "\"in\"=1 City | \"à\"=1", "City stands on one side only"),
    ("rules.txt", "\"in\"=1 City | \"à\"=1 City", "\"in\" City |", "one side is empty"),
    ("rules.txt", "\"in\"=1 City | \"à\"=1 City", "\"in\"=1 City | \"à\"=1 Def City",
     "nothing settles the number of Def"),
    ("rules.txt", "VP 13 : Act", "VP 0 : Act", "the weight must be 1 or more"),
    ("rules.txt", "VP 13 : Act", "VP[sg pl] 13 : Act", "number is said twice"),
    ("rules.txt", "Group[to none]", "Group[to none about]", "frame is said twice"),
    ("rules.txt", "VP 13 : Act", "VP[number=number2] 13 : Act", "number must have a value here"),
    ("rules.txt", "NP 7 : Plain | Plain", "NP 7 : NP | NP", "the phrase NP can turn into itself without a word more"),
    ("rules.txt", "Recipient 1 : Name | Name", "Recipient 1 : Recipient | Recipient",
     "the phrase Recipient can turn into itself"),
    ("rules.txt", "start Sentence", "begin Sentence", "a rule is written"),
    ("rules.txt", "feature tail      short long", "feature tail      short short", "'short' is already one of tail"),
    ("rules.txt", "Plain Rel | Plain Rel\n", "Plain Rel , Plain Rel\n", "a rule is written"),
    ("rules.txt", "\"mais\"=1", "mais", "cannot read 'mais Clause2"),
    ("rules.txt", "feature number    sg pl", "feature number    sg pl sg2 m\nfeature gender    m f\nfeature",
     "the value 'm' is already one of number"),
    ("rules.txt", "feature aux       avoir être", "feature aux", "the feature 'aux' has no values"),
    ("rules.txt", "phrase Place\n", "phrase Place mood\n", "unknown feature 'mood'"),
    ("rules.txt", "phrase Place\n", "phrase Spot\n", "'Spot' is declared twice"),
    ("rules.txt", "category City     name", "category City     place", "where the kind is one of noun"),
    ("rules.txt", "category Never    fixed       aspect", "category Never    noun        aspect",
     "Never is of the kind noun, so it needs the feature 'number'"),
    ("words.txt", WORD, "dog : chien\n", "missing gender: say m or f"),
    ("words.txt", WORD, "dog : chien : m f\n", "gender is said twice"),
    ("words.txt", WORD, "dog : chien : m masculine\n", "unknown feature or value 'masculine'"),
    ("words.txt", WORD, "dog : chien : m future\n", "Noun has no feature 'tense'"),
    ("words.txt", WORD, "dog : chien : m plant\n", "class is said here and in the heading"),
    ("words.txt", WORD, "dog chien m\n", "a word is written `english : french : features`"),
    ("words.txt", WORD, "house=1 dog : chien=2 de maison=1 : m compound\n",
     "unbalanced alignment link =2: it stands in one language only"),
    ("words.txt", WORD, "dog=8 : chien=8 : m\n", "the links of 'dog=8' must be =1 to =7"),
    ("words.txt", WORD, "dog : - : m\n", "a word of Noun needs both languages"),
    ("words.txt", WORD, "dog/ : chien : m\n", "'dog/' is no word"),
    ("words.txt", WORD, "dog : chien/chiens/chienne : m\n", "must list 1 or 2 French forms (kind: noun)"),
    ("words.txt", WORD, "Dog : chien : m\n", "'Dog' must be in small letters"),
    ("words.txt", WORD, "dog : chien : m x0\n", "unknown feature or value 'x0'"),
    ("words.txt", "[Noun animal]", "[Noun animal", "a heading is written"),
    ("words.txt", "jump : sauter : ", "jump : pouvoir : ", "no rule conjugates 'pouvoir'"),
    ("words.txt", "cat : chat : m\n", WORD, "duplicate word 'dog'"),
    ("words.txt", "[Noun animal]", "[Nuon animal]", "undefined category 'Nuon'"),
    ("words.txt", "jump : sauter : ", "jump : saut : ", "'saut' is no French infinitive"),
    ("words.txt", "jump : sauter : alone/placed", "jump : sauter", "missing frame: say alone or"),
    ("words.txt", "red : rouge\n", "red : rouge vif\n",
     "a word of the kind adjective cannot be an expression of several"),
    ("conjugation.txt", "suis es est sommes êtes sont ", "suis es est sommes êtes ", "a verb is written"),
    ("conjugation.txt", "aller      :", "avoir      :", "duplicate verb 'avoir'"),
    ("conjugation.txt", "aller      :", "all        :", "'all' is no French infinitive"),
    ("conjugation.txt", "sourire    : as rire", "sourire    : as prendre", "'sourire' must end in 'prendre'"),
])  # fmt: skip
def test_a_broken_line_is_refused_by_its_number_and_reason(tmp_path, file, old, new, reason):
    folder, line = spoil(tmp_path, file, old, new)
    with pytest.raises(GrammarError, match=re.escape(reason)) as raised:
        Grammar(folder)
    number = int(re.search(rf"^{file}, line (\d+): ", str(raised.value))[1])
    # The second of two that clash is the one to name; everything else is refused where it stands.
    assert number == line or "twice" in reason or "duplicate" in reason or "already" in reason and number > line


@pytest.mark.parametrize("file, old, new, reason", [
    ("rules.txt", "start Sentence\n", "\n", "rules.txt: a line `start Name` must name a phrase, not ''"),
    ("rules.txt", "start Sentence", "start Sentense", "rules.txt: a line `start Name` must name a phrase"),
    ("rules.txt", "phrase Place\n", "phrase Place\nphrase Empty\n", "line 126: the phrase Empty has no rule"),
    ("rules.txt", "phrase Place\n", "phrase Place\nphrase Long\nLong : Long | Long\n",
     "line 127: the phrase Long never ends"),
    ("rules.txt", "category City     name", "category Town     name\ncategory City     name",
     "line 94: the category Town has no words in words.txt"),
])  # fmt: skip
def test_what_is_wrong_as_a_whole_is_refused(tmp_path, file, old, new, reason):
    with pytest.raises(GrammarError, match=re.escape(reason)):
        Grammar(spoil(tmp_path, file, old, new)[0])


@pytest.mark.parametrize("file", ["rules.txt", "words.txt", "conjugation.txt"])
@pytest.mark.parametrize("content", ["", "\n  \n", "# a comment alone\n"])
def test_an_empty_file_is_refused(tmp_path, file, content):
    folder = tmp_path / "grammar"
    shutil.copytree(grammar.FOLDER, folder)
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(GrammarError, match=f"^{file}, line 1: the file is empty.$"):
        Grammar(folder)


def test_the_verbs_that_make_the_past_must_be_there(tmp_path):
    folder, _ = spoil(tmp_path, "conjugation.txt", "avoir      :", "ravoir     :")
    with pytest.raises(GrammarError, match="conjugation.txt: 'avoir' is missing"):
        Grammar(folder)


@pytest.mark.slow
def test_a_feature_that_is_not_settled_when_its_word_is_drawn_is_named(tmp_path):
    """Place passes its features on, so only the drawing can tell that nobody settles them."""
    folder, _ = spoil(tmp_path, "rules.txt", "phrase Place\n", "phrase Place     number gender\n")
    rules = folder / "rules.txt"
    whole = rules.read_text(encoding="utf-8")
    rules.write_text(whole.replace('"in"=1 City | "à"=1 City', '"in"=1 City | "à"=1 Def City'), encoding="utf-8")
    drawer, rng = Grammar(folder), Random(0)
    with pytest.raises(GrammarError, match="nothing settles the (gender|number) of 'the'"):
        for _ in range(3000):
            drawer.sentence(rng, 20)


@pytest.mark.parametrize("file", ["rules.txt", "words.txt", "conjugation.txt"])
def test_a_missing_file_is_one_clear_sentence(tmp_path, file):
    folder = tmp_path / "grammar"
    shutil.copytree(grammar.FOLDER, folder)
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{file} cannot be read: .*data/grammar.*pip install -e"):
        Grammar(folder)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    folder = tmp_path / "grammar"
    shutil.copytree(grammar.FOLDER, folder)
    (folder / "words.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GrammarError, match="words.txt is not text in UTF-8"):
        Grammar(folder)


@pytest.mark.slow
def test_a_student_can_add_a_word_and_a_rule(tmp_path):
    folder, _ = spoil(tmp_path, "words.txt", WORD, WORD + "zebra : zèbre : m\n")
    rules = folder / "rules.txt"
    rules.write_text(rules.read_text(encoding="utf-8") + '\nSentence 500 : "look"=1 ","=2 Clause[first] "."=3 | '
                     '"regardez"=1 ","=2 Clause "."=3\n', encoding="utf-8")  # fmt: skip
    drawer, rng = Grammar(folder), Random(0)
    drawn = [drawer.sentence(rng, 20).pair for _ in range(400)]
    assert sum(pair.target[0] == "regardez" for pair in drawn) > 300
    assert any(("zebra", "zèbre") in links(pair) or ("zebras", "zèbres") in links(pair) for pair in drawn)


@pytest.mark.slow
def test_the_card_tells_the_truth():
    card = read_card("grammar")
    words = sum(len(group) for group in grammar.grammar().prepared.words.values())
    rules = sum(len(group) for group in grammar.grammar().prepared.rules.values())
    assert f"{rules} rules" in card and f"{words} words" in card

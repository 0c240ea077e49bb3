"""Lesson 14, what is asked: the questions of the quiz, and which language helps which."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "multilingual"

_ASKED = questions("""
    unigram_or_bpe: A Unigram model and BPE both cut the word `unlabeled`. What does Unigram tell beyond its cut?
    - Which two pieces are to be joined before all others
        That is BPE's: an ordered list of merges. Unigram has no order, it has a p for each piece.
    - Where the stem of the word ends and its ending begins
        Neither has been told of stems. Pieces are what makes the text probable, or what comes often side by side.
    + How probable each of all the ways to cut the word is
        Yes: the product of its pieces' p. So a second way can be drawn as well, which BPE's merges do not offer.
    - How the word is to be cut if a letter of it is unknown
        An unknown letter has no p either: both have to fall back on a token of its own, or on bytes.

    what_forward_sums: sums[j] of a word is the log of a sum of probabilities. What is added up?
    + All of the ways to write word[:j], each one as a product
        Yes: and it takes one pass, for all ways with the same last piece share that piece's p as a factor.
    - All of the pieces which end at j, each one with its own p
        The last piece alone is no way to write word[:j]: what leads to its start, sums[start], is multiplied by it.
    - The one best way to write word[:j], as Viterbi follows it
        Viterbi keeps the largest instead of adding: it has the same loop, and gives one way instead of all.
    - All pieces that stand in word[:j], wherever they may begin
        A piece that no way makes use of would count too, and one that overlaps with another beside it.

    no_shared_word: English and fake English share no id and no sentence; one model reads both, and finds twins. What is it that they share?
    - The words which are written alike in both of the languages
        There is none: each id of the one was moved to an id that the other has not.
    - The batches, in which a sentence and its twin come together
        No sentence is read in both, and a row of a batch holds one sentence of one language.
    - The mask token, which has one embedding for both languages
        It helps, as start and end do, but it is there with one language's words shuffled too, and few are found.
    + The places and the order of words, which are alike in both
        Yes: shuffle or reverse the order in one of them, and most twins are lost. A token's name plays no part.

    places_apart: Each language gets place embeddings of its own, and all else stays. Hardly a twin is found any more. What does this show?
    - That shared places suffice to bring two languages together
        They are shared where one language is shuffled too, and there they do not suffice.
    + That shared places are needed to bring these two together
        Yes: one thing was changed, and the twins are gone. Whether they suffice, another control has to say.
    - That neither language is learned well with places apart
        Twins can be lost while each language is learned well. Only the loss of masked words can tell, so look at it.
    - That a language embedding would have found the twins again
        It was not tried with places apart. It says which language it is, and places apart say so already.

    share_of_a_language: Batches draw language i with probability q ∝ p^α, where p is its share of the text. What does α = 0.3 do to a rare language?
    - It makes it as frequent as every other language
        That is α = 0. With an α between 0 and 1 the order of languages stays, and the gaps are smaller.
    + It draws it more often than its share p alone
        Yes: and so its sentences come again sooner, at the expense of the frequent ones.
    - It draws it less often, as a power is smaller
        Below 1, p to the power of 0.3 is larger than p, and most of all where p is small. Then q is made to sum to 1.
    - It leaves it as it was, as its rank is the same
        The rank is the same, and the probabilities are not: they come nearer to each other.

    shuffled_pairs: TLM masks words in a sentence and in its translation, in one row. As a control the pairs are shuffled. What does it rule out?
    - That TLM looks a hidden word up in its translation
        This is what TLM adds to masked words in each language alone, and what shuffled pairs take away.
    - That one of the two languages is easier to predict
        Both are in both conditions, so the control says nothing of it: take the loss of each by itself.
    - That the model has met the words of the test before
        It meets the same words either way. A test set of its own is what rules this out.
    + That longer rows of two languages would do it alone
        Yes: words, masks, lengths and steps stay, and who is beside whom changes. What is left above it is the pairs'.
""")  # noqa: E501
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

HELPS = Investigation(
    "which_language_helps_which",
    lesson=LESSON,
    question="A language has little text. Which other language, read beside it by the same model, helps it most: one "
    "of its family, one of its script, one with its order of words, or simply the one with most text? Write down your "
    "order first. Then measure.",
    rubric=(
        "I varied the helping language, and nothing else: its amount of text, the steps and the model stayed.",
        "I drew the language that is helped as often in every run, so that no helper took batches away from it.",
        "I compared with no helper, and with more text of the language itself, which a helper can hardly beat.",
        "I took script and structure apart: a helper in other letters, and one with its words in shuffled order.",
        "I gave every helper the same vocabulary size, and counted into how many pieces it cuts the rare language.",
        "I measured the rare language by itself, on texts that no run has read, and counted both directions apart.",
        "I used three seeds at least, show the range, and compared it with the gap between two helpers.",
        "I wrote down before what would change my mind.",
    ),
    answer="""
        **The question.** That a helper helps can have at least five reasons, and most helpers have several at once:

        | what may help | who has it | what takes it away |
        |:--|:--|:--|
        | words and pieces that both write alike | a language of the same script | all ids moved, as in fake English |
        | an order of words that is alike | often one of the same family | its words shuffled, or reversed |
        | the same topics | text of the same source | text about something else |
        | more steps and warm weights | every helper | text without sense, for as many steps |
        | a vocabulary with pieces that fit | one of the same script | one vocabulary, learned once, for all runs |

        Spanish beside Italian has all five. If it helps more than Korean does, nothing is known yet of *why*.

        **How to measure.** One rare language, kept small; one helper a run, cut to the same number of characters; a
        model that is the same to the last weight at its start. The rare language is in half of each batch, always.
        Two lines frame the result. Below: no helper, once with the same steps on the rare text alone and once with the
        helper's half made of shuffled words. Above: as much more text of the rare language itself. A helper is placed
        between the two lines, as a part of the gap. Do it in both directions: that A helps B does not say that B helps
        A, since the one with better pieces or easier text gives more than it takes.

        **What takes the reasons apart.** Three made-up helpers for the same rare language. The first is its own text
        with every id moved: it has the structure and no word in common. The second is the first with its words in
        shuffled order: now the structure is gone too. The third has the ids as they were and the order shuffled: words
        without structure. The first against the second is what order is worth, the third against the second what
        shared words are worth.

        **What we know from the lesson.** Fake English shares no word with English, and a model of both finds most
        twins. Shuffle or reverse one of them, take the places away or keep them apart, and most twins are lost. So
        order and shared places can be enough for twins to be *found*. That is not the same as being *helped*: a model
        may lay two languages side by side and predict neither any better. The lesson has measured the first. This
        question is about the second.

        **What we expect, and have not measured.** At equal amounts, a language of the same script and family before one
        of the same family in another script, and that before one of neither. With unequal amounts we would not bet:
        much text of a distant language may be worth more than little of a near one. With many languages in a small
        model each also takes room from the others (Conneau et al., 2020, call it the curse of multilinguality), so the
        best set of helpers need not be the helpers that are best one by one.

        **What would change our mind.** A distant helper in another script that fills as much of the gap as a near one,
        in most seeds: then it is steps and weights, not kinship. The helper of shuffled words doing as well as its
        sentences: then it is pieces, not order. And an order of helpers that turns round with another seed or another
        part of the text: then there is no order to report.
    """,
)
INVESTIGATIONS = [HELPS]

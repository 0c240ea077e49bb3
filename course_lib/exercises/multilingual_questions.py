"""Lesson 14, the questions of the quiz, and the open question: which language helps which?"""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "multilingual"

_ASKED = questions("""
    unigram_or_bpe: Unigram and BPE both segment the word `unlabeled`. What else does Unigram give you?
    - Which two subwords are to be joined before others
        That is BPE: an ordered list of merges. Unigram has no order; it has a p for each subword.
    - Where the stem of the word ends and its ending begins
        Neither knows about stems. Subwords are what makes the text probable, or what often occurs side by side.
    + How probable each one of all its segmentations is
        Yes: the product of the subwords' p. So you can also sample another one, which BPE's merges do not offer.
    - How to segment the word if a letter of it is unknown
        An unknown letter has no p either: both have to fall back on an unknown token, or on bytes.

    what_forward_sums: sums[j] of a word is the log of a sum of probabilities. What is added up?
    + All of the ways to write word[:j], each one as a product
        Yes: and it takes one pass, because all ways with the same last subword share its p as a factor.
    - All of the subwords that end at j, each one with its own p
        The last subword alone does not write word[:j]: multiply by the sum that leads to its start, sums[start].
    - The one best way to write word[:j], as Viterbi follows it
        Viterbi keeps the largest instead of adding: it has the same loop and finds one way instead of all.
    - All subwords that occur in word[:j], wherever they begin
        A subword that no segmentation uses would count too, and so would overlapping ones.

    no_shared_word: English and fake English share no id and no sentence; a model of both finds twins. What do they share?
    - The words that are spelled the same in both languages
        There are none: each id was moved to an id that the other language does not have.
    - The batches, which hold a sentence and its twin together
        No sentence is read in both languages, and each row holds one sentence of one language.
    - The mask token, which has one embedding for both of them
        It may help, as start and end do; but it is still there when one language is shuffled, and few are found.
    + The order of the words and the positions at which they are
        Yes: shuffle or reverse the order in one of them, and most twins are lost. A token's name plays no part.

    places_apart: Each language gets its own position embeddings; nothing else changes. Then hardly a twin is found. What follows?
    - Shared positions are enough to bring two languages together
        They are also shared when one language is shuffled, and there they are not enough.
    + Shared positions are needed to bring these languages together
        Yes: one thing was changed, and the twins are gone. Whether they are enough is for another control to say.
    - Neither language is learned well if the positions are separate
        Twins can be lost while each language is learned well. Look at the loss on masked words to find out.
    - A language embedding would have helped to find the twins again
        We did not try it with separate positions. It names the language, and separate positions do so already.

    share_of_a_language: Batches sample language i with probability q ∝ p^α; p is its share of the text. What does α = 0.3 do to a rare one?
    - It makes it as frequent as every other language
        That is α = 0. With an α between 0 and 1 the order of languages stays, and the gaps are smaller.
    + It samples it more often than its share p does
        Yes: its sentences come more often, at the expense of the frequent languages.
    - It samples it less often, as powers are smaller
        Below 1, p to the power of 0.3 is larger than p, and most of all where p is small. Then q is made to sum to 1.
    - It leaves it as it was, as its rank is the same
        The rank stays the same, but the probabilities move closer to each other.

    shuffled_pairs: TLM masks words of a sentence and its translation in one row. A control shuffles the pairs. What does it rule out?
    - That TLM finds a masked word in its translation
        This is what TLM adds to masked words in each language alone, and what shuffled pairs remove.
    - That one of the languages is easier to predict
        Both languages are in both conditions, so the control cannot say. Compare the loss of each.
    - That the model has seen the words of the test
        It sees the same words either way. A separate test set is what rules this out.
    + That longer rows with two languages are enough
        Yes: words, masks, lengths and steps stay the same; only the pairing changes. The rest is due to the pairs.
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
        "I sampled the rare language equally often in every run, so that no helper took batches away from it.",
        "I compared with no helper, and with more text of the language itself, which a helper can hardly beat.",
        "I separated script and structure: a helper in other letters, and one with its words in shuffled order.",
        "I gave every helper the same vocabulary size, and counted the subwords per word of the rare language.",
        "I measured the rare language by itself, on texts that no run has read, and kept both directions separate.",
        "I used at least three seeds, show the range, and compared it with the gap between two helpers.",
        "I wrote down before what would change my mind.",
    ),
    answer="""
        **The question.** That a helper helps can have at least five reasons, and most helpers have several at once:

        | what may help | which helper has it | what removes it |
        |:--|:--|:--|
        | words and subwords spelled the same | a language of the same script | all ids moved, as in fake English |
        | a similar order of words | often one of the same family | its words shuffled, or reversed |
        | the same topics | text of the same source | text about something else |
        | more steps and trained weights | every helper | nonsense text, for as many steps |
        | a vocabulary with subwords that fit | one of the same script | one vocabulary, learned once, for all runs |

        Spanish beside Italian has all five. If it helps more than Korean does, nothing is known yet of *why*.

        **How to measure.** Keep one rare language small. Give each run one helper, cut to the same number of
        characters, and start every run from the same weights. The rare language is always in half of each batch. Two
        lines frame the result. Below: no helper, once with the same steps on the rare text alone and once with shuffled
        words in the helper's half. Above: the same amount of additional text in the rare language itself. Each helper
        then closes a part of the gap between the two lines. Do it in both directions: if A helps B, B need not help A,
        because the one with better subwords or easier text gives more than it takes.

        **How to separate the reasons.** Make three artificial helpers for the same rare language. The first is its own
        text with every id moved: it shares the structure and no word. The second is the first in shuffled order: now
        the structure is gone too. The third keeps the ids and shuffles the order: words without structure.
        The first against the second shows what order is worth, the third against the second what shared words are
        worth.

        **What we know from the lesson.** Fake English shares no word with English, and a model of both finds most
        twins. Shuffle or reverse one of them, remove the positions or separate them, and most twins are lost. So order
        and shared positions matter for twins to be *found*. That is not the same as being *helped*: a model may put two
        languages next to each other and predict neither any better. The lesson has measured the first. This question is
        about the second.

        **What we expect, and have not measured.** With equal amounts of text, a language of the same script and family
        should help more than one of the same family in another script, and that more than one of neither. With unequal
        amounts we would not bet: much text in a distant language may be worth more than a little in a near one. With
        many languages in a small model each also takes room from the others (Conneau et al., 2020, call it the curse of
        multilinguality), so the best set of helpers need not consist of the best single helpers.

        **What would change our mind.** A distant helper in another script that fills as much of the gap as a near one,
        in most seeds: then it is steps and weights, not kinship. A helper of shuffled words that does as well as its
        sentences: then it is subwords, not order. And a ranking of helpers that changes with the seed or with another
        part of the text: then there is no ranking to report.
    """,
)
INVESTIGATIONS = [HELPS]

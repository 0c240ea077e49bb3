"""Lesson 13, the questions of the quiz, and the open question: what must text and task have in common?"""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "text_to_text"

_ASKED = questions("""
    short_targets: T5 removes 15 of 100 tokens. Why is its target shorter than BART's?
    - It holds the sentinels, and leaves the words to the source
        The removed words are in the target, each span after its sentinel. They are nowhere else.
    - It is cut, so that a batch of many texts fits on a device
        Nothing is cut: source and target together contain the whole text.
    + It holds what was removed, and BART's holds the whole text
        Yes: about 15 tokens and a few sentinels, beside 100. The decoder has less to compute for each text.
    - It is as long as BART's, except for the padding at the end
        Padding counts in neither. BART's decoder also writes the tokens that were kept.

    one_mask: In text infilling a span of three tokens becomes one mask. What does it teach that masking does not?
    + How many tokens are missing at a mask, even if none is
        Yes: a mask may stand for none, one or many tokens, and the decoder has to decide.
    - Which of the words of a text are the more frequent ones
        Both noises choose positions at random, whatever word stands there.
    - How to attend to the right of it as well as to the left
        The encoder attends in both directions under either noise.
    - What a mask looks like, so that the task is no surprise
        The task has no masks. That pre-training has them is a flaw of both noises.

    same_seconds: A pre-trained model beats one with random weights, both fine-tuned for 15 s. What does this show?
    - That text without labels teaches what the task needs
        Perhaps. But the pre-trained model has also been trained for longer, and that may be all.
    + That one of them was trained longer, and maybe more
        Yes: train the other for as long in all, and pre-train on shuffled text too, before you say what did it.
    - That few pairs are enough, once there is enough text
        How many are enough needs a curve over the number of pairs, with the control in it.
    - That random weights are bad weights to begin with here
        Longer training from them was not tried. It may come as far, or farther.

    classes_as_text: A model answers a question with two classes in text. It writes a third word. What is counted?
    - The class whose word is nearest to the one it has written
        That would be an extra rule after the model: the paper has none.
    - Nothing: the question is left out, as nobody has answered
        Then a model that answers only when it is sure would look better than it is.
    - A half, as it is neither of the two classes that there are
        An answer is correct or not. A word that names no class is not correct.
    + A wrong answer, as any other text counts as one with T5
        Yes (Raffel et al., 2020, section 2.4): the output layer has all tokens, and the model must choose well.

    no_token: A model was trained on English to German and English to French, without tokens. What does it write?
    - The language of the source, as nothing tells it otherwise
        It was never trained to write English. The targets were German and French.
    - Both of them in turn, a word of this and a word of that one
        Each word depends on the ones before it, and these have already set the language.
    - The first that it learned, as the second comes too late
        Batches mixed both directions: neither came first.
    + One of the two, by chance or by what the sentence is about
        Yes: the source does not say which, so the first word's probability is split between both, as in the pairs.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

COMMON = Investigation(
    "what_text_and_task_share",
    lesson=LESSON,
    question="What must the text of pre-training have in common with the task, so that a few pairs are enough? Take "
    "it apart: its words, their order, the noise, and whether it shows source or target sentences. Write down first "
    "which of them matters most. Then measure.",
    rubric=(
        "I varied one thing in the pre-training text at a time, and nothing else: steps, noise and fine-tuning stayed.",
        "I compared with random weights at equal training time in all, not only at equal fine-tuning.",
        "I tried text with the same words in shuffled order, which teaches nothing about sentences.",
        "I also pre-trained for longer on each text: one that is harder to learn may only need more steps.",
        "I tried text in the source language alone, in the target language alone, and in neither.",
        "I chose the length of fine-tuning on validation pairs, separately for each start, and tested once.",
        "I used at least three seeds, show the range, and said beforehand what would change my mind.",
    ),
    answer="""
        **The question.** Pre-training may leave four things that help: weights that are no longer random (any training
        does that), useful word embeddings, an encoder and a decoder that know the order of words, and a decoder that
        copies from its source, which all of BART's noises teach.

        **How to separate them.** Compare five starts, with the same fine-tuning on the same few pairs:

        | start | what it knows |
        |:--|:--|
        | random weights, equal training time in all | the task alone, for longer |
        | text of other words | trained weights and copying |
        | the same words, shuffled | also which words there are |
        | sentences in the source language | also the order of words in the source |
        | sentences in the target language | instead, the order of words in the target |

        The third and fourth rows each add one thing to the row above, so a difference between neighbours has one
        cause. The last two rows differ only in the language that they show.

        **How to decide.** If shuffled text does as well as sentences, order does not matter. If the first row does as
        well as the others, it was only training time. Whatever is gained beyond both is what text and task share. Also
        try each text once with nothing masked: if copying does as well, it was not the noise.

        **What we found** (the records of this lesson; mean BLEU of 200 test sentences with 50, 200 and 1,000 pairs).

        | start | 50 | 200 | 1,000 |
        |:--|--:|--:|--:|
        | random weights, the same fine-tuning | 7 | 11 | 6 |
        | random weights, equal training time in all | 8 | 25 | 77 |
        | shuffled words, copied | 10 | 28 | 31 |
        | shuffled words, gaps filled | 12 | 29 | 34 |
        | sentences in the target language, gaps filled | 12 | 30 | 55 |
        | sentences in both languages, copied | 17 | 39 | 56 |
        | sentences in both languages, gaps filled | 15 | 41 | 63 |

        The order of words matters, and with few pairs the noise hardly does. But shuffled text is harder to learn, and
        a control that is merely slower looks like one that fails. So we pre-trained for ten times as long:

        | 6,000 steps instead of 600 | 50 | 200 | 1,000 |
        |:--|--:|--:|--:|
        | shuffled words, gaps filled | 14 | 35 | 50 |
        | sentences, copied | 15 | 35 | 44 |
        | sentences, gaps filled | 14 | 31 | 54 |
        | sentences, T5's spans | 8 | 9 | 12 |

        Shuffled text gains. With 200 pairs it comes nearer to ordinary sentences after 600 steps; with 1,000 pairs it
        stays far behind. Sentences lose: each came more than fifty times, and the model may have memorised them. All
        good starts have in common that the decoder wrote whole texts. T5's spans had a single gap in so short a
        sentence, so this is no test of T5. We did not try text of other words or the source language alone, and chose
        the learning rate and the length of fine-tuning for one start only.

        **What would change our mind.** A longer fine-tuning, chosen for each start, after which the starts no longer
        differ, in most seeds.
    """,
)
INVESTIGATIONS = [COMMON]

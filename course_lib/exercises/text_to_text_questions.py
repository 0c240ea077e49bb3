"""Lesson 13, what is asked: the questions of the quiz, and what the text must have in common with the task."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "text_to_text"

_ASKED = questions("""
    short_targets: Of 100 tokens T5 hides 15. Why is its target shorter than BART's?
    - It holds the sentinels, and leaves the words to the source
        The hidden words stand in the target, each span behind its sentinel. They are nowhere else.
    - It is cut, so that a batch of many texts fits on a device
        Nothing of it is cut: with the source it gives the whole text again.
    + It holds what was hidden, and BART's the text as it was
        Yes: about 15 tokens and a few sentinels, beside 100. The decoder has less to compute for each text.
    - It is as long as BART's, but for the padding behind the end
        Padding stands in neither. BART's decoder writes the kept tokens too.

    one_mask: In text infilling a span of three tokens becomes one mask. What does it teach that masking does not?
    + How many tokens are missing at a place, none included
        Yes: a mask may stand for none, one or many, and the decoder has to decide.
    - Which of the words of a text are the more frequent ones
        Both noises draw their places by chance, whatever word stands there.
    - How to look to the right as well as to the left of it
        The encoder looks both ways under either noise.
    - What a mask looks like, so that it is met in the task
        Neither task has a mask. That pre-training has one is a flaw of both.

    same_seconds: A pre-trained model beats one that was tuned alone, both tuned for 15 s. What does this show?
    - That text without labels teaches what the task needs
        Perhaps. The one model has also been computed with for longer, and that may be all.
    + That one of them was trained longer, and maybe more
        Yes: tune the other for the seconds of both, and on shuffled text too, before you say what did it.
    - That few pairs are enough, once there is enough text
        How many are enough says a curve over the number of pairs, with the control in it.
    - That random weights are bad weights to begin with here
        Longer tuning of them was not tried. They may come as far, or farther.

    classes_as_text: A model answers a question of two classes as text. It writes a third word. What is counted?
    - The class whose word is nearest to the one it has written
        That would be a rule of our own behind the model: the paper has none.
    - Nothing: the question is left out, as nobody has answered
        Then a model that answers only where it is sure would look better than it is.
    - A half, for it is neither of the two classes that there are
        An answer is right or wrong. A word that names no class names the wrong one.
    + A wrong answer, for any other text counts as one in T5
        Yes (Raffel et al., 2020, section 2.4): the output layer has all tokens, and the model must use the right ones.

    no_token: One model was taught English to German and English to French, without language tokens. What does it write?
    - The language of the source, as nothing tells it otherwise
        It has never been taught to write English. The targets were German and French.
    - Both of them in turn, a word of this and a word of that one
        Within a sentence each word is written after the ones before it, and they have set the language.
    - The first that it was taught, as the second comes too late
        They were taught in mixed batches: neither was first.
    + One of the two, by chance or by what the sentence is about
        Yes: the source does not say which, so p of the first word is shared between both, as in the pairs.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

COMMON = Investigation(
    "what_text_and_task_share",
    lesson=LESSON,
    question="What must the text of pre-training have in common with the task, so that few pairs suffice? Take the "
    "pre-training apart: its words, their order, the noise, the side of the task that it shows. Write down first which "
    "of them matters most. Then measure.",
    rubric=(
        "I varied one thing of the pre-training text at a time, and nothing else: steps, noise and tuning stayed.",
        "I compared with random weights that had as many seconds in all, not only as many seconds of tuning.",
        "I tried text with the same words in a shuffled order: what it leaves is no knowledge of sentences.",
        "I let each start read for longer too: a text that is harder to learn may only need more steps.",
        "I tried the text of the other side of the task, and text of neither.",
        "I chose the length of tuning on validation pairs, for each start by itself, and tested once.",
        "I used three seeds at least, show the range, and said beforehand what would change my mind.",
    ),
    answer="""
        **The question.** Pre-training leaves four things that might help: weights that are no longer random (any
        training does that), embeddings of words that stand near each other, an encoder and a decoder that know the
        order of words, and a decoder that copies from its source, which every noise of BART's teaches.

        **What takes them apart.** Five starts, tuned alike on the same few pairs:

        | start | what it knows |
        |:--|:--|
        | random weights, as many seconds in all | the task alone, for longer |
        | text of other words | warm weights and copying |
        | the same words, shuffled | these too, and which words there are |
        | sentences of the side that is read | these too, and the order of words in the source |
        | sentences of the side that is written | these too, and the order of words in what is to be written |

        Each row has one thing more than the row above it, so a difference between two neighbours has one cause. Between
        the last two it is which side was shown.

        **What decides.** If shuffled text does as well as sentences, it was warm weights. If the first row does as
        well as all others, it was seconds. Only what is left above both is what the text and the task share. And for
        each text once with nothing hidden: if copying does as well, it was not the noise.

        **What we found** (the records of this lesson; mean BLEU of 200 test sentences with 50, 200 and 1,000 pairs).

        | start | 50 | 200 | 1,000 |
        |:--|--:|--:|--:|
        | random weights, the same tuning | 7 | 11 | 6 |
        | random weights, as many seconds in all | 8 | 25 | 77 |
        | shuffled words, copied | 10 | 28 | 31 |
        | shuffled words, gaps filled | 12 | 29 | 34 |
        | sentences of the side that is written, gaps filled | 12 | 30 | 55 |
        | sentences of both sides, copied | 17 | 39 | 56 |
        | sentences of both sides, gaps filled | 15 | 41 | 63 |

        The order of words counts, and with few pairs the noise hardly at all. But a text in no order is harder to
        learn, and a control that is merely slower looks like one that fails. So we let them read ten times as long:

        | read for 6,000 steps in place of 600 | 50 | 200 | 1,000 |
        |:--|--:|--:|--:|
        | shuffled words, gaps filled | 14 | 35 | 50 |
        | sentences, copied | 15 | 35 | 44 |
        | sentences, gaps filled | 14 | 31 | 54 |
        | sentences, T5's spans | 8 | 9 | 12 |

        Shuffled text gains, and comes near to sentences read for a tenth of that, with 1,000 pairs not very near.
        Sentences lose: each came more than fifty times, and may have been learned by heart. What all good starts share
        is that whole texts were written from their source. Text of other words and the side that is read we did not
        try, and rate and length of tuning were chosen for one start only.

        **What would change our mind.** Starts that differ after both lengths, in the same direction, in most seeds.
    """,
)
INVESTIGATIONS = [COMMON]

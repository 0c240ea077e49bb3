"""Lesson 15: the questions of the quiz, and an investigation of when the model uses the passage."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "retrieval"

_ASKED = questions("""
    rare_words: Every passage contains a certain word of the question. What does BM25 let it contribute to the ranking?
    - As much as a rare word if both are as frequent here
        idf multiplies the contribution of each word. It is large for a word that few passages contain.
    + Little: its idf is small, and nearly 0 if N is large
        Yes: n equals N, so idf is log(1 + 0.5 / (N + 0.5)), nearly 0. The rare words decide.
    - Nothing at all: BM25 drops a word that all contain
        Stop words come from a list that somebody chose. BM25 does count this word, but with a small weight.
    - Less than 0: it lowers the score of long passages
        With the 1 inside the logarithm, no weight is below 0.

    one_passage: A retriever learns from answers alone, and the reader gets one passage, k = 1. What does it learn?
    - To rank the correct one first, as with larger k
        No other passage is read, so it never finds out that another one would have been better.
    - To trust any passage by half, correct or wrong
        A single passage has weight 1, whatever its score.
    + Nothing: that passage has p = 1 at every score
        Yes: a softmax over one number is always 1, so its gradient is 0. Only the reader learns.
    - The wording of the questions, but not the names
        The gradient of its score is 0, so no part of the retriever changes, neither for wording nor for names.

    who_is_lifted: The answer is known. Which passages' scores does one training step raise?
    - Those ranked first, because they have most weight
        Their weight counts in both terms. A passage that is ranked first and did not help falls the most.
    - The one passage that a person labelled as correct
        Nobody has labelled a passage. The answer is the only supervision.
    - All those that were read, each by its share of loss
        The gradient sums to 0 over the passages, so raising one lowers others.
    + Those that made it more likely than the average did
        Yes: p(z | x) (p(y | x, z) / p(y | x) - 1) is positive exactly for these.

    never_changing: There are few facts, none ever changes, and the loss on them is 0. What has the retriever learned?
    + Perhaps nothing: the reader can have memorised them
        Yes: the answer to each question may be in the reader's weights, and then any passage will do.
    - All of it: without the passage no answer is correct
        The same question always had the same answer, and weights can memorise that.
    - All of it: training has reached the lowest loss of all
        A loss of 0 says that the answers are correct. It does not say how the model found them.
    - Half of it: it finds passages, but the reader skips them
        Once the answers are memorised, nothing rewards finding the passages.

    edited_fact: A fact changes in the world. What must change so that the next answer is the new one?
    - The reader's weights, by a few steps on new answers
        The reader takes the answer from the passage. It is not in its weights.
    - The retriever's weights, as the old passage is gone
        It finds a passage by its subject, and the subject is the same as before.
    + The passage, and its vector if the index is dense
        Yes: edit the sentence, and embed it again if the retriever compares vectors. No training is needed.
    - The whole index, as distances depend on the rest
        A score depends on one question and one passage. The other vectors stay as they are.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

USES = Investigation(
    "does_it_use_the_passage",
    lesson=LESSON,
    question="When does the answer come from the passage, and when from the weights? Find two conditions under which "
    "the same model, trained for equally long, does one and the other. Write down first what decides. Then measure.",
    rubric=(
        "I wrote down beforehand what decides, and what each of my conditions would show if I were wrong.",
        "I replaced the passage by a false one, changed nothing else, and counted how often the answer followed it.",
        "I tested names that were not in training separately from those that were.",
        "I varied one thing, the number of facts or how often they change, and kept steps and sizes the same.",
        "I trained with at least three seeds, report the range, and said which result would change my mind.",
    ),
    answer="""
        **The question.** A correct answer has two possible sources: the passage, or weights that have memorised the
        fact. They differ where the passage contradicts the weights. So we move the books of all training names, train
        no further, and count how often the answer names the new shelf, and how often the old one.

        **The prediction.** Training takes whichever strategy it finds first: few facts that stay the same are
        memorised before the retriever starts to learn; many facts, or facts that change, are looked up.

        **The result.** 64 names, 200 steps, five trainings each, from the record: mean and (range).

        | share that changes per step | correct, training names | after the move: new shelf | old shelf |
        |:--|:--|:--|:--|
        | all | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) | 0.01 (0.00 to 0.03) |
        | a tenth | 0.95 (0.77 to 1.00) | 0.95 (0.78 to 1.00) | 0.01 (0.00 to 0.03) |
        | a hundredth | 0.71 (0.61 to 0.77) | 0.01 (0.00 to 0.03) | 0.70 (0.61 to 0.77) |
        | a thousandth | 0.99 (0.98 to 0.99) | 0.00 (0.00 to 0.02) | 0.98 (0.95 to 0.98) |
        | none | 1.00 (1.00 to 1.00) | 0.00 (0.00 to 0.00) | 0.99 (0.95 to 1.00) |

        In the first and the last row the answers are correct about equally often, but they come from different
        sources. New names confirm it: there the correct passage is ranked first in 0.63 (0.58 to 0.67) and in 0.01
        (0.01 to 0.02). If one fact in a hundred changes, that is too few for the model to learn to look facts up, and
        enough to make three answers in ten wrong.

        **More facts, none of which changes.** After the move, the model names the new shelf in 0.18 (0.03 to 0.36)
        with 128 names, in 0.68 (0.58 to 0.80) with 256, and in 0.87 (0.81 to 0.94) with 412. It names the old one in
        0.58 (0.17 to 0.95), 0.07 (0.03 to 0.12) and 0.03 (0.00 to 0.06). So this is not a switch: in between, trainings
        differ, and one model answers from both sources.

        **The control.** If the retriever gets no gradient, 64 facts that never change are still answered correctly in
        1.00, and after the move the model names the old shelf in 1.00. So it did not need the retriever at all.

        **What would change my mind.** A world of 412 facts that never change in which the old shelves come back after
        longer training. Then looking up would only be the strategy that is learned earlier, and not the better one.

        **What I did not test.** Longer training, other sizes of the reader, and whether a model that has memorised a
        fact would start to look it up once facts begin to change.
    """,
)
INVESTIGATIONS = [USES]

"""Lesson 15, what is asked: the questions of the quiz, and when the model does not use the passage."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "retrieval"

_ASKED = questions("""
    rare_words: In BM25 a word of the question stands in every passage. What does it add to their order?
    - As much as a rare one, if both stand as often
        idf multiplies each word's share. It is large for a word that few passages have.
    + Little: its idf is small, near nothing for many
        Yes: n is N, so idf is log(1 + 0.5 / (N + 0.5)), nearly 0. The rare words decide.
    - Nothing at all, for words that all have are cut
        Stop words are a list that somebody chose. This word is counted, and its weight is small.
    - Less than nothing: it counts against the longest
        With the 1 inside the logarithm no weight is below 0.

    one_passage: A search is taught by answers alone, and the reader gets one passage, k = 1. What does it learn?
    - To put the right one first, as with a larger k
        Nothing tells it that another passage would have been better: no other is read.
    - To trust every passage, right or wrong, by half
        With one passage its share is 1, whatever its score.
    + Nothing: p of that passage is 1 at every score
        Yes: a softmax over one number is 1, and its gradient is 0. Only the reader learns.
    - The wording of questions, and none of the names
        The gradient of its score is 0, so no part of the search changes, wording or names.

    who_is_lifted: Told the answer, which passages does one step of learning lift?
    - Those that come first, for they have most weight
        Their weight counts in both terms. One that comes first and did not help is lowered the most.
    - The one passage that a person has marked as right
        Nobody has marked any. The answer is all that is told.
    - All that were read, each by its part of the loss
        The sum of the gradient over the passages is 0: what lifts one lowers others.
    + Those that made it likelier than all did on average
        Yes: p(z | x) (p(y | x, z) / p(y | x) - 1) is above 0 just there.

    never_changing: Few facts, and none ever changes. The loss on them is 0. What has the search learned?
    + Perhaps nothing: the reader can know them by heart
        Yes: the answer to each question is then in the reader's weights, and any passage will do.
    - All of it: without the passage no answer is right
        The same question always had the same answer. Weights can hold that.
    - All of it: the gradient has reached its lowest loss
        A loss of 0 says that answers are right. It does not say by which way.
    - Half of it: passages are found and then not read at all
        Nothing rewards finding them, once the answers are known.

    edited_fact: A fact changes in the world. What has to change so that the next answer is the new one?
    - The reader's weights, by some steps with new answers
        It reads the answer out of the passage. Its weights do not hold it.
    - The retriever's weights, for the old passage is gone
        It finds a passage by whom it is about, and that is the same as before.
    + The passage, and its vector if the words in it moved
        Yes: the memory is edited, and embedded anew where the search goes by vectors. No step of training.
    - All the index, for distances are relative to the rest
        A score is between one question and one passage. The others stay as they are.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

USES = Investigation(
    "does_it_use_the_passage",
    lesson=LESSON,
    question="When does the answer come out of the passage, and when out of the weights? Find two conditions in which "
    "the same model, taught as long, does the one and the other. Write down first what decides. Then measure.",
    rubric=(
        "I said beforehand what decides, and what each of my conditions would show if I were wrong.",
        "I changed the passage and nothing else, to a false one, and counted how often the answer followed it.",
        "I asked about names that were never met in training, apart from those that were.",
        "I varied one thing: how many facts there are, or how often they change; steps and sizes stayed the same.",
        "I trained with three seeds at least, show the range, and said what result would change my mind.",
    ),
    answer="""
        **The question.** A right answer has two sources: the passage, or weights that know the fact. They part where
        the passage says something else than the weights know. So every book of the training names is moved, no step
        is taken, and it is counted how often the answer names the new shelf, and how often the old one.

        **The prediction.** What decides is which way is shorter: few facts that stay are learned by heart before the
        search has begun; many facts, or facts that move, are looked up.

        **What came out.** Sixty-four names, 200 steps, five trainings each, from the record: mean and (range).

        | share that changes in a step | right, training names | after the move: new shelf | old shelf |
        |:--|:--|:--|:--|
        | all | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) | 0.01 (0.00 to 0.03) |
        | a tenth | 0.95 (0.77 to 1.00) | 0.95 (0.78 to 1.00) | 0.01 (0.00 to 0.03) |
        | a hundredth | 0.71 (0.61 to 0.77) | 0.01 (0.00 to 0.03) | 0.70 (0.61 to 0.77) |
        | a thousandth | 0.99 (0.98 to 0.99) | 0.00 (0.00 to 0.02) | 0.98 (0.95 to 0.98) |
        | none | 1.00 (1.00 to 1.00) | 0.00 (0.00 to 0.00) | 0.99 (0.95 to 1.00) |

        The first row and the last are right about as often, and come from different sources. New names tell the same:
        the right passage is first in 0.63 (0.58 to 0.67) and 0.01 (0.01 to 0.02). One change in a hundred is too few
        to look up, and enough to be wrong in three of ten.

        **More facts, none of which changes.** After the move the new shelf is named with 128 names in 0.18
        (0.03 to 0.36), with 256 in 0.68 (0.58 to 0.80), with 412 in 0.87 (0.81 to 0.94); the old one in 0.58
        (0.17 to 0.95), 0.07 (0.03 to 0.12) and 0.03 (0.00 to 0.06). So it is no switch: between them trainings differ,
        and one model answers from both.

        **The control.** With no gradient to the search, 64 facts that never change are right in 1.00, and after the
        move the old shelf is said in 1.00: the search was not needed for any of it.

        **What would change my mind.** A world of 412 facts that never change in which, after longer training, the old
        shelves are said again: then looking up is not the shorter way, only the earlier one.

        **What is not shown.** Longer training, other sizes of the reader, and whether a model that knows a fact by
        heart would take up the search when facts begin to move.
    """,
)
INVESTIGATIONS = [USES]

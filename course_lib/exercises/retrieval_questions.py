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
        TO BE WRITTEN from the record of `by_change` and `cut`: recall and answers by the number of facts and by the
        share that changes in a step (mean and range), answers on false passages, what follows, what would change my
        mind, what is not shown.
    """,
)
INVESTIGATIONS = [USES]

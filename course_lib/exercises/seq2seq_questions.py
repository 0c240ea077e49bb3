"""Lesson 03: the questions of the quiz, and the investigation into the fall of exact match in long lists."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "seq2seq"

_ASKED = questions("""
    reading_on: A short sentence is padded, and the encoder does not know its length. What does the decoder get?
    - The state that the encoder had after the last word.
        Only if the encoder knows the lengths: then each sentence ends in that state.
    - That same state, because the token id of padding is 0.
        The id chooses an embedding. And even a vector of zeros changes the state, through biases and state.
    + A later state, changed by the padding that was read.
        Yes: the encoder reads to the last position of the batch, so the other sentences change the translation.
    - A state of zeros, because padding erases what was read.
        Nothing erases it: the forget gates keep a part of it. But it is no longer the sentence's own final state.

    padding_counts: A loss that counts padding falls fast and looks good. Why?
    - Padding makes the batch larger, so its gradients are less noisy.
        The extra positions carry no information about translation.
    + Padding after padding is easily learned and fills many positions.
        Yes: after 100 steps it cost almost nothing, at more than a third of the positions. Real words cost about as
        much as with the masked loss.
    - The model learns from the padding where its sentences must end.
        The end token teaches that, and it is a real token.
    - Padding always has a loss of zero, so it lowers the mean loss.
        It is a class like any other. Its loss is small only after it has been learned, which happens soon.

    forced_perplexity: A model has a perplexity of 1.3 on test sentences, and not one comes out right. Is that possible?
    - No: with a perplexity near 1 nearly every word is right.
        1.3 means that the correct word gets 0.77, as a geometric mean. A sentence needs every one of its words.
    - No: only an error in the code could bring both together.
        No bug is needed, because the two numbers measure different things.
    + Yes: one counts single words, the other whole sentences.
        Yes: at 1.3 per token a correct sentence of twenty tokens gets a probability of 1.3^-20, or 0.5 %, and one error
        spoils it. It is not inevitable: if a few sentences contain most of the errors, the others come out right.
    - Yes, but only if the test set was used in training.
        Then even more sentences would come out right.

    who_is_to_blame: A beam writes a wrong sentence, and the model finds the right one less probable. What can help?
    - A wider beam: in the end it finds the right sentence.
        It looks for the most probable sentence, and that is not the right one. A wider beam finds other wrong ones.
    + A better model: the search gave what this one prefers.
        Yes, this is a model error. With a beam of ten the lesson found hardly any search errors.
    - Greedy search: it takes the best word at every step.
        It is a beam of 1. It may stumble on the right sentence, but nothing leads it there.
    - Nothing at all: an improbable sentence is never right.
        The reference says that it is right. Only the model does not know it.

    one_vector: Lists of four come out wrong after 1,700 steps. What would show that the vector has room for them?
    + The same model, after more steps, gets some right.
        Yes: nothing but the training was changed, and the vector is as large as before.
    - The same model with a wider state gets some right.
        Then width helps. The vector may have been too small, or only too hard to learn to use.
    - The same model with a beam of ten gets none right.
        That rules out the search, and says nothing about the vector.
    - The same model gets all of the lists of two right.
        Lists of two need less room: that they fit does not show that four do.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

CLIFF = Investigation(
    "what_moves_the_cliff",
    lesson=LESSON,
    question="Exact match falls from lists of one date to lists of four. What changes this fall: more steps, a wider "
    "state, another start of the forget gate, the order in which the source is read? Choose one and leave the rest "
    "as it is. Write down first how many lists of three and of four will come out right. Then measure.",
    rubric=(
        "I varied one thing (steps, width, forget bias or reading order) and nothing else: not data, rate or batch.",
        "I trained the lesson's model with the same seeds for comparison, instead of taking its number from the page.",
        "I trained with five seeds, or I say how few there were, and I show the range.",
        "I said what each change costs in seconds and parameters, and compared at equal cost where I could.",
        "I chose what to report on validation lists, and looked at the test lists once.",
        "I said what result would change my mind: what would show that the vector is too small, not only hard to use.",
    ),
    answer="""
        **The question.** Is it the start of the forget gate? I train 800 steps with a bias of 1 and of 3, and change
        nothing else.

        **A prediction, for example.** With 3, half of the single dates come out right, and a tenth of the lists of
        two; with 1, about half as many of each.

        **What came out.** On test lists, mean and (range) of five seeds on two kinds of processors, as the record
        holds it (`starts` in `data/records/seq2seq.json`, run by `make experiments LESSON=03`):

        | forget bias | 1 date | 2 dates | validation loss (nats) |
        |:--|:--|:--|:--|
        | 1 | 0.07 (0.02 to 0.17) | 0.00 (0.00 to 0.00) | 1.33 (1.25 to 1.44) |
        | 3 | 0.57 (0.52 to 0.70) | 0.01 (0.00 to 0.02) | 1.09 (1.06 to 1.14) |

        **The prediction is wrong for lists of two.** For single dates the start of the gate matters in each of the ten
        runs, and more than predicted. But in 800 steps hardly any list of two comes out right with either start.

        **What is not shown.** We do not know whether a difference remains after 1,700 steps, or after many more: a bad
        start may only be slow. We did not count lists of three and four here, and hardly any list of two was right,
        so these lists cannot tell the two starts apart. The number of steps may matter more. The record holds one
        model that was trained three times as long as the lesson's (`three_times_as_long`). It also keeps a high
        learning rate for longer, because the schedule follows the number of steps.
    """,
)
INVESTIGATIONS = [CLIFF]

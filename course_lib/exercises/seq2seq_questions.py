"""Lesson 03, what is asked: the questions of the quiz, and what moves the fall of the long lists."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "seq2seq"

_ASKED = questions("""
    reading_on: A short sentence stands in a padded batch; the encoder is not told its end. What does the decoder get?
    - The state that stood behind the sentence's last word.
        Only where it is told the lengths: then each sentence ends in that state.
    - That same state, as padding stands for the number 0.
        The number chooses an embedding. And even a vector of zeros moves the state: biases and state act.
    + A later state, moved on by what it read as padding.
        Yes: the encoder reads to the last place of the batch, so who else is in the batch changes the translation.
    - A state of zeros, as padding wipes out what was read.
        Nothing wipes it out: the forget gates keep a part of it. But it is no longer the sentence's own state.

    padding_counts: A loss that counts padding falls fast and looks good. Why?
    - Padding makes the batch larger, so its gradients are less noisy.
        The extra places carry no information about translation.
    + Padding after padding is soon learned, and it fills many places.
        Yes: after 100 steps it cost next to nothing, at many of the places. Real words cost about what they cost the
        model with the masked loss.
    - The model learns from the padding where its sentences must end.
        That is what the end token teaches; it is a real token.
    - Padding has a loss of zero, so that it pulls down the mean loss.
        It is a class like any other: its loss is small once it has been learned, which is soon.

    forced_perplexity: A model has a perplexity of 1.3 on test sentences, and not one comes out right. Is that possible?
    - No: with a perplexity near 1 nearly every word is right.
        1.3 gives the right word a probability of 0.77, as a geometric mean. A sentence needs every one of its words.
    - No: only an error in the code could bring both together.
        It needs no bug: the two numbers measure different things.
    + Yes: one counts single words, the other whole sentences.
        Yes: at 1.3 per token a right sentence of twenty tokens gets 1.3^-20, or 0.5 %, and one miss is enough to spoil
        it. It need not be so: where the misses crowd in a few sentences, the others come out right.
    - Yes, but only where the test set was used in training.
        Then the sentences would come out right all the more.

    who_is_to_blame: A beam writes a wrong sentence, and the model finds the right one less probable. What can help?
    - A wider beam: in the end it finds the right sentence.
        It looks for what is most probable, and that is not the right one. Wider, it finds other wrong ones.
    + A better model: the search gave what this one prefers.
        Yes, the model is to blame. After a beam of ten the lesson found hardly any error of the search.
    - Greedy search: it takes the best word at every step.
        It is a beam of 1. It may stumble on the right sentence, but nothing leads it there.
    - Nothing at all: an improbable sentence is never right.
        It is right, as the reference says. Only the model does not know it.

    one_vector: Lists of four come out wrong after 1,700 steps. What would show that the vector has room for them?
    + The same model, after more steps, gets some right.
        Yes: nothing but the training was changed, and the vector is as large as before.
    - The same model with a wider state gets some right.
        Then width helps. It may be that the vector was too small, or only that it was hard to use.
    - The same model with a beam of ten gets none right.
        That acquits the search, and says nothing about the vector.
    - The same model gets all of the lists of two right.
        Lists of two need less room: that they fit does not show that four do.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

CLIFF = Investigation(
    "what_moves_the_cliff",
    lesson=LESSON,
    question="Exact match falls from lists of one date to lists of four. What moves this fall: more steps, a wider "
    "state, another start of the forget gate, the order in which the source is read? Choose one, leave the rest as it "
    "is, and write down first how many lists of three and of four will come out right. Then measure.",
    rubric=(
        "I varied one thing, steps, width, forget bias or reading order, and nothing else: not data, rate or batch.",
        "I had the lesson's model trained with the same seeds beside it, not only its number from the page.",
        "I trained with five seeds, or I say how few they were, and I show the range.",
        "I said what each change costs in seconds and in weights, and compared at equal cost where I could.",
        "I chose what to report on validation lists, and looked at the test lists once.",
        "I said what result would change my mind: what would show that the vector is too small, not only hard to use.",
    ),
    answer="""
        **The question.** Is it the start of the forget gate? I train 800 steps with a bias of 1 and of 3, and change
        nothing else.

        **A prediction, for example.** With 3 half of the single dates come out right, and a tenth of the lists of two;
        with 1 about half as many of each.

        **What came out.** On test lists, mean and (range) of five seeds under two instruction sets, as the record
        holds it (`starts` in `data/records/seq2seq.json`, run by `make experiments LESSON=03`):

        | forget bias | 1 date | 2 dates | validation loss (nats) |
        |:--|:--|:--|:--|
        | 1 | 0.07 (0.02 to 0.17) | 0.00 (0.00 to 0.00) | 1.33 (1.25 to 1.44) |
        | 3 | 0.57 (0.52 to 0.70) | 0.01 (0.00 to 0.02) | 1.09 (1.06 to 1.14) |

        **It would be wrong for lists of two.** The start of the gate moves single dates, in each of the ten runs, and
        by more than that. In 800 steps hardly a list of two comes out right with either.

        **What is not shown.** Whether a difference is left after 1,700 steps, or after many more: a bad start may only
        be slow. Lists of three and four were not counted here, and of two hardly one was right, so they cannot tell
        the two starts apart. The budget may count for more: the record holds a model that was trained three times as
        long as the lesson's (`three_times_as_long`). That also keeps a high rate for longer, as the rate follows the
        number of steps.
    """,
)
INVESTIGATIONS = [CLIFF]

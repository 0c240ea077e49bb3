"""Lesson 16, what is asked: the questions of the quiz, and which layers of a teacher one would keep."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "smaller_bert"

_ASKED = questions("""
    what_sharing_saves: The twelve layers of an ALBERT are one block, used twelve times. What does that save?
    + Weights to store and to move; a step takes as long as before
        Yes: twelve layers are computed, whatever their weights are. What is sent or kept on a disk is a twelfth.
    - Eleven of twelve multiplications, as there is but one block
        Each use multiplies anew, for it reads other states. It is the weights that are one twelfth.
    - Nearly all the memory of a training step, states and weights
        Of the weights, yes. The states of all twelve layers are kept for the way back, as ever.
    - Nothing, since every use of a block is given its own weights
        The uses share their weights, and the gradients of all twelve are added up in them.

    drawn_alike: The generator draws just the piece that stood there. Why is that labelled "not replaced"?
    - So that a generator which guesses right is rewarded for it
        The generator has a loss of its own, on the hidden pieces. This label goes to the discriminator.
    - Since at this place the discriminator has read [MASK] before
        It never reads [MASK]. Only the generator does.
    - To have about as many places of one kind as of the other
        That is far from so: 85 places of 100 are not even chosen. And a label is not there to balance anything.
    + The text is what it was, and no reader could see a change
        Yes. Asked for "replaced" here, it would have to learn by heart what was chosen by chance.

    no_gan: Why is ELECTRA's generator not trained to deceive the discriminator?
    - Its texts would be too good for a discriminator so small
        That is a question of sizes, and the paper does take a small generator. But it could not be trained so at all.
    + A piece is drawn between the two, and a draw has no slope
        Yes: the discriminator's gradient ends at the number of a piece. The paper's try with reinforcement was worse.
    - Both use one table of pieces, so it would deceive itself
        The table gets the gradients of both losses, and that works. It is no path from one model to the other.
    - It reads [MASK], and the discriminator has no such piece
        Both have the same pieces. What they read differs, and that would not stop a gradient.

    soft_targets: A teacher says `king` 0.6, `queen` 0.2, `of` 0.0001. What does a student learn from this that the label does not say?
    - What the hidden word is, in case that nobody knows it
        It is known: the text has been read before it was hidden. And the teacher may be wrong.
    - How the teacher's layers have found out about the word
        Nothing of its layers is in these numbers, only what comes out. States can be compared in another loss.
    - How large the loss of a right answer has to become here
        The label alone drives p(king) towards 1. How far from 1 the teacher is, is a part of what it says, not all.
    + Which other words would fit there, and how well each does
        Yes: `queen` fits two thousand times as well as `of`. The label calls both of them wrong.

    why_tau_squared: Why is the loss at temperature tau multiplied by tau squared?
    - So that both softmaxes add up to 1 again at any temperature
        A softmax adds up to 1 whatever its logits are divided by.
    + So that its gradients are as large as at other temperatures
        Yes: tau divides the logits, and the difference of the softened probabilities shrinks by about as much again.
    - So that the teacher counts more than the label that is known
        How much each counts is a number of its own, chosen beside this one.
    - So that it stays a divergence, which is never less than zero
        It is one at any temperature, times any number above 0.

    one_outlier: One weight in a row is 100 times as large as the others. What becomes of them at 4 bits, absmax by row?
    + All become 0; groups spare those that do not share its scale
        Yes: a step is a seventh of the largest, and half of that is more than any of them. A group keeps it to itself.
    - They stay as they are; the large one is cut off at seven steps
        Absmax cuts nothing: the largest becomes 7. To cut it off is another method, and then its own error is large.
    - They lose one bit; groups would give them that one bit back
        They lose all: to tell 1 from 100 takes seven bits more. It is not a matter of one.
    - They are rounded as before, since a scale grows with its row
        The scale grows, and so does each step. They lie within half a step of 0.
""")  # noqa: E501
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

WHICH_HALF = Investigation(
    "which_half",
    lesson=LESSON,
    question="Which half would you keep? Of the stored teacher's four layers two may stay. DistilBERT takes every "
    "second one. Is that the best pair, before the student is taught anything, and after 50 steps with the teacher? "
    "Two measures: bits of a hidden piece, and the marks that are put back after fine-tuning. Write down first which "
    "pair is best and which is worst by each. Then measure.",
    rubric=(
        "I varied which layers stay, and nothing else: the same tables, read-out, texts, steps and rate.",
        "I tried all six pairs, not the two or three that I believed in.",
        "I measured each before and after the teaching, and kept the two apart.",
        "I took both measures, bits and marks, and let them disagree.",
        "I compared with rivals: two layers with drawn weights, the whole teacher, and pieces guessed by frequency.",
        "I used three seeds at least, show the range, and said what a seed cannot change: a pair that is only cut out.",
        "I chose on validation plays, and looked at the test plays once.",
        "I wrote down before what would change my mind.",
    ),
    answer="""
        **The question.** A layer that is taken out hands nothing on. The next one reads what it was never trained on.
        Which gap does least harm, and does a little teaching close it?

        **What one might predict.** Every second layer, 0 and 2, or 1 and 3: no gap is larger than one layer then. The
        worst would be two that stand side by side at one end.

        **What came out before any teaching**, in runs made for this answer: bits of a hidden piece of the test plays.
        No seed can change them, for nothing is drawn. (`two_of_four` has the marks of all pairs as well.)

        | layers that stay | bits |
        |:--|--:|
        | 0 and 3 | 6.48 |
        | 0 and 2 | 7.57 |
        | 1 and 3 | 7.95 |
        | 0 and 1 | 8.24 |
        | 1 and 2 | 8.84 |
        | 2 and 3 | 9.63 |
        | *all four* | 5.45 |
        | *none: each piece by its frequency* | 8.95 |
        | *two with drawn weights, three seeds* | 11.02 to 11.04 |

        **So.** Half of the prediction held. Two neighbours are worse than two that are not, in all cases, and 2 and 3
        are worse than a rule that reads nothing at all. But the best pair is the first and the last, with a gap of two
        layers, a whole bit ahead of DistilBERT's rule. A guess at the reason: the first is the only one that has ever
        read the tables, and the last the only one that the read-out has ever read. It fits with what single layers do:
        3 alone has 8.92 bits and 0 alone 9.18, while 1 and 2 have 10.12 and 9.74. And the order is needed: 2 and then
        0 has 9.88. It stays a guess, for no run here tested the reason itself.

        **Marks are another measure.** In the lesson's record (`cut_half`, five seeds) layers 0 and 2 put the places of
        marks back with an F1 of 0.62 (0.61 to 0.62) without any teaching, and the whole teacher with 0.62 (0.61 to
        0.63). Two bits a hidden piece were lost, and next to nothing of this, for fine-tuning moves all weights. Who
        chooses a pair by bits chooses by something that the task may not need.

        **After 50 steps with the teacher.** Not run for this answer: that part is yours.

        **A trap.** Before teaching a model of layers that never met is measured, after it one that has learned: a pair
        may be first in one table and last in the other. What is to be used decides which table counts.

        **What would change my mind.** Another teacher, begun from another seed, in which the first and the last layer
        are not the best pair. There is one teacher here, so all that is said of layers is said of its layers.

        **What is not shown.** Deeper teachers, in which each layer does less. Layers that are not cut out but shared
        or averaged. Equal seconds: a pair costs the same whichever it is, so here nothing had to be made equal.
    """,
)
INVESTIGATIONS = [WHICH_HALF]

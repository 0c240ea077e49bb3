"""Lesson 16: the questions of the quiz, and an investigation of which layers of a teacher to keep."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "smaller_bert"

_ASKED = questions("""
    what_sharing_saves: The twelve layers of an ALBERT are one block, used twelve times. What does that save?
    + Weights to store and to move; a step takes as long as before
        Yes: all twelve layers are computed, whatever their weights are. On disk and in transit they take a twelfth.
    - Eleven of twelve multiplications, as there is only one block
        Each use multiplies again, because it reads different states. Only the weights shrink to a twelfth.
    - Nearly all the memory of a training step, states and weights
        The weights shrink. But the activations of all twelve layers are kept for the backward pass, as always.
    - Nothing, because every use of the block has its own weights
        The uses share their weights, and the gradients of all twelve uses are added up.

    drawn_alike: The generator happens to sample the original token. Why is that labelled "not replaced"?
    - So that a generator which guesses correctly is rewarded
        The generator has its own loss, on the masked tokens. This label is for the discriminator.
    - Because the discriminator read [MASK] at this position
        It never reads [MASK]. Only the generator does.
    - To balance the two labels, with about as many of each
        They are far from balanced: 85 % of the positions are not even chosen. And a label is not there to balance.
    + The text is unchanged, so no reader could see anything
        Yes. To answer "replaced" here, it would have to memorise which positions were chosen at random.

    no_gan: Why is ELECTRA's generator not trained to deceive the discriminator?
    - Its texts would be too good for such a small discriminator
        That is a matter of size, and the paper does use a small generator. But back-propagation could not train it anyway.
    + A token is sampled in between, and that has no gradient
        Yes: the discriminator's gradient ends at the id of a token. The paper tried reinforcement learning, which was worse.
    - Both share their embeddings, so it would deceive itself
        The embeddings get the gradients of both losses, and that works. They are no path from one model to the other.
    - It reads [MASK], a token that the discriminator lacks
        Both have the same vocabulary. They read different texts, and that would not stop a gradient.

    soft_targets: A teacher says `king` 0.6, `queen` 0.2, `of` 0.0001. What does a student learn from this that the label does not say?
    - Which word was masked, in case that nobody knows it
        We know it, because we masked it ourselves. And the teacher may be wrong.
    - How the teacher's layers arrived at the masked word
        These numbers show only the teacher's output and nothing about its layers. Another loss can compare hidden states.
    - How large the loss of the correct word must become
        The label alone pushes p(king) towards 1. How far from 1 the teacher stays is only part of its message.
    + Which other words would fit, and how well each does
        Yes: `queen` is two thousand times as likely as `of`. The label calls both of them wrong.

    why_tau_squared: Why is the loss at temperature tau multiplied by tau squared?
    - So that both softmaxes add up to 1 again at any temperature
        A softmax adds up to 1 whatever its logits are divided by.
    + So that its gradients stay as large as at other temperatures
        Yes: tau divides the logits, and the difference of the softened probabilities shrinks by about the same factor again.
    - So that the teacher counts more than the label that we know
        How much each counts is a separate number, chosen independently.
    - So that it stays a divergence, which is never negative at all
        It is a divergence at any temperature, times any positive number.

    one_outlier: One weight in a row is 100 times as large as the others. What happens to them at 4 bits, with absmax per row?
    + All become 0; with groups, only those that share its scale do
        Yes: a step is a seventh of the largest weight, and half a step is more than any of the others. A group limits the damage.
    - They stay as they are; the large one is clipped at seven steps
        Absmax clips nothing: the largest weight becomes 7. Clipping is another method, and then the error of the outlier is large.
    - They lose one bit; groups would give them that one bit back
        They lose everything: representing both 1 and 100 takes seven more bits, not one.
    - They are rounded as before, because a scale grows with its row
        The scale grows, and so does each step. They lie within half a step of 0.
""")  # noqa: E501
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

WHICH_HALF = Investigation(
    "which_half",
    lesson=LESSON,
    question="Which half would you keep? Two of the stored teacher's four layers may stay. DistilBERT takes every "
    "second one. Is that the best pair, before the student is trained, and after 50 steps with the teacher? "
    "Use two measures: bits per masked subword, and punctuation after fine-tuning. Write down first which pair is "
    "best and which is worst by each. Then measure.",
    rubric=(
        "I varied which layers stay, and nothing else: the same embeddings, output layer, texts, steps and rate.",
        "I tried all six pairs, not the two or three that I believed in.",
        "I measured each before and after distillation, and kept the two apart.",
        "I used both measures, bits and punctuation, and allowed them to disagree.",
        "I compared with rivals: two layers with random weights, the whole teacher, and guessing by frequency.",
        "I used at least three seeds, report the range, and said what no seed can change: a pair that is only cut out.",
        "I chose on validation plays and used the test plays once.",
        "I wrote down beforehand what would change my mind.",
    ),
    answer="""
        **The question.** If we remove a layer, the next one reads an input that it was never trained on. Which gap does
        the least harm, and does a little distillation close it?

        **What one might predict.** Every second layer, 0 and 2, or 1 and 3, because then no gap is larger than one
        layer. The worst would be two neighbours at one end.

        **The result before any distillation**, in runs made for this answer: bits per masked subword of the test plays.
        No seed can change them, because nothing is random. (`two_of_four` has the punctuation of all pairs as well.)

        | layers that stay | bits |
        |:--|--:|
        | 0 and 3 | 6.48 |
        | 0 and 2 | 7.57 |
        | 1 and 3 | 7.95 |
        | 0 and 1 | 8.24 |
        | 1 and 2 | 8.84 |
        | 2 and 3 | 9.63 |
        | *all four* | 5.45 |
        | *none: each subword by its frequency* | 8.95 |
        | *two with random weights, three seeds* | 11.02 to 11.04 |

        **The conclusion.** Half of the prediction held. Two neighbours are always worse than two layers that are not
        neighbours, and 2 and 3 are worse than a rule that reads nothing at all. But the best pair is the first and the
        last layer, with a gap of two, and it is a whole bit ahead of DistilBERT's rule. A guess at the reason: only the
        first layer was trained to read the embeddings, and the output layer was trained to read only the last. Single
        layers agree with this guess: 3 alone has 8.92 bits and 0 alone 9.18, while 1 and 2 have 10.12 and 9.74. The
        order matters, too: 2 and then 0 has 9.88. It remains a guess, because no run here tested the reason itself.

        **Punctuation is another measure.** In the lesson's record (`cut_half`, five seeds), layers 0 and 2 reach an F1
        of 0.62 (0.61 to 0.62) without any distillation, and the whole teacher 0.62 (0.61 to 0.63). The cut costs two
        bits per masked subword, but next to nothing here, where fine-tuning changes all weights and where counting
        reaches 0.62, too. If you choose a pair by bits, you may choose by something that the task does not need.

        **After 50 steps with the teacher.** I did not run this part: it is yours.

        **A trap.** Before distillation you measure layers that were never trained together, and afterwards a model that
        has learned. A pair may be first in one table and last in the other. Your purpose decides which table counts.

        **What would change my mind.** Another teacher, trained from another seed, in which the first and the last layer
        are not the best pair. There is only one teacher here, so all conclusions are about its layers.

        **What I did not test.** Deeper teachers, in which each layer does less; layers that are shared or averaged
        instead of cut out. Every pair costs the same time, so there was nothing to equalise.
    """,
)
INVESTIGATIONS = [WHICH_HALF]

"""Lesson 06, what is asked: the questions of the quiz, and whether the root is needed."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "transformer"

_ASKED = questions("""
    root_dk: Queries and keys have 64 independent numbers each, of variance 1. Why are their scores divided by 8?
    + A score is a sum of 64 products: its spread is 8.
        Yes: 64 terms of variance 1 have variance 64, a standard deviation of 8. Divided by it, any width has spread 1.
    - Queries and keys are 8 long: it makes a cosine.
        They are about 8 long, both of them: a cosine would ask for 8 · 8 = 64.
    - There are 8 heads, and each one takes its share.
        d_k is the width within one head already. How many heads there are does not enter.
    - With 64 keys, a softmax needs scores 8 times lower.
        64 is how wide a key is here. How many keys there are does not enter.

    heads_sum: What does W_o do with the heads that stand side by side?
    - It chooses, for each token, the head that fits best.
        Nothing is chosen: what every head found is added, at every place, with the same W_o.
    - It lets the heads see what the other heads look at.
        The weights of all heads are fixed before W_o comes. No head sees another.
    - It takes the mean of the heads, so that none rules.
        That would be one matrix for all. Here each head meets rows that are its own.
    + It multiplies each head by rows of its own, and adds.
        Yes. Concat and W_o is a sum over heads, so that one of them can be taken out without touching the others.

    who_may_look: Padding stands behind source and target. Which masks does a translator need?
    - Encoder: padding; decoder: padding; cross: causal.
        Then each word of the target sees those after it, which it has to predict.
    - Encoder: padding; decoder: causal; cross: causal.
        The whole source is there before the first word is written. Any target word may look at all of it.
    + Encoder: padding; decoder: causal; cross: padding.
        Yes, the source's padding both times. The target's stands behind all words, where the triangle hides it.
    - Encoder: causal; decoder: causal; cross: padding.
        It could be trained so. But the source is known to its end: let its first word see the last.

    residual_norm: What does a stack of x + f(norm(x)) have that one of norm(x + f(x)) has not?
    - A residual around each part f, at any depth
        Both have it. They differ in what stands on the way past the parts.
    - An output of one size for any number of blocks
        That is the other one, which ends in a norm. Here the sum may grow, so one more norm stands behind the last.
    - A norm less in a block, and so fewer parameters
        Both have a norm for each part. This one has one more, behind the last block.
    + A way through all its blocks that meets no norm
        Yes: the sums alone. A gradient can go down that way as it is, past every part and every norm.

    parallel_training: What does a decoder do at once in training, and one by one when it translates?
    + All places of a sentence, for it has the target.
        Yes. In training all words are given, and a mask hides the later ones. In use each waits for the one before.
    - All layers of its stack, for each has an input.
        A layer needs what the one below gives, in training just as in use.
    - All heads of one layer, for each has its columns.
        They work at once in training, and in use as well.
    - All sentences of a batch, for none needs another.
        They are computed at once in training, and in use as well.

    cross_align: In one head the largest cross-attention weights follow the gold alignment. What is certain?
    + It takes most from the places of the aligned words.
        Yes, from the places. What stands there has been mixed by the encoder, and other heads look elsewhere.
    - It translates, and all the other heads can be spared.
        To know it, take them out and translate. A map does not tell what would happen without the others.
    - It was told the alignment with its training sentences.
        No alignment was shown in training. It came of learning to translate.
    - It writes another word if the aligned one is changed.
        That is an effect, and a weight is not one. Change the word and see: often it is so, and not surely.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

ROOT = Investigation(  # tests/test_exercises_transformer.py trains a wide head with the root, without, and in its place
    "is_the_root_needed",
    lesson=LESSON,
    question="Is √d_k needed if ...? Finish the question yourself: if a head is narrow, if W_q begins smaller, if it "
    "learns more slowly, if something else keeps the scores in their place. Write down what you expect of a head of "
    "width 4, 64 and 512, with the root and without. Then train, and see.",
    rubric=(
        "I finished the question, and predicted before training what comes out at each width, with a reason.",
        "I varied what scores are divided by, or what stands in for it, and nothing else: same task, steps and rate.",
        "I asked at several widths, and gave the root as well as its stand-in a run at each of them.",
        "I ran at least five seeds, and where they differ I show the range.",
        "I said what result would change my mind about the reason, and ran the control that could show it.",
    ),
    answer="""
        **The question.** Is √d_k needed if W_q learns √d_k times more slowly? The lesson shows that a small beginning
        is enough at width 64 and not at 512, and names Adam's steps as the likely reason.

        **The prediction.** No. If it is the steps that drive the scores apart, then slow steps alone mend it, from the
        usual beginning as well; and with a small beginning beside them nothing is left for the root to do.

        **What came out.** The head of the lesson, 300 steps, ten seeds: the share of right answers, mean and
        (range). Guessing gets 0.07.

        | what is done | d_k = 4 | d_k = 64 | d_k = 512 |
        |:--|:--|:--|:--|
        | divided by √d_k | 0.79 (0.68 to 0.96) | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |
        | not divided | 0.91 (0.80 to 1.00) | 0.42 (0.19 to 0.63) | 0.12 (0.11 to 0.13) |
        | W_q begins √d_k times smaller | 0.94 (0.84 to 1.00) | 1.00 (1.00 to 1.00) | 0.33 (0.13 to 0.80) |
        | W_q learns √d_k times more slowly | 0.72 (0.50 to 0.92) | 0.35 (0.21 to 0.61) | 0.12 (0.10 to 0.14) |
        | both | 0.79 (0.68 to 0.96) | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |
        | divided by d_k | 0.62 (0.47 to 0.75) | 0.74 (0.65 to 0.81) | 0.73 (0.62 to 0.84) |

        **I was half wrong.** Slow steps from the usual beginning mend nothing: scores that lie far apart at first stay
        so. At 512 the small beginning alone is not enough either: scores that had a spread of 1.5 have one of 11 to 16
        after twenty steps, where the root leaves it at 2 to 3 (five seeds). There it takes both. Adam moves each weight
        by about the learning rate, however small the gradient, and a score sums 512 such moves.

        **So.** With both, the numbers of the root come back seed by seed, and that is no accident: to write W_q / √d_k
        in place of W_q is the same model, and Adam's steps shrink with it. The root is one way of doing both at every
        width. And a narrow head does not need it: at d_k = 4 the four rows in which scores move slowly are, in the
        mean, behind the two in which they do not.

        **What is not shown.** That all this holds with more layers, or that the narrow heads would not meet after more
        steps. With plain gradient descent W_q would have to learn d_k times more slowly, not √d_k; I did not run it.
    """,
)
INVESTIGATIONS = [ROOT]

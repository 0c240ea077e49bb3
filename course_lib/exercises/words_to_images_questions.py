"""Lesson 18, the questions of the quiz, and how many codes there should be."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "words_to_images"

_ASKED = questions("""
    why_straight_through: The nearest code is found by argmin. Why does the encoder need a straight-through gradient?
    - The exact gradient of an argmin is too slow to compute
        It costs nothing: it is 0 wherever it exists. That is why it is of no use.
    - The codes would have no other way to learn anything
        The codes learn from the first term of the quantiser's loss. The straight-through gradient bypasses them.
    + A small step changes no choice: the gradient is zero
        Yes: where the choice stays the result stays, and where it jumps there is no gradient. So another one is used.
    - Without it each vector would move away from its code
        The commitment prevents that, a loss of its own. Without straight-through the image tells the encoder nothing.

    why_it_stays_dead: A code is the nearest of no vector any more. Why does no gradient bring it back?
    + The loss contains only chosen codes, and this is none
        Yes: nothing that is computed depends on it. It stays where it is, and the vectors learn to lie elsewhere.
    - Its share is counted as zero, so the optimiser stops
        No optimiser reads the share. It is counted so that dead codes can be moved by hand.
    - The straight-through estimator bypasses every code too
        It bypasses living codes as well. Those learn from the quantiser's loss, which contains only the chosen ones.
    - It is so far away that its gradient is much too small
        A square grows with the distance, and so would its gradient. But there is none: the code is in no term.

    the_mean_of_all: A network gives each pixel the mean over all images that fit a name. Why does it draw none of them?
    - With too few steps it cannot yet tell strokes apart
        More steps bring it nearer to the mean. The mean is what the loss asks for.
    - Its squared error is larger than that of a real image
        It is the smallest that a single answer can have: that is why a network trained so gives it.
    - It picks one of them first and then smooths its edges
        It picks none. To pick one at random is what sampling codes does, one after the other.
    + Where they differ it is grey, and none of them is so
        Yes: half of two strokes is no stroke. Codes are sampled one by one, and each agrees with those before it.

    a_new_name_right: No image of this name was in the training data, but images with its letter or its accent were. It is drawn well. What was learned?
    - The codes of this image, in some other typeface at least
        The name is new in every typeface. Nothing of that image was seen.
    + Which codes a letter needs, and which ones an accent does
        Yes, each in images with something else, and to write them side by side. A memorised sequence of codes cannot do it.
    - What the letter looks like, as CLIP knows from photographs
        CLIP is trained on the same training names, if at all. The GPT that draws has no access to it.
    - How near each pixel is to those around it in that font
        The GPT has seen no pixel. It has words and codes; what an image looks like is the decoder's business.

    picker_or_judge: CLIP picks the best of eight drawings. Why must it not say how good the picked ones are as well?
    - It has read the name, so it knows what should be seen
        Every judge has to know what was asked for. That is not the problem.
    + It picks by its own score, and its errors come along
        Yes: its own score rises by picking alone, whether drawings become better or not. Another judge must tell.
    - It gives cosines, and we want a share of correct ones
        A share can be made of cosines, with a rival name for each. It would be wrong all the same.
    - It has seen training images, and so has the GPT too
        A picker may have. It is a bad judge because it has already been asked about these very drawings.

    is_it_a_copy: A drawing has the very codes of a training image of that name. What would show that it is no copy?
    - That it comes out at a high temperature just the same
        What is memorised comes out at a high temperature, too: nearly all the probability is on one sequence.
    - That other drawings for the same name have other codes
        They may be other copies, or worse ones. That says nothing about this drawing.
    - That its pixels are not exactly those of the image
        Codes are decoded by a network that loses something. Any copy made of codes looks a little different.
    + That a GPT trained without the image draws it as well
        Yes: then it can be combined from other images. Held-out names are there for that.
""")  # noqa: E501
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

HOW_MANY = Investigation(
    "how_many_codes",
    lesson=LESSON,
    question="How many codes should there be? With more codes each position of an image can be described more exactly, "
    "and the GPT has more to choose from at each step. Vary the number of codes, or the number of positions, but not "
    "both. There are two measures: how well an image is reconstructed from its own codes, and how well the GPT draws a "
    "new name with them. Write down first which number is best by each. Do the two agree? Then measure.",
    rubric=(
        "I varied the number of codes, or of positions, and nothing else: the same images, names, steps and sizes.",
        "I measured reconstruction and drawing separately, on the same letters, and let the two disagree.",
        "I judged drawings as images, and did not compare nats between codebooks, which have other things to guess.",
        "I counted how many codes are in use, because a codebook of which half is dead is a smaller one.",
        "I looked at letter, accent and whole name separately, to see what the codes lose.",
        "I compared with a rule that learns nothing, such as an accent cut out of another letter and pasted on.",
        "I used at least three seeds, each with a codebook and a GPT of its own, and showed the range.",
        "I chose on validation names, and left those of the test alone.",
        "I wrote down before what would change my mind.",
    ),
    answer="""
        **The question.** A GPT can hardly draw what a codebook loses. But a code that is seldom chosen is also seldom
        met after words in training. Can there be too many?

        **What one might predict.** Reconstruction gets better with every code that is added. Drawing gets better at
        first, and worse with many codes.

        **What came out**, in runs made for this answer, which the lesson's record does not hold. 16 codes per image
        (4 x 4 positions, smaller than in the lesson, to be quick), 400 steps for the VQ-VAE, 400 for a GPT of width 64,
        temperature 0.5; 250 letters of validation names; three seeds, mean and (range). An image counts as correct, or
        preserved, if the nearest real letter of training and validation names has the name that was asked for.

        | codes | squared error | preserved | drawn correctly | accent drawn correctly |
        |--:|:--|:--|:--|:--|
        | 32 | 0.0132 (0.0129 to 0.0138) | 0.38 (0.35 to 0.43) | 0.18 (0.13 to 0.20) | 0.22 (0.17 to 0.24) |
        | 128 | 0.0124 (0.0119 to 0.0131) | 0.45 (0.43 to 0.48) | 0.20 (0.18 to 0.21) | 0.26 (0.23 to 0.27) |
        | 512 | 0.0108 (0.0101 to 0.0113) | 0.51 (0.48 to 0.54) | 0.20 (0.15 to 0.24) | 0.24 (0.19 to 0.28) |

        All 32 codes are in use, 127 or 128 of the 128, and 456 to 483 of the 512.

        **So.** Half of the prediction held. Reconstruction gets better, mostly for accents: 0.41 (0.39 to 0.45) of them
        survive 32 codes, 0.52 (0.50 to 0.54) survive 512; of the letters 0.90 (0.90 to 0.90) and 0.96 (0.94 to 0.98).
        Drawing shows neither a rise nor a fall: the ranges overlap, and three seeds cannot tell these codebooks apart.
        The letter is correct in three drawings of four, with each of them, and the accent is what fails. What is gained
        in reconstruction is not seen in drawing; a small gain or loss would not be seen by these runs either.

        **A rule was ahead of all of them.** The letter without its accent, in its typeface, with the accent cut from
        another letter there, gets 0.62 of these names, more than any of these codebooks preserves even of the real
        letter. It needs no codes, but has to be told what an accent is.

        **A trap.** Nats per image rise with the number of codes: 15.4 (15.1 to 15.7), 20.2 (18.8 to 21.0) and 26.7
        (24.6 to 28.6) for the same validation letters. That does not say that the GPT gets worse. A finer codebook says
        more about an image, so there is more to predict, and some of it nobody would see.

        **What would change my mind.** With more seeds, or a longer training, a clear fall of correct drawings at 512:
        then there can be too many for so few images. Or a clear rise: then reconstruction was the limit after all.

        **What is not shown.** Other numbers of positions, with the number of codes held: the sequence is longer then,
        with more to get right. Equal seconds, larger GPTs, more than 400 steps. Whether a VQ-VAE that is trained until
        it reconstructs as well with 32 codes as another with 512 would change the drawing. And the judge compares
        pixels, so it rewards blur.
    """,
)
INVESTIGATIONS = [HOW_MANY]

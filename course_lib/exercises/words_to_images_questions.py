"""Lesson 18, what is asked: the questions of the quiz, and how many codes there should be."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "words_to_images"

_ASKED = questions("""
    why_straight_through: The nearest code is found by argmin. Why does the encoder need a straight-through gradient?
    - The exact slope of an argmin costs too much to compute
        It costs nothing: it is 0 wherever there is one at all. That is why it is of no use.
    - The codes would have no other way to learn anything
        The codes learn from the first term of the quantiser's loss. The straight-through gradient goes past them.
    + A small step changes no choice, so its slope is zero
        Yes: where the choice stays the result stays, and where it jumps there is no slope. So another is put there.
    - Without it each vector would move away from its code
        That is what commitment sees to, a loss of its own. Without straight-through no picture tells the encoder anything.

    why_it_stays_dead: A code is the nearest of no vector any more. Why does no gradient bring it back?
    + The loss speaks of chosen codes, and this is not one
        Yes: nothing that is computed depends on it. It stays where it is, and the vectors learn to lie elsewhere.
    - Its share is counted as zero, so the optimiser stops
        No optimiser reads the share. It is counted for whoever puts dead codes elsewhere, by hand.
    - The straight-through estimator passes all codes over
        It passes living codes over as well. Those learn from the quantiser's loss, which has the chosen ones alone.
    - It is so far away that its gradient is far too small
        A square grows with the distance, and so would its gradient. But there is none: it is in no term.

    the_mean_of_all: A network gives each pixel the mean over all images that fit a name. Why does it draw none of them?
    - With too few steps it cannot yet tell strokes apart
        More steps bring it nearer to the mean. The mean is what it is asked for.
    - Its square error is larger than that of a real image
        It is the smallest that one answer can have: that is why a network trained so gives it.
    - It picks one of them first and then smooths its edges
        It picks none. To pick one at random is what drawing codes does, one after the other.
    + Where they differ it is grey, as none of them ever is
        Yes: half of two strokes is no stroke. Codes are drawn one by one, and each agrees with those before it.

    a_new_name_right: No image of this name was in the training data, its letter and its mark were, apart. It is drawn well. What was learned?
    - The codes of this image, in some other typeface at least
        The name is new in every typeface. Nothing of that image was seen.
    + Which codes a letter asks for, and which ones its mark
        Yes, each in images with something else, and to write them side by side. A row of codes known by heart cannot do it.
    - What the letter looks like, as CLIP knows from photos
        CLIP is trained on the same training names, if at all. The GPT that draws has never heard of it.
    - How near each pixel is to those around it in that font
        The GPT has seen no pixel. It has words and codes, and what an image looks like is the decoder's affair.

    picker_or_judge: CLIP picks the best of eight drawings. Why must it not say how good the picked ones are as well?
    - It has read the name, so it knows what should be seen
        Every judge has to know what was asked for. The trouble is another one.
    + It picks what pleases it, and its errors along with it
        Yes: its own score rises by picking alone, whether drawings become better or not. Another judge must tell.
    - It gives cosines, and a share of right ones is wanted
        A share can be made of cosines, with a rival name for each. It would be a wrong share all the same.
    - It has looked at training images, and so has the GPT too
        A picker may have. What makes it a bad judge is that it has been asked before, on these very drawings.

    is_it_a_copy: A drawing has the very codes of a training image of that name. What would show that it is no copy?
    - That it comes out at a high temperature just the same
        What is known by heart comes out at a high temperature too: nearly all its probability is on one row.
    - That other drawings for the same name have other codes
        They may be other copies, or worse ones. Nothing is said about this drawing.
    - That its pixels are not exactly those of the image
        Codes are painted by a decoder that loses something. Any copy made of codes looks a little different.
    + That a GPT trained without the image draws it as well
        Yes: then it can be put together from other images. That is what names kept back are for.
""")  # noqa: E501
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

HOW_MANY = Investigation(
    "how_many_codes",
    lesson=LESSON,
    question="How many codes should there be? With more of them a place of an image can be told more finely, and the "
    "GPT has more to choose from at each step. Vary the number of codes, or the number of places, but not both. Two "
    "measures: how well an image is painted from its own codes, and how well the GPT draws a new name with them. "
    "Write down first which number is best by each. Do the two agree? Then measure.",
    rubric=(
        "I varied the number of codes, or that of places, and nothing else: the same images, names, steps and sizes.",
        "I measured painting and drawing apart, on the same letters, and let the two disagree.",
        "I judged drawings as images, and did not compare nats between codebooks: they have other things to guess.",
        "I counted how many codes are in use, for a codebook of which half is dead is a smaller one.",
        "I looked at letter, mark and whole name by themselves, to see what it is that codes lose.",
        "I compared with a rule that learns nothing, such as a mark cut out of another letter and pasted on.",
        "I used three seeds at least, each with a codebook and a GPT of its own, and show the range.",
        "I chose on names of validation, and left those of the test alone.",
        "I wrote down before what would change my mind.",
    ),
    answer="""
        **The question.** What a codebook loses a GPT can hardly draw. But a code that is chosen seldom is also met
        seldom, behind words, in training. Can there be too many?

        **What one might predict.** Painting gets better with every code that is added. Drawing gets better at first,
        and worse with many codes.

        **What came out**, in runs made for this answer, which the lesson's record does not hold. 16 codes an image
        (4 x 4 places, smaller than in the lesson, to be quick), 400 steps for the VQ-VAE, 400 for a GPT of width 64,
        temperature 0.5; 250 letters of validation names; three seeds, mean and (range). Right is what the nearest real
        letter of training and validation names has in common with the one asked for.

        | codes | square error, painted | right, painted | right, drawn | mark right, drawn |
        |--:|:--|:--|:--|:--|
        | 32 | 0.0132 (0.0129 to 0.0138) | 0.38 (0.35 to 0.43) | 0.18 (0.13 to 0.20) | 0.22 (0.17 to 0.24) |
        | 128 | 0.0124 (0.0119 to 0.0131) | 0.45 (0.43 to 0.48) | 0.20 (0.18 to 0.21) | 0.26 (0.23 to 0.27) |
        | 512 | 0.0108 (0.0101 to 0.0113) | 0.51 (0.48 to 0.54) | 0.20 (0.15 to 0.24) | 0.24 (0.19 to 0.28) |

        In use are all 32 codes, 127 or 128 of the 128, and 456 to 483 of the 512.

        **So.** Half of the prediction held. Painting gets better, mostly by marks: 0.41 (0.39 to 0.45) of them survive
        32 codes, 0.52 (0.50 to 0.54) survive 512; of the letters 0.90 (0.90 to 0.90) and 0.96 (0.94 to 0.98).
        Drawing shows neither a rise nor a fall: the ranges overlap, and three seeds cannot tell these codebooks apart.
        The letter is right in three drawings of four, with each of them; it is the mark that fails.
        What is gained in painting is not seen in drawing; a small gain or loss would not be seen by these runs either.

        **A rule was ahead of all of them.** The letter without its mark, in its typeface, and the mark cut from another
        letter there, have 0.62 of these names right, more than any of these codebooks leaves even of the real letter.
        It needs no codes, but has to be told what a mark is.

        **A trap.** Nats an image rise with the number of codes: 15.4 (15.1 to 15.7), 20.2 (18.8 to 21.0) and 26.7 (24.6
        to 28.6) for the same validation letters. That does not say that the GPT gets worse. A finer codebook says more
        of an image, so there is more to be surprised by, and some of it nobody would see.

        **What would change my mind.** With more seeds, or a longer training, a clear fall of right drawings at 512:
        then there can be too many for so few images. A clear rise: then painting was the limit after all.

        **What is not shown.** Other numbers of places, with the number of codes held: the row is longer then,
        with more to be exact in and more to err in. Equal seconds, larger GPTs, more than 400 steps. Whether a
        VQ-VAE that is trained until it paints as well with 32 codes as another with 512 would change the drawing.
    """,
)
INVESTIGATIONS = [HOW_MANY]

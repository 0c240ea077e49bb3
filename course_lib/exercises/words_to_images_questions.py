"""Lesson 18, what is asked: the questions of the quiz, and how many codes an image needs."""

from dataclasses import replace

from course_lib.exercises import questions

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

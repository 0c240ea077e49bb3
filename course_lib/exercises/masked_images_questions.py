"""Lesson 12, what is asked: the questions of the quiz, and how much of an image may be hidden."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "masked_images"

_ASKED = questions("""
    left_out_or_masked: BERT reads a mask token for each hidden piece. A masked autoencoder's encoder reads nothing for a hidden patch. What is gained?
    + It reads fewer tokens, and none that a real image lacks
        Yes: a quarter of the patches is cheaper, and the encoder never gets used to a token that is gone later on.
    - It cannot copy a hidden patch, as it could from a token
        A mask token says nothing of the patch that it stands for: there is nothing to copy in either way.
    - It needs no places, as the seen patches stand in order
        Which patches are missing is not to be told from their order. Each gets its place before others are left out.
    - It need not be told how many patches there are to paint
        That is so, but nothing is gained by it: the decoder has a row for all of them, in either way.

    hidden_alone: The loss counts the hidden patches alone. What would be different if the seen ones counted as well?
    - The hidden patches would not be learned from any longer
        They would count as before, with a smaller share in the mean.
    - The encoder would get to read the hidden patches itself
        `seen` says what the encoder reads. The loss says which errors count, and neither changes the other.
    - The mean would be larger, as more patches are counted
        A mean does not grow with the number. Patches that were read are easier to paint, so it would rather fall.
    + A part of it would ask to paint again what has been read
        Yes: that part can fall while nothing is guessed. What the decoder paints at seen places is not asked for.

    more_than_of_words: BERT hides 15 of 100 pieces of a text, a masked autoencoder 75 of 100 patches. Why so many more?
    - A patch holds many numbers, and a piece only one id
        How much an answer holds is not how hard it is: a white patch has many numbers, all told by its neighbours.
    + Few hidden patches can be painted from what is beside
        Yes: lines and surfaces go on, so neighbours say most. With many gone, more than the nearest has to be used.
    - A ViT reads on both sides, and BERT on the left only
        BERT reads both sides too. That is why its words have to be hidden at all.
    - An image has fewer patches than a text has of pieces
        Their numbers are alike, a few hundred. With fewer of them one would rather hide less.

    nearest_is_ahead: With few labels, the nearest training image by pixels names more letters than a ViT trained to paint. What does this show?
    - That learning to paint gave this network nothing at all
        For that it has to be compared with itself: the same ViT, labels and steps, without having painted before.
    - That the network paints the hidden patches quite wrongly
        Painting has its own measure, the error of hidden patches. One may paint well and name badly.
    + That pixels serve better here than what it had learned
        Yes, and no more than this: with these images and so many labels. What painting gave is another comparison.
    - That it is ahead of a ViT on photographs of things too
        Letters fill their image, one like the other. A thing in a photograph may stand anywhere, in any light.

    what_the_shift_is_for: Swin cuts the grid into windows, and moves them by half a side in every second block. What for?
    + So that places on both sides of a border can meet
        Yes: without it no window would ever hear of another, however many blocks there are.
    - So that each place sees all the others in a block
        It still sees one window in a block. What is further away comes through several blocks.
    - So that a model learns that things may be elsewhere
        Moving the training images does that. Here no image moves: after the block each place is where it was.
    - So that there are fewer windows, each with no rest
        The cyclic shift leaves as many windows as before, and their cost. Those at the edge need a mask besides.

    twice_the_side: An image becomes twice as high and twice as wide; patches and windows stay. How does the number of scores of a head grow?
    - 2 times with windows, 4 times where all look at all
        That would be so if the number of patches doubled. Both sides double, so there are four times as many.
    - 4 times with windows, and just as much without them
        Without windows each of the patches looks at each other: four times as many rows, each four times as long.
    - 16 times with windows, and just as much without them
        A window has as many pairs as before. It is the number of windows that grows.
    + 4 times with windows, 16 times where all look at all
        Yes: four times as many windows, each as before; and four times four the pairs where there are none.
""")  # noqa: E501
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

HOW_MUCH = Investigation(
    "how_much_may_be_hidden",
    lesson=LESSON,
    question="How much of an image may be hidden while a model learns to paint it? Take three shares at least, one "
    "below a half and one above three quarters. Write down first which share paints best, and which helps most to "
    "name letters with few labels. Are they the same? Then measure.",
    rubric=(
        "I varied the share that is hidden while painting is learned, and nothing else: images, model and labels "
        "stayed.",
        "I said whether shares were given equal steps or equal seconds, for where more is hidden a step is cheaper.",
        "I measured painting and naming apart, and let the two disagree.",
        "I let all models paint at the same share when I compared them: at its own share each has another task.",
        "I compared with rules that learn nothing: the mean patch for painting, the nearest image for naming.",
        "I compared naming with the same network that had never painted, with the same labels and steps.",
        "I tried patches of another size, for with larger patches the same share leaves larger holes.",
        "I used three seeds at least, for first weights, masks and the choice of labels, and show the range.",
        "I chose on validation images, and looked at the test images once.",
        "I wrote down before what would change my mind.",
    ),
    answer="""
        **The question** has two halves, and a share that is best for one need not be best for the other. Painting is
        what is trained. Naming is what it is trained *for*.

        **A trap in the first half.** The loss of a model that hides a quarter is lower than that of a model that hides
        nine tenths, and this says nothing about the models: its task is easier. Train each with its own share, then
        let all of them paint the same test images with the same patches hidden, once with few hidden and once with
        many. Each will have an advantage near its own share. What is of interest is how fast it loses it.

        | what is compared | what has to be equal | what would mislead |
        |:--|:--|:--|
        | painting | the patches hidden in the test | each model's loss at its own share |
        | naming | labels, steps, classifier | the best of several classifiers for one share alone |
        | either | steps, or seconds: say which | equal steps called "equally dear" |
        | holes | side of a patch | the share alone: one large hole or many small ones |

        **Steps or seconds.** The encoder reads only what is seen. Where nine tenths are hidden it reads less than half
        of what it reads where three quarters are. With equal steps the high share gets less computing; with equal
        seconds it gets more images. Do both, or say which, since the order of shares can turn round between them.

        **Rivals.** For painting, the mean of all training patches at that place, and the nearest seen patch repeated.
        For naming, the nearest training image by pixels: on letters that all fill their image it is strong, and a
        network that stays behind it has not yet learned anything that pixels do not offer. And the same network
        without painting, which is the only one that says what painting has given.

        **What the papers say, about photographs.** He et al. (2022, section 4.1 and figure 5): fine-tuned, shares from
        40 to 80 percent do about equally well; with the encoder frozen and a linear layer on it, accuracy rises up to
        about three quarters and then falls. So already there the two measures disagree about how much the share
        matters. Xie et al. (2022, SimMIM) vary the side of what is hidden too, and find that the best share depends on
        it: with larger holes, fewer are enough.

        **What was found here.** In the lesson's record (a thousand steps of painting, a thousand names, three seeds)
        the ranges of a quarter, a half and three quarters overlap, and none is clearly ahead of a new network: too
        little painting, and too few runs, to tell shares apart. Each was given equal steps, so the higher shares had
        less computing. Not measured: nine tenths, equal seconds, other sides of a patch, longer painting. Letters are
        mostly paper, so a share of patches hides less ink than it seems to; and an I and an l with one patch each are
        the same picture.

        **What would change my mind.** Naming that does not differ between a quarter and nine tenths by more than seeds
        do: then the share does not matter here. The network that never painted being as good: then nothing that was
        said about shares is about learning. An order of shares that turns round with larger patches: then it is the
        size of holes that matters, and the share is the wrong thing to vary.
    """,
)
INVESTIGATIONS = [HOW_MUCH]

"""Lesson 09, what is asked: the questions of the quiz, and which bias helps with few images."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "vit"

_ASKED = questions("""
    half_a_patch: Patches become a third as wide and a third as high. [CLS] aside, how many scores has a head then?
    - Three times as many: a line holds three times as many.
        A line does. The image has three times as many lines too, and scores are there for pairs of patches.
    - Nine times as many: there are nine times the patches.
        That many patches there are. A score belongs to a pair of them.
    - 27 times as many: there are more patches, also longer.
        The patches are shorter, and that costs the embedding only. A score is computed from queries and keys.
    + 81 times as many: there is one for each pair of them.
        Yes: nine times the patches, and nine times nine the pairs. With patches of one pixel nothing is left to pay it.

    embedding_is: Which convolution is the patch embedding, for patches of 16 x 16?
    + A window of 16, moved by 16, with D channels out
        Yes. Windows that do not overlap are patches, and each window's weights are a column of E.
    - A window of 16, moved by 1, with D channels out
        Those windows overlap: there would be a token for every pixel.
    - A window of 1, moved by 16, with D channels out
        It would read one pixel of each patch, and drop the other 255.
    - A window of 3, moved by 2, four times in a row
        That is a convolutional stem, which may be better. It has norms and activations between its layers.

    pixels_shuffled: One permutation of all pixels is drawn, and every image of training and test gets it. Who can lose?
    - All three: linear model, convolution and ViT
        A linear model has a weight for each pixel. Permute them alike, and it computes what it did before.
    - The convolution alone: it needs its neighbours
        It may lose. But a patch is a set of neighbours too: its pixels now come from all over the image.
    + Convolution and ViT, and not the linear model
        Yes. Both are told by their build which pixels belong together; the linear model never was.
    - The ViT alone, for its places are now wrong
        Its places are learned, so they can be learned anew. What is lost is what stands in a patch.

    without_places: What can a ViT without place vectors still tell apart?
    - Nothing: any two images look just alike to it
        It still sees what is in each patch, and how often.
    - Every image, as the patches come in a fixed order
        They do, but attention does not ask who came first: the sum over all patches has no order.
    + Images that hold other patches, wherever they are
        Yes: it sees a bag of patches. Exchange two of them and the answer stays the same.
    - Images whose neighbouring patches are different
        For that it would have to know who is a neighbour.

    rollout_leaves_out: A rollout says how much of [CLS] comes from each patch. What does it leave out altogether?
    - In which order the layers have mixed what they read
        That is what the product of the layers takes into account.
    - That a part of each vector goes past the attention
        It is taken as one half in every layer. That is rough, but it is not left out.
    - Where the heads of a layer have looked on average
        Each layer comes in as the mean over its heads.
    + What the values say, and what is made of them
        Yes. Values, norms and feed-forward networks are not in it. Cover the patch and see, beside a random one.

    larger_images: A ViT was trained on 224 x 224 and is to read 384 x 384, with patches of 16. What has to be changed?
    - E, for there are more pixels in an image now
        There are more patches. Each has as many pixels as before, and E is about one patch.
    + The places, for there are more patches now
        Yes: 577 rows instead of 197, drawn on the larger grid. All other weights are used as they are.
    - The blocks, for their attention maps are larger
        Maps are computed, not learned. A block has no weight that knows how many tokens there are.
    - The head, as [CLS] gathers from more patches
        [CLS] is one vector as before, as wide as before.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

BIAS = Investigation(
    "which_bias_helps",
    lesson=LESSON,
    question="Which bias would you put back for your data? A ViT is not told that neighbours belong together, or that "
    "a thing may stand elsewhere. You have a tenth of the digits. Choose one help: shifted copies, a stem of "
    "convolutions, a teacher that is a convolutional network, smaller patches. Write down first what it gives on the "
    "test images as they are, and on the same images moved by a pixel. Then measure.",
    rubric=(
        "I varied one help and nothing else: the same images, the same number of steps, the same size of model.",
        "I had lines to compare with: the ViT without any help, and one rival that is no ViT.",
        "I drew the images and the first weights with five seeds at least, and show the range.",
        "I looked at test images of two kinds, as they are and moved, for a bias helps where its assumption holds.",
        "I said what result would change my mind about the help, and ran the test that could show it.",
    ),
    answer="""
        **The question.** Do shifted copies give a ViT what a convolution has by its build, with 117 images to learn
        from?

        **The prediction.** Copies that are moved by up to one pixel help on both kinds of test images, and a stem of
        convolutions helps about as much. If shifts helped on moved images alone, I would say that they teach one
        assumption, and that the digits as they are do not need it.

        **What came out.** A tenth of the training images, as many of each digit; patches of 2 x 2, two blocks, 32 wide,
        26,538 parameters without the stem; 400 steps of 32 images with `fit`, lr=3e-3, weight_decay=0.05; five draws of
        images and weights (seeds 0 to 4). Right answers among the 382 test images, mean and (range); "moved" means each
        by up to one pixel, drawn.

        | help | as they are | moved |
        |:--|:--|:--|
        | none | 0.67 (0.62 to 0.72) | 0.27 (0.23 to 0.31) |
        | shifted copies | 0.58 (0.50 to 0.64) | 0.54 (0.48 to 0.60) |
        | stem of convolutions | 0.72 (0.67 to 0.78) | 0.31 (0.26 to 0.33) |
        | a teacher, hard answers | 0.67 (0.62 to 0.72) | 0.27 (0.23 to 0.31) |
        | *rival:* convolutional network of equal size | 0.89 (0.85 to 0.92) | 0.47 (0.43 to 0.54) |
        | *rival:* linear model, lr=3e-2 | 0.86 (0.84 to 0.87) | 0.36 (0.35 to 0.39) |

        **I was wrong about the shifts.** They double what is right on moved images, and on the images as they are they
        cost something: in 400 steps the model has more to learn, and there every digit stands in the middle. The stem
        helps a little on both, and does not teach that a thing may stand elsewhere: behind it the places count as
        before. The teacher changes nothing, to the last digit: it is the convolutional network, trained on the same 117
        images, and it answers all of them with their labels.

        **So.** With so few digits, cut out and centred, none of these helps brings the ViT to where even the linear
        model is, and I would take the convolutional network. Where digits may stand elsewhere I would give it shifted
        copies too: it should not be compared with a ViT that has them while it has none.

        **What is not shown.** Whether shifts would still cost anything with ten times the steps, smaller patches, and
        what a teacher gives whose answers are soft, or who sees shifted copies.
    """,
)
INVESTIGATIONS = [BIAS]

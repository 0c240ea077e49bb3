"""Lesson 11, questions: those of the quiz, and whether CLIP reads a name or matches shapes."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "images_and_words"

_ASKED = questions("""
    what_pushes_apart: A batch has 128 images and their names. What is a wrong answer for one image?
    - A name sampled from a list of typical mistakes
        Nobody lists mistakes: they come from the batch itself.
    + The name of any other image in the same batch
        Yes: 127 of them, for free. A small batch has fewer, and among few names the right one is too easy to find.
    - Every name in the data that isn't the image's
        That would be a softmax over all names, each encoded again at every step. The batch stands in for them.
    - The name it ranked highest in the last epoch
        That is hard-negative mining. The paper's loss takes the batch as it comes.

    why_a_temperature: Why are cosines multiplied by a number above 10 before the softmax?
    - Otherwise the features grow without a limit
        Their length is 1 whatever the towers compute, so nothing can grow.
    - Otherwise the gradient is too large to train
        The gradient of a softmax is at most one times the scale, so a scale makes it larger.
    + Otherwise no pair could get a p close to one
        Yes: cosines lie between -1 and 1. With 128 names and scale 1, p is at most e / (e + 127 / e), about 0.05.
    - Otherwise the loss differs in both directions
        It is the mean of rows and columns for every scale.

    same_name_twice: Two images in a batch have one name. What do index targets, b for row b, ask of them?
    - Nothing, because the two target rows cancel out
        The targets of the two rows differ and their texts are equal, so the two targets cannot both be met.
    + That each be closer to its own copy of the name
        Yes. Both copies are the same point, so p is at most one half, and a correct name is pushed away.
    - That both images be mapped to exactly one point
        Targets that know the names ask for that. Index targets call the other copy of the name wrong.
    - That the name be encoded in two different ways
        The text tower always computes the same feature for the same words.

    what_a_prompt_is: A classifier for two classes is made of two prompts. What has been trained for this task?
    - A readout with two rows, on images of the task
        It needs no image of the task and no label: that is why it is called zero-shot.
    - Only the text tower, on the words of the prompt
        It was trained together with the other tower, long before, and stays frozen.
    + Nothing: the two texts are the rows of a matrix
        Yes: the scores are scale * images @ texts.T, a linear classifier whose weights were written in words.
    - Only the scale, so that p is right on average
        The scale belongs to the model and comes from its training.

    a_new_name: A name was never seen in training, but all its words were. When can CLIP still find it?
    - Whenever some image in training looks the same
        Then it would answer with that image's name. The features of the new name are where its own words put them.
    + If both towers combine its words the same way
        Yes: letter and accent must move text and image in the same direction, also for names it never met.
    - If the new name is added to its tokenizer first
        The tokenizer already has the words. The whole name is not a token.
    - Never: an untrained text has no feature at all
        Every text has a feature. Whether it is in the right region is what the lesson measures.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

READS = Investigation(
    "does_it_read",
    lesson=LESSON,
    question="Does CLIP read a letter and its accents, or does it match the picture with shapes that it knows? Find "
    "images for which the two would answer differently. First write down what each would answer. Then measure.",
    rubric=(
        "I said beforehand what a model that reads would answer, and what one that matches whole shapes would.",
        "I compared with a rule that does match shapes, the nearest training image, on the very same images.",
        "I looked at letter, case and accents separately, and not only at whether the whole name was correct.",
        "I varied one thing in a picture and nothing else; a control has as much ink or as large a shift.",
        "I trained with at least three seeds, show the range, and said which result would change my mind.",
    ),
    answer="""
        **The question.** A model that reads composes a name: this letter, this accent. A model that matches shapes
        knows whole pictures, and answers with the name of the most similar one.

        **The prediction.** For a new name (each word known, the name never met) the second must always be wrong in the
        accents or in the letter, because no training picture has that name. The first gets both. I expected reading.

        **The result.** The lesson's CLIP and a rule that does match shapes, the nearest training image by pixels, both
        tested on the same new names among *all* names. Five trainings, from the record: mean and (range).

        | correct | CLIP | nearest image |
        |:--|:--|:--|
        | script | 0.90 (0.89 to 0.91) | 0.92 |
        | case | 0.99 (0.98 to 0.99) | 0.99 |
        | letter | 0.84 (0.83 to 0.85) | 0.87 |
        | accents | 0.39 (0.38 to 0.41) | 0.01 |
        | the whole name | 0.38 (0.36 to 0.40) | 0.00 |

        **Conclusion:** neither. For script, case and letter it does no better than a rule that matches shapes. It reads
        two accents in five, which no such rule could. If only new names are allowed it finds 0.77 (0.75 to 0.78) and
        the ten nearest images 0.48: a short list hides wrong accents.

        **Shapes help it.** If the nearest image has the same letter and case, it gets 0.40 (0.38 to 0.42), otherwise
        0.23 (0.20 to 0.27). A reader would not care. And names with more accents are not harder: 0.43 (0.41 to 0.46)
        against 0.35 (0.34 to 0.38) for those with one.

        **One change in the picture, with its control.** For old names in new typefaces, 0.51 are correct. With a small
        second letter in the corner it is 0.27 (0.18 to 0.34), with its pixels shuffled 0.30 (0.23 to 0.34). So the ink
        disturbs. The second letter's name is the answer in 1 of 1,000 cases, and could not be otherwise: narrow letters
        that are moved by eight pixels, with nothing else changed, fall from 0.54 to 0.00, so CLIP cannot name anything
        in a corner. It knows a letter at one position only.

        **Words.** With the same images and names, but the words of each name shuffled, it is 0.35 (0.32 to 0.37)
        instead of 0.77. That does not prove reading: a text tower without word order finds as many as the Transformer.
        And a prompt of one word does not predict the script: 0.39 (0.36 to 0.43), where always "Latin" gets 0.66. A
        linear layer that was trained for it gets 0.77, and the best whole name, a nearest neighbour among 1,189, has
        the correct script in 0.87 (0.87 to 0.89). If each script counts equally (guessing gets one third): one word
        0.41 (0.36 to 0.48), the mean of a script's names 0.63 (0.61 to 0.64), the layer 0.65 (0.62 to 0.67), the best
        name 0.83 (0.81 to 0.85). The script depends on which letter it is.

        **What would change my mind.** If, after training with shifted letters, accents of new names were as rarely
        correct as with the nearest image, then what I call reading was the same accent at the same pixels.

        **What this does not show.** Longer training (after four times the steps whole names rise to 0.57), other image
        towers, and whether accents at other positions, below or within a letter, are read as often.
    """,
)
INVESTIGATIONS = [READS]

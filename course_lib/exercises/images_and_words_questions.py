"""Lesson 11, what is asked: the questions of the quiz, and whether CLIP reads a name or matches shapes."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "images_and_words"

_ASKED = questions("""
    what_pushes_apart: A batch has 128 images and their names. What is a wrong answer for one image?
    - A name that was drawn from a list of mistakes
        Nobody lists mistakes: the batch itself is where they come from.
    + The name of any other image in this same batch
        Yes: 127 of them, for nothing. A small batch has fewer, and among few the right one is found too easily.
    - Every name in the data that is not the image's
        That would be a softmax over all names, each read anew at every step. The batch stands for them.
    - The name that it gave most to in the last epoch
        That is mining of hard negatives. The loss of the paper takes the batch as it comes.

    why_a_temperature: Why are cosines multiplied by a number above 10 before the softmax?
    - Else the features grow without end in training
        Their length is 1, whatever the towers give: nothing can grow.
    - Else the gradient of a right pair is above one
        The gradient of a softmax is at most one times the scale, so a scale makes it larger.
    + Else no pair of a batch could have p near one
        Yes: cosines lie between -1 and 1. Of 128 with the scale 1 the best p is e / (e + 127 / e), about 0.05.
    - Else the loss would not be the same both ways
        It is the mean of rows and columns with every scale.

    same_name_twice: Two images in a batch have one name. What do index targets, b for row b, ask of them?
    - Nothing: two equal rows of targets fall out at once
        The targets of the two rows differ, and their texts are equal: both cannot be met.
    + That each be nearer to its own copy of one text
        Yes. The two texts are one point, so p is at most a half, and what is pushed away is a right name.
    - That the two images go to one and the same place
        Targets that know of the name ask for that. Index targets call the other's text wrong.
    - That the name be read in two different senses
        The text tower gives the same feature for the same words, always.

    what_a_prompt_is: A classifier for two classes is made of two prompts. What has been trained for this task?
    - A read-out of two rows, on the images of a test
        No image of the task is needed, and no label: that is why it is called zero-shot.
    - The text tower alone, upon the words of prompts
        It was trained with the other tower, long before, and stays as it is.
    + Nothing: the two texts are the rows of a matrix
        Yes: scores are scale * images @ texts.T, a linear classifier whose weights were written in words.
    - The scale alone, so that p is right on average
        The scale is the model's own, from its training.

    a_new_name: A name was never seen in training, but all its words were. When can CLIP still find it?
    - Whenever some training image looks much the same
        Then it would answer with that image's name. The new one stands elsewhere, where its own words bring it.
    + If both towers join words and strokes the same way
        Yes: letter and mark must move the text and the image in the same direction, in names never met too.
    - If the name is put into the tokenizer before its use
        The tokenizer has its words. The name as a whole is no token.
    - Never: a text that was not trained has no feature
        Each text has a feature. Whether it is at the right place is what the lesson measures.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

READS = Investigation(
    "does_it_read",
    lesson=LESSON,
    question="Does CLIP read a letter and its marks, or does it match the picture with shapes that it knows? Find "
    "images on which the two would answer differently. Write down first what each would answer. Then measure.",
    rubric=(
        "I said beforehand what a model that reads would answer, and what one that matches whole shapes would.",
        "I compared with a rule that does match shapes, the nearest training image, on the very same images.",
        "I looked at letter, case and marks by themselves, and not only at whether the whole name was right.",
        "I varied one thing in a picture and nothing else; its control has as much ink, or as far a shift, no meaning.",
        "I trained with three seeds at least, show the range, and said what result would change my mind.",
    ),
    answer="""
        TO BE WRITTEN from the record of `sight` and `nearest`: what was varied, letter, case and marks told rightly
        (mean and range), names with known and other shapes, pictures of two letters beside their controls, what
        follows, what would change my mind, what is not shown.
    """,
)
INVESTIGATIONS = [READS]

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
        Yes: cosines lie between -1 and 1. Of 128 with the scale 1 p is e / (e + 127 / e) at best, about 0.05.
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
        **The question.** A model that reads puts a name together: this letter, this mark. One that matches shapes
        knows whole pictures, and says the name of the most similar one.

        **The prediction.** Of a new name (each word known, the name never met) the second must be wrong in the marks
        or in the letter, always: no picture with that name was there. The first gets both. I expected reading.

        **What came out.** The lesson's CLIP and the rule that does match shapes, the nearest training image by pixels,
        asked for the same new names among *all* names. Five trainings, from the record: mean and (range).

        | told rightly | CLIP | nearest image |
        |:--|:--|:--|
        | script | 0.90 (0.89 to 0.91) | 0.92 |
        | case | 0.99 (0.98 to 0.99) | 0.99 |
        | letter | 0.84 (0.83 to 0.85) | 0.87 |
        | marks | 0.39 (0.38 to 0.41) | 0.01 |
        | the whole name | 0.38 (0.36 to 0.40) | 0.00 |

        **So** neither. In script, case and letter it does no better than a rule that matches shapes. Of the marks it
        reads two in five, and that no such rule could. Where only new names may be answered it finds 0.77
        (0.75 to 0.78), the ten nearest images 0.48: a short list hides wrong marks.

        **Shapes help it.** Where the nearest image has the same letter and case it names 0.40 (0.38 to 0.42), where it
        has not 0.23 (0.20 to 0.27). A reader would not mind. And names of more marks are no harder: 0.43 (0.41 to 0.46)
        against 0.35 (0.34 to 0.38) of those with one.

        **One change in the picture, with its control.** Old names, faces never seen: 0.51 are named rightly. With a
        small second letter in the corner 0.27 (0.18 to 0.34), with the same dots in disorder 0.30 (0.23 to 0.34). So
        the ink disturbs; its name is said in 1 of 1,000, and must be so, for narrow letters moved by eight pixels,
        nothing else changed, fall from 0.54 to 0.00: what stands in a corner cannot be named. What it knows of a
        letter, it knows at one place.

        **Words.** The same images and names, the words of each name in disorder: 0.35 (0.32 to 0.37) for 0.77. That is
        no proof of reading: a tower of words without order, trained so, finds as many as the Transformer. And a prompt
        of one word does not tell the script: 0.39 (0.36 to 0.43), where "Latin" always has 0.66; a linear
        layer trained for it finds 0.77, and the best whole name, a nearest neighbour of 1,189, has the script of 0.87
        (0.87 to 0.89). With each script counted alike, where guessing gets a third: one word 0.41 (0.36 to 0.48), the
        mean of a script's names 0.63 (0.61 to 0.64), the layer 0.65 (0.62 to 0.67), the best name 0.83 (0.81 to 0.85).
        Script depends on which letter it is.

        **What would change my mind.** Marks of new names as rare as with the nearest image, after a training with
        shifted letters: then what is called reading was the same mark at the same dots.

        **What is not shown.** Longer training (after four times the steps the whole names rise to 0.57), other image
        towers, and whether marks that stand elsewhere, below or within a letter, are read as often.
    """,
)
INVESTIGATIONS = [READS]

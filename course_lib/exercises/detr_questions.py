"""Lesson 10, what is asked: the questions of the quiz, and how many queries a detector needs."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "detr"

_ASKED = questions("""
    order_of_a_list: The objects of a scene are handed to the set loss in another order. What changes?
    - The value, until the model has learned an order
        No order can be learned from it: the matching finds the same pairs, whatever the list looks like.
    - Which of the queries answers for which object
        The pairs are the same. Only the numbers under which the objects stand in the list are others.
    + Nothing: the same pairs are found, the same sum
        Yes. The least sum over all pairings does not know in which order its rows or columns stand.
    - Its gradient, for the first object weighs the most
        All objects weigh the same: the loss is a mean over them.

    boxes_apart: Two boxes do not touch. What does the gradient say of moving one towards the other?
    + IoU is silent, and GIoU says to move it nearer
        Yes: IoU is 0 and stays 0 near there, the hull around both shrinks as they come nearer.
    - Both say to move it nearer, and GIoU says it more
        IoU is 0 for all boxes that are apart: nothing changes when one is moved a little.
    - Both are silent: a loss needs L1 to move it
        L1 helps too. GIoU is not silent: the share of the hull that neither covers becomes smaller.
    - IoU says to move it nearer, and GIoU is silent
        It is the other way round: the hull is what GIoU has and IoU has not.

    found_twice: A detector puts two good boxes on one digit. How does average precision count them?
    - Both are right, since both lie well on the digit
        An object can be taken once. Else a detector would gain by saying everything twice.
    - Both are wrong, because neither is the only one
        The surer one takes the object and is right.
    + The surer one is right, while the other is wrong
        Yes: and it is wrong however good it is. That is what suppression, or a matching in training, is for.
    - The better one is right, and the other one wrong
        Boxes come in the order of their scores. The surer takes the object, even if the other fits better.

    no_object_weighs: "No object" weighs a tenth of a digit in the loss. What becomes of a query that is not sure?
    - It says "no object", for that is so much cheaper
        A mistake costs less there, not more: to miss a digit costs ten times as much as to see one too many.
    - Nothing, as the weight is in all of the gradients
        It is in those of queries without an object alone: they pull a tenth as hard.
    + It names a digit sooner, so more are found twice
        Yes: a digit too many costs a tenth of a digit missed. Less weight finds more, and more of it twice.
    - It puts its box elsewhere, for boxes weigh as well
        A query without an object is asked for no box at all.

    what_detr_spares: What does a detector that answers with a set do without, once it is trained long enough?
    + A step by hand that strikes out the second boxes
        Yes, that is its promise: who answers for what was settled in training. Whether it is kept is to be measured.
    - A score for every box, as all boxes are right
        It has scores: most queries say "no object", and some are wrong.
    - A network for the image, for queries see the pixels
        Queries look at what a backbone has made of the image.
    - A loss for the boxes, because matching places them
        Matching says which box is whose. L1 and GIoU move it.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

COUNT = Investigation(
    "how_many_queries",
    lesson=LESSON,
    question="How many queries does a detector need for scenes of up to five digits? Choose some numbers below, at and "
    "above five. Write down first how AP50 and the boxes that are found twice go with the number. Then measure.",
    rubric=(
        "I varied the number of queries and nothing else: the same scenes, steps, rates and widths of the model.",
        "I chose numbers below five, at five, and several times five, and said which number of objects a scene has.",
        "I drew the first weights and the scenes with three seeds at least, and show the range beside the mean.",
        "I judged on test scenes, by AP50 and by boxes found twice, and looked at crowded scenes by themselves.",
        "I said what result would change my mind about the number, and ran the test that could show it.",
    ),
    answer="""
        **The question.** Does a detector for up to five digits need five queries, or more?

        **The prediction.** Three must fail wherever four or five digits lie. Five should do nearly as well as nine,
        for no scene has more. Above that nothing changes, but for seconds. If five were far behind nine, I would say
        that a query is a place, and that a place can hold more than one digit.

        **What came out.** The lesson's DETR with other numbers of queries, 300 steps, 500 test scenes, three draws of
        weights and scenes (seeds 0 to 2), from the record: mean and (range).

        | queries | AP50 | suppressed | found twice, a scene | AP50, crowded scenes |
        |:--|:--|:--|:--|:--|
        | 3 | 0.60 (0.55 to 0.63) | 0.61 (0.57 to 0.64) | 0.12 (0.10 to 0.12) | 0.35 (0.33 to 0.36) |
        | 5 | 0.72 (0.69 to 0.74) | 0.75 (0.72 to 0.77) | 0.34 (0.30 to 0.36) | 0.45 (0.42 to 0.47) |
        | 9 | 0.84 (0.83 to 0.85) | 0.88 (0.87 to 0.89) | 0.71 (0.69 to 0.75) | 0.58 (0.57 to 0.59) |
        | 16 | 0.86 (0.85 to 0.86) | 0.90 (0.89 to 0.90) | 0.68 (0.61 to 0.71) | 0.60 (0.60 to 0.60) |
        | 36 | 0.82 (0.81 to 0.83) | 0.89 (0.89 to 0.90) | 0.91 (0.89 to 0.93) | 0.57 (0.56 to 0.57) |

        **I was wrong about five.** They are far behind nine. And 36 are not as good as 16: more is found twice, and
        suppressed both are alike. So more neighbours stand around each digit, and more of them name it.

        **So.** I would take nine or sixteen. That a query is a place fits with this, but it is not shown: five queries
        also have a coarser grid of anchors, and so must move their boxes further.

        **What would change my mind.** Five queries whose anchors were learned with nine, or scenes of at most one digit
        in each part of the canvas: if five were as good as nine there, places would be the reason.

        **What is not shown.** Longer training, after which duplicates may go, and queries without anchors.
    """,
)
INVESTIGATIONS = [COUNT]

"""Lesson 10, questions: those of the quiz, and how many queries a detector needs."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "detr"

_ASKED = questions("""
    order_of_a_list: You pass the objects of a scene to the set loss in another order. What changes?
    - The value, until the model has learned an order
        The model cannot learn an order here: the matching finds the same pairs, whatever the order of the list.
    - Which of the queries is matched with which object
        The pairs stay the same. Only the positions of the objects in the list are different.
    + Nothing: it finds the same pairs and the same sum
        Yes. The smallest sum over all assignments does not depend on the order of its rows or columns.
    - The gradient, as the first object counts the most
        All objects count the same: the loss is a mean over them.

    boxes_apart: Two boxes do not touch. What does the gradient say about moving one towards the other?
    + IoU's gradient is 0; GIoU's says to move it nearer
        Yes: IoU is 0 and stays 0 nearby, while the hull around both shrinks as the boxes come nearer.
    - Both say to move it nearer, and GIoU more strongly
        IoU is 0 for all boxes that are apart, so nothing changes when you move one of them a little.
    - Both have a gradient of 0: only L1 would move a box
        L1 helps too, but GIoU has a gradient: the share of the hull that neither box covers becomes smaller.
    - IoU's gradient says to move it nearer; GIoU's is 0
        It is the other way round: GIoU depends on the hull, and IoU does not.

    found_twice: A detector puts two good boxes on one digit. How does average precision count them?
    - Both are correct, since both fit the digit well
        An object can be claimed only once. Otherwise a detector would gain by reporting everything twice.
    - Both are wrong, since the digit is found twice
        The more confident box claims the object and is correct.
    + The more confident is correct, the other wrong
        Yes, however good the other one is. This is why a detector needs NMS, or a matching in training.
    - The better fit is correct, and the other wrong
        Boxes are taken in the order of their scores. The more confident one claims the object, even if the other fits
        better.

    no_object_weighs: "No object" has a tenth of a digit's weight in the loss. What does an unsure query do?
    - It says "no object", since that costs far less
        Mistakes on "no object" cost less, not more: missing a digit costs ten times as much as one digit too many.
    - Nothing else: all gradients contain this weight
        Only the gradients of queries without an object contain it: they pull a tenth as hard.
    + It reports a digit sooner, with more duplicates
        Yes: a digit too many costs a tenth of a missed digit. A smaller weight finds more, and finds more of it twice.
    - It moves its box away, since boxes count as well
        A query without an object has no target for its box at all.

    what_detr_spares: What does a detector trained by matching no longer need, once it has trained long enough?
    + A handwritten rule that removes duplicate boxes
        Yes, that is its promise: training has settled which query answers. Whether it holds has to be measured.
    - A score for every box, as all boxes are correct
        It has scores: most queries say "no object", and some are wrong.
    - A network for the image, as queries read pixels
        Queries attend to the features that a backbone has computed from the image.
    - A loss for its boxes, since matching moves them
        Matching only says which box belongs to which object. L1 and GIoU move it.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

COUNT = Investigation(
    "how_many_queries",
    lesson=LESSON,
    question="How many queries does a detector need for scenes of up to five digits? Choose some numbers below, at and "
    "above five. First write down how AP50 and the number of duplicates will depend on it. Then measure.",
    rubric=(
        "I varied the number of queries and nothing else: the same scenes, steps, rates and widths of the model.",
        "I chose numbers below five, at five, and several times five, and said how many objects a scene has.",
        "I used at least three seeds for the initial weights and the scenes, and show the range beside the mean.",
        "I evaluated on test scenes, by AP50 and by duplicates, and looked at crowded scenes separately.",
        "I said what result would change my mind about the number, and ran the test that could show it.",
    ),
    answer="""
        **The question.** Does a detector for up to five digits need five queries, or more?

        **The prediction.** Three must fail wherever there are four or five digits. Five should do nearly as well as
        nine, because no scene has more. Above that nothing should change except the training time. If five were far
        behind nine, I would say that a query is a position, and that a position can hold more than one digit.

        **The result.** The lesson's DETR with other numbers of queries, 300 steps, 500 test scenes, three seeds
        for weights and scenes (0 to 2), from the record: mean and (range).

        | queries | AP50 | after NMS | duplicates per scene | AP50, crowded scenes |
        |:--|:--|:--|:--|:--|
        | 3 | 0.60 (0.55 to 0.63) | 0.61 (0.57 to 0.64) | 0.12 (0.10 to 0.12) | 0.35 (0.33 to 0.36) |
        | 5 | 0.72 (0.69 to 0.74) | 0.75 (0.72 to 0.77) | 0.34 (0.30 to 0.36) | 0.45 (0.42 to 0.47) |
        | 9 | 0.84 (0.83 to 0.85) | 0.88 (0.87 to 0.89) | 0.71 (0.69 to 0.75) | 0.58 (0.57 to 0.59) |
        | 16 | 0.86 (0.85 to 0.86) | 0.90 (0.89 to 0.90) | 0.68 (0.61 to 0.71) | 0.60 (0.60 to 0.60) |
        | 36 | 0.82 (0.81 to 0.83) | 0.89 (0.89 to 0.90) | 0.91 (0.89 to 0.93) | 0.57 (0.56 to 0.57) |

        **I was wrong about five.** They are far behind nine. And 36 are not as good as 16: there are more duplicates,
        and after NMS the two are alike. So more queries stand around each digit, and more of them report it.

        **Conclusion.** I would take nine or sixteen. The result fits the idea that a query is a position, but it does
        not prove it: five queries also have a coarser grid of anchors, and so must move their boxes further.

        **What would change my mind.** Five queries whose anchors were learned with nine, or scenes with at most one
        digit in each part of the canvas: if five were as good as nine there, positions would be the reason.

        **What this does not show.** Longer training, after which duplicates may disappear, and queries without anchors.
    """,
)
INVESTIGATIONS = [COUNT]

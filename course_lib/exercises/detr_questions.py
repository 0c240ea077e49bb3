"""Lesson 10, what is asked: the questions of the quiz, and how many queries a detector needs."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "detr"

_ASKED = questions("""
    order_of_a_set: The objects of a scene are handed to the set loss in another order. What changes?
    - Its value, until the model has learned the order
        No order can be learned from it: the matching finds the same pairs, whatever the list looks like.
    - Which query answers for which of all objects
        The pairs are the same. Only the numbers under which the objects stand in the list are others.
    + Nothing: the same pairs are found, the same sum
        Yes. The least sum over all pairings does not know in which order its rows or columns stand.
    - Its gradient, for the first object weighs the most
        All objects weigh the same: the loss is a mean over them.

    apart_boxes: Two boxes do not touch. What does the gradient say of moving one towards the other?
    + IoU is silent, and GIoU says to move it nearer
        Yes: IoU is 0 and stays 0 near there, the hull around both shrinks as they come nearer.
    - Both say to move it nearer, and GIoU says it more
        IoU is 0 for all boxes that are apart: nothing changes when one is moved a little.
    - Both are silent, so a loss needs L1 to move it
        L1 helps too. GIoU is not silent: the share of the hull that neither covers becomes smaller.
    - IoU says to move it nearer, and GIoU is silent
        It is the other way round: the hull is what GIoU has and IoU has not.

    twice_found: A detector puts two good boxes on one digit. How does average precision count them?
    - Both are right, since both lie well on the digit
        An object can be taken once. Else a detector would gain by saying everything twice.
    - Both are wrong, because neither is the only one
        The surer one takes the object and is right.
    + The surer one is right, and the other one is wrong
        Yes: and it is wrong however good it is. That is what suppression, or a matching in training, is for.
    - The better one is right, and the other one wrong
        Boxes come in the order of their scores. The surer takes the object, even if the other fits better.

    too_few_queries: A DETR has three queries. What can it do for a scene of five digits?
    - Find five, since a query may answer for two of them
        A query gives one class and one box.
    + Find three at most, and two have no query at all
        Yes: the number of queries bounds what can be found. In training two of the five pull at nothing.
    - Find none, since the matching has no solution then
        It has: each query gets an object, those that cost most get none.
    - Find five, in two passes of three queries each time
        The queries are learned, and a second pass would say the same again.
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
        @@ANSWER@@
    """,
)
INVESTIGATIONS = [COUNT]

"""Lesson 02, what is asked: the questions of the quiz, and how much gradient a memory needs."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "lstm_gradient_flow"

_ASKED = questions("""
    gate_path: Why can the gradient survive along the cell c?
    - An LSTM has four times the weights, so more paths lead back.
        More weights do not help where each path shrinks. It is the kind of step along c that differs.
    - A sigmoid has a steeper slope than tanh has, so less is lost.
        The sigmoid's slope is at most 1/4, that of tanh at most 1. On the way along c neither slope occurs.
    + From c to c a step only multiplies by f, which may be near 1.
        Yes. No matrix and no tanh lie on that way, and every unit has its own f: it can hold on or let go.
    - Its gates clip it where it gets too long or fades too much.
        Gates multiply, they do not clip. A gradient can still vanish along c where f stays well below 1.

    forget_bias: A forget gate starts with a bias of 1, all else near zero. How long does its cell remember?
    + About two steps: by then half of it is gone.
        Yes. sigmoid(1) = 0.73, and 0.73^2.2 = 1/2. After 20 steps 0.2 % is left; training has to open the gate.
    - For ever: a gate that stands at 1 is open.
        The bias is 1, the gate is sigmoid(1) = 0.73. It multiplies at every step.
    - One step only, as if there were no such gate.
        Neither of them stops at one step. Here what is left shrinks to 0.73 of itself at every step.
    - Nobody can tell before training has ended.
        What it learns cannot be said, but where it starts can: f is about sigmoid(1) in every unit.

    recall_bias: One LSTM learns recall, its twin does not. Only the forget bias at the start differs. What is shown?
    - That a live gradient at the start can decide it.
        It was not changed alone: the bias also sets how much of the first symbol is left at the end. The laboratory
        takes the two apart; each carried it part of the way.
    + That the gate's start can decide, all else equal.
        Yes, on this task and at this budget, and no more: one thing was changed, so the difference is its work.
    - That the twin has too few weights to hold a symbol.
        Both have equally many, and the symbol takes 3 bits. Room is not what was missing.
    - That a larger forget bias can only help a network.
        One task was tried. Where much must be forgotten soon, a gate that is open wide may well be in the way.

    gru_z: In a GRU as PyTorch computes it, z is 1 in one unit. What does this step do to it?
    + The unit keeps its value; nothing new is let in.
        Yes: h' = 1 * h + 0 * n. What is written must first be given up, so who keeps all writes nothing.
    - The unit takes the candidate; nothing old stays.
        That is z = 0 in this form. (Chung et al., 2014, write it the other way round.)
    - The unit is set to zero, for z resets the state.
        To reset is r's work, and r acts inside the candidate alone.
    - The unit keeps its value and adds the candidate.
        So an LSTM can do, whose gates f and i are two. Here keeping and writing share one gate.

    false_past: A model reads 64 characters of one play, then 64 of another; its last guess is no worse. What is shown?
    - That it was trained on plays, and plays are all alike.
        Then the first characters behind the change would cost nothing more either, and they do cost more.
    + That what it guesses there rests on the last 64 alone.
        Yes. Older characters make no difference to its guess, so none of what it knows comes from them.
    - That its gates noticed the change and emptied the cell.
        It may be so in a gated model, but the test does not show it, and the plain network has no gates.
    - That its guesses are as bad after the true text as there.
        They are equally good in both, and far better than without any text. Equal does not mean bad.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

GRADIENT = Investigation(
    "how_much_gradient",
    lesson=LESSON,
    question="How much gradient does a memory need? The cell keeps the symbol (b = 4 forwards). Let less and less of "
    "the gradient come back along the cell, down to nothing. Write down first at which factor a step you expect "
    "recall over 24 symbols to fall to a blind guess. Then measure.",
    rubric=(
        "I varied the factor on the way back and nothing else: the same starts, batches, steps and rate.",
        "I had lines to compare with: the whole gradient, none of it, and a blind guess.",
        "I looked at five seeds or so, and where they differ I show the range.",
        "I asked whether less gradient makes it fail or only makes it slow, and ran more steps.",
        "I said what result would change my mind about the vanishing gradient, and ran what could show it.",
    ),
    answer="""
        **The prediction.** At half a step, less than a ten-millionth of the gradient comes along the cell from 24
        steps back. I expect recall to fall to a blind guess (0.125) between 0.88, which leaves a twentieth, and 0.5.

        **What came out.** Recall over 24 symbols, mean and range of ten recorded runs, five seeds on two
        instruction sets. (`steps=900` for the last column.)

        | gates start at | back | 300 steps | 900 steps |
        |:--|:--|:--|:--|
        | 4 | 0.98 | 1.00 (0.99 to 1.00) | |
        | 4 | 0.88 | 0.99 (0.95 to 1.00) | |
        | 4 | 0.5 | 0.44 (0.38 to 0.53) | 0.53 (0.31 to 0.83) |
        | 4 | 0.12 | 0.42 (0.34 to 0.55) | |
        | 4 | 0 | 0.39 (0.32 to 0.51) | 0.47 (0.31 to 0.66) |
        | 0 | 0.5 | 0.14 (0.13 to 0.14) | |
        | 0 | 0.98 | 0.76 (0.48 to 1.00) | 1.00 (1.00 to 1.00) |

        **I was wrong.** Nowhere does it fall to a blind guess. With no gradient along the cell four answers in ten
        are right, and after three times the steps nearly half. A gradient that fades to a twentieth is enough.

        **So.** As long as the symbol is in the cell at the end, what stands at the end can learn to read some of it:
        the output gate and the read-out need no gradient from far back. With more of the gradient, more is right, and
        it need not be whole.

        **What is not shown.** That the gradient matters more than the memory: the factor is held to the end, while the
        gates are free to learn, and what they became was not recorded. Nor whether the read-out does it alone, or side
        roads help. To find out, hold all weights but those of the read-out as they began. And this is recall: a cell
        that already keeps everything need not learn what to keep. On a task where it must, I would expect the gradient
        to count for more.
    """,
)
INVESTIGATIONS = [GRADIENT]

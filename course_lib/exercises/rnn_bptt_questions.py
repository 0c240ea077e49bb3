"""Lesson 01, what is asked: the questions of the quiz, and which number of W_h tells how far a network reaches."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "rnn_bptt"

_ASKED = questions("""
    sharing: Why can one recurrent network read sequences of any length?
    + Each step has the same parameters, however many there are.
        Yes. The loop may run five times or five thousand; W_x, W_h and b stay what they are.
    - It has some for the longest text, and uses a part of them.
        Then a text longer than any before could not be read. The parameters are shared, not stored for each step.
    - It cuts the text into windows of one size and reads each.
        That is what a layer without recurrence has to do. Here the state carries on from step to step.
    - It fills up short texts with padding to one common length.
        Padding only makes a batch rectangular. One text alone needs none.

    reaching: A fresh network has the reach 0.0001 at distance 20. What does this number say?
    - In one of 10,000 texts it makes use of the word that is 20 back.
        Nothing is counted here. The reach is a size, that of a gradient.
    - In the course of 20 steps the state shrinks to 0.0001 of itself.
        The state may be as large as ever. What has faded is the difference that one input makes.
    + A small change 20 back moves the output 0.0001 as much at most.
        Yes. And the gradient that goes back to that input is as small.
    - It can at best remember 0.0001 of what stood there 20 words back.
        It speaks of small changes of this network as it is now. What training can make of it is left open.

    vanishing: The largest singular value of W_h is 0.9. How far can a change of h_t move h_{t+50}?
    - By as much as itself: tanh bends, but does not shrink.
        tanh never stretches (its slope is at most 1), and W_h shrinks.
    + By at most 0.9^50 of itself, about half of a per cent.
        Yes. Each step multiplies by W_h (at most 0.9) and by tanh's slope (at most 1).
    - By at most 0.9 of itself: all steps have the same W_h.
        That holds for one step. Fifty steps multiply fifty such factors.
    - By any amount: some numbers in W_h may well be large.
        None is larger than the largest singular value, which bounds what the whole matrix can do.

    exploding: The largest singular value of W_h is 1.3. Does the gradient have to explode?
    - Yes: over k steps it has to grow like 1.3 to the k.
        Without tanh it could. But where states are near +1 or -1, tanh's slope is near 0.
    - No: it cannot explode where a tanh stands in its way.
        It can: with quiet input and σ = 1.5 the reach grew with distance.
    - Yes, up to where clipping takes off what is too long.
        Clipping changes the step that is taken, not the gradient itself.
    + No: tanh's slope can press every factor down below 1.
        Yes. More than 1 is needed for an explosion, but it does not suffice (Pascanu et al., 2013).

    truncation: Chunks of 32 characters, the state carried over. What is the model never trained to do?
    - To use what its state has held for over 32 characters.
        It may use what the state holds, however old. Only the gradient stops at the cut.
    - To read a word whose halves lie in two of the chunks.
        The state is carried over, so both halves are read as one word.
    + To store something now for use over 32 characters on.
        Yes, and for less where a cut comes sooner: no gradient crosses it, so nothing rewards storing.
    - To read the chunks in order, for each is read by itself.
        They are read in order, and the state passes from each to the next.

    bits: A model needs 2.2 bits for a character of plays that it has not read. What does that say?
    - Of a hundred characters of a play it gets some two of them wrong.
        It says nothing about right and wrong guesses, only about probabilities.
    + It gives the right one 2^-2.2, or 0.22, in the geometric mean.
        Yes. The usual mean is higher. It is as unsure as a fair draw from 4.6 characters.
    - One character takes up about 2.2 bits of the model's parameters.
        The parameters are another matter: this is about text that they have not seen.
    - At each place it wavers between some 2.2 of all 70 characters.
        Bits are logarithms: 2.2 of them are as unsure as a fair draw from 2^2.2 = 4.6 characters.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

MATRIX = Investigation(  # tests/test_exercises_rnn_bptt.py measures the table again
    "which_number_of_w_h",
    lesson=LESSON,
    question="Which number of W_h tells how far a fresh network reaches? Its largest singular value, the modulus of "
    "its largest eigenvalue, or another one? Find matrices that agree in one of them and differ in the other. Write "
    "down what you expect at distances 5 and 40. Then measure.",
    rubric=(
        "I wrote down what I expect of two numbers of W_h at distances 5 and 40, with a reason, before I measured.",
        "I varied W_h, holding one of the two numbers, and nothing else: same width, same W_x, same kind of input.",
        "I measured without tanh as well as with it, and with quiet as well as loud input.",
        "I drew each kind of matrix with five seeds at least, and show the range.",
        "I said what result would change my mind about my number, and looked for a matrix that gives it.",
    ),
    answer="""
        **The question.** Singular value or eigenvalue?

        **The prediction.** The eigenvalue. The singular value bounds one step, but 40 steps without tanh are the 40th
        power of W_h, which grows or shrinks like λ^40. A matrix with a small eigenvalue that reaches far all the same
        would change my mind.

        **What came out.** Width 64, without tanh, five draws (seeds 0 to 4): σ is the largest singular value, λ the
        modulus of the largest eigenvalue; the reach over |W_x|, geometric mean and (range).

        | W_h | σ | λ | at distance 5 | at distance 40 |
        |:--|:--|:--|:--|:--|
        | orthogonal | 1 | 1 | 1.0 | 1.0 |
        | Gaussian, scaled to σ = 1 | 1 | 0.55 | 0.039 (0.036 to 0.042) | 2e-11 (6e-12 to 8e-11) |
        | Gaussian, scaled to λ = 1 | 1.8 | 1 | 0.79 (0.63 to 0.95) | 0.40 (0.27 to 0.79) |
        | as `nn.RNN` draws it | 1.1 | 0.61 | 0.063 (0.058 to 0.072) | 7e-10 (7e-11 to 1e-8) |
        | a delay line: ones beside the diagonal | 1 | 0 | 0.96 | 0.61 |

        **Half right.** Of the drawn matrices λ^40 tells the reach at 40 within a factor of some tens, and σ does not:
        with σ = 1 it is 1 or 2e-11, and with σ above 1 it vanishes too. But the delay line has no eigenvalue other than
        0 and reaches further than a Gaussian with λ = 1. It hands each number on to the next unit, and drops it after
        64 steps. Its 64th power is 0, as λ = 0 says; 40 steps are not yet the long run.

        **So.** σ is a bound for any number of steps, and no more. λ tells the rate in the long run, and how long that
        is depends on the matrix. At distance 5 neither number orders the five rows.

        **With tanh.** With quiet input the rows are nearly the same, but for 0.79 instead of 1.0 in the first. With
        loud input all five are below 1e-8 at distance 40. There tanh's slopes are small; neither number knows them.

        **What is not shown.** What training does to W_h, and whether a network that starts with a long reach learns
        more. Lesson 02 looks at that.
    """,
)
INVESTIGATIONS = [MATRIX]

"""Lesson 04, what is asked: the questions of the quiz, and what makes attention an alignment."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "attention_alignment"

_ASKED = questions("""
    attention_memory: What does the decoder with attention have that the one of lesson 03 lacks?
    - A state vector several times as wide as before
        The state has the same width. It is no longer the only way from source to target.
    + Every state of the encoder, one for each word
        Yes. The memory grows with the sentence; the number of parameters does not.
    - The gold alignment of every training pair
        It never sees one. The weights come out of learning to translate.
    - A dictionary of the word pairs that it has met
        Nothing is looked up by word: queries meet states, and all is learned.

    attention_mask: When must the scores of padding be masked?
    - After softmax: set the weights of padding to 0.
        Then the weights of real words no longer sum to one.
    - Never: a model learns by itself to ignore padding.
        It may, nearly. But then a translation depends on the length of its neighbours in the batch.
    + Before softmax: set their scores to minus infinity.
        Yes. Their weights are then exactly zero, and the rest sums to one.
    - In training: nobody pads sentences once it is over.
        A batch of test sentences is padded just the same.

    attention_fair: Which comparison shows that attention mends the fall, and not the second direction?
    - The model with attention beside that of lesson 03
        These two differ in the cell, the direction and the recipe as well: any of them could be the reason.
    - Two directions with attention beside one with it
        That shows what the second direction adds where attention is at work. Both have attention.
    + The same model with attention, and without any
        Yes. Cell, width and directions are the same. The look adds a third more parameters; lesson 03's LSTM has more.
    - Lists of four dates beside lists of one date
        That shows whether a model falls. Why it does, or does not, needs another model beside it.

    aer_perfect: A model translates every date right, and its alignment error rate is 0.1. How can that be?
    - One of the two numbers is wrong: both cannot be.
        Both are right. They measure different things.
    + A state beside the word may contain its information.
        Yes. The state beside it has read the word as well. So a look there tells as much, and counts as a wrong link.
    - One word in ten is wrong, and a date does not show it.
        Every word is right. The rate counts links, not words.
    - Its attention is spread, so that few links are strong.
        A link goes to the largest weight, however small that is.

    attention_explains: A weight of 0.9 lies on the source word 5. What is certain?
    - The word that is written is a translation of word 5.
        Often, not surely: a state holds its neighbours too.
    - Without word 5 it would have written some other word.
        That can be tested by taking it away, and often the word stays.
    + The context: 0.9 times that state, and some others.
        Yes, and no more than that. What the state holds, and what is made of it, is another question.
    - The other words of the source have next to no effect.
        Their effect may come through the state at 5, which has read them, and through the decoder's own state.
""")
QUIZ = [replace(question, lesson=LESSON) for question in _ASKED]

ALIGN = Investigation(
    "what_makes_it_align",
    lesson=LESSON,
    question="What makes attention align? In some runs the lesson's model looks at the wrong place for most commas or "
    "for et; from update gates at 0, as here, see for yourself. Choose one thing that may be the reason, change it, "
    "and leave the rest. Write down first which kinds of words you expect to be linked rightly then.",
    rubric=(
        "I named one thing that may be the reason, and predicted what becomes of each kind of word without it.",
        "I varied that one thing and nothing else: same cell, width, steps, learning rate and batches.",
        "I ran at least three seeds, and looked at the range before I compared two means.",
        "I chose on validation lists, and said how many variants I had tried.",
        "I said what result would change my mind, and looked for it.",
    ),
    answer="""
        **Two reasons to choose from.** *The states know too much*: a state has read its neighbours, so a look at a
        state beside the *and* fetches it as well. If that is the reason, let the decoder fetch only the
        embeddings of the words. *The marks are no news*: et stands before the last date and a comma before the
        others, so a decoder that knows how many dates are left could write them without a look. If that is the
        reason, train on lists whose marks nobody can guess.

        **The prediction.** Both help a little.

        **What came out.** 600 steps, update gates that start at 0, 300 validation lists, seeds 0 to 3: the error rate,
        then the share that is linked wrongly. Days and years are linked rightly in all sixteen runs.

        | fetched | training lists | AER | weekday, month | comma | et |
        |:--|:--|:--|:--|:--|:--|
        | states | as they are | .13 .13 .06 .13 | 0 0 0 0 | 1 1 1 1 | 1 1 0 1 |
        | words | as they are | .13 .17 .06 .13 | 0 .15 0 0 | 1 .56 .90 1 | 1 1 0 1 |
        | states | marks | .06 .06 0 0 | .14 0 .01 0 | .01 .93 .01 0 | 0 0 .01 0 |
        | words | marks | .08 .06 .09 .16 | .05 0 .06 .22 | 1 1 1 1 | 0 0 0 0 |

        Fifteen translate at least 96 of 100 lists of every length up to four. The last run of the last row has not yet
        learned to: it gets 80 to 31 of 100.

        **I was half wrong.** Fetching words alone changed nothing for et. Where the marks cannot be guessed, et is
        linked rightly in eight of eight runs, against two of eight where they can. So et looks at its own word when
        it is news. The comma is not so simple: it is linked rightly in three of eight runs where it cannot be guessed,
        and in none where it can or where words alone are fetched.

        **What would have changed my mind.** An et that stays wrong on marked lists, or comes right with words alone.

        **What is not shown.** That a wrongly linked et needs no look: in the lesson's model it follows the context of
        another list. That it is so from another start: the lesson's update gates start at 3. And the marked lists are
        also other lists: more single dates, four new marks. A control would join dates by "and" and commas alone, at
        random. Four seeds are few. And four variants were compared on validation lists, so the best of them would still
        have to be judged once on test lists.
    """,
)
INVESTIGATIONS = [ALIGN]

"""Lesson 04: the questions of the quiz, and the investigation into what makes attention align."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "attention_alignment"

_ASKED = questions("""
    attention_memory: What does the decoder with attention have that the one of lesson 03 lacks?
    - A state vector several times as wide as before
        The state has the same width. But it is no longer the only path from source to target.
    + Every state of the encoder, one for each word
        Yes. The memory grows with the sentence; the number of parameters does not.
    - The gold alignment of every training pair
        It never sees one. The weights result from learning to translate.
    - A dictionary of the word pairs that it has met
        Nothing is looked up by word: queries are compared with states, and both are learned.

    attention_mask: When must the scores of padding be masked?
    - After softmax: set the weights of padding to 0.
        Then the weights of real words no longer sum to 1.
    - Never: a model learns by itself to ignore padding.
        It may come close. But then a translation depends on the other sentences of its batch.
    + Before softmax: set their scores to minus infinity.
        Yes. Their weights are then exactly zero, and the others sum to 1.
    - In training: nobody pads sentences once it is over.
        A batch of test sentences is padded just the same.

    attention_fair: Which comparison shows that the gain is due to attention, not to the second direction?
    - The model with attention beside that of lesson 03
        These two also differ in the cell, the direction and the recipe. Any of these could be the reason.
    - Two directions with attention beside one with it
        That shows what the second direction adds to attention, because both models have attention.
    + The same model with attention, and without any
        Yes. Cell, width and directions are the same. Attention adds some parameters; lesson 03's LSTM has even more.
    - Lists of four dates beside lists of one date
        That shows whether exact match falls. To learn why, compare with another model.

    aer_perfect: A model translates every date right, and its alignment error rate is 0.1. How can that be?
    - One of the two numbers is wrong: both cannot be.
        Both are right. They measure different things.
    + A state beside the word may contain its information.
        Yes. The state next to it has read the word, too. Attending there is as good, but counts as a wrong link.
    - One word in ten is wrong, and a date does not show it.
        Every word is correct. The rate counts links, not words.
    - Its attention is spread, so that few links are strong.
        A link goes to the largest weight, however small that weight is.

    attention_explains: A weight of 0.9 lies on the source word 5. What is certain?
    - The word that is written is a translation of word 5.
        Often, but not always: a state contains its neighbours, too.
    - Without word 5 it would have written some other word.
        You can test that by removing word 5, and sometimes the French word stays.
    + The context: 0.9 times that state, and some others.
        Yes, and no more than that. What the state contains, and how it is used, is another question.
    - The other words of the source have next to no effect.
        They may act through state 5, which has read them, and through the decoder's own state.
""")
QUIZ = [replace(question, lesson=LESSON) for question in _ASKED]

ALIGN = Investigation(
    "what_makes_it_align",
    lesson=LESSON,
    question="What makes attention align? In some runs the lesson's model attends to the wrong word for most commas or "
    "for et; see what happens from update biases at 0, as here. Choose one thing that may be the reason, change it, "
    "and leave the rest. Write down first which kinds of words you expect to be linked correctly then.",
    rubric=(
        "I named one thing that may be the reason, and predicted what happens to each kind of word without it.",
        "I varied that one thing and nothing else: same cell, width, steps, learning rate and batches.",
        "I ran at least three seeds, and looked at the range before I compared two means.",
        "I chose on validation lists, and said how many variants I had tried.",
        "I said what result would change my mind, and looked for it.",
    ),
    answer="""
        **Two reasons to choose from.** *The states know too much*: a state has read its neighbours, so a state next
        to the *and* contains it as well. To test this, let the decoder average only the embeddings of the words.
        *The separators are predictable*: et comes before the last date and a comma before the others, so a decoder
        that knows how many dates are left could write them without attention. To test this, train on lists whose
        separators nobody can guess.

        **The prediction.** Both help a little.

        **What came out.** 600 steps, update biases that start at 0, 300 validation lists, seeds 0 to 3: the error
        rate, then the share that is linked wrongly. Days and years are linked correctly in all sixteen runs.

        | averaged | training lists | AER | weekday, month | comma | et |
        |:--|:--|:--|:--|:--|:--|
        | states | as they are | .13 .13 .06 .13 | 0 0 0 0 | 1 1 1 1 | 1 1 0 1 |
        | words | as they are | .13 .17 .06 .13 | 0 .15 0 0 | 1 .56 .90 1 | 1 1 0 1 |
        | states | separators | .06 .06 0 0 | .14 0 .01 0 | .01 .93 .01 0 | 0 0 .01 0 |
        | words | separators | .08 .06 .09 .16 | .05 0 .06 .22 | 1 1 1 1 | 0 0 0 0 |

        Fifteen translate at least 96 of 100 lists of every length up to four. The last run of the last row has not yet
        learned to: it gets 80 to 31 of 100.

        **I was half wrong.** Averaging only the words changed nothing for et. If the separators cannot be guessed, et
        is linked correctly in eight of eight runs, against two of eight if they can. So et attends to its own word
        when that word carries information. The comma is not so simple. With states, it is linked correctly in three
        of four runs if it cannot be guessed; in all other runs it is mostly linked wrongly.

        **What would have changed my mind.** An et that stays wrong on these lists, or becomes right with words alone.

        **What is not shown.** We have not shown that a wrongly linked et needs no attention: in the lesson's model it
        follows the context of another list. Nor do we know whether this holds from another start: the lesson's update
        biases start at 3. The new lists also differ in other ways: they have more single dates and four new
        separators. A control would join dates by "and" and commas alone, at random. Four seeds are few. And four
        variants were compared on validation lists, so the best of them would still have to be tested once on test
        lists.
    """,
)
INVESTIGATIONS = [ALIGN]

"""Lesson 08, what is asked: the questions of the quiz, and whether a model knows who speaks."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "bert"

_ASKED = questions("""
    both_ways_next: Why is a model that looks both ways not asked for the next word, as a GPT is?
    - Two directions need twice as much text to learn.
        The same text serves both. How much a model needs is another question, and no reason why it cannot be asked.
    + Each place sees the next word and can copy it.
        Yes: the answer stands in what it reads. Training would go splendidly and teach nothing. So a word is hidden.
    - Its softmax would have to run over the whole text.
        It runs over the vocabulary, as in a GPT: one piece is asked at each place.
    - Attention without a causal mask keeps no order.
        The order is in the embeddings of places, in both models. The mask hides what comes later.

    one_in_ten_stays: Of the chosen words, 10 in 100 stay as they are and are asked all the same. What for?
    - To rest: some easy answers keep the loss steady.
        Nobody wants easy answers. What counts is what the model must do at words that look untouched.
    - To let it count how often each of the words comes up.
        The read-out's bias learns that from all answers, hidden or not.
    + So that a state leans to the word that stands there.
        Yes: to bias it towards the observed word (appendix A.1). In use nearly every word is the right one.
    - To show it the 15 in 100 that will be asked later.
        The draw is new each time a text is read, and nothing tells which untouched word is asked.

    what_cls_is_for: What is [CLS], the first piece of each text, there for?
    - It marks the place at which the text begins.
        Place 0 has a vector of its own for that, in the table of places.
    - It holds the mean of all words of the text.
        Nothing makes it a mean. It takes from the others what training makes it take; a mean is another choice.
    - It parts the two sentences from each other.
        That is [SEP], together with the segments.
    + Answers about the whole text are read there.
        Yes. It stands for no word, so its state is free to gather what such an answer needs.

    asked_at_15: The read-out is asked at 15 in 100 places. What does that cost?
    + Fewer answers a text; the others stand there to read.
        Yes: a GPT learns from each place of a text, BERT from 15 in 100. Hide all, and nothing is left.
    - No cost: a blank teaches as much as six plain words.
        That would have to be measured. What is sure is that most places of a text give no answer.
    - Longer texts: the read-out must be made for each place.
        The other way round: the read-out is made for the asked places alone, which saves work.
    - Rare words: at 15 in 100 most of them are never asked.
        The draw is new each time, so each word is asked now and then. Rare words are rare in a GPT's text too.

    random_control: A read-out learns on frozen states of a network with random weights, and beats chance. What follows?
    - The network knows the task without any training.
        Its weights are drawn. What knows the task is the read-out, which has learned from labels.
    - The labels have leaked, so the test is worth nothing.
        Nothing need leak. Random states still differ from word to word, and that can be enough.
    + Untrained states give so much: compare with those.
        Yes. Random states still tell words apart. Only what trained states give beyond them is due to training.
    - Training does not help, for random weights will do.
        That would follow if trained states gave no more. Beating chance says nothing about that.

    not_in_vocabulary: A word is not in BERT's vocabulary. What does the model read in its place?
    - [UNK], one piece for any word that is not known
        Only where no pieces fit, as with a sign that the vocabulary lacks. It holds letters, so words have pieces.
    - [MASK], so that it guesses the word from the others
        [MASK] is put by whoever trains or asks. A tokenizer never puts it.
    - The word in the vocabulary that is spelt most like it
        No word is exchanged for another: put together, the pieces give the word again.
    + Pieces: the longest that fits first, then what goes on
        Yes, from left to right, and each further piece begins with ##. It may take several, down to single letters.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

SPEAKER = Investigation(
    "who_speaks",
    lesson=LESSON,
    question="Does it know who speaks? Logistic regression on a model's frozen vectors can say which of eight people "
    "says a speech more often than chance. Is that how they speak, what they speak about, or the names that they "
    "mention? Choose one of these and take it out of the speeches. Write down first how much you expect to go, for "
    "the frozen vectors and for a bag of words. Then measure.",
    rubric=(
        "I varied one thing, the speeches, the reader or the number of labels, and nothing else: the same drawn "
        "speeches to learn from, the same test speeches, the same read-out.",
        "I had lines to compare with: the most frequent speaker, a bag of words, and the same network with random "
        "weights.",
        "I drew the labelled speeches with five seeds at least, and I said how much 142 test speeches leave to chance.",
        "I read speeches that were told wrongly, and said what a person could have told them by.",
        "I said what result would change my mind about what it knows, and ran the reader that could show it.",
    ),
    answer="""
        **The question.** Is it the names? A speech of *Henry IV* may name Poins, one of *Cymbeline* Pisanio. Whoever
        knows in which play a name stands knows who of the eight may speak. So I wrote "someone" for each name.

        **What I wanted to know.** MiniLM's frozen vectors are said to hold what a text is about. Then taking the names
        out should cost them little. If it cost them all that they have over a bag of words, I would say that what they
        know more may be names. (This was written down after the first lines of the table had run; do it before.)

        **What came out.** As measured with the starter cell, 400 speeches to learn from, five draws of them (seeds 0 to
        4): the share of 142 test speeches that is told rightly, mean and (range). The most frequent speaker is 0.23.

        | reader | as it is | names out |
        |:--|:--|:--|
        | bag of words | 0.29 (0.27 to 0.32) | 0.27 (0.24 to 0.30) |
        | MiniLM, frozen | 0.36 (0.34 to 0.40) | 0.27 (0.25 to 0.30) |
        | the same with random weights | 0.20 (0.19 to 0.21) | not measured |

        **So.** The bag lost little, and MiniLM lost all that it had over the bag. That fits "it was the names": a bag
        can use a name only if it stood in one of the 400 speeches, and MiniLM has met these names elsewhere, perhaps
        the plays. It does not prove it. The control would be new names, the same in every play.

        **What is not shown.** With 142 speeches a share of 0.3 is uncertain by 0.04 (one standard error), whatever
        the draws say. All readers met the same test speeches, so their differences are surer than that, but no more
        was counted. "someone" also makes the text odd, and for MiniLM that may cost something by itself: a control
        would put "someone" for as many other words.
    """,
)
INVESTIGATIONS = [SPEAKER]

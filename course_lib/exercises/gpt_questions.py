"""Lesson 07, what is asked: the questions of the quiz, and what it is in a prompt that helps."""

from dataclasses import replace

from course_lib.exercises import Investigation, questions

LESSON = "gpt"

_ASKED = questions("""
    bits_compare: Model A needs 2 bits per token, model B 6, each with its own tokenizer. Which predicts better?
    - A: for each token it needs a third of B's bits.
        Its tokens may be single letters, and B's whole words. A word of five letters would then cost A 10 bits.
    - B: it chooses among more tokens, and is surer.
        A larger vocabulary makes a token harder to guess, but how much of the text a token covers decides.
    - Neither: two vocabularies have no common unit.
        The text is common to both. Bits for the whole text, or per character, can be compared.
    + Open: a token may cover more or less text.
        Yes. Divide the bits of a text by its characters: that number is of the text, not of the tokenizer.

    one_mask_away: What makes a GPT of the parts of lesson 06?
    + The encoder's blocks, with the decoder's triangle
        Yes: self-attention and feed-forward, and nobody looks ahead. So each place can learn to say what comes next.
    - The encoder's blocks, with its mask for padding
        Then every place sees the token that it has to predict, and copies it.
    - The decoder's blocks, with the prompt as a source
        There is no source and nothing that reads one. The prompt is the beginning of the text itself.
    - The decoder's blocks, without the triangular mask
        Without the triangle each place sees what it has to predict. What goes is the look at a source.

    temperature_top_p: The temperature, used before top-p 0.9, goes from 1 to 0.5. What becomes of the set that is kept?
    - It stays the same: top-p looks at ranks alone.
        The ranks stay, that is true. Top-p adds up probabilities, and those have changed.
    - It can only grow: less is taken by the best ones.
        The other way round: a low temperature gives the best tokens more.
    + It cannot grow: the best ones reach 0.9 earlier.
        Yes. The best k tokens have more together than before, for every k, so no more of them are needed.
    - It shrinks to one: the rest is too improbable.
        That is temperature 0. At 0.5 the odds of two tokens are squared, and several can be left.

    what_is_cached: Why does the cache hold keys and values of old places, and not their queries?
    - An old query is needed too, but cheap to make.
        It is as dear as a key. What counts is whether a new place has a use for it.
    - The queries of old places change with new text.
        They do not: nobody looks ahead, so what stands at an old place remains, queries too.
    - The queries are the same as the keys in a head.
        They have a matrix of their own. A head whose queries are its keys would often look at itself most.
    + Old places ask no more: they are looked at.
        Yes. A new place brings its own query, which meets all keys and takes from all values.

    examples_change: Eight examples stand in the prompt, and the answers get better. What has changed in the model?
    + What it computes for the text, and nothing else
        Yes. Take the examples out again and all is as before. The place of learning is the text that it reads.
    - Nothing: it computes the same as without them
        Each place looks at what stands before it. With examples there, other vectors come out, and other answers.
    - Its parameters, for as long as the prompt lasts
        Nothing writes a parameter when a text is read: no loss, no gradient, no optimiser.
    - The vectors of the prompt's words in the table
        The table is a parameter as well, and stays. What the blocks make of these vectors is different.

    read_before: A real model needs fewer bits for our held-out plays than ours does. Why is that no fair comparison?
    - Its tokens are longer than ours, so it has fewer.
        Bits per character take care of that: the bits of the whole text, divided by its characters.
    - Its size is many times ours: it has more room.
        That is a reason why it may be better. A larger model that had not read them would be a fair rival.
    - Its text is of our days, and the plays are old.
        That would count against it, and it does better all the same.
    + Its text very likely held the plays; ours, not.
        Yes: they are held out from our training alone. Part of what it predicts it may simply remember.
""")
QUIZ = [replace(one, lesson=LESSON) for one in _ASKED]

PROMPT = Investigation(
    "what_in_the_prompt_helps",
    lesson=LESSON,
    question="What is it in the prompt that helps? Eight examples may show the format, which words are asked for, what "
    "kind of word an answer is, and how the two belong together. Choose one of these, take it out of the prompt and "
    "leave the rest. Write down first how much of the gain you expect to go. Then measure.",
    rubric=(
        "I varied one thing of the prompt, the format, the labels, the order, the number or the separator, and nothing "
        "else: the same words asked, the same drawn examples, the same model.",
        "I had lines to compare with: no example at all, the full examples, and one answer given always.",
        "I drew the examples with five seeds at least, and where they differ I show the range.",
        "I did at least two tasks, and looked at wrong answers too, not only at how many there are.",
        "I said what result would change my mind about what helps, and ran the prompt that could show it.",
    ),
    answer="""
        **The question.** Must the prompt show words and answers, or would the answers alone do? They show already what
        kind of word is wanted, and that a line ends behind it.

        **The prediction.** For capitals the answers alone do nearly as well as the pairs: the model knows which city
        belongs to which country, and has only to be told that cities are wanted. For the past tense they do half as
        well. If the answers alone did nothing for either, I would say that it needs to see what belongs to what.

        **What came out.** Eight examples, 24 words asked, five draws of the examples (seeds 0 to 4): the share of right
        answers, mean and (range). Without an example it is 0.00 for both tasks.

        | what a line of the prompt holds | past tense | capitals |
        |:--|:--|:--|
        | word -> its answer | 0.92 (0.92 to 0.92) | 0.63 (0.62 to 0.67) |
        | word -> the answer of another word | 0.22 (0.00 to 0.46) | 0.57 (0.50 to 0.62) |
        | -> answer | 0.19 (0.08 to 0.29) | 0.13 (0.00 to 0.25) |
        | answer | 0.17 (0.08 to 0.25) | 0.00 (0.00 to 0.00) |

        **I was wrong about capitals.** Behind eight cities without their countries not one question was answered right.
        With an arrow before each city it was few. For the past tense the answers alone did less than I thought, too.

        **So.** The answers alone do not show the task. For capitals the words may be paired wrongly and still most of
        the gain is there; take the words away and little is left. For the past tense the right pairing counts as well.

        **What is not shown.** Whether a larger model does the same, and whether it is the words that are missing or the
        way in which the lines differ from the question: a line without a word is also a line of another form. The
        prompt with exchanged answers has the same form, and that is why it stands in the table.
    """,
)
INVESTIGATIONS = [PROMPT]

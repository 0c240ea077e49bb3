"""How the facts of `territories.py` are said and asked: of each kind two vocabularies, three sentences and questions.

{place}, {answer} and {language} (the most spoken one) are filled in. The two vocabularies of a kind share no word but
stop words, so that a question can be asked in other words than those of the sentence that answers it.
"""

from typing import NamedTuple

VOCABULARIES = 2


class Vocabulary(NamedTuple):
    """Three sentences that say a fact, and three questions about it, in the same words."""

    passages: tuple[str, str, str]
    questions: tuple[str, str, str]


WORDINGS = {
    "money": (
        Vocabulary(
            (
                "The currency of {place} is the {answer}.",
                "The legal tender in {place}, its official currency, is the {answer}.",
                "{place} has the {answer} as its currency.",
            ),
            (
                "What is the currency of {place}?",
                "Which currency does {place} have?",
                "Which official currency is legal tender in {place}?",
            ),
        ),
        Vocabulary(
            (
                "In {place}, people buy bread with the {answer}.",
                "To buy anything in the shops of {place}, one pays with the {answer}.",
                "The {answer} is what people in {place} buy things with.",
            ),
            (
                "With what do people buy bread in {place}?",
                "To buy anything in the shops of {place}, what does one pay with?",
                "What do people in {place} buy things with?",
            ),
        ),
    ),
    "since": (
        Vocabulary(
            (
                "{place} has used its present currency since {answer}.",
                "The present currency of {place} came into use in {answer}.",
                "Since {answer}, {place} has had its present currency.",
            ),
            (
                "Since when has {place} used its present currency?",
                "In which year did the present currency of {place} come into use?",
                "Since which year has {place} had its present currency?",
            ),
        ),
        Vocabulary(
            (
                "The money of today was introduced in {place} in {answer}.",
                "It was in {answer} that {place} introduced the coins and notes of today.",
                "The money that circulates in {place} today was first issued in {answer}.",
            ),
            (
                "When was the money of today introduced in {place}?",
                "When did {place} introduce the coins and notes of today?",
                "When was the money that circulates in {place} today first issued?",
            ),
        ),
    ),
    "before": (
        Vocabulary(
            (
                "The former currency of {place} was the {answer}.",
                "{place} gave up its former currency, the {answer}.",
                "As its former currency, {place} had the {answer}.",
            ),
            (
                "What was the former currency of {place}?",
                "Which former currency did {place} give up?",
                "What did {place} have as its former currency?",
            ),
        ),
        Vocabulary(
            (
                "The old money of {place}, no longer valid, was the {answer}.",
                "Some people in {place} still remember their old money, the {answer}.",
                "The old coins and notes of {place} were those of the {answer}.",
            ),
            (
                "What was the old money of {place}, no longer valid?",
                "Which old money do some people in {place} still remember?",
                "Of what money were the old coins and notes of {place}?",
            ),
        ),
    ),
    "share": (
        Vocabulary(
            (
                "The main language of {place}, {language}, is spoken by {answer} percent.",
                "In {place}, {answer} percent speak {language}, the main language.",
                "{language} is the main language of {place}: {answer} percent speak it.",
            ),
            (
                "By how many percent is the main language of {place} spoken?",
                "In {place}, how many percent speak the main language?",
                "What percent of {place} speak its main language?",
            ),
        ),
        Vocabulary(
            (
                "Out of a hundred inhabitants of {place}, {answer} know the commonest tongue, {language}.",
                "The commonest tongue in {place}, {language}, is known to {answer} of a hundred inhabitants.",
                "{language}, the commonest tongue in {place}, is what {answer} in a hundred inhabitants talk.",
            ),
            (
                "Out of a hundred inhabitants of {place}, how many know the commonest tongue?",
                "To how many of a hundred inhabitants is the commonest tongue in {place} known?",
                "How many in a hundred inhabitants of {place} talk in the commonest tongue?",
            ),
        ),
    ),
    "second": (
        Vocabulary(
            (
                "The second language of {place} is {answer}.",
                "{answer} is the second language that is spoken in {place}.",
                "In {place}, {answer} is the language with the second largest number of speakers.",
            ),
            (
                "What is the second language of {place}?",
                "Which second language is spoken in {place}?",
                "Which language has the second largest number of speakers in {place}?",
            ),
        ),
        Vocabulary(
            (
                "Beside {language}, the tongue most often heard in {place} is {answer}.",
                "After {language}, {answer} is the tongue that most inhabitants of {place} know.",
                "In {place}, {answer} is the commonest tongue after {language}.",
            ),
            (
                "Which tongue is most often heard in {place} beside the commonest one?",
                "After the commonest one, which tongue do most inhabitants of {place} know?",
                "In {place}, which tongue is the next after the commonest one?",
            ),
        ),
    ),
}
KINDS = tuple(WORDINGS)

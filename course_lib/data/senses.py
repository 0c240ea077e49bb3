"""One word, two senses: twelve words, four sentences of our own for each sense, to see what a model makes of a word.

[row, *_] = rows()      # Row(word="bank", sense="money", sentence="The bank closed my account ...")
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import datasets_package, sha256

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the sentences: raise it when one of them changes
EACH = 4  # sentences of each sense

# word: sense: sentences. In the eight sentences of a word no other word comes twice that tells anything, and the word
# stands once in each, in the singular and in small letters.
SENTENCES = {
    "bank": {
        "money": """
            The bank closed my account without a word of warning.
            She borrowed the deposit for her flat from a bank in Leeds.
            He has worked as a clerk in that bank since he left school.
            Nobody at the bank could explain where the pension had gone.
        """,
        "river": """
            We tied the boat to a tree and climbed up the bank.
            Two herons stood on the far bank and did not move.
            After three days of rain the bank gave way under the cows.
            They spread a blanket on the grassy bank and watched the swimmers.
        """,
    },
    "bark": {
        "tree": """
            The bark of the old oak was rough and full of beetles.
            Deer had stripped the bark as high as they could reach.
            Cork is nothing but bark, peeled off every nine years.
            He carved two names into the bark with a pocket knife.
        """,
        "dog": """
            A single bark from behind the gate made the postman jump.
            I knew her terrier by its bark before it came round the corner.
            From the kennel we heard a hoarse bark, and then silence.
            His spaniel gave one short bark and wagged its tail.
        """,
    },
    "bat": {
        "animal": """
            A bat had squeezed in under the roof tiles and hung there asleep.
            At dusk the first bat came out of the cave.
            The little bat finds moths in the dark by listening for echoes.
            She nursed the injured bat until its wing had healed.
        """,
        "club": """
            He broke his favourite bat in the second innings.
            The boy swung the bat and missed the ball by a foot.
            My grandfather's cricket bat still leans against the wall of the hall.
            They oiled the bat every winter so that the willow would not split.
        """,
    },
    "crane": {
        "bird": """
            A crane was standing on one leg among the reeds.
            Each autumn the crane flies south over our village.
            The crane bent its long neck and swallowed a frog.
            He photographed a crane dancing in the snow for its mate.
        """,
        "machine": """
            The crane lifted the steel beams to the ninth floor.
            From her cabin at the top of the crane she could see the whole harbour.
            A crane toppled over in the storm and crushed two cars.
            They hired a crane to get the piano through the window.
        """,
    },
    "letter": {
        "sign": """
            The first letter of his name was painted above the door.
            My daughter writes every letter the wrong way round.
            There is one letter missing on the shop front.
            In German this letter has two dots on top.
        """,
        "post": """
            A long letter from my aunt arrived this morning.
            He burned the letter as soon as he had read it.
            I posted the letter on Tuesday and got no answer.
            The lawyer's letter gave them three weeks to leave the house.
        """,
    },
    "match": {
        "game": """
            The match was stopped because of fog.
            Our team lost the match in the last minute.
            Thousands came to see the match although it rained all afternoon.
            She won the match without dropping a set.
        """,
        "fire": """
            He struck a match and held it to the paper.
            The match went out before they could light the candle.
            There was only one match in the damp box.
            A careless match had burned down the barn.
        """,
    },
    "organ": {
        "body": """
            The liver is the largest organ inside us.
            The surgeons waited all night for a donor organ to arrive.
            Which organ does this disease attack first?
            Blood flows through the organ at a litre a minute.
        """,
        "music": """
            The organ filled the church with a low hum.
            She practises the organ every evening, when the pews are empty.
            Bach wrote this fugue for the organ.
            The old organ had two thousand pipes and a leak in the bellows.
        """,
    },
    "palm": {
        "hand": """
            She caught the tiny shell in the palm of one hand.
            His palm was rough from years of digging.
            The fortune teller traced a line across my palm.
            With his left palm he shaded his eyes from the glare.
        """,
        "tree": """
            Under the tallest palm a camel lay chewing.
            A palm leaned out over the white beach.
            The hurricane spared not a single palm on the island.
            They climbed the palm to cut down dates.
        """,
    },
    "plant": {
        "green": """
            Water this plant twice a week and keep it out of the sun.
            The plant on the windowsill has lost all its leaves.
            Bees carry pollen from one plant to another.
            Nobody knew what the strange plant with the hairy stem was called.
        """,
        "factory": """
            The plant makes forty thousand cars a year.
            When the plant shut down, half the town was out of work.
            Engineers at the plant noticed a crack in the boiler.
            Her brother spends his nights at a plant that bottles beer.
        """,
    },
    "seal": {
        "animal": """
            A seal lay on the rocks and scratched its belly.
            The polar bear crept up to the seal across the ice.
            Behind our dinghy the round head of a seal rose out of the waves.
            The keeper threw the seal a herring.
        """,
        "stamp": """
            Into the hot wax the king pressed his seal.
            The seal of both governments hangs from the treaty.
            Someone had broken the seal on the envelope.
            Without the notary's seal the contract is worth nothing.
        """,
    },
    "spring": {
        "season": """
            In spring the meadow behind the house turns yellow.
            They plan to marry next spring, when it is warmer.
            The swallows return every spring to the same barn.
            We spent a wet spring in Wales, digging potatoes.
        """,
        "coil": """
            A rusty spring stuck out of the mattress.
            The watch stopped because its spring had snapped.
            Pull the spring and it goes back to its old length.
            The door shuts by itself thanks to a strong spring.
        """,
    },
    "trunk": {
        "tree": """
            The trunk was so thick that three of us could not reach round it.
            Ivy had grown up the trunk to the highest branches.
            A woodpecker hammered at the hollow trunk of the beech.
            Lightning split the trunk from top to bottom.
        """,
        "luggage": """
            Her trunk was packed with dresses for the voyage to India.
            In the attic stood a trunk full of old photographs.
            The porter carried the heavy trunk up four flights of stairs.
            He lost the key to his trunk somewhere between Paris and Rome.
        """,
    },
}
WORDS = tuple(SENTENCES)


class Row(NamedTuple):
    """One sentence: the word that is asked about, the sense that it has there, the sentence."""

    word: str
    sense: str
    sentence: str


def load() -> DatasetDict:
    """The sentences as a `datasets.DatasetDict` with one split, test: word, sense, sentence.

    Nothing is trained on them. Raises ModuleNotFoundError without `datasets`; `rows` needs no package.
    """
    package = datasets_package()
    columns = {name: list(column) for name, column in zip(Row._fields, zip(*rows(), strict=True), strict=True)}
    return package.DatasetDict({"test": package.Dataset.from_dict(columns)})


def rows(word: str | None = None) -> list[Row]:
    """The sentences of a word, four of its first sense, then four of its second; of all words where None.

    Raises ValueError for a word that is not among `WORDS`.
    """
    if word is not None and word not in WORDS:
        raise ValueError(f"word must be one of {', '.join(map(repr, WORDS))}; got {word!r}.")
    return [
        Row(name, sense, line.strip())
        for name in (WORDS if word is None else [word])
        for sense, lines in SENTENCES[name].items()
        for line in lines.strip().splitlines()
    ]


def checksum() -> str:
    """SHA-256 of every row, in order: it changes with the sentences."""
    return sha256(json.dumps(rows()))


def card() -> str:
    """What the sentences are, where they come from, their number and what they cannot show, in Markdown."""
    table = "\n".join(
        f"| {word} | {' | '.join(f'{sense}: {lines.strip().splitlines()[0]}' for sense, lines in senses.items())} |"
        for word, senses in SENTENCES.items()
    )
    return f"""## Senses (`course_lib.data.senses`)

**What it is.** {len(WORDS)} words with two senses, {EACH} sentences for each sense. The question: a model makes a
vector of the word in each of its {2 * EACH} sentences; has the vector that is nearest to it, among the other
{2 * EACH - 1}, the same sense?

| word | the first sense | the second sense |
| --- | --- | --- |
{table}

**Where from, licence.** Sentences of our own, under the licence of this repository. Nothing is copied.

**Size and split.** {len(rows())} sentences, all of them test: nothing is trained on them. The word stands once in each,
in the singular and in small letters, and is a noun. In the {2 * EACH} sentences of a word no other word comes twice but
small ones, such as *the*, *in* and *had*, so no single word near it gives a sense away.

**Baseline.** By chance the nearest has the same sense in {EACH - 1} of {2 * EACH - 1} cases,
{(EACH - 1) / (2 * EACH - 1):.2f}.

**Not to be concluded.** That a model knows what a word means: sentences about money resemble each other without the
word *bank*, and a measure on them needs a control that never sees it. Twelve nouns with two senses far apart, written
by one hand, are no sample of the language; near senses (*paper*, the stuff and the essay) are harder.

**Version** {VERSION}, checksum `{checksum()}`.
"""

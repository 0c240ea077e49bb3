"""Lesson 15: a search that is learned from answers alone, what it needs for that, and what it is compared with.

Books of names on shelves that are drawn at random (`recipes/facts.py`). "recall" is how often the right passage comes
first among 64, for names of whose stem none was met in training (chance is 1 / 64); "answers" how often the shelf is
right, summed over all passages; "train" is asked about the names that were met, where their books stand now.
"""

import time
from functools import partial

import torch
from torch import Tensor

from course_lib.multimodal.zero_shot import search
from course_lib.retrieval.bm25 import BM25, terms
from course_lib.retrieval.dense import Clusters
from course_lib.retrieval.learned_search import KeptIndex, LearnedSearch
from course_lib.retrieval.marginal import log_marginal
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes.facts import (
    BATCH,
    SHELVES,
    STEPS,
    World,
    answer_loss,
    batches,
    misspelt,
    names,
    pair_loss,
    pieces,
    recall_and_answers,
    search_model,
    taught,
    vocabulary,
)

HERE = ["default"]  # the instruction set of what is dear
LOOKS = 8  # places on the way at which validation names are looked for
ALL = 412  # names of the training part


def learned(seed: int, loss=answer_loss, change=1.0, most=None, language="en", steps=STEPS, warm=0, **batch):
    """A model taught in a world of these settings, the world as it is in the end, recall of validation names.

    It is looked at in the beginning and at LOOKS places. warm: so many steps before, as `live` has them: memories of
    BATCH passages, of which all are read.
    """
    torch.manual_seed(seed)
    model, world = search_model(language), World("train", seed, change, language, most)
    validation = World("validation", seed, language=language)
    look = {"watch": lambda step: recall_and_answers(model, validation, times=2)[0], "watch_every": steps // LOOKS}
    if warm:
        taught(model, batches(world), steps=warm)
    _, history = taught(model, batches(world, **batch), loss, steps, **look)
    return model, world, [found for _, found in history.watched]


def judged(model: LearnedSearch, world: World, seed: int) -> dict:
    """Recall and answers on test names, all at once too, on training names, and where questions misspell the name."""
    test = World("test", seed, language=world.language)
    recall, answers = recall_and_answers(model, test)
    whole, _ = recall_and_answers(model, test, len(test.names), times=3)
    seen, told = recall_and_answers(model, world, times=4)
    wrong, _ = recall_and_answers(model, test, spell=misspelt)
    return {
        "recall": recall, "answers": answers, "recall, all": whole, "recall, train": seen, "answers, train": told,
        "recall, misspelt": wrong, "moved": moved(model, world),
    }  # fmt: skip


@torch.no_grad()
def moved(model: LearnedSearch, world: World, n: int = 64) -> dict:
    """Every book of the training names is moved: the shares of answers that name its new shelf, and its old one."""
    before = dict(world.shelf)
    world.shelf = {name: world.draw.choice(SHELVES) for name in world.names}
    batch = world.batch(None, n)
    log_z, log_y, _ = model(batch.questions, batch.passages)
    said = [SHELVES[place] for place in log_marginal(log_z, log_y).argmax(dim=1).tolist()]
    asked = [world.names[place] for place in batch.right.tolist()]
    pairs = list(zip(asked, said, strict=True))
    return {"new": sum(world.shelf[name] == shelf for name, shelf in pairs) / n,
            "old": sum(before[name] == shelf for name, shelf in pairs) / n}  # fmt: skip


@experiment(seeds=range(10))
def live(seed):
    """How often a search that was taught by answers alone finds the right passage of 64, for names never met."""
    model, world, curve = learned(seed)
    return judged(model, world, seed) | {"curve": curve, "weights": sum(w.numel() for w in model.parameters())}


def in_threes(text: str) -> str:
    """A text whose words are those pieces of its words that the learned search sees, for BM25 to count."""
    return " ".join(piece.replace("<", "0").replace(">", "1") for word in terms(text) for piece in pieces(word))


@experiment(seeds=range(5), cpus=HERE)
def words_alone(seed):
    """How often BM25 finds the right passage of 64, the name written as in the passage, and with a letter left out.

    "threes": it counts threes of letters, as the learned search sees them.
    """

    def found(spell, read=str, times=4):
        right = total = 0
        for _ in range(times):
            memory = test.draw.sample(test.names, 64)
            bm25 = BM25([read(text) for text in test.passages(memory)])
            questions = test.questions([spell(name) for name in memory])
            places = [int(bm25.search(read(question), 1)[0]) for question in questions]
            right, total = right + sum(place == n for n, place in enumerate(places)), total + len(memory)
        return right / total

    test = World("test", seed)
    return {
        "recall": found(str), "recall, misspelt": found(misspelt),
        "threes": found(str, in_threes), "threes, misspelt": found(misspelt, in_threes),
    }  # fmt: skip


# --- what it needs: the gradient, and facts that cannot be learned by heart


@experiment([{"change": 1.0, "most": ALL}, {"change": 0.0, "most": ALL}, {"change": 0.0, "most": 64}], cpus=HERE)
def cut(seed, change, most):
    """The same with no gradient to the search, which stays as it was drawn: facts that change, facts that never do."""
    model, world, curve = learned(seed, partial(answer_loss, cut=True), change, most)
    return judged(model, world, seed) | {"curve": curve}


CHANGE = (1.0, 0.1, 0.01, 0.001, 0.0)


@experiment(each(change=CHANGE, most=[64, 128, 256, ALL]), cpus=HERE)
def by_change(seed, change, most):
    """Recall by how many facts there are to be learned, and by the share of them that changes in a step."""
    model, world, curve = learned(seed, change=change, most=most)
    return judged(model, world, seed) | {"curve": curve}


# --- other lessons for the search


def labelled_loss(model: LearnedSearch, batch, added: bool) -> Tensor:
    """The loss of labelled pairs, beside that of answers; not added, the answers teach the reader alone."""
    return pair_loss(model, batch) + answer_loss(model, batch, cut=not added)


@experiment(each(added=[False, True], most=[64, ALL]), cpus=HERE)
def labelled(seed, added, most):
    """Recall where somebody has labelled the right passage: by these pairs alone, and by pairs and answers."""
    model, world, curve = learned(seed, partial(labelled_loss, added=added), most=most)
    return judged(model, world, seed) | {"curve": curve}


WARM = 80  # steps in which all is read, for who cannot begin otherwise: recall is hardly above chance then


@experiment(each(k=[1, 2, 5, 16], warm=[0, WARM]), cpus=HERE)
def by_k(seed, k, warm):
    """Recall by how many passages of 32 are read for a question, from the start, or after 80 steps of reading all."""
    model, world, curve = learned(seed, partial(answer_loss, k=k), warm=warm)
    return judged(model, world, seed) | {"curve": curve}


@experiment(cpus=HERE)
def few_for_longer(seed):
    """Recall where five passages of 32 are read from the start, in as many steps as `by_k` has with its first 80."""
    model, world, curve = learned(seed, partial(answer_loss, k=5), steps=STEPS + WARM)
    return judged(model, world, seed) | {"curve": curve}


@experiment(each(n_passages=[8, 16, 64, 128]), cpus=HERE)
def by_memory(seed, n_passages):
    """Recall by how many passages there are in a step's memory, of which all are read; `live` has 32."""
    model, world, curve = learned(seed, n_passages=n_passages, n_questions=min(BATCH, n_passages))
    return judged(model, world, seed) | {"curve": curve}


NEVER = 10 * STEPS  # steps after which an index is renewed that never is


@experiment(each(every=[1, 10, 100, NEVER]), cpus=HERE)
def stale(seed, every):
    """Recall by how many steps pass until the index of all training passages is made anew; it chooses 4 to be read."""
    index = KeptIndex(every)
    model, world, curve = learned(seed, partial(answer_loss, k=4, index=index), steps=120, warm=100, n_passages=None)
    batch = world.batch(None, 64)
    chosen = model(batch.questions, batch.passages, 4, index.vectors)[2]
    found = (chosen == batch.right[:, None]).any(dim=1).double().mean()  # in the end, by the index as it is then
    return judged(model, world, seed) | {"curve": curve, "right among 4": found}


@experiment(each(language=["el", "ka"]), cpus=HERE)
def languages(seed, language):
    """Recall for names in another language and script, Greek or Georgian, in the same sentences."""
    model, world, curve = learned(seed, language=language)
    return judged(model, world, seed) | {"curve": curve, "names": len(world.names)}


# --- search by clusters


def every_sentence(model: LearnedSearch, seed: int, each_name: int = 6) -> tuple[Tensor, Tensor]:
    """Vectors of some passages about every name that there is, and of a question about each: (N, E), (M, E)."""
    world = World("train", seed)
    about = list(names())
    world.shelf = dict.fromkeys(about, "100")
    sentences = [sentence for _ in range(each_name) for sentence in world.passages(about)]
    known = vocabulary()
    with torch.no_grad():
        vectors = model.retriever.passage(known.batch(sentences))
        return vectors, model.retriever.question(known.batch(world.questions(about)))


def seconds_of(function, *given) -> float:
    """Seconds of a core that it takes, the middle one of five times."""
    taken = []
    for _ in range(5):
        start = time.thread_time()
        function(*given)
        taken.append(time.thread_time() - start)
    return sorted(taken)[2]


PROBES = (1, 2, 4, 8, 16, 64)


@experiment(seeds=range(3), cpus=HERE)
def clusters(seed):
    """How many vectors a search by 64 clusters compares, and how often it finds the best passage, by its probes."""
    model, _, _ = learned(seed)
    vectors, asked = every_sentence(model, seed)
    exact = search(asked, vectors, 1)[1]
    index = Clusters(vectors, 64, generator=torch.Generator().manual_seed(seed))
    found = {}
    for probes in PROBES:
        best = index.search(asked, 1, probes)[1]  # by its score: two sentences may be worded alike
        right = torch.isclose(best, exact, rtol=1e-4).double().mean()
        found[probes] = {"found": right, "compared": index.compared / len(asked)}
    return {"passages": len(vectors), "probes": found, "seconds": {
        "all": seconds_of(search, asked, vectors, 1), "1 probe": seconds_of(index.search, asked, 1, 1),
    }}  # fmt: skip

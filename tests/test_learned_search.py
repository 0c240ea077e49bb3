"""retrieval/learned_search.py: words of pieces, towers, a reader that copies; k, an index that is old; bad input."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.retrieval.learned_search import KeptIndex, LearnedSearch, Reader, Retriever, SpelledWords
from course_lib.retrieval.marginal import log_marginal

SPELLING = torch.tensor([[0, 0, 0], [1, 2, 0], [3, 0, 0], [2, 4, 5], [1, 0, 0], [5, 0, 0], [6, 2, 0], [7, 0, 0]])
ANSWERS = torch.tensor([4, 5, 6])


def searching(seed=0):
    torch.manual_seed(seed)
    return LearnedSearch(Retriever(SPELLING, 8, 6, 5), Reader(SPELLING, 8, 6, ANSWERS, 4)).double().eval()


def sentences(n, t, seed=0):
    """Ids of words 1 to 7, padding behind in every other row."""
    ids = torch.randint(1, 8, (n, t), generator=torch.Generator().manual_seed(seed))
    ids[1::2, -1] = 0
    return ids


def test_a_word_is_the_mean_of_its_pieces():
    """SpelledWords: of those that are there; padding is nothing, and no gradient comes to it."""
    words = SpelledWords(SPELLING, 8, 6).double()
    table = words.table.weight
    out = words(torch.tensor([[1, 2, 3, 0]]))
    by_hand = [table[[1, 2]].mean(0), table[3], table[[2, 4, 5]].mean(0), torch.zeros(6, dtype=torch.float64)]
    assert_close(out[0], torch.stack(by_hand))
    out.sum().backward()
    assert not table.grad[0].any() and table.grad[1:6].all()


def test_a_state_holds_the_words_and_the_answers_too():
    """LearnedSearch: saved, and loaded into one that spells otherwise, it answers as before."""
    model = searching()
    other = LearnedSearch(
        Retriever(SPELLING.flip(0), 8, 6, 5), Reader(SPELLING.flip(0), 8, 6, ANSWERS.flip(0), 4)
    ).double()  # fmt: skip
    assert not torch.equal(other.reader.answers, ANSWERS)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.reader.answers, ANSWERS) and torch.equal(other.retriever.passage.words.spelling, SPELLING)
    asked, known = sentences(2, 5), sentences(4, 4, 1)
    for one, another in zip(model(asked, known), other(asked, known), strict=True):
        assert torch.equal(one, another)


def test_a_tower_is_a_weighted_mean_and_sees_no_padding():
    """Tower: word by word as the formula has it; longer padding changes nothing; its words' order does not count."""
    tower = searching().retriever.question
    ids = torch.tensor([[1, 2, 6]])
    x = tower.words(ids)[0]
    weights = torch.stack([tower.score(word)[0] for word in x]).softmax(0)
    assert_close(tower(ids)[0], tower.project(sum(w * word for w, word in zip(weights, x, strict=True))))
    assert_close(tower(F.pad(ids, (0, 4))), tower(ids))
    assert_close(tower(ids.flip(1)), tower(ids))


def test_scores_are_products_of_two_projections():
    """Retriever: (x W_x) . (z W_z) / sqrt(E); W_x and W_z are two, the words one table."""
    retriever = searching().retriever
    asked, known = retriever.question(sentences(3, 5)), retriever.passage(sentences(4, 4, 1))
    by_hand = torch.stack([torch.stack([a @ z / math.sqrt(5) for z in known]) for a in asked])
    assert_close(retriever(sentences(3, 5), sentences(4, 4, 1)), by_hand)
    assert retriever.question.words is retriever.passage.words
    assert not torch.equal(retriever.question.project.weight, retriever.passage.project.weight)


def test_the_reader_reads_each_pair_by_itself():
    """Reader: the formula for one question and one passage; what is chosen is taken out of all pairs."""
    reader = searching().reader
    questions, passages = sentences(3, 5), sentences(4, 4, 1)
    log_y = reader(questions, passages)
    assert log_y.shape == (3, 4, 3)
    assert_close(log_y.exp().sum(-1), torch.ones(3, 4, dtype=torch.float64))
    for b in range(3):
        x = reader.words(questions[b][questions[b] != 0]).mean(0)
        for n in range(4):
            real = passages[n][passages[n] != 0]
            z = reader.words(real)
            scores = reader.w_k(z + reader.places[: len(real)]) @ reader.w_q(x) / math.sqrt(6)
            h = reader.norm_1(reader.w_x(x) + scores.softmax(0) @ z)
            h = reader.norm_2(h + reader.feed_forward(h))
            logits = reader.words(ANSWERS) @ h / math.sqrt(6) + reader.bias
            assert_close(log_y[b, n], logits.log_softmax(0))
    chosen = torch.tensor([[3, 0], [1, 1], [2, 3]])
    some = reader(questions, passages, chosen)
    assert_close(some, torch.stack([log_y[b, chosen[b]] for b in range(3)]))


def test_padding_and_other_passages_change_nothing():
    model = searching()
    questions, passages = sentences(3, 5), sentences(4, 3, 1)
    log_z, log_y, chosen = model(questions, passages)
    padded = model(F.pad(questions, (0, 2)), F.pad(passages, (0, 1)))
    assert_close(padded[0], log_z)
    assert_close(padded[1], log_y)
    fewer = model(questions[:1], passages[chosen[0, :1]])  # alone, a passage is read as among others
    assert_close(fewer[1][0, 0], log_y[0, 0])
    assert_close(fewer[0], torch.zeros(1, 1, dtype=torch.float64))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_k_passages_are_the_likeliest(k):
    """LearnedSearch: of all, sorted; p(z | x) is shared out among these alone."""
    model = searching()
    questions, passages = sentences(3, 5), sentences(4, 4, 1)
    scores = model.retriever(questions, passages)
    log_z, log_y, chosen = model(questions, passages, k)
    assert chosen.equal(scores.topk(k).indices) and log_y.shape == (3, k, 3)
    assert_close(log_z, scores.topk(k).values.log_softmax(1))
    assert_close(log_y, model.reader(questions, passages, chosen))
    cooler = model(questions, passages, k, temperature=0.5)[0]
    assert_close(cooler, (2 * scores.topk(k).values).log_softmax(1))


def test_one_passage_teaches_the_search_nothing():
    """With k = 1 its p is 1 whatever the score: no gradient comes to the retriever; with 2 one does."""
    for k, learns in ((1, False), (2, True)):
        model = searching()
        log_z, log_y, _ = model(sentences(3, 5), sentences(4, 4, 1), k)
        (-log_marginal(log_z, log_y)[:, 0].mean()).backward()
        grads = [weight.grad for weight in model.retriever.parameters() if weight.grad is not None]
        assert any(grad.abs().max() > 1e-9 for grad in grads) is learns
        assert model.reader.w_k.weight.grad.any()


def test_an_index_chooses_and_does_not_score():
    """With vectors from before the passages are other ones; their p is made of today's."""
    model = searching()
    questions, passages = sentences(3, 5), sentences(4, 4, 1)
    old = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    log_z, _, chosen = model(questions, passages, 2, old)
    by_old = model.retriever.question(questions) @ old.T
    assert chosen.equal(by_old.topk(2).indices)
    scores = model.retriever(questions, passages)
    assert_close(log_z, scores.gather(1, chosen).log_softmax(1))


def test_a_kept_index_is_renewed_every_so_many_steps():
    """KeptIndex: what was embedded stays until its turn comes; every=1 is always of now."""
    model, passages = searching(), sentences(4, 4, 1)
    kept, fresh = KeptIndex(3), KeptIndex(1)
    first = kept(model, passages)
    assert not first.requires_grad
    for step in range(1, 7):
        with torch.no_grad():
            model.retriever.passage.project.weight.add_(0.1)
        now = model.retriever.passage(passages).detach()
        assert_close(fresh(model, passages), now)
        found = kept(model, passages)
        first = now if step % 3 == 0 else first
        assert_close(found, first)
        assert torch.equal(found, now) is (step % 3 == 0)


def test_a_reader_learns_to_copy():
    """Given one passage, the reader says the answer that stands in it, after some steps, for pairs never met."""
    torch.manual_seed(0)
    spelling = torch.arange(12)[:, None]
    reader = Reader(spelling, 12, 16, torch.arange(2, 12), 3)
    optimiser = torch.optim.Adam(reader.parameters(), 0.01)
    question = torch.tensor([[1]])
    for _ in range(60):
        answers = torch.randint(10, (32,))
        passages = torch.stack([torch.ones(32, dtype=torch.long), answers + 2], 1)
        loss = F.nll_loss(reader(question, passages)[0], answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    passages = torch.stack([torch.ones(10, dtype=torch.long), torch.arange(2, 12)], 1)
    assert reader(question, passages)[0].argmax(1).tolist() == list(range(10))


def test_bad_input_is_refused_in_words():
    model = searching()
    questions, passages = sentences(3, 5), sentences(4, 4, 1)
    with pytest.raises(ValueError, match="a vector for each of the 4 passages; got 3"):
        model(questions, passages, 2, torch.zeros(3, 5))
    with pytest.raises(ValueError, match="up to 4 words; got 5"):
        model(questions, sentences(4, 5))

"""Lesson 04's exercises beyond the proof: wrong ways nobody listed, and what the planted bug does."""

import pytest
import torch

from course_lib.attention.attention import AdditiveAttention
from course_lib.lesson.judge import judge
from course_lib.text.pairs import END, START, masked_loss
from course_lib.translation.decode import greedy
from course_lib.translation.seq2seq import AttentionDecoder, Seq2Seq
from course_lib.workshop.exercises import all_exercises, all_investigations, all_quizzes, find
from course_lib.workshop.exercises.attention_alignment import my_additive_scores, my_masked_softmax
from course_lib.workshop.exercises.attention_alignment_look import broken_look, mended_look

LESSON = "attention_alignment"


def squared(s, h, real, scores, softmax):
    _, a = mended_look(s, h, real, scores, softmax)
    a = a**2 / (a**2).sum(-1, keepdim=True)
    return a @ h, a


def context_of_another(s, h, real, scores, softmax):
    context, a = mended_look(s, h, real, scores, softmax)
    return context.roll(1, dims=1), a


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (squared, "a row must be the softmax of the scores of its own state"),
        (context_of_another, "The weights are right. A context is the mean of h"),
        (broken_look, "The bug is still there"),
    ],
)
def test_a_wrong_look_is_told_where_to_look(answer, said):
    verdict = judge(find("mended_look"), lambda *given: answer(*given))
    assert verdict.kind == "wrong" and said in verdict.message, verdict


def test_score_softmax_and_look_together_are_the_librarys_attention():
    torch.manual_seed(0)
    layer = AdditiveAttention(4, 5, 6).double()
    s, h = torch.randn(3, 7, 4, dtype=torch.float64), torch.randn(3, 6, 5, dtype=torch.float64)
    real = torch.arange(6) < torch.tensor([6, 3, 0])[:, None]
    matrices = layer.w.weight.T, layer.u.weight.T, layer.v.weight[0]
    mine = mended_look(s, h, real, lambda s_t, h: my_additive_scores(s_t, h, *matrices), my_masked_softmax)
    torch.testing.assert_close(mine, layer(s, h, None, real), rtol=0, atol=1e-12)


class Looking(AttentionDecoder):
    """A decoder that looks by one of the functions of the exercise."""

    way = staticmethod(mended_look)

    def look(self, out, memory, mask):
        matrices = self.attention.w.weight.T, self.attention.u.weight.T, self.attention.v.weight[0]
        context, weights = self.way(
            out, memory, mask, lambda s, h: my_additive_scores(s, h, *matrices), my_masked_softmax
        )
        return torch.tanh(self.combine(torch.cat([context, out], dim=-1))), weights


def turned(n, generator):
    """Five symbols, and the same backwards: source (n, 5), what the decoder reads and what it shall write (n, 6)."""
    source = torch.randint(4, 16, (n, 5), generator=generator)
    target = torch.cat([torch.full((n, 1), START), source.flip(1), torch.full((n, 1), END)], dim=1)
    return source, target[:, :-1], target[:, 1:]


def taught(way, steps=500):
    """The loss on new sequences, all words at once, and the share that comes out right, word by word."""
    torch.manual_seed(0)
    model, generator = Seq2Seq(16, 16, 32, 32, "additive", "gru", bidirectional=True), torch.Generator().manual_seed(0)
    model.decoder = Looking(16, 32, 32, cell="gru")
    model.decoder.way = way
    optimiser = torch.optim.Adam(model.parameters(), 6e-3)
    for _ in range(steps):
        source, reads, writes = turned(32, generator)
        loss = masked_loss(model(source, None, reads)[0], writes)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    source, reads, writes = turned(200, torch.Generator().manual_seed(99))
    with torch.no_grad():
        loss = float(masked_loss(model(source, None, reads)[0], writes))
        found = greedy(**model.decoding(source), max_len=8).tokens
    right = [list(map(int, mine))[:5] == wanted[:5].tolist() for mine, wanted in zip(found, writes, strict=True)]
    return loss, sum(right) / len(right)


@pytest.mark.slow
@pytest.mark.full  # two trainings; that the exercise refuses the bug is proved without them
def test_the_planted_bug_learns_splendidly_and_writes_nothing():
    """The loss on new sequences falls as with the mended look; hardly a sequence is then written right."""
    loss, share = taught(broken_look)
    assert loss < 0.3 and share < 0.3
    loss, share = taught(mended_look)
    assert loss < 0.3 and share > 0.7


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == LESSON]
    assert {one.name for one in own} == {
        "my_additive_scores", "my_masked_softmax", "mended_look", "my_error_rate", "read_alignment",
    }  # fmt: skip
    asked = {one.key for one in all_quizzes() if one.lesson == LESSON}
    assert asked == {"attention_memory", "attention_mask", "attention_fair", "aer_perfect", "attention_explains"}
    assert {one.name for one in all_investigations() if one.lesson == LESSON} == {"what_makes_it_align"}


def test_options_of_a_question_are_of_one_length():
    for one in all_quizzes():
        if one.lesson == LESSON:
            lengths = [len(text) for text, _ in one.options]
            assert max(lengths) - min(lengths) <= 6, (one.key, lengths)
            assert len(one.options[one.correct][0]) < max(lengths) or lengths.count(max(lengths)) > 1, one.key

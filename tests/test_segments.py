"""long_context/segments.py: a memory beside one long read, what goes back through it, and relative scores by loops."""

import itertools

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.attention.block import Block
from course_lib.attention.positions import rotate
from course_lib.long_context.segments import SegmentConfig, SegmentReader, recalled, relative_scores
from course_lib.recurrent.language_model import TruncatedBPTT, bits_per_character, streams


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def reader(n_layers=2, **how):
    """A reader of 7 symbols, 8 wide, 2 heads; the same weights for the same layers, whatever it remembers."""
    torch.manual_seed(0)
    return SegmentReader(SegmentConfig(7, 8, 2, n_layers, **how)).double()


def a_text(T, B=2, seed=0):
    return torch.randint(7, (B, T), generator=torch.Generator().manual_seed(seed))


def in_segments(model, ids, *lengths):
    """Logits (B, T, V) of a text that is read in segments, with the memory handed on; and the last memory."""
    memory, found = None, []
    for part in ids.split(lengths, dim=1):
        logits, memory = model(part, memory)
        found.append(logits)
    return torch.cat(found, dim=1), memory


# --- what is remembered


@pytest.mark.parametrize("lengths", [(12,), (4, 4, 4), (1, 5, 2, 4), (1,) * 12], ids=str)
def test_with_room_for_all_it_is_one_long_read(lengths):
    """SegmentReader, SegmentReader.forward: every layer remembers every place: the same logits, in any segments."""
    ids = a_text(12)
    whole = reader()(ids)[0]
    found, memory = in_segments(reader(memory=11), ids, *lengths)
    assert_close(found, whole, atol=1e-12, rtol=0)
    assert len(memory) == 2 and all(states.shape == (2, 11, 8) for states in memory)


def test_one_segment_back_is_exact_for_two_and_not_for_three():
    """SegmentReader: memory as long as a segment: the second is as read at once, the third lacks the first."""
    ids = a_text(12)
    whole, found = reader()(ids)[0], in_segments(reader(memory=4), ids, 4, 4, 4)[0]
    assert_close(found[:, :8], whole[:, :8], atol=1e-12, rtol=0)
    assert (found[:, 8:] - whole[:, 8:]).abs().amax(dim=(0, 2)).min() > 1e-6
    without = in_segments(reader(), ids, 4, 4, 4)[0]
    assert (found[:, 4:8] - without[:, 4:8]).abs().amax(dim=(0, 2)).min() > 1e-6


def test_it_remembers_the_last_places_that_each_layer_read():
    """SegmentReader.kept: what went into each block, embeddings first; short segments fill it little by little."""
    model, ids, went_in = reader(memory=5), a_text(7), []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda block, given: went_in.append(given[0]))
    (_, first), (_, second) = model(ids[:, :3]), model(ids)
    for layer in range(2):
        assert torch.equal(first[layer], went_in[layer]) and first[layer].shape == (2, 3, 8)
        assert torch.equal(second[layer], went_in[2 + layer][:, 2:])
        assert not first[layer].requires_grad
    _, third = model(ids[:, 3:6], first)
    assert torch.equal(third[1][:, :2], first[1][:, 1:]) and third[1].shape == (2, 5, 8)
    assert model.kept(drawn(1, 2, 8), drawn(1, 1, 8)).shape == (1, 3, 8)


REACH = [(S, M, L, L * M) for S, M, L in [(3, 3, 1), (3, 3, 2), (3, 3, 3), (2, 4, 2)]] + [(4, 2, 1, 2), (4, 2, 2, 6)]


@pytest.mark.slow
@pytest.mark.parametrize("S, M, L, far", REACH)
def test_how_far_before_a_segment_something_can_come_from(S, M, L, far):
    """SegmentReader: L M places through L layers where the memory holds whole segments.

    A shorter memory has seen all of its own segment: (L - 1) S + M. Found by changing one token at a time.
    """
    model, ids = reader(L, memory=M), a_text(5 * S, B=1)
    logits = in_segments(model, ids, *[S] * 5)[0][:, -S:]
    for back in range(1, 4 * S + 1):
        other = ids.clone()
        other[0, 4 * S - back] = (ids[0, 4 * S - back] + 1) % 7
        moved = (in_segments(model, other, *[S] * 5)[0][:, -S:] - logits).abs().max()
        assert moved > 1e-9 if back <= far else moved == 0


def test_a_memory_of_nothing_is_no_memory():
    """SegmentReader: memory=0: every segment as if it were the first."""
    model, ids = reader(), a_text(8)
    found, memory = in_segments(model, ids, 4, 4)
    assert_close(found, torch.cat([model(part)[0] for part in ids.split(4, dim=1)], dim=1), atol=1e-12, rtol=0)
    assert [states.shape for states in memory] == [(2, 0, 8)] * 2


@pytest.mark.parametrize("w, M", [(1, 0), (3, 2), (3, 9)])
def test_a_window_needs_no_more_memory_than_it_sees(w, M):
    """SegmentReader: with a window of w, w - 1 remembered places give what one long read gives."""
    ids = a_text(12)
    whole = reader(window=w)(ids)[0]
    assert_close(in_segments(reader(window=w, memory=M), ids, 4, 1, 7)[0], whole, atol=1e-12, rtol=0)
    assert (whole - reader()(ids)[0]).abs().max() > 1e-6


# --- places


def test_learned_places_begin_anew_in_every_segment():
    """SegmentReader: relative=False: a vector a place of the segment, and so the same segment reads the same."""
    model, part = reader(relative=False, max_len=5), a_text(5)
    first, again = (model(part, memory)[0] for memory in (None, model(part)[1]))
    assert torch.equal(first, again)  # it remembers nothing
    x = model.tokens(part) + model.places.weight
    for block in model.blocks:
        x = block(x, causal=True)
    assert_close(first, model.norm(x) @ model.tokens.weight.T, atol=1e-12, rtol=0)
    remembers = reader(relative=False, max_len=5, memory=5)
    first, memory = remembers(part)
    assert torch.equal(memory[0], (model.tokens(part) + model.places.weight).detach())
    assert (remembers(part, memory)[0] - first).abs().max() > 1e-6
    assert reader(max_len=5)(a_text(9))[0].shape == (2, 9, 7)  # relative places do not run out


def test_a_segment_longer_than_its_learned_places_is_refused_in_words():
    with pytest.raises(ValueError, match="up to 5 learned places; got 6 tokens"):
        reader(relative=False, max_len=5)(a_text(6))


def test_only_distances_count():
    """SegmentReader: what was read long ago does not move what stands in the memory and behind it."""
    model, ids = reader(1, memory=4), a_text(6)
    _, memory = model(ids[:, :4])
    _, later = in_segments(model, torch.cat([a_text(9, seed=1), ids[:, :4]], dim=1), 3, 6, 4)
    assert_close(model(ids[:, 4:], later)[0], model(ids[:, 4:], memory)[0], atol=1e-12, rtol=0)


# --- what learns


@pytest.mark.parametrize("relative", [True, False])
def test_memory_is_looked_at_and_not_trained(relative):
    """SegmentReader: logits and gradients by hand, the states in the memory being constants in front of each layer."""
    model, ids = reader(memory=3, relative=relative), a_text(9)
    memory = tuple(states.requires_grad_() for states in model(ids[:, :5])[1])
    logits = model(ids[:, 5:], memory)[0]
    x = model.tokens(ids[:, 5:])
    x = x if relative else x + model.places.weight[:4]
    for block, states in zip(model.blocks, memory, strict=True):
        places = {"places": torch.arange(7)} if relative else {}
        x = block(torch.cat([states.detach(), x], dim=1), causal=True, **places)[:, 3:]
    by_hand = model.norm(x) @ model.tokens.weight.T
    assert_close(logits, by_hand, atol=1e-12, rtol=0)
    cotangent, leaves = drawn(2, 4, 7).detach(), list(model.parameters())
    found = torch.autograd.grad(logits, [*leaves, *memory], cotangent, allow_unused=True)
    for one, other in zip(found[: len(leaves)], torch.autograd.grad(by_hand, leaves, cotangent), strict=True):
        assert_close(one, other, atol=1e-12, rtol=0)
    assert found[len(leaves) :] == (None, None)


@pytest.mark.parametrize("turn", [None, rotate])
@pytest.mark.parametrize("groups", [1, 2])
def test_what_is_recalled_is_what_a_cache_would_hold(turn, groups):
    """recalled: keys and values of a block that reads the states with a cache; weights learn from it, states do not."""
    torch.manual_seed(0)
    block = Block.from_sizes(8, 2, 16, pre_norm=True, turn=turn, n_kv_heads=groups).double()
    states, places, cache = drawn(2, 5, 8), torch.arange(3, 8), {}
    block(states, causal=True, cache=cache, places=places if turn else None)
    found = recalled(block, states, places)
    assert found.keys() == {"own"} and found["own"].keys() == {"k", "v"}
    for name in ("k", "v"):
        assert_close(found["own"][name], cache["own"][name], atol=1e-12, rtol=0)
    both = found["own"]["k"].sum() + found["own"]["v"].square().sum()
    weights = (block.attention.w_k.weight, block.attention.w_v.weight, block.norm_1.gain)
    *grads, none = torch.autograd.grad(both, [*weights, states], allow_unused=True)
    assert none is None and all(grad.any() for grad in grads)


def test_lesson_01s_loss_and_bits_carry_the_memory():
    """SegmentReader: `TruncatedBPTT` hands it on and saves it; `bits_per_character` is one long read with room."""
    model, ids = reader(memory=8), a_text(33, B=1)[0]
    loss, memory = TruncatedBPTT(), None
    for (x, y), _ in zip(streams(ids, 2, 4), range(4), strict=False):
        logits, memory = model(x, memory)
        given = loss(model, (x, y))
        assert_close(given, F.cross_entropy(logits.flatten(0, 1), y.flatten()), atol=1e-12, rtol=0)
    given.backward()
    saved = TruncatedBPTT()
    saved.load_state_dict(loss.state_dict())
    assert all(torch.equal(one, other) for one, other in zip(saved.state, memory, strict=True))
    x, y = next(streams(ids, 2, 16))
    whole = F.cross_entropy(reader()(x)[0].flatten(0, 1), y.flatten()) / torch.tensor(2.0).log()
    assert bits_per_character(reader(memory=16), ids, 2, 4) == pytest.approx(whole.item(), rel=1e-6)
    assert abs(bits_per_character(reader(), ids, 2, 4) - whole.item()) > 1e-4


def test_a_reader_learns_and_has_one_table():
    """SegmentConfig, SegmentReader: the embedding is the readout; only learned places add parameters."""
    plain, added, longer = reader(), reader(relative=False, max_len=9), reader(memory=100, window=3)
    count = [sum(part.numel() for part in model.parameters()) for model in (plain, added, longer)]
    assert count == [count[0], count[0] + 9 * 8, count[0]]
    plain(a_text(5))[0].square().sum().backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in plain.parameters())
    assert SegmentConfig(7, 8, 2, 1) == SegmentConfig(7, 8, 2, 1, 0, True, None, 256)


# --- relative scores


@pytest.mark.parametrize("S, T", [(1, 1), (1, 4), (3, 3), (2, 5)])
@pytest.mark.parametrize("shape", [(), (2,), (2, 1)], ids=str)
def test_relative_scores_are_four_terms(S, T, shape):
    """relative_scores: (a) to (d) of section 3.3, number by number, for keys that are not ahead."""
    q, k, r = drawn(*shape, 2, S, 3), drawn(*shape, 2, T, 3, seed=1), drawn(2, T, 3, seed=2)
    u, v = drawn(2, 3, seed=3), drawn(2, 3, seed=4)
    found = relative_scores(q, k, r, u, v)
    assert found.shape == (*shape, 2, S, T) and found.isfinite().all()
    for h, i, j in itertools.product(range(2), range(S), range(T)):
        apart = T - S + i - j
        if apart >= 0:
            a, b = (q[..., h, i, :] * k[..., h, j, :]).sum(-1), (q[..., h, i, :] * r[h, apart]).sum(-1)
            c, d = (u[h] * k[..., h, j, :]).sum(-1), (v[h] * r[h, apart]).sum(-1)
            assert_close(found[..., h, i, j], (a + b + c + d) / 3**0.5, atol=1e-12, rtol=0)
    grads = torch.autograd.grad(found.sum(), (q, k, r, u, v))
    assert all(grad.isfinite().all() for grad in grads)


def test_relative_scores_are_xlnets():
    """relative_scores: beside the shift of Hugging Face's XLNetRelativeAttention; weights after a causal softmax."""
    xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    S, T, H, d = 3, 5, 2, 4
    theirs = xlnet.XLNetRelativeAttention(xlnet.XLNetConfig(d_model=8, n_head=H, dropout=0.0)).double().eval()
    q, k, r, u, v = (
        drawn(2, H, S, d),
        drawn(2, H, T, d, seed=1),
        drawn(H, T, d, seed=2),
        drawn(H, d, seed=3),
        drawn(H, d),
    )
    ahead = torch.ones(S, T).triu(T - S + 1).double()
    with torch.no_grad():
        theirs.r_w_bias.copy_(u)
        theirs.r_r_bias.copy_(v)
        distances = torch.cat([torch.zeros(H, 1, d), r.flip(1), torch.zeros(H, S - 1, d)], dim=1)  # T, ... 1, 0, -1 ...
        _, weights = theirs.rel_attn_core(
            q.permute(2, 0, 1, 3),
            k.permute(2, 0, 1, 3),
            k.permute(2, 0, 1, 3),
            distances.double().permute(1, 0, 2)[:, None].expand(-1, 2, -1, -1),
            attn_mask=ahead[:, :, None, None],
            output_attentions=True,
        )
        ours = relative_scores(q, k, r, u, v).masked_fill(ahead.bool(), -torch.inf).softmax(dim=-1)
    assert_close(weights.permute(2, 3, 0, 1), ours, atol=1e-12, rtol=0)


# --- bad input


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda model, ids: model(ids + 7), ValueError, "ids from 0 to 6"),
        (lambda model, ids: model(ids.double()), TypeError, "encode the text first"),
        (lambda model, ids: model(ids, model(ids)[1][:1]), ValueError, "shorter"),
        (lambda model, ids: model(ids[:1], model(ids)[1]), ValueError, r"memory_0 \(batch, M, 8\)"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(reader(memory=4), a_text(5))

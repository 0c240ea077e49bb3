"""long_context/window.py: the mask by hand, beside the whole table and Longformer's own layer; what it costs."""

import itertools

import pytest
import torch
from largest import Largest
from torch import nn
from torch.testing import assert_close

from course_lib.attention.attention import attend
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import rotate
from course_lib.long_context import window as file
from course_lib.long_context.window import LocalHeads, band_mask, check_alone, cone, local_attention

CAUSAL = pytest.mark.parametrize("causal", [False, True])


def drawn(*shape, dtype=torch.float64, seed=0):
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return numbers.requires_grad_()


# --- the mask


def test_a_band_by_hand():
    """band_mask: 5 places, a window of 2: oneself and one to each side; a global place sees all, and all see it."""
    assert band_mask(5, 2).int().tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1],
        [0, 0, 0, 1, 1],
    ]
    assert band_mask(5, 2, 1).int().tolist() == [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 0, 1, 1, 1],
        [1, 0, 0, 1, 1],
    ]
    assert band_mask(5, 2, 1, causal=True).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 1, 1, 0],
        [1, 0, 0, 1, 1],
    ]


def test_the_ends_of_a_band():
    """band_mask: a window of one place is oneself; all are global, or all are near: everything; no places."""
    assert torch.equal(band_mask(6, 1), torch.eye(6, dtype=torch.bool))
    for whole in (band_mask(6, 6), band_mask(6, 100), band_mask(6, 1, 6), band_mask(6, 1, 9), band_mask(6, 2, 5)):
        assert whole.dtype == torch.bool and whole.all()
    assert torch.equal(band_mask(6, 1, 9, causal=True), torch.ones(6, 6).tril().bool())
    assert band_mask(0, 3).shape == band_mask(0, 3, 2, True).shape == (0, 0) and band_mask(1, 3).tolist() == [[True]]


@CAUSAL
@pytest.mark.parametrize("T, w", [(1, 3), (7, 1), (7, 3), (8, 20)])
def test_a_band_is_multi_heads_window(T, w, causal):
    """band_mask: what `MultiHead(window=w)` lets its queries see."""
    torch.manual_seed(0)
    near, plain, x = MultiHead(8, 2, window=w).double(), MultiHead(8, 2).double(), drawn(2, T, 8)
    plain.load_state_dict(near.state_dict())
    assert_close(near(x, causal=causal), plain(x, mask=band_mask(T, w, causal=causal)[None]), atol=1e-12, rtol=0)


# --- how far it goes through layers


def paths(mask, n_layers):
    """Whether some path of so many looks leads from i to j, a look at oneself always allowed: found one by one."""
    T, found = len(mask), torch.zeros(n_layers + 1, len(mask), len(mask), dtype=torch.bool)
    for layers in range(n_layers + 1):
        for way in itertools.product(range(T), repeat=layers + 1):
            if all(i == j or mask[i, j] for i, j in itertools.pairwise(way)):
                found[layers, way[0], way[-1]] = True
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_cone_is_all_paths(seed):
    """cone: against every path of 0, 1, 2, 3 looks, for masks drawn at random, some of whom may not see themselves."""
    mask = torch.rand(5, 5, generator=torch.Generator().manual_seed(seed)) < 0.3
    assert torch.equal(cone(mask, 3), paths(mask, 3))


@pytest.mark.parametrize("w", [1, 2, 4])
def test_a_band_reaches_so_far_a_layer_and_one_global_place_everywhere_in_two(w):
    """cone: l (w - 1) places to each side after l layers; with a global place everything after two."""
    T = 21
    apart = (torch.arange(T)[:, None] - torch.arange(T)).abs()
    for layers, seen in enumerate(cone(band_mask(T, w), 4)):
        assert torch.equal(seen, apart <= layers * (w - 1))
    assert cone(band_mask(T, w, 1), 2)[2].all() and not cone(band_mask(T, w, 1), 2)[1].all()
    back = cone(band_mask(T, w, causal=True), 4)[4]
    assert torch.equal(back, (apart <= 4 * (w - 1)).tril())


def test_one_global_place_that_may_not_look_ahead_brings_only_itself():
    """cone: of causal layers a global first place is seen by all, and has nothing to tell of the others."""
    plain, helped = (cone(band_mask(12, 3, g, causal=True), 3)[3] for g in (0, 1))
    assert helped[:, 0].all() and torch.equal(helped[:, 1:], plain[:, 1:])


def test_a_cone_of_no_layers_and_of_no_places():
    assert torch.equal(cone(torch.zeros(4, 4, dtype=torch.bool), 2), torch.eye(4).bool().expand(3, 4, 4))
    assert cone(band_mask(3, 2), 0).shape == (1, 3, 3) and cone(band_mask(0, 2), 2).shape == (3, 0, 0)


# --- attention in stretches


SIZES = [(T, w, g) for w in (1, 2, 4) for T in sorted({0, 1, w - 1, w, w + 1, 2 * w + 1, 13}) for g in (0, 1, 3)]


@CAUSAL
@pytest.mark.parametrize("T, w, g", [*SIZES, (5, 40, 0), (5, 40, 2), (3, 2, 8), (12, 4, 4), (12, 4, 6)])
def test_stretches_are_the_whole_table_under_a_band(T, w, g, causal):
    """local_attention: `attend` under `band_mask` in values and gradients, T below, at and above the window."""
    leaves = [drawn(2, 3, T, d, seed=seed) for seed, d in enumerate((4, 4, 5))]
    out, whole = local_attention(*leaves, w, g, causal), attend(*leaves, band_mask(T, w, g, causal))[0]
    assert out.shape == (2, 3, T, 5)
    assert_close(out, whole, atol=1e-12, rtol=0)
    cotangent = drawn(2, 3, T, 5, seed=9).detach()
    found = [torch.autograd.grad(some, leaves, cotangent) for some in (out, whole)]
    for one, other in zip(*found, strict=True):
        assert_close(one, other, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", [(), (2,), (2, 1, 3)], ids=str)
def test_any_sizes_in_front_and_the_kind_of_number_stays(shape):
    q, k, v = (drawn(*shape, 9, 4, dtype=torch.float32, seed=seed) for seed in range(3))
    out = local_attention(q, k, v, 3, 1)
    assert out.dtype == torch.float32 and out.shape == (*shape, 9, 4)
    assert_close(out, attend(q, k, v, band_mask(9, 3, 1))[0], atol=1e-6, rtol=1e-5)


def test_what_is_no_number_spoils_its_neighbours_and_nobody_far_away():
    q, k, v = (drawn(20, 4, seed=seed).detach() for seed in range(3))
    v[10] = torch.nan
    out = local_attention(q, k, v, 3)
    assert out[10].isnan().all() and out[[*range(5), *range(16, 20)]].isfinite().all()


def test_scores_grow_with_the_length_and_no_table_is_made(monkeypatch):
    """local_attention: T (3 w + g) scores and g T for the global places; its largest tensor holds far less than T T."""
    made = []

    def counted(*given):
        out, weights = attend(*given)
        made.append(weights.numel())
        return out, weights

    monkeypatch.setattr(file, "attend", counted)
    for T, w, g in [(64, 4, 0), (128, 4, 0), (128, 4, 2), (128, 8, 2)]:
        made.clear()
        local_attention(*(drawn(T, 4) for _ in range(3)), w, g)
        assert sum(made) == T * (3 * w + g) + g * T
    q = drawn(1024, 4)
    with Largest() as listens, torch.no_grad():
        local_attention(q, q, q, 4, 1)
    assert listens.numel <= 1024 * (3 * 4 + 1) * 4 < 1024**2 / 16  # the keys that are seen, each d wide
    with Largest() as listens, torch.no_grad():
        attend(q, q, q, band_mask(1024, 4))
    assert listens.numel == 1024**2  # the instrument sees the table where it is made


# --- heads


@CAUSAL
@pytest.mark.parametrize(
    "others", [{}, {"turn": rotate, "bias": False}, {"d_k": 3, "d_v": 5}], ids=["plain", "turned", "widths"]
)
def test_heads_are_multi_head_with_a_window(causal, others):
    """LocalHeads, LocalHeads.heads: the same weights under MultiHead's window; with global places, under the mask."""
    torch.manual_seed(0)
    ours, near = LocalHeads(8, 2, 3, **others).double(), MultiHead(8, 2, window=3, **others).double()
    near.load_state_dict(ours.state_dict())
    for T in (1, 3, 10):
        x = drawn(2, T, 8, seed=T)
        assert_close(ours(x, causal=causal), near(x, causal=causal), atol=1e-12, rtol=0)
    ours, plain = LocalHeads(8, 2, 3, 2, **others).double(), MultiHead(8, 2, **others).double()
    plain.load_state_dict(ours.state_dict())
    assert_close(ours(x, causal=causal), plain(x, mask=band_mask(10, 3, 2, causal)[None]), atol=1e-12, rtol=0)


def test_a_later_place_changes_nothing_before_it():
    torch.manual_seed(0)
    layer, x = LocalHeads(8, 2, 3, 1).double(), drawn(2, 12, 8).detach()
    changed = torch.cat([x[:, :7], 100 * drawn(2, 5, 8, seed=1).detach()], dim=1)
    assert_close(layer(changed, causal=True)[:, :7], layer(x, causal=True)[:, :7], atol=1e-12, rtol=0)
    assert (layer(changed)[:, :7] - layer(x)[:, :7]).abs().max() > 0.1  # the instrument sees a layer that looks ahead


@pytest.mark.parametrize("n_global", [0, 2])
def test_heads_are_longformers_own(n_global):
    """LocalHeads: beside Hugging Face's LongformerSelfAttention, whose window of 4 is ours of 4 / 2 + 1.

    Its global places have matrices of their own (section 3.1, "Linear Projections for Global Attention"): here copies.
    """
    longformer = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    torch.manual_seed(0)
    config = longformer.LongformerConfig(
        hidden_size=8, num_attention_heads=2, num_hidden_layers=1, attention_window=[4], attention_probs_dropout_prob=0
    )
    theirs = longformer.LongformerSelfAttention(config, 0).double().eval()
    ours, x = LocalHeads(8, 2, near=4 // 2 + 1, n_global=n_global).double(), drawn(2, 12, 8).detach()
    with torch.no_grad():
        for mine, name in ((ours.w_q, "query"), (ours.w_k, "key"), (ours.w_v, "value")):
            nn.init.normal_(getattr(theirs, name).bias)
            mine.load_state_dict(getattr(theirs, name).state_dict())
            getattr(theirs, f"{name}_global").load_state_dict(mine.state_dict())
        nn.init.eye_(ours.w_o.weight)  # theirs has its last matrix elsewhere
        everywhere = (torch.arange(12) < n_global).expand(2, 12)
        wanted = theirs(
            x,
            attention_mask=everywhere * 10_000.0,
            is_index_masked=torch.zeros(2, 12, dtype=torch.bool),
            is_index_global_attn=everywhere,
            is_global_attn=n_global > 0,
        )[0]
        assert_close(ours(x), wanted, atol=1e-6, rtol=1e-6)  # theirs takes its softmax in float32


# --- bad input


def heard(layer):
    layer.weights.register_forward_hook(lambda *given: None)
    return layer


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (
            lambda layer, x: layer(x, x[:, :4]),
            ValueError,
            "LocalHeads reads a row as a whole.*got 5 queries and 4 keys",
        ),
        (lambda layer, x: layer(x, mask=torch.ones(2, 5, dtype=torch.bool)), ValueError, "LocalHeads takes no mask"),
        (lambda layer, x: LocalHeads(8, 2, 2, window=2)(x), ValueError, "LocalHeads takes no mask"),
        (
            lambda layer, x: LocalHeads(8, 2, 2, position_bias=lambda i, j: torch.zeros(5, 5))(x),
            ValueError,
            "takes no mask and no bias",
        ),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(LocalHeads(8, 2, 2), torch.randn(2, 5, 8))


def test_whoever_brings_a_mask_or_a_bias_is_sent_to_multi_head():
    """check_alone: says whose heads they are; without either nothing happens."""
    layer, some = LocalHeads(8, 2, 2), torch.ones(5, 5)
    assert check_alone(layer, None, None) is None
    for given in ((some.bool(), None), (None, some), (some.bool(), some)):
        with pytest.raises(ValueError, match="LocalHeads takes no mask and no bias.*Use MultiHead for that"):
            check_alone(layer, *given)


def test_a_hook_is_refused_where_nothing_is_masked_too():
    """LocalHeads: and so the three other kinds of heads, which share `check_alone`."""
    with pytest.raises(ValueError, match="its weights cannot be captured"):
        heard(LocalHeads(8, 2, 2))(torch.randn(2, 5, 8))


def test_shared_keys_are_refused_in_words():
    with pytest.raises(ValueError, match="has keys for each head"):
        LocalHeads(8, 4, 2, n_kv_heads=2)(torch.randn(2, 5, 8))

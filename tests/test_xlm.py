"""bert/xlm.py: Hugging Face's logits, rows of a sentence and its translation, places that begin anew, twins."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.bert.bert import BertConfig
from course_lib.bert.xlm import XLM, places_of, sentence_vectors, translation_row, twins_found


def small(tell=True, **how):
    return XLM(BertConfig(23, 16, 12, 3, 2, 0.0, n_segments=3, pooler=False, **how), tell).double()


@pytest.mark.parametrize("tell", [True, False])
@pytest.mark.parametrize("gelu", [True, False])
def test_hugging_faces_logits(tell, gelu):
    """XLM: logits and gradients of the table for mixed languages, with padding, languages told or not."""
    import transformers

    config = transformers.XLMConfig(
        vocab_size=23, emb_dim=12, n_layers=2, n_heads=3, n_langs=3, use_lang_emb=tell, gelu_activation=gelu,
        dropout=0.0, attention_dropout=0.0, max_position_embeddings=16,
    )  # fmt: skip
    theirs = transformers.XLMWithLMHeadModel(config).eval().double()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    ours = XLM.from_hf(theirs)
    ids = torch.randint(5, 23, (3, 9))
    languages = torch.tensor([[0] * 4 + [1] * 5, [2] * 9, [1] * 3 + [0] * 6])
    mask = torch.ones_like(ids).bool()
    mask[1, 6:] = False
    read = {"input_ids": ids, "attention_mask": mask.long(), "langs": languages, "position_ids": places_of(languages)}
    logits = theirs(**read).logits
    mine = ours.read_out(ours(ids, languages, mask))
    assert_close(mine[mask], logits[mask], atol=1e-5, rtol=1e-5)  # their softmax is computed in single precision
    logits[mask].square().mean().backward()
    mine[mask].square().mean().backward()
    assert_close(ours.tokens.weight.grad, theirs.transformer.embeddings.weight.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("padding", [2, 7])
def test_without_a_mask_padding_is_found_as_hugging_face_finds_it(padding):
    """XLM, XLM.from_hf: the default settings, with dropout of attention weights; a row with n other ids is n long."""
    import transformers

    sizes = {"vocab_size": 23, "emb_dim": 12, "n_layers": 2, "n_heads": 3, "n_langs": 3, "max_position_embeddings": 16}
    theirs = transformers.XLMWithLMHeadModel(transformers.XLMConfig(**sizes, pad_token_id=padding)).eval().double()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    ours = XLM.from_hf(theirs)
    assert theirs.config.attention_dropout > 0 and ours.padding == padding
    ids = torch.randint(8, 23, (5, 9))
    ids[1, 6:] = ids[2, 0] = ids[3, 4] = padding  # behind, in front, in the middle
    ids[4] = torch.cat([ids[4, :3], torch.full((6,), padding)])
    languages = torch.tensor([[0] * 4 + [1] * 5]).expand(5, -1)
    for told in ({}, {"langs": languages, "position_ids": places_of(languages)}):
        logits = ours.read_out(ours(ids, told.get("langs")))
        assert_close(logits, theirs(ids, **told).logits, atol=1e-5, rtol=1e-5)
    mask = torch.rand(5, 9) < 0.8
    logits = ours.read_out(ours(ids, mask=mask))
    assert_close(logits, theirs(ids, attention_mask=mask.long()).logits, atol=1e-5, rtol=1e-5)
    plain = XLM(ours.config).double().eval()  # one that knows no padding takes every token
    assert plain.padding is None
    plain.load_state_dict(ours.state_dict())
    assert torch.equal(plain(ids), plain(ids, torch.zeros_like(ids)))
    assert_close(plain(ids), plain(ids, mask=torch.ones_like(ids).bool()))


def test_what_xlm_does_not_compute_is_refused():
    import transformers

    sizes = {"vocab_size": 23, "emb_dim": 12, "n_layers": 1, "n_heads": 3, "max_position_embeddings": 16}
    with pytest.raises(ValueError, match="sinusoidal_embeddings"):
        XLM.from_hf(transformers.XLMWithLMHeadModel(transformers.XLMConfig(**sizes, sinusoidal_embeddings=True)))
    with pytest.raises(ValueError, match="nothing like a read-out of its own"):
        XLM.from_hf(transformers.XLMWithLMHeadModel(transformers.XLMConfig(**sizes, tie_word_embeddings=False)))
    with pytest.raises(TypeError, match="XLMWithLMHeadModel"):
        XLM.from_hf(transformers.XLMModel(transformers.XLMConfig(**sizes)))


def test_a_row_holds_a_sentence_and_its_translation():
    """translation_row: by hand; empty sentences leave their marks."""
    row = translation_row([5, 6, 7], [8, 9], start=2, sep=3)
    assert row.ids == [2, 5, 6, 7, 3, 2, 8, 9, 3]
    assert row.languages == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert row.places == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert translation_row([], [], 2, 3) == ([2, 3, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1])


def test_places_begin_anew_where_the_language_changes():
    """places_of: as a translation_row has them, for any row of languages, against a loop."""
    row = translation_row(range(4, 9), range(4, 7), 2, 3)
    assert places_of(torch.tensor([row.languages])).tolist() == [row.places]
    languages = torch.randint(0, 3, (7, 11), generator=torch.Generator().manual_seed(0))
    for found, of in zip(places_of(languages).tolist(), languages.tolist(), strict=True):
        at, wanted = 0, []
        for n, language in enumerate(of):
            at = 0 if n and language != of[n - 1] else at + (n > 0)
            wanted.append(at)
        assert found == wanted
    assert places_of(torch.zeros(2, 1, dtype=torch.long)).tolist() == [[0], [0]]


def test_padding_and_other_rows_change_nothing():
    model = small()
    ids, languages = torch.randint(0, 23, (2, 7)), torch.tensor([[0] * 7, [1] * 4 + [2] * 3])
    mask = torch.ones_like(ids).bool()
    mask[0, 5:] = False
    short = model(ids[:1, :5], languages[:1, :5])
    assert_close(model(ids, languages, mask)[:1, :5], short)
    assert_close(sentence_vectors(model, ids, languages, mask)[0], short[0].mean(dim=0))


def test_a_language_that_is_not_told_leaves_no_weight():
    model, ids = small(tell=False), torch.randint(0, 23, (2, 7))
    assert "segments.weight" not in model.state_dict()
    assert_close(model(ids, torch.zeros_like(ids)), model(ids, torch.full_like(ids, 2)))
    other = small()
    assert not torch.allclose(other(ids, torch.zeros_like(ids)), other(ids, torch.full_like(ids, 2)))


def test_bad_rows_are_refused():
    model = small()
    with pytest.raises(ValueError, match="17 tokens long"):
        model(torch.zeros(1, 17, dtype=torch.long))
    with pytest.raises((TypeError, ValueError), match="languages"):
        model(torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="languages"):
        model(torch.zeros(1, 4, dtype=torch.long), torch.full((1, 4), 3))


def test_twins_are_nearest_once_each_mean_is_off():
    """twins_found: moved and stretched copies are found; mixed ones are not; equal languages find all."""
    here = torch.randn(40, 8, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    assert twins_found(here, 3 * here + 100).all() and twins_found(here, here).all()
    mixed = here.roll(1, dims=0)
    assert not twins_found(here, mixed).any()
    with pytest.raises(ValueError, match="twins_found"):
        twins_found(here, here[:5])

"""Everything that trains, on an accelerator that is not there: no tensor made on the wrong device, no hidden wait.

PyTorch can pretend a device in pure Python. A fake tensor on it has a shape, a type and a device but no numbers: mixed
devices raise, and so does whoever asks for a number (`.item()`, `if tensor`, `.tolist()`, `.nonzero()`), which on a GPU
is where a program stands still until the GPU has caught up. The pretended device stays for the life of a process, so
this file runs itself in one of its own, once, and each test below reads what came out for its case.

A case takes a second: what is pretended is computed in Python. So kinds are not crossed with lengths, nor a kind with
what another kind has as well: each line of the library is run on the device in one case, not in ten.
"""

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch
from models import MODELS, New
from torch import nn

from course_lib.attention.attention import (
    AdditiveAttention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    SelfAttention,
    attend,
    causal_mask,
    padding_mask,
)
from course_lib.attention.block import Block, Encoder
from course_lib.attention.block import Decoder as Writes
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import (
    LearnedPositions,
    RelativeBias,
    SinusoidalPositions,
    alibi_bias,
    clipped_bucket,
    rotate,
    sinusoidal,
    t5_bucket,
)
from course_lib.attention.transformer import Transformer
from course_lib.bert.bert import Bert, BertConfig, mean_state
from course_lib.bert.bert_heads import Classifier, LayerMix, MaskedWords, SpanFinder, Tagger
from course_lib.bert.bert_labels import best_span, label_loss
from course_lib.bert.masked_words import Masked
from course_lib.bert.masked_words import masked_loss as masked_words_loss
from course_lib.bert.xlm import XLM, sentence_vectors, twins_found
from course_lib.detection.average_precision import found_by, right_ones
from course_lib.detection.detr import DETR, Anchors, Backbone, Queries
from course_lib.detection.heat_map import HeatMap, found_on, heat_loss, suppress
from course_lib.detection.matching import match_costs
from course_lib.detection.set_loss import in_order, left_to_right, loss_given
from course_lib.inputs.reach import reach
from course_lib.inputs.sequences import map_state
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.next_token import bits_per_token, next_token_loss, windows
from course_lib.long_context.hashing import HashedHeads
from course_lib.long_context.linear_attention import features, linear_step
from course_lib.long_context.reversible import ReversibleStack
from course_lib.long_context.segments import SegmentConfig, SegmentReader, relative_scores
from course_lib.long_context.window import band_mask, cone
from course_lib.multimodal.captions import Captioner, share_inside
from course_lib.multimodal.contrastive import contrastive_loss, diagonal
from course_lib.multimodal.quantiser import Quantiser
from course_lib.multimodal.vq_vae import VQVAE
from course_lib.multimodal.words_then_codes import codes_loss, draw, nats, row_of
from course_lib.multimodal.zero_shot import class_features, search, zero_shot
from course_lib.recurrent.language_model import CharRNN, TruncatedBPTT, streams
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.recurrent.rnn import RNN
from course_lib.retrieval.bm25 import summed_ranks
from course_lib.retrieval.dense import k_means
from course_lib.retrieval.learned_search import KeptIndex, LearnedSearch, Reader, Retriever
from course_lib.retrieval.marginal import lift, log_marginal
from course_lib.show.record import capture
from course_lib.text.pairs import batches, masked_loss, shift
from course_lib.text_to_text.bart import Bart, BartConfig
from course_lib.text_to_text.t5 import T5, T5Config
from course_lib.text_to_text.tasks import prefix_mask, target_loss
from course_lib.train import fit
from course_lib.translation.decode import beam_search, greedy
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import translation_loss
from course_lib.vision.convnet import ConvNet, ConvStem
from course_lib.vision.distillation import hard_distillation, taught_by
from course_lib.vision.images import image_loss, labelled_batches, random_shift
from course_lib.vision.masked_patches import MaskedAutoencoder
from course_lib.vision.rollout import attention_distance, brightness, cover, most, rollout
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.scale.config import configured
from course_lib.workshop.scale.processes import Here
from course_lib.workshop.scale.run import Run
from course_lib.workshop.scale.tasks import TASKS

pytestmark = pytest.mark.slow  # most of a minute, in a process of its own
CASES = {}  # name -> a function to call on the device
BACK = 5  # what the pretended device says when it is asked for tokens


def case(make):
    CASES[make.__name__] = make
    return make


def cases(**variants):
    """One case for each variant, as test functions have parameters."""

    def add(make):
        for name, arguments in variants.items():
            CASES[f"{make.__name__}-{name}"] = lambda arguments=arguments: make(*arguments)
        return make

    return add


def ids(*shape):
    return torch.zeros(*shape, dtype=torch.long, device="chip")


def vectors(*shape):
    return torch.empty(*shape, device="chip", requires_grad=True)


def allowed(*shape):
    return torch.ones(*shape, dtype=torch.bool, device="chip")


def there(make, *arguments, **named):
    """A module built on the device: a fake one cannot be moved."""
    with torch.device("chip"):
        return make(*arguments, **named)


def backward(*parts, through: nn.Module):
    """The backward pass from every part; each weight gets a gradient on its own device."""
    sum(part.square().sum() for part in parts).backward()
    assert all(p.grad.device == p.device for p in through.parameters())


def parts_of(state):
    return state if isinstance(state, tuple) else (state,)


# --- what trains


@cases(**{kind.__name__: (kind,) for kind in MODELS})
def a_model_of_the_list(kind):
    model = there(MODELS[kind].make)
    model(*MODELS[kind].given(New(vectors, ids, allowed), 2)).square().sum().backward()
    used = [p for p in model.parameters() if p.grad is not None]  # a head may leave out a part of its BERT
    assert (used or not [*model.parameters()]) and all(p.grad.device == p.device for p in used)


@cases(causal=(True,), both=(False,))
def heads_in_buckets(causal):
    layer = there(HashedHeads, 6, 2, n_rounds=2, n_buckets=4, chunk=3)
    backward(layer(vectors(2, 7, 6), causal=causal), through=layer)


@cases(turned=(True, None), added=(False, None), window=(True, 3))
def reader_of_segments(relative, window):
    model = there(lambda: SegmentReader(SegmentConfig(11, 8, 2, 2, memory=4, relative=relative, window=window)))
    loss_fn, text = TruncatedBPTT(), ids(101)
    for batch in islice(streams(text, 4, 6), 3):  # the memory is handed from segment to segment
        loss = loss_fn(model, batch)
        model.zero_grad()
        loss.backward()
    assert loss.device == text.device and all(states.shape == (4, 4, 8) for states in loss_fn.state)
    assert relative_scores(*[vectors(2, 5, 4)] * 3, *[vectors(2, 4)] * 2).device == text.device


@cases(kept=(True,), computed_back=(False,))
def reversible_layers(keep):
    stack = there(lambda: ReversibleStack([(MultiHead(6, 2), nn.Linear(6, 6)) for _ in range(2)], keep))
    backward(stack(vectors(2, 5, 6)), through=stack)


@case
def a_band_and_a_state():
    mask = band_mask(7, 2, 1, device="chip")
    assert cone(mask, 2).device == mask.device
    S, z, x = vectors(2, 4, 4), vectors(2, 4), features(vectors(2, 4))
    assert all(part.device == mask.device for part in linear_step(S, z, x, x, x))


@cases(one=(1,), two=(2,))
def rnn(n_layers):
    layer = there(RNN, 3, 4, n_layers)
    out, last = layer(vectors(2, 5, 3), vectors(n_layers, 2, 4))
    backward(out, last, through=layer)


LENGTHS = {
    "None": lambda: None,
    "on the device": lambda: ids(2),
    "on the CPU": lambda: torch.tensor([5, 3]),
    "list": lambda: [5, 0],
}


@cases(**{f"LSTM-both-{name}": (LSTM, True, lengths) for name, lengths in LENGTHS.items()},
       **{"LSTM": (LSTM, False, LENGTHS["on the CPU"]), "GRU": (GRU, False, LENGTHS["on the device"])})  # fmt: skip
def gated(kind, both, lengths):
    layer = there(kind, 3, 4, 2, bidirectional=both)
    out, last = layer(vectors(2, 5, 3), None, lengths())
    backward(out, *parts_of(last), through=layer)


@cases(RNN=(RNN,), LSTM=(LSTM,), GRU=(GRU,))
def character_model(kind):
    model, loss_fn, text = there(lambda: CharRNN(7, kind(6, 8, 2))), TruncatedBPTT(), ids(101)
    for batch in islice(streams(text, 4, 6), 3):  # the state is carried from chunk to chunk
        loss = loss_fn(model, batch)
        model.zero_grad()
        loss.backward()
    assert loss.device == text.device
    assert model.sample(ids(2, 3), 4, temperature=0.7).shape == (2, 7)


ATTENTION = (AdditiveAttention, DotAttention, GeneralAttention, ConcatAttention)


@cases(**{kind.__name__: (kind,) for kind in ATTENTION})
def attention(kind):
    module, query, keys = there(kind, 4, 4), vectors(2, 5, 4), vectors(2, 6, 4)
    for mask in (None, padding_mask(ids(2), 6), allowed(2, 5, 6)):
        context, weights = module(query, keys, mask=mask)
        backward(context, weights, through=module)


@case
def self_attention():
    x = vectors(2, 6, 4)
    out, weights = attend(x, x, x, padding_mask(ids(2), 6)[:, None] & causal_mask(6, x.device))
    (out.sum() + weights.sum()).backward()
    assert x.grad.device == out.device == x.device


@cases(ready=(6,), computed=(9,))
def sinusoidal_positions(T):
    module, x = there(SinusoidalPositions, 4, 6), vectors(2, T, 4)
    assert module(x).device == module.table.device == sinusoidal(3, 4, device="chip").device == x.device
    module(x).sum().backward()


@case
def learned_positions():
    module = there(LearnedPositions, 6, 4)
    backward(module(vectors(2, 5, 4)), through=module)


TURNS = {
    "None": (None,),
    "halves": (lambda x: rotate(x, pairing="halves"),),
    "places": (lambda x: rotate(x, ids(2, 6) + 3.5),),
}


@cases(**TURNS)
def one_head(turn):
    layer = there(SelfAttention, 4, 4, turn)
    for mask in (None, padding_mask(ids(2), 6), causal_mask(6, "chip")[None], allowed(2, 6, 6)):
        for bias in (None, alibi_bias(1, 6, device="chip")):
            backward(*layer(vectors(2, 6, 4), mask, bias), through=layer)


@cases(t5=(t5_bucket, 32), shaw=(partial(clipped_bucket, max_distance=3), 7))
def relative_bias(bucket, n_buckets):
    module = there(RelativeBias, bucket, n_buckets, 3)
    backward(module(5), module(5, 7), through=module)


@cases(
    RNN=(lambda: RNN(4, 6),),
    SelfAttention=(lambda: SelfAttention(4, 6, turn=rotate),),
    Encoder=(lambda: Encoder(4, 2, 2),),
)
def how_far_it_reaches(make):
    found = reach(there(make), vectors(2, 5, 4), at=2)
    assert found.shape == (5,) and found.device.type == "chip"


@case
def multi_head():
    layer, x, memory = there(MultiHead, 4, 2), vectors(2, 6, 4), vectors(2, 5, 4)
    for mask in (None, padding_mask(ids(2), 6), causal_mask(6, "chip")[None], allowed(2, 6, 6)):
        for causal in (False, True):
            backward(layer(x, mask=mask, causal=causal), through=layer)
    for mask in (None, padding_mask(ids(2), 5), allowed(2, 6, 5)):
        backward(layer(x, memory, mask), through=layer)


VARIED = {
    "window": lambda: {"window": 2},
    "all": lambda: {
        "turn": rotate,
        "position_bias": RelativeBias(t5_bucket, 32, 4),
        "window": 3,
        "n_kv_heads": 1,
        "d_k": 6,
        "d_v": 3,
    },
}


@cases(**{name: (how,) for name, how in VARIED.items()})
def multi_head_varied(how):
    layer, cache = there(lambda: MultiHead(8, 4, **how())), {}
    for mask in (None, padding_mask(ids(2), 6), allowed(2, 6, 6)):
        for causal in (False, True):
            backward(layer(vectors(2, 6, 8), mask=mask, causal=causal), through=layer)
    if layer.turn or layer.position_bias:
        backward(layer(vectors(2, 6, 8), causal=True, places=ids(2, 6)), through=layer)
    for T in (4, 2, 1):
        backward(layer(vectors(2, T, 8), causal=True, cache=cache), through=layer)
        cache = {name: part.detach() for name, part in cache.items()}


@cases(all=(VARIED["all"],))
def models_varied(how):
    model = there(lambda: GPT(GPTConfig(11, 9, 8, 4, 2), **how()))
    backward(model(ids(2, 6), allowed(2, 6)), through=model)
    reads, writes = there(lambda: Encoder(8, 4, 1, **how())), there(lambda: Writes(8, 4, 1, **how()))
    memory = reads(vectors(2, 5, 8), allowed(2, 5))  # a Transformer copies a bias, and a fake one cannot be copied
    backward(writes(vectors(2, 6, 8), memory, allowed(2, 5)), through=writes)


@cases(after=(False,), before=(True,))
def block(pre_norm):
    layer = there(lambda: Block.from_sizes(4, 2, pre_norm=pre_norm, dropout=0.5, cross=True))
    backward(layer(vectors(2, 6, 4), allowed(2, 6), True, vectors(2, 5, 4), allowed(2, 5)), through=layer)


@cases(**{f"before-{name}": ("before", lengths) for name, lengths in LENGTHS.items()}, after=("after", LENGTHS["None"]))
def translation_by_attention(kind, lengths):
    model = there(lambda: Transformer(11, 13, 6, 2, n_layers=2, dropout=0.5, pre_norm=kind == "before"))
    target_in, target_out = shift(ids(2, 6))
    logits, _ = model(ids(2, 5), lengths(), target_in, allowed(2, 5))
    loss = masked_loss(logits, target_out, smoothing=0.1)
    loss.backward()
    assert loss.device == target_out.device
    assert all(p.grad.device == p.device for p in model.parameters())


TEXT_TO_TEXT = {
    "t5": (lambda: T5(T5Config(11, 6, 2, 2, 8, 3)),),
    "mt5": (lambda: T5(T5Config(11, 6, 2, 2, 8, 3, gated=True, tied=False)),),
    "bart": (lambda: Bart(BartConfig(11, 9, 6, 2, 2, 8)),),
}


@cases(**TEXT_TO_TEXT)
def text_in_text_out(make):
    model = there(make)
    backward(model(ids(2, 5), None, ids(2, 4))[0], through=model)
    backward(model(ids(2, 5), LENGTHS["on the CPU"](), ids(2, 4), allowed(2, 5))[0], through=model)


@case
def targets_alone():
    """One stack that reads and writes: its mask and its loss."""
    logits, n_read = vectors(2, 6, 11), ids(2)
    target_loss(logits, ids(2, 6), n_read).backward()
    assert logits.grad.device == logits.device
    assert prefix_mask(n_read, 6).device == n_read.device


KINDS = {
    "bottleneck": {},
    "gru": {"cell": "gru"},
    "both": {"bidirectional": True, "n_layers": 2},
    **{name: {"attention": name, "bidirectional": True} for name in ("additive", "dot", "general", "concat")},
    "dropout": {"attention": "dot", "dropout": 0.5},
    "feeding": {"attention": "additive", "input_feeding": True},
    "feeding gru": {"attention": "dot", "input_feeding": True, "cell": "gru"},
}


@cases(**{kind: (KINDS[kind], LENGTHS["on the CPU"]) for kind in KINDS},
       **{f"additive-{name}": (KINDS["additive"], lengths) for name, lengths in LENGTHS.items()})  # fmt: skip
def translation(kind, lengths):
    model = there(Seq2Seq, 11, 13, 6, 8, **kind)
    target_in, target_out = shift(ids(2, 6))
    logits, weights = model(ids(2, 5), lengths(), target_in, allowed(2, 5) if "attention" in kind else None)
    loss = masked_loss(logits, target_out, smoothing=0.1)
    loss.backward()
    assert loss.device == target_out.device and (weights is not None) == ("attention" in kind)
    assert all(p.grad.device == p.device for p in model.parameters())


@cases(recurrent=(lambda: Seq2Seq(11, 13, 6, 8, "additive"),), transformer=(lambda: Transformer(11, 13, 6, 2, 2),))
def training(make):
    """The whole loop, on batches as the notebooks draw them: one look at the end, for losses and for norms."""
    model = there(make)
    pairs = [([4, 5, 6], [7, 8]), ([5], [6]), ([4, 4], []), ([6, 5], [7])]
    trains_without_a_look(model, batches(pairs, 2, seed=0), translation_loss)


@cases(RNN=(RNN,), LSTM=(LSTM,))
def training_on_a_text(kind):
    model = there(lambda: CharRNN(7, kind(6, 8)))
    trains_without_a_look(model, streams(torch.zeros(101).long(), 4, 6), TruncatedBPTT())


def trains_without_a_look(model, drawn, loss_fn):
    model.to = lambda device: model  # a fake one cannot be moved, and is there already
    looks.clear()
    history = fit(model, drawn, loss_fn, steps=3, device=torch.device("chip"), progress=False)
    assert len(history.loss) == 3 and looks == [(3,), (3,)]


def masked_pieces():
    return Masked(ids(4, 9), ids(4, 9), allowed(4, 9), ids(5), ids(5), ids(4))


# model -> a task's sizes, and a piece of its data, as they lie on the device
AT_SCALE = {
    "gpt": ({"vocab_size": 64}, lambda: ids(4, 9)),
    "bert": ({"vocab_size": 64}, masked_pieces),
    "vit": ({"classes": 10, "shapes": {"train": (9, 1, 8, 8)}}, lambda: (vectors(4, 1, 8, 8), ids(4))),
}
OF_A_RUN = {"gpt-muon": ("gpt", "muon"), "bert-adamw": ("bert", "adamw"), "vit-adamw": ("vit", "adamw")}


@cases(**OF_A_RUN)
def a_step_at_scale(model, optimiser):
    """As `python -m course_lib.workshop.scale` takes it; the numbers are read once, when they are logged."""
    config = configured(model, optimiser=optimiser, tokens=20, batch=8, micro=4, out="/nowhere")
    task = TASKS[model].__new__(TASKS[model])
    sizes, piece = AT_SCALE[model]
    vars(task).update(config=config, per_row=9, reach=9, read_out=1.0, **sizes)
    with torch.device("chip"):
        network = task.model()
    network.to = lambda device: network
    task.model = lambda: network
    run = Run(config, task, Here(0, 1, torch.device("chip")), lambda *_: None)
    looks.clear()
    for _ in range(2):  # the first makes the state of the optimiser, the second finds it
        run.step([piece(), piece()])
    assert len(run.unread) == 2 and not looks
    assert all(p.device.type == "chip" and p.grad.device == p.device for p in network.parameters())


TINY = GPTConfig(vocab_size=11, max_len=9, d_model=6, n_heads=2, n_layers=2, dropout=0.5)


@cases(tied=(TINY,), untied=(replace(TINY, tied=False),), after=(replace(TINY, pre_norm=False),))
def gpt(config):
    model, cache = there(GPT, config), [{}, {}]
    for mask in (None, allowed(2, 6)):
        backward(model(ids(2, 6), mask), through=model)
    assert model(ids(2, 5), allowed(2, 5), cache).device == model(ids(2, 1), allowed(2, 6), cache).device


@cases(shared=(2,))
def decoder(n_kv_heads):
    model = there(lambda: Decoder(DecoderConfig(11, 9, 8, 4, 2, 12, n_kv_heads)))
    for mask in (None, allowed(2, 6)):
        backward(model(ids(2, 6), mask), through=model)
    for masks in ((None, None, None), (allowed(2, 4), allowed(2, 6), allowed(2, 7))):
        cache = [{}, {}]
        for T, mask in zip((4, 2, 1), masks, strict=True):
            backward(model(ids(2, T), mask, cache), through=model)
            cache = map_state(cache, lambda part: part.detach())


def a_bert():
    return Bert(BertConfig(11, 9, 6, 2, 2, 0.5))


@case
def bert():
    model = there(a_bert)
    for segments, mask in ((None, None), (ids(2, 6), allowed(2, 6))):
        states = model(ids(2, 6), segments, mask)
        backward(states, model.pool(states), mean_state(states, mask), through=model)
    mix = there(LayerMix, 3)
    backward(mix(model.layers(ids(2, 6))), through=mix)


@cases(one=(Classifier, (3,), (2,)), tags=(Tagger, (3,), (2, 6)), span=(SpanFinder, (), (2, 2)))
def bert_heads(head, sizes, labels):
    model = there(lambda: head(a_bert(), *sizes))
    shape = (2, 6)
    label_loss(model, (ids(*shape), ids(*shape), allowed(*shape), ids(*labels))).backward()
    if head is SpanFinder:
        assert best_span(model(ids(2, 6), None, allowed(2, 6)), allowed(2, 6)).device.type == "chip"


@cases(words=(False,), pairs=(True,))
def masked_words(pairs):
    model = there(lambda: MaskedWords(a_bert(), pairs))
    batch = Masked(ids(2, 6), ids(2, 6), allowed(2, 6), ids(3), ids(3), ids(2) if pairs else None)
    loss = masked_words_loss(model, batch)
    loss.backward()
    assert loss.device == batch.ids.device


@cases(told=(True,), untold=(False,))
def xlm(tell):
    model = there(lambda: XLM(BertConfig(11, 9, 6, 2, 2, 0.5, n_segments=3, pooler=False), tell))
    for languages, mask in ((None, None), (ids(2, 6), allowed(2, 6))):
        backward(model.read_out(model(ids(2, 6), languages, mask)), through=model)
    found = sentence_vectors(model, ids(2, 6), ids(2, 6), allowed(2, 6), 1)
    assert twins_found(found, found).device.type == "chip"


SIGHT = ViTConfig(6, 2, 5, 4, 2, 2, channels=1, dropout=0.5)


@cases(
    vit=(lambda: ViT(SIGHT),),
    stem=(lambda: ViT(SIGHT, ConvStem(1, 2, 4)),),
    padded=(lambda: ViT(replace(SIGHT, image_size=5, pad=True)),),
    convolutional=(lambda: ConvNet(1, 5, 4),),
)
def image_model(make):
    model = there(make)
    side = 5 if getattr(getattr(model, "config", None), "pad", False) else 6
    for images in (vectors(2, 1, side, side), random_shift(vectors(2, 1, side, side), 1)):
        backward(model(images), through=model)
    teacher, labels = there(ConvNet, 1, 5, 2), ids(2)
    taught_by(teacher, hard_distillation)(model, (images.detach(), labels)).backward()
    if isinstance(model, ViT):
        assert model.resized((8, 12) if side == 6 else 9).places.device.type == "chip"


@cases(anchors=(True,), queries=(False,))
def detector_that_answers_with_a_set(anchors):
    queries = (lambda: Anchors(3, 8, 2)) if anchors else (lambda: Queries(3, 8))
    model = there(lambda: DETR(Backbone(1, (2, 4)), queries(), 5, d_model=8, n_heads=2, n_encoder=1, d_ff=12))
    labels, truth, given = ids(2, 2), vectors(2, 2, 4).detach(), ids(2, 3)
    layers = model.layers(vectors(2, 1, 6, 7))
    backward(*[loss_given(given, *layer, labels, truth) for layer in layers], through=model)
    logits, boxes = layers[-1]
    found = found_by(logits, boxes)
    right = right_ones(found, labels, truth)
    assert right.device == suppress(found).labels.device == in_order(labels, 3).device == labels.device
    assert match_costs(logits, boxes, labels, truth).device == left_to_right(labels, truth)[1].device == labels.device


@case
def detector_on_a_grid():
    model = there(lambda: HeatMap(Backbone(1, (2, 4)), 5, 6))
    logits, boxes = model(vectors(2, 1, 6, 6))
    loss = heat_loss(logits, boxes, ids(2, 2), vectors(2, 2, 4).detach(), 3)
    loss.backward()
    assert model.naming.bias.grad.device == found_on(logits, boxes).boxes.device == loss.device


@case
def images_and_texts():
    images, texts = vectors(3, 4), vectors(3, 4)
    scores = images @ texts.T
    for right in (diagonal(scores), allowed(3, 3)):
        contrastive_loss(scores, right).backward(retain_graph=True)
    assert images.grad.device == scores.device
    places, cosines = search(images, texts, 2)
    p = zero_shot(images, class_features(vectors(3, 2, 4)), 7.0)
    assert places.device == cosines.device == p.device == scores.device


@cases(now=(False,), kept=(True,))
def learned_search(kept):
    def make():
        words = torch.arange(8)[:, None], 8, 6
        return LearnedSearch(Retriever(*words, 5), Reader(*words, torch.arange(2), 4))

    model, questions, passages = there(make), ids(2, 6), ids(5, 4)
    index = KeptIndex(2)(model, passages) if kept else None
    log_z, log_y, chosen = model(questions, passages, 3, index)
    log_p = log_marginal(log_z, log_y)
    backward(log_p, through=model)
    assert chosen.device == lift(log_z, log_y[..., 0]).device == log_p.device


@case
def clusters():
    centres, own = k_means(vectors(6, 3).detach(), 2, 2)
    assert centres.device == own.device == summed_ranks(vectors(6), vectors(6)).device


@cases(vector=(None,), grid=("dot",))
def captions(attention):
    model = there(lambda: Captioner(Backbone(1, (2, 4)), 9, 11, 6, 8, attention))
    target_in, target_out = shift(ids(2, 6))
    logits, weights = model(vectors(2, 1, 6, 6), target_in, allowed(2, 9) if attention else None)
    masked_loss(logits, target_out).backward()
    assert all(p.grad.device == p.device for p in model.parameters())
    if attention:
        assert share_inside(weights, allowed(6, 6), (3, 3)).device == logits.device


@case
def vectors_as_codes():
    layer = there(Quantiser, 7, 3)
    backward(*layer(vectors(2, 5, 3))[::2], through=layer)
    assert layer.share.device == layer.dead().device == layer.codes.device


@case
def images_as_codes():
    model, images = there(VQVAE, 7, 3, 2, 2), vectors(2, 1, 8, 12)
    model.loss(images).backward()
    assert all(p.grad.device == p.device for p in model.parameters())
    codes = model.encode(images)
    assert model.paint(codes.view(2, 2, 3)).device == model.paint(ids(2, 4)).device == codes.device


@case
def words_and_then_codes():
    model, rows = there(GPT, TINY), row_of(ids(2, 3), ids(2, 4), 5)
    loss = codes_loss(model, rows, 4)
    loss.backward()
    assert nats(model, rows, 4).device == draw(model, ids(2, 3), 4, 5).device == loss.device


@case
def masked_patches():
    model = there(lambda: MaskedAutoencoder(ViT(SIGHT), d_decoder=4, n_heads=2))
    images, seen = vectors(2, 1, 6, 6), ids(2, 3)
    model.loss(images, seen).backward()
    assert model.hidden.grad.device == images.device


@case
def what_attention_sees():
    model, images = there(ViT, SIGHT), vectors(2, 1, 6, 6)
    with capture(model, "*.attention.weights") as maps:
        model(images)
    layers = [maps[f"encoder.blocks.{n}.attention.weights"][0] for n in range(2)]
    seen, far = rollout(layers), attention_distance(layers[0], (3, 3), 2)
    covered = cover(images, most(seen[:, 0, 1:], 0.25), 2)
    assert seen.device == far.device == covered.device == brightness(images, 2).device == images.device


@case
def training_a_vit():
    drawn = labelled_batches(torch.zeros(5, 1, 6, 6), torch.zeros(5).long(), 2)
    trains_without_a_look(there(ViT, SIGHT), drawn, image_loss)


@case
def training_a_gpt():
    trains_without_a_look(there(GPT, TINY), windows(torch.zeros(30).long(), 2, 6), next_token_loss)


@case
def measuring_a_gpt():
    model = there(GPT, TINY)
    for text in (ids(10), ids(9000)):
        looks.clear()
        bits_per_token(model, text)
        assert looks == [()]  # one number, at the end


# --- who listens


@cases(
    RNN=(lambda: RNN(3, 4, 2),),
    LSTM=(lambda: LSTM(3, 4, 2, bidirectional=True),),
    GRU=(lambda: GRU(3, 4),),
)
def recording(make):
    layer = there(make)
    with capture(layer) as maps:
        out, _ = layer(vectors(2, 5, 3))
        out.sum().backward()
    heard = maps.over_time("hidden.0")
    assert heard.shape == maps.grad("hidden.0").shape == (2, 5, 4) and heard.device == out.device


@case
def recording_attention():
    model = there(Seq2Seq, 11, 13, 6, 8, attention="additive", input_feeding=True)
    with capture(model, "*.weights") as maps:
        model(ids(2, 5), None, ids(2, 4))[0].sum().backward()
    assert maps.grad("decoder.attention.weights").shape == (2, 4, 1, 5)


@case
def recording_shared_heads():
    model = there(lambda: Decoder(DecoderConfig(11, 9, 8, 4, 2, 12, 2)))
    with capture(model, "*.weights") as maps:
        model(ids(2, 5)).sum().backward()
    assert maps.grad("blocks.1.attention.weights").shape == (2, 1, 4, 5, 5)


@case
def recording_every_head():
    model = there(Transformer, 11, 13, 6, 2, 2)
    with capture(model, "*.weights") as maps:
        model(ids(2, 5), None, ids(2, 4))[0].sum().backward()
    assert maps.grad("decoder.blocks.1.cross.weights").shape == (2, 1, 2, 4, 5)


# --- who writes: a search must look at the device to see whether it is done, once a token


@cases(
    bottleneck=(lambda: Seq2Seq(11, 13, 6, 8),),
    feeding=(lambda: Seq2Seq(11, 13, 6, 8, **KINDS["feeding"]),),
    aligned=(lambda: Transformer(11, 13, 6, 2, 2, align=(1, 0)),),
    t5=TEXT_TO_TEXT["t5"],
    bart=TEXT_TO_TEXT["bart"],
)
def searching(make):
    model = there(make)
    looks.clear()
    found = greedy(**model.decoding(ids(2, 5)), max_len=4)
    assert found.tokens == [[BACK] * 4] * 2 and len(looks) == 4
    looks.clear()
    beam_search(**model.decoding(ids(2, 5)), max_len=4, width=3)
    assert len(looks) == 4 + 1 and looks[-1] == (2, 4)  # and once more for what was written


@cases(greedy=({"temperature": 0},), drawn=({"top_k": 3, "top_p": 0.5},), again=({"cache": False},))
def generating(knobs):
    model = there(GPT, TINY)
    looks.clear()
    assert model.generate([[1, 2, 3], [4]], 5, **knobs) == [[BACK] * 5] * 2 and looks == [(2,)] * 5
    looks.clear()
    with warnings.catch_warnings(action="ignore"):  # that the window slides
        assert model.generate([[1] * 20, [4]], 4, **knobs) == [[BACK] * 4] * 2 and looks == [(2,)] * 4
    assert model.generate([[1, 2]], 4, stop=[BACK], **knobs) == [[]]


looks = []


def look(tensor):
    """`tolist` of a fake tensor: what the device would say if it had computed anything; the beam is never done."""
    looks.append(tuple(tensor.shape))
    said = BACK if tensor.ndim else 0
    for size in reversed(tensor.shape):
        said = [said] * size
    return said


# --- the instrument itself: it must see what it is there to see


@case
def a_wait_is_seen():
    refuses("DataDependentOutputException", lambda: bool(vectors(3).isfinite().all()))
    refuses("DataDependentOutputException", lambda: vectors(3).max().item())
    refuses("DynamicOutputShapeException", lambda: vectors(3).nonzero())
    refuses("DynamicOutputShapeException", lambda: vectors(3)[allowed(3)])


@case
def a_tensor_on_the_wrong_device_is_seen():
    refuses("FakeTensorDeviceMismatchError", lambda: vectors(3) + torch.ones(3))


def teach_shapes_of_the_gru():
    """PyTorch's fake tensors know the shapes that come out of an LSTM's fused cell, and not of a GRU's."""

    def forward(gates_x, gates_h, h, bias_x=None, bias_h=None):
        return torch.empty_like(h), h.new_empty(len(h), 5 * h.shape[1])

    def backward(grad_h, kept, has_bias):
        gates = grad_h.new_empty(len(grad_h), 3 * grad_h.shape[1])
        bias = gates[0] if has_bias else None
        return gates, gates, grad_h, bias, bias

    library = torch.library.Library("aten", "IMPL", "Meta")
    library.impl("_thnn_fused_gru_cell", forward)
    library.impl("_thnn_fused_gru_cell_backward", backward)
    KEPT.append(library)


KEPT = []  # a library ends with its object


def refuses(error, call):
    try:
        call()
    except Exception as found:
        assert type(found).__name__ == error, type(found)
    else:
        raise AssertionError(f"no {error}")


def on_the_device(run):
    """What `run` says there: nothing, or its error."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    FakeTensor.tolist = look
    try:
        with FakeTensorMode():
            run()
    except Exception as error:
        at = error.__traceback__
        while at.tb_next and "torch/" not in at.tb_next.tb_frame.f_code.co_filename:
            at = at.tb_next
        return f"{Path(at.tb_frame.f_code.co_filename).name}, line {at.tb_lineno}: {type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    from torch.utils import backend_registration

    backend_registration._setup_privateuseone_for_python_backend("chip")
    teach_shapes_of_the_gru()
    print(json.dumps({name: on_the_device(run) for name, run in CASES.items()}))


@pytest.fixture(scope="module")
def said():
    found = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=550)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_on_a_device_nothing_waits_and_nothing_is_elsewhere(said, name):
    assert said[name] == ""

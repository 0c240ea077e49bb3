"""Every from_hf: a yes-or-no setting of Hugging Face's configuration is copied, or refused in words."""

import pytest
import torch
import transformers
from parity import shaken
from torch import nn

from course_lib.bert.bert import Bert
from course_lib.bert.bert_heads import MaskedWords, Tagger
from course_lib.bert.lean_bert import LeanBert, LeanWords
from course_lib.bert.replaced_words import Discriminator
from course_lib.bert.xlm import XLM
from course_lib.detection.detr import DETR
from course_lib.language.decoder import Decoder
from course_lib.language.gpt import GPT
from course_lib.text_to_text.bart import Bart
from course_lib.text_to_text.t5 import T5
from course_lib.vision.swin import Swin
from course_lib.vision.vit import ViT

# They say what is handed back, and in which form.
NO_NUMBERS = {"return_dict", "output_hidden_states", "output_attentions", "use_cache", "torchscript"}

BERT = {"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
BERT |= {"intermediate_size": 20, "max_position_embeddings": 16}
LEAN = BERT | {"embedding_size": 8}
DISTIL = {"vocab_size": 23, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20, "max_position_embeddings": 16}
XLMS = {"vocab_size": 23, "emb_dim": 12, "n_layers": 2, "n_heads": 3, "n_langs": 3, "max_position_embeddings": 16}
GPTS = {"vocab_size": 23, "n_positions": 16, "n_embd": 12, "n_layer": 2, "n_head": 3}
SIDES = {f"{side}_{name}": size for side in ("encoder", "decoder")
         for name, size in {"layers": 2, "attention_heads": 3, "ffn_dim": 20}.items()}  # fmt: skip
BARTS = SIDES | {"vocab_size": 23, "d_model": 12, "max_position_embeddings": 16}
T5S = {"vocab_size": 23, "d_model": 12, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 3}
VITS = {"image_size": 8, "patch_size": 4, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
SWINS = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
DETRS = SIDES | {"d_model": 12, "num_queries": 5, "num_labels": 4, "use_timm_backbone": False}

READ = {  # our class, its name for theirs, a configuration that is small
    "BertModel": (Bert, "Bert", BERT),
    "BertForMaskedLM": (MaskedWords, "Bert", BERT),
    "BertForTokenClassification": (Tagger, "Bert", BERT),
    "AlbertModel": (LeanBert, "Albert", LEAN),
    "AlbertForMaskedLM": (LeanWords, "Albert", LEAN),
    "ElectraForMaskedLM": (LeanWords, "Electra", LEAN),
    "ElectraForPreTraining": (Discriminator, "Electra", LEAN),
    "DistilBertModel": (LeanBert, "DistilBert", DISTIL),
    "XLMWithLMHeadModel": (XLM, "XLM", XLMS),
    "GPT2LMHeadModel": (GPT, "GPT2", GPTS),
    "LlamaForCausalLM": (Decoder, "Llama", BERT | {"tie_word_embeddings": True}),
    "BartForConditionalGeneration": (Bart, "Bart", BARTS),
    "T5ForConditionalGeneration": (T5, "T5", T5S),
    "MT5ForConditionalGeneration": (T5, "MT5", T5S),
    "ViTForImageClassification": (ViT, "ViT", VITS),
    "SwinForImageClassification": (Swin, "Swin", SWINS),
    "DetrForObjectDetection": (DETR, "Detr", DETRS),
}


def theirs(name: str, **changed):
    """A model of Hugging Face's with every weight drawn."""
    kind, sizes = READ[name][1:]
    if kind == "Detr":
        stages = {"embedding_size": 6, "hidden_sizes": [8, 12], "depths": [1, 1], "out_features": ["stage2"]}
        changed["backbone_config"] = transformers.ResNetConfig(**stages)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**(sizes | changed))
    return shaken(getattr(transformers, name)(config)).double().eval()


def outputs(model: nn.Module, ours: nn.Module | None = None) -> torch.Tensor:
    """What theirs, or the copy, makes of the same input."""
    kind = model.config.model_type
    torch.manual_seed(1)
    ids, target = torch.randint(4, 20, (2, 7)), torch.randint(4, 20, (2, 5))
    side = {"vit": 8, "swin": 16, "detr": 64}.get(kind)
    given = (ids,) if side is None else (torch.rand(2, 3, side, side, dtype=torch.float64),)
    with torch.no_grad():
        if kind in ("bart", "t5", "mt5"):
            return model(ids, decoder_input_ids=target).logits if ours is None else ours(ids, None, target)[0]
        if ours is None:
            found = model(*given)
            return found.logits if hasattr(found, "logits") else found.last_hidden_state
        found = ours(*given)
        return ours.read_out(found) if kind == "xlm" else found[0] if kind == "detr" else found


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_a_setting_is_copied_or_refused(name):
    settings = {key: value for key, value in theirs(name).config.to_dict().items() if isinstance(value, bool)}
    for change in [{}, *({key: not settings[key]} for key in settings.keys() - NO_NUMBERS)]:
        try:
            model = theirs(name, **change)
            wanted = outputs(model)
        except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
            assert change, f"{name} does not run as it is"
            continue  # Hugging Face itself cannot do that
        try:
            ours = READ[name][0].from_hf(model)
        except ValueError as error:
            assert change and any(words in str(error) for words in ("copied", "from_hf", "Hugging Face")), change
        else:
            assert (outputs(model, ours) - wanted).abs().max() < 1e-5, change

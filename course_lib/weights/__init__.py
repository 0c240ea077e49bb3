"""How weights that others trained fit into our models: their names, sizes and activations beside ours."""

from course_lib.weights.bart_weights import ALIKE, BART_NAMES, BART_OFFSET, BART_SIZES, BIAS, TABLE, from_bart
from course_lib.weights.bert_weights import BERT_NAMES, BERT_SIZES, NORMS, NOT_LEARNT, check_class, from_bert, our_name
from course_lib.weights.g2p_weights import END_SIGN, LETTER_ROWS, LETTERS, SOUND_ROWS, SOUNDS, from_g2p, spelled
from course_lib.weights.hf_activations import HF_ACTIVATIONS
from course_lib.weights.lean_bert_weights import (
    LEAN_KINDS,
    LEAN_NAMES,
    LEAN_NOT_LEARNT,
    from_lean_bert,
    our_lean_name,
)
from course_lib.weights.llama_weights import (
    CUTS,
    LLAMA_NAMES,
    LLAMA_SIZES,
    SPECIAL,
    from_gguf,
    from_llama,
    gguf_chat_template,
    gguf_tokenizer,
)
from course_lib.weights.mae_weights import MAE_DECODER, MAE_NAMES, MAE_SIZES, from_mae
from course_lib.weights.swin_weights import SWIN_NAMES, SWIN_SIZES, from_swin
from course_lib.weights.t5_weights import OUT, T5_KINDS, T5_NAMES, T5_SIZES, from_t5
from course_lib.weights.xlm_weights import XLM_LAYERS, XLM_NAMES, XLM_SIZES, from_xlm

__all__ = [
    "ALIKE",
    "BART_NAMES",
    "BART_OFFSET",
    "BART_SIZES",
    "BERT_NAMES",
    "BERT_SIZES",
    "BIAS",
    "CUTS",
    "END_SIGN",
    "HF_ACTIVATIONS",
    "LEAN_KINDS",
    "LEAN_NAMES",
    "LEAN_NOT_LEARNT",
    "LETTERS",
    "LETTER_ROWS",
    "LLAMA_NAMES",
    "LLAMA_SIZES",
    "MAE_DECODER",
    "MAE_NAMES",
    "MAE_SIZES",
    "NORMS",
    "NOT_LEARNT",
    "OUT",
    "SOUNDS",
    "SOUND_ROWS",
    "SPECIAL",
    "SWIN_NAMES",
    "SWIN_SIZES",
    "T5_KINDS",
    "T5_NAMES",
    "T5_SIZES",
    "TABLE",
    "check_class",
    "from_bart",
    "from_bert",
    "from_g2p",
    "from_gguf",
    "from_lean_bert",
    "from_llama",
    "from_mae",
    "from_swin",
    "from_t5",
    "gguf_chat_template",
    "gguf_tokenizer",
    "our_lean_name",
    "our_name",
    "spelled",
    "XLM_LAYERS",
    "XLM_NAMES",
    "XLM_SIZES",
    "from_xlm",
]

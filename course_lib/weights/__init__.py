"""How weights that others trained fit into our models: their names, sizes and activations beside ours."""

from course_lib.weights.bert_weights import BERT_NAMES, BERT_SIZES, NORMS, NOT_LEARNT, check_class, from_bert, our_name
from course_lib.weights.hf_activations import HF_ACTIVATIONS
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

__all__ = [
    "BERT_NAMES",
    "BERT_SIZES",
    "CUTS",
    "HF_ACTIVATIONS",
    "LLAMA_NAMES",
    "LLAMA_SIZES",
    "NORMS",
    "NOT_LEARNT",
    "SPECIAL",
    "check_class",
    "from_bert",
    "from_gguf",
    "from_llama",
    "gguf_chat_template",
    "gguf_tokenizer",
    "our_name",
]

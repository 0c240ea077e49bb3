"""The names that Hugging Face gives to activations, beside ours, which `attention/block.py` lists. Lesson 07."""

# Several of theirs are one function, written in several ways.
HF_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_python_tanh": "gelu_tanh"}
HF_ACTIVATIONS |= {"gelu": "gelu", "gelu_python": "gelu", "relu": "relu", "relu2": "relu_squared"}
HF_ACTIVATIONS |= {"silu": "silu", "swish": "silu"}

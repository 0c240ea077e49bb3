"""Unrolled: the library beside the notebooks, one file for each concept.

Each lesson derives a layer from its formula, then shows the file here that holds the same layer, and proves
that the two agree. `rnn.py` and its like hold the concepts. `data`, `train.py` and `record.py` feed, train
and observe any model. `show` and `lesson` serve the notebooks.
"""

__version__ = "0.1.0"

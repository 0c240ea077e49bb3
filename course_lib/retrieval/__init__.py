"""A memory outside the weights: search by words and by vectors, the sum over passages, a search learned by reading."""

from course_lib.retrieval.bm25 import BM25, STOP_WORDS, summed_ranks, terms
from course_lib.retrieval.dense import Clusters, k_means
from course_lib.retrieval.learned_search import KeptIndex, LearnedSearch, Reader, Retriever, SpelledWords, Tower
from course_lib.retrieval.marginal import lift, log_marginal, log_passages, posterior

__all__ = [
    "BM25",
    "Clusters",
    "KeptIndex",
    "LearnedSearch",
    "Reader",
    "Retriever",
    "STOP_WORDS",
    "SpelledWords",
    "Tower",
    "k_means",
    "lift",
    "log_marginal",
    "log_passages",
    "posterior",
    "summed_ranks",
    "terms",
]

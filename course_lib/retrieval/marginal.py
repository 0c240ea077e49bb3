"""The sum over passages: no label says which is correct, so an answer's probability is a mean over all. Lesson 15.

    p(y | x) = sum over z of p(z | x) p(y | x, z),    p(z | x) = softmax over z of f(x, z) / temperature
    (Guu et al., 2020, "REALM", section 3.1, equation 1, and section 3.2)

Shapes: B questions x, K passages z of each, V answers y. All in log space, in nats: a product of many small numbers
would be 0. f are the scores of the search, p(y | x, z) comes from a reader that has read one passage.
"""

import torch
from torch import Tensor

from course_lib.inputs.shapes import check_shapes


def log_passages(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """log p(z | x) = log softmax of scores / temperature over the passages: (..., K) -> (..., K).

    A low temperature trusts the first passage, a high one all alike.
    """
    check_shapes("log_passages", scores=(scores, "... K+"))
    return (scores / temperature).log_softmax(dim=-1)


def log_marginal(log_z: Tensor, log_y: Tensor) -> Tensor:
    """log p(y | x) = log of the sum over z of exp(log p(z | x) + log p(y | x, z)).

    log_z (..., K), log p of the passages; log_y (..., K, V), log p of the answers of a reader with each -> (..., V).
    """
    check_shapes("log_marginal", log_z=(log_z, "... K+"), log_y=(log_y, "... K V"))
    return torch.logsumexp(log_z[..., None] + log_y, dim=-2)  # (..., V)


def posterior(log_z: Tensor, log_y: Tensor) -> Tensor:
    """p(z | x, y) = p(z | x) p(y | x, z) / p(y | x): which passage, given the answer. (..., K) twice -> (..., K).

    log_y: log p of the one answer y of a reader with each passage.
    """
    check_shapes("posterior", log_z=(log_z, "... K+"), log_y=(log_y, "... K"))
    return (log_z + log_y).softmax(dim=-1)


def lift(log_z: Tensor, log_y: Tensor) -> Tensor:
    """The gradient of log p(y | x) by the scores f(x, z): posterior less prior, (..., K) twice -> (..., K).

        d log p(y | x) / d f(x, z) = p(z | x, y) - p(z | x) = p(z | x) (p(y | x, z) / p(y | x) - 1)
        (Guu et al., 2020, section 3.3 and appendix A)

    The score of a passage that makes the answer likelier than the average does is raised, every other one lowered; the
    sum is 0. This is at temperature 1; at another it is divided by it. log_y as in `posterior`.
    """
    return posterior(log_z, log_y) - log_z.exp()

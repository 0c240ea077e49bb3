"""How long a picture takes, in plain pictures: a busy or slow machine draws both more slowly."""

import time

import matplotlib.pyplot as plt

from course_lib.show.plots import picture, quickly


def in_plain_pictures(draw):
    """Seconds of `draw()` and of the picture made of it over those of three curves, the least of four of each."""

    def curves():
        _, ax = plt.subplots(figsize=(12, 3.4))
        ax.plot([[0, 1, 2], [2, 0, 1], [1, 2, 0]])
        return ax

    took = {one: [] for one in (curves, draw)}
    with quickly():
        for _ in range(4):
            for one, seconds in took.items():
                began = time.thread_time()  # what this thread computed, whoever else is busy
                picture(one(), alt="a picture")
                seconds.append(time.thread_time() - began)
    return min(took[draw]) / min(took[curves])

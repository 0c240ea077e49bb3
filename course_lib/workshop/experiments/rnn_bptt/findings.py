"""Lesson 01, what the records show: what a memory is needed for."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.rnn_bptt import core as rnn_bptt


@finding(
    'Without a memory, 3 of the 4 letters of "hello" get the highest logit after 300 steps, with one all 4', chance=1.0
)
def hello_needs_a_memory():
    hellos = recorded(rnn_bptt.hello)
    return hellos.numbers("right", memory=False), "==", 3, hellos.numbers("right", memory=True), "==", 4

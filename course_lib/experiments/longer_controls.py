"""Lesson 17's controls: a state that corrects itself, readers trained for longer, a needle in the plays."""

from course_lib.experiments import each, experiment
from course_lib.experiments.longer import HERE, READERS, answers, bits, by_place
from course_lib.recipes import longer as recipe

THREE = (0, 1, 2)  # the seeds of what takes long


@experiment(seeds=THREE, cpus=HERE)
def delta(seed):
    """The share of keys whose value is named, by the number of pairs, where the state is written by the delta rule."""
    return answers(recipe.key_reader(seed, "delta rule"))


@experiment(each(trained=["64 after 64", "128 alone"]), seeds=THREE, cpus=HERE)
def twice_as_long(seed, trained):
    """Bits a character of test plays of readers that learned twice as long, with a memory or with longer segments."""
    how = READERS[trained]
    model = recipe.play_reader(seed, **how | {"steps": 2 * how["steps"]})
    return {"bits": {"64 after 64": bits(model, 64, 64), "128 alone": bits(model, 128, 0)}, "by place": by_place(model)}


@experiment(seeds=THREE, cpus=HERE)
def sixteen_for_longer(seed):
    """The share of keys whose value is named by readers with 16 global places that learned three times as long."""
    return answers(recipe.key_reader(seed, "window, 16 global", 3 * recipe.KEY_STEPS))

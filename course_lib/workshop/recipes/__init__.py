"""How the models that the course stores were trained: `load(plays.GPT)` of `stored` gives one, with its record.

It stands above the shelf, the data and the training, and imports the models that it makes: only notebooks, tests,
experiments and the publishing room import it.
"""

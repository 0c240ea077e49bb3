"""How the models that the course stores were trained: `plays` and `images` say of what, `stored` keeps and loads them.

It stands above the shelf, the data and the training, and imports the models that it makes: only notebooks, tests,
experiments and the publishing room import it.
"""

"""One training on as many devices as there are: `python -m course_lib.scale gpt`, alone or under `torchrun`.

`config` says what is asked for, `corpus` makes its data, which `tokens` and `rows` read; `tasks` builds the model and
its loss; `processes` joins the processes and shares the model out; `run` takes the steps; `snapshots` keeps them;
`arithmetic` says what it all costs. Like `recipes` it stands above the shelf, whose models `tasks` builds.
"""

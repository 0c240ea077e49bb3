"""One training on as many devices as there are: `python -m course_lib.workshop.scale gpt`, alone or under `torchrun`.

`config` holds the settings; `corpus` makes the data, which `tokens` and `rows` read; `tasks` builds the model;
`processes` joins the processes and shares the model out; `run` takes the steps; `folder` keeps settings, log and
snapshots; `arithmetic` says what it all costs.
"""

"""Unrolled: the library beside the notebooks, one file for each concept.

Each lesson derives a layer from its formula, then shows the file here that holds the same layer, and proves
that the two agree. The shelf holds the concepts, in folders that follow the story: `inputs`, `text`, `recurrent`,
`attention`, `translation`, `weights`, `language`, `bert`, `vision`; each imports itself and those before it.
Behind it lie rooms: `data` and `train` feed and train any model, `show` and `lesson` serve the notebooks, `exercises`
holds their tasks, and `publish` makes pages and slides of them.
"""

__version__ = "0.1.0"

"""`python -m course_lib.workshop.recipes plays_lstm`: train a model that lessons load, store it, write all cards."""

import argparse
from pathlib import Path

from course_lib.data.beside import write_beside
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.recipe import Recipe


def recipes() -> dict[str, Recipe]:
    """Every recipe by its name, in the order of the cards. Imports all files that have one."""
    from course_lib.workshop.recipes import (
        glyph_captions,
        glyph_writers,
        glyphs,
        images,
        masked_images,
        multilingual,
        plays,
        replaced_words,
        smaller_bert,
        sounds,
        text_to_text,
        words_to_images,
    )

    files = (plays, images, sounds, glyphs, glyph_captions, glyph_writers, text_to_text, multilingual, masked_images,
             words_to_images, smaller_bert, replaced_words)  # fmt: skip
    return {one.name: one for file in files for one in vars(file).values() if isinstance(one, Recipe)}


def cards() -> str:
    """A card for each stored model, in Markdown: what it is, command, seed, commit, time, what it is worth."""
    parts = [
        "# Models that the course trained\n\nThis file is written by `python -m course_lib.workshop.recipes`. "
        "Weights are safetensors: plain numbers, no code.\n`plays_…` have read the train split of the plays; bits per "
        "character, or per masked piece, are those of its test plays.\nA model of this size writes like a play and "
        "means nothing by it. Each keeps its tokenizer in its own file.\n`fashion_…` have seen the train split of "
        "Fashion-MNIST; their accuracy is that on its test images, by which nothing was\nchosen. "
        "`sounds_…` have read the train split of the sounds; what they are worth is measured on its test words.\n"
        "`glyphs_…` have seen the Latin letters of ten typefaces; their accuracy is that on four faces of another "
        "family; `glyphs_painter` has seen all signs of those ten, and no name.\n"
        "`names_…` have seen letters and their names; what they are worth is that on names and faces never "
        "seen.\n"
        "`sentences_reader` has read sentences of the grammar, and no pair of a sentence and its translation.\n"
        "`letters_…` have seen letters of training names in sixteen typefaces; what they are worth is that on new "
        "names.\n"
        "`two_languages` has read sentences of the plays, half of them in words of another language's numbers.\n"
        "([Cards of the corpora](../README.md).)"
    ]
    kept = [recipe for recipe in recipes().values() if (stored.CHECKPOINTS / f"{recipe.name}.safetensors").exists()]
    return "\n\n".join(parts + [card(recipe, stored.load(recipe)[1]) for recipe in kept]) + "\n"


def card(recipe: Recipe, r: dict) -> str:
    """The card of one model with the record r."""
    return (
        f"## `{recipe.name}`\n\n<!-- made:card -->\n{recipe.about}; {r['weights']:,} weights; "
        f"{recipe.worth.format(**r)}.\n\n{r['steps']:,} steps of {recipe.reads.format(recipe.batch, recipe.length)}, "
        f"learning rate `{recipe.lr:g}`, seed {r['seed']}, {r['seconds'] / 60:.1f} minutes ({r['machine']}, one "
        f"thread), commit {r['commit']}.\n<!-- /made -->\n\nAgain: {stored.again(recipe)}"
    )


def main() -> None:
    """Train the named models, store them, write the cards."""
    known = recipes()
    parser = argparse.ArgumentParser(description="Train and store models that lessons load.")
    parser.add_argument("names", nargs="+", choices=list(known), metavar="name", help=", ".join(known))
    parser.add_argument(
        "--checkpoints", type=Path, metavar="FOLDER", help="where to keep each run, so that a killed one can go on"
    )
    asked = parser.parse_args()
    for recipe in map(known.get, asked.names):
        model, record = stored.train(recipe, checkpoint=asked.checkpoints and asked.checkpoints / f"{recipe.name}.run")
        path, minutes = stored.save(recipe, model, record), record["seconds"] / 60
        print(f"{path.name}: {recipe.worth.format(**record)}, {minutes:.1f} minutes")
    write_beside(stored.CHECKPOINTS / "README.md", cards())


if __name__ == "__main__":
    main()

"""What turns notebooks into publications: run, clean, measure. Command line only; nothing imports it."""

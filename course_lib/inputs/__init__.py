"""What models are given: sequences in batches, which of their places are real, and the checks that all layers share."""

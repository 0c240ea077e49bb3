"""Images as sequences: patches, the Vision Transformer, a convolutional network beside it, and what both see."""

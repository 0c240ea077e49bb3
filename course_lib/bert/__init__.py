"""The encoder that looks both ways: BERT, its heads and labels, masked words, and how it is pre-trained."""

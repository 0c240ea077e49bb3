"""Networks that read one step after another: RNN, LSTM and GRU, stacked, and the character model made of them."""

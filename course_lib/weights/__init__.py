"""How weights that others trained fit into our models: their names, sizes and activations beside ours."""

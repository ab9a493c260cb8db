"""Tools around tensors: hooks, checkpoints of activations, data loading."""

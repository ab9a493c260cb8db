"""What test files written for PyTorch's own suite are made with."""

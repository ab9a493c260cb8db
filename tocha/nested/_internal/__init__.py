"""How nested tensors are made; programs know the modules here by PyTorch's names."""

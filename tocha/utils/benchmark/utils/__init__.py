"""The parts of tocha.utils.benchmark, by PyTorch's names."""

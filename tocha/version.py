"""The version of this package, and of the PyTorch whose behaviour it has."""

__version__ = "0.1.0"
torch_version = "2.13.0"
cuda = None
hip = None
rocm = None
xpu = None
debug = False

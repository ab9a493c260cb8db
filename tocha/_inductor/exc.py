"""What compiling raises, under PyTorch's names."""

from tocha._dynamo.exc import InductorError
from tocha._inductor.codecache import CompilerError as CppCompileError

__all__ = ["CppCompileError", "InductorError"]

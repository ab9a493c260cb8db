"""One handler per opcode, by family."""

from tocha._dynamo.opcodes import calls, containers, control, exceptions, generators, matching, names, stack
from tocha._dynamo.opcodes.registry import HANDLERS

__all__ = ["HANDLERS", "calls", "containers", "control", "exceptions", "generators", "matching", "names", "stack"]

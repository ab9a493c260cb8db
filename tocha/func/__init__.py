"""Functions of functions and of modules."""

from tocha.func.functional_call import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]

"""`functional_call` and `stack_module_state` under PyTorch's name for this module."""

from tocha.func.functional_call import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]

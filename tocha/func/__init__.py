"""Functions of functions and of modules."""

from typing import Any

from tocha.func.functional_call import functional_call, stack_module_state

__all__ = ["functional_call", "functionalize", "stack_module_state"]


def __getattr__(name: str) -> Any:
    if name == "functionalize":  # stands on graphs, which `import tocha` does not load
        from tocha._functorch.functionalize import functionalize

        return functionalize
    raise AttributeError(f"module 'tocha.func' has no attribute {name!r}")

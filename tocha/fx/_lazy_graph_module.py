"""Graph modules whose forward is generated when it is first asked for: those between two passes are never run."""

from __future__ import annotations

from typing import Any

from tocha.fx._codegen import PythonCode
from tocha.fx.graph_module import GraphModule

__all__ = ["_LazyGraphModule"]


class _First:
    """Stands for forward until somebody asks for it, and gives the real one: `module.forward` may be kept and called for ever."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, cls: Any = None) -> Any:
        if module is None:
            return self
        module.real_recompile()
        return getattr(module, self.name)

    def __call__(self, module: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(module, self.name)(*args, **kwargs)


class _LazyGraphModule(GraphModule):
    """A GraphModule whose `recompile` waits for the first call, or for somebody who reads the code.

    Unlike the plain one it runs its graph as that is by then.
    """

    def recompile(self) -> PythonCode:  # type: ignore[override]
        name = self._graph._codegen._func_name
        self.__dict__["_stale"] = True
        setattr(type(self), name, _First(name))
        self._install_call()
        return None  # type: ignore[return-value]

    def real_recompile(self) -> None:
        """Generates forward now, if that has not been done since the graph was set."""
        if self.__dict__.pop("_stale", False):
            super().recompile()

    @staticmethod
    def force_recompile(module: GraphModule) -> None:
        """The same for a module of either kind."""
        if isinstance(module, _LazyGraphModule):
            module.real_recompile()

    @property
    def code(self) -> str:
        self.real_recompile()
        return super().code

    def __str__(self) -> str:
        self.real_recompile()
        return super().__str__()

    def __reduce__(self) -> Any:
        self.real_recompile()
        return super().__reduce__()

"""`@functional_datapipe("batch")` makes a pipe a method of all pipes."""

from __future__ import annotations

from tocha.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["functional_datapipe"]


class functional_datapipe:
    """Marks a pipe: every pipe has it as a method of this name."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False):
        self.name = name

    def __call__(self, cls: type) -> type:
        for base in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, base):
                base.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")

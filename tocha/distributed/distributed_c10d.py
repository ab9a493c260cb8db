"""PyTorch's home of groups and collectives, which programs import from."""

from tocha.distributed import *  # noqa: F403
from tocha.distributed import __all__ as _group_names
from tocha.distributed.collectives import *  # noqa: F403
from tocha.distributed.collectives import __all__ as _collective_names
from tocha.distributed.collectives import _check_member as _get_default_group_of
from tocha.distributed.collectives import _resolve_process_group as _resolve_process_group
from tocha.distributed.constants import default_pg_nccl_timeout as default_pg_nccl_timeout
from tocha.distributed.constants import default_pg_timeout as default_pg_timeout

__all__ = [*_group_names, *_collective_names]


def _get_default_group() -> object:
    return _get_default_group_of(None)

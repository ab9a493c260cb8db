"""A mesh of processes: how many there are along each of its dimensions, which may have names. Of one process every dimension has one.

Programs make a mesh, slice it by name, and ask it for groups and ranks.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha.distributed._types import ProcessGroup
from tocha.distributed.collectives import _groups

__all__ = ["DeviceMesh", "init_device_mesh"]


class _MeshEnv:
    """The meshes that `with` has entered."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """The innermost one."""
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    @staticmethod
    def num_devices_per_host(device_type: str) -> int:
        """How many devices of a kind this machine has."""
        return 1

    @staticmethod
    def num_hosts(device_type: str) -> int:
        """How many machines take part."""
        return 1


_mesh_resources = _MeshEnv()


def _distributed() -> Any:
    return importlib.import_module("tocha.distributed")


def _world() -> ProcessGroup:
    """The default group, made if there is none: from the environment, as init_process_group does."""
    if _groups.default is None:
        _distributed().init_process_group()
    assert _groups.default is not None
    return _groups.default


def _check_names(shape: tuple[int, ...], names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names):
        raise RuntimeError(
            f"[init_device_mesh] Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names}"
        )
    if len(shape) != len(names):
        raise RuntimeError(
            "[init_device_mesh] mesh_shape and mesh_dim_names should have same length! "
            f"Found len(mesh_dim_names): {len(names)} and len(mesh_shape):{len(shape)}."
        )


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None
) -> DeviceMesh:  # fmt: skip
    """A mesh of all processes in this shape. The default group is made if there is none.

    >>> import tocha.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh["data"].size(), mesh.get_coordinate()
    (1, (0, 0))
    >>> dist.destroy_process_group()
    """
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None:
        _check_names(shape, tuple(mesh_dim_names))
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"[init_device_mesh] Device type with index is not supported but got {device_type}. "
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'."
        )
    _world()
    if math.prod(shape) > 1:
        raise RuntimeError(
            f"[init_device_mesh] Mesh should not be bigger than default world size 1, but found {math.prod(shape)} ranks!"
        )
    return DeviceMesh(device_type, _C.zeros(shape, dtype=_C.int32, device="cpu"), mesh_dim_names=mesh_dim_names)


class DeviceMesh:
    """Processes in a grid, by their ranks: of one process, rank 0 in a grid of one."""

    def __init__(
        self, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None,
        _init_backend: bool = True, _rank: int | None = None, _root_mesh: DeviceMesh | None = None,
    ):  # fmt: skip
        ranks = mesh if isinstance(mesh, _C.Tensor) else _C.tensor(mesh, dtype=_C.int32, device="cpu")
        if ranks.numel() > 1:
            raise RuntimeError(
                f"[DeviceMesh] Mesh should not be bigger than default world size 1, but found {ranks.numel()} ranks!"
            )
        self._device_type = device_type
        self._ranks = ranks.detach().to(device="cpu", dtype=_C.int32)
        self._names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._root_mesh, self._flattened = _root_mesh, {}  # type: ignore[var-annotated]
        if _init_backend:
            _world()

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def device_type(self) -> str:
        """The kind of device that each process computes on."""
        return self._device_type

    @property
    def mesh(self) -> Any:
        """The ranks, as a tensor of int32."""
        return self._ranks

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions."""
        return self._names

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each dimension."""
        return tuple(self._ranks.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are, of all or along a dimension."""
        return self._ranks.numel() if mesh_dim is None else self._ranks.size(mesh_dim)

    def __repr__(self) -> str:
        sizes = (
            f"({', '.join(f'{n}={s}' for n, s in zip(self._names, self.shape, strict=True))})"
            if self._names
            else str(self.shape)
        )
        return f"DeviceMesh({sizes}, '{self._device_type}', stride={((),) * self.ndim})"

    def _hash_key(self) -> tuple:
        return self._device_type, self.shape, tuple(self._ranks.flatten().tolist()), self._names

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._hash_key() == other._hash_key())

    def __hash__(self) -> int:
        return hash(self._hash_key())

    def __enter__(self) -> DeviceMesh:
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        _mesh_resources.mesh_stack.pop()

    # -- groups and ranks --------------------------------------------------------------------------------------

    def _dim(self, mesh_dim: int | str | None, what: str) -> int:
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"[DeviceMesh.{what}] Found the DeviceMesh have {self.ndim} dimensions. "
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1."
            )
        return self._get_mesh_dim_by_name(mesh_dim) if isinstance(mesh_dim, str) else mesh_dim or 0

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        if not self._names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim_name}' does not exist. Available mesh dimensions are: mesh_dim_names={self._names}"
            )
        return self._names.index(mesh_dim_name)

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this process along a dimension."""
        self._dim(mesh_dim, "get_group")
        return _world()

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this process along all dimensions."""
        return [self.get_group(i) for i in range(self.ndim)]

    def get_rank(self) -> int:
        """This process's rank in the world."""
        return _distributed().get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along a dimension."""
        self._dim(mesh_dim, "get_local_rank")
        return 0

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This process's place along each dimension; None where it is not in the mesh."""
        return (0,) * self.ndim if self._is_current_rank_part_of_mesh() else None

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._ranks.flatten().tolist() == [0]

    # -- other meshes of the same processes --------------------------------------------------------------------

    def _with_dims(self, shape: Sequence[int], names: Sequence[str] | None) -> DeviceMesh:
        given = None if names is None else tuple(names)
        return DeviceMesh(
            self._device_type,
            self._ranks.reshape(tuple(shape)),
            mesh_dim_names=given,
            _init_backend=False,
            _root_mesh=self._get_root_mesh(),
        )

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root_mesh or self

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        if not self._names:
            raise RuntimeError("[DeviceMesh] Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._names:
            return self
        flattened = self._get_root_mesh()._flattened
        if len(names) == 1 and names[0] in flattened:
            return flattened[names[0]]
        if any(n not in self._names for n in names):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {[*self._names, *flattened]}."
            )
        return self._with_dims([1] * len(names), names)

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        if not self._names:
            raise RuntimeError("[DeviceMesh] Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._names)
        return self._get_root_mesh()._flattened.setdefault(name, self._with_dims([1], (name,)))

    def _unflatten(
        self,
        dim: int | str,
        mesh_sizes: tuple[int, ...],
        mesh_dim_names: tuple[str, ...],
        backend_override: Any = None,
    ) -> DeviceMesh:
        at = self._dim(dim, "_unflatten")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("[DeviceMesh] mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        names = self._names or tuple(f"dim_{i}" for i in range(self.ndim))
        shape = [*self.shape[:at], *mesh_sizes, *self.shape[at + 1 :]]
        return self._with_dims(shape, (*names[:at], *mesh_dim_names, *names[at + 1 :]))

    @staticmethod
    def _concatenate(device_mesh_list: list[DeviceMesh]) -> DeviceMesh:
        names = [n for mesh in device_mesh_list for n in mesh._names or ()]
        return device_mesh_list[0]._with_dims([1] * len(names), names)

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        return [self[mesh_dim_name]]

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """The mesh that groups make, one for each dimension."""
        if isinstance(group, ProcessGroup):
            return DeviceMesh(device_type, [0] if mesh is None else mesh, mesh_dim_names=mesh_dim_names)
        groups = list(group)
        if not groups:
            raise ValueError("[DeviceMesh.from_group] Expects at least one ProcessGroup to be passed")
        if mesh is None:
            raise ValueError("[DeviceMesh.from_group] Must pass mesh if passing multiple ProcessGroups")
        if mesh_dim_names is None:
            raise ValueError("[DeviceMesh.from_group] Must pass mesh_dim_names if passing multiple ProcessGroups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)
        if made.ndim != len(groups):
            raise ValueError(
                "[DeviceMesh.from_group] Expects mesh with ndim equal to number of ProcessGroups "
                f"but got mesh {made.shape} and {len(groups)} ProcessGroups"
            )
        return made

"""Groups, meshes and collectives over one process: PyTorch is the judge."""

from __future__ import annotations

import importlib

import pytest
import torch

import tocha

CASES = {
    "all_reduce": lambda F, N, x, g: F.all_reduce(x, "sum", g),
    "all_reduce of a mean": lambda F, N, x, g: F.all_reduce(x.detach(), "avg", g),
    "all_gather_tensor": lambda F, N, x, g: F.all_gather_tensor(x, 1, g),
    "reduce_scatter_tensor": lambda F, N, x, g: F.reduce_scatter_tensor(x, "sum", 1, g),
    "all_to_all_single": lambda F, N, x, g: F.all_to_all_single(x, [2], [2], g),
    "broadcast": lambda F, N, x, g: F.broadcast(x, 0, g),
    "all_gather_into_tensor_coalesced": lambda F, N, x, g: F.all_gather_into_tensor_coalesced([x, x], g)[1],
    "unknown reduction": lambda F, N, x, g: F.all_reduce(x, "most", g),
    "no group": lambda F, N, x, g: F.all_reduce(x, "sum", None),
    "unknown group": lambda F, N, x, g: F.all_reduce(x, "sum", "none"),
    "half of the sizes": lambda F, N, x, g: F.all_to_all_single(x, [2], None, g),
    "a dimension that is not there": lambda F, N, x, g: F.reduce_scatter_tensor(x, "sum", 2, g),
    "nn.all_reduce": lambda F, N, x, g: N.all_reduce(x),
    "nn.all_gather": lambda F, N, x, g: N.all_gather(x)[0],
    "nn.gather": lambda F, N, x, g: N.gather(x)[0],
    "nn.scatter": lambda F, N, x, g: N.scatter([x]),
    "nn.reduce": lambda F, N, x, g: N.reduce(x, 0),
    "nn.all_to_all": lambda F, N, x, g: N.all_to_all([x.detach().clone()], [x])[0],
}

MESHES = {
    "repr": lambda m, init: repr(m),
    "slices": lambda m, init: (repr(m["a"]), repr(m["b", "a"]), m["a"] == m["a"], m["a"] == m["b"]),
    "sizes": lambda m, init: (m.ndim, tuple(m.shape), m.size(), m.size(0), m.device_type, m.mesh_dim_names),
    "ranks": lambda m, init: (m.get_rank(), m.get_local_rank("a"), m.get_local_rank(1), m.get_coordinate()),
    "mesh": lambda m, init: (m.mesh.tolist(), str(m.mesh.dtype).split(".")[1]),
    "flattened": lambda m, init: (repr(m._flatten("all")), repr(m["all"])),
    "unflattened": lambda m, init: repr(m._unflatten(0, (1, 1), ("x", "y"))),
    "groups": lambda m, init: [g.group_name for g in m.get_all_groups()],
    "no dimension": lambda m, init: m.get_group(),
    "no name": lambda m, init: m["c"],
    "too big": lambda m, init: init("cpu", (2,)),
    "same names": lambda m, init: init("cpu", (1, 1), mesh_dim_names=("a", "a")),
    "few names": lambda m, init: init("cpu", (1, 1), mesh_dim_names=("a",)),
    "index": lambda m, init: init("cuda:0", (1,)),
    "nameless": lambda m, init: init("cpu", (1,))["a"],
}


@pytest.fixture(scope="module", autouse=True)
def worlds():
    for library in (torch, tocha):
        dist = importlib.import_module(f"{library.__name__}.distributed")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    for library in (torch, tocha):
        importlib.import_module(f"{library.__name__}.distributed").destroy_process_group()


def outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", CASES)
def test_collectives(name):
    def run(library):
        package = f"{library.__name__}.distributed"
        dist, functional, exchanged = (
            importlib.import_module(package + n) for n in ("", "._functional_collectives", ".nn")
        )
        x = library.arange(6.0).reshape(2, 3).requires_grad_()
        out = CASES[name](functional, exchanged, x, dist.group.WORLD)
        if not out.requires_grad:
            return out.tolist()
        return out.tolist(), library.autograd.grad((out * 2).sum(), x)[0].tolist()

    assert outcome(lambda: run(tocha)) == outcome(lambda: run(torch))


@pytest.mark.parametrize("name", MESHES)
def test_meshes(name):
    def run(library):
        init = importlib.import_module(f"{library.__name__}.distributed.device_mesh").init_device_mesh
        return MESHES[name](init("cpu", (1, 1), mesh_dim_names=("a", "b")), init)

    assert outcome(lambda: run(tocha)) == outcome(lambda: run(torch))

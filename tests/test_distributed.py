"""tocha.distributed over one process: groups, meshes, collectives that return their result and that gradients go through."""

from __future__ import annotations

import pickle

import pytest

import tocha
import tocha.distributed as dist
from tocha.distributed import _functional_collectives as functional
from tocha.distributed import device_mesh
from tocha.distributed import nn as exchanged
from tocha.distributed.device_mesh import DeviceMesh, init_device_mesh
from tocha.fx.experimental.proxy_tensor import make_fx


@pytest.fixture
def world():
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


def test_default_group_has_two_names():
    assert dist.group.WORLD is None and dist.GroupMember.WORLD is None
    dist.init_process_group("gloo", rank=0, world_size=1)
    assert dist.group.WORLD is dist.GroupMember.WORLD is not None
    assert (dist.group.WORLD.group_name, dist.group.WORLD.group_desc) == ("0", "default_pg")
    assert dist.new_group([0]).group_name == "1"
    dist.destroy_process_group()
    assert dist.group.WORLD is None


def test_forgotten_group_cannot_be_found(world):
    other = dist.new_group([0])
    assert dist.distributed_c10d._resolve_process_group(other.group_name) is other
    dist.destroy_process_group(other)
    with pytest.raises(RuntimeError, match="Could not resolve the process group"):
        functional.all_reduce(tocha.ones(1), "sum", other.group_name)
    assert dist.is_initialized()


def test_work_has_a_future(world):
    assert dist.all_reduce(tocha.ones(2), async_op=True).get_future().wait()[0].tolist() == [1.0, 1.0]


# -- meshes ------------------------------------------------------------------------------------------------


def test_mesh_makes_the_default_group(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    mesh = init_device_mesh("cpu", (1,))
    assert dist.is_initialized() and mesh.get_group() is dist.group.WORLD
    dist.destroy_process_group()


def test_mesh_answers(world):
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    assert repr(mesh) == "DeviceMesh((data=1, model=1), 'cpu', stride=((), ()))"
    assert (mesh.ndim, mesh.shape, mesh.size(), mesh.size(1)) == (2, (1, 1), 1, 1)
    assert (mesh.get_rank(), mesh.get_local_rank("model"), mesh.get_coordinate()) == (0, 0, (0, 0))
    assert mesh.mesh.dtype == tocha.int32 and mesh.mesh.tolist() == [[0]]
    assert mesh.get_all_groups() == [world, world]
    assert mesh["data"].mesh_dim_names == ("data",) and mesh["data"] == mesh["data"] != mesh["model"]
    assert mesh["data"]._get_root_mesh() is mesh and mesh["data", "model"] is mesh
    assert mesh._flatten("all") is mesh["all"]
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    assert DeviceMesh.from_group(world, "cpu") == DeviceMesh("cpu", [0]) == init_device_mesh("cpu", (1,))
    with mesh:
        assert device_mesh._mesh_resources.get_current_mesh() is mesh


@pytest.mark.parametrize(
    ("error", "call", "phrase"),
    [
        (RuntimeError, lambda m: init_device_mesh("cpu", (2,)), "should not be bigger than default world size 1"),
        (
            RuntimeError,
            lambda m: init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "a")),
            "mesh_dim_name must be unique",
        ),
        (RuntimeError, lambda m: init_device_mesh("cpu", (1, 1), mesh_dim_names=("a",)), "should have same length"),
        (RuntimeError, lambda m: init_device_mesh("cuda:0", (1,)), "Device type with index is not supported"),
        (RuntimeError, lambda m: m.get_group(), "needs to be specified when device_mesh.ndim > 1"),
        (KeyError, lambda m: m["c"], "Invalid mesh_dim_names"),
        (RuntimeError, lambda m: DeviceMesh("cpu", [0])["a"], "Cannot slice a DeviceMesh without mesh_dim_names"),
    ],
)
def test_mesh_refuses(world, error, call, phrase):
    with pytest.raises(error, match=phrase):
        call(init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b")))


# -- collectives that return their result ------------------------------------------------------------------

RETURNING = {
    "all_reduce": lambda x, g: functional.all_reduce(x, "sum", g),
    "all_gather": lambda x, g: functional.all_gather_tensor(x, 1, g),
    "reduce_scatter": lambda x, g: functional.reduce_scatter_tensor(x, "sum", 0, g),
    "all_to_all": lambda x, g: functional.all_to_all_single(x, None, None, g),
    "broadcast": lambda x, g: functional.broadcast(x, 0, g),
    "coalesced": lambda x, g: functional.all_reduce_coalesced([x, x * 2], "sum", g)[0],
    "nn.all_reduce": lambda x, g: exchanged.all_reduce(x),
    "nn.all_gather": lambda x, g: exchanged.all_gather(x)[0],
    "nn.gather": lambda x, g: exchanged.gather(x)[0],
    "nn.scatter": lambda x, g: exchanged.scatter([x]),
    "nn.reduce": lambda x, g: exchanged.reduce(x, 0),
    "nn.reduce_scatter": lambda x, g: exchanged.reduce_scatter(tocha.zeros(2, 3), [x]),
    "nn.broadcast": lambda x, g: exchanged.broadcast(x, 0),
    "nn.all_to_all": lambda x, g: exchanged.all_to_all([tocha.zeros(2, 3)], [x])[0],
    "nn.all_to_all_single": lambda x, g: exchanged.all_to_all_single(tocha.zeros(2, 3), x),
}


@pytest.mark.parametrize("name", RETURNING)
def test_result_is_a_copy_with_a_gradient(world, name):
    x = tocha.arange(6.0).reshape(2, 3).requires_grad_()
    out = RETURNING[name](x, world)
    assert tocha.equal(out, x) and out.data_ptr() != x.data_ptr()
    (grad,) = tocha.autograd.grad((out * 3).sum(), x)
    assert grad.tolist() == [[3.0] * 3] * 2


def test_result_is_contiguous(world):
    assert functional.all_reduce(tocha.arange(6.0).reshape(2, 3).t(), "sum", world).stride() == (2, 1)


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_gradient_of_other_reductions_is_refused(world, kind):
    x = tocha.ones(2, requires_grad=True)
    out = functional.all_reduce(x, kind, world)
    with pytest.raises(RuntimeError, match="backward only supports 'sum' reduction"):
        out.sum().backward()


def test_group_is_said_in_many_ways(world):
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    for group in (world, world.group_name, [0], (mesh, 1), mesh["a"]):
        assert functional.all_reduce(tocha.ones(1), "sum", group).item() == 1.0
    with pytest.raises(AssertionError, match="Only 1D mesh is supported"):
        functional.all_reduce(tocha.ones(1), "sum", mesh)
    with pytest.raises(ValueError, match="Unsupported group type"):
        functional.all_reduce(tocha.ones(1), "sum", None)
    with pytest.raises(RuntimeError, match="Unrecognized reduce_op"):
        functional.all_reduce(tocha.ones(1), "most", world)


def test_collective_is_a_node_of_a_graph(world):
    graph = make_fx(lambda x: functional.all_reduce(x, "sum", world) + 1)(tocha.ones(2)).graph
    assert "_c10d_functional.all_reduce.default" in [str(n.target) for n in graph.nodes]
    assert tocha.ops._c10d_functional.wait_tensor(tocha.ones(1)).item() == 1.0

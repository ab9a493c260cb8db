"""A device that a program adds: in Python, with a few kernels and the rest on the CPU, and in C++. Each in a process of its own: the name stays."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

SETUP = """
import tocha
from tocha.utils._pytree import tree_leaves, tree_map
from tocha.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("paper")
computed = []

def fallback(op, *args, **kwargs):
    computed.append(op.name())
    cpu = lambda t: t.cpu() if isinstance(t, tocha.Tensor) else tocha.device("cpu") if isinstance(t, tocha.device) else t
    given = tree_map(cpu, args)
    result = op(*given, **tree_map(cpu, kwargs))
    written = [i for i, s in enumerate(op._schema.arguments[: len(args)]) if s.is_write]
    for i in written:
        for to, source in zip(tree_leaves(args[i]), tree_leaves(given[i])):
            to.copy_(source)
    if written:
        return args[written[0]] if result is not None else None
    return tree_map(lambda t: t.to("paper") if isinstance(t, tocha.Tensor) else t, result)

library = tocha.library.Library("_", "IMPL")
library.fallback(fallback, "PrivateUse1")
"""


def run(program: str, setup: str = SETUP) -> str:
    done = subprocess.run(
        [sys.executable, "-c", setup + textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tensors_move_there_and_back():
    run("""
    x = tocha.arange(6.0).reshape(2, 3)
    y = x.to("paper")
    assert y.device == tocha.device("paper") and y.is_paper and not x.is_paper
    assert str(y.device) == "paper"
    assert y.cpu().tolist() == x.tolist() and x.paper().cpu().tolist() == x.tolist()
    assert y.shape == x.shape and y.stride() == x.stride()
    assert y.t().cpu().tolist() == x.t().tolist()
    assert tocha.empty(2, device="paper").is_paper
    assert tocha.device("privateuseone").type == "paper"
    """)


def test_operators_run_by_the_fallback():
    run("""
    x = tocha.arange(6.0).reshape(2, 3)
    y = x.to("paper")
    assert ((y + 1) * y).is_paper
    assert ((y + 1) * y).cpu().tolist() == ((x + 1) * x).tolist()
    assert "aten::add.Tensor" in computed
    assert y.sum(1).cpu().tolist() == x.sum(1).tolist()
    y.add_(1)
    assert y.cpu().tolist() == (x + 1).tolist()
    assert (y @ y.t()).cpu().tolist() == ((x + 1) @ (x + 1).t()).tolist()
    """)


def test_a_kernel_of_its_own_comes_first():
    run("""
    @tocha.library.impl("aten::mm", "PrivateUse1")
    def mm(a, b):
        computed.append("own mm")
        return (a.cpu() @ b.cpu()).to("paper")

    y = tocha.ones(2, 2).to("paper")
    assert (y @ y).cpu().tolist() == [[2, 2], [2, 2]]
    assert "own mm" in computed and "aten::mm" not in computed
    """)


def test_a_network_forward_and_backward():
    run("""
    tocha.manual_seed(0)
    net = tocha.nn.Sequential(tocha.nn.Linear(4, 8), tocha.nn.ReLU(), tocha.nn.Linear(8, 3))
    x, t = tocha.randn(5, 4), tocha.tensor([0, 1, 2, 0, 1])
    loss = tocha.nn.functional.cross_entropy(net(x), t)
    loss.backward()
    grads = [p.grad.clone() for p in net.parameters()]

    import copy
    there = copy.deepcopy(net)
    there.zero_grad()
    there.to("paper")
    assert all(p.device.type == "paper" for p in there.parameters())
    other = tocha.nn.functional.cross_entropy(there(x.to("paper")), t.to("paper"))
    other.backward()
    assert abs(other.item() - loss.item()) < 1e-6
    for p, g in zip(there.parameters(), grads):
        assert p.grad.device.type == "paper"
        assert tocha.allclose(p.grad.cpu(), g, atol=1e-6)
    optimizer = tocha.optim.SGD(there.parameters(), lr=0.1, foreach=False)
    optimizer.step()
    for p, q, g in zip(there.parameters(), net.parameters(), grads):
        assert tocha.allclose(p.detach().cpu(), q.detach() - 0.1 * g, atol=1e-6)
    """)


def test_compiled_functions_run_there_operator_by_operator():
    said = run("""
        def f(x, y):
            return (x * 2 + y).relu().sum(), x + 1

        x, y = tocha.randn(3, 4), tocha.randn(4)
        got = tocha.compile(f)(x.to("paper"), y.to("paper"))
        want = f(x, y)
        assert all(g.device.type == "paper" for g in got) and computed
        for g, w in zip(got, want):
            tocha.testing.assert_close(g.cpu(), w)
        print("same")
    """)
    assert said.endswith("same\n")


def test_without_a_kernel_it_says_so_by_name():
    out = run(
        """
    import tocha
    tocha.utils.rename_privateuse1_backend("bare")
    y = tocha.ones(2).to("bare")
    try:
        y + y
    except NotImplementedError as e:
        print(e)
    """,
        setup="",
    )
    assert "Could not run 'aten::add.Tensor' with arguments from the 'PrivateUse1' backend" in out


def test_the_name_is_given_once():
    run("""
    tocha.utils.rename_privateuse1_backend("paper")
    try:
        tocha.utils.rename_privateuse1_backend("other")
    except RuntimeError as e:
        assert "has already been set" in str(e)
    else:
        raise AssertionError
    """)


def test_modes_see_its_operators_first():
    run("""
    from tocha.utils._python_dispatch import TorchDispatchMode
    seen = []
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))
    y = tocha.ones(2).to("paper")
    with Log():
        y.neg()
    assert seen[0] == "aten.neg.default"
    """)


@pytest.mark.parametrize("name", ["cuda", "cpu"])
def test_names_of_other_devices_are_refused(name):
    out = run(
        f"""
    import tocha
    try:
        tocha.utils.rename_privateuse1_backend("{name}")
    except RuntimeError as e:
        print(e)
    """,
        setup="",
    )
    assert "Cannot register privateuse1 backend" in out


# ---- made in C++ ---------------------------------------------------------------------------------

HERE = Path(__file__).parent
BUILT = """
import ctypes, tocha
tocha.ops.load_library({library!r})
count = ctypes.CDLL({library!r}).paper_count
tocha.utils.generate_methods_for_privateuse1_backend()
"""


@pytest.fixture(scope="module")
def paper(tmp_path_factory) -> str:
    library = tmp_path_factory.mktemp("device") / "paper.so"
    includes = [f"-I{path}" for path in (HERE.parent / "csrc", sysconfig.get_paths()["include"])]
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", *includes, HERE / "devices" / "paper.cpp", "-o", library]
    subprocess.run([str(c) for c in command], check=True)
    return BUILT.format(library=str(library))


def test_a_device_in_cpp_has_its_own_memory_and_loops(paper):
    run(
        """
    x = tocha.arange(6.0).reshape(2, 3)
    y = x.paper()
    assert y.device == tocha.device("paper") and y.is_paper
    assert count(b"blocks") == 1 and count(b"copies") == 1
    assert (y.t() + 1).cpu().tolist() == (x.t() + 1).tolist() and count(b"loops") == 1
    assert y.sum(1).tolist() == [3, 12] and count(b"folds") == 1
    assert (y @ y.t()).tolist() == (x @ x.t()).tolist() and count(b"products") == 1
    y[0] = 7
    assert y.tolist() == [[7, 7, 7], [3, 4, 5]]
    assert tocha.full((2,), 3.0, device="paper").tolist() == [3, 3]
    assert tocha.tensor([1, 2], device="paper").is_paper
    del y
    assert count(b"blocks") == 0
    """,
        setup=paper,
    )


def test_a_device_in_cpp_trains(paper):
    run(
        """
    tocha.manual_seed(0)
    weights = [tocha.randn(4, 8), tocha.randn(8, 3)]
    x, target = tocha.randn(5, 4), tocha.randn(5, 3)

    def step(device):
        w, v = (t.clone().to(device).requires_grad_() for t in weights)
        loss = ((x.to(device) @ w).tanh() @ v - target.to(device)).square().mean()
        loss.backward()
        optimizer = tocha.optim.SGD([w, v], lr=0.1, momentum=0.9, foreach=False)
        optimizer.step()
        assert w.grad.device.type == device
        return [loss.cpu(), *(t.detach().cpu() for t in (w, v))]

    for a, b in zip(step("cpu"), step("paper")):
        assert tocha.allclose(a, b, atol=1e-6)
    assert count(b"products") == 2 + 3
    """,
        setup=paper,
    )


def test_a_device_in_cpp_says_what_it_lacks(paper):
    out = run(
        """
    y = tocha.rand(3, 3).to("paper")
    for ask in (lambda: tocha.linalg.qr(y), lambda: y + tocha.ones(3), lambda: y.double() @ y.double()):
        try:
            ask()
        except RuntimeError as e:
            print(type(e).__name__, e)
    """,
        setup=paper,
    )
    lacking, mixed, narrow = out.splitlines()
    assert lacking.startswith("NotImplementedError") and "with arguments from the 'PrivateUse1' backend" in lacking
    assert "Expected all tensors to be on the same device" in mixed
    assert narrow == "NotImplementedError [matmul] paper multiplies float32 matrices"

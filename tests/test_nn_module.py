"""nn.Module and the containers: parts, walks, hooks, state, conversions, text."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections import OrderedDict

import pytest

import tocha
from tocha import nn
from tocha.nn.modules import module as module_file
from tocha.nn.modules.lazy import LazyModuleMixin


class Scale(nn.Module):
    """Has one of everything."""

    def __init__(self, factor: float = 2.0, size: int = 2) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(tocha.full((size,), factor))
        self.register_parameter("bias", None)
        self.register_buffer("count", tocha.zeros(()))
        self.register_buffer("scratch", tocha.zeros(1), persistent=False)

    def forward(self, x, *, offset=0.0):
        return x * self.weight + offset

    def extra_repr(self) -> str:
        return f"factor={self.factor}"


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scale(2.0)
        self.rest = nn.ModuleList([Scale(3.0), Scale(3.0)])

    def forward(self, x):
        x = self.first(x)
        for m in self.rest:
            x = m(x)
        return x


def raises(kind, text):
    """The error's text begins so."""
    return pytest.raises(kind, match="^" + re.escape(text))


# ---- parts ----


def test_parts_go_to_their_tables():
    m = Scale()
    assert list(m._parameters) == ["weight", "bias"]
    assert list(m._buffers) == ["count", "scratch"]
    assert m._non_persistent_buffers_set == {"scratch"}
    assert "weight" not in m.__dict__ and m.weight is m._parameters["weight"]
    m.count = tocha.ones(())
    assert m._buffers["count"].item() == 1
    m.weight = None
    assert m.weight is None and list(m.parameters()) == []
    m.extra = 5
    m.extra = nn.Parameter(tocha.ones(1))
    assert "extra" not in m.__dict__ and "extra" in m._parameters
    m.extra2 = Scale()
    del m.extra2, m.count
    assert not hasattr(m, "extra2") and not hasattr(m, "count")
    assert "weight" in dir(m) and "count" not in dir(m)


def test_buffers_by_assignment():
    m = nn.Module()
    m.a = nn.Buffer(tocha.ones(1))
    m.b = nn.Buffer(tocha.ones(1), persistent=False)
    assert list(m._buffers) == ["a", "b"] and list(m.state_dict()) == ["a"]
    assert isinstance(m.a, nn.Buffer) and type(m.a) is tocha.Tensor
    assert not isinstance(tocha.ones(1), nn.Buffer)


def test_wrong_parts():
    m = Scale()
    with raises(
        TypeError, "cannot assign 'tocha.FloatTensor' as parameter 'weight' (tocha.nn.Parameter or None expected)"
    ):
        m.weight = tocha.ones(2)
    with raises(TypeError, "cannot assign 'int' as buffer 'count'"):
        m.count = 3
    with raises(TypeError, "cannot assign 'int' as child module 'first' (tocha.nn.Module or None expected)"):
        Nested().first = 3
    with raises(AttributeError, "'Scale' object has no attribute 'nothing'"):
        m.nothing  # noqa: B018
    with raises(AttributeError, "'Scale' object has no attribute 'nothing'"):
        del m.nothing
    with pytest.raises(KeyError, match="attribute 'training' already exists"):
        m.register_buffer("training", None)
    with pytest.raises(KeyError, match=r'parameter name can\\\'t contain "\."'):
        m.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="module name can"):
        m.add_module("", Scale())
    with raises(TypeError, "int is not a Module subclass"):
        m.add_module("x", 3)
    with raises(TypeError, "buffer name should be a string. Got int"):
        m.register_buffer(1, None)
    with raises(TypeError, "cannot assign 'int' object to buffer 'x' (tocha Tensor or None required)"):
        m.register_buffer("x", 1)
    with raises(NotImplementedError, 'Module [Module] is missing the required "forward" function'):
        nn.Module()(1)
    with raises(TypeError, "Module.__init__() takes 1 positional argument but 2 were given"):
        nn.Module(1)


def test_before_init():
    class Early(nn.Module):
        def __init__(self, value) -> None:
            self.part = value

    for value, what in (
        (nn.Parameter(tocha.ones(1)), "parameters"),
        (Scale(), "module"),
        (nn.Buffer(tocha.ones(1)), "buffer"),
    ):
        with raises(AttributeError, f"cannot assign {what} before Module.__init__() call"):
            Early(value)
    with raises(AttributeError, "'Early' object has no attribute '_backward_hooks'"):
        Early(1)(2)


def test_paths():
    m = Nested()
    assert m.get_submodule("") is m
    assert m.get_submodule("rest.1") is m.rest[1]
    assert m.get_parameter("rest.0.weight") is m.rest[0].weight
    assert m.get_buffer("first.count") is m.first.count
    with raises(AttributeError, "Nested has no attribute `x`"):
        m.get_submodule("x.y")
    with raises(AttributeError, "`weight` is not an nn.Module"):
        m.get_submodule("first.weight")
    with raises(AttributeError, "`count` is not an nn.Parameter"):
        m.get_parameter("first.count")
    with raises(AttributeError, "`weight` is not a buffer"):
        m.get_buffer("first.weight")
    m.set_submodule("rest.0", nn.Sequential())
    assert isinstance(m.rest[0], nn.Sequential)
    with raises(ValueError, "Cannot set the submodule without a target name!"):
        m.set_submodule("", Scale())
    with raises(AttributeError, "Nested has no attribute `new`"):
        m.set_submodule("new", Scale(), strict=True)
    m.set_submodule("new", Scale())
    assert isinstance(m.new, Scale)


# ---- walks ----


def test_walks():
    m = Nested()
    m.rest[1].weight = m.first.weight
    m.again = m.first
    assert [n for n, _ in m.named_parameters()] == ["first.weight", "rest.0.weight"]
    assert [n for n, _ in m.named_parameters("p", remove_duplicate=False)] == [
        "p.first.weight", "p.rest.0.weight", "p.rest.1.weight", "p.again.weight",
    ]  # fmt: skip
    assert list(m.parameters(recurse=False)) == []
    assert [n for n, _ in m.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert len(list(m.modules(remove_duplicate=False))) == 6
    assert [n for n, _ in m.named_children()] == ["first", "rest"]
    assert [n for n, _ in m.first.named_buffers()] == ["count", "scratch"]
    assert len(list(m.buffers())) == 6
    seen = []
    assert m.apply(lambda part: seen.append(type(part).__name__)) is m
    assert seen == ["Scale", "Scale", "Scale", "ModuleList", "Nested"]


def test_modes():
    m = Nested()
    assert m.eval() is m and not any(part.training for part in m.modules())
    assert all(part.training for part in m.train().modules())
    with raises(ValueError, "training mode is expected to be boolean"):
        m.train(1)
    m.requires_grad_(False)
    assert not any(p.requires_grad for p in m.parameters())


def test_zero_grad():
    m = Scale()
    m(tocha.ones(2)).sum().backward()
    grad = m.weight.grad
    m.zero_grad(set_to_none=False)
    assert m.weight.grad is grad and grad.tolist() == [0.0, 0.0]
    m.zero_grad()
    assert m.weight.grad is None


# ---- conversions ----


def test_conversions_keep_the_parameters():
    m = Nested()
    m(tocha.ones(2)).sum().backward()
    weight, grad = m.first.weight, m.first.weight.grad
    m.first.register_buffer("index", tocha.tensor([1]))
    assert m.double() is m
    assert m.first.weight is weight and weight.dtype == tocha.float64 and m.first.count.dtype == tocha.float64
    assert weight.grad is grad and grad.dtype == tocha.float64
    assert m.first.index.dtype == tocha.int64
    assert m.half().first.weight.dtype == tocha.float16
    assert m.bfloat16().first.weight.dtype == tocha.bfloat16
    assert m.to(tocha.float32).first.weight.dtype == tocha.float32
    assert m.to(tocha.ones(1, dtype=tocha.float64)).first.weight.dtype == tocha.float64
    assert m.to("cpu", tocha.float32).first.index.dtype == tocha.int64
    assert m.type(tocha.float64).first.weight.dtype == tocha.float64
    assert [p.tolist() for p in m.parameters()] == [[2.0, 2.0], [3.0, 3.0], [3.0, 3.0]]
    assert all(p.requires_grad and p.is_leaf for p in m.parameters())


def test_wrong_conversions():
    with raises(
        TypeError, "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=tocha.int32"
    ):
        Scale().to(tocha.int32)
    with raises(
        TypeError, "to() received an invalid combination of arguments - got (int, int, int, int), but expected one of:"
    ):
        Scale().to(1, 2, 3, 4)
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        assert Scale().to(tocha.complex64).weight.dtype == tocha.complex64


def test_meta():
    m = Scale().to_empty(device="meta")
    assert m.weight.is_meta and m.count.is_meta
    with raises(NotImplementedError, "Cannot copy out of meta tensor; no data! Please use tocha.nn.Module.to_empty()"):
        m.to("cpu")
    assert m.to_empty(device="cpu").weight.shape == (2,)
    assert isinstance(m.weight, nn.Parameter) and m.weight.requires_grad


def test_memory_format():
    m = nn.ParameterList([tocha.ones(2, 3, 4, 5), tocha.ones(2)]).to(memory_format=tocha.channels_last)
    assert m[0].stride() == (60, 1, 15, 3) and m[1].stride() == (1,)


# ---- hooks ----


def test_forward_hooks():
    m = Scale()
    log = []
    handles = [
        m.register_forward_pre_hook(lambda mod, args: log.append("pre")),
        m.register_forward_pre_hook(lambda mod, args: args[0] + 1, prepend=True),
        m.register_forward_pre_hook(lambda mod, args, kwargs: (args, {"offset": 10.0}), with_kwargs=True),
        m.register_forward_hook(lambda mod, args, out: log.append(args[0].tolist())),
        m.register_forward_hook(lambda mod, args, kwargs, out: out + kwargs["offset"], with_kwargs=True),
    ]
    assert m(tocha.ones(2)).tolist() == [24.0, 24.0]
    assert log == ["pre", [2.0, 2.0]]
    for h in handles:
        h.remove()
    assert m(tocha.ones(2)).tolist() == [2.0, 2.0]
    assert not m._forward_hooks and not m._forward_hooks_with_kwargs and not m._forward_pre_hooks_with_kwargs
    m.register_forward_pre_hook(lambda mod, args, kwargs: 5, with_kwargs=True)
    with raises(RuntimeError, "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got 5."):
        m(tocha.ones(2))


def test_always_called_hooks():
    m = nn.Sequential(Scale())
    seen = []

    def fail(*args):
        raise KeyError("inner")

    m.register_forward_hook(lambda mod, args, out: seen.append("not"))
    m.register_forward_hook(lambda mod, args, out: seen.append(out), always_call=True)
    m.register_forward_hook(fail, always_call=True)
    with (
        pytest.warns(UserWarning, match="module forward hook with ``always_call=True`` raised an exception"),
        pytest.raises(TypeError),
    ):
        m("text")
    assert seen == [None]
    with pytest.raises(KeyError):
        m(tocha.ones(2))


def grads_of(m, *inputs):
    out = m(*inputs)
    sum(o.sum() for o in (out if isinstance(out, tuple) else (out,))).backward()
    return [i.grad for i in inputs if isinstance(i, tocha.Tensor)]


class Two(nn.Module):
    def forward(self, x, y, k):
        return x * 2, y * k


def test_full_backward_hooks():
    m = Two()
    seen = []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((mod, gi, go)))
    x, y = tocha.ones(2, requires_grad=True), tocha.ones(2, requires_grad=True)
    assert [g.tolist() for g in grads_of(m, x, y, 3)] == [[2.0, 2.0], [3.0, 3.0]]
    ((mod, gi, go),) = seen
    assert mod is m and len(gi) == 3 and gi[2] is None
    assert [g.tolist() for g in gi[:2]] == [[2.0, 2.0], [3.0, 3.0]] and len(go) == 2
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 10, gi[1], None), prepend=True)
    m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 5, go[1]))
    x.grad = y.grad = None
    assert [g.tolist() for g in grads_of(m, x, y, 3)] == [[100.0, 100.0], [3.0, 3.0]]
    m.register_full_backward_hook(lambda mod, gi, go: gi[:1])
    with raises(RuntimeError, "Backward hook returned an invalid number of grad_input, got 1, but expected 3"):
        grads_of(m, x, y, 3)


def test_full_backward_hooks_without_input_gradients():
    m = Scale()
    seen = []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        m(tocha.ones(2)).sum().backward()
    assert seen == [((None,), [1.0, 1.0])]
    empty = nn.Sequential()
    empty.register_full_backward_hook(lambda *a: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors but received"):
        empty([tocha.ones(1)])
    m.register_full_backward_hook(lambda mod, gi, go: (tocha.ones(2),))
    with pytest.warns(UserWarning), raises(RuntimeError, "Backward hook for Modules where no input requires gradient"):
        m(tocha.ones(2)).sum().backward()


def test_old_backward_hooks():
    class Square(nn.Module):
        def forward(self, x):
            return x.exp()

    m = Square()
    seen = []
    m.register_backward_hook(lambda mod, gi, go: seen.append(go[0].tolist()))
    x = tocha.zeros(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m(x).sum().backward()
    assert seen == [[1.0, 1.0]]
    with raises(RuntimeError, "Cannot use both regular backward hooks and full backward hooks on a single Module."):
        m.register_full_backward_hook(print)
    deep = nn.Sequential(Square(), Square())
    deep.register_backward_hook(lambda *a: None)
    with pytest.warns(FutureWarning, match="when the forward contains multiple autograd Nodes is deprecated"):
        deep(x)


def test_global_hooks():
    log = []
    handles = [
        module_file.register_module_forward_pre_hook(lambda m, a: log.append(("pre", type(m).__name__))),
        module_file.register_module_forward_hook(lambda m, a, k, out: log.append(("post", k)), with_kwargs=True),
        module_file.register_module_full_backward_hook(lambda m, gi, go: log.append("backward")),
        module_file.register_module_full_backward_pre_hook(lambda m, go: log.append("before backward")),
    ]
    try:
        x = tocha.ones(2, requires_grad=True)
        Scale()(x, offset=1.0).sum().backward()
    finally:
        for h in handles:
            h.remove()
    assert log == [("pre", "Scale"), ("post", {"offset": 1.0}), "before backward", "backward"]
    Scale()(tocha.ones(2))
    assert len(log) == 4


def test_registration_hooks():
    log = []
    handles = [
        module_file.register_module_parameter_registration_hook(lambda m, n, v: nn.Parameter(v * 5)),
        module_file.register_module_buffer_registration_hook(lambda m, n, v: log.append(n)),
        module_file.register_module_module_registration_hook(lambda m, n, v: log.append(n)),
    ]
    try:
        m = Nested()
    finally:
        for h in handles:
            h.remove()
    assert m.first.weight.tolist() == [10.0, 10.0]
    assert log == ["count", "scratch", "first", "count", "scratch", "count", "scratch", "0", "1", "rest"]


def test_hook_handles_survive_copies():
    m = Scale()
    m.handle = m.register_forward_hook(_times_ten)
    c = pickle.loads(pickle.dumps(m))
    assert c(tocha.ones(2)).tolist() == [20.0, 20.0]
    c.handle.remove()
    assert c(tocha.ones(2)).tolist() == [2.0, 2.0] and m(tocha.ones(2)).tolist() == [20.0, 20.0]


def _times_ten(module, args, out):
    return out * 10


# ---- state ----


def test_state_dict():
    m = Nested()
    state = m.state_dict()
    assert list(state) == [f"{p}.{n}" for p in ("first", "rest.0", "rest.1") for n in ("weight", "count")]
    assert state._metadata["first"] == {"version": 1} and set(state._metadata) == {
        "",
        "first",
        "rest",
        "rest.0",
        "rest.1",
    }
    assert not state["first.weight"].requires_grad and state["first.weight"].data_ptr() == m.first.weight.data_ptr()
    assert m.state_dict(keep_vars=True)["first.weight"] is m.first.weight
    target = OrderedDict(x=1)
    assert m.first.state_dict(destination=target, prefix="p.") is target and list(target) == [
        "x",
        "p.weight",
        "p.count",
    ]
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        assert list(m.first.state_dict({}, "q.")) == ["q.weight", "q.count"]


def test_load_state_dict():
    a, b = Nested(), Nested()
    with tocha.no_grad():
        a.first.weight.fill_(7)
    weight = b.first.weight
    assert str(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert b.first.weight is weight and weight.tolist() == [7.0, 7.0]
    state = a.state_dict()
    b.load_state_dict(state, assign=True)
    assert b.first.weight.data_ptr() == a.first.weight.data_ptr() and isinstance(b.first.weight, nn.Parameter)
    assert b.first.weight.requires_grad and b.first.weight is not weight
    c = Nested()
    c.load_state_dict(state)
    assert c.first.weight.data_ptr() != a.first.weight.data_ptr()


def test_load_state_dict_complaints():
    m = Nested()
    state = m.state_dict()
    state["extra"] = 1
    state["first.more"] = 1
    state["rest.0.weight"] = tocha.ones(3)
    state["rest.1.count"] = "text"
    del state["first.weight"]
    expected = """Error(s) in loading state_dict for Nested:
\tMissing key(s) in state_dict: "first.weight". 
\tUnexpected key(s) in state_dict: "extra", "first.more". 
\tsize mismatch for rest.0.weight: copying a param with shape tocha.Size([3]) from checkpoint, the shape in current model is tocha.Size([2]).
\tWhile copying the parameter named "rest.1.count", expected tocha.Tensor or Tensor-like object from checkpoint but received <class 'str'>"""
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict(state)
    assert str(caught.value) == expected
    del state["rest.0.weight"], state["rest.1.count"]
    found = m.load_state_dict(state, strict=False)
    assert found.missing_keys == ["first.weight", "rest.0.weight", "rest.1.count"]
    assert found.unexpected_keys == ["extra", "first.more"]
    with raises(TypeError, "Expected state_dict to be dict-like, got <class 'int'>."):
        m.load_state_dict(3)
    with pytest.warns(UserWarning, match=r"for \w+: copying from a non-meta parameter in the checkpoint to a meta"):
        Scale().to_empty(device="meta").load_state_dict(Scale().state_dict())


def test_state_hooks():
    m = nn.Sequential(Scale())
    log = []
    m.register_state_dict_pre_hook(lambda mod, prefix, keep: log.append(("before", prefix, keep)))
    m[0].register_state_dict_post_hook(lambda mod, state, prefix, meta: state.update({prefix + "more": 1}))
    state = m.state_dict()
    assert log == [("before", "", False)] and state["0.more"] == 1
    m[0].register_load_state_dict_pre_hook(lambda mod, state, prefix, *rest: state.pop(prefix + "more", None))
    m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
    assert m.load_state_dict({k: v for k, v in state.items() if k != "0.weight"}).missing_keys == []
    other = Scale()
    other._register_state_dict_hook(lambda mod, state, prefix, meta: {"replaced": 1})
    assert other.state_dict() == {"replaced": 1}
    other = Scale()
    other.register_state_dict_post_hook(lambda *a: 3)
    with raises(RuntimeError, "state_dict post-hook must return None"):
        other.state_dict()


def test_extra_state():
    class Counting(Scale):
        calls = 0

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state) -> None:
            self.calls = state["calls"]

    a, b = Counting(), Counting()
    a.calls = 4
    assert list(a.state_dict()) == ["weight", "count", "_extra_state"]
    b.load_state_dict(a.state_dict())
    assert b.calls == 4
    with raises(
        RuntimeError, 'Error(s) in loading state_dict for Counting:\n\tMissing key(s) in state_dict: "_extra_state". '
    ):
        a.load_state_dict(Scale().state_dict())
    with raises(
        RuntimeError, 'Error(s) in loading state_dict for Scale:\n\tUnexpected key(s) in state_dict: "_extra_state". '
    ):
        Scale().load_state_dict(a.state_dict())


def test_copies():
    m = Nested()
    m.rest[1].weight = m.first.weight
    for c in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert c.first.weight is not m.first.weight and tocha.equal(c.first.weight, m.first.weight)
        assert isinstance(c.first.weight, nn.Parameter) and c.first._non_persistent_buffers_set == {"scratch"}
    assert copy.deepcopy(m).rest[1].weight is not m.first.weight
    c = copy.deepcopy(m)
    assert c.rest[1].weight is c.first.weight
    old = dict(m.first.__dict__)
    for name in ("_forward_hooks_with_kwargs", "_non_persistent_buffers_set", "_backward_pre_hooks"):
        del old[name]
    fresh = Scale.__new__(Scale)
    fresh.__setstate__(old)
    assert fresh(tocha.ones(2)).tolist() == [2.0, 2.0]


# ---- text ----


def test_text():
    assert repr(Nested()) == (
        "Nested(\n  (first): Scale(factor=2.0)\n  (rest): ModuleList(\n    (0-1): 2 x Scale(factor=3.0)\n  )\n)"
    )

    class Lines(nn.Module):
        def extra_repr(self) -> str:
            return "a\nb"

    assert repr(Lines()) == "Lines(\n  a\n  b\n)"
    m = Lines()
    m.add_module("child", None)
    assert repr(m) == "Lines(\n  a\n  b\n  (child): None\n)"
    assert repr(nn.Module()) == "Module()"


# ---- containers ----


def names(m):
    return {n: c.factor for n, c in m.named_children()}


def test_sequential():
    s = nn.Sequential(Scale(1.0), Scale(2.0), Scale(3.0))
    assert s(tocha.ones(2)).tolist() == [6.0, 6.0]
    assert len(s) == 3 and s[-1].factor == 3.0 and names(s[1:]) == {"1": 2.0, "2": 3.0}
    del s[0]
    assert names(s) == {"0": 2.0, "1": 3.0}
    assert s.append(Scale(4.0)) is s and names(s.insert(1, Scale(9.0))) == {"0": 2.0, "1": 9.0, "2": 3.0, "3": 4.0}
    assert s.pop(1).factor == 9.0 and names(s.insert(-1, Scale(8.0))) == {"0": 2.0, "1": 3.0, "2": 8.0, "3": 4.0}
    t = nn.Sequential(Scale(5.0))
    assert names(t + t) == {"0": 5.0} and len(t + t) == 2 and len(t * 3) == 3 and len(2 * t) == 2
    t += nn.Sequential(Scale(6.0))
    t *= 2
    assert [m.factor for m in t] == [5.0, 6.0, 5.0, 6.0] and len(t.extend([Scale()])) == 5
    named = nn.Sequential(OrderedDict(a=Scale(1.0), b=Scale(2.0)))
    named[1] = Scale(7.0)
    assert names(named) == {"a": 1.0, "b": 7.0}
    for index in (3, -4):
        with raises(IndexError, f"index {index} is out of range"):
            nn.Sequential(Scale(), Scale(), Scale())[index]
    with raises(ValueError, "add operator supports only objects of Sequential class, but <class 'int'> is given."):
        s + 3
    with raises(ValueError, "Non-positive multiplication factor 0 for <class 'tocha.nn.modules.container.Sequential'>"):
        s * 0
    with raises(IndexError, "Index out of range: 100"):
        s.insert(100, Scale())


def test_module_list():
    m = nn.ModuleList([Scale(1.0), Scale(2.0)])
    m.append(Scale(3.0)).extend([Scale(4.0)])
    m.insert(1, Scale(9.0))
    assert [c.factor for c in m] == [1.0, 9.0, 2.0, 3.0, 4.0]
    del m[1:3]
    m[0] = Scale(7.0)
    m += [Scale(8.0)]
    assert names(m) == {"0": 7.0, "1": 3.0, "2": 4.0, "3": 8.0}
    assert m.pop(0).factor == 7.0 and len(m + [Scale()]) == 4 and names(m[1:]) == {"0": 4.0, "1": 8.0}
    with raises(TypeError, "ModuleList.extend should be called with an iterable, but got int"):
        m.extend(3)
    with raises(IndexError, "index 5 is out of range"):
        m[5]


def test_module_dict():
    m = nn.ModuleDict({"b": Scale(1.0), "a": Scale(2.0)})
    m["c"] = Scale(3.0)
    m.update([("d", Scale(4.0))])
    assert list(m) == ["b", "a", "c", "d"] and "a" in m and m.pop("a").factor == 2.0 and len(m) == 3
    assert list(m.keys()) == [k for k, _ in m.items()] and [v.factor for v in m.values()] == [1.0, 3.0, 4.0]
    with raises(ValueError, "ModuleDict update sequence element #0 has length 3; 2 is required"):
        m.update([(1, 2, 3)])
    with raises(TypeError, "ModuleDict.update should be called with an iterable of key/value pairs, but got int"):
        m.update(3)
    m.clear()
    assert repr(m) == "ModuleDict()"


def test_parameter_list():
    p = nn.ParameterList([tocha.ones(2), nn.Parameter(tocha.zeros(2, 3)), 3])
    assert len(p) == 3 and p[2] == 3 and isinstance(p[0], nn.Parameter)
    p += [tocha.ones(1)]
    p[0] = tocha.zeros(4)
    assert list(p.state_dict()) == ["0", "1", "3"] and p[0].shape == (4,) and len(p[1:]) == 3
    assert repr(p[:1]) == "ParameterList(  (0): Parameter containing: [tocha.float32 of size 4])"
    with raises(RuntimeError, "ParameterList should not be called."):
        p(1)
    with raises(TypeError, "ParameterList.extend should be called with an iterable, but got Tensor"):
        p.extend(tocha.ones(2))


def test_parameter_dict():
    p = nn.ParameterDict({"b": tocha.ones(2), "a": tocha.zeros(1), "n": 3})
    assert list(p) == ["a", "b", "n"] and list(p.state_dict()) == ["a", "b"] and list(reversed(p)) == ["n", "b", "a"]
    assert p.setdefault("a", 4) is p["a"] and p.get("zz", 5) == 5 and p.pop("n") == 3
    q = p | nn.ParameterDict({"c": tocha.ones(3)})
    assert list(q) == ["a", "b", "c"] and q["a"] is p["a"] and q.popitem()[0] == "c"
    q |= {"d": tocha.ones(1)}
    assert list(q.copy()) == ["a", "b", "d"] and next(iter(p.fromkeys(["x"], tocha.ones(1)).parameters())).shape == (1,)
    del q["a"]
    assert "a" not in q and not hasattr(q, "a")
    with raises(
        TypeError, "Index given to ParameterDict cannot be used as a key as it is not a string (type is 'int')."
    ):
        q[1] = tocha.ones(1)
    with raises(RuntimeError, "ParameterDict should not be called."):
        p(1)


# ---- lazy modules ----


class LazyScale(LazyModuleMixin, Scale):
    cls_to_become = Scale

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.UninitializedParameter()

    def initialize_parameters(self, x) -> None:
        if self.has_uninitialized_params():
            self.weight.materialize(x.shape)
            nn.init.constant_(self.weight, 3.0)


def test_lazy():
    m = LazyScale()
    assert m.has_uninitialized_params() and repr(m.weight) == "<UninitializedParameter>"
    assert m.double().weight.dtype == tocha.float64 and m.float().has_uninitialized_params()
    assert isinstance(m.state_dict()["weight"], nn.UninitializedParameter)
    with raises(RuntimeError, "Can't access the shape of an uninitialized parameter or buffer."):
        m.weight.shape  # noqa: B018
    with raises(ValueError, "Attempted to use an uninitialized parameter in"):
        m.weight + 1
    for c in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert c(tocha.ones(3)).tolist() == [3.0] * 3 and type(c) is Scale
    weight = m.weight
    assert m(tocha.ones(3)).tolist() == [3.0] * 3
    assert m.weight is weight and type(weight) is nn.Parameter and weight.requires_grad
    assert type(m) is Scale and not m._forward_pre_hooks and not hasattr(m, "_initialize_hook")


def test_lazy_state():
    m = LazyScale()
    m.load_state_dict(Scale(5.0, size=4).state_dict())
    assert m.weight.tolist() == [5.0] * 4 and m(tocha.ones(4)).tolist() == [5.0] * 4
    with raises(RuntimeError, "Can't access the shape of an uninitialized parameter or buffer."):
        Scale().load_state_dict(LazyScale().state_dict())


def test_lazy_complaints():
    class Forgetful(LazyScale):
        def initialize_parameters(self, x) -> None:
            pass

    with raises(RuntimeError, "module Forgetful has not been fully initialized"):
        Forgetful()(tocha.ones(2))

    class Missing(LazyModuleMixin, Scale):
        pass

    with raises(NotImplementedError, "initialize_parameters is not implemented for Missing"):
        Missing()(tocha.ones(2))


def test_uninitialized_buffer():
    m = nn.Module()
    m.b = nn.UninitializedBuffer(persistent=False)
    assert m._non_persistent_buffers_set == {"b"}
    m.to(tocha.float64)
    assert isinstance(m.b, nn.UninitializedBuffer)
    m.b.materialize((2,))
    assert type(m.b) is tocha.Tensor and m.b.shape == (2,) and m.b.dtype == tocha.float64

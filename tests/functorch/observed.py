"""All that can be seen of a call of one of the programs (programs.py), with the library that runs it as a parameter."""

import importlib


def separate(m, grad=True):
    """Arguments of programs, and the leaves that they come from."""
    m.manual_seed(3)
    x, y, v = m.rand(3, 4), m.rand(3, 4), m.rand(4)
    for t in (x, y, v):
        t.requires_grad_(grad)
    computed = y * 1 if grad else y  # a program may write to what its caller computed
    return (x, computed, v, m.rand(3, 4)), (x, y, v)


def views_of_one(m, grad=True):
    m.manual_seed(3)
    leaf = m.rand(3, 4, requires_grad=grad)
    z = leaf * 1
    return (z, z[0], z.view(-1)), (leaf,)


def views_of_part(m, grad=False):
    """The same of a tensor that is no view, and has others' elements before and behind its own."""
    m.manual_seed(3)
    z = m.rand(20)[2:14].view(3, 4).data
    return (z, z[0], z.view(-1)), ()


def views_of_columns(m, grad=False):
    """And that lie between its own."""
    m.manual_seed(3)
    z = m.rand(3, 8).data[:, 1:5].data
    return (z, z[0], z.as_strided((12,), (1,), 1)), ()


def memory(t):
    return t.untyped_storage().data_ptr()


def observed(m, f, grad, make=separate):
    """Results, what the arguments are afterwards, gradients, who lies on whose memory and who is whom."""
    args, wanted = make(m, grad)
    before = [a._version for a in args]
    leaves = importlib.import_module(f"{m.__name__}.utils._pytree").tree_leaves(f(*args))
    tensors = [t for t in leaves if isinstance(t, m.Tensor)]
    everything = (*args, *tensors)
    places = {}
    for t in everything:
        places.setdefault(memory(t), len(places))
    loss = sum((t * t).sum() for t in everything if t.requires_grad) if grad else 0
    grads = m.autograd.grad(loss, wanted, allow_unused=True) if isinstance(loss, m.Tensor) else ()
    return {
        "values": [t.detach().clone() for t in tensors],
        "inputs": [a.detach().clone() for a in args],
        "gradients": list(grads),
        "others": [v for v in leaves if not isinstance(v, m.Tensor)],
        "memory": [places[memory(t)] for t in everything],
        "wants": [t.requires_grad for t in everything],
        "geometry": [(tuple(t.shape), t.stride(), t.storage_offset()) for t in everything],
        "versions": [a._version - n for a, n in zip(args, before, strict=True)],
        "same": [[a is b for b in everything] for a in everything],
    }


NUMBERS = ("values", "inputs", "gradients")


def agree(expected, found, close):
    """Holds two observations against each other; `close` compares two tensors."""
    for what in NUMBERS:
        assert len(expected[what]) == len(found[what]), what
        for a, b in zip(expected[what], found[what], strict=True):
            assert (a is None) == (b is None), what
            if a is not None:
                close(b, a)
    for what in expected.keys() - set(NUMBERS):
        assert expected[what] == found[what], what

"""Storages, typed and untyped, and Tensor.set_ in all its forms, as PyTorch has them."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch

import tocha

EXPRESSIONS = """
T()[0]
T()[-1]
T()[9]
T()[1:2]
T()['a']
T()[True]
U()[1:3].tolist()
U()[::2]
T().tolist()
list(T())
len(T())
T().size()
T().nbytes()
T().element_size()
U().element_size()
T() == T()
(lambda s: s == s)(T())
T() != T()
U() == U()
(lambda a: a.untyped_storage() == a.untyped_storage())(m.ones(3))
(lambda a: a.untyped_storage() is a.untyped_storage())(m.ones(3))
T().fill_(3).tolist()
T().fill_(True).tolist()
U().fill_(3).tolist()
U().fill_(-1).tolist()
U().fill_(1.5)
T().copy_(T().fill_(2)).tolist()
T().copy_(U()).tolist()
T().copy_(T(3))
T().copy_(m.arange(4).storage())
U().copy_(U().fill_(1)).tolist()
U().copy_(T()).tolist()
U().copy_(U(3))
(lambda s: (s.resize_(2), s.tolist())[1])(T())
(lambda s: (s.resize_(2), s.tolist())[1])(U())
T().resize_('a')
pickle.loads(pickle.dumps(T())).tolist()
copy.copy(T()).tolist()
copy.deepcopy(T()).tolist()
copy.deepcopy(U()).tolist()
[getattr(T(), k)().dtype for k in 'double long bool half bfloat16 char byte short int complex_float complex_double'.split()]
T().long().tolist()
U().float().tolist()
U(1).int().tolist()
T().cpu().tolist()
T().type()
T().dtype
T().device
T().is_cuda, T().is_hpu, U().is_hpu, T().is_sparse, T().is_shared(), T().is_pinned()
T().get_device(), U().get_device(), T().filename, U().filename
T().pin_memory()
T().clone().tolist()
m.FloatStorage(3).size()
m.FloatStorage([1, 2]).tolist()
m.FloatStorage(wrap_storage=U()).tolist()
m.FloatStorage(3, 4)
m.FloatStorage(dtype=m.float32)
isinstance(T(), m.FloatStorage), isinstance(T(), m.LongStorage), isinstance(T(), m.TypedStorage)
m.is_storage(T()), m.is_storage(U()), m.is_storage(3)
m.FloatStorage.dtype
m.UntypedStorage([1, 2]).tolist()
m.UntypedStorage('a')
m.TypedStorage([1, 2.5]).tolist()
m.TypedStorage([1, 2], dtype=m.int64).tolist()
m.TypedStorage(2, dtype=m.int64).size()
m.TypedStorage(wrap_storage=U(), dtype=m.float32).tolist()
m.TypedStorage(wrap_storage=U())
m.TypedStorage(wrap_storage=3, dtype=m.float32)
m.TypedStorage(3, wrap_storage=U(), dtype=m.float32)
m.TypedStorage('a')
m.ones(2).type(m.DoubleTensor).storage().type()
m.FloatTensor(T()).tolist()
(lambda s: (s.__setitem__(0, 5.), s.tolist())[1])(T())
(lambda s: (s.__setitem__(slice(1, 3), 5.), s.tolist())[1])(T())
(lambda s: s.__setitem__('a', 5.))(T())
(lambda s: (s.__setitem__(slice(0, 4), 5), s.tolist())[1])(U())
(lambda s: (s.__setitem__(0, 500), s.tolist())[1])(U())
m.ones(3, device='meta').storage().tolist()
m.ones(3, device='meta').storage()[0]
m.ones(3, device='meta').untyped_storage().tolist()
m.ones(3, device='meta').untyped_storage().fill_(1).nbytes()
m.ones(3, device='meta').untyped_storage().clone().nbytes()
m.ones(3, device='meta').untyped_storage().resize_(5).nbytes()
U().copy_(m.ones(4, device='meta').untyped_storage())
m.ones(4, device='meta').untyped_storage().copy_(U()).nbytes()
m.ones(4, device='meta').untyped_storage().data_ptr()
m.ones(2)._typed_storage().tolist()
""".strip().splitlines()

SETS = """
a.set_()
a.set_(S())
a.set_(T())
a.set_(S(), 1)
a.set_(S(), 1, (2,))
a.set_(S(), 1, 2)
a.set_(S(), 1, [2], [1])
a.set_(S(), 0, (2, 2))
a.set_(S(), 0, (2, 2), ())
a.set_(S(), -1, (2,))
a.set_(S(), 0, (-2,))
a.set_(S(), 0, (2,), (-1,))
a.set_(S(), 0, (2,), (1, 2))
a.set_(b)
a.set_(i)
a.set_(b, 1, (2,))
a.set_(b, 1, (2,), (2,))
a.set_(b, storage_offset=1, size=(2,))
a.set_(source=b)
a.set_(source=S(), storage_offset=1, size=(2,))
a.set_(source=T(), storage_offset=1, size=(2,), stride=(2,))
a.set_(m.arange(4).storage())
i.set_(T())
i.set_(S())
i.set_(m.arange(3.0).untyped_storage())
leaf.set_(b)
a.set_(3)
a.set_(None)
a.set_(S(), None)
a.set_(b, 1)
a.set_(S(), 0, m.Size([2]))
a.bool().set_(S(3))
a.set_(S(), 2**62, (2,))
a.set_(S(), 0, (2**62,))
a.set_(S(), 0.5, (2,))
a.set_(a.storage(), 1, (2,))
a.set_(a.untyped_storage(), 1, (2,))
a.set_(S()[4:])
a.set_(m.ones(3, device='meta'))
m.ones(3, device='meta').set_(a)
a[1:].set_(b)
""".strip().splitlines()


def names(m):
    return {
        "m": m,
        "pickle": pickle,
        "copy": copy,
        "T": lambda n=4: m.arange(float(n)).storage(),
        "U": lambda n=4: m.arange(float(n)).untyped_storage(),
        "S": lambda n=4: m.arange(float(n)).untyped_storage(),
        "a": m.arange(6.0),
        "b": m.arange(4.0),
        "i": m.arange(4),
        "leaf": m.ones(3, requires_grad=True),
    }


def facts(value):
    if isinstance(value, torch.Tensor | tocha.Tensor):
        place = value.stride(), value.storage_offset(), value.untyped_storage().nbytes(), value._version
        return "tensor", value.tolist(), place, value.requires_grad
    return str(value).replace("torch", "tocha")


def outcome(m, expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return facts(eval(expression, names(m)))
        except Exception as e:
            return type(e).__name__


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_storages(expression):
    assert outcome(tocha, expression) == outcome(torch, expression)


@pytest.mark.parametrize("expression", SETS)
def test_set(expression):
    assert outcome(tocha, expression) == outcome(torch, expression)


@pytest.mark.parametrize("size", [(9,), (3, 3)])
def test_set_makes_short_storages_longer(size):
    for m in (tocha, torch):
        storage = m.arange(4.0).untyped_storage()
        t = m.ones(1).set_(storage, 0, size)
        assert tuple(t.shape) == size and storage.nbytes() == 36 and t.flatten()[:4].tolist() == [0.0, 1.0, 2.0, 3.0]

"""Examples of tocha/operators/tracing.py."""


def sym_size():
    """
    >>> tocha.ops.aten.sym_size(tocha.empty(2, 3), 1)
    3
    """


def sym_stride():
    """
    >>> tocha.ops.aten.sym_stride(tocha.empty(2, 3), 0)
    3
    """


def sym_numel():
    """
    >>> tocha.ops.aten.sym_numel(tocha.empty(2, 3))
    6
    """


def sym_storage_offset():
    """
    >>> tocha.ops.aten.sym_storage_offset(tocha.empty(5)[2:])
    2
    """


def lift_fresh():
    """
    >>> tocha.ops.aten.lift_fresh(tocha.tensor([1, 2]))
    tensor([1, 2])
    """

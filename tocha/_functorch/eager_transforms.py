"""grad, vjp, jvp and what is made of them: each call is a level of its own, in which values are tracked anew."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tocha import _C
from tocha._functorch import custom_functions
from tocha._functorch.levels import GRAD, JVP, enter, leave, leave_tree, level
from tocha.autograd._saved_hooks import disable_saved_tensors_hooks
from tocha.autograd.grad_mode import enable_grad
from tocha.utils._pytree import tree_flatten, tree_map, tree_unflatten

Tensor = _C.Tensor
NO_HOOKS = "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case."


custom_functions.install()


# ---- arguments ---------------------------------------------------------------------------------------


def checked_argnums(argnums: Any, count: int) -> int | tuple[int, ...]:
    if isinstance(argnums, int) and not isinstance(argnums, bool):
        return checked_argnum(argnums, count)
    if isinstance(argnums, tuple):
        if not argnums:
            raise RuntimeError("argnums must be non-empty")
        if len(set(argnums)) != len(argnums):
            raise RuntimeError(f"argnums elements must be unique, got {argnums}")
        return tuple(checked_argnum(a, count) for a in argnums)
    raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")


def checked_argnum(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def chosen(args: tuple, argnums: int | tuple[int, ...], as_tuple: bool = False) -> Any:
    if isinstance(argnums, int):
        return (args[argnums],) if as_tuple else args[argnums]
    return tuple(args[i] for i in argnums)


def replaced(args: tuple, new: tuple, argnums: int | tuple[int, ...]) -> tuple:
    places = (argnums,) if isinstance(argnums, int) else argnums
    found = list(args)
    for i, v in zip(places, new, strict=True):
        found[i] = v
    return tuple(found)


def tracked(tree: Any, at: int) -> Any:
    """The tensors of a structure as variables of the level."""

    def one(x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        if not (x.is_floating_point() or x.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        inside = _C._wrap_level(x, at, -1)
        inside.requires_grad = True
        return inside

    return tree_map(one, tree)


def entered(tree: Any, at: int) -> Any:
    return tree_map(lambda v: enter(v, at), tree)


def untracked_args(args: tuple, at: int, argnums: int | tuple[int, ...], variables: Any) -> tuple:
    """All arguments inside the level: those that are differentiated by as variables, others as they are."""
    places = (argnums,) if isinstance(argnums, int) else argnums
    new = (variables,) if isinstance(argnums, int) else variables
    return tuple(new[places.index(i)] if i in places else entered(a, at) for i, a in enumerate(args))


def gradients(at: int, outputs: list, variables: list, cotangents: list | None) -> list:
    """Gradients at the innermost level, zeros where nothing flows. They are recorded: levels outside may differentiate them, and a
    gradient that is one kernel is made of operators then."""
    pairs = [
        (o, None if cotangents is None else cotangents[i])
        for i, o in enumerate(outputs)
        if isinstance(o, Tensor) and o.requires_grad
    ]
    if not pairs:
        return [_C.zeros_like(v).detach() for v in variables]
    roots = tuple(o for o, _ in pairs)
    starts = tuple(_C.ones_like(o).detach() if g is None else g for o, g in pairs)
    _C._walk_at(at)
    found = _C._backward(roots, starts, True, True, tuple(variables), True, False)
    return [_C.zeros_like(v).detach() if g is None else g for g, v in zip(found, variables, strict=True)]


# ---- reverse mode ------------------------------------------------------------------------------------


def grad(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """The gradient of a function that returns one number, by its arguments `argnums`.

    >>> import tocha
    >>> from tocha.func import grad
    >>> grad(tocha.sin)(tocha.tensor(0.0)), grad(grad(tocha.sin))(tocha.tensor(0.0))
    (tensor(1.), tensor(-0.))
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found = grad_and_value_impl(func, argnums, has_aux, args, kwargs)
        return (found[0], found[1][1]) if has_aux else found[0]

    return gradient


def grad_and_value(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """The gradient and the value of a function that returns one number.

    >>> import tocha
    >>> from tocha.func import grad_and_value
    >>> grad_and_value(lambda x: x**2)(tocha.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        return grad_and_value_impl(func, argnums, has_aux, args, kwargs)

    return both


def grad_and_value_impl(func: Callable, argnums: Any, has_aux: bool, args: tuple, kwargs: dict) -> tuple[Any, Any]:
    where = "grad_and_value(f)(*args): "
    with disable_saved_tensors_hooks(NO_HOOKS), level(GRAD) as at, enable_grad():
        argnums = checked_argnums(argnums, len(args))
        variables = tracked(chosen(args, argnums), at)
        inside = untracked_args(args, at, argnums, variables)
        output = func(*inside, **entered(kwargs, at))
        aux = None
        if has_aux:
            output, aux = with_aux(output, where)
        if not isinstance(output, Tensor):
            raise RuntimeError(f"{where}Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim() != 0:
            raise RuntimeError(
                f"{where}Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. "
                "Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        flat, spec = tree_flatten(variables)
        found = tree_unflatten(gradients(at, [output], flat, None), spec)
        result, value = leave_tree(found, at), leave(output, at)
        return (result, (value, aux_outside(aux, at))) if has_aux else (result, value)


def with_aux(output: Any, where: str) -> tuple[Any, Any]:
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(f"{where}output of function f should be a tuple: (output, aux) if has_aux is True")
    return output


def aux_outside(aux: Any, at: int) -> Any:
    def one(v: Any) -> Any:
        if not isinstance(v, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(v)}")
        return leave(v, at)

    return tree_map(one, aux)


@contextmanager
def reopened(at: int) -> Iterator[None]:
    _C._reopen_level(at)
    try:
        yield
    finally:
        _C._pop_level()


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """func(*primals), and a function from gradients of the results to gradients of the arguments.

    >>> import tocha
    >>> from tocha.func import vjp
    >>> y, back = vjp(lambda x: x * x, tocha.tensor([1.0, 2.0]))
    >>> back(tocha.ones(2))
    (tensor([2., 4.]),)
    """
    return vjp_impl(func, primals, None, has_aux)


def called(func: Callable, args: Any, has_aux: bool, at: Any, where: str) -> tuple[Any, Any]:
    """What a function gives inside of a level, and what it gives beside, outside."""
    outputs = func(*args)
    if not has_aux:
        return outputs, None
    outputs, aux = with_aux(outputs, f"{where}: ")
    return outputs, aux_outside(aux, at)


def vjp_impl(func: Callable, args: tuple, argnums: Any, has_aux: bool, where: str = "vjp(f, *primals)") -> Any:
    with disable_saved_tensors_hooks(NO_HOOKS), level(GRAD) as at, enable_grad():
        if argnums is None:
            variables = tracked(args, at)
            inside = variables
        else:
            argnums = checked_argnums(argnums, len(args))
            variables = tracked(chosen(args, argnums), at)
            inside = untracked_args(args, at, argnums, variables)
        outputs, aux = called(func, inside, has_aux, at, where)
        flat_outputs, out_spec = tree_flatten(outputs)
        check_outputs(flat_outputs, outputs, where)
        flat_variables, in_spec = tree_flatten(variables)
        results = leave_tree(outputs, at)

    def pull_back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, spec = tree_flatten(cotangents)
        if spec != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {shown(spec)}, primal output: {shown(out_spec)}"
            )
        check_cotangents(given, flat_outputs)
        with reopened(at):
            found = gradients(at, flat_outputs, flat_variables, [enter(g, at) for g in given])
            return leave_tree(tree_unflatten(found, in_spec), at)

    return (results, pull_back, aux) if has_aux else (results, pull_back)


def shown(spec: Any) -> str:
    """A structure without the names of its parts' types."""
    if spec.is_leaf():
        return "*"
    inside = ", ".join(map(shown, spec.children_specs if hasattr(spec, "children_specs") else spec.children()))
    if spec.type is tuple:
        return f"({inside},)" if spec.num_children == 1 else f"({inside})"
    return f"[{inside}]" if spec.type is list else str(spec)


def check_outputs(flat: list, outputs: Any, where: str) -> None:
    if not flat:
        raise RuntimeError(f"{where}: Expected f to be a function that has non-empty output (got output = {flat})")
    for o in flat:
        if not isinstance(o, Tensor):
            raise RuntimeError(f"{where}: expected f(*primals) to return only tensors, got unsupported type {type(o)}")


def check_cotangents(given: list, outputs: list) -> None:
    for i, (g, o) in enumerate(zip(given, outputs, strict=True)):
        if isinstance(g, Tensor) and g.shape != o.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {o.shape}."
            )


# ---- forward mode ------------------------------------------------------------------------------------


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """func(*primals), and the derivative of that along tangents.

    >>> import tocha
    >>> from tocha.func import jvp
    >>> jvp(tocha.sin, (tocha.tensor(0.0),), (tocha.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    return jvp_impl(func, primals, tangents, None, strict, has_aux)


def jvp_impl(func: Callable, primals: Any, tangents: Any, argnums: Any, strict: bool, has_aux: bool) -> Any:
    where = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{where}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    differentiated = primals if argnums is None else chosen(primals, argnums, as_tuple=True)
    flat, spec = tree_flatten(differentiated)
    flat_tangents, tangent_spec = tree_flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError(
            f"{where}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 "
            f"tensors, tangents also must be. Got primals with structure {spec} and tangents with structure {tangent_spec}"
        )
    for what, values in (("primals", flat), ("tangents", flat_tangents)):
        if not values:
            raise RuntimeError(f"{where}: Expected {what} to contain at least one Tensor.")
        for v in values:
            if not isinstance(v, Tensor):
                raise RuntimeError(f"{where}: Expected {what} to only contain Tensors, got {type(v)}")
    with level(JVP) as at:
        duals = tree_unflatten([dual(p, t, at) for p, t in zip(flat, flat_tangents, strict=True)], spec)
        inside = duals
        if argnums is not None:
            others = tuple(entered(a, at) for a in primals)
            inside = replaced(others, duals, argnums)
        outputs, aux = called(func, inside, has_aux, at, where)
        flat_outputs, out_spec = tree_flatten(outputs)
        check_outputs(flat_outputs, outputs, where)
        values = [leave(o, at) for o in flat_outputs]
        moved = [leave(tangent_of(o, at, strict), at) for o in flat_outputs]
    results = tree_unflatten(values, out_spec), tree_unflatten(moved, out_spec)
    return (*results, aux) if has_aux else results


def dual(primal: Tensor, tangent: Tensor, at: int) -> Tensor:
    """A tensor of the level with a tangent."""
    if not (primal.is_floating_point() or primal.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {primal.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
            f"Tensor is of size {list(primal.shape)} while the given forward gradient is of size {list(tangent.shape)}."
        )
    inside = _C._wrap_level(primal, at, -1)
    _C._set_tangent(inside, _C._wrap_level(tangent.to(primal.dtype), at, -1))
    return inside


def tangent_of(output: Tensor, at: int, strict: bool) -> Tensor:
    found = _C._unpack_dual(output)[1] if _C._unwrap_level(output, at) is not None else None
    if found is not None:
        return found
    if strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with strict=True."
        )
    return _C.zeros_like(output)


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """func(*primals), and its derivative there as a function of tangents. func is not run again: that function is the transpose of the
    backward, which is linear.

    >>> import tocha
    >>> from tocha.func import linearize
    >>> y, derivative = linearize(tocha.sin, tocha.tensor(0.0))
    >>> derivative(tocha.tensor(3.0))
    tensor(3.)
    """
    flat_primals, in_spec = tree_flatten(primals)
    outputs, pull_back = vjp(func, *primals)
    flat_outputs, out_spec = tree_flatten(outputs)

    def derivative(*tangents: Any) -> Any:
        flat, spec = tree_flatten(tangents)
        if spec != in_spec:
            raise RuntimeError(f"Expected the tangents {spec} to have the same argspec as the primals {in_spec}")
        for i, (p, t) in enumerate(zip(flat_primals, flat, strict=True)):
            if p.shape != t.shape:
                raise RuntimeError(
                    f"tangent:{i} with shape {t.shape} in flattened pytree doesn't match the shape {p.shape} of the corresponding primal."
                )
            if p.device != t.device or p.dtype != t.dtype:
                raise RuntimeError(
                    f"tangent:{i} with device {t.device} and dtype {t.dtype} in flattened pytree doesn't match those of the corresponding primal."
                )
        zeros = tree_unflatten([_C.zeros_like(o) for o in flat_outputs], out_spec)
        _, forward = vjp(pull_back, zeros)
        (found,) = forward(tree_unflatten(flat, in_spec))
        return found

    return outputs, derivative

"""The test case of PyTorch's suite, whose comparisons know tensors, and what its files ask of the machine."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import platform
import random
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tocha import _C, cuda
from tocha import random as generators
from tocha._core import switches
from tocha.testing._comparison import assert_close
from tocha.testing._creation import make_tensor
from tocha.testing._internal.parametrized import dtype_name, instantiate_parametrized_tests, parametrize, subtest

__all__ = [
    "IS_ARM64", "IS_CI", "IS_FBCODE", "IS_LINUX", "IS_MACOS", "IS_SANDCASTLE", "IS_WINDOWS", "IS_X86", "SEED", "TEST_CUDA", "TEST_MPS",
    "TEST_NUMPY", "TEST_SCIPY", "TEST_WITH_ASAN", "TEST_WITH_CROSSREF", "TEST_WITH_ROCM", "TEST_WITH_SLOW", "TEST_WITH_TORCHDYNAMO",
    "TEST_WITH_TORCHINDUCTOR", "TEST_XPU", "TemporaryDirectoryName", "TemporaryFileName", "TestCase", "decorateIf", "dtype_name",
    "freeze_rng_state", "instantiate_parametrized_tests", "is_iterable_of_tensors", "make_tensor", "noncontiguous_like", "parametrize",
    "run_tests", "serialTest", "set_default_dtype", "set_rng_seed", "skipIfCrossRef", "skipIfMPS", "skipIfNoSciPy", "skipIfRocm",
    "skipIfTorchDynamo", "skipIfTorchInductor", "skipIfWindows", "skipIfXpu", "slowTest", "subtest", "xfailIf",
]  # fmt: skip

Tensor = _C.Tensor
SEED = 1234
IS_LINUX, IS_WINDOWS, IS_MACOS = sys.platform == "linux", sys.platform == "win32", sys.platform == "darwin"
IS_X86 = platform.machine() in ("x86_64", "i386")
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_CI = bool(os.getenv("CI"))
IS_FBCODE = IS_SANDCASTLE = False
TEST_CUDA = cuda.is_available()
TEST_NUMPY, TEST_SCIPY = (importlib.util.find_spec(n) is not None for n in ("numpy", "scipy"))
TEST_WITH_SLOW = os.getenv("PYTORCH_TEST_WITH_SLOW", "0") == "1"
# Devices and ways to run the suite that are not there.
TEST_MPS = TEST_XPU = TEST_WITH_ROCM = TEST_WITH_ASAN = False
TEST_WITH_CROSSREF = TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = False


def set_rng_seed(seed: int | None = None) -> None:
    """Of all random numbers: the library's, Python's and NumPy's."""
    seed = SEED if seed is None else seed
    generators.manual_seed(seed)
    random.seed(seed)
    if TEST_NUMPY:
        importlib.import_module("numpy").random.seed(seed)


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """What is drawn in the block does not move the library's generator."""
    with generators.fork_rng(devices=()):
        yield


@contextlib.contextmanager
def set_default_dtype(dtype: _C.dtype) -> Iterator[None]:
    before = _C.get_default_dtype()
    _C._set_default_dtype(dtype)
    try:
        yield
    finally:
        _C._set_default_dtype(before)


@contextlib.contextmanager
def TemporaryFileName(mode: str = "w+b", suffix: str | None = None) -> Iterator[str]:
    """The name of a file that is removed at the end."""
    with tempfile.NamedTemporaryFile(mode, suffix=suffix, delete=False) as file:
        pass
    try:
        yield file.name
    finally:
        os.unlink(file.name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    with tempfile.TemporaryDirectory(suffix=suffix) as folder:
        yield folder


def noncontiguous_like(t: Tensor) -> Tensor:
    """A copy with gaps, and garbage in them; what is not contiguous already is itself."""
    if not t.is_contiguous():
        return t
    garbage = float("nan") if t.dtype.is_floating_point or t.dtype.is_complex else True if t.dtype is _C.bool else 12
    wide = t.new_full((*t.shape, 2), garbage)
    wide[..., 0] = t
    made = wide[..., 0].detach()
    return made.requires_grad_(t.requires_grad)


def is_iterable_of_tensors(iterable: Any, include_empty: bool = False) -> bool:
    if isinstance(iterable, Tensor) or not isinstance(iterable, Iterable):
        return False
    items = list(iterable)
    return all(isinstance(x, Tensor) for x in items) if items else include_empty


def _skip_where(condition: bool, reason: str) -> Callable:
    """A decorator that is used bare, with a message (`msg=`), or called without."""

    def skip(fn: Any = None, *, msg: str = reason) -> Any:
        decorator = unittest.skipIf(condition, fn if isinstance(fn, str) else msg)
        return decorator(fn) if callable(fn) else decorator

    return skip


skipIfRocm = _skip_where(TEST_WITH_ROCM, "test doesn't currently work on the ROCm stack")
skipIfXpu = _skip_where(TEST_XPU, "test doesn't currently work on the XPU stack")
skipIfMPS = _skip_where(TEST_MPS, "test doesn't currently work with MPS")
skipIfWindows = _skip_where(IS_WINDOWS, "test doesn't currently work on the Windows stack")
skipIfCrossRef = _skip_where(TEST_WITH_CROSSREF, "test doesn't currently with crossref")
skipIfTorchDynamo = _skip_where(TEST_WITH_TORCHDYNAMO, "test doesn't currently work with dynamo")
skipIfTorchInductor = _skip_where(TEST_WITH_TORCHINDUCTOR, "test doesn't currently work with torchinductor")
skipIfNoSciPy = _skip_where(not TEST_SCIPY, "test require SciPy, but SciPy not found")
slowTest = _skip_where(not TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")


def serialTest(condition: bool = True) -> Callable:
    """Tests are never run side by side by `run_tests`, so this one is not."""
    return lambda fn: fn


def xfailIf(condition: bool) -> Callable:
    return unittest.expectedFailure if condition else (lambda fn: fn)


def decorateIf(decorator: Callable, predicate_fn: Callable[[dict[str, Any]], bool]) -> Callable:
    """The decorator for those arguments of a parametrized test for which the predicate holds."""

    def decorate(fn: Callable) -> Callable:
        decorated = decorator(fn)

        @functools.wraps(fn)
        def run(self: Any, **kwargs: Any) -> Any:
            return (decorated if predicate_fn(kwargs) else fn)(self, **kwargs)

        return run

    return decorate


def run_tests(argv: list[str] | None = None) -> None:
    """Runs the tests of the program's main module."""
    unittest.main(argv=argv)


def _is_number(v: Any) -> bool:
    return isinstance(v, (bool, int, float, complex)) or type(v).__module__ == "numpy"


class TestCase(unittest.TestCase):
    """Each test begins with the same random numbers; `assertEqual` compares tensors, within tolerances."""

    maxDiff = None
    precision: float = 0.0
    rel_tol: float = 0.0

    def setUp(self) -> None:
        set_rng_seed()

    def _tolerances(self, atol: float | None, rtol: float | None) -> tuple[float | None, float | None]:
        if self.precision and atol is None and rtol is None:
            return self.precision, self.rel_tol
        return atol, rtol

    def _compare(self, x: Any, y: Any, path: str, **options: Any) -> None:
        """Raises AssertionError with the place of the first difference."""
        sequences, where = (Sequence, _C.Size), f"\n\nThe failure occurred for item {path}" if path else ""
        if isinstance(x, Tensor) or isinstance(y, Tensor):
            self._compare_tensors(x, y, where, **options)
        elif isinstance(x, str) or isinstance(y, str) or isinstance(x, bytes) or isinstance(y, bytes):
            if x != y:
                kind = "String" if isinstance(x, str) and isinstance(y, str) else "Object"
                raise AssertionError(f"{kind} comparison failed: {x!r} != {y!r}{where}")
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            if x.keys() != y.keys():
                raise AssertionError(f"The keys of the mappings do not match: {set(x)} != {set(y)}{where}")
            for key in x:
                self._compare(x[key], y[key], f"{path}[{key!r}]", **options)
        elif isinstance(x, sequences) and isinstance(y, sequences):
            if len(x) != len(y):
                raise AssertionError(f"The length of the sequences mismatch: {len(x)} != {len(y)}{where}")
            for i, (a, b) in enumerate(zip(x, y)):
                self._compare(a, b, f"{path}[{i}]", **options)
        elif _is_number(x) and _is_number(y):
            if isinstance(x, bool) is not isinstance(y, bool):
                x, y = (int(v) if isinstance(v, bool) else v for v in (x, y))
            self._compare_tensors(x, y, where, **{**options, "check_dtype": False})
        elif not bool(x == y):
            raise AssertionError(f"Object comparison failed: {x!r} != {y!r}{where}")

    def _compare_tensors(self, x: Any, y: Any, where: str, **options: Any) -> None:
        """A number, a list or an array beside a tensor is compared in the tensor's dtype."""
        given = [v for v in (x, y) if isinstance(v, Tensor)]
        if len(given) == 1:
            like = given[0]
            if x is None or y is None:
                raise AssertionError(f"Object comparison failed: {x!r} != {y!r}{where}")
            x, y = (
                v
                if isinstance(v, Tensor)
                else _C.tensor(v, dtype=None if hasattr(v, "dtype") else like.dtype, device=like.device)
                for v in (x, y)
            )
            if not like.dim() or x.dim() == 0 or y.dim() == 0:
                x, y = (v.reshape(()) if v.numel() == 1 else v for v in (x, y))
        assert_close(x, y, msg=lambda text: text + where, **options)

    def assertEqual(
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None, equal_nan: bool = True,
        exact_dtype: bool = True, exact_device: bool = False, exact_layout: bool = False, exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:  # fmt: skip
        """Equal: tensors within tolerances, containers item by item, numbers of any type."""
        atol, rtol = self._tolerances(atol, rtol)
        try:
            self._compare(
                x, y, "", atol=atol, rtol=rtol, equal_nan=equal_nan, check_dtype=exact_dtype, check_device=exact_device,
                check_layout=exact_layout, check_stride=exact_stride,
            )  # fmt: skip
        except AssertionError as error:
            text = str(error)
            raise self.failureException(msg(text) if callable(msg) else text if msg is None else f"{text}\n{msg}") from None  # fmt: skip

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None, **kwargs: Any) -> None:  # type: ignore[override]  # fmt: skip
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertExpectedInline(
        self, actual: Any, expect: str, skip: int = 0, ignore_comments: bool = False, ignore_empty_lines: bool = False
    ) -> None:
        """The text is what the test says. It is not rewritten in the file."""
        texts = [str(actual), expect]
        if ignore_comments:
            texts = ["\n".join(line for line in t.split("\n") if not line.strip().startswith("#")) for t in texts]
        if ignore_empty_lines:
            texts = ["\n".join(line for line in t.split("\n") if line.strip()) for t in texts]
        self.assertMultiLineEqual(texts[1], texts[0])

    def assertExpectedRaisesInline(
        self, exc_type: type[BaseException], callable: Callable, expect: str, *args: Any, **kwargs: Any
    ) -> None:
        """It raises this, with this text."""
        with self.assertRaises(exc_type) as caught:
            callable(*args, **kwargs)
        self.assertExpectedInline(str(caught.exception), expect)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        """The block warns, although it may have done so before."""
        before = switches.is_warn_always_enabled()
        switches.set_warn_always(True)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                yield
        finally:
            switches.set_warn_always(before)
        found = [w for w in caught if issubclass(w.category, category)]
        self.assertTrue(found, msg="no warning caught")
        self.assertRegex("\n".join(str(w.message) for w in found), regex)

"""Modules about devices and libraries that are not there, and the program's switches: answers, refusals, flags."""

from __future__ import annotations

import warnings

import pytest

import tocha


@pytest.fixture(autouse=True)
def _switches_as_before():
    yield
    tocha.use_deterministic_algorithms(False)
    tocha.set_float32_matmul_precision("highest")


def test_cuda_answers():
    cuda = tocha.cuda
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
    assert cuda.memory_allocated() == cuda.max_memory_reserved() == 0 and cuda.memory_stats() == {}
    assert cuda.get_rng_state_all() == [] and cuda.get_arch_list() == [] and not cuda.is_bf16_supported()
    for passes in (cuda.empty_cache, cuda.seed_all, lambda: cuda.manual_seed_all(3), lambda: cuda.set_device(-1)):
        assert passes() is None
    with cuda.device(-1), cuda.device_of(tocha.ones(1)), cuda.stream(None):
        assert tocha.ones(1).item() == 1.0
    assert issubclass(cuda.OutOfMemoryError, RuntimeError) and cuda.OutOfMemoryError is tocha.OutOfMemoryError


@pytest.mark.parametrize(
    "name", ["init", "current_device", "synchronize", "get_device_name", "mem_get_info", "current_stream"]
)
def test_cuda_refuses_what_needs_a_device(name):
    with pytest.raises(AssertionError, match=r"^Tocha not compiled with CUDA enabled$"):
        getattr(tocha.cuda, name)()


def test_cuda_refuses_streams_devices_and_marks():
    with pytest.raises(RuntimeError, match=r"tocha.cuda.Stream requires CUDA support"):
        tocha.cuda.Stream()
    with pytest.raises(RuntimeError, match="without CUDA support"), tocha.cuda.device(0):
        pass
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        tocha.cuda.device("cpu")
    with pytest.raises(RuntimeError, match="NVTX"), tocha.cuda.nvtx.range("step"):
        pass
    with pytest.warns(FutureWarning, match=r"renamed to `tocha.cuda.memory_reserved`"):
        assert tocha.cuda.memory_cached() == 0


def test_older_mixed_precision():
    a = tocha.ones(2, 2)
    with pytest.warns(FutureWarning, match=r"tocha.amp.autocast\('cpu'"):
        region = tocha.cpu.amp.autocast()
    with region:
        assert (a @ a).dtype == tocha.bfloat16
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tocha.cuda.amp.autocast():
            assert (a @ a).dtype == tocha.float32
        assert not tocha.cuda.amp.GradScaler().is_enabled() and tocha.cpu.amp.GradScaler().is_enabled()
    with pytest.warns(UserWarning, match="CUDA is not available"):
        tocha.autocast("cuda")
    assert tocha.GradScaler is tocha.amp.GradScaler and tocha.cuda.amp.amp_definitely_not_available()


def test_cpu_has_one_device_and_nothing_to_wait_for():
    cpu = tocha.cpu
    assert cpu.is_available() and cpu.device_count() == 1 and cpu.current_device() == "cpu"
    cpu.synchronize()
    mine = cpu.Stream()
    with cpu.stream(mine):
        assert cpu.current_stream() is mine
    assert cpu.current_stream() is not mine and cpu.Event().query()
    assert cpu.get_capabilities()["capability"] == tocha.backends.cpu.get_cpu_capability()


def test_accelerator_is_none():
    assert not tocha.accelerator.is_available() and tocha.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="none is available"):
        tocha.accelerator.synchronize()
    for name in ("get_device_capability", "empty_host_cache", "reset_accumulated_memory_stats", "current_device_idx"):
        assert name in tocha.accelerator.__all__
        with pytest.raises(RuntimeError, match="none is available"):
            getattr(tocha.accelerator, name)()


def test_device_modules():
    assert tocha.get_device_module() is tocha.cpu and tocha.get_device_module("cuda:1") is tocha.cuda
    with pytest.raises(RuntimeError, match="'meta' does not have a corresponding module"):
        tocha.get_device_module("meta")
    with pytest.raises(RuntimeError, match="Invalid value of device '3'"):
        tocha.get_device_module(3)


def test_backends_are_what_is_there():
    b = tocha.backends
    absent = (b.cudnn, b.mkldnn, b.mkl, b.openmp, b.mps, b.nnpack, b.kleidiai, b.cusparselt, b.opt_einsum)
    assert not any(m.is_available() for m in absent) and not b.cuda.is_built() and not b.mps.is_built()
    assert b.cudnn.version() is None and not b.cudnn.is_acceptable(tocha.ones(1))
    with pytest.raises(RuntimeError, match="built without MKL"), b.mkl.verbose(b.mkl.VERBOSE_ON):
        pass
    with b.mkldnn.verbose(b.mkldnn.VERBOSE_OFF):
        pass


def test_flags_are_checked_and_held():
    cudnn = tocha.backends.cudnn
    cudnn.benchmark = True
    try:
        with cudnn.flags(enabled=False, deterministic=True):
            assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, True, False)
        assert cudnn.set_flags(_benchmark=False)[:2] == (True, True) and not cudnn.benchmark
        for bad in (1, "yes", None):
            with pytest.raises(RuntimeError, match="benchmark expects a bool, but got"):
                cudnn.benchmark = bad
        with pytest.raises(RuntimeError, match="Unknown precision: half"):
            cudnn.conv.fp32_precision = "half"
    finally:
        cudnn.benchmark = False
    with tocha.backends.mkldnn.flags(enabled=False):
        assert not tocha.backends.mkldnn.enabled
    assert tocha.backends.mkldnn.enabled


def test_matmul_precision_is_one_switch_under_two_names():
    matmul = tocha.backends.cuda.matmul
    assert not matmul.allow_tf32
    tocha.set_float32_matmul_precision("medium")
    assert matmul.allow_tf32
    matmul.allow_tf32 = False
    assert tocha.get_float32_matmul_precision() == "highest"
    with pytest.warns(UserWarning, match="foo is not one of 'highest', 'high', or 'medium'"):
        tocha.set_float32_matmul_precision("foo")
    assert tocha.get_float32_matmul_precision() == "highest"
    with pytest.raises(RuntimeError, match="expects a str, but got int"):
        tocha.set_float32_matmul_precision(3)
    with pytest.raises(AttributeError, match="Unknown attribute foo"):
        matmul.foo = True


def test_attention_is_refused_when_no_implementation_is_left():
    cuda, q = tocha.backends.cuda, tocha.ones(1, 2, 2)
    cuda.enable_flash_sdp(False)
    try:
        assert not cuda.flash_sdp_enabled() and cuda.math_sdp_enabled()
        assert tocha.nn.functional.scaled_dot_product_attention(q, q, q).sum() == 4
        cuda.enable_math_sdp(False)
        with pytest.raises(RuntimeError, match="No viable backend"):
            tocha.nn.functional.scaled_dot_product_attention(q, q, q)
    finally:
        cuda.enable_flash_sdp(True)
        cuda.enable_math_sdp(True)
    assert tocha.nn.functional.scaled_dot_product_attention(q, q, q).sum() == 4
    with pytest.raises(RuntimeError, match="expects a bool"):
        cuda.enable_math_sdp(1)


def test_deterministic_modes():
    modes = []
    for mode in ("warn", 2, "default", True):
        tocha.set_deterministic_debug_mode(mode)
        asked = tocha.are_deterministic_algorithms_enabled(), tocha.is_deterministic_algorithms_warn_only_enabled()
        modes.append((tocha.get_deterministic_debug_mode(), *asked))
    assert modes == [(1, True, True), (2, True, False), (0, False, False), (1, True, True)]
    for bad, error in (("foo", RuntimeError), (7, RuntimeError), (1.5, TypeError)):
        with pytest.raises(error, match="debug_mode"):
            tocha.set_deterministic_debug_mode(bad)
    with pytest.raises(TypeError, match="must be bool, not int"):
        tocha.use_deterministic_algorithms(1)
    assert tocha.utils.deterministic.fill_uninitialized_memory is True
    tocha.use_deterministic_algorithms(False)


def test_writes_to_one_place_come_in_order_however_many_threads():
    index = tocha.randint(0, 50, (200_000,))
    values = tocha.rand(200_000)
    last = tocha.zeros(50, dtype=tocha.long)
    last[index] = tocha.arange(200_000)
    assert bool((tocha.zeros(50).put_(index, values) == values[last]).all())


def test_config_tells_of_the_build():
    text = tocha.__config__.show()
    assert tocha.__version__ in text and tocha.backends.cpu.get_cpu_capability() in text
    assert f"{tocha._C._matrix_units()['int8'] or 'none'} for int8" in text
    assert f"tocha.get_num_threads() : {tocha.get_num_threads()}" in tocha.__config__.parallel_info()

"""torch.mps in a build without Apple's GPUs: questions are answered no, all else is refused."""

from tocha._core.absent_device import names_of

globals().update(
    names_of("MPS", "Tocha not compiled with MPS enabled", RuntimeError,
    """Event compile_shader load_metallib get_rng_state set_rng_state synchronize set_per_process_memory_fraction current_allocated_memory
    driver_allocated_memory recommended_max_memory""")
)  # fmt: skip
__all__ = [_n for _n in globals() if not _n.startswith("_") and _n != "names_of"]

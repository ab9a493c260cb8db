"""torch.xpu in a build without Intel's GPUs: questions are answered no, all else is refused."""

from tocha._core.absent_device import names_of

default_generators: tuple = ()
globals().update(
    names_of("XPU", "Tocha not compiled with XPU enabled", AssertionError,
    """Event Stream StreamContext MemPool XPUGraph current_device current_stream get_device_capability get_device_name get_device_properties
    get_rng_state get_rng_state_all set_rng_state set_rng_state_all init initial_seed max_memory_allocated max_memory_reserved mem_get_info
    memory_allocated memory_reserved memory_stats memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats set_device
    set_stream stream synchronize device device_of get_arch_list get_gencode_flags get_stream_from_external can_device_access_peer
    XPUPluggableAllocator change_current_allocator clock_rate device_memory_used get_per_process_memory_fraction graph graph_pool_handle
    make_graphed_callables memory_snapshot memory_usage power_draw use_mem_pool set_per_process_memory_fraction temperature utilization""")
)  # fmt: skip
__all__ = [_n for _n in globals() if not _n.startswith("_") and _n != "names_of"]

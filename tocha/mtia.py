"""torch.mtia in a build without Meta's accelerators: questions are answered no, all else is refused."""

from tocha._core.absent_device import names_of

globals().update(
    names_of("MTIA", "Tocha not compiled with MTIA enabled", AssertionError,
    """MTIAGraph Event Stream StreamContext init synchronize current_device current_stream default_stream memory_stats max_memory_allocated
    memory_allocated reset_peak_memory_stats get_device_capability get_device_properties record_memory_history snapshot
    attach_out_of_memory_observer set_device set_stream stream device set_rng_state get_rng_state set_rng_state_all get_rng_state_all initial_seed
    graph graph_pool_handle""")
)  # fmt: skip
__all__ = [_n for _n in globals() if not _n.startswith("_") and _n != "names_of"]

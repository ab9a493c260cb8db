"""The settings of capture: name, type, default, what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha.utils import _config_module

_TABLE: _config_module.Table = {
    "recompile_limit": (int, 8, "how often one function is captured before it runs uncaptured"),
    "accumulated_recompile_limit": (int, 256, "the same over all of a function's captures, whatever their backend"),
    "fail_on_recompile_limit_hit": (bool, False, "raise when the limit is reached, instead of a warning"),
    "suppress_errors": (
        bool,
        False,
        "when capturing or a backend fails, run the function uncaptured",
        "TORCHDYNAMO_SUPPRESS_ERRORS",
    ),
    "verbose": (bool, False, "longer messages", "TORCHDYNAMO_VERBOSE"),
    "disable": (bool, False, "compile() returns functions as they are", "TORCHDYNAMO_DISABLE"),
    "assume_static_by_default": (bool, True, "sizes are constants until one changes"),
    "automatic_dynamic_shapes": (bool, True, "a size that changed becomes a symbol"),
    "capture_scalar_outputs": (bool, False, "Tensor.item() in graphs", "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS"),
    "capture_dynamic_output_shape_ops": (bool, False, "operators whose result's size depends on elements in graphs"),
    "specialize_int": (bool, False, "ints are constants even after they changed"),
    "specialize_float": (bool, False, "floats are constants even after they changed"),
    "allow_unspec_int_on_nn_module": (bool, False, "ints of modules become symbols when they change"),
    "inline_inbuilt_nn_modules": (bool, True, "modules are gone through"),
    "guard_nn_modules": (bool, True, "modules are guarded"),
    "error_on_recompile": (bool, False, "raise when a function is captured again"),
    "trace_autograd_ops": (bool, False, "backward() and requires_grad_() of what captured code computes, in graphs"),
    "compiled_autograd": (bool, False, "backward() in compiled functions becomes graphs too"),
    "compiled_autograd_kwargs_override": (
        dict,
        {},
        "arguments of compile() for these graphs, in place of the function's own",
    ),
    "ignore_logging_functions": (set, set(), "functions whose calls are left out of captured code"),
    "reorderable_logging_functions": (
        set,
        set(),
        "functions whose calls are made after the graph has run, not where they stand",
    ),
    "allow_rnn": (bool, False, "recurrent modules in graphs"),
    "skip_nnmodule_hook_guards": (bool, True, "hooks are guarded only where modules have some"),
    "force_parameter_static_shapes": (bool, True, "sizes of parameters are constants"),
    "error_on_graph_break": (bool, False, "a graph break is an error"),
    "error_on_nested_fx_trace": (bool, True, "calls of compiled functions while fx traces symbolically are errors"),
    "repro_after": (
        (str, type(None)),
        None,
        "'dynamo' or 'aot': a compilation that fails or errs leaves a small script",
        "TORCHDYNAMO_REPRO_AFTER",
    ),
    "repro_level": (
        int,
        2,
        "1: the whole graph as a script; 2 and 3: reduced, 4: results are compared with eager's too",
        "TORCHDYNAMO_REPRO_LEVEL",
    ),
    "repro_tolerance": (float, 1e-3, "by how much compiled and eager may differ at level 4"),
    "debug_dir_root": (str, "", "where scripts and debug folders are made; the current folder, if it is empty"),
}


# Settings of PyTorch's that nothing here depends on: whoever changes one is told so, once.
_WITHOUT_EFFECT: dict[str, Any] = {
    "allow_empty_graphs": False, "allow_ignore_mark_dynamic": False, "allowed_functions_module_string_ignorelist": set(), "assume_dunder_attributes_remain_unchanged": True,
    "automatic_dynamic_exclusion_guard": False, "automatic_dynamic_local_pgo": True, "automatic_dynamic_remote_pgo": None, "automatic_dynamic_shapes_mark_as": "dynamic",
    "base_dir": "", "caching_precompile": False, "capture_autograd_function": True, "capture_func_transforms": True, "capture_profiler_record_function": False,
    "capture_sparse_compute": True, "constant_fold_autograd_profiler_enabled": False, "cprofile": False, "cudagraph_backend_keep_input_mutation": False,
    "cudagraph_backend_support_input_mutation": False, "dead_code_elimination": None, "debug_backend_override": "", "debug_disable_compile_counter": False,
    "debug_dynamo_config_override": "", "debug_force_graph_break_on_leaf_return": False, "debug_force_nested_calls": False, "debug_inductor_config_override": "",
    "do_not_emit_runtime_asserts": False, "dont_skip_tracing": False, "dynamic_shapes": True, "dynamo_profiler": False, "enable_aot_compile": True,
    "enable_compiler_collectives": False, "enable_cpp_framelocals_guard_eval": True, "enable_cpp_guard_manager": True, "enable_cpp_symbolic_shape_guards": False,
    "enable_dynamo_decompositions": True, "enable_faithful_generator_behavior": True, "enable_invoke_subgraph_regional_compile": False, "enable_p2p_compilation": False,
    "enable_trace_contextlib": True, "enable_trace_load_build_class": False, "enable_trace_unittest": False, "error_on_dynamo_callback_in_fullgraph_compiled_code": False,
    "error_on_nested_jit_trace": True, "fake_tensor_cache_crosscheck_enabled": False, "fake_tensor_cache_enabled": True,
    "fake_tensor_disable_inference_mode": True, "force_compile_during_fx_trace": False, "force_nn_module_property_static_shapes": True,
    "force_unspec_int_unbacked_size_like_on_torchrec_kjt": False, "generate_pycode": False, "graph_break_on_nn_param_ctor": True, "graph_deduplication_lint": False,
    "guard_nn_modules_using_dict_tags": True, "inject_BUILD_SET_unimplemented_TESTING_ONLY": False, "inline_invoke_subgraph": False, "inline_single_use_invoke_subgraph": True,
    "inline_torch_dispatch_torch_compile": True, "install_free_tensors": False, "install_free_tensors_for_export": True, "invalidate_compile_context_weakrefs": None,
    "issue_3_13_0_warning": True, "leaf_function_check_escaped_gradients": False, "leaf_function_validate_outputs": False, "log_compilation_metrics": True, "log_file_name": None,
    "log_graph_in_out_metadata": False, "max_saved_pointers_for_recursive_dict_tags_check": 256, "minimum_call_count": 1, "nested_graph_breaks": False,
    "nontraceable_tensor_subclasses": set(), "numpy_default_complex": "complex128", "numpy_default_float": "float64", "numpy_default_int": "int64", "only_allow_pt2_compliant_ops": False,
    "optimize_ddp": True, "optimize_ddp_lazy_compile": False, "prefer_deferred_runtime_asserts_over_guards": False, "prepare_freezing": False, "pt2_compile_id_prefix": None,
    "raise_on_ctx_manager_usage": True, "raise_on_unsafe_aot_autograd": False, "record_compile_time_instruction_count": False, "record_runtime_overhead": True,
    "replay_record_enabled": False, "replay_side_effects": True, "report_guard_failures": True, "repro_forward_only": False, "repro_ignore_non_fp": False,
    "rewrite_assert_with_torch_assert": True, "run_gc_after_compile": True, "same_two_models_use_fp64": True,
    "side_effect_replay_policy": "info", "skip_code_recursive_on_recompile_limit_hit": True, "skip_fsdp_guards": True, "skip_fwd_side_effects_in_bwd_under_checkpoint": False,
    "skip_guards_on_constant_func_defaults": False, "skip_no_tensor_aliasing_guards_on_parameters": True, "skip_tensor_guards_with_matching_dict_tags": True, "skip_torchrec": True,
    "skipfiles_inline_module_allowlist": {}, "strict_precompile": False, "trace_numpy": True, "traceable_tensor_subclasses": set(),
    "track_nodes_for_deduplication": False, "use_graph_deduplication": False, "use_lamba_guard_for_object_aliasing": True, "use_lazy_graph_module": True,
    "use_numpy_random_stream": False, "use_recursive_dict_tags_for_guards": False, "verify_correctness": False, "wrap_top_frame": False,
}  # fmt: skip
_ALIASES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_cache_limit_hit": "fail_on_recompile_limit_hit",
    "skip_code_recursive_on_cache_limit_hit": "skip_code_recursive_on_recompile_limit_hit",
    "ignore_logger_methods": "ignore_logging_functions",
}


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


_config_module.install(__name__, _TABLE, _WITHOUT_EFFECT, _ALIASES, or_none=True)

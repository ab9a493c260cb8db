"""The generator that the build runs: from the operator records to C++ kernels, functions and bindings."""

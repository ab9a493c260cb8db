"""The compiler's back end: graphs of recorded operators become loops, fused kernels, one native module."""

"""Settings of tocha.fx, under PyTorch's names. The names about progress have no effect here."""

from __future__ import annotations

disable_progress = True
verbose_progress = False
# Leaves the `# File: ...` lines out of printed code.
do_not_emit_stack_traces = False

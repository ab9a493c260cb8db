"""`import torch` means tocha: the finder, what is stamped, and the commands. See docs/inside/alias.md."""

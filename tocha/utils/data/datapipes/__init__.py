"""Data pipes: the base classes, and how a pipe becomes a method of the others. Ready-made pipes are not built."""

"""Dispatch in Python."""

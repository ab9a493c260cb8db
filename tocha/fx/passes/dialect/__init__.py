"""Passes for graphs of a certain form."""

"""Passes for graphs of any form."""

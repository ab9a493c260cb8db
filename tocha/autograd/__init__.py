"""Differentiation."""

"""Quasi-random numbers: points that fill a cube more evenly than random ones."""

from tocha.quasirandom._sobol import SobolEngine

__all__ = ["SobolEngine"]

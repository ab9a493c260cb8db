"""Differentiation of graphs ahead of time: functional form, joint graphs, partitions."""

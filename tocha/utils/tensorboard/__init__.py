"""Logs for TensorBoard, on the package tensorboard."""

from tocha.utils.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]

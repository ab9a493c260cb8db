"""Logs for TensorBoard, on the package tensorboard."""

from tocha.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]

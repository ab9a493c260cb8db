"""SummaryWriter on the tensorboard package, where it is installed: scalars, texts, histograms, images, parameters of runs."""

from __future__ import annotations

import importlib
import io
import os
import socket
import time
from typing import Any

import numpy as np

from tocha import _C

__all__ = ["SummaryWriter"]


def _part(name: str) -> Any:
    """A module of the tensorboard package."""
    try:
        return importlib.import_module(f"tensorboard.{name}")
    except ImportError as error:
        raise ModuleNotFoundError("[SummaryWriter] needs the package tensorboard: pip install tensorboard") from error


def _array(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, _C.Tensor) else np.asarray(values)


def _default_limits() -> np.ndarray:
    """TensorBoard's own: each bucket a tenth wider than the one nearer to zero."""
    positive = 1e-12 * 1.1 ** np.arange(int(np.log(1e32) / np.log(1.1)) + 1)
    return np.concatenate([-positive[::-1], [0.0], positive])


class SummaryWriter:
    """Writes event files that TensorBoard shows."""

    def __init__(self, log_dir: str | None = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
                 flush_secs: int = 120, filename_suffix: str = ""):  # fmt: skip
        if not log_dir:
            log_dir = os.path.join("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        writer = _part("summary.writer.event_file_writer").EventFileWriter
        self._writer = writer(self.log_dir, max_queue, flush_secs, filename_suffix)
        self._proto = _part("compat.proto.summary_pb2")
        self._event = _part("compat.proto.event_pb2").Event

    def get_logdir(self) -> str:
        """The folder of the files."""
        return self.log_dir

    def _add(self, step: int | None, walltime: float | None, **fields: Any) -> None:
        summary = self._proto.Summary(value=[self._proto.Summary.Value(**fields)])
        event = self._event(wall_time=time.time() if walltime is None else walltime, summary=summary)
        if step is not None:
            event.step = int(step)
        self._writer.add_event(event)

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:  # fmt: skip
        """One number."""
        self._add(global_step, walltime, tag=tag, simple_value=float(_array(scalar_value).reshape(())))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers, each in a folder of its own."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            with SummaryWriter(folder) as writer:
                writer.add_scalar(main_tag, value, global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow", walltime: float | None = None,
                      max_bins: int | None = None) -> None:  # fmt: skip
        """How values are distributed."""
        found = _array(values).astype(np.float64).ravel()
        if found.size == 0:
            raise ValueError("The input has no element.")
        counts, limits = np.histogram(found, bins=_default_limits() if bins == "tensorflow" else bins)
        held = np.flatnonzero(counts)
        counts, limits = counts[held[0] : held[-1] + 1], limits[held[0] : held[-1] + 2]
        histogram = self._proto.HistogramProto(
            min=found.min(), max=found.max(), num=found.size, sum=found.sum(), sum_squares=found.dot(found),
            bucket_limit=limits[1:].tolist(), bucket=counts.tolist(),
        )  # fmt: skip
        self._add(global_step, walltime, tag=tag, histo=histogram)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text."""
        tensor = _part("compat.proto.tensor_pb2").TensorProto(dtype="DT_STRING", string_val=[text_string.encode()])
        plugin = self._proto.SummaryMetadata(plugin_data=self._proto.SummaryMetadata.PluginData(plugin_name="text"))
        self._add(global_step, walltime, tag=f"{tag}/text_summary", metadata=plugin, tensor=tensor)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture, of floats from 0 to 1 or of bytes."""
        image = _array(img_tensor)
        if dataformats != "HW":
            image = image.transpose([dataformats.index(c) for c in "HWC"])
        image = image if image.dtype == np.uint8 else np.clip(image * 255, 0, 255).astype(np.uint8)
        buffer = io.BytesIO()
        picture = importlib.import_module("PIL.Image").fromarray(
            image.squeeze(-1) if image.shape[-1:] == (1,) else image
        )
        picture.save(buffer, format="PNG")
        made = self._proto.Summary.Image(
            height=image.shape[0], width=image.shape[1], colorspace=3, encoded_image_string=buffer.getvalue()
        )
        self._add(global_step, walltime, tag=tag, image=made)

    def add_hparams(self, hparam_dict: dict, metric_dict: dict, hparam_domain_discrete: Any = None, run_name: str | None = None,
                    global_step: int | None = None) -> None:  # fmt: skip
        """Refused: it writes for a plugin that is not built."""
        raise NotImplementedError("[SummaryWriter.add_hparams] is not built in tocha")

    def add_graph(self, *args: Any, **kwargs: Any) -> None:
        """Refused: it draws a traced program."""
        raise NotImplementedError("[SummaryWriter.add_graph] draws traced programs, which are not built in tocha")

    def flush(self) -> None:
        """Writes what waits."""
        self._writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the file."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

"""SummaryWriter on the tensorboard package, where it is installed: event files that TensorBoard shows."""

from __future__ import annotations

import importlib
import math
import os
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn
from urllib.parse import quote

import numpy as np

from tocha.utils.tensorboard import summary as made_of
from tocha.utils.tensorboard.summary import array, part

__all__ = ["FileWriter", "SummaryWriter"]


def _default_limits() -> list[float]:
    """TensorBoard's own: each bucket a tenth wider than the one nearer to zero."""
    positive = [1e-12]
    while positive[-1] * 1.1 < 1e20:
        positive.append(positive[-1] * 1.1)
    return [*(-x for x in reversed(positive)), 0.0, *positive]


def _pixels(figure: Any) -> np.ndarray:
    """A figure of matplotlib's as bytes (channels, height, width)."""
    canvas = importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1)


class FileWriter:
    """Writes events to a file of a folder."""

    def __init__(self, log_dir: str, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""):
        writer = part("summary.writer.event_file_writer").EventFileWriter
        self.event_writer = writer(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an event, which gets a time and a step."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes a summary."""
        self.add_event(part("compat.proto.event_pb2").Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Writes what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Opens the file again."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes event files that TensorBoard shows.

    With purge_step TensorBoard forgets what was written at that step and later by a run that crashed.
    """

    def __init__(self, log_dir: str | None = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
                 flush_secs: int = 120, filename_suffix: str = ""):  # fmt: skip
        if not log_dir:
            log_dir = os.path.join("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.default_bins = _default_limits()
        self._get_file_writer()

    def _open(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """The writer of this folder; after close() a new one."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                event = part("compat.proto.event_pb2")
                started = event.SessionLog(status=event.SessionLog.START)
                self.file_writer.add_event(event.Event(file_version="brain.Event:2"), self.purge_step)
                self.file_writer.add_event(event.Event(session_log=started), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder of the files."""
        return self.log_dir

    def _add(self, summary: Any, step: int | None = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    # -- numbers -------------------------------------------------------------------------------------------

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:  # fmt: skip
        """One number."""
        found = made_of.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(found, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Several numbers, each in a folder of its own: TensorBoard draws them into one chart."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self._get_file_writer().get_logdir(), f"{main_tag.replace('/', '_')}_{tag}")
            assert self.all_writers is not None
            if folder not in self.all_writers:
                self.all_writers[folder] = self._open(folder)
            self.all_writers[folder].add_summary(made_of.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """A tensor as it is."""
        self._add(made_of.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow", walltime: float | None = None,
                      max_bins: int | None = None) -> None:  # fmt: skip
        """How values are distributed."""
        limits = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(made_of.histogram(tag, values, limits, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any, bucket_limits: Sequence, bucket_counts: Sequence,
                          global_step: int | None = None, walltime: float | None = None) -> None:  # fmt: skip
        """A distribution that was counted elsewhere."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        found = made_of.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(found, global_step, walltime)

    # -- pictures and sound --------------------------------------------------------------------------------

    def add_image(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                  dataformats: str = "CHW") -> None:  # fmt: skip
        """A picture, of floats from 0 to 1 or of bytes."""
        self._add(made_of.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                   dataformats: str = "NCHW") -> None:  # fmt: skip
        """Several pictures of one size, in rows."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                             rescale: float = 1, dataformats: str = "CHW", labels: Any = None) -> None:  # fmt: skip
        """A picture with boxes on it (left, top, right, bottom)."""
        names = [labels] if isinstance(labels, str) else labels
        if names is not None and len(names) != len(box_tensor):
            names = None
        found = made_of.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, names)
        self._add(found, global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None) -> None:  # fmt: skip
        """A figure of matplotlib's, or several of one size; then they are closed."""
        if isinstance(figure, list):
            self.add_image(tag, np.stack([_pixels(f) for f in figure]), global_step, walltime, "NCHW")
        else:
            self.add_image(tag, _pixels(figure), global_step, walltime)
        if close:
            for f in figure if isinstance(figure, list) else [figure]:
                importlib.import_module("matplotlib.pyplot").close(f)

    def add_video(self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4, walltime: float | None = None) -> None:  # fmt: skip
        """Moving pictures (count, time, channels, height, width)."""
        self._add(made_of.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100, walltime: float | None = None) -> None:  # fmt: skip
        """Sound of one channel, from -1 to 1."""
        self._add(made_of.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    # -- texts, curves, charts, meshes -----------------------------------------------------------------------

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text, in Markdown."""
        self._add(made_of.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
                     weights: Any = None, walltime: float | None = None) -> None:  # fmt: skip
        """Precision and recall of predictions from 0 to 1 at thresholds between."""
        self._add(made_of.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
                         false_negative_counts: Any, precision: Any, recall: Any, global_step: int | None = None, num_thresholds: int = 127,
                         weights: Any = None, walltime: float | None = None) -> None:  # fmt: skip
        """Precision and recall that were computed elsewhere."""
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        self._add(made_of.pr_curve_raw(tag, *counts, precision, recall, num_thresholds), global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Charts of several numbers, by category and title."""
        self._add(made_of.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A chart of several numbers."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A chart of a number between two others."""
        if len(tags) != 3:
            raise AssertionError(f"[add_custom_scalars_marginchart] takes three tags, got {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(self, tag: str, vertices: Any, colors: Any = None, faces: Any = None, config_dict: Any = None,
                 global_step: int | None = None, walltime: float | None = None) -> None:  # fmt: skip
        """Points in space (batch, count, 3), perhaps with colors and triangles."""
        self._add(made_of.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    # -- vectors of things -----------------------------------------------------------------------------------

    def add_embedding(self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: int | None = None, tag: str = "default",
                      metadata_header: list[str] | None = None) -> None:  # fmt: skip
        """Vectors (count, size) of things for TensorBoard's projector, perhaps with their names and pictures."""
        values = array(mat)
        if values.ndim != 2:
            raise AssertionError("[add_embedding] mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(metadata) != len(values):
            raise AssertionError("[add_embedding] #labels should equal with #data points")
        if label_img is not None and len(label_img) != len(values):
            raise AssertionError("[add_embedding] #images should equal with #data points")
        projector = part("plugins.projector.projector_config_pb2")
        step = f"{global_step or 0:05d}"
        inside = os.path.join(step, quote(tag, safe=""))
        folder = os.path.join(self._get_file_writer().get_logdir(), inside)
        if os.path.exists(folder):
            print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
        os.makedirs(folder, exist_ok=True)
        info = projector.EmbeddingInfo(tensor_name=f"{tag}:{step}", tensor_path=os.path.join(inside, "tensors.tsv"))
        _write_rows(os.path.join(folder, "tensors.tsv"), values.tolist())
        if metadata is not None:
            info.metadata_path = os.path.join(inside, "metadata.tsv")
            rows = [row if isinstance(row, list | tuple) else [row] for row in metadata]
            if metadata_header is not None and any(len(row) != len(metadata_header) for row in rows):
                raise AssertionError("[add_embedding] len of header must be equal to the number of columns in metadata")
            _write_rows(os.path.join(folder, "metadata.tsv"), [metadata_header, *rows] if metadata_header else rows)
        if label_img is not None:
            info.sprite.image_path = os.path.join(inside, "sprite.png")
            info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
            _save_sprite(os.path.join(folder, "sprite.png"), array(label_img))
        as_text = importlib.import_module("google.protobuf.text_format").MessageToString
        with open(os.path.join(self._get_file_writer().get_logdir(), "projector_config.pbtxt"), "a") as file:
            file.write(as_text(projector.ProjectorConfig(embeddings=[info])))

    # -- runs ------------------------------------------------------------------------------------------------

    def add_hparams(self, hparam_dict: dict, metric_dict: dict, hparam_domain_discrete: Any = None, run_name: str | None = None,
                    global_step: int | None = None) -> None:  # fmt: skip
        """The parameters of a run and its results, in a folder of its own."""
        found = made_of.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))) as run:
            for message in found:
                run._add(message, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True) -> NoReturn:  # fmt: skip
        """Refused: it draws a traced program."""
        raise NotImplementedError("[SummaryWriter.add_graph] draws traced programs, which are not built in tocha")

    def add_onnx_graph(self, prototxt: Any) -> NoReturn:
        """Refused: it draws a program in ONNX."""
        raise NotImplementedError("[SummaryWriter.add_onnx_graph] draws programs in ONNX, which is not built in tocha")

    def flush(self) -> None:
        """Writes what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the files."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _write_rows(path: str, rows: list) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in rows)


def _save_sprite(path: str, images: np.ndarray) -> None:
    """Pictures (count, channels, height, width) in rows, on a square."""
    count, _, height, width = images.shape
    columns = math.ceil(math.ceil(math.sqrt(count * height * width)) / width)
    whole = made_of.in_rows(images, columns)
    side = columns * width
    square = np.zeros((max(side, len(whole)), side, whole.shape[2]), whole.dtype)
    square[: len(whole), : whole.shape[1]] = whole
    made_of.pillow(square).save(path)

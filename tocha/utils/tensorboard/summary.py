"""What TensorBoard shows, as the messages of its package: a number, a distribution, pictures, sound, text, curves, meshes.

Each function gives a Summary; a SummaryWriter puts it into a file.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import wave
from typing import Any

import numpy as np

from tocha import _C

__all__ = [
    "audio", "custom_scalars", "histogram", "histogram_raw", "hparams", "image", "image_boxes", "mesh", "pr_curve", "pr_curve_raw", "scalar",
    "tensor_proto", "text", "video",
]  # fmt: skip

_COLUMNS = 8  # pictures of a batch stand in rows of so many
_FIELDS = {  # where TensorBoard looks for the elements of a tensor
    "float32": ("DT_FLOAT", "float_val"), "float64": ("DT_DOUBLE", "double_val"), "float16": ("DT_HALF", "half_val"),
    "uint8": ("DT_UINT8", "int_val"), "uint16": ("DT_UINT16", "int_val"), "uint32": ("DT_UINT32", "uint32_val"),
    "int8": ("DT_INT8", "int_val"), "int16": ("DT_INT16", "int_val"), "int32": ("DT_INT32", "int_val"), "int64": ("DT_INT64", "int64_val"),
    "bool": ("DT_BOOL", "bool_val"), "complex64": ("DT_COMPLEX64", "scomplex_val"), "complex128": ("DT_COMPLEX128", "dcomplex_val"),
}  # fmt: skip
_TEXT, _NUMBER = 1, 3  # kinds of parameters of a run, as TensorBoard numbers them


def part(name: str) -> Any:
    """A module of the tensorboard package."""
    try:
        return importlib.import_module(f"tensorboard.{name}")
    except ImportError as error:
        raise ModuleNotFoundError("[SummaryWriter] needs the package tensorboard: pip install tensorboard") from error


def array(values: Any) -> np.ndarray:
    """A tensor, an array or a number as an array of one dim at least."""
    if isinstance(values, _C.Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype == _C.bfloat16 else values).numpy()
    if not isinstance(values, np.ndarray | np.generic | int | float | complex | str):
        raise NotImplementedError(f"[SummaryWriter] Got {type(values)}, but numpy array or torch tensor are expected.")
    return np.atleast_1d(np.asarray(values))


def _number(value: Any) -> float:
    found = array(value)
    if found.size != 1:
        raise AssertionError(
            f"[SummaryWriter] Tensor should contain one element (0 dimensions). Was given size: {found.size} and {found.ndim} dimensions."
        )
    return float(found.reshape(()))


def _summary(**fields: Any) -> Any:
    proto = part("compat.proto.summary_pb2")
    return proto.Summary(value=[proto.Summary.Value(**fields)])


def _plugin(name: str, content: bytes = b"") -> Any:
    made = part("compat.proto.summary_pb2").SummaryMetadata
    return made(plugin_data=made.PluginData(plugin_name=name, content=content))


def _tensor(kind: str, shape: Any, **values: Any) -> Any:
    sizes = part("compat.proto.tensor_shape_pb2").TensorShapeProto
    dims = sizes(dim=[sizes.Dim(size=n) for n in shape])
    return part("compat.proto.tensor_pb2").TensorProto(dtype=kind, tensor_shape=dims, **values)


def _floats(values: np.ndarray) -> Any:
    return _tensor("DT_FLOAT", values.shape, float_val=values.ravel().tolist())


# -- numbers -----------------------------------------------------------------------------------------------


def scalar(
    name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False
) -> Any:
    """One number: by itself, or in the newer way as a tensor."""
    value = _number(tensor)
    if not new_style:
        return _summary(tag=name, simple_value=value)
    kind, field = _FIELDS["float64" if double_precision else "float32"]
    made = part("compat.proto.tensor_pb2").TensorProto(dtype=kind, **{field: [value]})
    return _summary(tag=name, tensor=made, metadata=_plugin("scalars"))


def tensor_proto(tag: str, tensor: Any) -> Any:
    """A tensor as it is."""
    if tensor.dtype == _C.bfloat16:
        kind, field, values = "DT_BFLOAT16", "half_val", tensor.detach().cpu().view(_C.uint16).numpy()
    else:
        values = tensor.detach().cpu().numpy()
        kind, field = _FIELDS[values.dtype.name]
        if values.dtype == np.float16:
            values = values.view(np.uint16)
        elif values.dtype.kind == "c":
            values = values[..., None].view(values.real.dtype)
    made = _tensor(kind, tensor.shape, **{field: values.ravel().tolist()})
    return _summary(tag=tag, tensor=made, metadata=_plugin("tensor"))


def histogram_raw(name: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any, bucket_limits: Any, bucket_counts: Any) -> Any:  # fmt: skip
    """A distribution that was counted elsewhere."""
    made = part("compat.proto.summary_pb2").HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )
    return _summary(tag=name, histo=made)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How values are distributed."""
    found = array(values).astype(np.float64).ravel()
    if found.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(found, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        together = len(counts) // max_bins
        starts = np.arange(0, len(counts), together)
        counts, limits = np.add.reduceat(counts, starts), np.append(limits[starts], limits[-1])
    held = np.flatnonzero(counts)
    if not held.size:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = held[0], held[-1]  # an empty bucket before them says where the first one begins
    return histogram_raw(
        name, found.min(), found.max(), found.size, found.sum(), found.dot(found), limits[first : last + 2].tolist(),
        [0, *counts[first : last + 1].tolist()],
    )  # fmt: skip


# -- pictures ----------------------------------------------------------------------------------------------


def _grid(images: np.ndarray, columns: int) -> np.ndarray:
    """Pictures (count, height, width, channels) in rows, on black."""
    count, height, width, channels = images.shape
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    room = np.zeros((rows * columns, height, width, channels), images.dtype)
    room[:count] = images
    whole = room.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return whole.reshape(rows * height, columns * width, channels)


def _in_color(images: np.ndarray) -> np.ndarray:
    return np.repeat(images, 3, -1) if images.shape[-1] == 1 else images


def _picture(tensor: Any, dataformats: str) -> np.ndarray:
    """One picture (height, width, channels) of what the letters of dataformats say."""
    values, letters = array(tensor), dataformats.upper()
    if values.ndim != len(letters):
        raise AssertionError(
            f"[SummaryWriter] size of input tensor and input format are different. tensor shape: {values.shape}, input_format: {dataformats}"
        )
    if letters == "HW":
        values, letters = values[..., None], "HWC"
    order = "NHWC" if "N" in letters else "HWC"
    values = _in_color(values.transpose([letters.index(c) for c in order]))
    return _grid(values, _COLUMNS) if order == "NHWC" else values


def _bytes(values: np.ndarray) -> np.ndarray:
    """Colors of 0 to 255, of those or of numbers of 0 to 1."""
    scale = 1 if values.dtype == np.uint8 else 255
    return np.clip(values.astype(np.float32) * scale, 0, 255).astype(np.uint8)


def _encoded(tag: str, shape: tuple[int, ...], kind: str, pictures: list[Any], **options: Any) -> Any:
    buffer = io.BytesIO()
    pictures[0].save(buffer, format=kind, **options)
    height, width, channels = shape
    made = part("compat.proto.summary_pb2").Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=buffer.getvalue()
    )
    return _summary(tag=tag, image=made)


def in_rows(images: np.ndarray, columns: int) -> np.ndarray:
    """Pictures (count, channels, height, width) as one of bytes (height, width, channels)."""
    return _bytes(_grid(_in_color(images.transpose(0, 2, 3, 1)), columns))


def pillow(values: np.ndarray) -> Any:
    """Bytes (height, width, channels) as a picture of Pillow's."""
    return importlib.import_module("PIL.Image").fromarray(values)


def _resized(picture: Any, rescale: float) -> Any:
    size = (int(picture.width * rescale), int(picture.height * rescale))
    return picture.resize(size, importlib.import_module("PIL.Image").Resampling.LANCZOS)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, or several in rows, of floats from 0 to 1 or of bytes."""
    values = _bytes(_picture(tensor, dataformats))
    return _encoded(tag, values.shape, "PNG", [_resized(pillow(values), rescale)])


def image_boxes(tag: str, tensor_image: Any, tensor_boxes: Any, rescale: float = 1, dataformats: str = "CHW", labels: Any = None) -> Any:  # fmt: skip
    """A picture with boxes (left, top, right, bottom), and their names."""
    values = _bytes(_picture(tensor_image, dataformats))
    made = pillow(values)
    pen = importlib.import_module("PIL.ImageDraw").Draw(made)
    boxes = array(tensor_boxes)
    for box, label in zip(boxes, labels if labels is not None else [""] * len(boxes), strict=False):
        left, top, right, bottom = box.tolist()
        pen.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=2, fill="Red")
        if label:  # on a patch in the box's lower corner
            _, _, width, height = pen.textbbox((0, 0), label)
            pen.rectangle([(left, bottom - height - 1), (left + width + 1, bottom)], fill="Red")
            pen.text((left + 1, bottom - height - 1), label, fill="black")
    return _encoded(tag, values.shape, "PNG", [_resized(made, rescale)])


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """Moving pictures (count, time, channels, height, width), those of a moment in rows."""
    values = _bytes(array(tensor)).transpose(1, 0, 3, 4, 2)
    frames = [_grid(_in_color(moment), math.ceil(math.sqrt(len(moment)))) for moment in values]
    first, *others = [pillow(f) for f in frames]
    options = {"save_all": True, "append_images": others, "duration": round(1000 / fps), "loop": 0}
    return _encoded(tag, frames[0].shape, "GIF", [first], **options)


# -- sound and text ----------------------------------------------------------------------------------------


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """Sound of one channel, from -1 to 1."""
    values = array(tensor).squeeze()
    if np.abs(values).max(initial=0) > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        values = values.clip(-1, 1)
    if values.ndim != 1:
        raise AssertionError("[SummaryWriter.add_audio] input tensor should be 1 dimensional.")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes((values * np.iinfo(np.int16).max).astype("<i2").tobytes())
    made = part("compat.proto.summary_pb2").Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(values), encoded_audio_string=buffer.getvalue(), content_type="audio/wav"
    )  # fmt: skip
    return _summary(tag=tag, audio=made)


def text(tag: str, text: str) -> Any:
    """A text, in Markdown."""
    made = _tensor("DT_STRING", [1], string_val=[text.encode()])
    return _summary(tag=f"{tag}/text_summary", tensor=made, metadata=_plugin("text"))


# -- curves, charts, meshes --------------------------------------------------------------------------------


def pr_curve_raw(tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any, num_thresholds: int = 127, weights: Any = None) -> Any:  # fmt: skip
    """Precision and recall at thresholds, and what they were computed from."""
    num_thresholds = min(num_thresholds, 127)  # of more TensorBoard shows none
    rows = np.stack([np.asarray(v) for v in (tp, fp, tn, fn, precision, recall)])
    metadata = part("plugins.pr_curve.metadata").create_summary_metadata("", "", num_thresholds)
    return _summary(tag=tag, tensor=_floats(rows), metadata=metadata)


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None) -> Any:
    """Precision and recall of predictions from 0 to 1 at thresholds between."""
    count = min(num_thresholds, 127)
    truth, places = array(labels).astype(np.float64), np.floor(array(predictions) * (count - 1)).astype(np.int64)
    weight = np.float64(1.0) if weights is None else array(weights)

    def at_least(of: np.ndarray) -> np.ndarray:
        found, _ = np.histogram(places, bins=count, range=(0, count - 1), weights=of * weight)
        return found[::-1].cumsum()[::-1]

    tp, fp = at_least(truth), at_least(1 - truth)
    tn, fn = fp[0] - fp, tp[0] - tp
    tiny = 1e-7
    precision, recall = tp / np.maximum(tiny, tp + fp), tp / np.maximum(tiny, tp + fn)
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, count)


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Any:
    """Charts by category: {category: {title: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}."""
    made = part("plugins.custom_scalar.layout_pb2")

    def chart(title: str, kind: str, tags: list[str]) -> Any:
        if kind == "Multiline":
            return made.Chart(title=title, multiline=made.MultilineChartContent(tag=tags))
        value, lower, upper = tags
        series = made.MarginChartContent.Series(value=value, lower=lower, upper=upper)
        return made.Chart(title=title, margin=made.MarginChartContent(series=[series]))

    categories = [
        made.Category(title=category, chart=[chart(title, *what) for title, what in charts.items()])
        for category, charts in layout.items()
    ]
    found = _tensor("DT_STRING", [], string_val=[made.Layout(category=categories).SerializeToString()])
    return _summary(tag="custom_scalars__config__", tensor=found, metadata=_plugin("custom_scalars"))


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config_dict: Any, display_name: str | None = None, description: str | None = None) -> Any:  # fmt: skip
    """Points in space, perhaps with colors and triangles."""
    metadata, kinds = part("plugins.mesh.metadata"), part("plugins.mesh.plugin_data_pb2").MeshPluginData
    proto = part("compat.proto.summary_pb2")
    given = [(kinds.VERTEX, vertices), (kinds.FACE, faces), (kinds.COLOR, colors)]
    parts = [(kind, array(values)) for kind, values in given if values is not None]
    mask = metadata.get_components_bitmask([kind for kind, _ in parts])
    config = json.dumps(config_dict or {}, sort_keys=True)
    return proto.Summary(
        value=[
            proto.Summary.Value(
                tag=metadata.get_instance_name(tag, kind),
                tensor=_floats(values),
                metadata=metadata.create_summary_metadata(
                    tag, display_name, kind, mask, values.shape, description, json_config=config
                ),
            )
            for kind, values in parts
        ]
    )


# -- parameters of runs ------------------------------------------------------------------------------------


def _kind(value: Any, name: str) -> int:
    if isinstance(value, str):
        return _TEXT
    if isinstance(value, bool | int | float | _C.Tensor):
        return _NUMBER
    raise ValueError(f"[hparams] {name}: value should be one of int, float, str, bool, or torch.Tensor")


def hparams(hparam_dict: Any = None, metric_dict: Any = None, hparam_domain_discrete: Any = None) -> tuple[Any, Any, Any]:  # fmt: skip
    """The parameters of a run and the names of its results: three messages, the last one says that it has ended."""
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("[hparams] hparam_dict and metric_dict should be dictionary.")
    allowed = hparam_domain_discrete or {}
    if not isinstance(allowed, dict):
        raise TypeError("[hparams] hparam_domain_discrete should be a dictionary.")
    given = {name: value for name, value in hparam_dict.items() if value is not None}
    for name, values in allowed.items():
        same = name in given and isinstance(values, list) and all(isinstance(v, type(given[name])) for v in values)
        if not same:
            raise TypeError(
                f"[hparams] parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )
    api, data = part("plugins.hparams.api_pb2"), part("plugins.hparams.plugin_data_pb2")
    infos, start = [], data.SessionStartInfo()
    for name, value in given.items():
        kind = _kind(value, name)
        info = api.HParamInfo(name=name, type=kind)
        if name in allowed:
            info.domain_discrete.extend(allowed[name] if kind == _TEXT else [float(v) for v in allowed[name]])
        infos.append(info)
        if kind == _TEXT:
            start.hparams[name].string_value = value
        else:
            start.hparams[name].number_value = _number(value)
    metrics = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metric_dict]
    status = api.Status.Value("STATUS_SUCCESS")
    found = {
        "experiment": {"experiment": api.Experiment(hparam_infos=infos, metric_infos=metrics)},
        "session_start_info": {"session_start_info": start},
        "session_end_info": {"session_end_info": data.SessionEndInfo(status=status)},
    }
    first, second, third = (
        _summary(
            tag=f"_hparams_/{name}", metadata=_plugin("hparams", data.HParamsPluginData(**fields).SerializeToString())
        )
        for name, fields in found.items()
    )
    return first, second, third

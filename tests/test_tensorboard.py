"""SummaryWriter: what TensorBoard's own reader finds in the files. Skipped where its package is not installed."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest

import tocha

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray

from tocha.utils.tensorboard import SummaryWriter, summary


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path) as made:
        yield made


def written(writer):
    """What a reader finds after the writer was closed."""
    writer.close()
    return EventAccumulator(writer.get_logdir(), size_guidance={"tensors": 0, "histograms": 0}).Reload()


def values_of(writer):
    """The raw values of a writer's own files, by tag."""
    writer.close()
    files = [os.path.join(writer.get_logdir(), f) for f in os.listdir(writer.get_logdir()) if "tfevents" in f]
    events = [Event.FromString(raw) for f in files for raw in RawEventFileLoader(f).Load()]
    return {value.tag: value for e in events for value in e.summary.value}


def picture_of(value):
    return np.asarray(pytest.importorskip("PIL.Image").open(io.BytesIO(value.image.encoded_image_string)))


def test_scalars(writer):
    for step in range(3):
        writer.add_scalar("loss", tocha.tensor(1.0 / (step + 1), requires_grad=True), step, walltime=100.0 + step)
    writer.add_scalar("newer", np.float64(0.1), 4, new_style=True, double_precision=True)
    found = written(writer)
    assert [(e.step, e.wall_time) for e in found.Scalars("loss")] == [(0, 100.0), (1, 101.0), (2, 102.0)]
    assert [e.value for e in found.Scalars("loss")] == pytest.approx([1, 0.5, 1 / 3])
    (newer,) = found.Tensors("newer")
    assert make_ndarray(newer.tensor_proto) == 0.1 and newer.step == 4
    with pytest.raises(AssertionError, match="should contain one element"):
        writer.add_scalar("two", tocha.ones(2))
    with pytest.raises(NotImplementedError, match="numpy array or torch tensor are expected"):
        writer.add_scalar("none", None)


def test_scalars_of_one_chart_have_a_file_each(writer):
    for step in range(3):
        writer.add_scalars("a/b", {"x": step, "y": tocha.tensor(2 * step)}, step)
    writer.close()
    for name, factor in (("x", 1), ("y", 2)):
        folder = os.path.join(writer.get_logdir(), f"a_b_{name}")
        assert len(os.listdir(folder)) == 1
        assert [e.value for e in EventAccumulator(folder).Reload().Scalars("a/b")] == [0, factor, 2 * factor]


def test_after_close_a_new_file_is_begun(writer):
    writer.add_scalar("a", 1)
    writer.close()
    writer.add_scalar("b", 2)
    assert set(values_of(writer)) == {"a", "b"} and len(os.listdir(writer.get_logdir())) == 2


def test_histograms(writer):
    writer.add_histogram("default", tocha.tensor([1.0, 2.0, 2.0, 5.0]), 1)
    writer.add_histogram("bins", np.array([1, 2, 2, 5]), bins=[0, 1, 2, 3, 10, 20])
    writer.add_histogram("merged", tocha.arange(10.0), bins=10, max_bins=3)
    writer.add_histogram_raw("raw", 1, 5, 4, 10, 34, [2.0, 6.0], [3, 1])
    found = written(writer)
    (default,) = (e.histogram_value for e in found.Histograms("default"))
    assert (default.min, default.max, default.num, default.sum, default.sum_squares) == (1, 5, 4, 10, 34)
    limits = np.array(default.bucket_limit)
    assert limits[1:] / limits[:-1] == pytest.approx(1.1) and limits[0] < 1 < limits[1] and limits[-2] < 5 < limits[-1]
    assert sum(default.bucket) == 4 and default.bucket[0] == 0
    for name, expected in (
        ("bins", ([1, 2, 3, 10], [0, 1, 2, 1])),
        ("merged", ([0, 2.7, 5.4, 8.1, 9], [0, 3, 3, 3, 1])),
        ("raw", ([2, 6], [3, 1])),
    ):
        (value,) = (e.histogram_value for e in found.Histograms(name))
        assert (list(value.bucket_limit), list(value.bucket)) == (pytest.approx(expected[0]), expected[1])
    with pytest.raises(ValueError, match="no element"):
        writer.add_histogram("empty", tocha.zeros(0))


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64, tocha.float16, tocha.int64, tocha.uint8, tocha.bool, tocha.complex64])  # fmt: skip
def test_tensors(writer, dtype):
    x = tocha.arange(6).reshape(2, 3).to(dtype)
    writer.add_tensor("t", x, 2)
    (found,) = written(writer).Tensors("t")
    assert np.array_equal(make_ndarray(found.tensor_proto), x.numpy()) and found.step == 2


def test_pictures(writer):
    color = tocha.arange(12.0).reshape(3, 2, 2) / 12
    writer.add_image("floats", color)
    writer.add_image("bytes", (color * 255).to(tocha.uint8).permute(1, 2, 0), dataformats="HWC")
    writer.add_image("gray", color[0], dataformats="HW")
    writer.add_images("many", tocha.ones(9, 1, 2, 3, dtype=tocha.uint8))
    writer.add_image_with_boxes("boxes", tocha.zeros(3, 40, 40), tocha.tensor([[5.0, 5.0, 30.0, 30.0]]), labels="x")
    found = values_of(writer)
    expected = (color.permute(1, 2, 0).numpy() * 255).astype(np.uint8)
    assert np.array_equal(picture_of(found["floats"]), expected) and np.array_equal(
        picture_of(found["bytes"]), expected
    )
    gray = picture_of(found["gray"])
    assert gray.shape == (2, 2, 3) and np.array_equal(gray[..., 0], gray[..., 2])
    many = picture_of(found["many"])
    assert many.shape == (4, 24, 3) and many[2:, 3:].max() == 0 and many[:2].min() == 1
    assert picture_of(found["boxes"])[5, 15].tolist() == [255, 0, 0]
    with pytest.raises(AssertionError, match="input format are different"):
        writer.add_image("flat", tocha.ones(2, 2))


def test_figures(writer):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    figures = [pyplot.figure(figsize=(1, 1), dpi=20) for _ in range(2)]
    writer.add_figure("two", figures)
    writer.add_figure("open", kept := pyplot.figure(figsize=(1, 1), dpi=20), close=False)
    assert pyplot.get_fignums() == [kept.number]
    pyplot.close(kept)
    assert picture_of(values_of(writer)["two"]).shape == (20, 40, 3)


def test_sound_and_films(writer):
    writer.add_audio("a", tocha.linspace(-1, 1, 8)[None], sample_rate=8000)
    writer.add_video("v", tocha.rand(1, 3, 3, 8, 8), fps=5)
    found = values_of(writer)
    assert (found["a"].audio.sample_rate, found["a"].audio.length_frames) == (8000, 8)
    samples = np.frombuffer(found["a"].audio.encoded_audio_string[44:], "<i2")
    assert samples[0] == -32767 and samples[-1] == 32767
    film = pytest.importorskip("PIL.Image").open(io.BytesIO(found["v"].image.encoded_image_string))
    assert film.n_frames == 3 and film.info["duration"] == 200
    with pytest.raises(AssertionError, match="1 dimensional"):
        writer.add_audio("stereo", tocha.zeros(2, 8))


def test_texts_curves_and_charts(writer):
    writer.add_text("note", "**hello**", 3)
    writer.add_pr_curve("pr", tocha.tensor([0, 1, 1, 0]), tocha.tensor([0.1, 0.8, 0.3, 0.6]), num_thresholds=5)
    writer.add_custom_scalars({"T": {"a": ["Multiline", ["x/.*"]], "b": ["Margin", ["m", "lo", "hi"]]}})
    writer.add_mesh("m", tocha.zeros(1, 3, 3), faces=tocha.tensor([[[0, 1, 2]]]))
    found = values_of(writer)
    assert make_ndarray(found["note/text_summary"].tensor).tolist() == [b"**hello**"]
    assert make_ndarray(found["pr"].tensor).tolist() == pytest.approx(
        np.array([[2, 2, 1, 1, 0], [2, 1, 1, 0, 0], [0, 1, 1, 2, 2], [0, 0, 1, 1, 2], [0.5, 2 / 3, 0.5, 1, 0], [1, 1, 0.5, 0.5, 0]])
    )  # fmt: skip
    assert b"x/.*" in found["custom_scalars__config__"].tensor.string_val[0]
    assert make_ndarray(found["m_FACE"].tensor).tolist() == [[[0, 1, 2]]] and "m_COLOR" not in found


def test_embeddings(writer, tmp_path):
    writer.add_embedding(
        tocha.arange(6.0).reshape(3, 2), [["a", 1], ["b", 2], ["c", 3]], tocha.ones(3, 3, 2, 2), 2, "z", ["n", "v"]
    )
    folder = tmp_path / "00002" / "z"
    assert (folder / "tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert (folder / "metadata.tsv").read_text() == "n\tv\na\t1\nb\t2\nc\t3\n"
    assert pytest.importorskip("PIL.Image").open(folder / "sprite.png").size == (4, 4)
    assert 'tensor_name: "z:00002"' in (tmp_path / "projector_config.pbtxt").read_text()
    with pytest.raises(AssertionError, match="#labels"):
        writer.add_embedding(tocha.ones(3, 2), ["a"])


def test_parameters_of_runs(writer):
    writer.add_hparams(
        {"lr": 0.1, "n": tocha.tensor(3), "name": "x", "nothing": None}, {"accuracy": 0.5}, {"lr": [0.1, 0.2]}, "run"
    )
    writer.close()
    run = EventAccumulator(os.path.join(writer.get_logdir(), "run")).Reload()
    assert [e.value for e in run.Scalars("accuracy")] == [0.5]
    data = [
        HParamsPluginData.FromString(run.summary_metadata[f"_hparams_/{name}"].plugin_data.content)
        for name in ("experiment", "session_start_info")
    ]
    assert [info.name for info in data[0].experiment.hparam_infos] == ["lr", "n", "name"]
    assert [v.number_value for v in data[0].experiment.hparam_infos[0].domain_discrete.values] == [0.1, 0.2]
    given = data[1].session_start_info.hparams
    assert (given["lr"].number_value, given["n"].number_value, given["name"].string_value) == (0.1, 3, "x")
    with pytest.raises(ValueError, match="value should be one of"):
        summary.hparams({"x": [1]}, {})
    with pytest.raises(TypeError, match="list of same type"):
        summary.hparams({"x": 1}, {}, {"x": ["a"]})


def test_what_is_refused(writer):
    for refused in (lambda: writer.add_graph(None), lambda: writer.add_onnx_graph(None)):
        with pytest.raises(NotImplementedError, match="not built"):
            refused()

"""utils.benchmark and utils.flop_counter."""

import shutil

import pytest

import tocha
from tocha.utils.benchmark import Compare, Measurement, TaskSpec, Timer, select_unit, trim_sigfig
from tocha.utils.flop_counter import FlopCounterMode


def made(times, **spec):
    return Measurement(1, times, TaskSpec("x", "", **spec))


def test_timer():
    runs = []
    t = Timer("f()", globals={"f": lambda: runs.append(1)}, label="calls", num_threads=1)
    found = t.timeit(10)
    assert found.number_per_run == 10 and len(found.times) == 1 and len(runs) == 12
    found = t.blocked_autorange(min_run_time=0.01)
    assert len(found.times) > 1 and sum(found.raw_times) >= 0.01
    assert len(t.adaptive_autorange(min_run_time=0.001, max_run_time=0.1).times) >= 1
    with pytest.raises(ValueError, match="Currently only a `str` stmt is supported"):
        Timer(lambda: None)
    with pytest.raises(NotImplementedError):
        Timer("x").repeat()


def test_setup_and_threads():
    before = tocha.get_num_threads()
    seen = []
    Timer("note(x, tocha.get_num_threads())", "x = 3", globals={"note": lambda *a: seen.append(a)}, num_threads=2).timeit(1)  # fmt: skip
    assert seen[0] == (3, 2) and tocha.get_num_threads() == before


def test_measurements():
    m = made([1e-3, 2e-3, 3e-3, 4e-3])
    assert m.median == 2.5e-3 and m.mean == pytest.approx(2.5e-3) and m.iqr == pytest.approx(1.5e-3)
    assert m.has_warnings and "WARNING" in repr(m) and "Median: " in repr(m)
    assert not made([1e-3] * 9).has_warnings
    (merged,) = Measurement.merge([made([1.0]), made([3.0])])
    assert merged.median == 2.0
    assert (select_unit(2e-6), trim_sigfig(12345.0, 2)) == (("us", 1e-6), 12000.0)
    assert trim_sigfig(0.123456, 3) == float(tocha.tensor(0.123))  # float32 computes it


def test_tables():
    found = [
        made([1e-6 * n * (1 + j)], label="add", sub_label=f"{n}", description=d)
        for n in (1, 2)
        for j, d in enumerate(("ours", "theirs"))
    ]
    table = Compare(found)
    lines = str(table).splitlines()
    assert lines[0].strip("[]-").strip() == "add" and "ours" in lines[1] and "theirs" in lines[1]
    assert lines[3].split() == ["1", "|", "1", "|", "2"] and lines[4].split() == ["2", "|", "2", "|", "4"]
    assert "Times are in microseconds (us)." in str(table)
    table.colorize()
    assert "\033[" in str(table)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        Compare([1])


def test_instructions_are_counted_where_something_counts_them():
    t = Timer("x.sin()", "x = tocha.ones(4)")
    if shutil.which("valgrind") is None and shutil.which("perf") is None:
        with pytest.raises(OSError, match="Could not find callgrind"):
            t.collect_callgrind()
    else:
        try:
            found = t.collect_callgrind(number=1000)
        except OSError as reason:
            pytest.skip(f"the counter does not work on this machine: {reason}")
        assert found.counts() > 1000


def test_flops_of_forward_and_backward():
    layer = tocha.nn.Linear(4, 5)
    with FlopCounterMode(display=False) as counted:
        layer(tocha.ones(3, 4, requires_grad=True)).sum().backward()
    assert counted.get_total_flops() == 3 * 120
    assert sum(counted.get_flop_counts()["Linear"].values()) >= 120
    assert "Linear" in counted.get_table()


def test_a_formula_of_ones_own():
    with FlopCounterMode(display=False, custom_mapping={tocha.ops.aten.sin: lambda x, out_shape=None: x[0]}) as counted:
        tocha.ones(7).sin()
    assert counted.get_total_flops() == 7


def test_printing(capsys):
    with FlopCounterMode():
        tocha.ones(2, 2) @ tocha.ones(2, 2)
    assert "Global" in capsys.readouterr().out

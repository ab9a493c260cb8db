"""Measuring how long statements take: Timer, its Measurements, and tables that compare them.

>>> from tocha.utils.benchmark import Timer
>>> found = Timer("x + 1", globals={"x": 1}).timeit(10)
>>> found.number_per_run, found.median > 0
(10, True)
"""

from tocha.utils.benchmark.utils.common import Measurement as Measurement
from tocha.utils.benchmark.utils.common import TaskSpec as TaskSpec
from tocha.utils.benchmark.utils.common import ordered_unique as ordered_unique
from tocha.utils.benchmark.utils.common import select_unit as select_unit
from tocha.utils.benchmark.utils.common import set_torch_threads as set_torch_threads
from tocha.utils.benchmark.utils.common import trim_sigfig as trim_sigfig
from tocha.utils.benchmark.utils.common import unit_to_english as unit_to_english
from tocha.utils.benchmark.utils.compare import Colorize as Colorize
from tocha.utils.benchmark.utils.compare import Compare as Compare
from tocha.utils.benchmark.utils.timer import Language as Language
from tocha.utils.benchmark.utils.timer import Timer as Timer

"""Capture: ordinary Python becomes graphs. docs/inside/capture.md follows one function through it."""

from tocha._dynamo import config as config
from tocha._dynamo.backends import list_backends as list_backends
from tocha._dynamo.backends import lookup_backend as lookup_backend
from tocha._dynamo.backends import register_backend as register_backend
from tocha._dynamo.dynamic import mark_dynamic as mark_dynamic
from tocha._dynamo.dynamic import mark_static as mark_static
from tocha._dynamo.dynamic import mark_unbacked as mark_unbacked
from tocha._dynamo.dynamic import maybe_mark_dynamic as maybe_mark_dynamic
from tocha._dynamo.eval_frame import ExplainOutput as ExplainOutput
from tocha._dynamo.eval_frame import OptimizedModule as OptimizedModule
from tocha._dynamo.eval_frame import allow_in_graph as allow_in_graph
from tocha._dynamo.eval_frame import disable as disable
from tocha._dynamo.eval_frame import disallow_in_graph as disallow_in_graph
from tocha._dynamo.eval_frame import explain as explain
from tocha._dynamo.eval_frame import graph_break as graph_break
from tocha._dynamo.eval_frame import optimize as optimize
from tocha._dynamo.eval_frame import optimize_assert as optimize_assert
from tocha._dynamo.eval_frame import reset as reset
from tocha._dynamo.eval_frame import run as run

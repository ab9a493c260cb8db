"""Backends: what captured graphs are handed to."""

from tocha._dynamo.backends import debugging as debugging
from tocha._dynamo.backends import inductor as inductor
from tocha._dynamo.backends.registry import InvalidBackend as InvalidBackend
from tocha._dynamo.backends.registry import list_backends as list_backends
from tocha._dynamo.backends.registry import lookup_backend as lookup_backend
from tocha._dynamo.backends.registry import register_backend as register_backend

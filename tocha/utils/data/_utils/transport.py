"""Messages between a DataLoader and a worker: pickles over a socket, tensors in memory that both have mapped.

The worker packs the tensors of a batch into a leased block (one per batch in flight); the loader makes storages on that
block and the worker takes it again once they are gone. A block's descriptor travels once, when the block is new, and is
closed on both sides as soon as it is mapped, so neither descriptors nor mappings grow with the number of batches.
"""

from __future__ import annotations

import array
import contextlib
import copyreg
import io
import marshal
import os
import pickle
import socket
import struct
import threading
import weakref
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tocha import _C
from tocha.multiprocessing.reductions import check_sendable

__all__ = ["BatchReader", "BatchWriter", "Channel", "decode_request", "encode_request"]

_FRAME = struct.Struct("<II Q")  # size of the head, number of descriptors, size of the body
_READ_SIZE = 1 << 16
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(array.array("i").itemsize)  # a message has one at most
_ALIGNMENT = 64
_SMALLEST_BLOCK = 4096 - _ALIGNMENT  # a page with its header
_PLACE_UNIT = 16  # the largest element: where a window begins is a whole number of elements of any dtype


# ---- The socket.


class Channel:
    """One end of a stream of messages; a message is a head (plain values), a body (bytes) and file descriptors."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._incoming = bytearray()
        self._descriptors: deque[int] = deque()
        self._outgoing: deque[memoryview] = deque()

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.sock.fileno()

    def close(self) -> None:
        """Ends the stream: the other side reads its end."""
        self.sock.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def send(self, head: Any, body: bytes | memoryview, descriptors: tuple[int, ...] = ()) -> None:
        """Sends a message, waiting for the other side to read as needed."""
        data = self._frame(head, body, len(descriptors))
        sent = socket.send_fds(self.sock, [data], descriptors) if descriptors else self.sock.send(data)
        if sent < len(data):
            self.sock.sendall(memoryview(data)[sent:])

    def post(self, head: Any, body: bytes | memoryview) -> None:
        """Sends what the socket takes now and keeps the rest for `flush`: two full sockets cannot block each other."""
        self._outgoing.append(memoryview(self._frame(head, body, 0)))
        self.flush()

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has something left to do."""
        return bool(self._outgoing)

    def flush(self) -> None:
        """Sends what `post` kept, as far as it goes without waiting."""
        with contextlib.suppress(BlockingIOError):
            while self._outgoing:
                first = self._outgoing[0]
                sent = self.sock.send(first, socket.MSG_DONTWAIT)
                if sent == len(first):
                    self._outgoing.popleft()
                else:
                    self._outgoing[0] = first[sent:]

    def fill(self) -> None:
        """Reads what has arrived; EOFError when the other side is gone."""
        flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
        try:
            data, ancillary, _, _ = self.sock.recvmsg(_READ_SIZE, _DESCRIPTOR_SPACE, flags)
        except BlockingIOError:
            return
        except ConnectionResetError as e:
            raise EOFError from e
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors.extend(array.array("i", content))
        if not data:
            raise EOFError
        self._incoming += data

    def take(self) -> tuple[Any, bytes, list[int]] | None:
        """The next complete message of what has arrived. Its descriptors are the caller's to close."""
        if len(self._incoming) < _FRAME.size:
            return None
        head_size, descriptors, body_size = _FRAME.unpack_from(self._incoming)
        head_end = _FRAME.size + head_size
        end = head_end + body_size
        if len(self._incoming) < end:
            return None
        with memoryview(self._incoming) as view:
            head = marshal.loads(view[_FRAME.size : head_end])
            body = bytes(view[head_end:end])
        del self._incoming[:end]
        return head, body, [self._descriptors.popleft() for _ in range(descriptors)]

    @staticmethod
    def _frame(head: Any, body: bytes | memoryview, descriptors: int) -> bytes:
        packed = marshal.dumps(head)
        return b"".join((_FRAME.pack(len(packed), descriptors, len(body)), packed, body))


# The loaders' ends of channels. A forked child must not keep them open, or a worker would not see its parent's end.
_loader_ends: weakref.WeakSet[Channel] = weakref.WeakSet()


def _close_inherited() -> None:
    for channel in list(_loader_ends):
        channel.close()
    _loader_ends.clear()


os.register_at_fork(after_in_child=_close_inherited)


def channel_pair() -> tuple[Channel, socket.socket]:
    """The loader's end and the socket for a worker."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(ours)
    _loader_ends.add(channel)
    return channel, theirs


def encode_request(request: Any) -> memoryview:
    """What a worker shall do, as bytes."""
    return ForkingPickler.dumps(request)


def decode_request(body: bytes) -> Any:
    """What encode_request made."""
    return pickle.loads(body)


# ---- The worker's side.


class _Reducers(dict):
    """Our reducers, then those that anybody registered with multiprocessing or copyreg, whenever they did."""

    def __missing__(self, kind: type) -> Any:
        extra = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        return extra[kind] if kind in extra else copyreg.dispatch_table[kind]


def _byte_range(tensor: _C.Tensor) -> tuple[int, int]:
    """The bytes of its storage that a tensor reaches."""
    if tensor.numel() == 0:
        return 0, 0
    width = tensor.element_size()
    first = tensor.storage_offset()
    span = 1 + sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride()))
    return first * width, (first + span) * width


class _Arena:
    """The blocks of one worker."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.blocks: dict[int, _C._LeasedBlock] = {}
        self.made = 0
        self.forgotten: list[int] = []

    def _forget(self, key: int) -> None:
        del self.blocks[key]
        self.forgotten.append(key)

    def claim(self, nbytes: int) -> tuple[int, _C._LeasedBlock]:
        """A block for this many bytes: the smallest free one that is large enough, else a new one."""
        for key in [k for k, b in self.blocks.items() if b.is_lost]:
            self._forget(key)
        free = {k: b for k, b in self.blocks.items() if b.is_free}
        fitting = [k for k, b in free.items() if b.capacity >= nbytes]
        key = min(fitting, key=lambda k: free[k].capacity) if fitting else self._new(nbytes, list(free))
        self.blocks[key].claim()
        return key, self.blocks[key]

    def _new(self, nbytes: int, too_small: list[int]) -> int:
        while len(self.blocks) >= self.limit:  # the loader keeps what it still uses
            self._forget(too_small.pop() if too_small else next(iter(self.blocks)))
        capacity = max(_SMALLEST_BLOCK, (1 << (nbytes + _ALIGNMENT - 1).bit_length()) - _ALIGNMENT)
        self.made += 1
        self.blocks[self.made] = _C._LeasedBlock(capacity)
        return self.made


class BatchWriter:
    """Sends batches; the tensors in them go through shared memory, as copies of what they were at that moment."""

    def __init__(self, channel: Channel, limit: int) -> None:
        self.channel = channel
        self._arena = _Arena(limit)
        self._reducers = _Reducers({_C.Tensor: self._reduce_tensor, _C.UntypedStorage: self._reduce_storage})
        self._pieces: list[tuple[Any, int, int]] = []  # storage and range of bytes of each tensor met

    def send(self, batch: Any) -> None:
        """Pickles the batch, packs its tensors and sends both. Nothing is sent when pickling fails."""
        self._pieces = []
        body = self._pickle(batch)
        windows, which = self._windows()
        places, total = _lay_out(windows)
        if total == 0:
            self.channel.send((0, 0, (), places, which), body)
            return
        key, block = self._arena.claim(total)
        for (storage, first, last), (at, *_) in zip(windows, places):
            block.write(at, storage, first, last - first)
        new = block.fd
        forgotten, self._arena.forgotten = tuple(self._arena.forgotten), []
        head = (key, block.capacity if new >= 0 else 0, forgotten, places, which)
        self.channel.send(head, body, (new,) if new >= 0 else ())
        block.close_fd()
        self._pieces = []

    def _pickle(self, batch: Any) -> bytes:
        out = io.BytesIO()
        pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = self._reducers
        pickler.dump(batch)
        return out.getvalue()

    def _reduce_tensor(self, tensor: _C.Tensor) -> tuple:
        check_sendable(tensor)
        if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
            return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[return-value]
        first, last = _byte_range(tensor)
        self._pieces.append((tensor.untyped_storage(), first, last))
        place = (len(self._pieces) - 1, tensor.storage_offset() if last else 0)
        return _tensor_from, (*place, tensor.dtype, tuple(tensor.size()), tensor.stride(), tensor.requires_grad)

    def _reduce_storage(self, storage: _C.UntypedStorage) -> tuple:
        if storage.device.type != "cpu":
            return storage.__reduce__()  # type: ignore[return-value]
        self._pieces.append((storage, 0, storage.nbytes()))
        return _storage_from, (len(self._pieces) - 1,)

    def _windows(self) -> tuple[list[tuple[Any, int, int]], tuple[int, ...]]:
        """Parts of storages to copy, and which of them each piece is in: pieces that overlap stay in one memory."""
        by_storage: dict[int, list[int]] = {}
        for i, (storage, _, _) in enumerate(self._pieces):
            by_storage.setdefault(storage._cdata, []).append(i)
        windows: list[tuple[Any, int, int]] = []
        which = [0] * len(self._pieces)
        for members in by_storage.values():
            end = -1
            for i in sorted(members, key=lambda i: self._pieces[i][1]):
                storage, first, last = self._pieces[i]
                if first < end:
                    end = max(end, last)
                    windows[-1] = (storage, windows[-1][1], end)
                else:
                    end = last
                    windows.append((storage, first - first % _PLACE_UNIT, last))
                which[i] = len(windows) - 1
        return windows, tuple(which)


def _lay_out(windows: list[tuple[Any, int, int]]) -> tuple[tuple[tuple[int, int, int], ...], int]:
    """Where in a block each window goes, how long it is and where in its storage it began; and the size of all."""
    places = []
    at = 0
    for _, first, last in windows:
        places.append((at, last - first, first))
        at += -(-(last - first) // _ALIGNMENT) * _ALIGNMENT
    return tuple(places), at


# ---- The loader's side.


class _Arrived(threading.local):
    """The storages of the message that this thread is unpickling, and where in the original storage each began."""

    pieces: list[tuple[Any, int]]


_arrived = _Arrived()


def _tensor_from(piece: int, offset: int, dtype: Any, size: tuple, stride: tuple, requires_grad: bool) -> _C.Tensor:
    storage, begin = _arrived.pieces[piece]
    tensor = _C.empty(0, dtype=dtype)
    tensor.set_(storage, offset - begin // tensor.element_size(), size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _storage_from(piece: int) -> Any:
    return _arrived.pieces[piece][0]


class BatchReader:
    """Turns one worker's messages back into batches."""

    def __init__(self) -> None:
        self._blocks: dict[int, _C._LeasedBlock] = {}

    def read(self, message: tuple[Any, bytes, list[int]]) -> Any:
        """The batch of a message of BatchWriter."""
        (key, capacity, forgotten, places, which), body, descriptors = message
        for old in forgotten:
            self._blocks.pop(old, None)
        for fd in descriptors:
            try:
                self._blocks[key] = _C._LeasedBlock(capacity, fd)
            finally:
                os.close(fd)
        if key:
            lease = self._blocks[key].lease
            windows = [(lease(at, nbytes), begin) for at, nbytes, begin in places]
        else:
            windows = [(_C.UntypedStorage(0), begin) for _, _, begin in places]
        _arrived.pieces = [windows[i] for i in which]
        try:
            return pickle.loads(body)
        finally:
            del _arrived.pieces

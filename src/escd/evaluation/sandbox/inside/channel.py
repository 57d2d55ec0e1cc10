"""Messages over two pipes: eight bytes of length, then plain data."""

import os

from .plain import TOO_LARGE, Unfit, decode, encode

# Room for the frame around one value.
_FRAME = 4096


class Channel:
    """One end. `reference` and `resolve` are those of `plain`."""

    def __init__(self, reading, writing, limit, reference, resolve):
        self._reading, self._writing, self._limit = reading, writing, limit + _FRAME
        self._reference, self._resolve = reference, resolve

    def send(self, message):
        """Raises Unfit for what cannot go over, before a byte of it is sent; OSError when the other end is gone."""
        data = encode(message, self._limit, self._reference)
        data = len(data).to_bytes(8, "little") + data
        while data:
            data = data[os.write(self._writing, data) :]

    def receive(self):
        """The next message; EOFError when the other end is gone, Unfit for anything that is no message."""
        size = int.from_bytes(self._read(8), "little")
        if size > self._limit:
            raise Unfit(TOO_LARGE)
        return decode(self._read(size), self._resolve)

    def _read(self, size):
        parts = []
        while size:
            part = os.read(self._reading, min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

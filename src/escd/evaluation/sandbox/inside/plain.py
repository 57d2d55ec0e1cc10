"""Plain data as bytes: None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, values of the
standard library that are nothing but data (`library`), and references.

Decoding makes exact types of Python's own and nothing else, whatever the bytes say: no class of a model's program, so
none of its methods, ever comes into the process that compares. pickle and marshal can't promise that.
"""

import struct

from .library import made, parts

DEPTH = 200
_SIZE = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")
_SEQUENCES = {list: b"l", tuple: b"t", set: b"e", frozenset: b"z"}
_MAKERS = {code: kind for kind, code in _SEQUENCES.items()}
# Of a subclass (IntEnum, a list of the program's own) the value goes over, without the class.
_BASES = (int, float, complex, str, bytes, dict, *_SEQUENCES)


# Why a value can't go over.
TOO_LARGE, TOO_DEEP = REASONS = ("output limit", "nested too deeply")


class Unfit(Exception):
    """A value that can't go over: too large, too deep; or bytes that are no value."""


def encode(value, limit, reference):
    """Bytes of `value`, at most `limit`. `reference(object)` gives number and type name of what is not plain."""
    parts = []
    _write(value, parts.append, [limit], reference, DEPTH)
    return b"".join(parts)


def _write(value, put, left, reference, depth):
    if depth == 0:
        raise Unfit(TOO_DEEP)
    kind = type(value)
    if kind not in _WRITERS:
        if made_of := parts(value):
            _put(b"x", put, left)
            _write(made_of, put, left, reference, depth - 1)
            return
        kind = next((base for base in _BASES if isinstance(value, base)), None)
    if kind is None:
        number, name = reference(value)
        _put(b"o" + _SIZE.pack(number) + _sized(name.encode("utf-8", "surrogatepass")), put, left)
    elif kind in (list, tuple, set, frozenset):
        # The base's own length and iterator: a subclass may say otherwise.
        _put(_SEQUENCES[kind] + _SIZE.pack(kind.__len__(value)), put, left)
        for item in kind.__iter__(value):
            _write(item, put, left, reference, depth - 1)
    elif kind is dict:
        _put(b"d" + _SIZE.pack(dict.__len__(value)), put, left)
        for key, item in dict.items(value):
            _write(key, put, left, reference, depth - 1)
            _write(item, put, left, reference, depth - 1)
    else:
        _put(_WRITERS[kind](value), put, left)


def _put(data, put, left):
    left[0] -= len(data)
    if left[0] < 0:
        raise Unfit(TOO_LARGE)
    put(data)


def _sized(data):
    return _SIZE.pack(len(data)) + data


def _int(value):
    value = int.__index__(value)
    return b"i" + _sized(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


_WRITERS = {
    type(None): lambda value: b"N",
    bool: lambda value: b"T" if value else b"F",
    int: _int,
    float: lambda value: b"f" + _FLOAT.pack(value),
    complex: lambda value: b"c" + _COMPLEX.pack(value.real, value.imag),
    str: lambda value: b"s" + _sized(str.encode(value, "utf-8", "surrogatepass")),
    bytes: lambda value: b"b" + _sized(bytes.__getitem__(value, slice(None))),
    dict: None,
    **dict.fromkeys(_SEQUENCES),
}


def decode(data, resolve):
    """The value of `data`; `resolve(number, type name)` gives what a reference stands for.

    Raises:
        Unfit: The bytes are no value.
    """
    reader = _Reader(data, resolve)
    try:
        value = reader.value(DEPTH)
    # What the types say of data that they are not made of is theirs: ArithmeticError of decimals, TypeError, ...
    except (struct.error, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise Unfit("no plain data") from error
    if reader.at != len(data):
        raise Unfit("no plain data")
    return value


class _Reader:
    def __init__(self, data, resolve):
        self.data, self.resolve, self.at = data, resolve, 0

    def take(self, size):
        part = self.data[self.at : self.at + size]
        if len(part) != size:
            raise IndexError
        self.at += size
        return part

    def size(self):
        (size,) = _SIZE.unpack(self.take(8))
        if size > len(self.data) - self.at:  # every item takes a byte at least
            raise IndexError
        return size

    def value(self, depth):
        if depth == 0:
            raise Unfit(TOO_DEEP)
        code = self.take(1)
        if code in _MAKERS:
            return _MAKERS[code]([self.value(depth - 1) for _ in range(self.size())])
        if code == b"d":
            return {self.value(depth - 1): self.value(depth - 1) for _ in range(self.size())}
        if code == b"x":
            return made(*self.value(depth - 1))
        if code == b"o":
            (number,) = _SIZE.unpack(self.take(8))
            return self.resolve(number, self.take(self.size()).decode("utf-8", "surrogatepass"))
        return _READERS[code](self)


_READERS = {
    b"N": lambda reader: None,
    b"T": lambda reader: True,
    b"F": lambda reader: False,
    b"i": lambda reader: int.from_bytes(reader.take(reader.size()), "little", signed=True),
    b"f": lambda reader: _FLOAT.unpack(reader.take(8))[0],
    b"c": lambda reader: complex(*_COMPLEX.unpack(reader.take(16))),
    b"s": lambda reader: reader.take(reader.size()).decode("utf-8", "surrogatepass"),
    b"b": lambda reader: reader.take(reader.size()),
}

"""Values of the standard library's own types that are nothing but data, by exact type, as plain data and back.

They are made anew on the other side, so no method of a program comes with them.
"""

import sys

# What a defaultdict may make: Python's own types, by name.
_FACTORIES = {
    kind.__name__: kind for kind in (int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset)
}


def parts(value):
    """Name of the type and plain data for a value of one of these types; None for all others."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in _TYPES and kind is _kind(name):
        return name, _TYPES[name][0](value)
    fields = getattr(kind, "_fields", None)
    if kind.__bases__ == (tuple,) and type(fields) is tuple and tuple.__len__(value) == len(fields):
        return "namedtuple", (kind.__name__, fields, tuple(tuple.__iter__(value)))
    return None


def made(name, data):
    """The value of a name and plain data; raises what its type raises for data that it is not made of."""
    return _TYPES[name][1](data)


def _kind(name):
    """The type itself, without importing anything: if its module is not loaded, the value is of another."""
    if name in _VIEWS:
        return _VIEWS[name]
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None)


def _new(name):
    module, _, attribute = name.rpartition(".")
    return getattr(__import__(module), attribute)


def _exact(data, *kinds):
    """The data, if its items are of these exact types: iterating over anything else would ask the program."""
    if [type(item) for item in data] != list(kinds):
        raise TypeError
    return data


def _pairs(data):
    for item in _exact([data], list)[0]:
        _exact([item], tuple)
    return data


def _named(data):
    name, fields, values = _exact(data, str, tuple, tuple)
    import collections

    # Checks that all are identifiers.
    return collections.namedtuple(name, fields)(*values)


def _moment(value):
    offset = value.utcoffset()
    return (
        value.year,
        value.month,
        value.day,
        *_clock(value),
        value.fold,
        _days(offset) if offset is not None else None,
    )


def _clock(value):
    return value.hour, value.minute, value.second, value.microsecond


def _days(value):
    return value.days, value.seconds, value.microseconds


def _datetime(data):
    *numbers, fold, offset = data
    zone = None if offset is None else _new("datetime.timezone")(_new("datetime.timedelta")(*offset))
    return _new("datetime.datetime")(*numbers, zone, fold=fold)


_VIEWS = {f"builtins.{kind.__name__}": kind for kind in (type({}.keys()), type({}.values()), type({}.items()))}
# By name of the type: what a value is made of, and the value of that.
_TYPES = {
    "namedtuple": (None, _named),
    "builtins.range": (lambda v: (v.start, v.stop, v.step), lambda data: range(*data)),
    "builtins.bytearray": (bytes, lambda data: bytearray(*_exact([data], bytes))),
    "builtins.dict_keys": (list, lambda data: dict.fromkeys(*_exact([data], list)).keys()),
    "builtins.dict_values": (list, lambda data: dict(enumerate(*_exact([data], list))).values()),
    "builtins.dict_items": (list, lambda data: dict(_pairs(data)).items()),
    "collections.deque": (
        lambda v: (list(v), v.maxlen), lambda data: _new("collections.deque")(*_exact(data[:1], list), data[1]),
    ),
    "collections.Counter": (
        lambda v: dict(v.items()), lambda data: _new("collections.Counter")(*_exact([data], dict)),
    ),
    "collections.OrderedDict": (
        lambda v: list(v.items()), lambda data: _new("collections.OrderedDict")(_pairs(data)),
    ),
    "collections.defaultdict": (
        lambda v: (getattr(v.default_factory, "__name__", ""), dict(v.items())),
        lambda data: _new("collections.defaultdict")(_FACTORIES.get(*_exact(data[:1], str)), *_exact(data[1:], dict)),
    ),
    "decimal.Decimal": (str, lambda data: _new("decimal.Decimal")(*_exact([data], str))),
    "fractions.Fraction": (
        lambda v: (v.numerator, v.denominator), lambda data: _new("fractions.Fraction")(*_exact(data, int, int)),
    ),
    "datetime.date": (lambda v: (v.year, v.month, v.day), lambda data: _new("datetime.date")(*data)),
    "datetime.datetime": (_moment, _datetime),
    "datetime.time": (_clock, lambda data: _new("datetime.time")(*data)),
    "datetime.timedelta": (_days, lambda data: _new("datetime.timedelta")(*data)),
}  # fmt: skip

"""A model's program, answering calls over a pipe. Nothing here is trusted: the program may have replaced all of it."""

import sys

from .channel import Channel
from .plain import Unfit, encode

_OPERATIONS = {
    "call": lambda function, *args, **kwargs: function(*args, **kwargs),
    "attribute": getattr,
    "len": len,
    "bool": bool,
    "str": str,
    "item": lambda value, key: value[key],
}


class Objects:
    """Objects that are not plain data stay here; the other side knows them by number."""

    def __init__(self):
        self._objects, self._numbers, self._readers = [], {}, {}

    def number(self, value):
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return self._numbers[id(value)], type(value).__name__

    def get(self, number, name):
        return self._objects[number]

    def items(self, value, count, anew):
        """Whether these are the last items of an object, and the next ones, at most `count`."""
        number, _ = self.number(value)
        if anew or number not in self._readers:
            self._readers[number] = _items(value)
        found, reader = [], self._readers[number]
        try:
            while len(found) < count:
                found.append(next(reader))
        except StopIteration:
            return True, found
        except BaseException as error:
            if not found:
                raise
            self._readers[number] = _raising(error)  # once they ask for more
        return False, found


def main(source, requests, answers, limit):
    objects = Objects()
    channel = Channel(requests, answers, limit, objects.number, objects.get)
    module = sys.modules["program"] = type(sys)("program")
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
    except BaseException as error:
        channel.send(_raised(error))
        return
    channel.send(("loaded",))
    while True:
        try:
            operation, *request = channel.receive()
        except EOFError:
            return
        answer = _names(module, *request) if operation == "names" else _answer(operation, request, limit, objects)
        try:
            channel.send(answer)
        except Unfit as error:
            channel.send(("unfit", str(error)))
        except MemoryError as error:
            channel.send(_raised(error))


def _answer(operation, request, limit, objects):
    """Value or exception, and the arguments again where a function without a result may have changed them."""
    try:
        target, args, kwargs = request
        before = encode(args, limit, objects.number)
        perform = objects.items if operation == "items" else _OPERATIONS[operation]
        value = perform(target, *args, **kwargs)
        changed = value is None and operation == "call" and encode(args, limit, objects.number) != before
        return "value", value, args if changed else None
    except Unfit as error:
        return "unfit", str(error)
    except BaseException as error:
        return _raised(error)


def _items(value):
    # Not by `__getitem__` alone, which need not end.
    if not hasattr(type(value), "__iter__"):
        raise TypeError(f"'{type(value).__name__}' object is not iterable")
    return iter(value)


def _raising(error):
    raise error
    yield


def _names(module, names):
    """What the program calls by each name: a value, or for a class of exceptions the names of its bases."""
    found = []
    for name in names:
        if name in module.__dict__:
            value = module.__dict__[name]
            exception = isinstance(value, type) and issubclass(value, BaseException)
            found.append((name, _bases(value) if exception else None, None if exception else value))
    return "names", found


def _bases(kind):
    return [base.__name__ for base in kind.__mro__]


def _raised(error):
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = type(error).__name__
    plain = all(type(arg) in (str, int, float, bool, type(None)) for arg in error.args)
    return "raised", _bases(type(error)), error.args if plain else (text,), text[:1000]

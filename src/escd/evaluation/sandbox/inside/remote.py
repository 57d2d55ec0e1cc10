"""The program as the tests see it: names, functions and objects whose every use is a message."""

import builtins

from .plain import REASONS, Unfit

_NONSENSE = "-the program broke the protocol"
# Where an object came from, and so what it may say. OWN: of a name that the tests write as a class's (`Stack`): it is
# what they test. RESULT: a function, or what it has returned: data, as far as it has items. WORD: what an attribute of
# a result gave: `f(3).equals([1, 2])` would be true of an object that says so of everything.
OWN, RESULT, WORD = "own", "result", "word"
# Attributes of Python's own types of data. Results of these types come over as data; what has them is something else.
_OF_DATA = {n for kind in (str, bytes, list, tuple, dict, set, int, float, complex) for n in dir(kind)}
_MOST = 4096  # items fetched at once
_CUTS = (StopIteration, StopAsyncIteration, GeneratorExit)

# Answers and whether their parts are right.
_SHAPES = {
    "loaded": lambda: True,
    "names": lambda found: type(found) is list and all(map(_is_name, found)),
    "value": lambda value, changed: changed is None or type(changed) is tuple,
    "raised": lambda bases, args, text: _is_bases(bases) and type(args) is tuple and type(text) is str,
    "unfit": lambda text: text in REASONS,
}


def _is_name(found):
    name, bases, _ = found if type(found) is tuple and len(found) == 3 else (None, None, None)
    return type(name) is str and (bases is None or _is_bases(bases))


def _is_bases(names):
    return type(names) is list and all(type(name) is str for name in names)


class Lost(BaseException):
    """The program can't be asked any more, or has sent nonsense: the tests end. `Program.failure` says why."""


class Program:
    """The other end of the channel.

    Attributes:
        calls: How often the tests have asked for anything.
        failure: A verdict that stands whatever the tests do next; None so far.
        raised: Texts of the program's exceptions by id of the exception here.
    """

    def __init__(self, channel):
        self.calls, self.failure, self.raised = 0, None, {}
        self._channel, self._items, self._classes, self._kept, self._last = channel, {}, {}, [], None
        self._standing = RESULT  # of objects that come in

    def load(self):
        """Wait for the program's own statements; why they failed, or None."""
        kind, *told = self._receive("loaded", "raised")
        if kind == "loaded":
            return None
        return "memory limit" if "MemoryError" in told[0] else f"exception: {told[2]}"

    def names(self, names):
        """What the program calls by these names; those that it does not have are missing."""
        self._send(("names", names))
        found = {}
        for name, bases, value in self._receive("names")[1]:
            if name in names:
                found[name] = value if bases is None else self._exception(bases)
                if isinstance(value, Remote) and bases is None:
                    found[name] = self.remote(
                        value._number, value._kind, OWN if name.lstrip("_")[:1].isupper() else RESULT
                    )
                    found[name].__name__ = name
        return found

    def remote(self, number, kind, standing=None):
        """The object of this number: never the same here, nor of the same type, but with the same items."""
        found = type("Remote", (Remote,), {})(self, number, kind, standing or self._standing)
        found._share(self._items)
        return found

    @staticmethod
    def number(value):
        """The number of an object that goes back to the program."""
        if not isinstance(value, Remote):
            raise Unfit(
                f"not gradable: the tests pass an object of type {type(value).__name__}, which is no plain data, to "
                "the program"
            )
        return value._number, value._kind

    def ask(self, operation, target, args=(), kwargs=None):
        """Have the program do something with one of its objects.

        Raises:
            Lost: It can't be asked.
            Exception: What the program raised, as an exception of Python's own of the same name.
        """
        if self.failure is not None:
            raise Lost
        self.calls += 1
        kwargs = kwargs or {}
        self._last = [operation, target, args, kwargs]
        self._standing = WORD if operation == "attribute" and target._standing == RESULT else target._standing
        self._send((operation, target, args, kwargs))
        answer = self._receive("value", "raised", "unfit")
        if answer[0] == "value":
            _, value, changed = answer
            self._last.append(value)
            if type(value) is bool and self._standing == WORD:
                self.take_no_word(target)
            # Only so, or a function could change both what it is asked and what it says to the same.
            if changed is not None and value is None and operation == "call":
                for old, new in zip(args, changed, strict=True):
                    update(old, new)
            return value
        if answer[0] == "raised":
            raise self._error(*answer[1:])
        return self._fail(f"-{answer[1]}")

    def items(self, target, count, anew):
        """Whether an object's items end here, and the next ones, at most `count`; from the first on where `anew`."""
        answer = self.ask("items", target, (count, anew))
        if type(answer) is tuple and [type(part) for part in answer] == [bool, list] and (answer[0] or answer[1]):
            return answer
        return self._fail(_NONSENSE)

    def take_no_word(self, target):
        """End the tests, which would take an object's word for it."""
        self._fail(f"-wrong answer: {self.last_call()}; what attributes of type {target._kind} say is no proof")

    def last_call(self):
        """The last thing asked and its result, shortened."""
        if self._last is None:
            return "no call"
        operation, target, args, kwargs, *result = self._last
        if operation == "items":
            return f"the items of {short(target)} are {short(target._items.found)}"
        shown = ", ".join([*map(short, args), *(f"{k}={short(v)}" for k, v in kwargs.items())])
        asked = f"{short(target)}({shown})" if operation == "call" else f"{operation} {shown} of {short(target)}"
        return f"{asked} is {short(result[0]) if result else 'an exception'}"

    def _send(self, message):
        try:
            self._channel.send(message)
        except Unfit as error:
            self._fail(f"-{error}")
        except OSError:
            self._fail("?")

    def _receive(self, *kinds):
        """The next answer, of one of these kinds."""
        try:
            answer = self._channel.receive()
            if type(answer) is tuple and answer and answer[0] in kinds and _SHAPES[answer[0]](*answer[1:]):
                return answer
        except Unfit as error:
            return self._fail(f"-{error}")
        except EOFError:
            return self._fail("?")
        except TypeError:  # more or fewer parts than the shape has
            pass
        return self._fail(_NONSENSE)

    def _fail(self, verdict):
        self.failure = verdict
        raise Lost

    def _exception(self, bases):
        """Python's own class of exceptions, or one made here below it, by the names of a class and its bases."""
        for place, name in enumerate(bases):
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, BaseException):
                if issubclass(kind, _CUTS):
                    # A test that maps the function over its cases would end early, and pass.
                    kind = RuntimeError
                if place == 0:
                    return kind
                return self._classes.setdefault((bases[0], kind), type(bases[0], (kind,), {}))
        return RuntimeError

    def _error(self, bases, args, text):
        kind = self._exception(bases)
        try:
            error = kind(*args)
        except Exception:
            error = RuntimeError(text)
        self.raised[id(error)] = text
        self._kept.append(error)  # or its id would be another's
        return error


class Items:
    """The items of an object of the program, fetched once and as far as they are needed.

    An object asked each time could be long to one test, empty to the next, and sorted to a third. Using one of its
    attributes may change it, so they are fetched anew after that.
    """

    def __init__(self, program, owner):
        self._program, self._owner = program, owner
        self.forget()

    def forget(self):
        self.reading = self._refused = None
        self.found, self._whole, self._anew = [], False, True

    def fetch(self, count=None):
        """The items so far, at least `count`; all of them without a number."""
        if self._refused is not None:
            raise self._refused
        while not self._whole and (count is None or len(self.found) < count):
            some = min(_MOST, max(1, len(self.found), count or 0))
            try:
                self._whole, items = self._program.items(self._owner, some, self._anew)
            except TypeError as error:
                if not self.found:
                    self._refused = error
                raise
            self.found += items
            self._anew = False
        return self.found

    def each(self):
        """All items, each fetched when it is its turn."""
        place, items = 0, self.found
        while True:
            if self.found is items:  # not fetched anew since
                self.fetch(place + 1)
            if place >= len(items):
                return
            yield items[place]
            place += 1

    def there(self):
        """Whether it has items at all, be it none."""
        try:
            self.fetch(1)
        except TypeError:
            return False
        return True


class Remote:
    """An object of the program. Equal to nothing but itself, so it can't pass for a right answer.

    Length, truth and numbered items come from its `Items`, if it has any.
    """

    def __init__(self, program, number, kind, standing):
        self._program, self._number, self._kind, self._standing = program, number, kind, standing
        self.__name__ = kind

    def _share(self, items):
        """Have the items of the other proxies of this object."""
        self._items = items.setdefault((self._number, self._standing), Items(self._program, self))

    def __repr__(self):
        return self.__name__ if self._kind == "function" else f"<{self._kind} object>"

    def __eq__(self, other):
        return isinstance(other, Remote) and other._number == self._number

    def __hash__(self):
        return hash(self._number)

    def __call__(self, *args, **kwargs):
        return self._program.ask("call", self, args, kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._standing != OWN and name in _OF_DATA:
            self._program.take_no_word(self)
        self._items.forget()
        return self._program.ask("attribute", self, (name,))

    def __str__(self):
        return self._program.ask("str", self)

    def __iter__(self):
        self._items.fetch(1)
        return self._items.reading or self._items.each()

    def __next__(self):
        self._items.reading = self._items.reading or self._items.each()
        return next(self._items.reading)

    def __len__(self):
        return len(self._items.fetch()) if self._items.there() else self._program.ask("len", self)

    def __bool__(self):
        if self._standing == WORD:
            self._program.take_no_word(self)
        return bool(self._items.fetch(1)) if self._items.there() else self._program.ask("bool", self)

    def __getitem__(self, key):
        if not isinstance(key, (int, slice)) or not self._items.there():
            return self._program.ask("item", self, (key,))
        start, last, step = (key.start, key.stop, key.step) if isinstance(key, slice) else (key, key, None)
        near = type(last) is int and last >= 0 and (start or 0) >= 0 and (step or 1) > 0
        return self._items.fetch(last + 1 if near else None)[key]


def update(old, new):
    """Make a container of the tests hold what the program left in its copy."""
    if type(old) is not type(new):
        return
    if isinstance(old, list):
        old[:] = [merged(o, n) for o, n in zip(old, new)] + new[len(old) :]  # noqa: B905
    elif isinstance(old, dict):
        changed = {key: merged(old[key], value) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(changed)
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    elif isinstance(old, bytearray):
        old[:] = new
    elif type(old).__name__ == "deque":
        old.clear()
        old.extend(new)


def merged(old, new):
    """`new`, but the container `old` itself where both are of one mutable kind."""
    if type(old) is type(new) and isinstance(old, (list, dict, set)):
        update(old, new)
        return old
    return new


def short(value):
    """A value's text, at most 60 characters."""
    try:
        text = repr(value)
    except Exception:  # an int of too many digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."

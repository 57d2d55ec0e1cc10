"""Errors that a user can act on: one line each, naming the input and the mend."""


class EscdError(Exception):
    """Base of every error that escd raises on purpose. The command line prints it in one line, exit code 2."""


class VocabError(EscdError):
    """A tokenizer or vocabulary cannot be used: an unsupported family, bytes that do not round-trip."""


class AlignError(EscdError):
    """A response cannot be aligned: ids outside the vocabulary, a step in which no row is supervised."""


class TeacherError(EscdError):
    """The teacher gave something that cannot be learnt from: NaN logits, a head smaller than its vocabulary."""


class StudentError(EscdError):
    """The student gave something that cannot be trained: NaN logits, a head smaller than its vocabulary."""


class ConfigError(EscdError):
    """An option, a recipe, a dataset or a folder is not what the run needs."""


class SandboxError(EscdError):
    """The machine failed to start a sandbox that it could start before."""


def first_line(error: BaseException) -> str:
    """The gist of a library's error."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]

"""A run of `escd distill` as one self-contained HTML page. Needs `pip install escd[report]`."""

try:
    from .page import write_report
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "matplotlib"):
        raise
    raise ModuleNotFoundError(
        f"a report needs {error.name}; run: pip install 'escd[report]'", name=error.name
    ) from error

__all__ = ["write_report"]

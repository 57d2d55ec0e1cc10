"""Run a source as `python program.py` would."""

import os
import sys


def main(source, files):
    for name, text in files.items():
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(name, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(text)
    del files
    sys.argv = ["program.py"]
    sys.path.insert(0, os.getcwd())
    module = sys.modules["__main__"] = type(sys)("__main__")
    interactive_names(module)
    try:
        exec(compile(source, "program.py", "exec"), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        inner = trace and trace.tb_next
        if isinstance(error, MemoryError):
            # Room to say so.
            module.__dict__.clear()
            inner = trace = None
        sys.excepthook(type(error), error.with_traceback(inner), inner)
        sys.exit(1)


def interactive_names(module):
    """`exit` and `quit`, which the module `site` would bring and many programs call."""
    import builtins
    from _sitebuiltins import Quitter

    builtins.exit = Quitter("exit", "Ctrl-D")
    builtins.quit = Quitter("quit", "Ctrl-D")
    module.__builtins__ = builtins

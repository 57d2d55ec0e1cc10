"""`escd compare`: from a recipe to the runs, the table and the page."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from . import __doc__ as recipe_format
from .page import write_page
from .processes import complete
from .recipe import read_plan
from .record import opened
from .results import gather
from .runs import runs
from .tables import markdown, write_tables

_HELP = """usage: escd compare RECIPE.yaml [--arms A B] [--seeds 1 2] [--reference A] [--output_dir DIR]
                                [--processes N] [flags of escd distill, for all runs]

"""


def main(argv: Sequence[str]) -> int:
    """Run `escd compare`.

    Returns:
        0, or 1 if a run failed or the results could not be written.

    Raises:
        EscdError: Anything about recipe, flags and folder that the user can mend, before anything is run.
    """
    if {"-h", "--help"} & {*argv}:
        print(_HELP + (recipe_format or ""))
        return 0
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    plan = read_plan(argv)
    with opened(plan):
        try:
            failures = complete(plan)
        except KeyboardInterrupt:
            every = runs(plan)
            ended = sum(run.finished for run in every)
            print(f"\nstopped; {ended} of {len(every)} runs are finished; the same command continues", file=sys.stderr)
            raise
        results = gather(plan, failures)
        print(f"\n{markdown(results)}")
        try:
            write_tables(results)
            page = write_page(results)
        except OSError as error:
            print(
                f"escd: error: compare: the results cannot be written to {str(plan.folder)!r}: {error.strerror}; "
                "the same command tries again without running anything twice",
                file=sys.stderr,
            )
            return 1
    print(f"page  {page}")
    return 1 if failures else 0

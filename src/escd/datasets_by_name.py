"""Datasets by hub id or local file, with errors that name the dataset and the mend."""

from __future__ import annotations

import gzip
import os
from typing import Any

import datasets
from datasets import Dataset, IterableDataset

from .errors import ConfigError, first_line

FORMATS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


def quiet() -> None:
    """No progress bars of the library, and no tracebacks of errors that it also raises."""
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)


def load(
    name: str, config: str | None = None, split: str = "train", *, split_flag: str, streaming: bool = False
) -> Dataset | IterableDataset:
    """Rows of a hub dataset or of a local JSONL, JSON, Parquet or CSV file, which may be gzipped.

    Args:
        name: Hub id or path.
        config: Configuration of a hub dataset.
        split: Split of a hub dataset.
        split_flag: How the user names the split, for the message.
        streaming: Read while iterating.

    Raises:
        ConfigError: The dataset is missing, unreadable or empty, or has no such split.
    """
    if not name.strip(" ./"):
        raise ConfigError(f"dataset {name!r}: name a file or a dataset of the hub")
    ending = os.path.splitext(name.removesuffix(".gz"))[1].lower()
    options: dict[str, Any] = {"streaming": streaming}
    try:
        if os.path.isfile(name):
            if ending not in FORMATS:
                raise ConfigError(f"dataset {name!r}: a local file must end in {', '.join(FORMATS)}")
            if config or split != "train":
                raise ConfigError(f"dataset {name!r}: a local file has no configurations and only the split 'train'")
            if os.path.getsize(name) == 0:
                raise ConfigError(f"dataset {name!r} is empty")
            if ending != ".parquet" and not streaming:
                _require_utf8(name)
            return datasets.load_dataset(FORMATS[ending], data_files=name, split="train", **options)
        if ending in FORMATS:
            raise ConfigError(f"dataset {name!r}: there is no such file")
        found = datasets.load_dataset(name, config, **options)
    except ConfigError:
        raise
    # The library raises many kinds for a file or hub id that it cannot read; all are about the user's dataset.
    except Exception as error:
        if "corresponds to no data" in str(error):
            raise ConfigError(f"dataset {name!r} has no rows") from error
        raise ConfigError(f"dataset {name!r} cannot be loaded: {first_line(error.__cause__ or error)}") from error
    if split not in found:
        raise ConfigError(
            f"dataset {name!r} has no split {split!r}; set {split_flag} to one of {', '.join(map(str, found))}"
        )
    return found[split]


def _require_utf8(name: str) -> None:
    """Raise unless a text file is UTF-8: rows are decoded when they are read, and the error would come from there."""
    opened = gzip.open if name.endswith(".gz") else open
    with opened(name, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ConfigError(
                    f"dataset {name!r} is not UTF-8 (line {number}: {error.reason}); convert it, for example by "
                    f"iconv -f latin1 -t utf8"
                ) from error

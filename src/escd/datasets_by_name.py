"""Datasets by hub id or local file, with errors that name the dataset and the mend."""

from __future__ import annotations

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
            return datasets.load_dataset(FORMATS[ending], data_files=name, split="train", **options)
        if ending in FORMATS:
            raise ConfigError(f"dataset {name!r}: there is no such file")
        found = datasets.load_dataset(name, config, **options)
    except ConfigError:
        raise
    # The library raises many kinds for a file or hub id that it cannot read; all are about the user's dataset.
    except Exception as error:
        raise ConfigError(f"dataset {name!r} cannot be loaded: {first_line(error.__cause__ or error)}") from error
    if split not in found:
        raise ConfigError(
            f"dataset {name!r} has no split {split!r}; set {split_flag} to one of {', '.join(map(str, found))}"
        )
    return found[split]

"""Rows on disk, so that a run that goes on from a checkpoint does not ask for them again."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...files import write_whole

logger = logging.getLogger(__name__)

_SUFFIX = ".rows"  # nothing else in the folder is touched
_DIGEST = hashlib.sha256().digest_size


class RowCache:
    """A folder of rows, one file per sequence; the oldest files go when it is full. Several processes may share it.

    Args:
        folder: Made when the first row is stored. One that cannot be written to only costs the time of the servers.
        limit: Bytes that `trim` leaves at most.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int):
        self.folder, self.limit, self._usable = Path(folder), limit, True

    @staticmethod
    def key(model: str, kind: str, ids: list[int], rows: np.ndarray) -> str:
        """Names the rows of a sequence.

        Args:
            model: What tells the served model from others.
            kind: `RowFormat.key`.
            ids: The sequence.
            rows: int64, the positions whose rows are meant.
        """
        return hashlib.sha256(json.dumps([model, kind, ids, rows.tolist()]).encode()).hexdigest()[:32]

    def get(self, key: str, rows: int, width: int, dtype: torch.dtype) -> Tensor | None:
        """Rows [rows, width] that were stored; None if there are none, or the file is damaged."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        digest, data = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(data).digest() != digest or len(data) != rows * width * dtype.itemsize:
            return None
        return torch.from_numpy(np.frombuffer(data, np.uint8).copy()).view(dtype).reshape(rows, width)

    def put(self, key: str, rows: Tensor) -> None:
        """Store rows [rows, width]."""
        if not self._usable:
            return
        data = rows.contiguous().view(torch.uint8).numpy().tobytes()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(key), hashlib.sha256(data).digest() + data)
        except OSError as error:
            logger.warning("teacher rows are not cached: %s cannot be written to (%s)", self.folder, error.strerror)
            self._usable = False

    def trim(self) -> None:
        """Delete the oldest files until the folder holds no more than its limit."""
        try:
            found = [(path.stat().st_mtime_ns, path.stat().st_size, path) for path in self.folder.glob(f"*{_SUFFIX}")]
        except OSError:  # another process trims it
            return
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

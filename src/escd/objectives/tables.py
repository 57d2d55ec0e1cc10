"""Static integer arrays, moved to each device once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class DeviceTables:
    """A cache: `tables(name, array, device)` is the tensor of that array on that device."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, torch.device], Tensor] = {}

    def __call__(self, name: str, array: np.ndarray, device: torch.device) -> Tensor:
        key = (name, device)
        if key not in self._held:
            self._held[key] = torch.from_numpy(np.array(array)).to(device)
        return self._held[key]

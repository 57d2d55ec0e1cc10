"""Static integer arrays, made once and moved to each device once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import torch
from torch import Tensor


class DeviceTables:
    """A cache: `tables(name, device, make)` is the tensor of `make()` on that device."""

    def __init__(self) -> None:
        self._held: dict[tuple[Hashable, torch.device], Tensor] = {}

    def __call__(self, name: Hashable, device: torch.device, make: Callable[[], np.ndarray]) -> Tensor:
        key = (name, device)
        if key not in self._held:
            self._held[key] = torch.from_numpy(np.array(make())).to(device)
        return self._held[key]

"""The caches of transformers that graphtune knows by itself."""

from __future__ import annotations

import sys

__all__ = ["is_plain_cache"]

_MODULE = "transformers.cache_utils"
# All that these hold are tensors and constants in their attributes. Others have numbers that change from call to call
# (a sliding window's length), or what can't be copied (the streams of an offloaded cache).
_PLAIN = ("DynamicCache", "DynamicLayer")


def is_plain_cache(cls: type) -> bool:
    """A cache, or a layer of one, that its attributes describe whole. transformers is not imported for that."""
    module = sys.modules.get(_MODULE)  # whoever passes a cache has imported it
    return module is not None and any(cls is getattr(module, name, None) for name in _PLAIN)

"""JSON merge patches (RFC 7386), and whether two JSON values are the same.

Pure. Knows nothing of Kubernetes.
"""

import copy
import json
import marshal
from typing import Any

Json = dict[str, Any]


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` applied; neither is changed, and the result shares nothing with them."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = {key: copy.deepcopy(value) for key, value in target.items() if key not in patch} if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is not None:
            result[key] = apply_merge_patch(target.get(key) if isinstance(target, dict) else None, value)
    return result


def merge_patch_between(old: Json, new: Json) -> Json:
    """Return the smallest merge patch that turns `old` into `new`, {} when they are the same.

    A merge patch cannot say null: keys of `new` whose value is None are taken as absent.
    """
    patch: Json = {key: None for key in old if new.get(key) is None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or (key in old and is_same(before, value)):
            continue
        patch[key] = merge_patch_between(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return patch


def is_same(left: Any, right: Any) -> bool:
    """Say whether two JSON values are equal as JSON: unlike Python's ==, true is not 1 and 1 is not 1.0."""
    if left is right:
        return True
    if left != right:
        return False
    return isinstance(left, str) or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def duplicate(value: Json) -> Json:
    """Return a copy of a JSON object as a store returned it, in a tenth of the time that `copy.deepcopy` takes."""
    copied: Json = marshal.loads(marshal.dumps(value))  # noqa: S302 - our own bytes
    return copied

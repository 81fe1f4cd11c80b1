"""Bank conflicts: the cycles of a warp's request to shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

_BANKS, _WORD = 32, 4  # banks of shared memory; bytes of a word, of which each bank delivers one a cycle

Lanes = np.ndarray[Any, Any]


def cycles(addresses: Lanes, mask: Lanes, size: int) -> tuple[Lanes, Lanes]:
    """The cycles of each row of 32 byte addresses, of accesses of `size` bytes where `mask` holds; and the
    cycles if the words were contiguous.

    Accesses of up to 4 bytes are served to a whole warp at once, in as many cycles as one bank has to deliver
    words.  Wider ones are served to each half of a warp in turn, those of 16 bytes to each quarter, but to
    two of these parts at once if each lane accesses the same as a neighbour.  The source for 4 bytes is the
    CUDA C++ programming guide; the rest is commonly observed.
    """
    active = np.where(mask, addresses, addresses[np.arange(len(addresses)), mask.argmax(1)][:, None])
    needed = -(-_words(active, size)[1] // _BANKS)
    if size <= _WORD:
        return _words(active, size)[0], needed
    total: Lanes = np.zeros(len(active), np.int64)
    groups: list[Lanes] = np.split(active, max(1, size // (2 * _WORD)), axis=1)
    for group in groups:
        lanes = range(group.shape[1])
        same = [np.all(group == group[:, [n ^ i for n in lanes]], axis=1) for i in (1, 2)]
        separate = sum(_words(part, size)[0] for part in np.split(group, 2, axis=1))
        total += np.where(same[0] | same[1], _words(group, size)[0], separate)
    return total, np.minimum(needed, total)


def _words(addresses: Lanes, size: int) -> tuple[Lanes, Lanes]:
    """For each row of addresses the maximum over banks of words to deliver, and the number of words."""
    words = np.concatenate([addresses // _WORD + k for k in range(max(1, size // _WORD))], axis=1)
    words = np.sort(words, axis=1)
    new = np.concatenate([np.ones((len(words), 1), bool), np.diff(words) != 0], axis=1)
    number = np.arange(len(words))[:, None] * _BANKS + words % _BANKS
    each = np.bincount(number[new], minlength=len(words) * _BANKS).reshape(-1, _BANKS)
    return each.max(1), new.sum(1)

"""Options are checked when they are made: names, kinds and ranges of each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tc

INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"strict": 1}, "option strict=1 is not valid", "strict is True or False"),
    ({"fast_math": None}, "option fast_math=None is not valid", "fast_math is True or False"),
    ({"pack": 0}, "option pack=0 is not valid", "pack is True, False or None"),
    ({"parallel": "no"}, "option parallel='no' is not valid", "parallel is True, False or None"),
    ({"fusion": "most"}, "option fusion='most' is not valid",
     "fusion is 'max', 'preserve3coincident', 'min', a function or None"),
    ({"fusion": ["max"]}, "option fusion=['max'] is not valid",
     "fusion is 'max', 'preserve3coincident', 'min', a function or None"),
    ({"intra_tile_fusion": "most"}, "option intra_tile_fusion='most' is not valid",
     "intra_tile_fusion is 'max', 'preserve3coincident', 'min' or None"),
    (
        {"isa": "avx"},
        "option isa='avx' is not valid",
        "isa is 'avx512', 'avx2', 'sse4.2', 'neon', one such as 'sm_90' or None",
    ),
    ({"tile": 8}, "option tile=8 is not valid", "tile is a tuple of positive integers or None"),
    ({"tile": (8, 0)}, "option tile=(8, 0) is not valid", "tile is a tuple of positive integers or None"),
    ({"tile": "88"}, "option tile='88' is not valid", "tile is a tuple of positive integers or None"),
    ({"tile": ()}, "option tile=() is not valid", "tile is a tuple of positive integers or None"),
    ({"tile": (-8,)}, "option tile=(-8,) is not valid", "tile is a tuple of positive integers or None"),
    ({"threads": (32, 0)}, "option threads=(32, 0) is not valid",
     "threads is a tuple of positive integers or None"),
    ({"threads": (-1,)}, "option threads=(-1,) is not valid",
     "threads is a tuple of positive integers or None"),
    ({"threads": (1025,)}, "option threads=(1025,) is not valid",
     "threads is at most 1024 in all, these are 1025"),
    ({"blocks": (0,)}, "option blocks=(0,) is not valid", "blocks is a tuple of positive integers or None"),
    ({"blocks": (4, -4)}, "option blocks=(4, -4) is not valid",
     "blocks is a tuple of positive integers or None"),
    ({"blocks": (1 << 16, 1 << 15)}, "option blocks=(65536, 32768) is not valid",
     "blocks is at most 2147483647 in all, these are 2147483648"),
    ({"max_shared_memory": 0}, "option max_shared_memory=0 is not valid",
     "max_shared_memory is a positive number of bytes or None"),
    ({"max_shared_memory": -1024}, "option max_shared_memory=-1024 is not valid",
     "max_shared_memory is a positive number of bytes or None"),
    ({"register_tile": (True,)}, "option register_tile=(True,) is not valid",
     "register_tile is a tuple of positive integers or None"),
    ({"register_tile": [2.0]}, "option register_tile=[2.0] is not valid",
     "register_tile is a tuple of positive integers or None"),
    ({"vector": -2}, "option vector=-2 is not valid", "vector is the number of a loop, -1 or None"),
    ({"vector": 1.5}, "option vector=1.5 is not valid", "vector is the number of a loop, -1 or None"),
    ({"mapping": "identity", "threads": (4,)}, "option threads=(4,) is not valid",
     "threads is None, as mapping='identity' leaves nothing to map"),
    ({"mapping": "identity", "use_shared_memory": False}, "option use_shared_memory=False is not valid",
     "use_shared_memory is None, as mapping='identity' leaves nothing to map"),
    ({"unroll": 0}, "option unroll=0 is not valid", "unroll is a positive integer or None"),
    ({"unroll": 8.0}, "option unroll=8.0 is not valid", "unroll is a positive integer or None"),
    ({"unroll": True}, "option unroll=True is not valid", "unroll is a positive integer or None"),
    ({"order": ()}, "option order=() is not valid",
     "order is a tuple of numbers of loops, each once, or None"),
    ({"order": (0, 0)}, "option order=(0, 0) is not valid",
     "order is a tuple of numbers of loops, each once, or None"),
    ({"order": (1, -1)}, "option order=(1, -1) is not valid",
     "order is a tuple of numbers of loops, each once, or None"),
    ({"order": (True, 2)}, "option order=(True, 2) is not valid",
     "order is a tuple of numbers of loops, each once, or None"),
    ({"order": 1}, "option order=1 is not valid", "order is a tuple of numbers of loops, each once, or None"),
    ({"prefetch": 1}, "option prefetch=1 is not valid", "prefetch is True, False or None"),
    ({"nontemporal": "x"}, "option nontemporal='x' is not valid", "nontemporal is True, False or None"),
    ({"machine": {}}, "option machine={} is not valid",
     "machine is the name of a GPU, a mapping of names to numbers from 0 up or None"),
    ({"machine": {"cores": -1}}, "option machine={'cores': -1} is not valid",
     "machine is the name of a GPU, a mapping of names to numbers from 0 up or None"),
    ({"machine": {"cores": True}}, "option machine={'cores': True} is not valid",
     "machine is the name of a GPU, a mapping of names to numbers from 0 up or None"),
    ({"machine": 3}, "option machine=3 is not valid",
     "machine is the name of a GPU, a mapping of names to numbers from 0 up or None"),
    ({"machine": [["l2", 1], "l3"]}, "option machine=[['l2', 1], 'l3'] is not valid",
     "machine is the name of a GPU, a mapping of names to numbers from 0 up or None"),
    ({"autoschedule": "x"}, "option autoschedule='x' is not valid",
     "autoschedule is 'Mullapudi2016', 'Adams2019', 'Li2018' or None"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "message", "help_"), INVALID, ids=[str(v) for v, *_ in INVALID])
def test_invalid_values(values: dict[str, Any], message: str, help_: str) -> None:
    with pytest.raises(tc.ArgumentError) as caught:
        tc.Options(**values)
    assert (caught.value.code, caught.value.message, caught.value.help) == ("TC0511", message, help_)
    with pytest.raises(tc.ArgumentError, match="not valid"):
        tc.compile("def f(float(N) A) -> (B) { B(i) = A(i) }", "cpu", options=values)


@pytest.mark.parametrize("value", ["1", True, [1], (0,)])
def test_a_vector_that_is_no_number(value: Any) -> None:
    with pytest.raises(tc.ArgumentError, match="option vector=") as caught:
        tc.Options(vector=value)
    assert caught.value.code == "TC0511"


VALID = [
    {"tile": (64, 8), "register_tile": (4,), "vector": 0, "unroll": 64},
    {"vector": -1, "pack": False, "parallel": True, "isa": "neon", "fusion": "min"},
    {"order": (2, 0, 1), "prefetch": False, "nontemporal": True},
    {"strict": True, "fast_math": True, "fusion": "preserve3coincident", "isa": "sse4.2"},
    {"machine": (("cores", 4), ("l2_bandwidth", 16.5))},
    {"machine": "H200"},
    {},
]


@pytest.mark.parametrize("values", VALID, ids=str)
def test_valid_values_survive_json(values: dict[str, Any]) -> None:
    options = tc.Options(**values)
    assert options.changed() == values
    assert tc.Options.from_json(options.to_json()) == options
    assert json.loads(options.to_json()).keys() == values.keys()
    assert eval(repr(options), {"tc": tc}) == options
    assert hash(options) == hash(tc.Options(**values))


def test_numbers_of_numpy() -> None:
    """What a tuner draws."""
    drawn = tc.Options(
        tile=(np.int64(32), np.uint8(4)),
        order=(np.int32(1), np.int32(0)),
        unroll=np.int16(8),  # type: ignore[arg-type]
        vector=np.int64(0),  # type: ignore[arg-type]
        max_shared_memory=np.int64(4096),  # type: ignore[arg-type]
        machine={"dram": np.float32(0.5)},
    )
    plain = tc.Options(
        tile=(32, 4), order=(1, 0), unroll=8, vector=0, max_shared_memory=4096, machine={"dram": 0.5}
    )
    assert repr(drawn) == repr(plain)
    assert drawn.to_json() == plain.to_json()
    for wrong in ({"tile": (np.int64(0),)}, {"unroll": np.float64(8.0)}, {"threads": (np.True_,)}):
        with pytest.raises(tc.ArgumentError, match="TC0511"):
            tc.Options(**wrong)  # type: ignore[arg-type]


def test_a_machine_is_a_mapping_or_pairs() -> None:
    pairs = (("cores", 2), ("l2", 1 << 20))
    for value in ({"l2": 1 << 20, "cores": 2}, [["cores", 2], ["l2", 1 << 20]], pairs):
        assert tc.Options(machine=value) == tc.Options(machine=pairs)  # type: ignore[arg-type]
    assert tc.Options.from_json('{"machine": {"cores": 2, "l2": 1048576}}') == tc.Options(machine=pairs)


def test_a_function_as_fusion() -> None:
    options = tc.Options(fusion=lambda proposal: False)
    assert options.changed() == {"fusion": options.fusion}
    with pytest.raises(tc.ArgumentError, match="JSON cannot hold") as caught:
        options.to_json()
    assert caught.value.code == "TC0511"


def test_lists_become_tuples() -> None:
    assert tc.Options(tile=[4, 8]) == tc.Options(tile=(4, 8))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message", "help_"),
    [
        ('{"tiles": [4]}', "there is no option 'tiles'", "did you mean 'tile'?"),
        ("[1]", "not a JSON object", 'options are {"name": value, …}'),
        ("{", "not JSON: ", 'options are {"name": value, …}'),
    ],
)
def test_texts_that_are_no_options(text: str, message: str, help_: str) -> None:
    with pytest.raises(tc.ArgumentError) as caught:
        tc.Options.from_json(text)
    assert caught.value.code == "TC0511"
    assert caught.value.message.startswith(message) and caught.value.help == help_

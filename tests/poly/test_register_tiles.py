"""Register tiles of an axis: whole ones and a remainder, or even ones of two lengths."""

from __future__ import annotations

import pytest

from tc.poly.tile_plan import Tile


@pytest.mark.parametrize("even", [False, True])
def test_register_tiles_cover_the_axis(even: bool) -> None:
    for register in range(1, 17):
        tile = Tile(1000, register, even=even)
        for extent in range(70):
            found = tile.registers(extent)
            assert sum(n * points for n, points in found) == extent
            assert all(0 < points <= register and n > 0 for n, points in found)
            assert sum(n for n, _ in found) == -(-extent // register)
            sizes = [points for _, points in found]
            assert len(sizes) <= 2 and sizes == sorted(sizes, reverse=True)
            if even and sizes:
                assert sizes[0] - sizes[-1] <= 1
            elif sizes:
                assert sizes[0] == min(register, extent)


def test_even_tiles_of_an_example() -> None:
    assert Tile(26, 6).registers(26) == [(4, 6), (1, 2)]
    assert Tile(26, 6, even=True).registers(26) == [(1, 6), (4, 5)]
    assert Tile(28, 6, even=True).registers(28) == [(3, 6), (2, 5)]

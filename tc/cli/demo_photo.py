"""The demo's photo: a program that makes a drawing of it, with pictures before and after."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tc.errors import Source

DRAWING = """def drawing(uint8(H,W,C) photo) -> (uint8(H,W,C) drawn) {
  x(c,i,j) = float(photo(i,j,c)) / 255
  # Smooth where colours vary little: a neighbour counts by its distance and by how alike its colour is.
  d(i,j,u,v) +=! e * e where e = x[none,clamp,clamp](c,i+u-4,j+v-4) - x(c,i,j), u in 0:9, v in 0:9
  w(i,j,u,v) = exp(-((u - 4) * (u - 4) + (v - 4) * (v - 4)) / 18.0 - 40 * d(i,j,u,v))
  total(i,j) +=! w(i,j,u,v)
  smooth(c,i,j) +=! w(i,j,u,v) * x[none,clamp,clamp](c,i+u-4,j+v-4)
  smooth(c,i,j) = smooth(c,i,j) / total(i,j)
  # Few shades, and dark lines where the smoothed brightness changes.
  grey(i,j) +=! smooth(c,i,j) / C
  gx(i,j) = grey[clamp](i,j+1) - grey[clamp](i,j-1) where i in 0:H, j in 0:W
  gy(i,j) = grey[clamp](i+1,j) - grey[clamp](i-1,j) where i in 0:H, j in 0:W
  line(i,j) = sigmoid(25 * (sqrt(gx(i,j) * gx(i,j) + gy(i,j) * gy(i,j)) - 0.25))
  drawn(i,j,c) = uint8(255 * round(10 * smooth(c,i,j)) / 10 * (1 - line(i,j)))
}
"""


def photo(backend: str | None, folder: Path) -> bool:
    """Draw a photo that scikit-learn ships and write both as PNG; whether a corner of it is as the oracle's.

    Without scikit-learn and Pillow it says so, and that is all.
    """
    from tc.api import compile_source, interpret

    out = sys.stdout
    out.write(f"\n=== a photo, drawn\n\n{DRAWING}\n")
    try:
        datasets: Any = importlib.import_module("sklearn.datasets")
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError as e:
        out.write(f"left out: {e}; pip install 'tensor-comprehensions[demo]'\n")
        return True
    before = np.ascontiguousarray(datasets.load_sample_image("china.jpg"))
    kernel = compile_source(Source(DRAWING, "<demo>"), backend)
    start = time.perf_counter()
    kernel(before)
    compiled = time.perf_counter()
    after = kernel(before)
    spent = time.perf_counter() - compiled
    corner = np.ascontiguousarray(before[:9, :13])
    ours, right = (np.asarray(x).astype(int) for x in (kernel(corner), interpret(DRAWING, corner)))
    worst = int(np.abs(ours - right).max())
    for name, picture in (("before", before), ("after", after)):
        pillow.fromarray(picture).save(folder / f"{name}.png")
    height, width, _ = before.shape
    out.write(
        f"{width}×{height} pixels in {1e3 * spent:.1f} ms on '{kernel.backend}', compiled in "
        f"{compiled - start:.2f} s; of a corner, the oracle {'agrees' if worst <= 1 else 'DISAGREES'} "
        f"(differences up to {worst} of 255)\n"
        f"pictures: {folder / 'before.png'}, {folder / 'after.png'}\n"
    )
    return worst <= 1

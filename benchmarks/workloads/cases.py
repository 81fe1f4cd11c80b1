"""The cases: every family at the sizes that are measured.

`report` has the report's (figures 5 to 7 and 15) and three of the original's own benchmarks, `more` has what
else people write, `programs` programs of several statements and moves.  The report's tables of 10^7 rows are
cut to a tenth; their look-ups stay random.
"""

from __future__ import annotations

from benchmarks.workloads import contractions as c
from benchmarks.workloads import convolutions as v
from benchmarks.workloads import lookups as l
from benchmarks.workloads import programs as p
from benchmarks.workloads import rowwise as r
from benchmarks.workloads import streaming as s
from benchmarks.workloads.general import GENERAL
from benchmarks.workloads.loops import LOOPS
from benchmarks.workloads.model import Case
from benchmarks.workloads.polybench import POLYBENCH

REPORT = (
    Case("report", c.tmm, (128, 32, 256), (3, 5, 4)),
    Case("report", c.tmm, (128, 1024, 1024), (4, 6, 5)),
    Case("report", c.tmm, (128, 4096, 16384), (2, 7, 9)),
    Case("report", c.tbmm, (500, 26, 72, 26), (3, 2, 5, 4)),
    Case("report", v.gconv, (32, 32, 16, 16, 14, 14), (2, 3, 2, 2, 5, 5)),
    Case("report", v.gconv, (32, 32, 32, 32, 7, 7), (1, 2, 3, 3, 4, 4)),
    Case("report", v.gconv, (32, 32, 4, 4, 56, 56), (2, 2, 1, 1, 6, 6)),
    Case("report", v.gconv, (32, 32, 8, 8, 28, 28), (1, 2, 2, 2, 5, 6)),
    Case("report", l.lut, (1_000_000, 64, 128, 50), (20, 4, 3, 5)),
    Case("report", l.lut2, (1_000_000, 64, 128, 50), (20, 4, 3, 5)),
    Case("report", c.tmm, (128, 1000, 1024), (3, 10, 4), label="c3"),
    Case("report", c.mlp1, (128, 2000, 128), (3, 7, 4)),
    Case("report", c.mlp3, (128, 128, 64, 32, 2), (3, 6, 5, 4, 2)),
    Case("report", c.kronecker3, (256, 16, 32), (2, 2, 3)),
    Case("report", r.moments, (1024, 36864), (3, 9)),
    Case("report", r.softmax, (1024, 1024), (3, 8)),
)

MORE = (
    Case("more", c.gemm, (512, 512, 512), (3, 4, 5)),
    Case("more", c.gemm, (127, 1000, 1003), (3, 5, 7)),
    Case("more", c.gemm_tn, (384, 768, 512), (3, 4, 5)),
    Case("more", c.dgemm, (512, 512, 512), (3, 4, 5)),
    Case("more", c.hgemm, (256, 512, 512), (3, 4, 5)),
    Case("more", c.igemm, (512, 512, 512), (18, 16, 24)),
    Case("more", c.bmm, (10_000, 4, 4, 4), (5, 2, 3, 4)),
    Case("more", c.matvec, (4096, 4096), (3, 4)),
    Case("more", c.vecmat, (4096, 4096), (3, 4)),
    Case("more", c.dot, (10_000_000,), (11,)),
    Case("more", c.gelu_mlp, (128, 512, 1024, 512), (2, 3, 4, 5)),
    Case("more", c.swiglu, (128, 512, 1024), (2, 3, 4)),
    Case("more", c.attention, (16, 256, 64), (2, 3, 4)),
    Case("more", c.chain3, (384,), (4,)),
    Case("more", c.bilinear, (64, 64, 64), (2, 3, 4)),
    Case("more", c.mttkrp, (128, 32), (4, 3)),
    Case("more", c.distances, (512, 512, 128), (3, 4, 5)),
    Case("more", c.syrk, (512, 512), (4, 5)),
    Case("more", v.conv2d, (8, 64, 64, 56, 56), (2, 3, 2, 5, 6)),
    Case("more", v.conv2d_same, (4, 128, 128, 28, 28), (2, 3, 2, 5, 6)),
    Case("more", v.conv2d_stride2, (8, 64, 128, 56, 56), (2, 3, 2, 7, 6)),
    Case("more", v.conv2d_nhwc, (8, 64, 64, 56, 56), (2, 3, 2, 5, 6)),
    Case("more", v.conv1x1, (8, 128, 128, 28, 28), (2, 3, 4, 2, 3)),
    Case("more", v.depthwise, (16, 128, 56, 56), (2, 3, 5, 6)),
    Case("more", v.conv1d, (16, 64, 64, 1000, 5), (2, 3, 2, 9, 3)),
    Case("more", v.conv_transposed, (8, 32, 32, 28, 28), (2, 3, 2, 4, 5)),
    Case("more", v.conv_weights, (8, 32, 32, 28, 28), (2, 3, 2, 5, 6)),
    Case("more", v.max_pool, (16, 64, 112, 112), (2, 3, 6, 8)),
    Case("more", r.softmax, (1009, 1013), (3, 7)),
    Case("more", r.softmax_plain, (1024, 1024), (3, 8)),
    Case("more", r.moments, (1, 10_000_000), (1, 9)),
    Case("more", r.softmax_plain, (1, 10_000_000), (1, 13)),
    Case("more", r.layer_norm, (4096, 1024), (3, 8)),
    Case("more", r.rms_norm, (4096, 1024), (3, 8)),
    Case("more", r.batch_norm, (32, 64, 56, 56), (2, 3, 4, 4)),
    Case("more", r.group_norm, (16, 8, 8, 3136), (2, 2, 3, 4)),
    Case("more", r.cross_entropy, (1024, 10_000), (4, 9)),
    Case("more", r.row_sum, (4096, 4096), (3, 5)),
    Case("more", r.column_sum, (4096, 4096), (3, 5)),
    Case("more", r.row_max, (4096, 4096), (3, 5)),
    Case("more", r.total, (10_000_000,), (11,)),
    Case("more", l.weighted_lut, (1_000_000, 64, 128, 50), (20, 4, 3, 5)),
    Case("more", l.lut, (200_000, 301, 64, 20), (20, 5, 3, 4)),
    Case("more", l.gather_rows, (1_000_000, 64, 6400), (20, 4, 7)),
    Case("more", l.gather_elements, (20_000_000, 100_000), (20, 9)),
    Case("more", l.sparse_rows, (200_000, 16, 100_000), (5, 3, 7)),
    Case("more", s.add, (10_000_000,), (11,)),
    Case("more", s.add, (1000,), (5,)),
    Case("more", s.chain, (10_000_000,), (11,)),
    Case("more", s.gate, (1_000_000,), (11,)),
    Case("more", s.outer_sum, (4096, 4096), (3, 4)),
    Case("more", s.fill, (10_000_000,), (11,)),
    Case("more", s.bias_relu, (32, 64, 3136), (2, 3, 5)),
    Case("more", s.transpose, (4096, 4096), (3, 4)),
    Case("more", s.transpose, (4095, 4097), (3, 5)),
    Case("more", s.permute, (16, 512, 16, 64), (2, 3, 4, 5)),
    Case("more", s.jacobi2d, (4096, 4096), (5, 6)),
    Case("more", s.jacobi3d, (256,), (5,)),
    Case("more", s.blur, (2160, 3840), (5, 6)),
    Case("more", s.downscale, (8, 1080, 1920), (2, 4, 6)),
)

PROGRAMS = (
    Case("programs", p.lstm_cell, (64, 128, 256), (2, 3, 5)),
    Case("programs", p.causal_attention, (16, 200, 64), (2, 5, 3)),
    Case("programs", p.separable_conv, (4, 64, 128, 56, 56), (2, 3, 2, 4, 5)),
    Case("programs", p.conv_pool, (8, 16, 32, 32, 32), (2, 3, 2, 3, 4)),
    Case("programs", p.squeeze_excite, (8, 256, 16, 28, 28), (2, 5, 2, 3, 4)),
    Case("programs", p.harris, (1024, 1024), (8, 9)),
    Case("programs", p.upscale, (64, 64, 64, 2), (2, 3, 5, 2)),
    Case("programs", p.upscale, (64, 64, 64, 3), (2, 3, 5, 3)),
    Case("programs", p.pixel_shuffle, (4, 4, 64, 64, 2), (2, 3, 4, 5, 2)),
    Case("programs", p.roll, (1000, 1000), (3, 7)),
)

CASES = REPORT + MORE
GROUPS = {"report": REPORT, "more": MORE, "programs": PROGRAMS, "polybench": POLYBENCH, "loops": LOOPS}

FAMILIES = {
    f.__name__: f for f in (*(case.family for case in CASES + PROGRAMS + POLYBENCH + LOOPS), *GENERAL)
}

"""Microkernels: one that does nothing, and one whose threads multiply and add in registers."""

from __future__ import annotations

TERMS = 1 << 14  # multiply-adds of a thread
BLOCKS, THREADS = 132 * 8, 256
TEXT = f"""
extern "C" __global__ void empty(float *o) {{ }}

extern "C" __global__ void multiply_adds(float *o) {{
  float a[16];
  float x = o[0], y = o[1];
#pragma unroll
  for (int i = 0; i < 16; ++i) a[i] = x + i;
  for (int k = 0; k < {TERMS // 16}; ++k) {{
#pragma unroll
    for (int i = 0; i < 16; ++i) a[i] = a[i] * y + x;
  }}
  float s = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) s += a[i];
  if (s == 12345.0f) o[2] = s;
}}
"""

"""tan of float32 for dialects whose own is too far off, in C99 and computed in float64.

|x| = n pi/2 + r, of n only whether it is odd.  Below 2^31 pi/2 is subtracted in two parts (Cody and Waite,
Software Manual for the Elementary Functions, 1980, ch. 8): with fma the first step is exact, and the second
is rounded once.  From there on x is an integer of 24 bits times a power of two, and is multiplied with those
bits of 2/pi that change the result (M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric
functions", SIGNUM Newsletter 18, 1983): integers modulo 2^64 have a bit for n and 63 for the fraction, of
which the last may be wrong.  No multiple of pi/2 is nearer than 2^-30 to a float32, so r is good to 2^-32.

tan r = r P(r^2) / Q(r^2) and -1 / tan r on |r| <= pi/4, off by 2^-45.1: the best relative approximation of
these degrees with P(0) = Q(0) = 1, found by Remez's exchange at 240 bits, coefficients rounded at the end.
Where n is 0 it is -0 that is added to x: zeros keep their signs, and subnormal numbers are themselves.
"""

TAN_F32 = """\
float tc_tan_f32(float x) {
  static const uint32_t two_over_pi[7] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
  };
  double r = x, z, p, q;
  bool odd;
  if (fabs(r) < 0x1p31) {
    int32_t n = (int32_t)rint(r * 0x1.45f306dc9c883p-1);
    r = fma((double)n, -0x1.921fb54442d18p+0, r);
    r = fma((double)n, -0x1.1a62633145c07p-54, r);
    odd = n & 1;
  } else {
    uint32_t b = tc_bits_of_f32(x), exponent = b >> 23 & 255, at = exponent - 151, shift = at & 31;
    if (exponent == 255) return x - x;
    const uint32_t *w = two_over_pi + (at >> 5);
    uint64_t high = (uint64_t)w[0] << 32 | w[1], low = (uint64_t)w[2] << 32 | w[3];
    uint64_t m = (b & 0x7fffff) | 0x800000, n;
    high = high << shift | low >> 1 >> (63 - shift);
    n = m * high + (m * (low << shift >> 32) >> 32); /* 2^63 |x| 2/pi modulo 2^64 */
    r = (double)(int64_t)(n << 1) * 0x1.921fb54442d18p-64;
    if (x < 0) r = -r;
    odd = (n + ((uint64_t)1 << 62)) >> 63;
  }
  z = r * r;
  p = r * (1.0 + z * (-0x1.f104803b9d3c5p-4 + z * 0x1.0a6bb57855114p-9));
  q = 1.0 + z * (-0x1.d196756444b6dp-2 + z * (0x1.4be7604826df0p-6 + z * -0x1.98bebd5a347bdp-14));
  return (float)((odd ? -q : p) / (odd ? p : q));
}"""

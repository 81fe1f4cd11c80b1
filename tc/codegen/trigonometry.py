"""sin, cos and tan of float32 in C99, for dialects whose own are not accurate enough or keep arrays in
memory.

x = n pi/2 + r, where only the last two bits of n matter.  Below a bound pi/2 is subtracted in parts (W. J.
Cody and W. Waite, Software Manual for the Elementary Functions, 1980, ch. 8): with fma the first step is
exact, and the others are rounded once.  From there on x is an integer of 24 bits times a power of two, and is
multiplied with those bits of 2/pi that change the result (M. H. Payne and R. N. Hanek, "Radian reduction for
trigonometric functions", SIGNUM Newsletter 18, 1983): integers modulo 2^64 have two bits for n and 62 for the
fraction, of which the last may be wrong.  No multiple of pi/2 is nearer than 2^-30 to a float32, so r is
accurate to 2^-31.  If n is 0, -0 is added to x, so that zeros keep their signs and subnormal numbers are
exact.

With |r| little above pi/4 at most, tan is r P(r^2) / Q(r^2) or its -1 / tan r, P(0) = Q(0) = 1, off by
2^-45.1, in float64.  In float32, which GPUs do at least twice as fast, sin and cos are near enough:
r + r^3 S(r^2), off by 2^-32.5, and 1 - r^2 / 2 + r^4 C(r^2), off by 2^-32.9.  All are the best relative
approximations of these degrees, by Remez's exchange at 200 bits or more; coefficients of float64 are rounded
at the end, those of float32 one after the other, lowest first, and the others fitted again.
"""

_REDUCED = """\
double tc_reduced_f32(float x, uint32_t *quadrant) { /* |x| >= 2^16 */
  static const uint32_t two_over_pi[8] = {
    0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
  };
  uint32_t b = tc_bits_of_f32(x), at = (b >> 23 & 255) - 120, shift = at & 31;
  const uint32_t *w = two_over_pi + (at >> 5);
  uint64_t high = (uint64_t)w[0] << 32 | w[1], low = (uint64_t)w[2] << 32 | w[3];
  uint64_t m = (b & 0x7fffff) | 0x800000, n;
  high = high << shift | low >> 1 >> (63 - shift);
  n = m * high + (m * (low << shift >> 32) >> 32); /* 2^62 |x| 2/pi modulo 2^64 */
  if (x < 0) n = -n;
  *quadrant = (n + ((uint64_t)1 << 61)) >> 62;
  return fabsf(x) < INFINITY ? (double)(int64_t)(n << 2) * 0x1.921fb54442d18p-64 : x - x;
}"""

_TAN = """\
float tc_tan_f32(float x) {
  double r = x, z, p, q;
  uint32_t n;
  if (fabs(r) < 0x1p31) {
    int32_t k = (int32_t)rint(r * 0x1.45f306dc9c883p-1);
    r = fma((double)k, -0x1.921fb54442d18p+0, r);
    r = fma((double)k, -0x1.1a62633145c07p-54, r);
    n = k;
  } else {
    r = tc_reduced_f32(x, &n);
  }
  z = r * r;
  p = r * (1.0 + z * (-0x1.f104803b9d3c5p-4 + z * 0x1.0a6bb57855114p-9));
  q = 1.0 + z * (-0x1.d196756444b6dp-2 + z * (0x1.4be7604826df0p-6 + z * -0x1.98bebd5a347bdp-14));
  return (float)((n & 1 ? -q : p) / (n & 1 ? p : q));
}"""

_WAVE = """\
float tc_wave_f32(float x, uint32_t quadrant) { /* sin(x + quadrant * pi/2) */
  float r, z, s, c;
  uint32_t n;
  if (fabsf(x) < 0x1p16f) {
    float t = fmaf(x, 0x1.45f306p-1f, 0x1.8p23f), k = t - 0x1.8p23f; /* rounded to an integer */
    r = fmaf(k, -0x1.921fb4p+0f, x);
    r = fmaf(k, -0x1.4442dp-24f, r);
    r = fmaf(k, -0x1.84698ap-48f, r);
    n = tc_bits_of_f32(t);
  } else {
    r = (float)tc_reduced_f32(x, &n);
  }
  n += quadrant;
  z = r * r;
  s = fmaf(z, fmaf(z, fmaf(z, 0x1.7c1116p-19f, -0x1.a0591ep-13f), 0x1.111174p-7f), -0x1.555556p-3f);
  s = fmaf(s, fmaf(r, z, 0.0f), r); /* of a zero its cube is not negative, so that it stays itself */
  c = fmaf(z, fmaf(z, fmaf(z, 0x1.99e42cp-16f, -0x1.6c0c2p-10f), 0x1.55554ap-5f), -0.5f);
  c = fmaf(z, c, 1.0f);
  s = n & 1 ? c : s;
  return n & 2 ? -s : s;
}"""

TRIGONOMETRY: dict[str, tuple[str, tuple[str, ...]]] = {  # helpers, and those that they call
    "tc_reduced_f32": (_REDUCED, ("tc_bits_of_f32",)),
    "tc_tan_f32": (_TAN, ("tc_reduced_f32",)),
    "tc_wave_f32": (_WAVE, ("tc_reduced_f32",)),
    "tc_sin_f32": ("float tc_sin_f32(float x) { return tc_wave_f32(x, 0); }", ("tc_wave_f32",)),
    "tc_cos_f32": ("float tc_cos_f32(float x) { return tc_wave_f32(x, 1); }", ("tc_wave_f32",)),
}

/* softmax: made by tc. */

static __device__ inline float tc_max_f32(float a, float b) {
  return a > b || (a == b && signbit(b)) ? a : b >= a ? b : a + b;
}

extern "C" __global__ __launch_bounds__(1)
void softmax_kernel(
    const float (*__restrict__ I)[7],
    float (*__restrict__ O)[7],
    char *__restrict__ workspace) {
  float *tmp = (float *)workspace;
  for (int n = 0; n < 3; n++) {
    /* S0: tmp(n) max=! I(n,d) # starts from the neutral element */
    tmp[n] = -__int_as_float(0x7f800000);
  }
  for (int n = 0; n < 3; n++) {
    for (int d = 0; d < 7; d++) {
      /* S1: tmp(n) max=! I(n,d) */
      tmp[n] = tc_max_f32(tmp[n], I[n][d]);
    }
  }
  for (int n = 0; n < 3; n++) {
    for (int d = 0; d < 7; d++) {
      /* S2: O(n,d) = exp(I(n,d) - tmp(n)) */
      O[n][d] = expf(I[n][d] - tmp[n]);
    }
  }
  for (int n = 0; n < 3; n++) {
    /* S3: tmp(n) +=! O(n,d) # starts from the neutral element */
    tmp[n] = 0.0f;
  }
  for (int n = 0; n < 3; n++) {
    for (int d = 0; d < 7; d++) {
      /* S4: tmp(n) +=! O(n,d) */
      tmp[n] += O[n][d];
    }
  }
  for (int n = 0; n < 3; n++) {
    for (int d = 0; d < 7; d++) {
      /* S5: O(n,d) = O(n,d) / tmp(n) */
      O[n][d] = O[n][d] / tmp[n];
    }
  }
}

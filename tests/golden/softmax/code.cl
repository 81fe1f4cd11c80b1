/* softmax: made by tc. */
#pragma OPENCL FP_CONTRACT OFF

static float tc_max_f32(float a, float b) {
  return a > b || (a == b && signbit(b)) ? a : b >= a ? b : a + b;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_kernel(
    __global const float (*restrict I)[7],
    __global float (*restrict O)[7],
    __global char *restrict workspace) {
  __global float *tmp = (__global float *)workspace;
  for (int n = 0; n < 3; n++) {
    /* S0: tmp(n) max=! I(n,d) # starts from the neutral element */
    tmp[n] = -INFINITY;
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
      O[n][d] = exp(I[n][d] - tmp[n]);
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

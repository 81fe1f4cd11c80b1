/* sgemm: made by tc. */
#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void sgemm_kernel(
    const float a,
    const float b,
    __global const float (*restrict A)[5],
    __global const float (*restrict B)[6],
    __global float (*restrict C)[6]) {
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 6; j++) {
      /* S0: C(i,j) = b * C(i,j) */
      C[i][j] = b * C[i][j];
    }
  }
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 6; j++) {
      for (int k = 0; k < 5; k++) {
        /* S1: C(i,j) += a * A(i,k) * B(k,j) */
        C[i][j] += a * A[i][k] * B[k][j];
      }
    }
  }
}

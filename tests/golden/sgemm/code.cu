/* sgemm: made by tc. */

extern "C" __global__ __launch_bounds__(1)
void sgemm_kernel(
    const float a,
    const float b,
    const float (*__restrict__ A)[5],
    const float (*__restrict__ B)[6],
    float (*__restrict__ C)[6]) {
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

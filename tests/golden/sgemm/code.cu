/* sgemm: made by tc. */

extern "C" __global__ __launch_bounds__(32)
void sgemm_kernel(
    const float a,
    const float b,
    const float (*__restrict__ A)[5],
    const float (*__restrict__ B)[6],
    float (*__restrict__ C)[6]) {
  __shared__ float A_0[4][5];
  __shared__ float B_1[5][7];
  float C_2[1];
  const int thread = threadIdx.x;
  const int t0 = thread % 8;
  const int t1 = thread / 8;
  if (t0 <= 5) {
    C_2[0] = C[t1][t0];
    /* S0: C(i,j) = b * C(i,j) */
    C_2[0] = b * C_2[0];
  }
  for (int l1_1 = t0 + 8 * t1; l1_1 < 20; l1_1 += 32) {
    A_0[l1_1 / 5][l1_1 % 5] = A[l1_1 / 5][l1_1 % 5];
  }
  for (int l1_2 = t0 + 8 * t1; l1_2 < 30; l1_2 += 32) {
    B_1[l1_2 / 6][l1_2 % 6] = B[l1_2 / 6][l1_2 % 6];
  }
  __syncthreads();
  if (t0 <= 5) {
    for (int k = 0; k < 5; k++) {
      /* S1: C(i,j) += a * A(i,k) * B(k,j) */
      C_2[0] += a * A_0[t1][k] * B_1[k][t0];
    }
  }
  __syncthreads();
  if (t0 <= 5) {
    C[t1][t0] = C_2[0];
  }
}

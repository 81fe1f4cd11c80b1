/* sgemm: made by tc. */
#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void sgemm_kernel(
    const float a,
    const float b,
    __global const float (*restrict A)[5],
    __global const float (*restrict B)[6],
    __global float (*restrict C)[6]) {
  __local float A_0[4][5];
  __local float B_1[5][7];
  float C_2[1];
  const int thread = get_local_id(0);
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
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t0 <= 5) {
    for (int k = 0; k < 5; k++) {
      /* S1: C(i,j) += a * A(i,k) * B(k,j) */
      C_2[0] += a * A_0[t1][k] * B_1[k][t0];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t0 <= 5) {
    C[t1][t0] = C_2[0];
  }
}

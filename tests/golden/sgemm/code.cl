/* sgemm: made by tc. */
#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void sgemm_kernel(
    const float a,
    const float b,
    __global const float (*restrict A)[5],
    __global const float (*restrict B)[6],
    __global float (*C)[6]) {
  __local float scratch_f32[256];
  float C_0[1];
  float C_1[1];
  const int thread = get_local_id(0);
  const int t0 = thread % 8;
  const int t1 = thread / 8 % 8;
  const int t2 = thread / 8 / 8;
  if (t0 == 0 && t1 <= 5) {
    /* C to registers */
    C_0[0] = C[t2][t1];
    /* S0: C(i,j) = b * C(i,j) */
    C_0[0] = b * C_0[0];
  }
  C_1[0] = 0.0f;
  if (t0 <= 4 && t1 <= 5) {
    /* S1: C(i,j) += a * A(i,k) * B(k,j) */
    C_1[0] += a * A[t2][t0] * B[t0][t1];
  }
  /* + of C.1 over t0 */
  scratch_f32[thread] = C_1[0];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t0 == 0) {
    const int first = thread;
    float held = scratch_f32[first];
    #pragma unroll
    for (int part = 1; part < 8; part++) {
      held = held + scratch_f32[first + part];
    }
    C_1[0] = held;
  }
  if (t0 == 0 && t1 <= 5) {
    /* C, its parts */
    C_0[0] += C_1[0];
    /* C from registers */
    C[t2][t1] = C_0[0];
  }
}

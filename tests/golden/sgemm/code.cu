/* sgemm: made by tc. */

extern "C" __global__ __launch_bounds__(256)
void sgemm_kernel(
    const float a,
    const float b,
    const float (*__restrict__ A)[5],
    const float (*__restrict__ B)[6],
    float (*C)[6]) {
  __shared__ float scratch_f32[64];
  float C_0[1];
  float C_1[1];
  const int b0 = blockIdx.x;
  const int thread = threadIdx.x;
  const int t0 = thread % 8;
  const int t1 = thread / 8;
  if (t0 <= 5 && t1 == 0) {
    /* C to registers */
    C_0[0] = C[b0][t0];
    /* S0: C(i,j) = b * C(i,j) */
    C_0[0] = b * C_0[0];
  }
  C_1[0] = 0.0f;
  if (t0 <= 5 && t1 <= 4) {
    /* S1: C(i,j) += a * A(i,k) * B(k,j) */
    C_1[0] += a * A[b0][t1] * B[t1][t0];
  }
  /* + of C.1 over t1 */
  {
    float held = C_1[0];
    #pragma unroll
    for (int step = 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step * 8);
      held = held + other;
    }
    if (thread % 32 < 8) scratch_f32[thread / 32 * 8 + thread % 8] = held;
  }
  __syncthreads();
  {
    const int first = thread % 8;
    float held = scratch_f32[first];
    #pragma unroll
    for (int warp = 1; warp < 8; warp++) {
      held = held + scratch_f32[first + warp * 8];
    }
    C_1[0] = held;
  }
  if (t0 <= 5 && t1 == 0) {
    /* C, its parts */
    C_0[0] += C_1[0];
    /* C from registers */
    C[b0][t0] = C_0[0];
  }
}

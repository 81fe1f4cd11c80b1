/* sgemm: made by tc. */

extern "C" __global__ __launch_bounds__(256)
void sgemm_kernel(
    const float a,
    const float b,
    const float (*__restrict__ A)[5],
    const float (*__restrict__ B)[6],
    float (*C)[6]) {
  float C_0[1];
  float C_1[1];
  const int thread = threadIdx.x;
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
  {
    float held = C_1[0];
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step);
      held = held + other;
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

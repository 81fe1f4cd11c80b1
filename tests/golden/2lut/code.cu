/* 2LUT: made by tc. */

static __device__ inline void tc_fail(
    long long *error, int site, long long value, int dimension, int count,
    const long long *point) {
  /* The thread that is first tells. */
  if (!(atomicCAS((int *)error, 0, site + 1) == 0)) return;
  error[1] = value;
  error[2] = count;
  for (int i = 0; i < count; i++) error[3 + i] = point[i];
  error[3 + count] = dimension;
}

extern "C" __global__ __launch_bounds__(256)
void v_2LUT_kernel(
    const float (*__restrict__ LUT1)[4],
    const int (*__restrict__ I1)[5],
    const float (*__restrict__ LUT2)[4],
    const int (*__restrict__ I2)[6],
    float (*__restrict__ O1)[4],
    float (*__restrict__ O2)[4],
    long long *error) {
  __shared__ float scratch_f32[32];
  __shared__ float scratch1_f32[32];
  float O1_4[1];
  float O2_5[1];
  float O1_6[1];
  float O2_7[1];
  const int b0 = blockIdx.x;
  const int thread = threadIdx.x;
  const int t0 = thread % 4;
  const int t1 = thread / 4;
  if (t1 == 0) {
    /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
    O1_4[0] = 0.0f;
  }
  O1_6[0] = 0.0f;
  if (t1 <= 4) {
    /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
    {
      const int at = I1[b0][t1];
      const bool inside = at >= 0 && at < 10;
      if (!inside) {
        const long long point[] = {b0, t0, t1};
        tc_fail(error, 1, at, 0, 3, point);
      }
      O1_6[0] += (inside ? LUT1[at][t0] : 0);
    }
  }
  /* + of O1.6 over t1 */
  {
    float held = O1_6[0];
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step * 4);
      held = held + other;
    }
    if (thread % 32 < 4) scratch_f32[thread / 32 * 4 + thread % 4] = held;
  }
  __syncthreads();
  {
    const int first = thread % 4;
    float held = scratch_f32[first];
    #pragma unroll
    for (int warp = 1; warp < 8; warp++) {
      held = held + scratch_f32[first + warp * 4];
    }
    O1_6[0] = held;
  }
  if (t1 == 0) {
    /* O1, its parts */
    O1_4[0] += O1_6[0];
    /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
    O2_5[0] = 0.0f;
  }
  O2_7[0] = 0.0f;
  if (t1 <= 5) {
    /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
    {
      const int at = I2[b0][t1];
      const bool inside = at >= 0 && at < 11;
      if (!inside) {
        const long long point[] = {b0, t0, t1};
        tc_fail(error, 3, at, 0, 3, point);
      }
      O2_7[0] += (inside ? LUT2[at][t0] : 0);
    }
  }
  /* + of O2.7 over t1 */
  {
    float held = O2_7[0];
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step * 4);
      held = held + other;
    }
    if (thread % 32 < 4) scratch1_f32[thread / 32 * 4 + thread % 4] = held;
  }
  __syncthreads();
  {
    const int first = thread % 4;
    float held = scratch1_f32[first];
    #pragma unroll
    for (int warp = 1; warp < 8; warp++) {
      held = held + scratch1_f32[first + warp * 4];
    }
    O2_7[0] = held;
  }
  if (t1 == 0) {
    /* O2, its parts */
    O2_5[0] += O2_7[0];
    /* O1 from registers */
    O1[b0][t0] = O1_4[0];
    /* O2 from registers */
    O2[b0][t0] = O2_5[0];
  }
}

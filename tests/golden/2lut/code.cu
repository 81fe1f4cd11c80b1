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

extern "C" __global__ __launch_bounds__(128)
void v_2LUT_kernel(
    const float (*__restrict__ LUT1)[4],
    const int (*__restrict__ I1)[5],
    const float (*__restrict__ LUT2)[4],
    const int (*__restrict__ I2)[6],
    float (*__restrict__ O1)[4],
    float (*__restrict__ O2)[4],
    long long *__restrict__ error) {
  float O1_2[1];
  float O2_3[1];
  const int thread = threadIdx.x;
  const int t0 = thread % 8;
  const int t1 = thread / 8 % 4;
  const int t2 = thread / 8 / 4;
  if (t0 == 0 && t2 <= 2) {
    /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
    O1[t2][t1] = 0.0f;
  }
  O1_2[0] = 0.0f;
  if (t0 <= 4 && t2 <= 2) {
    /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
    {
      const int at = I1[t2][t0];
      const bool inside = at >= 0 && at < 10;
      if (!inside) {
        const long long point[] = {t2, t1, t0};
        tc_fail(error, 1, at, 0, 3, point);
      }
      O1_2[0] += (inside ? LUT1[at][t1] : 0);
    }
  }
  /* + of O1.2 over t0 */
  {
    float held = O1_2[0];
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step);
      held = held + other;
    }
    O1_2[0] = held;
  }
  if (t0 == 0 && t2 <= 2) {
    /* O1, its parts */
    O1[t2][t1] += O1_2[0];
    /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
    O2[t2][t1] = 0.0f;
  }
  O2_3[0] = 0.0f;
  if (t0 <= 5 && t2 <= 2) {
    /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
    {
      const int at = I2[t2][t0];
      const bool inside = at >= 0 && at < 11;
      if (!inside) {
        const long long point[] = {t2, t1, t0};
        tc_fail(error, 3, at, 0, 3, point);
      }
      O2_3[0] += (inside ? LUT2[at][t1] : 0);
    }
  }
  /* + of O2.3 over t0 */
  {
    float held = O2_3[0];
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step);
      held = held + other;
    }
    O2_3[0] = held;
  }
  if (t0 == 0 && t2 <= 2) {
    /* O2, its parts */
    O2[t2][t1] += O2_3[0];
  }
}

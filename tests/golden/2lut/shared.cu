/* 2LUT: made by tc. */

static __device__ inline void tc_move16(void *to, const void *from, bool inside) {
  *(uint4 *)to = inside ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
}
static __device__ inline void tc_move8(void *to, const void *from, bool inside) {
  *(uint2 *)to = inside ? *(const uint2 *)from : make_uint2(0, 0);
}
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

extern "C" __global__ __launch_bounds__(64)
void v_2LUT_kernel(
    const float (*__restrict__ LUT1)[16],
    const int (*__restrict__ I1)[16],
    const float (*__restrict__ LUT2)[16],
    const int (*__restrict__ I2)[16],
    float (*__restrict__ O1)[16],
    float (*__restrict__ O2)[16],
    long long *error) {
  __shared__ __align__(16) int I1_8[4][8];
  __shared__ __align__(16) int I2_9[4][8];
  __shared__ __align__(8) float LUT1_10[4][8][18];
  __shared__ __align__(8) float LUT2_11[4][8][18];
  float O1_6[1];
  float O2_7[1];
  const int b0 = blockIdx.x;
  const int thread = threadIdx.x;
  const int t0 = thread % 16;
  const int t1 = thread / 16;
  /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
  O1_6[0] = 0.0f;
  /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
  O2_7[0] = 0.0f;
  for (int c0 = 0; c0 < 2; c0++) {
    for (int l1_1 = t0 / 2 + 8 * t1; l1_1 < 4; l1_1 += 32) {
      /* I1 to shared memory */
      const bool inside = 4 * b0 + l1_1 < 9;
      tc_move16(&I1_8[l1_1][4 * (t0 % 2)], inside ? &I1[4 * b0 + l1_1][8 * c0 + 4 * (t0 % 2)] : (const int *)I1, inside);
    }
    for (int l1_2 = t0 / 2 + 8 * t1; l1_2 < 4; l1_2 += 32) {
      /* I2 to shared memory */
      const bool inside1 = 4 * b0 + l1_2 < 9;
      tc_move16(&I2_9[l1_2][4 * (t0 % 2)], inside1 ? &I2[4 * b0 + l1_2][8 * c0 + 4 * (t0 % 2)] : (const int *)I2, inside1);
    }
    __syncthreads();
    bool failed = false;
    #pragma unroll
    for (int l1_of_1_0 = 0; l1_of_1_0 < 4; l1_of_1_0++) {
      /* LUT1 to shared memory */
      if (4 * b0 + l1_of_1_0 < 9) {
        const int at = I1_8[l1_of_1_0][t0 / 8 + 2 * t1];
        const bool inside2 = at >= 0 && at < 50;
        failed |= !inside2;
        tc_move8(&LUT1_10[l1_of_1_0][t0 / 8 + 2 * t1][2 * (t0 % 8)], &LUT1[inside2 ? at : 0][2 * (t0 % 8)], true);
      } else {
        tc_move8(&LUT1_10[l1_of_1_0][t0 / 8 + 2 * t1][2 * (t0 % 8)], (const float *)LUT1, false);
      }
    }
    #pragma unroll
    for (int l1_of_2_0 = 0; l1_of_2_0 < 4; l1_of_2_0++) {
      /* LUT2 to shared memory */
      if (4 * b0 + l1_of_2_0 < 9) {
        const int at1 = I2_9[l1_of_2_0][t0 / 8 + 2 * t1];
        const bool inside3 = at1 >= 0 && at1 < 60;
        failed |= !inside3;
        tc_move8(&LUT2_11[l1_of_2_0][t0 / 8 + 2 * t1][2 * (t0 % 8)], &LUT2[inside3 ? at1 : 0][2 * (t0 % 8)], true);
      } else {
        tc_move8(&LUT2_11[l1_of_2_0][t0 / 8 + 2 * t1][2 * (t0 % 8)], (const float *)LUT2, false);
      }
    }
    if (failed) {  /* which check was the first */
      #pragma unroll 1
      for (int l1_of_1_01 = 0; failed && l1_of_1_01 < 4; l1_of_1_01++) {
        if (4 * b0 + l1_of_1_01 < 9) {
          const int at2 = I1_8[l1_of_1_01][t0 / 8 + 2 * t1];
          const bool inside4 = at2 >= 0 && at2 < 50;
          if (!inside4) {
            const long long point[] = {4 * b0 + l1_of_1_01, 2 * (t0 % 8), 8 * c0 + t0 / 8 + 2 * t1};
            tc_fail(error, 1, at2, 0, 3, point);
            failed = false;
          }
        }
      }
      #pragma unroll 1
      for (int l1_of_2_01 = 0; failed && l1_of_2_01 < 4; l1_of_2_01++) {
        if (4 * b0 + l1_of_2_01 < 9) {
          const int at3 = I2_9[l1_of_2_01][t0 / 8 + 2 * t1];
          const bool inside5 = at3 >= 0 && at3 < 60;
          if (!inside5) {
            const long long point[] = {4 * b0 + l1_of_2_01, 2 * (t0 % 8), 8 * c0 + t0 / 8 + 2 * t1};
            tc_fail(error, 3, at3, 0, 3, point);
            failed = false;
          }
        }
      }
    }
    __syncthreads();
    #pragma unroll 8
    for (int c1 = 0; c1 < 8; c1++) {
      /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
      O1_6[0] += LUT1_10[t1][c1][t0];
      /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
      O2_7[0] += LUT2_11[t1][c1][t0];
    }
  }
  if (4 * b0 + t1 <= 8) {
    /* O1 from registers */
    O1[4 * b0 + t1][t0] = O1_6[0];
    /* O2 from registers */
    O2[4 * b0 + t1][t0] = O2_7[0];
  }
}

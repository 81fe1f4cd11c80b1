/* 2LUT: made by tc. */
#pragma OPENCL FP_CONTRACT ON

static void tc_move16(__local void *to, __global const void *from, bool inside) {
  *(__local uint4 *)to = inside ? *(__global const uint4 *)from : (uint4)(0);
}
static void tc_move8(__local void *to, __global const void *from, bool inside) {
  *(__local uint2 *)to = inside ? *(__global const uint2 *)from : (uint2)(0);
}
static void tc_fail(
    __global long *error, int site, long value, int dimension, int count,
    const long *point) {
  /* The thread that is first tells. */
  if (!(atomic_cmpxchg((volatile __global int *)error, 0, site + 1) == 0)) return;
  error[1] = value;
  error[2] = count;
  for (int i = 0; i < count; i++) error[3 + i] = point[i];
  error[3 + count] = dimension;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void v_2LUT_0_kernel(
    __global const float (*restrict LUT1)[16],
    __global const int (*restrict I1)[16],
    __global float (*restrict O1)[16],
    __global long *restrict error) {
  __local __attribute__((aligned(16))) int I1_1[4][8];
  __local __attribute__((aligned(8))) float LUT1_2[4][8][18];
  float O1_0[1];
  const int b0 = get_group_id(0);
  const int thread = get_local_id(0);
  const int t0 = thread % 16;
  const int t1 = thread / 16;
  /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
  O1_0[0] = 0.0f;
  for (int c1 = 0; c1 < 2; c1++) {
    for (int l1_1_ = t0 + 16 * t1; l1_1_ < 8; l1_1_ += 64) {
      /* I1 to shared memory */
      const bool inside = 4 * b0 + l1_1_ / 2 < 9;
      tc_move16(&I1_1[l1_1_ / 2][4 * (l1_1_ % 2)], inside ? &I1[4 * b0 + l1_1_ / 2][8 * c1 + 4 * (l1_1_ % 2)] : (__global const int *)I1, inside);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    #pragma unroll
    for (int l1_of_1 = 0; l1_of_1 < 4; l1_of_1++) {
      /* LUT1 to shared memory */
      if (4 * b0 + l1_of_1 + t1 / 4 < 9) {
        const int at = I1_1[l1_of_1 + t1 / 4][(t0 / 8 + 2 * t1) % 8];
        const bool inside1 = at >= 0 && at < 50;
        if (!inside1) {
          const long point[] = {4 * b0 + l1_of_1 + t1 / 4, 2 * (t0 % 8), 8 * c1 + (t0 / 8 + 2 * t1) % 8};
          tc_fail(error, 1, at, 0, 3, point);
        }
        tc_move8(&LUT1_2[l1_of_1 + t1 / 4][(t0 / 8 + 2 * t1) % 8][2 * (t0 % 8)], inside1 ? &LUT1[at][2 * (t0 % 8)] : (__global const float *)LUT1, inside1);
      } else {
        tc_move8(&LUT1_2[l1_of_1 + t1 / 4][(t0 / 8 + 2 * t1) % 8][2 * (t0 % 8)], (__global const float *)LUT1, false);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    #pragma unroll 8
    for (int c2 = 0; c2 < 8; c2++) {
      /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
      O1_0[0] += LUT1_2[t1][c2][t0];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  }
  if (4 * b0 + t1 <= 8) {
    /* O1 from registers */
    O1[4 * b0 + t1][t0] = O1_0[0];
  }
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void v_2LUT_1_kernel(
    __global const float (*restrict LUT2)[16],
    __global const int (*restrict I2)[16],
    __global float (*restrict O2)[16],
    __global long *restrict error) {
  __local __attribute__((aligned(16))) int I2_4[4][8];
  __local __attribute__((aligned(8))) float LUT2_5[4][8][18];
  float O2_3[1];
  const int b0 = get_group_id(0);
  const int thread = get_local_id(0);
  const int t0 = thread % 16;
  const int t1 = thread / 16;
  /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
  O2_3[0] = 0.0f;
  for (int c1 = 0; c1 < 2; c1++) {
    for (int l1_1_ = t0 + 16 * t1; l1_1_ < 8; l1_1_ += 64) {
      /* I2 to shared memory */
      const bool inside = 4 * b0 + l1_1_ / 2 < 9;
      tc_move16(&I2_4[l1_1_ / 2][4 * (l1_1_ % 2)], inside ? &I2[4 * b0 + l1_1_ / 2][8 * c1 + 4 * (l1_1_ % 2)] : (__global const int *)I2, inside);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    #pragma unroll
    for (int l1_of_1 = 0; l1_of_1 < 4; l1_of_1++) {
      /* LUT2 to shared memory */
      if (4 * b0 + l1_of_1 + t1 / 4 < 9) {
        const int at = I2_4[l1_of_1 + t1 / 4][(t0 / 8 + 2 * t1) % 8];
        const bool inside1 = at >= 0 && at < 60;
        if (!inside1) {
          const long point[] = {4 * b0 + l1_of_1 + t1 / 4, 2 * (t0 % 8), 8 * c1 + (t0 / 8 + 2 * t1) % 8};
          tc_fail(error, 3, at, 0, 3, point);
        }
        tc_move8(&LUT2_5[l1_of_1 + t1 / 4][(t0 / 8 + 2 * t1) % 8][2 * (t0 % 8)], inside1 ? &LUT2[at][2 * (t0 % 8)] : (__global const float *)LUT2, inside1);
      } else {
        tc_move8(&LUT2_5[l1_of_1 + t1 / 4][(t0 / 8 + 2 * t1) % 8][2 * (t0 % 8)], (__global const float *)LUT2, false);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    #pragma unroll 8
    for (int c2 = 0; c2 < 8; c2++) {
      /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
      O2_3[0] += LUT2_5[t1][c2][t0];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  }
  if (4 * b0 + t1 <= 8) {
    /* O2 from registers */
    O2[4 * b0 + t1][t0] = O2_3[0];
  }
}

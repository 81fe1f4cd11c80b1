/* 1LUT: made by tc. */
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
void v_1LUT_kernel(
    __global const float (*restrict LUT)[16],
    __global const int (*restrict I)[16],
    __global float (*restrict O)[16],
    __global long *error) {
  __local __attribute__((aligned(16))) int I_1[4][8];
  __local __attribute__((aligned(8))) float LUT_2[4][8][18];
  float O_0[1];
  const int b0 = get_group_id(0);
  const int thread = get_local_id(0);
  const int t0 = thread % 16;
  const int t1 = thread / 16;
  /* S0: O(i,j) +=! LUT(I(i,k),j) # starts from the neutral element */
  O_0[0] = 0.0f;
  for (int c0 = 0; c0 < 2; c0++) {
    for (int l1_1 = t0 / 2 + 8 * t1; l1_1 < 4; l1_1 += 32) {
      /* I to shared memory */
      const bool inside = 4 * b0 + l1_1 < 9;
      tc_move16(&I_1[l1_1][4 * (t0 % 2)], inside ? &I[4 * b0 + l1_1][8 * c0 + 4 * (t0 % 2)] : (__global const int *)I, inside);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    bool failed = false;
    #pragma unroll
    for (int l1_of_1_0 = 0; l1_of_1_0 < 4; l1_of_1_0++) {
      /* LUT to shared memory */
      if (4 * b0 + l1_of_1_0 < 9) {
        const int at = I_1[l1_of_1_0][t0 / 8 + 2 * t1];
        const bool inside1 = at >= 0 && at < 50;
        failed |= !inside1;
        tc_move8(&LUT_2[l1_of_1_0][t0 / 8 + 2 * t1][2 * (t0 % 8)], &LUT[inside1 ? at : 0][2 * (t0 % 8)], true);
      } else {
        tc_move8(&LUT_2[l1_of_1_0][t0 / 8 + 2 * t1][2 * (t0 % 8)], (__global const float *)LUT, false);
      }
    }
    if (failed) {  /* which check was the first */
      #pragma unroll 1
      for (int l1_of_1_01 = 0; failed && l1_of_1_01 < 4; l1_of_1_01++) {
        if (4 * b0 + l1_of_1_01 < 9) {
          const int at1 = I_1[l1_of_1_01][t0 / 8 + 2 * t1];
          const bool inside2 = at1 >= 0 && at1 < 50;
          if (!inside2) {
            const long point[] = {4 * b0 + l1_of_1_01, 2 * (t0 % 8), 8 * c0 + t0 / 8 + 2 * t1};
            tc_fail(error, 1, at1, 0, 3, point);
            failed = false;
          }
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    #pragma unroll 8
    for (int c1 = 0; c1 < 8; c1++) {
      /* S1: O(i,j) +=! LUT(I(i,k),j) */
      O_0[0] += LUT_2[t1][c1][t0];
    }
  }
  if (4 * b0 + t1 <= 8) {
    /* O from registers */
    O[4 * b0 + t1][t0] = O_0[0];
  }
}

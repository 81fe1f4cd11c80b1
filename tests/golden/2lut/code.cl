/* 2LUT: made by tc. */
#pragma OPENCL FP_CONTRACT ON

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

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void v_2LUT_0_kernel(
    __global const float (*restrict LUT1)[4],
    __global const int (*restrict I1)[5],
    __global float (*restrict O1)[4],
    __global long *restrict error) {
  __local int I1_0[3][5];
  float O1_1[1];
  const int thread = get_local_id(0);
  const int t0 = thread % 4;
  const int t1 = thread / 4;
  if (t1 <= 2) {
    /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
    O1_1[0] = 0.0f;
  }
  for (int l1_1 = t0 + 4 * t1; l1_1 < 15; l1_1 += 16) {
    I1_0[l1_1 / 5][l1_1 % 5] = I1[l1_1 / 5][l1_1 % 5];
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t1 <= 2) {
    for (int k = 0; k < 5; k++) {
      /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
      {
        const int at = I1_0[t1][k];
        const bool inside = at >= 0 && at < 10;
        if (!inside) {
          const long point[] = {t1, t0, k};
          tc_fail(error, 1, at, 0, 3, point);
        }
        O1_1[0] += (inside ? LUT1[at][t0] : 0);
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t1 <= 2) {
    O1[t1][t0] = O1_1[0];
  }
}

__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void v_2LUT_1_kernel(
    __global const float (*restrict LUT2)[4],
    __global const int (*restrict I2)[6],
    __global float (*restrict O2)[4],
    __global long *restrict error) {
  __local int I2_2[3][7];
  float O2_3[1];
  const int thread = get_local_id(0);
  const int t0 = thread % 4;
  const int t1 = thread / 4;
  if (t1 <= 2) {
    /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
    O2_3[0] = 0.0f;
  }
  for (int l1_1 = t0 + 4 * t1; l1_1 < 18; l1_1 += 16) {
    I2_2[l1_1 / 6][l1_1 % 6] = I2[l1_1 / 6][l1_1 % 6];
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t1 <= 2) {
    for (int k = 0; k < 6; k++) {
      /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
      {
        const int at = I2_2[t1][k];
        const bool inside = at >= 0 && at < 11;
        if (!inside) {
          const long point[] = {t1, t0, k};
          tc_fail(error, 3, at, 0, 3, point);
        }
        O2_3[0] += (inside ? LUT2[at][t0] : 0);
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t1 <= 2) {
    O2[t1][t0] = O2_3[0];
  }
}

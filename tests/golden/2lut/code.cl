/* 2LUT: made by tc. */
#pragma OPENCL FP_CONTRACT OFF

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

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void v_2LUT_kernel(
    __global const float (*restrict LUT1)[4],
    __global const int (*restrict I1)[5],
    __global const float (*restrict LUT2)[4],
    __global const int (*restrict I2)[6],
    __global float (*restrict O1)[4],
    __global float (*restrict O2)[4],
    __global long *restrict error) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 4; j++) {
      /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
      O1[i][j] = 0.0f;
    }
  }
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 4; j++) {
      for (int k = 0; k < 5; k++) {
        /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
        {
          const int at = I1[i][k];
          const bool inside = at >= 0 && at < 10;
          if (!inside) {
            const long point[] = {i, j, k};
            tc_fail(error, 1, at, 0, 3, point);
          }
          O1[i][j] += (inside ? LUT1[at][j] : 0);
        }
      }
    }
  }
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 4; j++) {
      /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
      O2[i][j] = 0.0f;
    }
  }
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 4; j++) {
      for (int k = 0; k < 6; k++) {
        /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
        {
          const int at = I2[i][k];
          const bool inside = at >= 0 && at < 11;
          if (!inside) {
            const long point[] = {i, j, k};
            tc_fail(error, 3, at, 0, 3, point);
          }
          O2[i][j] += (inside ? LUT2[at][j] : 0);
        }
      }
    }
  }
}

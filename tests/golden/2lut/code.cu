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

extern "C" __global__ __launch_bounds__(1)
void v_2LUT_kernel(
    const float (*__restrict__ LUT1)[4],
    const int (*__restrict__ I1)[5],
    const float (*__restrict__ LUT2)[4],
    const int (*__restrict__ I2)[6],
    float (*__restrict__ O1)[4],
    float (*__restrict__ O2)[4],
    long long *__restrict__ error) {
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
            const long long point[] = {i, j, k};
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
            const long long point[] = {i, j, k};
            tc_fail(error, 3, at, 0, 3, point);
          }
          O2[i][j] += (inside ? LUT2[at][j] : 0);
        }
      }
    }
  }
}

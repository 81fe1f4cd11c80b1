/* 2LUT: made by tc. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline int32_t tc_fail(int64_t *error, int64_t site, int64_t value, int64_t dimension, int count,
                              const int64_t *point) {
  error[0] = site + 1;
  error[1] = value;
  error[2] = count;
  for (int i = 0; i < count; i++) error[3 + i] = point[i];
  error[3 + count] = dimension;
  return 1;
}

int32_t v_2LUT(void *const *args);
int32_t v_2LUT(void *const *args) {
  const float (*LUT1)[4] = args[0];
  const int32_t (*I1)[5] = args[1];
  const float (*LUT2)[4] = args[2];
  const int32_t (*I2)[6] = args[3];
  float (*O1)[4] = args[4];
  float (*O2)[4] = args[5];
  int64_t *const error = args[6];
  for (int64_t i = 0; i < 3; i++) {
    for (int64_t j = 0; j < 4; j++) {
      /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
      O1[i][j] = 0.0f;
    }
  }
  for (int64_t i = 0; i < 3; i++) {
    for (int64_t j = 0; j < 4; j++) {
      for (int64_t k = 0; k < 5; k++) {
        /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
        {
          const int64_t at = (int64_t)I1[i][k];
          if (at < 0 || at >= 10)
            return tc_fail(error, 1, at, 0, 3, (const int64_t[]){i, j, k});
          O1[i][j] += LUT1[at][j];
        }
      }
    }
  }
  for (int64_t i = 0; i < 3; i++) {
    for (int64_t j = 0; j < 4; j++) {
      /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
      O2[i][j] = 0.0f;
    }
  }
  for (int64_t i = 0; i < 3; i++) {
    for (int64_t j = 0; j < 4; j++) {
      for (int64_t k = 0; k < 6; k++) {
        /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
        {
          const int64_t at = (int64_t)I2[i][k];
          if (at < 0 || at >= 11)
            return tc_fail(error, 3, at, 0, 3, (const int64_t[]){i, j, k});
          O2[i][j] += LUT2[at][j];
        }
      }
    }
  }
  return 0;
}

/* sgemm: made by tc. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

int32_t sgemm(void *const *args);
int32_t sgemm(void *const *args) {
  const float a = *(const float *)args[0];
  const float b = *(const float *)args[1];
  const float (*A)[5] = args[2];
  const float (*B)[6] = args[3];
  float (*C)[6] = args[4];
  for (int64_t i = 0; i < 4; i++) {
    for (int64_t j = 0; j < 6; j++) {
      /* S0: C(i,j) = b * C(i,j) */
      C[i][j] = b * C[i][j];
    }
  }
  for (int64_t i = 0; i < 4; i++) {
    for (int64_t j = 0; j < 6; j++) {
      for (int64_t k = 0; k < 5; k++) {
        /* S1: C(i,j) += a * A(i,k) * B(k,j) */
        C[i][j] += a * A[i][k] * B[k][j];
      }
    }
  }
  return 0;
}

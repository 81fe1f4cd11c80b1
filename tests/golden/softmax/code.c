/* softmax: made by tc. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline float tc_max_f32(float a, float b) {
  return a > b || (a == b && signbit(b)) ? a : b >= a ? b : a + b;
}

int32_t softmax(void *const *args);
int32_t softmax(void *const *args) {
  const float (*I)[7] = args[0];
  float (*O)[7] = args[1];
  float *tmp = args[3];
  for (int64_t n = 0; n < 3; n++) {
    /* S0: tmp(n) max=! I(n,d) # starts from the neutral element */
    tmp[n] = -INFINITY;
  }
  for (int64_t n = 0; n < 3; n++) {
    for (int64_t d = 0; d < 7; d++) {
      /* S1: tmp(n) max=! I(n,d) */
      tmp[n] = tc_max_f32(tmp[n], I[n][d]);
    }
  }
  for (int64_t n = 0; n < 3; n++) {
    for (int64_t d = 0; d < 7; d++) {
      /* S2: O(n,d) = exp(I(n,d) - tmp(n)) */
      O[n][d] = expf(I[n][d] - tmp[n]);
    }
  }
  for (int64_t n = 0; n < 3; n++) {
    /* S3: tmp(n) +=! O(n,d) # starts from the neutral element */
    tmp[n] = 0.0f;
  }
  for (int64_t n = 0; n < 3; n++) {
    for (int64_t d = 0; d < 7; d++) {
      /* S4: tmp(n) +=! O(n,d) */
      tmp[n] += O[n][d];
    }
  }
  for (int64_t n = 0; n < 3; n++) {
    for (int64_t d = 0; d < 7; d++) {
      /* S5: O(n,d) = O(n,d) / tmp(n) */
      O[n][d] = O[n][d] / tmp[n];
    }
  }
  return 0;
}

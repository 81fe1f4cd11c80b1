/* sconv: made by tc. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

int32_t sconv(void *const *args);
int32_t sconv(void *const *args) {
  const float (*I)[3][9][10] = args[0];
  const float (*W1)[3][3][2] = args[1];
  const float *B = args[2];
  float (*O)[4][4][3] = args[3];
  for (int64_t n = 0; n < 2; n++) {
    for (int64_t f = 0; f < 4; f++) {
      for (int64_t h = 0; h < 4; h++) {
        for (int64_t w = 0; w < 3; w++) {
          /* S0: O(n,f,h,w) = B(f) */
          O[n][f][h][w] = B[f];
        }
      }
    }
  }
  for (int64_t n = 0; n < 2; n++) {
    for (int64_t f = 0; f < 4; f++) {
      for (int64_t h = 0; h < 4; h++) {
        for (int64_t w = 0; w < 3; w++) {
          for (int64_t c = 0; c < 3; c++) {
            for (int64_t kh = 0; kh < 3; kh++) {
              for (int64_t kw = 0; kw < 2; kw++) {
                /* S1: O(n,f,h,w) += I(n,c,2*h+kh,3*w+kw) * W1(f,c,kh,kw) */
                O[n][f][h][w] += I[n][c][2 * h + kh][3 * w + kw] * W1[f][c][kh][kw];
              }
            }
          }
        }
      }
    }
  }
  return 0;
}

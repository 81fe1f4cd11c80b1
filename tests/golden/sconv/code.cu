/* sconv: made by tc. */

extern "C" __global__ __launch_bounds__(1)
void sconv_kernel(
    const float (*__restrict__ I)[3][9][10],
    const float (*__restrict__ W1)[3][3][2],
    const float *__restrict__ B,
    float (*__restrict__ O)[4][4][3]) {
  for (int n = 0; n < 2; n++) {
    for (int f = 0; f < 4; f++) {
      for (int h = 0; h < 4; h++) {
        for (int w = 0; w < 3; w++) {
          /* S0: O(n,f,h,w) = B(f) */
          O[n][f][h][w] = B[f];
        }
      }
    }
  }
  for (int n = 0; n < 2; n++) {
    for (int f = 0; f < 4; f++) {
      for (int h = 0; h < 4; h++) {
        for (int w = 0; w < 3; w++) {
          for (int c = 0; c < 3; c++) {
            for (int kh = 0; kh < 3; kh++) {
              for (int kw = 0; kw < 2; kw++) {
                /* S1: O(n,f,h,w) += I(n,c,2*h+kh,3*w+kw) * W1(f,c,kh,kw) */
                O[n][f][h][w] += I[n][c][2 * h + kh][3 * w + kw] * W1[f][c][kh][kw];
              }
            }
          }
        }
      }
    }
  }
}

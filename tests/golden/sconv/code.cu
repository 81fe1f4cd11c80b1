/* sconv: made by tc. */

extern "C" __global__ __launch_bounds__(32)
void sconv_kernel(
    const float (*__restrict__ I)[3][9][10],
    const float (*__restrict__ W1)[3][3][2],
    const float *__restrict__ B,
    float (*__restrict__ O)[4][4][3]) {
  float O_0[1];
  float O_1[1];
  const int block = blockIdx.x;
  const int b1 = block % 4;
  const int b0 = block / 4;
  const int thread = threadIdx.x;
  const int t0 = thread % 2;
  const int t1 = thread / 2 % 4;
  const int t2 = thread / 2 / 4;
  if (t0 == 0 && t1 <= 2) {
    /* S0: O(n,f,h,w) = B(f) */
    O_0[0] = B[b1];
  }
  O_1[0] = 0.0f;
  if (t1 <= 2) {
    for (int c = 0; c < 3; c++) {
      for (int kh = 0; kh < 3; kh++) {
        /* S1: O(n,f,h,w) += I(n,c,2*h+kh,3*w+kw) * W1(f,c,kh,kw) */
        O_1[0] += I[b0][c][2 * t2 + kh][3 * t1 + t0] * W1[b1][c][kh][t0];
      }
    }
  }
  /* + of O.1 over t0 */
  {
    float held = O_1[0];
    #pragma unroll
    for (int step = 1; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step);
      held = held + other;
    }
    O_1[0] = held;
  }
  if (t0 == 0 && t1 <= 2) {
    /* O, its parts */
    O_0[0] += O_1[0];
    /* O from registers */
    O[b0][b1][t2][t1] = O_0[0];
  }
}

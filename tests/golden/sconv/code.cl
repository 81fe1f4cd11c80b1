/* sconv: made by tc. */
#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void sconv_kernel(
    __global const float (*restrict I)[3][9][10],
    __global const float (*restrict W1)[3][3][2],
    __global const float *restrict B,
    __global float (*restrict O)[4][4][3]) {
  __local float scratch_f32[32];
  float O_0[1];
  float O_1[1];
  const int block = get_group_id(0);
  const int b1 = block % 4;
  const int b0 = block / 4;
  const int thread = get_local_id(0);
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
  scratch_f32[thread] = O_1[0];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t0 == 0) {
    const int first = thread;
    float held = scratch_f32[first];
    #pragma unroll
    for (int part = 1; part < 2; part++) {
      held = held + scratch_f32[first + part];
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

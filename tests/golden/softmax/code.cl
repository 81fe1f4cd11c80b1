/* softmax: made by tc. */
#pragma OPENCL FP_CONTRACT ON

static float tc_max_f32(float a, float b) {
  return a > b || (a == b && signbit(b)) ? a : b >= a ? b : a + b;
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void softmax_kernel(__global const float (*restrict I)[7], __global float (*restrict O)[7]) {
  __local float O_3[3][7];
  __local float scratch_f32[32];
  float tmp_0[1];
  float tmp_1[1];
  float tmp_2[1];
  const int thread = get_local_id(0);
  const int t0 = thread % 8;
  const int t1 = thread / 8;
  if (t1 <= 2) {
    /* S0: tmp(n) max=! I(n,d) # starts from the neutral element */
    tmp_0[0] = -INFINITY;
  }
  tmp_1[0] = -INFINITY;
  if (t0 <= 6 && t1 <= 2) {
    /* S1: tmp(n) max=! I(n,d) */
    tmp_1[0] = tc_max_f32(tmp_1[0], I[t1][t0]);
  }
  /* max of tmp.1 over t0 */
  scratch_f32[thread] = tmp_1[0];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  {
    const int first = thread - t0;
    float held = scratch_f32[first];
    #pragma unroll
    for (int part = 1; part < 8; part++) {
      held = tc_max_f32(held, scratch_f32[first + part]);
    }
    tmp_1[0] = held;
  }
  if (t1 <= 2) {
    /* tmp, its parts */
    tmp_0[0] = tc_max_f32(tmp_0[0], tmp_1[0]);
    if (t0 <= 6) {
      /* S2: O(n,d) = exp(I(n,d) - tmp(n)) */
      O_3[t1][t0] = exp(I[t1][t0] - tmp_0[0]);
    }
    /* S3: tmp(n) +=! O(n,d) # starts from the neutral element */
    tmp_0[0] = 0.0f;
  }
  tmp_2[0] = 0.0f;
  if (t0 <= 6 && t1 <= 2) {
    /* S4: tmp(n) +=! O(n,d) */
    tmp_2[0] += O_3[t1][t0];
  }
  /* + of tmp.2 over t0 */
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  scratch_f32[thread] = tmp_2[0];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  {
    const int first = thread - t0;
    float held = scratch_f32[first];
    #pragma unroll
    for (int part = 1; part < 8; part++) {
      held = held + scratch_f32[first + part];
    }
    tmp_2[0] = held;
  }
  if (t1 <= 2) {
    /* tmp, its parts */
    tmp_0[0] += tmp_2[0];
    if (t0 <= 6) {
      /* S5: O(n,d) = O(n,d) / tmp(n) */
      O_3[t1][t0] = O_3[t1][t0] / tmp_0[0];
    }
  }
  for (int r0 = t1; r0 < 3; r0 += 4) {
    for (int r0_ = t0; r0_ < 7; r0_ += 8) {
      /* O from shared memory */
      O[r0][r0_] = O_3[r0][r0_];
    }
  }
}

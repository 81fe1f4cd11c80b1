/* 2LUT: made by tc. */
#pragma OPENCL FP_CONTRACT ON

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

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void v_2LUT_kernel(
    __global const float (*restrict LUT1)[4],
    __global const int (*restrict I1)[5],
    __global const float (*restrict LUT2)[4],
    __global const int (*restrict I2)[6],
    __global float (*restrict O1)[4],
    __global float (*restrict O2)[4],
    __global long *error) {
  __local float scratch_f32[128];
  float O1_4[1];
  float O2_5[1];
  float O1_6[1];
  float O2_7[1];
  const int thread = get_local_id(0);
  const int t0 = thread % 8;
  const int t1 = thread / 8 % 4;
  const int t2 = thread / 8 / 4;
  if (t0 == 0) {
    /* S0: O1(i,j) +=! LUT1(I1(i,k),j) # starts from the neutral element */
    O1_4[0] = 0.0f;
  }
  O1_6[0] = 0.0f;
  if (t0 <= 4 && t2 <= 2) {
    /* S1: O1(i,j) +=! LUT1(I1(i,k),j) */
    {
      const int at = I1[t2][t0];
      const bool inside = at >= 0 && at < 10;
      if (!inside) {
        const long point[] = {t2, t1, t0};
        tc_fail(error, 1, at, 0, 3, point);
      }
      O1_6[0] += (inside ? LUT1[at][t1] : 0);
    }
  }
  /* + of O1.6 over t0 */
  scratch_f32[thread] = O1_6[0];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t0 == 0) {
    const int first = thread;
    float held = scratch_f32[first];
    #pragma unroll
    for (int part = 1; part < 8; part++) {
      held = held + scratch_f32[first + part];
    }
    O1_6[0] = held;
  }
  if (t0 == 0 && t2 <= 2) {
    /* O1, its parts */
    O1_4[0] += O1_6[0];
  }
  if (t0 == 0) {
    /* S2: O2(i,j) +=! LUT2(I2(i,k),j) # starts from the neutral element */
    O2_5[0] = 0.0f;
  }
  O2_7[0] = 0.0f;
  if (t0 <= 5 && t2 <= 2) {
    /* S3: O2(i,j) +=! LUT2(I2(i,k),j) */
    {
      const int at = I2[t2][t0];
      const bool inside = at >= 0 && at < 11;
      if (!inside) {
        const long point[] = {t2, t1, t0};
        tc_fail(error, 3, at, 0, 3, point);
      }
      O2_7[0] += (inside ? LUT2[at][t1] : 0);
    }
  }
  /* + of O2.7 over t0 */
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  scratch_f32[thread] = O2_7[0];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (t0 == 0) {
    const int first = thread;
    float held = scratch_f32[first];
    #pragma unroll
    for (int part = 1; part < 8; part++) {
      held = held + scratch_f32[first + part];
    }
    O2_7[0] = held;
  }
  if (t0 == 0 && t2 <= 2) {
    /* O2, its parts */
    O2_5[0] += O2_7[0];
    /* O1 from registers */
    O1[t2][t1] = O1_4[0];
    /* O2 from registers */
    O2[t2][t1] = O2_5[0];
  }
}

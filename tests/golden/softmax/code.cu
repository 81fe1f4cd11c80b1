/* softmax: made by tc. */

static __device__ inline float tc_max_f32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
#else
  return a > b || (a == b && signbit(b)) ? a : b >= a ? b : a + b;
#endif
}

extern "C" __global__ __launch_bounds__(32)
void softmax_kernel(const float (*__restrict__ I)[7], float (*__restrict__ O)[7]) {
  __shared__ float O_3[3][7];
  float tmp_0[1];
  float tmp_1[1];
  float tmp_2[1];
  const int thread = threadIdx.x;
  const int t0 = thread % 8;
  const int t1 = thread / 8;
  if (t1 <= 2) {
    /* S0: tmp(n) max=! I(n,d) # starts from the neutral element */
    tmp_0[0] = -__int_as_float(0x7f800000);
  }
  tmp_1[0] = -__int_as_float(0x7f800000);
  if (t0 <= 6 && t1 <= 2) {
    /* S1: tmp(n) max=! I(n,d) */
    tmp_1[0] = tc_max_f32(tmp_1[0], I[t1][t0]);
  }
  /* max of tmp.1 over t0 */
  {
    float held = tmp_1[0];
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step);
      held = tc_max_f32(held, other);
    }
    tmp_1[0] = held;
  }
  if (t1 <= 2) {
    /* tmp, its parts */
    tmp_0[0] = tc_max_f32(tmp_0[0], tmp_1[0]);
    if (t0 <= 6) {
      /* S2: O(n,d) = exp(I(n,d) - tmp(n)) */
      O_3[t1][t0] = expf(I[t1][t0] - tmp_0[0]);
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
  {
    float held = tmp_2[0];
    #pragma unroll
    for (int step = 4; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, held, step);
      held = held + other;
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

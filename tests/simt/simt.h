/* What a CUDA C++ text sees when the host compiler compiles it for tests/simt: qualifiers, indices, barriers,
 * shuffles, atomics, asynchronous copies and device functions.  The runtime (runtime.cpp) does the work.
 *
 * No system header is included, because NVRTC gives a text none either: a text may define int64_t as it likes.
 */
#ifndef SIMT_H
#define SIMT_H

/* ---- Qualifiers.  One block runs at a time, so that one copy of a shared array suffices; its section tells
 * the runtime where it lies.  `extern __shared__` is rewritten by module.py. */
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ __attribute__((section(".data.rel.ro.simt"))) /* memory that the linker protects */
#define __grid_constant__
#define __shared__ static __attribute__((section("simt_shared"), used))
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __CUDA_ARCH__ 900

typedef __SIZE_TYPE__ size_t;

/* Wrappers around the runtime's functions take the line of their call as a default argument.  They are always
 * inlined, so that a return address within the runtime leads to the kernel's line too. */
#define SIMT_INLINE inline __attribute__((always_inline))
#define SIMT_LINE int line = __builtin_LINE()

/* ---- Vector types. */
#define SIMT_VECTOR(T, name, align2, align4)                                              \
  struct name##1 { T x; };                                                                \
  struct alignas(align2) name##2 { T x, y; };                                             \
  struct name##3 { T x, y, z; };                                                          \
  struct alignas(align4) name##4 { T x, y, z, w; };                                       \
  SIMT_INLINE name##1 make_##name##1(T x) { return {x}; }                                 \
  SIMT_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }                         \
  SIMT_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                 \
  SIMT_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SIMT_VECTOR(signed char, char, 2, 4)
SIMT_VECTOR(unsigned char, uchar, 2, 4)
SIMT_VECTOR(short, short, 4, 8)
SIMT_VECTOR(unsigned short, ushort, 4, 8)
SIMT_VECTOR(int, int, 8, 16)
SIMT_VECTOR(unsigned, uint, 8, 16)
SIMT_VECTOR(long long, longlong, 16, 16)
SIMT_VECTOR(unsigned long long, ulonglong, 16, 16)
SIMT_VECTOR(float, float, 8, 16)
SIMT_VECTOR(double, double, 16, 16)
#undef SIMT_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/* ---- The runtime. */
extern "C" {
/* The answers never change within a fibre, and a call is made in one fibre only. */
uint3 simt_thread_index() noexcept __attribute__((const));
uint3 simt_block_index() noexcept __attribute__((const));
uint3 simt_block_size() noexcept __attribute__((const));
uint3 simt_grid_size() noexcept __attribute__((const));

unsigned simt_barrier(int predicate, int line) noexcept; /* how many threads gave a predicate other than 0 */
void simt_warp_barrier(unsigned mask, int line) noexcept;
unsigned long long simt_shuffle(int how, unsigned mask, unsigned long long value, unsigned operand, int width,
                                int line) noexcept;
unsigned simt_vote(unsigned mask, int predicate, int line) noexcept; /* the lanes whose predicate held */
unsigned simt_active_mask() noexcept;

void simt_touch(const volatile void *address, size_t bytes, int how) noexcept;
size_t simt_shared_address(const void *pointer) noexcept;
void simt_async_copy(unsigned long long shared_address, const void *source, int bytes,
                     int source_bytes) noexcept;
void simt_async_commit() noexcept;
void simt_async_wait(int groups_left) noexcept;
void simt_trap() noexcept;
}

enum { simt_read, simt_write, simt_atomic, simt_exchange }; /* how, of simt_touch */
enum { simt_index, simt_up, simt_down, simt_xor };    /* how, of simt_shuffle */

#define threadIdx (simt_thread_index())
#define blockIdx (simt_block_index())
#define blockDim (simt_block_size())
#define gridDim (simt_grid_size())
constexpr int warpSize = 32;

/* ---- Barriers and votes. */
SIMT_INLINE void __syncthreads(SIMT_LINE) { simt_barrier(0, line); }
SIMT_INLINE int __syncthreads_count(int p, SIMT_LINE) { return (int)simt_barrier(p, line); }
SIMT_INLINE int __syncthreads_or(int p, SIMT_LINE) { return simt_barrier(p, line) != 0; }
SIMT_INLINE int __syncthreads_and(int p, SIMT_LINE) { return simt_barrier(!p, line) == 0; }
SIMT_INLINE void __syncwarp(unsigned mask = ~0u, SIMT_LINE) { simt_warp_barrier(mask, line); }
SIMT_INLINE unsigned __activemask() { return simt_active_mask(); }
SIMT_INLINE unsigned __ballot_sync(unsigned mask, int p, SIMT_LINE) { return simt_vote(mask, p, line); }
SIMT_INLINE int __any_sync(unsigned mask, int p, SIMT_LINE) { return simt_vote(mask, p, line) != 0; }
SIMT_INLINE int __all_sync(unsigned mask, int p, SIMT_LINE) { return simt_vote(mask, !p, line) == 0; }
/* Fences order nothing here: without a barrier the two sides race all the same. */
SIMT_INLINE void __threadfence() {}
SIMT_INLINE void __threadfence_block() {}
SIMT_INLINE void __threadfence_system() {}
SIMT_INLINE void __trap() { simt_trap(); }

/* ---- Shuffles. */
namespace simt {
template <class T>
SIMT_INLINE T shuffle(int how, unsigned mask, T value, unsigned operand, int width, int line) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = simt_shuffle(how, mask, bits, operand, width, line);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
} // namespace simt
#define SIMT_SHUFFLE(name, how, type)                                                     \
  template <class T>                                                                      \
  SIMT_INLINE T name(unsigned mask, T value, type operand, int width = 32, SIMT_LINE) {   \
    return simt::shuffle(how, mask, value, (unsigned)operand, width, line);               \
  }
SIMT_SHUFFLE(__shfl_sync, simt_index, int)
SIMT_SHUFFLE(__shfl_up_sync, simt_up, unsigned)
SIMT_SHUFFLE(__shfl_down_sync, simt_down, unsigned)
SIMT_SHUFFLE(__shfl_xor_sync, simt_xor, int)
#undef SIMT_SHUFFLE

/* ---- Atomics.  A fibre runs alone, so that a plain update is atomic; only the runtime hears of it. */
namespace simt {
template <class T> struct same { using type = T; };
template <class T> using just = typename same<T>::type; /* no deduction from this argument */
} // namespace simt
#define SIMT_ATOMIC(name, parameters, result)                                             \
  template <class T>                                                                      \
  __attribute__((no_sanitize("thread"), no_sanitize_coverage))                            \
  inline T simt_##name parameters {                                                       \
    T old = *p;                                                                           \
    *p = (result);                                                                        \
    return old;                                                                           \
  }
SIMT_ATOMIC(atomicAdd, (T *p, T v), (T)(old + v))
SIMT_ATOMIC(atomicSub, (T *p, T v), (T)(old - v))
SIMT_ATOMIC(atomicMin, (T *p, T v), v < old ? v : old)
SIMT_ATOMIC(atomicMax, (T *p, T v), old < v ? v : old)
SIMT_ATOMIC(atomicAnd, (T *p, T v), (T)(old & v))
SIMT_ATOMIC(atomicOr, (T *p, T v), (T)(old | v))
SIMT_ATOMIC(atomicXor, (T *p, T v), (T)(old ^ v))
SIMT_ATOMIC(atomicExch, (T *p, T v), v)
SIMT_ATOMIC(atomicCAS, (T *p, T expected, T v), old == expected ? v : old)
#undef SIMT_ATOMIC
#define SIMT_ATOMIC(name, how)                                                            \
  template <class T> SIMT_INLINE T name(T *p, simt::just<T> v) {                          \
    simt_touch(p, sizeof(T), how);                                                        \
    return simt_##name(p, v);                                                             \
  }                                                                                       \
  template <class T> SIMT_INLINE T name##_block(T *p, simt::just<T> v) { return name(p, v); }
SIMT_ATOMIC(atomicAdd, simt_atomic)
SIMT_ATOMIC(atomicSub, simt_atomic)
SIMT_ATOMIC(atomicMin, simt_atomic)
SIMT_ATOMIC(atomicMax, simt_atomic)
SIMT_ATOMIC(atomicAnd, simt_atomic)
SIMT_ATOMIC(atomicOr, simt_atomic)
SIMT_ATOMIC(atomicXor, simt_atomic)
SIMT_ATOMIC(atomicExch, simt_exchange)
#undef SIMT_ATOMIC
template <class T> SIMT_INLINE T atomicCAS(T *p, simt::just<T> expected, simt::just<T> v) {
  simt_touch(p, sizeof(T), simt_atomic);
  return simt_atomicCAS(p, expected, v);
}

/* ---- Memory.  Calls of memcpy and memset are not instrumented by the compiler. */
SIMT_INLINE void *simt_memcpy(void *to, const void *from, size_t n) {
  simt_touch(from, n, simt_read);
  simt_touch(to, n, simt_write);
  return __builtin_memcpy(to, from, n);
}
SIMT_INLINE void *simt_memset(void *to, int value, size_t n) {
  simt_touch(to, n, simt_write);
  return __builtin_memset(to, value, n);
}
#define memcpy simt_memcpy
#define memset simt_memset
template <class T> SIMT_INLINE T __ldg(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldca(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldcg(const T *p) { return *p; }
template <class T> SIMT_INLINE T __ldcs(const T *p) { return *p; }
template <class T> SIMT_INLINE void __stcg(T *p, simt::just<T> v) { *p = v; }
template <class T> SIMT_INLINE void __stcs(T *p, simt::just<T> v) { *p = v; }
SIMT_INLINE size_t __cvta_generic_to_shared(const void *p) { return simt_shared_address(p); }

/* ---- What cuda_text.py makes of inline PTX. */
namespace simt {
SIMT_INLINE void async_copy(unsigned long long to, unsigned long long from, int bytes, int source_bytes) {
  simt_async_copy(to, (const void *)from, bytes, source_bytes);
}
SIMT_INLINE void async_copy(unsigned long long to, const void *from, int bytes, int source_bytes) {
  simt_async_copy(to, from, bytes, source_bytes);
}
SIMT_INLINE void async_commit() { simt_async_commit(); }
SIMT_INLINE void async_wait(int groups_left) { simt_async_wait(groups_left); }
SIMT_INLINE float f32_of_f16(unsigned short h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31 && fraction) return __builtin_bit_cast(float, 0x7fffffff); /* the one that hardware makes */
  const float size = exponent == 31 ? __builtin_inff()
                                    : __builtin_ldexpf((exponent ? 1024 : 0) + fraction, (exponent ? exponent : 1) - 25);
  return h >> 15 ? -size : size;
}
/* NaN is the one that hardware makes; -0 is less than +0. */
SIMT_INLINE float max_nan(float a, float b) {
  if (a != a || b != b) return __builtin_bit_cast(float, 0x7fffffff);
  return a == b ? (__builtin_signbit(a) ? b : a) : a < b ? b : a;
}
SIMT_INLINE float min_nan(float a, float b) {
  if (a != a || b != b) return __builtin_bit_cast(float, 0x7fffffff);
  return a == b ? (__builtin_signbit(a) ? a : b) : a < b ? a : b;
}
/* Value by value, of a sign, an exponent and a fraction; NaN is the one that hardware makes. */
SIMT_INLINE unsigned short f16_of_f32(float x) {
  if (x != x) return 0x7fff;
  const unsigned short sign = __builtin_signbit(x) ? 0x8000 : 0;
  const double size = __builtin_fabs((double)x);
  int exponent = 0;
  __builtin_frexp(size, &exponent);
  if (exponent < -13) exponent = -13; /* denormals have the exponent of the least others */
  const double unit = __builtin_ldexp(1.0, exponent - 11);
  const double whole = __builtin_nearbyint(size / unit); /* to nearest even; at most 2048 */
  if (size >= 65520.0) return sign | 0x7c00;
  const int rounded = (int)whole;
  /* 1024 of a fraction carries into the exponent by itself. */
  return rounded < 1024 ? sign | rounded : (unsigned short)(sign | ((exponent + 13) * 1024 + rounded));
}
} // namespace simt

/* ---- Bits. */
namespace simt {
template <class T, class F> SIMT_INLINE T bits(F x) {
  static_assert(sizeof(T) == sizeof(F));
  T y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}
} // namespace simt
SIMT_INLINE int __float_as_int(float x) { return simt::bits<int>(x); }
SIMT_INLINE unsigned __float_as_uint(float x) { return simt::bits<unsigned>(x); }
SIMT_INLINE float __int_as_float(int x) { return simt::bits<float>(x); }
SIMT_INLINE float __uint_as_float(unsigned x) { return simt::bits<float>(x); }
SIMT_INLINE long long __double_as_longlong(double x) { return simt::bits<long long>(x); }
SIMT_INLINE double __longlong_as_double(long long x) { return simt::bits<double>(x); }
SIMT_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
SIMT_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
SIMT_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
SIMT_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
SIMT_INLINE int __ffs(int x) { return __builtin_ffs(x); }
SIMT_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
SIMT_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
SIMT_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
SIMT_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

/* ---- Mathematics: C's functions in both precisions, overloaded as CUDA overloads them. */
#define SIMT_MATH1(name)                                                                     \
  extern "C" double name(double) noexcept;                                                   \
  extern "C" float name##f(float) noexcept;                                                  \
  SIMT_INLINE float name(float x) { return name##f(x); }
#define SIMT_MATH2(name)                                                                     \
  extern "C" double name(double, double) noexcept;                                           \
  extern "C" float name##f(float, float) noexcept;                                           \
  SIMT_INLINE float name(float x, float y) { return name##f(x, y); }
SIMT_MATH1(sin) SIMT_MATH1(cos) SIMT_MATH1(tan) SIMT_MATH1(asin) SIMT_MATH1(acos) SIMT_MATH1(atan)
SIMT_MATH1(sinh) SIMT_MATH1(cosh) SIMT_MATH1(tanh) SIMT_MATH1(asinh) SIMT_MATH1(acosh) SIMT_MATH1(atanh)
SIMT_MATH1(exp) SIMT_MATH1(exp2) SIMT_MATH1(expm1) SIMT_MATH1(log) SIMT_MATH1(log2) SIMT_MATH1(log10)
SIMT_MATH1(log1p) SIMT_MATH1(logb) SIMT_MATH1(sqrt) SIMT_MATH1(cbrt) SIMT_MATH1(erf) SIMT_MATH1(erfc)
SIMT_MATH1(tgamma) SIMT_MATH1(lgamma) SIMT_MATH1(fabs) SIMT_MATH1(floor) SIMT_MATH1(ceil) SIMT_MATH1(round)
SIMT_MATH1(trunc) SIMT_MATH1(rint) SIMT_MATH1(nearbyint) SIMT_MATH1(j0) SIMT_MATH1(j1) SIMT_MATH1(y0)
SIMT_MATH1(y1)
SIMT_MATH2(pow) SIMT_MATH2(fmod) SIMT_MATH2(atan2) SIMT_MATH2(fmin) SIMT_MATH2(fmax) SIMT_MATH2(hypot)
SIMT_MATH2(copysign) SIMT_MATH2(remainder) SIMT_MATH2(fdim) SIMT_MATH2(nextafter)
#undef SIMT_MATH1
#undef SIMT_MATH2
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
SIMT_INLINE float fma(float x, float y, float z) { return fmaf(x, y, z); }
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
SIMT_INLINE float ldexp(float x, int n) { return ldexpf(x, n); }
extern "C" double scalbn(double, int) noexcept;
extern "C" float scalbnf(float, int) noexcept;
extern "C" int ilogb(double) noexcept;
extern "C" int ilogbf(float) noexcept;
extern "C" long long llrint(double) noexcept;
extern "C" long long llrintf(float) noexcept;
extern "C" int abs(int) noexcept;
SIMT_INLINE long abs(long x) { return x < 0 ? -x : x; }
SIMT_INLINE long long abs(long long x) { return x < 0 ? -x : x; }
SIMT_INLINE float abs(float x) { return fabsf(x); }
SIMT_INLINE double abs(double x) { return fabs(x); }
SIMT_INLINE long long llabs(long long x) { return x < 0 ? -x : x; }

#define SIMT_CLASS(f)                                                                     \
  SIMT_INLINE bool f(float x) { return __builtin_##f(x); }                                \
  SIMT_INLINE bool f(double x) { return __builtin_##f(x); }
SIMT_CLASS(isnan) SIMT_CLASS(isinf) SIMT_CLASS(isfinite) SIMT_CLASS(signbit)
#undef SIMT_CLASS

#define SIMT_EXTREMA(T)                                                                   \
  SIMT_INLINE T min(T a, T b) { return b < a ? b : a; }                                   \
  SIMT_INLINE T max(T a, T b) { return a < b ? b : a; }
SIMT_EXTREMA(int) SIMT_EXTREMA(unsigned) SIMT_EXTREMA(long) SIMT_EXTREMA(unsigned long)
SIMT_EXTREMA(long long) SIMT_EXTREMA(unsigned long long)
#undef SIMT_EXTREMA
SIMT_INLINE unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
SIMT_INLINE unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
SIMT_INLINE unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
SIMT_INLINE unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
SIMT_INLINE float min(float a, float b) { return fminf(a, b); }
SIMT_INLINE float max(float a, float b) { return fmaxf(a, b); }
SIMT_INLINE double min(double a, double b) { return fmin(a, b); }
SIMT_INLINE double max(double a, double b) { return fmax(a, b); }

/* What C lacks: tc/native/math.h has it, compiled into the runtime (which has the same list). */
#define SIMT_MATH(name, types, typesf, parameters, parametersf, arguments)                   \
  extern "C" double simt_##name types noexcept;                                              \
  extern "C" float simt_##name##f typesf noexcept;                                           \
  SIMT_INLINE double name parameters { return simt_##name arguments; }                          \
  SIMT_INLINE float name##f parametersf { return simt_##name##f arguments; }                    \
  SIMT_INLINE float name parametersf { return simt_##name##f arguments; }
#define SIMT_MATH1(name) SIMT_MATH(name, (double), (float), (double x), (float x), (x))
#define SIMT_MATH2(name) \
  SIMT_MATH(name, (double, double), (float, float), (double x, double y), (float x, float y), (x, y))
SIMT_MATH1(rsqrt) SIMT_MATH1(rcbrt) SIMT_MATH1(exp10) SIMT_MATH1(sinpi) SIMT_MATH1(cospi) SIMT_MATH1(erfcx)
SIMT_MATH1(erfinv) SIMT_MATH1(erfcinv) SIMT_MATH1(normcdf) SIMT_MATH1(normcdfinv)
SIMT_MATH1(cyl_bessel_i0) SIMT_MATH1(cyl_bessel_i1)
SIMT_MATH2(rhypot)
SIMT_MATH(norm3d, (double, double, double), (float, float, float), (double x, double y, double z),
          (float x, float y, float z), (x, y, z))
SIMT_MATH(rnorm3d, (double, double, double), (float, float, float), (double x, double y, double z),
          (float x, float y, float z), (x, y, z))
SIMT_MATH(norm4d, (double, double, double, double), (float, float, float, float),
          (double x, double y, double z, double w), (float x, float y, float z, float w), (x, y, z, w))
SIMT_MATH(rnorm4d, (double, double, double, double), (float, float, float, float),
          (double x, double y, double z, double w), (float x, float y, float z, float w), (x, y, z, w))
#undef SIMT_MATH
#undef SIMT_MATH1
#undef SIMT_MATH2

/* Fast forms: the host's exact ones. */
SIMT_INLINE float __expf(float x) { return expf(x); }
SIMT_INLINE float __logf(float x) { return logf(x); }
SIMT_INLINE float __sinf(float x) { return sinf(x); }
SIMT_INLINE float __cosf(float x) { return cosf(x); }
SIMT_INLINE float __powf(float x, float y) { return powf(x, y); }
SIMT_INLINE float __fdividef(float x, float y) { return x / y; }
SIMT_INLINE float fdividef(float x, float y) { return x / y; }
SIMT_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
SIMT_INLINE float __fadd_rn(float x, float y) { return x + y; }
SIMT_INLINE float __fsub_rn(float x, float y) { return x - y; }
SIMT_INLINE float __fmul_rn(float x, float y) { return x * y; }
SIMT_INLINE float __fdiv_rn(float x, float y) { return x / y; }
SIMT_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
SIMT_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
SIMT_INLINE double __dadd_rn(double x, double y) { return x + y; }
SIMT_INLINE double __dmul_rn(double x, double y) { return x * y; }
SIMT_INLINE double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

/* ---- How shim.py calls a kernel, whatever its parameters: each argument is passed by its address. */
namespace simt {
template <unsigned...> struct indices {};
template <class T> constexpr bool is_signed = T(-1) < T(0);
template <class T> constexpr char kind_of(T **) { return 'p'; }
#define SIMT_KIND(T, kind) constexpr char kind_of(T *) { return kind; }
SIMT_KIND(bool, 'b') SIMT_KIND(char, is_signed<char> ? 'i' : 'u') SIMT_KIND(signed char, 'i')
SIMT_KIND(unsigned char, 'u') SIMT_KIND(short, 'i') SIMT_KIND(unsigned short, 'u') SIMT_KIND(int, 'i')
SIMT_KIND(unsigned, 'u') SIMT_KIND(long, 'i') SIMT_KIND(unsigned long, 'u') SIMT_KIND(long long, 'i')
SIMT_KIND(unsigned long long, 'u') SIMT_KIND(float, 'f') SIMT_KIND(double, 'f')
#undef SIMT_KIND

template <class... P, unsigned... I>
__attribute__((no_sanitize("thread"))) void call(void (*kernel)(P...), void **arguments, indices<I...>) {
  kernel(*(P *)arguments[I]...);
}
template <class... P> void enter(void (*kernel)(P...), void **arguments) {
  call(kernel, arguments, indices<__integer_pack(sizeof...(P))...>());
}
template <class... P> const char *kinds(void (*)(P...)) {
  static const char k[] = {kind_of((P *)nullptr)..., 0};
  return k;
}
template <class... P> const unsigned *sizes(void (*)(P...)) {
  static const unsigned s[] = {(unsigned)sizeof(P)..., 0};
  return s;
}
} // namespace simt
#define SIMT_ENTRY(kernel)                                                                \
  extern "C" void simt_entry_##kernel(void **arguments) { simt::enter(kernel, arguments); } \
  extern "C" const char *simt_kinds_##kernel() { return simt::kinds(kernel); }            \
  extern "C" const unsigned *simt_sizes_##kernel() { return simt::sizes(kernel); }
#endif

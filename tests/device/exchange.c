/* PyTorch's exchange table as that of a build with CUDA, over tensors of the host: they say that they are on device
   1.  And the three functions of the driver that tc._native calls, with kernels that are functions of this file. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { int32_t type, id; } Device;
typedef struct { uint8_t code, bits; uint16_t lanes; } Type;
typedef struct { void *data; Device device; int32_t ndim; Type dtype; int64_t *shape, *strides; uint64_t offset; } Tensor;
typedef struct { uint32_t major, minor; } Version;
typedef struct Header { Version version; struct Header *previous; } Header;
typedef struct {
  Header header;
  int (*allocate)(Tensor *, void **, void *, void (*)(void *, const char *, const char *));
  int (*managed_from_object)(void *, void **);
  int (*object_from_managed)(void *, void **);
  int (*view)(void *, Tensor *);
  int (*stream)(int32_t, int32_t, void **);
} Api;

static Api plain, made;
static int number = 1;
static void *current = (void *)0x71;
void set_device(int n) { number = n; }
void set_stream(intptr_t s) { current = (void *)s; }

static int view(void *object, Tensor *out) {
  int failed = plain.view(object, out);
  out->device.type = 2, out->device.id = number;
  return failed;
}
static int allocate(Tensor *like, void **out, void *context, void (*error)(void *, const char *, const char *)) {
  if (like->device.type != 2 || like->device.id != number) return 1;
  Tensor host = *like;
  host.device.type = 1, host.device.id = 0;
  return plain.allocate(&host, out, context, error);
}
static int stream(int32_t type, int32_t id, void **out) {
  *out = current;
  return !(type == 2 && id == number);
}
void *install(const Api *api) {
  plain = made = *api;
  made.header.previous = 0;
  made.view = view, made.allocate = allocate, made.stream = stream;
  return &made;
}

/* ---- the driver */
static int depth, launches, status, at;
static char words[4096];
const char *said(void) { return words; }
void clear(void) { words[0] = 0; }
void fail(int with) { status = with; }
int count(void) { return launches; }
int inside(void) { return depth; }

int push(void *context) { depth += context == (void *)3; return context == (void *)3 ? 0 : 201; }
int pop(void **context) { depth--; *context = (void *)3; return 0; }
int start(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
          void *on, void **parameters, void **extra) {
  if (status) return status;
  if (depth != 1 || gy != 1 || gz != 1 || by != 1 || bz != 1 || extra) return 1;
  at = (int)strlen(words);
  if (at < 3900) sprintf(words + at, "%u x %u, %u on %p; ", gx, bx, shared, on);
  launches++;
  ((void (*)(void **))function)(parameters);
  return 0;
}
int nothing(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned s, void *on,
            void **parameters, void **extra) {
  launches++;
  return 0;
}

#define P(k, type) (*(type *)parameters[k])
void scale(void **parameters) { /* out, x, n, factor */
  for (int64_t i = 0; i < P(2, int64_t); i++) P(0, float *)[i] = P(3, float) * P(1, float *)[i];
}
void fill(void **parameters) { /* workspace, x, n */
  memset(P(0, char *), 0x5a, 4096);
  memcpy(P(0, char *), P(1, char *), 4 * P(2, int64_t));
}
void copy(void **parameters) { memcpy(P(0, char *), P(1, char *), 4 * P(2, int64_t)); } /* out, workspace, n */
/* What the compiler makes of two defs: scale(s, x, y[, N]) and gather(A, I, B, error), of 20 elements. */
void scale_kernel(void **parameters) {
  for (int i = 0; i < 20; i++) P(2, float *)[i] = P(0, float) * P(1, float *)[i];
}
void scale_kernel_dynamic(void **parameters) {
  for (int64_t i = 0; i < P(3, int64_t); i++) P(2, float *)[i] = P(0, float) * P(1, float *)[i];
}
void gather_kernel(void **parameters) {
  for (int i = 0; i < 20; i++) {
    int k = P(1, int *)[i], inside = k >= 0 && k < 20;
    int64_t *error = P(3, int64_t *);
    if (!inside && !error[0]) error[0] = 2, error[1] = k, error[2] = 1, error[3] = i, error[4] = 0;
    P(2, float *)[i] = inside ? P(0, float *)[k] : 0;
  }
}
void check(void **parameters) { /* record */
  int64_t *record = P(0, int64_t *);
  record[0] = 1;
}

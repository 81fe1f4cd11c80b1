/* A library in place of libcuda.so.1: it records what it is asked, and checks it.  For ctypes and for cuda-bindings,
   which finds functions by cuGetProcAddress. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void *P;
static char words[8192];
const char *said(void) { return words; }
int status = 0;

#define CALL(name)        \
  strcat(words, name " "); \
  if (status) return status
#define EXPECT(condition) return (condition) ? 0 : 400

/* ---- what both use */
int cuStreamCreate(P *s, unsigned f) { CALL("stream"); *s = (P)(intptr_t)(0x70 + f); return 0; }
int cuStreamSynchronize(P s) { CALL("synchronize"); EXPECT(s == (P)0x71); }
int cuStreamIsCapturing(P s, int *c) { CALL("capturing"); *c = s == (P)0x71; return 0; }
int cuStreamWaitEvent(P s, P e, unsigned f) { CALL("wait"); EXPECT(s == (P)0x71 && e == (P)5 && !f); }
int cuStreamBeginCapture_v2(P s, int mode) { CALL("begin"); EXPECT(s == (P)0x71 && mode == 1); }
int cuStreamEndCapture(P s, P *g) { CALL("end"); *g = (P)6; EXPECT(s == (P)0x71); }
int cuEventCreate(P *e, unsigned f) { CALL("event"); *e = (P)5; EXPECT(f == 2); }
int cuEventRecord(P e, P s) { CALL("record"); EXPECT(e == (P)5 && s == (P)0x71); }
int cuEventQuery(P e) { CALL("query"); return e == (P)5 ? 600 : 400; }
int cuEventDestroy_v2(P e) { CALL("destroy"); EXPECT(e == (P)5); }
int cuMemAlloc_v2(uint64_t *d, size_t n) { CALL("alloc"); *d = 4096 + n; return 0; }
int cuMemFree_v2(uint64_t d) { CALL("free"); EXPECT(d == 4096 + 16); }
int cuMemAllocAsync(uint64_t *d, size_t n, P s) {
  CALL("alloc_async");
  *d = (1ull << 40) + n;
  EXPECT(s == (P)0x71);
}
int cuMemFreeAsync(uint64_t d, P s) { CALL("free_async"); EXPECT(d == (1ull << 40) + 16 && s == (P)0x71); }
static char host[64] = "not zero";
int cuMemHostAlloc(P *p, size_t n, unsigned f) { CALL("pinned"); *p = host; EXPECT(f == 3 && n == 64); }
int cuMemHostGetDevicePointer_v2(uint64_t *d, P p, unsigned f) {
  CALL("mapped");
  *d = 0xabc;
  EXPECT(p == (P)host && !f);
}
int cuMemGetInfo_v2(size_t *a, size_t *b) { CALL("info"); *a = 1ull << 35; *b = 1ull << 36; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { CALL("attribute"); *v = a == 115 ? d == 1 : 9; return 0; }
int cuDeviceGetDefaultMemPool(P *p, int d) { CALL("pool"); *p = (P)8; EXPECT(d == 1); }
int cuMemPoolSetAttribute(P p, int a, uint64_t *v) { CALL("keep"); EXPECT(p == (P)8 && a == 4 && *v == ~0ull); }
int cuPointerGetAttribute(int *v, int a, uint64_t d) { CALL("pointer"); *v = 1; return d == 77 && a == 9 ? 0 : 1; }
int cuGraphInstantiateWithFlags(P *e, P g, unsigned long long f) { CALL("make"); *e = (P)9; EXPECT(g == (P)6 && !f); }
int cuGraphLaunch(P e, P s) { CALL("launch_graph"); EXPECT(e == (P)9 && s == (P)0x71); }
int cuGraphDestroy(P g) { CALL("drop_graph"); EXPECT(g == (P)6); }
int cuGraphExecDestroy(P e) { CALL("drop_exec"); EXPECT(e == (P)9); }
int cuGetErrorName(int e, const char **s) {
  *s = e == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : e == 906 ? "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" : 0;
  return *s ? 0 : 1;
}
int cuGetErrorString(int e, const char **s) { *s = "what it means"; return e < 0; }

/* ---- what pycuda does itself */
int cuInit(unsigned f) { CALL("init"); EXPECT(!f); }
int cuDeviceGetCount(int *n) { CALL("count"); *n = 2; return 0; }
int cuDeviceGet(int *d, int n) { CALL("device"); *d = n; return 0; }
int cuDeviceGetName(char *name, int n, int d) { CALL("name"); snprintf(name, n, "device %d", d); return 0; }
int cuDevicePrimaryCtxRetain(P *c, int d) { CALL("retain"); *c = (P)3; EXPECT(d == 1); }
int cuCtxPushCurrent_v2(P c) { CALL("push"); EXPECT(c == (P)3); }
int cuCtxPopCurrent_v2(P *c) { CALL("pop"); *c = (P)3; return 0; }
int cuCtxSynchronize(void) { CALL("wait_all"); return 0; }
int cuModuleLoadData(P *m, const void *image) { CALL("load"); *m = (P)11; EXPECT(!memcmp(image, "image", 5)); }
int cuModuleGetFunction(P *f, P m, const char *name) { CALL("function"); *f = (P)12; EXPECT(m == (P)11 && *name == 'f'); }
int cuFuncSetAttribute(P f, int a, int v) { CALL("shared"); EXPECT(f == (P)12 && a == 8 && v == 100); }
int cuMemcpyHtoD_v2(uint64_t d, const void *p, size_t n) { CALL("up"); EXPECT(d == 4096 + 16 && p && n == 16); }
int cuMemcpyDtoH_v2(void *p, uint64_t d, size_t n) { CALL("down"); EXPECT(d == 4096 + 16 && p && n == 16); }
int cuMemsetD8_v2(uint64_t d, unsigned char c, size_t n) { CALL("fill"); EXPECT(d == 4096 + 16 && c == 3 && n == 8); }
int cuLaunchKernel(P f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, P s, void **a, void **extra) {
  CALL("launch");
  EXPECT(f == (P)12 && gx == 5 && gy == 1 && gz == 1 && bx == 64 && by == 1 && bz == 1 && shared == 100 &&
         s == (P)0x71 && !extra && *(uint64_t *)a[0] == 0x1234 && *(float *)a[1] == 1.5f && *(int64_t *)a[2] == -3);
}

/* A function by its name, or by the name that has its version. */
int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *result) {
  char longer[128];
  (void)version, (void)flags;
  *found = dlsym(RTLD_DEFAULT, name);
  for (int v = 2; !*found && v < 4; v++) {
    snprintf(longer, sizeof longer, "%s_v%d", name, v);
    *found = dlsym(RTLD_DEFAULT, longer);
  }
  if (!*found && !strcmp(name, "cuGraphInstantiate")) *found = (void *)cuGraphInstantiateWithFlags;
  if (result) *result = *found ? 0 : 1;
  return *found ? 0 : 500;
}
int cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, found, version, flags, 0);
}

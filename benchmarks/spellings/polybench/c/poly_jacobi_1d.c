void poly_jacobi_1d(const double *restrict A0, const double *restrict B0, double *restrict A,
    double *restrict B) {
  for (int i = 0; i < N; i++) {
    A[i] = A0[i];
    B[i] = B0[i];
  }
  for (int t = 0; t < T; t++) {
    for (int i = 1; i < N - 1; i++) B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]);
    for (int i = 1; i < N - 1; i++) A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1]);
  }
}

void poly_atax(const double (*restrict A)[N], const double *restrict x, double *restrict y) {
  for (int j = 0; j < N; j++) y[j] = 0.0;
  for (int i = 0; i < M; i++) {
    double t = 0.0;
    for (int j = 0; j < N; j++) t += A[i][j] * x[j];
    for (int j = 0; j < N; j++) y[j] += A[i][j] * t;
  }
}

void poly_gesummv(const double (*restrict A)[N], const double (*restrict B)[N], const double *restrict x,
    double *restrict y) {
  for (int i = 0; i < N; i++) {
    double s = 0.0, t = 0.0;
    for (int j = 0; j < N; j++) {
      s += A[i][j] * x[j];
      t += B[i][j] * x[j];
    }
    y[i] = 1.5 * s + 1.2 * t;
  }
}

void poly_bicg(const double (*restrict A)[M], const double *restrict r, const double *restrict p,
    double *restrict s, double *restrict q) {
  for (int j = 0; j < M; j++) s[j] = 0.0;
  for (int i = 0; i < N; i++) {
    double t = 0.0;
    for (int j = 0; j < M; j++) {
      s[j] += r[i] * A[i][j];
      t += A[i][j] * p[j];
    }
    q[i] = t;
  }
}

void poly_mvt(const double (*restrict A)[N], const double *restrict x1, const double *restrict x2,
    const double *restrict p, const double *restrict q, double *restrict z1, double *restrict z2) {
  for (int i = 0; i < N; i++) {
    double s = x1[i];
    for (int j = 0; j < N; j++) s += A[i][j] * p[j];
    z1[i] = s;
  }
  for (int i = 0; i < N; i++) z2[i] = x2[i];
  for (int j = 0; j < N; j++)
    for (int i = 0; i < N; i++) z2[i] += A[j][i] * q[j];
}

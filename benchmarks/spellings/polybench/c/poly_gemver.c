void poly_gemver(const double (*restrict A0)[N], const double *restrict u1, const double *restrict v1,
    const double *restrict u2, const double *restrict v2, const double *restrict y,
    const double *restrict z, double (*restrict A)[N], double *restrict x, double *restrict w) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) A[i][j] = A0[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
  for (int i = 0; i < N; i++) x[i] = z[i];
  for (int j = 0; j < N; j++)
    for (int i = 0; i < N; i++) x[i] += 1.2 * A[j][i] * y[j];
  for (int i = 0; i < N; i++) {
    w[i] = 0.0;
    for (int j = 0; j < N; j++) w[i] += 1.5 * A[i][j] * x[j];
  }
}

void poly_ludcmp(const double (*restrict A)[N], const double *restrict b, double (*restrict F)[N],
    double *restrict x, double *restrict y) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) F[i][j] = A[i][j];
  for (int k = 0; k < N; k++) {
    for (int i = k + 1; i < N; i++) F[i][k] /= F[k][k];
    for (int i = k + 1; i < N; i++)
      for (int j = k + 1; j < N; j++) F[i][j] -= F[i][k] * F[k][j];
  }
  for (int i = 0; i < N; i++) {
    double s = b[i];
    for (int j = 0; j < i; j++) s -= F[i][j] * y[j];
    y[i] = s;
  }
  for (int i = N - 1; i >= 0; i--) {
    double s = y[i];
    for (int j = i + 1; j < N; j++) s -= F[i][j] * x[j];
    x[i] = s / F[i][i];
  }
}

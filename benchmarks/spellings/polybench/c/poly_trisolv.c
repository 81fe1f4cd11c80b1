void poly_trisolv(const double (*restrict L)[N], const double *restrict b, double *restrict x) {
  for (int i = 0; i < N; i++) {
    double s = b[i];
    for (int j = 0; j < i; j++) s -= L[i][j] * x[j];
    x[i] = s / L[i][i];
  }
}

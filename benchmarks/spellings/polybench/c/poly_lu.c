void poly_lu(const double (*restrict A)[N], double (*restrict F)[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) F[i][j] = A[i][j];
  for (int k = 0; k < N; k++) {
    for (int i = k + 1; i < N; i++) F[i][k] /= F[k][k];
    for (int i = k + 1; i < N; i++)
      for (int j = k + 1; j < N; j++) F[i][j] -= F[i][k] * F[k][j];
  }
}

void poly_symm(const double (*restrict C0)[N], const double (*restrict A)[M],
    const double (*restrict B)[N], double (*restrict C)[N]) {
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) C[i][j] = 1.2 * C0[i][j];
    for (int k = 0; k <= i; k++)
      for (int j = 0; j < N; j++) C[i][j] += 1.5 * A[i][k] * B[k][j];
    for (int k = i + 1; k < M; k++)
      for (int j = 0; j < N; j++) C[i][j] += 1.5 * A[k][i] * B[k][j];
  }
}

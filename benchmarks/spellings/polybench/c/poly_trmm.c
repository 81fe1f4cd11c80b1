void poly_trmm(const double (*restrict A)[M], const double (*restrict B0)[N], double (*restrict B)[N]) {
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) B[i][j] = 1.5 * B0[i][j];
    for (int k = i + 1; k < M; k++)
      for (int j = 0; j < N; j++) B[i][j] += 1.5 * A[k][i] * B0[k][j];
  }
}

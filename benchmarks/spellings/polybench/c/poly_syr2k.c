void poly_syr2k(const double (*restrict C0)[N], const double (*restrict A)[M],
    const double (*restrict B)[M], double (*restrict C)[N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j <= i; j++) {
      double s = 0.0;
      for (int k = 0; k < M; k++) s += A[j][k] * B[i][k] + B[j][k] * A[i][k];
      C[i][j] = 1.2 * C0[i][j] + 1.5 * s;
    }
    for (int j = i + 1; j < N; j++) C[i][j] = C0[i][j];
  }
}

void poly_gemm(const double (*restrict C0)[NJ], const double (*restrict A)[NK],
    const double (*restrict B)[NJ], double (*restrict C)[NJ]) {
  for (int i = 0; i < NI; i++) {
    for (int j = 0; j < NJ; j++) C[i][j] = 1.2 * C0[i][j];
    for (int k = 0; k < NK; k++)
      for (int j = 0; j < NJ; j++) C[i][j] += 1.5 * A[i][k] * B[k][j];
  }
}

void poly_doitgen(const double (*restrict A)[NQ][NP], const double (*restrict C)[NP],
    double (*restrict B)[NQ][NP]) {
  for (int r = 0; r < NR; r++)
    for (int q = 0; q < NQ; q++) {
      for (int p = 0; p < NP; p++) B[r][q][p] = 0.0;
      for (int s = 0; s < NP; s++)
        for (int p = 0; p < NP; p++) B[r][q][p] += A[r][q][s] * C[s][p];
    }
}

static double E[NI][NJ], F[NJ][NL];

void poly_3mm(const double (*restrict A)[NK], const double (*restrict B)[NJ],
    const double (*restrict C)[NM], const double (*restrict D)[NL], double (*restrict G)[NL]) {
  for (int i = 0; i < NI; i++) {
    for (int j = 0; j < NJ; j++) E[i][j] = 0.0;
    for (int k = 0; k < NK; k++)
      for (int j = 0; j < NJ; j++) E[i][j] += A[i][k] * B[k][j];
  }
  for (int i = 0; i < NJ; i++) {
    for (int j = 0; j < NL; j++) F[i][j] = 0.0;
    for (int k = 0; k < NM; k++)
      for (int j = 0; j < NL; j++) F[i][j] += C[i][k] * D[k][j];
  }
  for (int i = 0; i < NI; i++) {
    for (int j = 0; j < NL; j++) G[i][j] = 0.0;
    for (int k = 0; k < NJ; k++)
      for (int j = 0; j < NL; j++) G[i][j] += E[i][k] * F[k][j];
  }
}

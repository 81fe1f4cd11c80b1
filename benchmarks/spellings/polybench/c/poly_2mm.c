static double t[NI][NJ];

void poly_2mm(const double (*restrict A)[NK], const double (*restrict B)[NJ],
    const double (*restrict C)[NL], const double (*restrict D0)[NL], double (*restrict D)[NL]) {
  for (int i = 0; i < NI; i++) {
    for (int j = 0; j < NJ; j++) t[i][j] = 0.0;
    for (int k = 0; k < NK; k++)
      for (int j = 0; j < NJ; j++) t[i][j] += 1.5 * A[i][k] * B[k][j];
  }
  for (int i = 0; i < NI; i++) {
    for (int j = 0; j < NL; j++) D[i][j] = 1.2 * D0[i][j];
    for (int k = 0; k < NJ; k++)
      for (int j = 0; j < NL; j++) D[i][j] += t[i][k] * C[k][j];
  }
}

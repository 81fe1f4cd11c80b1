void poly_floyd_warshall(const int (*restrict W)[N], int (*restrict D)[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) D[i][j] = W[i][j];
  for (int k = 0; k < N; k++)
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        int d = D[i][k] + D[k][j];
        D[i][j] = d < D[i][j] ? d : D[i][j];
      }
}

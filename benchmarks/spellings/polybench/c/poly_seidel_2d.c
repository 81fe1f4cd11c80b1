void poly_seidel_2d(const double (*restrict A0)[N], double (*restrict A)[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) A[i][j] = A0[i][j];
  for (int t = 0; t < T; t++)
    for (int i = 1; i < N - 1; i++)
      for (int j = 1; j < N - 1; j++)
        A[i][j] = (A[i - 1][j - 1] + A[i - 1][j] + A[i - 1][j + 1] + A[i][j - 1] + A[i][j] + A[i][j + 1]
          + A[i + 1][j - 1] + A[i + 1][j] + A[i + 1][j + 1]) / 9.0;
}

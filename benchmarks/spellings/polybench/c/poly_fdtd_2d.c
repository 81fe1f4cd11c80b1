void poly_fdtd_2d(const double *restrict f, const double (*restrict ex0)[NY],
    const double (*restrict ey0)[NY], const double (*restrict hz0)[NY], double (*restrict ex)[NY],
    double (*restrict ey)[NY], double (*restrict hz)[NY]) {
  for (int i = 0; i < NX; i++)
    for (int j = 0; j < NY; j++) {
      ex[i][j] = ex0[i][j];
      ey[i][j] = ey0[i][j];
      hz[i][j] = hz0[i][j];
    }
  for (int t = 0; t < T; t++) {
    for (int j = 0; j < NY; j++) ey[0][j] = f[t];
    for (int i = 1; i < NX; i++)
      for (int j = 0; j < NY; j++) ey[i][j] -= 0.5 * (hz[i][j] - hz[i - 1][j]);
    for (int i = 0; i < NX; i++)
      for (int j = 1; j < NY; j++) ex[i][j] -= 0.5 * (hz[i][j] - hz[i][j - 1]);
    for (int i = 0; i < NX - 1; i++)
      for (int j = 0; j < NY - 1; j++)
        hz[i][j] -= 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
  }
}

static double v[N][N], p[N][N], q[N][N];

void poly_adi(const double (*restrict u0)[N], double (*restrict u)[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) u[i][j] = u0[i][j];
  const double m1 = 2.0 / T * N * N, m2 = 1.0 / T * N * N;
  const double a = -m1 / 2.0, b = 1.0 + m1, d = -m2 / 2.0, e = 1.0 + m2;
  for (int s = 0; s < T; s++) {
    for (int i = 1; i < N - 1; i++) {
      v[0][i] = 1.0;
      p[i][0] = 0.0;
      q[i][0] = 1.0;
      for (int j = 1; j < N - 1; j++) {
        p[i][j] = -a / (a * p[i][j - 1] + b);
        q[i][j] = (-d * u[j][i - 1] + (1.0 + 2.0 * d) * u[j][i] - d * u[j][i + 1] - a * q[i][j - 1])
          / (a * p[i][j - 1] + b);
      }
      v[N - 1][i] = 1.0;
      for (int j = N - 2; j >= 1; j--) v[j][i] = p[i][j] * v[j + 1][i] + q[i][j];
    }
    for (int i = 1; i < N - 1; i++) {
      u[i][0] = 1.0;
      p[i][0] = 0.0;
      q[i][0] = 1.0;
      for (int j = 1; j < N - 1; j++) {
        p[i][j] = -d / (d * p[i][j - 1] + e);
        q[i][j] = (-a * v[i - 1][j] + (1.0 + 2.0 * a) * v[i][j] - a * v[i + 1][j] - d * q[i][j - 1])
          / (d * p[i][j - 1] + e);
      }
      u[i][N - 1] = 1.0;
      for (int j = N - 2; j >= 1; j--) u[i][j] = p[i][j] * u[i][j + 1] + q[i][j];
    }
  }
}

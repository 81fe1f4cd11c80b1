static double mean[M], d[N][M];

void poly_covariance(const double (*restrict data)[M], double (*restrict cov)[M]) {
  for (int j = 0; j < M; j++) mean[j] = 0.0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) mean[j] += data[i][j] / N;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) d[i][j] = data[i][j] - mean[j];
  for (int i = 0; i < M; i++) {
    for (int j = i; j < M; j++) cov[i][j] = 0.0;
    for (int k = 0; k < N; k++)
      for (int j = i; j < M; j++) cov[i][j] += d[k][i] * d[k][j];
    for (int j = i; j < M; j++) cov[i][j] /= (N - 1.0);
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < i; j++) cov[i][j] = cov[j][i];
}

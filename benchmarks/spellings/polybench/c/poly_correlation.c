#include <math.h>

static double mean[M], dev[M], d[N][M];

void poly_correlation(const double (*restrict data)[M], double (*restrict corr)[M]) {
  for (int j = 0; j < M; j++) mean[j] = 0.0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) mean[j] += data[i][j] / N;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) d[i][j] = data[i][j] - mean[j];
  for (int j = 0; j < M; j++) dev[j] = 0.0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) dev[j] += d[i][j] * d[i][j];
  for (int j = 0; j < M; j++) {
    double s = sqrt(dev[j] / N);
    dev[j] = sqrt((double)N) * (s <= 0.1 ? 1.0 : s);
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) d[i][j] /= dev[j];
  for (int i = 0; i < M; i++) {
    for (int j = i; j < M; j++) corr[i][j] = 0.0;
    for (int k = 0; k < N; k++)
      for (int j = i; j < M; j++) corr[i][j] += d[k][i] * d[k][j];
    for (int j = i; j < M; j++) corr[i][j] /= 1.0;
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < i; j++) corr[i][j] = corr[j][i];
  for (int i = 0; i < M; i++) corr[i][i] = 1.0;
}

#include <math.h>

static double W[M][N];

void poly_gramschmidt(const double (*restrict A)[N], double (*restrict Q)[N], double (*restrict R)[N]) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) W[i][j] = A[i][j];
  for (int k = 0; k < N; k++) {
    double s = 0.0;
    for (int i = 0; i < M; i++) s += W[i][k] * W[i][k];
    for (int j = 0; j < k; j++) R[k][j] = 0.0;
    R[k][k] = sqrt(s);
    for (int i = 0; i < M; i++) Q[i][k] = W[i][k] / R[k][k];
    for (int j = k + 1; j < N; j++) R[k][j] = 0.0;
    for (int i = 0; i < M; i++)
      for (int j = k + 1; j < N; j++) R[k][j] += Q[i][k] * W[i][j];
    for (int i = 0; i < M; i++)
      for (int j = k + 1; j < N; j++) W[i][j] -= Q[i][k] * R[k][j];
  }
}

#include <math.h>

void poly_cholesky(const double (*restrict A)[N], double (*restrict L)[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) L[i][j] = A[i][j];
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) L[i][j] -= L[i][k] * L[j][k];
      L[i][j] /= L[j][j];
    }
    for (int k = 0; k < i; k++) L[i][i] -= L[i][k] * L[i][k];
    L[i][i] = sqrt(L[i][i]);
  }
}

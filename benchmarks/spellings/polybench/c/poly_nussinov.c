#define MAX(a, b) ((a) > (b) ? (a) : (b))

void poly_nussinov(const int *restrict b, int (*restrict t)[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) t[i][j] = 0;
  for (int i = N - 1; i >= 0; i--)
    for (int j = i + 1; j < N; j++) {
      int pair = i < j - 1 && b[i] + b[j] == 3 ? 1 : 0;
      t[i][j] = MAX(t[i][j], t[i][j - 1]);
      t[i][j] = MAX(t[i][j], t[i + 1][j]);
      t[i][j] = MAX(t[i][j], t[i + 1][j - 1] + pair);
      for (int k = i + 1; k < j; k++) t[i][j] = MAX(t[i][j], t[i][k] + t[k + 1][j]);
    }
}

#include <math.h>

static double r[W][H], v[W][H];

void poly_deriche(const double (*restrict x)[H], double (*restrict out)[H]) {
  const double g = exp(-0.25), h = exp(-0.5), k = (1.0 - g) * (1.0 - g) / (1.0 + 0.5 * g - h);
  const double a1 = k, a2 = k * g * (0.25 - 1.0), a3 = k * g * (0.25 + 1.0), a4 = -k * h, b1 = 2.0 * g,
    b2 = -h;
  for (int i = 0; i < W; i++) {
    double p1 = 0.0, p2 = 0.0, x1 = 0.0;
    for (int j = 0; j < H; j++) {
      r[i][j] = a1 * x[i][j] + a2 * x1 + b1 * p1 + b2 * p2;
      x1 = x[i][j];
      p2 = p1;
      p1 = r[i][j];
    }
  }
  for (int i = 0; i < W; i++) {
    double p1 = 0.0, p2 = 0.0, x1 = 0.0, x2 = 0.0;
    for (int j = H - 1; j >= 0; j--) {
      double p = a3 * x1 + a4 * x2 + b1 * p1 + b2 * p2;
      x2 = x1;
      x1 = x[i][j];
      p2 = p1;
      p1 = p;
      r[i][j] += p;
    }
  }
  for (int j = 0; j < H; j++) {
    out[0][j] = a1 * r[0][j];
    out[1][j] = a1 * r[1][j] + a2 * r[0][j] + b1 * out[0][j];
  }
  for (int i = 2; i < W; i++)
    for (int j = 0; j < H; j++)
      out[i][j] = a1 * r[i][j] + a2 * r[i - 1][j] + b1 * out[i - 1][j] + b2 * out[i - 2][j];
  for (int j = 0; j < H; j++) {
    v[W - 1][j] = 0.0;
    v[W - 2][j] = a3 * r[W - 1][j];
  }
  for (int i = W - 3; i >= 0; i--)
    for (int j = 0; j < H; j++)
      v[i][j] = a3 * r[i + 1][j] + a4 * r[i + 2][j] + b1 * v[i + 1][j] + b2 * v[i + 2][j];
  for (int i = 0; i < W; i++)
    for (int j = 0; j < H; j++) out[i][j] += v[i][j];
}

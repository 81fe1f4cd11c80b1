void poly_durbin(const double *restrict r, double *restrict y) {
  double z[N], alpha = -r[0], beta = 1.0;
  y[0] = -r[0];
  for (int k = 1; k < N; k++) {
    double s = 0.0;
    beta = (1.0 - alpha * alpha) * beta;
    for (int i = 0; i < k; i++) s += r[k - i - 1] * y[i];
    alpha = -(r[k] + s) / beta;
    for (int i = 0; i < k; i++) z[i] = y[i] + alpha * y[k - i - 1];
    for (int i = 0; i < k; i++) y[i] = z[i];
    y[k] = alpha;
  }
}

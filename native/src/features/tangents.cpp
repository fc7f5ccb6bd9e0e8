// Tangents times slopes, and tangents added up by owner: the sparse half of a matrix-free product with the rows of a fit.
//
// Each tangent is read once: this runs at the speed of memory. Sums go in the order of the tangents.
#include "isa/kernels.hpp"

namespace qml {
namespace QML_ISA {
namespace {

// Numbers below which one thread is faster than two.
constexpr int64_t small_work = 1 << 15;

// Index of the first tangent whose owner is `first` or a later one; owners ascend.
int64_t lower_bound(const int64_t *owner, int64_t n, int64_t first) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (owner[middle] < first)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

} // namespace

template <class real, class wide>
void tangent_products(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner, const wide *x,
                      double *out, int threads) {
  if (n_tangents * rank < small_work) threads = 1;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t t = 0; t < n_tangents; ++t) {
    const real *a = tangents + t * rank;
    const wide *b = x + owner[t] * rank;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < rank; ++k) sum += double(a[k]) * double(b[k]);
    out[t] = sum;
  }
}

template <class real, class wide>
void tangent_sums(int64_t rank, int64_t n_tangents, const real *tangents, const int64_t *owner,
                  const double *coefficients, int64_t n_owners, wide *out, int threads) {
  if (n_tangents * rank < small_work) threads = 1;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int part = 0; part < threads; ++part) {
    const int64_t first = n_owners * part / threads, last = n_owners * (part + 1) / threads;
    for (int64_t k = first * rank; k < last * rank; ++k) out[k] = wide(0);
    const int64_t end = lower_bound(owner, n_tangents, last);
    for (int64_t t = lower_bound(owner, n_tangents, first); t < end; ++t) {
      const real *a = tangents + t * rank;
      const wide by = wide(coefficients[t]);
      wide *to = out + owner[t] * rank;
#pragma omp simd
      for (int64_t k = 0; k < rank; ++k) to[k] += by * wide(a[k]);
    }
  }
}

void add_tangents(Kernels &to) {
  to.f32.products.tangent_products = tangent_products<float, float>, to.f64.products.tangent_products = tangent_products<double, double>;
  to.mixed.tangent_products = tangent_products<float, double>;
  to.f32.products.tangent_sums = tangent_sums<float, float>, to.f64.products.tangent_sums = tangent_sums<double, double>;
  to.mixed.tangent_sums = tangent_sums<float, double>;
}

} // namespace QML_ISA
} // namespace qml

// Invariants of one channel of the density: sums of products of two or three of its moments.
//
// Channels lie side by side in lanes. Each invariant is a run of terms, factor * M[a] M[b] (M[c]), where a, b, c are numbers
// of spherical harmonics; c is -1 in a product of two.
#pragma once

#include "isa/kernels.hpp"
#include "isa/simd.hpp"

namespace qml {
namespace QML_ISA {
namespace density {

struct Term {
  int32_t invariant, a, b, c;
};

template <class real> struct Invariants {
  int64_t n_terms, n_channels;
  const Term *terms;
  const real *factors;

  explicit Invariants(const qml_density &p)
      : n_terms(p.n_terms), n_channels(p.n_channels), terms(reinterpret_cast<const Term *>(p.terms)),
        factors(static_cast<const real *>(p.factors)) {}

  // moments (harmonics, channels) -> out (invariants, channels)
  void values(const real *moments, real *out) const {
    for (int64_t k = 0; k < n_channels; k += lanes_of<real>) {
      const real *m = moments + k;
      Vector<real> sum = {};
      for (int64_t t = 0; t < n_terms; ++t) {
        const Term &term = terms[t];
        Vector<real> product = factors[t] * at(m, term.a) * at(m, term.b);
        if (term.c >= 0) product *= at(m, term.c);
        sum += product;
        if (t + 1 == n_terms || terms[t + 1].invariant != term.invariant) {
          store(out + term.invariant * n_channels + k, sum);
          sum = Vector<real>{};
        }
      }
    }
  }

  // gradient (harmonics, channels) = gradient of sum(cotangent * invariants) by the moments
  void pullback(const real *moments, const real *cotangent, int64_t n_harmonics, real *gradient) const {
    __builtin_memset(gradient, 0, size_t(n_harmonics * n_channels) * sizeof(real));
    for (int64_t k = 0; k < n_channels; k += lanes_of<real>) {
      const real *m = moments + k;
      real *g = gradient + k;
      for (int64_t t = 0; t < n_terms; ++t) {
        const Term &term = terms[t];
        const Vector<real> weight = factors[t] * load(cotangent + term.invariant * n_channels + k);
        differentiate(m, term, weight, [&](int32_t by, Vector<real> v) QML_INLINE_LAMBDA { add(g, by, v); });
      }
    }
  }

  // slopes (invariants, harmonics, channels): derivative of each invariant by each moment
  void slopes(const real *moments, int64_t n_invariants, int64_t n_harmonics, real *out) const {
    __builtin_memset(out, 0, size_t(n_invariants * n_harmonics * n_channels) * sizeof(real));
    for (int64_t k = 0; k < n_channels; k += lanes_of<real>) {
      for (int64_t t = 0; t < n_terms; ++t) {
        const Term &term = terms[t];
        real *to = out + term.invariant * n_harmonics * n_channels + k;
        differentiate(moments + k, term, broadcast<real>(factors[t]),
                      [&](int32_t by, Vector<real> v) QML_INLINE_LAMBDA { add(to, by, v); });
      }
    }
  }

private:
  QML_INLINE Vector<real> at(const real *m, int32_t harmonic) const { return load(m + harmonic * n_channels); }
  QML_INLINE void add(real *to, int32_t harmonic, Vector<real> v) const {
    store(to + harmonic * n_channels, load(to + harmonic * n_channels) + v);
  }

  // add(harmonic, derivative of weight * term by that moment) for each factor of the term
  template <class Add> QML_INLINE void differentiate(const real *m, Term term, Vector<real> weight, Add add) const {
    const Vector<real> a = at(m, term.a), b = at(m, term.b);
    if (term.c >= 0) {
      const Vector<real> c = at(m, term.c), wc = weight * c;
      add(term.a, wc * b);
      add(term.b, wc * a);
      add(term.c, weight * a * b);
    } else {
      add(term.a, weight * b);
      add(term.b, weight * a);
    }
  }
};

} // namespace density
} // namespace QML_ISA
} // namespace qml

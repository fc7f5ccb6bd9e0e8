// Invariants of one channel of the density: sums of products of two or three of its moments.
//
// Channels lie side by side in lanes. The terms are known to the compiler, so that sums stay in registers.
#pragma once

#include "density/couplings.hpp"
#include "density/harmonics.hpp"
#include "isa/kernels.hpp"

namespace qml {
namespace QML_ISA {
namespace density {

using namespace ::qml::density; // couplings

template <class real, int l_max> struct InvariantsOf {
  typedef Vector<real> V;
  static constexpr int n_harmonics = (l_max + 1) * (l_max + 1), n_paths = path_count[l_max];
  const real *weights;  // (invariants)
  int64_t n_channels;
  bool three;           // products of three moments, too

  // moments (harmonics, channels) -> out (invariants, channels)
  void values(const real *moments, real *out) const {
    for (int64_t k = 0; k < n_channels; k += lanes_of<real>) {
      V m[n_harmonics];
      read(moments + k, m);
      unroll<l_max + 1>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int l = decltype(index)::value;
        V sum = m[l * l] * m[l * l];
        for (int i = l * l + 1; i < (l + 1) * (l + 1); ++i) sum = fma(m[i], m[i], sum);
        store(out + l * n_channels + k, weights[l] * sum);
      });
      if (!three) continue;
      V sums[n_paths] = {};
      unroll<term_count[l_max]>([&](auto index) QML_INLINE_LAMBDA {
        constexpr Coupling term = couplings[decltype(index)::value];
        sums[term.path] = fma(real(term.factor) * m[term.a] * m[term.b], m[term.c], sums[term.path]);
      });
      for (int path = 0; path < n_paths; ++path)
        store(out + (l_max + 1 + path) * n_channels + k, weights[l_max + 1 + path] * sums[path]);
    }
  }

  // gradient (harmonics, channels) = gradient of sum(cotangent * invariants) by the moments
  void pullback(const real *moments, const real *cotangent, real *gradient) const {
    for (int64_t k = 0; k < n_channels; k += lanes_of<real>) {
      V m[n_harmonics], g[n_harmonics];
      read(moments + k, m);
      unroll<n_harmonics>([&](auto index) QML_INLINE_LAMBDA {
        constexpr int i = decltype(index)::value, l = i < 1 ? 0 : i < 4 ? 1 : i < 9 ? 2 : 3;
        g[i] = (real(2) * weights[l]) * load(cotangent + l * n_channels + k) * m[i];
      });
      if (three) {
        V w[n_paths];
        for (int path = 0; path < n_paths; ++path)
          w[path] = weights[l_max + 1 + path] * load(cotangent + (l_max + 1 + path) * n_channels + k);
        unroll<term_count[l_max]>([&](auto index) QML_INLINE_LAMBDA {
          constexpr Coupling term = couplings[decltype(index)::value];
          const V weight = real(term.factor) * w[term.path], first = weight * m[term.a];
          g[term.a] = fma(weight * m[term.b], m[term.c], g[term.a]);
          g[term.b] = fma(first, m[term.c], g[term.b]);
          g[term.c] = fma(first, m[term.b], g[term.c]);
        });
      }
      for (int i = 0; i < n_harmonics; ++i) store(gradient + i * n_channels + k, g[i]);
    }
  }

  // slopes (invariants, harmonics, channels): derivative of each invariant by each moment
  void slopes(const real *moments, real *out) const {
    const auto at = [&](int invariant, int harmonic) { return out + (invariant * n_harmonics + harmonic) * n_channels; };
    __builtin_memset(out, 0, size_t(at(l_max + 1 + three * n_paths, 0) - out) * sizeof(real));
    for (int64_t k = 0; k < n_channels; k += lanes_of<real>) {
      V m[n_harmonics];
      read(moments + k, m);
      for (int l = 0; l <= l_max; ++l)
        for (int i = l * l; i < (l + 1) * (l + 1); ++i) store(at(l, i) + k, real(2) * weights[l] * m[i]);
      for (int t = 0; three && t < term_count[l_max]; ++t) {
        const Coupling &term = couplings[t];
        const int invariant = l_max + 1 + term.path;
        const V a = m[term.a], b = m[term.b], c = m[term.c];
        const real weight = weights[invariant] * real(term.factor);
        const auto add = [&](int by, V v) { store(at(invariant, by) + k, load(at(invariant, by) + k) + weight * v); };
        add(term.a, b * c), add(term.b, a * c), add(term.c, a * b);
      }
    }
  }

private:
  QML_INLINE void read(const real *moments, V (&m)[n_harmonics]) const {
    for (int i = 0; i < n_harmonics; ++i) m[i] = load(moments + i * n_channels);
  }
};

// f(invariants of the degree of the parameters)
template <class real, int l_max = most_degree, class F> void with_invariants(const qml_density &p, F f) {
  if (p.l_max == l_max)
    f(InvariantsOf<real, l_max>{static_cast<const real *>(p.weights), p.n_channels, p.n_invariants > l_max + 1});
  else if constexpr (l_max > 0) with_invariants<real, l_max - 1>(p, f);
}

} // namespace density
} // namespace QML_ISA
} // namespace qml

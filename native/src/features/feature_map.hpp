// Parts that the feature kernels share: the linear map, and the constants of its frequencies.
#pragma once

#include "features/dense.hpp"
#include "features/hadamard.hpp"
#include "isa/kernels.hpp"
#include "isa/lanes.hpp"
#include "isa/sincos.hpp"
#include "isa/threads.hpp"

namespace qml {
namespace QML_ISA {

// f(linear map), its type chosen by rank.
template <class real, class F> void with_linear_map(const qml_feature_map &map, F f) {
  if (map.n_transforms == 0) return f(Dense<real>(map));
  switch (map.rank) {
  case 2: return f(Hadamard<real, 2>(map));
  case 4: return f(Hadamard<real, 4>(map));
  case 8: return f(Hadamard<real, 8>(map));
  case 16: return f(Hadamard<real, 16>(map));
  case 32: return f(Hadamard<real, 32>(map));
  case 64: return f(Hadamard<real, 64>(map));
  case 128: return f(Hadamard<real, 128>(map));
  case 256: return f(Hadamard<real, 256>(map));
  case 512: return f(Hadamard<real, 512>(map));
  default: return f(Hadamard<real, 1024>(map));
  }
}

// The linear map of any kind and rank: frequencies come in blocks that are computed together.
template <class real> struct LinearMap {
  explicit LinearMap(const qml_feature_map &map);

  // y[k] = product with row k of the block, for as many vectors x side by side as there are lanes
  void forward(int64_t block, const Vector<real> *x, Vector<real> *y) const { forward_block(map, block, x, y); }
  // slope += the transposed product with a gradient by y, which is used up
  void back(int64_t block, Vector<real> *gradient, Vector<real> *slope) const {
    back_block(map, block, gradient, slope);
  }

  int64_t rank, n_frequencies, block_size, n_blocks;

private:
  template <class Map> void take(const Map &typed);
  const qml_feature_map &map;
  void (*forward_block)(const qml_feature_map &map, int64_t block, const Vector<real> *x, Vector<real> *y);
  void (*back_block)(const qml_feature_map &map, int64_t block, Vector<real> *gradient, Vector<real> *slope);
};
extern template struct LinearMap<float>;
extern template struct LinearMap<double>;

// f(Index<n>, k) for 0 <= k < count, n at a time: chains of operations that do not wait for each other.
template <class F> QML_INLINE void over_frequencies(int64_t count, F f) {
  constexpr int at_once = 4;
  int64_t k = 0;
  for (; k + at_once <= count; k += at_once) f(Index<at_once>{}, k);
  for (; k < count; ++k) f(Index<1>{}, k);
}

// Pieces of one workspace, each aligned to a cache line.
class Arena {
public:
  explicit Arena(void *memory) : next(static_cast<char *>(memory)) {}
  template <class T> static constexpr size_t bytes(int64_t count) { return (size_t(count) * sizeof(T) + 63) / 64 * 64; }
  template <class T> T *take(int64_t count) {
    T *piece = reinterpret_cast<T *>(next);
    next += bytes<T>(count);
    return piece;
  }

private:
  char *next;
};

// A map with the linear part of another in a wider type, in memory of its own where that is another type.
template <class real, class wide> class Widened {
public:
  static size_t bytes(const qml_feature_map &map) {
    return sizeof(wide) == sizeof(real) ? 0 : Arena::bytes<wide>(count(map));
  }
  Widened(const qml_feature_map &given, Arena &arena) : map(given) {
    if constexpr (sizeof(wide) != sizeof(real)) {
      const real *from = static_cast<const real *>(given.n_transforms ? given.signs : given.matrix);
      wide *to = arena.take<wide>(count(given));
      for (int64_t i = 0; i < count(given); ++i) to[i] = wide(from[i]);
      (given.n_transforms ? map.signs : map.matrix) = to;
    }
  }
  qml_feature_map map;

private:
  static int64_t count(const qml_feature_map &map) {
    return map.n_frequencies * (map.n_transforms ? map.n_transforms : map.rank);
  }
};

// u = scale * y + phase, and the same in turns.
template <class real> struct Frequencies {
  real *turns_high, *turns_low; // scale / 2 pi
  real *phase;                  // in turns, between -1/2 and 1/2
  real *scale;
  bool phased;

  static size_t bytes(const qml_feature_map &map) { return 4 * Arena::bytes<real>(map.n_frequencies); }

  Frequencies(const qml_feature_map &map, Arena &arena)
      : turns_high(arena.take<real>(map.n_frequencies)), turns_low(arena.take<real>(map.n_frequencies)),
        phase(arena.take<real>(map.n_frequencies)), scale(arena.take<real>(map.n_frequencies)), phased(false) {
    const real *given = static_cast<const real *>(map.phases);
    for (int64_t f = 0; given && f < map.n_frequencies; ++f) phased |= given[f] != 0;
  }

  // Computes first <= f < last: threads share the work where there are few atoms.
  void fill(const qml_feature_map &map, int64_t first, int64_t last) const {
    const real *given_scale = map.n_transforms ? static_cast<const real *>(map.row_scale) : nullptr;
    const real *given_phase = static_cast<const real *>(map.phases);
    real *__restrict p = phase, *__restrict s = scale;
    if (given_scale)
      for (int64_t f = first; f < last; ++f) s[f] = given_scale[f];
    else
      for (int64_t f = first; f < last; ++f) s[f] = 1;
    turns_per_unit<real>(s + first, last - first, turns_high + first, turns_low + first);
    for (int64_t f = first; phased && f < last; ++f) {
      const double in_turns = given_phase[f] * turns_per_radian, shifted = in_turns + round_magic<double>;
      p[f] = real(in_turns - (shifted - round_magic<double>));
    }
  }

  template <int share = 1, bool with_phases = true> QML_INLINE Turns<real> angle_of(Vector<real> y, int64_t f) const {
    const Turns<real> angle = turns<real>(y, spread<real, share>(turns_high + f), spread<real, share>(turns_low + f));
    if constexpr (with_phases) {
      if (phased) return turned_by<real>(angle, spread<real, share>(phase + f));
    }
    return angle;
  }
};

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Below this many (vector, frequency) products one thread is faster than waking another.
constexpr int64_t worth_a_thread = 32768;
inline int useful_threads(int threads, int64_t products) {
  return int(larger(1, smaller(threads, products / worth_a_thread)));
}

} // namespace QML_ISA
} // namespace qml

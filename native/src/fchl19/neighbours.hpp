// The neighbours of one centre, side by side in lanes, and all that depends on one neighbour alone.
//
// `real` is the type computed in, `io` that of the caller's arrays.
#pragma once

#include "fchl19/inverse_power.hpp"
#include "isa/centres.hpp"
#include "isa/lanes.hpp"

#include <math.h>

namespace qml {
namespace QML_ISA {
namespace fchl19 {

constexpr double pi = 3.14159265358979323846;
constexpr double log2_e = 1.4426950408889634; // exp(x) = 2^(x log2_e): powers of two need no reduction by ln 2

// Constants and tables of one call, which follow from the parameters and from the largest number of neighbours.
template <class real> struct Setup {
  qml_fchl19 p;
  int64_t padded2, padded3;    // grid points, whole vectors
  int64_t n_blocks, block;     // pairs of elements, entries of one
  int64_t capacity;            // slots for neighbours, whole vectors
  real *log_grid2, *density2;  // (padded2) ln R, 1 / (R sqrt(2 pi)) or 0 in the padding
  real *grid3;                 // (padded3)
  InversePower<real> decay3;   // x^-N3 of x^2

  Setup(const qml_fchl19 &p, int64_t most_neighbours, ScratchArena &arena)
      : p(p), padded2(whole_vectors<real>(p.n_radial2)), padded3(whole_vectors<real>(p.n_radial3)),
        n_blocks(int64_t(p.n_elements) * (p.n_elements + 1) / 2), block(int64_t(p.n_radial3) * p.n_angular),
        capacity(whole_vectors<real>(most_neighbours)), log_grid2(arena.take<real>(padded2)),
        density2(arena.take<real>(padded2)), grid3(arena.take<real>(padded3)) {}

  void tabulate() {
    decay3.tabulate(0.5 * p.decay3, 4 * p.cutoff * p.cutoff);
    for (int64_t k = 0; k < padded2; ++k) {
      const bool inside = k < p.n_radial2;
      const double r = inside ? p.cutoff * double(k + 1) / p.n_radial2 : p.cutoff;
      log_grid2[k] = real(log(r));
      density2[k] = inside ? real(1 / (r * sqrt(2 * pi))) : real(0);
    }
    for (int64_t l = 0; l < padded3; ++l) {
      grid3[l] = real(l < p.n_radial3 ? p.cutoff * double(l + 1) / p.n_radial3 : p.cutoff);
    }
  }

  int64_t size() const { return int64_t(p.n_elements) * p.n_radial2 + n_blocks * block; }

  // Number of the block of two elements, and where it begins.
  int64_t block_index(int64_t one, int64_t other) const {
    const int64_t low = one < other ? one : other, high = one < other ? other : one;
    return high + low * p.n_elements - low * (low + 1) / 2;
  }
  int64_t block_of(int64_t one, int64_t other) const {
    return int64_t(p.n_elements) * p.n_radial2 + block_index(one, other) * block;
  }
};

// Neighbours inside the cutoff. They fill the slots first <= slot < capacity: the last vector ends with the last
// neighbour, so that rows of pairs j < k, which all end there, take as few vectors as can be.
template <class real> struct Neighbours {
  const Setup<real> &setup;
  int64_t first;
  int64_t *start;               // (n_elements + 1) first slot of each element
  int64_t *pair;                // index of the caller's pair
  real *x, *y, *z, *r, *square, *inverse_r;
  real *weight, *weight_slope;  // fc(r) r^-N3, and the derivative of its logarithm divided by r
  // two-body function: amplitude 2^(spread t^2) density2 with t = ln R - mean; its derivative by r has
  // slope0 + slope1 t + slope2 t^2 in place of the amplitude
  real *mean, *spread, *amplitude, *slope0, *slope1, *slope2;

  Neighbours(const Setup<real> &setup, ScratchArena &arena) : setup(setup), first(setup.capacity) {
    start = arena.take<int64_t>(setup.p.n_elements + 1);
    pair = arena.take<int64_t>(setup.capacity);
    real **const arrays[] = {&x,    &y,      &z,         &r,      &square, &inverse_r, &weight, &weight_slope,
                             &mean, &spread, &amplitude, &slope0, &slope1,    &slope2};
    for (real **array : arrays) *array = arena.take<real>(setup.capacity);
  }

  int64_t first_vector() const { return first / lanes_of<real> * lanes_of<real>; }

  // The neighbours of the centre whose segments these are.
  template <class io> void gather(const int64_t *segments, const io *vectors) {
    const real cutoff2 = real(setup.p.cutoff) * real(setup.p.cutoff);
    first = setup.capacity;
    start[setup.p.n_elements] = first;
    for (int64_t element = setup.p.n_elements - 1; element >= 0; --element) {
      for (int64_t p = segments[element + 1] - 1; p >= segments[element]; --p) {
        const real vx = real(vectors[3 * p]), vy = real(vectors[3 * p + 1]), vz = real(vectors[3 * p + 2]);
        if (!(vx * vx + vy * vy + vz * vz < cutoff2)) continue;
        --first;
        x[first] = vx, y[first] = vy, z[first] = vz;
        pair[first] = p;
      }
      start[element] = first;
    }
    for (int64_t slot = first_vector(); slot < first; ++slot) {
      // an empty slot holds a place where nothing is infinite
      x[slot] = real(setup.p.cutoff), y[slot] = 0, z[slot] = 0;
    }
    for (int64_t slot = first_vector(); slot < setup.capacity; slot += lanes_of<real>) measure(slot);
  }

  // exp(-eta3 / 2 (r - R)^2) of every neighbour, each `share` times, (slots, whole vectors). A three-body Gaussian is a
  // product of two of these and a factor without the grid (triple.hpp).
  template <int share> void gaussians_by_slot(real *out) const {
    constexpr int lanes = lanes_of<real>;
    const int64_t width = whole_vectors<real>(share * setup.p.n_radial3);
    for (int64_t slot = first; slot < setup.capacity; ++slot) {
      real *const to = out + slot * width;
      for (int64_t l = 0; l < setup.padded3; l += lanes) {
        const Vector<real> g = gaussian(load(setup.grid3 + l) - r[slot]);
        unroll<share>([&](auto index) QML_INLINE_LAMBDA {
          constexpr int part = decltype(index)::value;
          const int64_t at = l * share + part * lanes;
          if (at < width) store(to + at, repeated<share, part>(g, Counted<lanes>{}));
        });
      }
    }
  }

private:
  QML_INLINE Vector<real> gaussian(Vector<real> distance) const {
    return power_of_two<real>(real(-0.5 * log2_e * setup.p.eta3) * distance * distance);
  }

  void measure(int64_t slot) {
    const qml_fchl19 &p = setup.p;
    const Vector<real> vx = load(x + slot), vy = load(y + slot), vz = load(z + slot);
    const Vector<real> r2 = vx * vx + vy * vy + vz * vz, distance = root<real>(r2), inverse = real(1) / distance;
    store(r + slot, distance);
    store(square + slot, r2);
    store(inverse_r + slot, inverse);

    // fc = (cos(pi r / cutoff) + 1) / 2 = cos^2(pi r / (2 cutoff)): no cancellation near the cutoff
    const Vector<real> sine = sine_of_quarter_turns<real>(distance * real(1 / p.cutoff));
    const Vector<real> cosine = sine_of_quarter_turns<real>((real(p.cutoff) - distance) * real(1 / p.cutoff));
    const real power = real(p.cutoff_power);
    const Vector<real> fc1 = cosine * cosine, fc = p.cutoff_power == 1 ? fc1 : fc1 * fc1;
    const Vector<real> fc1_slope = real(-pi / p.cutoff) * sine * cosine;
    const Vector<real> fc_slope = p.cutoff_power == 1 ? fc1_slope : real(2) * fc1 * fc1_slope;

    const Vector<real> power3 = inverse_power<real>(r2, real(0.5 * p.decay3));
    store(weight + slot, fc * power3);
    // at the cutoff itself the weight is 0 and the derivative of its logarithm infinite: there it becomes a large number
    const Vector<real> nonzero = cosine > real(1e-20) ? cosine : broadcast<real>(1e-20);
    store(weight_slope + slot, -inverse * fma(sine / nonzero, power * real(pi / p.cutoff), real(p.decay3) * inverse));

    const Vector<real> variance = logarithm_of_one_plus<real>(real(p.eta2) / r2);
    const Vector<real> variance_slope = real(-2 * p.eta2) * inverse / (r2 + real(p.eta2));
    const Vector<real> precision = real(1) / variance;
    const Vector<real> power2 = inverse_power<real>(r2, real(0.5 * p.decay2)) * root<real>(precision);
    const Vector<real> height = fc * power2;
    store(mean + slot, real(0.5) * (logarithm<real>(r2) - variance));
    store(spread + slot, real(-0.5 * log2_e) * precision);
    store(amplitude + slot, height);
    store(slope0 + slot, power2 * (fc_slope - real(p.decay2) * inverse * fc) -
                             real(0.5) * height * variance_slope * precision);
    store(slope1 + slot, height * precision * (inverse - real(0.5) * variance_slope));
    store(slope2 + slot, real(0.5) * height * precision * precision * variance_slope);
  }
};

} // namespace fchl19
} // namespace QML_ISA
} // namespace qml

// The steps of one tile, each a call of a kernel or a loop over pairs.
#include "predict/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace qml {

template <class real>
void Tile<real>::compute(const ModelIn<real> &model, const PairList &pairs, int64_t first, int64_t last,
                         double *atom_energies, const Gradients<real> &out, const Deviations<real> &deviations,
                         int threads) {
  const int n_elements = model.n_elements();
  const int64_t n_rows = last - first, size = model.shape.size;
  sort(model, pairs, first, last);
  measure(pairs, n_elements, first, last);
  close_.clear();
  crowded_.clear();
  if (!model.crowding.empty()) count_neighbours(model.crowding, pairs, n_elements, n_rows);
  if (!model.repulsion.empty()) hold_apart(model.repulsion, pairs, n_elements, first, last, atom_energies);
  const int64_t *centre = centre_.begin(), *segments = segments_.begin(), apart = n_elements + 1;
  const int n_more = int(deviations.gradients.size());
  real *values = values_.room((1 + n_more) * n_rows * size), *projected = projected_.room(n_rows * model.rank);
  real *slopes = slope_.room((1 + n_more) * n_rows * model.rank);
  double *energy = energy_.room(n_rows);
  model.environments.values(model.parameters.get(), n_rows, segments, apart, vectors_.begin(), values, threads);
  multiply(model, model.project, size, model.rank, 1, values, projected, threads);
  contract(model, threads);
  learnt_.room((1 + n_more) * int64_t(crowded_.size()));
  fade(0, energy, 1, slopes, model.rank);
  for (int64_t row = 0; row < n_rows; ++row) atom_energies[centre[row]] += energy[row];
  for (const CrowdedCentre &one : crowded_) atom_energies[centre[one.row]] += one.energy;
  if (deviations.energies) {
    const int n_members = model.committee.n_members;
    deviate(model, n_more, threads);
    tell_energies(n_rows, pairs.n_centres, n_members, deviations.energies);
    for (int k = 1; k <= n_more; ++k)
      fade(k, of_members_.begin() + k - 1, n_members, slopes + k * n_rows * model.rank, model.rank);
  }
  if (!out.by_pair) return;

  real *gradients[1 + most_force_members];
  for (int k = 0; k <= n_more; ++k) {
    const Gradients<real> &of = k == 0 ? out : deviations.gradients[size_t(k - 1)];
    gradients[k] = of.by_pair + 3 * (pairs.segments[first * n_elements] - of.first_pair);
  }
  multiply(model, model.lift, model.rank, size, 1 + n_more, side_by_side(slopes, n_rows, model.rank, n_more), values,
           threads);
  model.environments.pullback(model.parameters.get(), n_rows, segments, apart, vectors_.begin(), 1 + n_more, values,
                              gradients, threads);
  for (int k = 0; k <= n_more; ++k) turn(gradients[k], k == 0);
  let_go();
  for (int k = 0; k <= n_more; ++k) push_apart(model.crowding, pairs, n_elements, k, gradients[k]);
  sum_gradients(pairs, n_elements, first, last, out);
  for (const Gradients<real> &member : deviations.gradients) sum_gradients(pairs, n_elements, first, last, member);
}

// Slopes (1 + n_more, rows, rank) as (rows, 1 + n_more, rank). In one product they read each matrix once, and a single atom
// of an element fills a tile of rows.
template <class real>
const real *Tile<real>::side_by_side(const real *slopes, int64_t n_rows, int64_t rank, int n_more) {
  if (n_more == 0) return slopes;
  real *out = side_by_side_.room((1 + n_more) * n_rows * rank), *to = out;
  for (int64_t row = 0; row < n_rows; ++row)
    for (int k = 0; k <= n_more; ++k, to += rank)
      std::memcpy(to, slopes + (k * n_rows + row) * rank, size_t(rank) * sizeof(real));
  return out;
}

// Energies of all members, and slopes of the first ones after those of the model.
template <class real> void Tile<real>::deviate(const ModelIn<real> &model, int n_slopes, int threads) {
  const auto &committee = model.committee;
  const int64_t *first_row = first_row_.begin(), rank = model.rank, apart = first_row[model.n_elements()] * rank;
  double *energies = of_members_.room(first_row[model.n_elements()] * committee.n_members);
  for (int e = 0; e < model.n_elements(); ++e) {
    const int64_t first = first_row[e];
    const Members<real> of = {committee.n_members, n_slopes, committee.weights[size_t(e)],
                              energies + first * committee.n_members, slope_.begin() + apart + first * rank, apart};
    model.kernels.members(committee.maps[size_t(e)], first_row[e + 1] - first, projected_.begin() + first * rank, of,
                          threads);
  }
}

// Writes energies of the members, (members, centres); those of crowded centres have not faded yet.
template <class real> void Tile<real>::tell_energies(int64_t n_rows, int64_t n_centres, int n_members, double *energies) const {
  const double *from = of_members_.begin();
  for (int64_t row = 0; row < n_rows; ++row)
    for (int member = 0; member < n_members; ++member)
      energies[member * n_centres + centre_.begin()[row]] = from[row * n_members + member];
  for (const CrowdedCentre &one : crowded_)
    for (int member = 0; member < n_members; ++member)
      energies[member * n_centres + centre_.begin()[one.row]] *= one.fade;
}

// Rows sorted by element; their segments point to the pairs as they are listed, those of the tile from 0 on.
template <class real>
void Tile<real>::sort(const ModelIn<real> &model, const PairList &pairs, int64_t first, int64_t last) {
  const int n_elements = model.n_elements();
  const int64_t *element = pairs.element;
  int64_t *centre = centre_.room(last - first), *first_row = first_row_.room(n_elements + 1);
  int64_t *segment = segments_.room((last - first) * (n_elements + 1));
  std::fill(first_row, first_row + n_elements + 1, 0);
  for (int64_t i = first; i < last; ++i) ++first_row[element[i] + 1];
  for (int e = 0; e < n_elements; ++e) first_row[e + 1] += first_row[e];
  for (int64_t i = first; i < last; ++i) centre[first_row[element[i]]++] = i;
  // each beginning has moved to the next one: move them back
  for (int e = n_elements; e > 0; --e) first_row[e] = first_row[e - 1];
  first_row[0] = 0;
  const int64_t first_pair = pairs.segments[first * n_elements];
  for (int64_t row = 0; row < last - first; ++row) {
    const int64_t *own = pairs.segments + centre[row] * n_elements;
    for (int e = 0; e <= n_elements; ++e) *segment++ = own[e] - first_pair;
  }
}

// Vectors of the pairs of the centres first <= i < last: differences in double, then rounded.
template <class real> void Tile<real>::measure(const PairList &pairs, int n_elements, int64_t first, int64_t last) {
  const int64_t *segments = pairs.segments, first_pair = segments[first * n_elements];
  real *out = vectors_.room(3 * (segments[last * n_elements] - first_pair));
  if (pairs.vectors) {
    for (int64_t k = 3 * first_pair; k < 3 * segments[last * n_elements]; ++k) *out++ = real(pairs.vectors[k]);
    return;
  }
  for (int64_t i = first; i < last; ++i) {
    const double x = pairs.places[3 * i], y = pairs.places[3 * i + 1], z = pairs.places[3 * i + 2];
    for (int64_t pair = segments[i * n_elements]; pair < segments[(i + 1) * n_elements]; ++pair, out += 3) {
      const double *other = pairs.places + 3 * int64_t(pairs.neighbour[pair]);
      out[0] = real(other[0] - x), out[1] = real(other[1] - y), out[2] = real(other[2] - z);
    }
  }
}

// Adds the repulsion of pairs that are close or in a gap, and lengthens vectors of close ones to what the learnt part is
// to see.
template <class real>
void Tile<real>::hold_apart(const Repulsion &repulsion, const PairList &pairs, int n_elements, int64_t first,
                            int64_t last, double *atom_energies) {
  const int64_t *segments = pairs.segments, first_pair = segments[first * n_elements];
  for (int64_t i = first; i < last; ++i) {
    const double *limits = repulsion.limits(pairs.element[i]);
    const double *begins = repulsion.gap_begins(pairs.element[i]), *ends = repulsion.gap_ends(pairs.element[i]);
    for (int e = 0; e < n_elements; ++e)
      for (int64_t p = segments[i * n_elements + e]; p < segments[i * n_elements + e + 1]; ++p) {
        real *v = vectors_.begin() + 3 * (p - first_pair);
        const double x = double(v[0]), y = double(v[1]), z = double(v[2]);
        const double r2 = x * x + y * y + z * z;
        if (!(r2 < limits[e] || (r2 > begins[e] && r2 < ends[e]))) continue;
        ClosePair pair = {p - first_pair, {x, y, z}, 1, 1, 0};
        atom_energies[i] += repulsion.energy(pairs.element[i], e, pair);
        for (int axis = 0; axis < 3; ++axis) v[axis] = real(pair.ratio * pair.vector[axis]);
        close_.push_back(pair);
      }
  }
}

// Finds crowded centres. The vectors of pairs are as they are.
template <class real>
void Tile<real>::count_neighbours(const Crowding &crowding, const PairList &pairs, int n_elements, int64_t n_rows) {
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t *segment = segments_.begin() + row * (n_elements + 1), own = pairs.element[centre_.begin()[row]];
    const double *reach2 = crowding.reaches(own);
    double sum = 0;
    for (int e = 0; e < n_elements; ++e) {
      const real *v = vectors_.begin() + 3 * segment[e], *end = vectors_.begin() + 3 * segment[e + 1];
      const real limit = real(reach2[e]);
      const double per_reach = 1 / reach2[e];
      for (; v < end; v += 3) {
        const real r2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
        if (r2 < limit) sum += Crowding::part(double(r2) * per_reach);
      }
    }
    CrowdedCentre found = {row, 1, 0, 0, 0};
    if (crowding.crowded(own, sum, found)) crowded_.push_back(found);
  }
}

// Energies and slopes of crowded centres fade; what they were is kept, under the number of the model or member.
// Those of a row are `apart` from those of the next.
template <class real> void Tile<real>::fade(int number, double *energy, int64_t apart, real *slopes, int64_t rank) {
  double *learnt = learnt_.begin() + number * int64_t(crowded_.size());
  for (const CrowdedCentre &one : crowded_) {
    *learnt++ = energy[one.row * apart];
    energy[one.row * apart] *= one.fade;
    real *slope = slopes + one.row * rank;
    for (int64_t k = 0; k < rank; ++k) slope[k] = real(one.fade * double(slope[k]));
  }
}

// Adds the gradient that comes from the change of crowding; number 0 has the repulsion, members have it not.
template <class real>
void Tile<real>::push_apart(const Crowding &crowding, const PairList &pairs, int n_elements, int number,
                            real *gradient) const {
  const double *learnt = learnt_.begin() + number * int64_t(crowded_.size());
  for (const CrowdedCentre &one : crowded_) {
    const double by_crowding = one.fade_slope * *learnt++ + (number == 0 ? one.energy_slope : 0.0);
    const int64_t *segment = segments_.begin() + one.row * (n_elements + 1);
    const double *reach2 = crowding.reaches(pairs.element[centre_.begin()[one.row]]);
    for (int e = 0; e < n_elements; ++e)
      for (int64_t pair = segment[e]; pair < segment[e + 1]; ++pair) {
        const real *v = vectors_.begin() + 3 * pair;
        const double x = double(v[0]), y = double(v[1]), z = double(v[2]), ratio = (x * x + y * y + z * z) / reach2[e];
        if (!(ratio < 1)) continue;
        const double radial = by_crowding * Crowding::slope(ratio, reach2[e]);
        for (int axis = 0; axis < 3; ++axis)
          gradient[3 * pair + axis] = real(double(gradient[3 * pair + axis]) + radial * double(v[axis]));
      }
  }
}

// Puts the vectors of close pairs back.
template <class real> void Tile<real>::let_go() {
  for (const ClosePair &pair : close_)
    for (int axis = 0; axis < 3; ++axis) vectors_.begin()[3 * pair.pair + axis] = real(pair.vector[axis]);
}

// Turns gradients by what is seen of close pairs into gradients by what is; `repelled`: with the repulsion.
template <class real> void Tile<real>::turn(real *gradient, bool repelled) const {
  for (const ClosePair &pair : close_) {
    real *g = gradient + 3 * pair.pair;
    const double *x = pair.vector, r2 = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
    const double along = (double(g[0]) * x[0] + double(g[1]) * x[1] + double(g[2]) * x[2]) / r2;
    const double radial = (pair.slope - pair.ratio) * along + (repelled ? pair.force / std::sqrt(r2) : 0.0);
    for (int axis = 0; axis < 3; ++axis) g[axis] = real(pair.ratio * double(g[axis]) + radial * x[axis]);
  }
}

// c = a times the matrix of each row's element; both have `each` rows for a centre.
template <class real>
void Tile<real>::multiply(const ModelIn<real> &model, const std::vector<Buffer<real>> &matrices, int64_t depth,
                          int64_t columns, int64_t each, const real *a, real *c, int threads) {
  const int64_t *first_row = first_row_.begin();
  Product<real> *products = products_.room(model.n_elements());
  for (int e = 0; e < model.n_elements(); ++e)
    products[e] = {a + each * first_row[e] * depth, each * (first_row[e + 1] - first_row[e]),
                   matrices[size_t(e)].begin(), c + each * first_row[e] * columns};
  model.kernels.matrix_product(depth, columns, model.n_elements(), products, threads);
}

template <class real> void Tile<real>::contract(const ModelIn<real> &model, int threads) {
  const int64_t *first_row = first_row_.begin();
  for (int e = 0; e < model.n_elements(); ++e)
    model.kernels.products.energy_and_slope(
        model.maps[size_t(e)], first_row[e + 1] - first_row[e], projected_.begin() + first_row[e] * model.rank,
        model.weights[size_t(e)], energy_.begin() + first_row[e], slope_.begin() + first_row[e] * model.rank, threads);
}

// The gradients of each centre summed in double.
template <class real>
void Tile<real>::sum_gradients(const PairList &pairs, int n_elements, int64_t first, int64_t last,
                               const Gradients<real> &out) const {
  const real *g = out.by_pair + 3 * (pairs.segments[first * n_elements] - out.first_pair), *v = vectors_.begin();
  for (int64_t i = first; i < last; ++i) {
    const int64_t count = pairs.segments[(i + 1) * n_elements] - pairs.segments[i * n_elements];
    double force[3] = {}, outer[9] = {};
    for (int64_t k = 0; k < 3 * count; k += 3)
      for (int axis = 0; axis < 3; ++axis) force[axis] += double(g[k + axis]);
    std::memcpy(out.own_force + 3 * (i - out.first_centre), force, sizeof(force));
    if (out.own_virial) {
      for (int64_t k = 0; k < 3 * count; k += 3)
        for (int a = 0; a < 3; ++a)
          for (int b = 0; b < 3; ++b) outer[3 * a + b] += double(v[k + a]) * double(g[k + b]);
      std::memcpy(out.own_virial + 9 * (i - out.first_centre), outer, sizeof(outer));
    }
    g += 3 * count, v += 3 * count;
  }
}

template class Tile<float>;
template class Tile<double>;

} // namespace qml

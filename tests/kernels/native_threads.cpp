// Threads inside the library at the same time, for the thread sanitizer: each gets what one alone gets.
//
// Each call has a team of one (see `make sanitize-threads`). Shared are the arrays that are read and what the library
// keeps to itself: the instruction set in use, the last error and the working memory of each thread. Then all threads
// have one predictor, and it is destroyed while they use it.
#include "qml_lightning.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

typedef std::vector<double> Numbers;

void require(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, qml_last_error());
  std::exit(1);
}

struct Inputs {
  static constexpr int64_t rank = 64, n_frequencies = 128, n_atoms = 9, n_elements = 2;
  qml_fchl19 p = {n_elements, 7, 5, 2, QML_ANGULAR_PAIR, 1, 5.0, 0.3, 2.7, 1.8, 0.6, 13.0};
  qml_representation representation = {QML_FCHL19, 0, &p};
  std::vector<int64_t> element, offsets = {0, n_atoms}, owner, row;
  Numbers signs, scale, phases, weights, positions, projections, baseline, x, cells;
  std::vector<uint8_t> periodic = {1, 1, 0};
  qml_feature_map map;

  Inputs() : cells{6, 0, 0, 0.5, 6, 0, 0, 0, 6} {
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    auto fill = [&](Numbers &to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to.push_back(normal(random));
    };
    fill(signs, 2 * n_frequencies), fill(scale, n_frequencies), fill(phases, n_frequencies);
    for (double &sign : signs) sign = sign < 0 ? -1 : 1;
    for (double &factor : scale) factor /= rank;
    fill(weights, 2 * n_frequencies), fill(projections, n_elements * qml_representation_size(&representation) * rank);
    fill(baseline, n_elements), fill(x, n_atoms * rank);
    for (int64_t i = 0; i < n_atoms; ++i) {
      element.push_back(i % n_elements), owner.push_back(i / 2), row.push_back(i % 3);
      for (int64_t axis : {i % 3, i / 3 % 3, i / 9}) positions.push_back(1.6 * double(axis) + 0.1 * normal(random));
    }
    map = {rank, n_frequencies, 2, 1, 0.1, signs.data(), scale.data(), nullptr, phases.data()};
  }
};

struct Prediction {
  Numbers total = Numbers(1), forces = Numbers(size_t(3 * Inputs::n_atoms)), virial = Numbers(9);

  int32_t by(qml_predictor *predictor, const Inputs &in) {
    return qml_predictor_predict(predictor, 1, in.offsets.data(), in.element.data(), in.positions.data(),
                                 in.cells.data(), in.periodic.data(), total.data(), nullptr, forces.data(),
                                 virial.data(), 1);
  }
  bool operator==(const Prediction &other) const {
    return total == other.total && forces == other.forces && virial == other.virial;
  }
};

qml_predictor *made(const Inputs &in, int32_t precision) {
  const qml_feature_map maps[] = {in.map, in.map};
  const double *weights[] = {in.weights.data(), in.weights.data()};
  const qml_model model = {&in.representation, in.rank, in.projections.data(), maps, weights, in.baseline.data(),
                           precision, 0, 0.3};
  qml_predictor *predictor = nullptr;
  require(!qml_predictor_create(&model, &predictor), "predictor");
  return predictor;
}

// All that one thread computes: every kernel, and a predictor of its own.
Numbers compute(const Inputs &in) {
  const int64_t n = in.n_atoms, rank = in.rank, n_features = 2 * in.n_frequencies;
  Numbers features(size_t(n * n_features)), rows(size_t(3 * n_features)), slope(size_t(n * rank)), energy(size_t(n), 0.0);
  Numbers moment(size_t(n_features), 0.0), products(size_t(n), 0.0), sums(size_t(n * rank));
  const double *x = in.x.data();
  require(!qml_features_f64(&in.map, n, x, features.data(), 1), "features");
  require(!qml_energy_rows_f64(&in.map, n, x, in.row.data(), 3, rows.data(), n_features, 1), "energy rows");
  require(!qml_force_rows_f64(&in.map, n, x, n, x, in.owner.data(), in.row.data(), 3, rows.data(), n_features, 1),
          "force rows");
  require(!qml_energy_and_slope_f64(&in.map, n, x, in.weights.data(), energy.data(), slope.data(), 1), "energies");
  require(!qml_feature_moment_f64(&in.map, n, x, energy.data(), x, moment.data(), 1), "moment");
  require(!qml_tangent_products_f64(rank, n, x, in.owner.data(), n, x, products.data(), 1), "products");
  require(!qml_tangent_sums_f64(rank, n, x, in.owner.data(), products.data(), n, sums.data(), 1), "sums");
  require(qml_features_f64(&in.map, -1, x, features.data(), 1) == QML_BAD_ARGUMENT, "refusal");
  require(std::strstr(qml_last_error(), "n_atoms"), "reason");

  Numbers all = features;
  for (const int32_t precision : {32, 64}) {
    qml_predictor *predictor = made(in, precision);
    Prediction found;
    for (int step = 0; step < 3; ++step) require(!found.by(predictor, in), "prediction");
    qml_predictor_destroy(predictor);
    for (const Numbers *part : {&found.total, &found.forces, &found.virial})
      all.insert(all.end(), part->begin(), part->end());
  }
  for (const Numbers *part : {&rows, &energy, &slope, &moment, &products, &sums})
    all.insert(all.end(), part->begin(), part->end());
  return all;
}

// Threads that share one predictor, which is destroyed in the midst of it: their calls end well, the next are refused.
// Half of them have other positions, so that neighbours are listed again and again.
void share(const Inputs &in, size_t n_threads) {
  Inputs moved = in;
  for (double &position : moved.positions) position *= 1.2;
  const Inputs *given[] = {&in, &moved};
  qml_predictor *shared = made(in, 64);
  Prediction wanted[2];
  for (int k : {0, 1}) require(!wanted[k].by(shared, *given[k]), "prediction");
  std::atomic<int> calls(0);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < n_threads; ++k)
    threads.emplace_back([&, k] {
      for (Prediction own; !own.by(shared, *given[k % 2]); ++calls) {
        require(own == wanted[k % 2], "a shared predictor gave other numbers");
        require(qml_predictor_lists_made(shared) != 1, "lists"); // 0 when it is destroyed, otherwise two or more
      }
      require(std::strstr(qml_last_error(), "no such predictor"), "the reason of a destroyed predictor");
    });
  while (calls < 200) std::this_thread::yield();
  qml_predictor_destroy(shared);
  for (std::thread &thread : threads) thread.join();
}

} // namespace

int main() {
  const Inputs inputs;
  std::vector<Numbers> found(4);
  std::vector<std::thread> threads;
  for (Numbers &own : found)
    threads.emplace_back([&] {
      for (int again = 0; again < 10; ++again) own = compute(inputs);
    });
  for (std::thread &thread : threads) thread.join();
  for (const Numbers &own : found) require(own == compute(inputs), "a thread found other numbers than one alone");
  share(inputs, found.size());
  std::printf("%zu threads at once found the numbers of one alone\n", found.size());
}

// Pairs of centres with their neighbours, sorted by the element of the neighbour.
#pragma once

#include "predict/buffer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace qml {

class SortedPairs {
public:
  // search(i, visit) calls visit(neighbours, their squared distances, how many) for all neighbours of centre i, in parts
  // and always in the same order; threads call it for different centres at once. element: of what neighbours number.
  // Searching is most of the work and done once.
  template <class Search>
  void list(int64_t n_centres, int n_elements, const int32_t *element, int threads, Search search);

  double shortest() const { return shortest_; }
  const int64_t *segments() const { return segments_.begin(); } // (centres * n_elements + 1)
  const int32_t *neighbour() const { return neighbour_.begin(); }

private:
  // Fewer centres than this are not worth waking a thread.
  static constexpr int64_t worth_a_thread = 500;

  Buffer<int64_t> segments_;
  Buffer<int32_t> neighbour_;
  double shortest_ = 0;
  std::vector<std::vector<int32_t>> found_; // of each thread, the neighbours of its centres
  Buffer<int64_t> next_place_;              // of each thread, by element
};

template <class Search>
void SortedPairs::list(int64_t n_centres, int n_elements, const int32_t *element, int threads, Search search) {
  int64_t *segments = segments_.room(n_centres * n_elements + 1);
  std::fill(segments, segments + n_centres * n_elements + 1, 0);
  threads = int(std::max<int64_t>(1, std::min<int64_t>(threads, n_centres / worth_a_thread)));
  if (int64_t(found_.size()) < threads) found_.resize(size_t(threads));
  const auto first_of = [&](int part) { return n_centres * part / threads; };
  double least = std::numeric_limits<double>::max();
  bool no_memory = false; // all that can go wrong
#pragma omp parallel for schedule(static, 1) num_threads(threads) reduction(min : least)
  for (int part = 0; part < threads; ++part) {
    try {
      std::vector<int32_t> &found = found_[size_t(part)];
      size_t used = 0;
      for (int64_t i = first_of(part); i < first_of(part + 1); ++i)
        search(i, [&](const int32_t *near, const double *squared, int64_t n_near) {
          if (used + size_t(n_near) > found.size()) found.resize(used + used / 4 + 4096);
          for (int64_t k = 0; k < n_near; ++k) {
            found[used++] = near[k];
            ++segments[i * n_elements + element[near[k]] + 1];
            least = std::min(least, squared[k]);
          }
        });
    } catch (const std::bad_alloc &) {
#pragma omp atomic write
      no_memory = true;
    }
  }
  if (no_memory) throw std::bad_alloc();
  shortest_ = std::sqrt(least);
  for (int64_t k = 0; k < n_centres * n_elements; ++k) segments[k + 1] += segments[k];
  int32_t *neighbour = neighbour_.room(segments[n_centres * n_elements]);
  const int64_t apart = n_elements + 8; // so that threads do not write to one line of the cache
  int64_t *all_places = next_place_.room(threads * apart);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int part = 0; part < threads; ++part) {
    const int32_t *found = found_[size_t(part)].data();
    int64_t *place = all_places + part * apart;
    for (int64_t i = first_of(part); i < first_of(part + 1); ++i) {
      const int64_t *own = segments + i * n_elements, n_found = own[n_elements] - own[0];
      std::copy(own, own + n_elements, place);
      for (int64_t k = 0; k < n_found; ++k, ++found) neighbour[place[element[*found]]++] = *found;
    }
  }
}

} // namespace qml

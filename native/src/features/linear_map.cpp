// Products with the linear map of any kind and rank; the Hadamard transforms are compiled here, once.
#include "features/feature_map.hpp"

namespace qml {
namespace QML_ISA {

QML_HADAMARD_OF_RANKS(template, float)
QML_HADAMARD_OF_RANKS(template, double)

template <class Map>
void forward_typed(const qml_feature_map &map, int64_t block, const typename Map::V *x, typename Map::V *y) {
  Map(map).forward(block, x, y);
}

template <class Map>
void back_typed(const qml_feature_map &map, int64_t block, typename Map::V *gradient, typename Map::V *slope) {
  Map(map).back(block, gradient, slope);
}

template <class real> template <class Map> void LinearMap<real>::take(const Map &typed) {
  rank = typed.rank(), n_frequencies = typed.n_frequencies();
  block_size = typed.block_size(), n_blocks = typed.n_blocks();
  forward_block = forward_typed<Map>;
  back_block = back_typed<Map>;
}

template <class real> LinearMap<real>::LinearMap(const qml_feature_map &given) : map(given) {
  with_linear_map<real>(given, [&](const auto &typed) { take(typed); });
}
template struct LinearMap<float>;
template struct LinearMap<double>;

} // namespace QML_ISA
} // namespace qml

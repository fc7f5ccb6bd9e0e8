// The number of the calling thread in its team.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

namespace qml {
namespace {

// Without OpenMP the pragmas are ignored and there is only one thread.
inline int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

} // namespace
} // namespace qml

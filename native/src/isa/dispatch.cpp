// Choice of the instruction set, the last error, and the memory that a thread keeps between calls.
#include "abi/errors.hpp"
#include "isa/kernels.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace qml {
namespace {

thread_local char last_error[512] = "";

struct Candidate {
  const char *isa;
  const Kernels &(*kernels)();
  bool available;
};

// Best first. __builtin_cpu_supports also asks the operating system whether it keeps the registers.
const std::vector<Candidate> &candidates() {
  static const std::vector<Candidate> all = {
#ifdef QML_HAS_avx512
      {"avx512", avx512::kernels, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("fma")},
#endif
#ifdef QML_HAS_avx2
      {"avx2", avx2::kernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
#endif
#ifdef QML_HAS_baseline
      {"baseline", baseline::kernels, true},
#endif
  };
  return all;
}

const Kernels &named(const char *name) {
  std::string built;
  for (const Candidate &candidate : candidates()) {
    built += std::string(built.empty() ? "" : ", ") + candidate.isa;
    if (std::strcmp(candidate.isa, name) != 0) continue;
    if (!candidate.available) fail(QML_UNSUPPORTED, "this processor has no %s; leave the choice to the library.", name);
    return candidate.kernels();
  }
  fail(QML_UNSUPPORTED, "no instruction set is called \"%.40s\" here; this library was built for %s.", name,
       built.c_str());
}

const Kernels &best() {
  const char *wanted = std::getenv("QML_LIGHTNING_ISA");
  if (wanted && *wanted) return named(wanted);
  for (const Candidate &candidate : candidates())
    if (candidate.available) return candidate.kernels();
  fail(QML_UNSUPPORTED, "this processor has none of the instruction sets that this library was built for.");
}

std::atomic<const Kernels *> chosen{nullptr};

struct Memory {
  void *address = nullptr;
  size_t size = 0;
  ~Memory() { std::free(address); }
};

} // namespace

const Kernels &kernels_in_use() {
  const Kernels *kernels = chosen.load(std::memory_order_acquire);
  if (!kernels) chosen.store(kernels = &best(), std::memory_order_release);
  return *kernels;
}

void *workspace(size_t bytes) {
  thread_local Memory memory;
  if (memory.size < bytes) {
    std::free(memory.address);
    memory.size = 0;
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    memory.address = std::aligned_alloc(64, rounded);
    if (!memory.address) throw std::bad_alloc();
    memory.size = rounded;
  }
  return memory.address;
}

void fail(int32_t code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_error, sizeof(last_error), format, arguments);
  va_end(arguments);
  throw Failure{code};
}

void succeed() { last_error[0] = '\0'; }

int32_t code_of_current_exception() {
  try {
    throw;
  } catch (const Failure &failure) {
    return failure.code;
  } catch (const std::bad_alloc &) {
    std::snprintf(last_error, sizeof(last_error), "no memory left for the working arrays; use fewer atoms per call.");
    return QML_OUT_OF_MEMORY;
  } catch (...) {
    std::snprintf(last_error, sizeof(last_error), "unexpected failure inside the library.");
    return QML_UNSUPPORTED;
  }
}

} // namespace qml

extern "C" {

int32_t qml_abi_version(void) { return QML_ABI_VERSION; }

const char *qml_last_error(void) { return qml::last_error; }

const char *qml_isa(void) {
  const char *isa = "";
  qml::guarded([&] { isa = qml::kernels_in_use().isa; });
  return isa;
}

int32_t qml_use_isa(const char *name) {
  return qml::guarded([&] {
    if (!name) qml::fail(QML_BAD_ARGUMENT, "qml_use_isa: the name is null.");
    qml::chosen.store(&qml::named(name), std::memory_order_release);
  });
}
}

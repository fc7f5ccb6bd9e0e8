// Which instruction set serves, the last error, and the memory a thread keeps between calls.
#include "errors.hpp"
#include "kernels.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace qml {
namespace {

thread_local char last_error[512] = "";

struct Candidate {
  const Kernels *kernels;
  bool available;
};

// Best first. __builtin_cpu_supports also asks the operating system whether it keeps the registers.
const Candidate *candidates(int *count) {
#ifdef QML_X86_64
  static const Candidate all[] = {
      {&avx512::kernels, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("fma")},
      {&avx2::kernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
      {&baseline::kernels, true},
  };
#else
  static const Candidate all[] = {{&baseline::kernels, true}};
#endif
  *count = int(sizeof(all) / sizeof(all[0]));
  return all;
}

const Kernels &named(const char *name) {
  int count;
  const Candidate *all = candidates(&count);
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(all[i].kernels->isa, name) != 0) continue;
    if (!all[i].available) fail(QML_UNSUPPORTED, "this processor has no %s; leave the choice to the library.", name);
    return *all[i].kernels;
  }
  fail(QML_UNSUPPORTED, "no instruction set is called \"%.40s\" here; there are \"baseline\"%s.", name,
       count > 1 ? ", \"avx2\" and \"avx512\"" : "");
}

const Kernels &best() {
  const char *wanted = std::getenv("QML_LIGHTNING_ISA");
  if (wanted && *wanted) return named(wanted);
  int count;
  const Candidate *all = candidates(&count);
  while (!all->available) ++all;
  return *all->kernels;
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

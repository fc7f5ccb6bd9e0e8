// Errors inside the library: thrown with a code and a sentence, caught at the C interface.
#pragma once

#include "isa/kernels.hpp"

namespace qml {

struct Failure {
  int32_t code;
};

// Keeps the sentence for qml_last_error of this thread, then throws.
[[noreturn]] void fail(int32_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Forgets the sentence: the call succeeded.
void succeed();

// Runs f and turns what it throws into an error code; nothing passes the C interface.
int32_t code_of_current_exception();

template <class F> int32_t guarded(F f) noexcept {
  try {
    f();
    succeed();
    return QML_OK;
  } catch (...) {
    return code_of_current_exception();
  }
}

} // namespace qml

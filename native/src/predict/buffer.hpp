// Memory that is kept between calls, so that a step of molecular dynamics does not allocate.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <new>

namespace qml {

template <class T> class Buffer {
public:
  Buffer() = default;
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { free(address); }

  // Room for `count` values, none of them set. What it held is lost when it must grow.
  T *room(int64_t count) {
    if (count > size) {
      free(address);
      size = 0;
      // an eighth more: lists of moving atoms vary in length
      const size_t bytes = (size_t(count) * sizeof(T) / 8 * 9 + 127) / 64 * 64;
      address = static_cast<T *>(aligned_alloc(64, bytes));
      if (!address) throw std::bad_alloc();
      size = int64_t(bytes / sizeof(T));
    }
    return address;
  }
  T *begin() { return address; }
  const T *begin() const { return address; }

private:
  T *address = nullptr;
  int64_t size = 0;
};

} // namespace qml

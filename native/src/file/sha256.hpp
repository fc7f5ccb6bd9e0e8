// SHA-256 (FIPS 180-4), for the checksum of model files.
#pragma once

#include <array>
#include <stddef.h>
#include <stdint.h>

namespace qml {

std::array<uint8_t, 32> sha256(const uint8_t *bytes, size_t count);

} // namespace qml

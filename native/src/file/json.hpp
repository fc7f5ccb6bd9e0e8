// JSON as a tree of values. Texts come from files that anybody may have written: depth and number of values are bounded.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string>
#include <utility>
#include <vector>

namespace qml {

struct Json {
  enum Kind { null, boolean, number, text, list, object };

  Kind kind = null;
  bool is_whole = false; // a number written without a point or an exponent, that fits into 64 bits
  int64_t whole = 0;     // such a number; 0 or 1 of a boolean
  double real = 0;       // a number
  std::string words;     // a text, in UTF-8
  std::vector<Json> items;                             // of a list
  std::vector<std::pair<std::string, Json>> members;   // of an object

  // The member of that name, the last one where there are several; null where there is none.
  const Json *find(const char *name) const;
};

// Fails with QML_BAD_FILE, in words that begin with `what`, unless the text is one JSON value. NaN and Infinity count as
// numbers, as in Python.
Json parse_json(const std::string &what, const char *text, size_t count);

} // namespace qml

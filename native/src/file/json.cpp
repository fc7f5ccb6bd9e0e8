// A parser that goes down the grammar of RFC 8259.
#include "file/json.hpp"

#include "abi/errors.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <locale.h>

namespace qml {
namespace {

constexpr int deepest = 32;
constexpr int64_t most_values = 1 << 20;
constexpr size_t longest_number = 400;

// Always with a point: a program that uses the library may have set the locale of a country with a comma.
double to_double(const std::string &digits) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t(0));
  return plain ? strtod_l(digits.c_str(), nullptr, plain) : std::strtod(digits.c_str(), nullptr);
}

class Parser {
public:
  Parser(const std::string &what, const char *text, size_t count) : what(what), text(text), count(count) {}

  Json whole() {
    Json out = value(0);
    space();
    if (at < count) bad("text after its end");
    return out;
  }

private:
  const std::string &what;
  const char *text;
  const size_t count;
  size_t at = 0;
  int64_t values = 0;

  [[noreturn]] void bad(const char *why) const {
    fail(QML_BAD_FILE, "%s is not sound JSON: %s at byte %lld.", what.c_str(), why, (long long)at);
  }
  // '\0' at the end; a zero byte in the text is refused by all that look for something else
  char peek() const { return at < count ? text[at] : '\0'; }
  void space() {
    while (at < count && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
  }
  bool taken(const char *word) {
    const size_t length = std::strlen(word);
    if (count - at < length || std::memcmp(text + at, word, length) != 0) return false;
    at += length;
    return true;
  }
  bool taken_sign(char sign) {
    space();
    if (peek() != sign || at >= count) return false;
    ++at;
    return true;
  }

  Json value(int depth) {
    if (depth > deepest) bad("values inside values, too deep");
    if (++values > most_values) bad("too many values");
    space();
    Json out;
    if (at >= count) bad("no value");
    if (text[at] == '{') return object(depth);
    if (text[at] == '[') return list(depth);
    if (text[at] == '"') {
      out.kind = Json::text;
      out.words = string();
    } else if (taken("null")) {
      out.kind = Json::null;
    } else if (taken("true")) {
      out.kind = Json::boolean, out.whole = 1;
    } else if (taken("false")) {
      out.kind = Json::boolean;
    } else if (taken("NaN")) {
      out.kind = Json::number, out.real = std::numeric_limits<double>::quiet_NaN();
    } else if (taken("Infinity")) {
      out.kind = Json::number, out.real = std::numeric_limits<double>::infinity();
    } else if (taken("-Infinity")) {
      out.kind = Json::number, out.real = -std::numeric_limits<double>::infinity();
    } else {
      return number();
    }
    return out;
  }

  Json object(int depth) {
    Json out;
    out.kind = Json::object;
    ++at;
    if (taken_sign('}')) return out;
    do {
      space();
      if (peek() != '"') bad("no name");
      std::string name = string();
      if (!taken_sign(':')) bad("no colon");
      out.members.emplace_back(std::move(name), value(depth + 1));
    } while (taken_sign(','));
    if (!taken_sign('}')) bad("an object without end");
    return out;
  }

  Json list(int depth) {
    Json out;
    out.kind = Json::list;
    ++at;
    if (taken_sign(']')) return out;
    do out.items.push_back(value(depth + 1));
    while (taken_sign(','));
    if (!taken_sign(']')) bad("a list without end");
    return out;
  }

  void digits() {
    if (peek() < '0' || peek() > '9') bad("no value");
    while (peek() >= '0' && peek() <= '9') ++at;
  }
  Json number() {
    const size_t begin = at;
    if (peek() == '-') ++at;
    const size_t first = at;
    digits();
    if (text[first] == '0' && at > first + 1) bad("a number that begins with 0");
    bool is_whole = true;
    if (peek() == '.') ++at, is_whole = false, digits();
    if (peek() == 'e' || peek() == 'E') {
      ++at, is_whole = false;
      if (peek() == '+' || peek() == '-') ++at;
      digits();
    }
    if (at - begin > longest_number) bad("a number of too many digits");
    const std::string written(text + begin, at - begin);
    Json out;
    out.kind = Json::number;
    out.real = to_double(written);
    out.is_whole = is_whole && written.size() <= 18;
    if (out.is_whole) out.whole = std::strtoll(written.c_str(), nullptr, 10);
    return out;
  }

  uint32_t four_digits() {
    uint32_t out = 0;
    for (int k = 0; k < 4; ++k, ++at) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) bad("an escape that is none");
      out = 16 * out + uint32_t(digit);
    }
    return out;
  }
  void escape(std::string &out) {
    ++at;
    const char c = peek();
    if (c == 'u') {
      ++at;
      uint32_t code = four_digits();
      if (code >= 0xd800 && code < 0xdc00) {
        if (!taken("\\u")) bad("half of a character");
        const uint32_t low = four_digits();
        if (low < 0xdc00 || low >= 0xe000) bad("half of a character");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      } else if (code >= 0xdc00 && code < 0xe000) {
        bad("half of a character");
      }
      return append(out, code);
    }
    static const char letters[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    const char *known = c ? std::strchr(letters, c) : nullptr;
    if (!known) bad("an escape that is none");
    out += characters[known - letters];
    ++at;
  }
  static void append(std::string &out, uint32_t code) {
    if (code < 0x80) {
      out += char(code);
    } else if (code < 0x800) {
      out += char(0xc0 | code >> 6), out += char(0x80 | (code & 63));
    } else if (code < 0x10000) {
      out += char(0xe0 | code >> 12), out += char(0x80 | (code >> 6 & 63)), out += char(0x80 | (code & 63));
    } else {
      out += char(0xf0 | code >> 18), out += char(0x80 | (code >> 12 & 63));
      out += char(0x80 | (code >> 6 & 63)), out += char(0x80 | (code & 63));
    }
  }

  // Bytes of the UTF-8 character that begins here; fails where it is none.
  size_t character() const {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    const size_t length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (length == 0 || count - at < length) bad("a byte that is not UTF-8");
    for (size_t k = 1; k < length; ++k) {
      const unsigned char next = static_cast<unsigned char>(text[at + k]);
      const unsigned char least = k == 1 && c == 0xe0 ? 0xa0 : k == 1 && c == 0xf0 ? 0x90 : 0x80;
      const unsigned char most = k == 1 && c == 0xed ? 0x9f : k == 1 && c == 0xf4 ? 0x8f : 0xbf;
      if (next < least || next > most) bad("a byte that is not UTF-8");
    }
    return length;
  }
  std::string string() {
    std::string out;
    ++at;
    while (at < count && text[at] != '"') {
      if (text[at] == '\\') {
        escape(out);
        continue;
      }
      if (static_cast<unsigned char>(text[at]) < 0x20) bad("a control character in a text");
      const size_t length = character();
      out.append(text + at, length);
      at += length;
    }
    if (at >= count) bad("a text without end");
    ++at;
    return out;
  }
};

} // namespace

const Json *Json::find(const char *name) const {
  for (auto member = members.rbegin(); member != members.rend(); ++member)
    if (member->first == name) return &member->second;
  return nullptr;
}

Json parse_json(const std::string &what, const char *text, size_t count) { return Parser(what, text, count).whole(); }

} // namespace qml

// Every size and offset of a file is checked before it is used: anybody may have written it.
#include "file/tensors.hpp"

#include "abi/checks.hpp"
#include "file/sha256.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdio.h>

namespace qml {
namespace {

constexpr size_t longest_header = 64 << 20;
constexpr size_t block = 4 << 20; // bytes of each part of the checksum
// Where the digits of the checksum stand, after the length of the header.
const char opening[] = "{\"__metadata__\": {\"sha256\": \"";
constexpr size_t digits = 64;

size_t width_of(const std::string &type) {
  return type == "F64" || type == "I64" ? 8 : type == "F32" ? 4 : type == "I8" ? 1 : 0;
}

// A whole number that is not negative, or -1.
int64_t whole(const Json &value) { return value.kind == Json::number && value.is_whole ? value.whole : -1; }

template <class from> void widen(const char *bytes, std::vector<double> &out) {
  for (size_t i = 0; i < out.size(); ++i) {
    from value;
    std::memcpy(&value, bytes + i * sizeof(from), sizeof(from));
    out[i] = double(value);
  }
}

std::string dimensions(const std::vector<int64_t> &shape) {
  std::string out;
  for (size_t k = 0; k < shape.size() && k < 8; ++k) out += (k ? ", " : "") + std::to_string(shape[k]);
  return "(" + out + ")";
}

} // namespace

TensorFile::TensorFile(const char *path, const char *format, int64_t newest_version) : path_(path) {
  read();
  const Json header = read_header();
  list_tensors(header);
  read_metadata(header, format, newest_version);
}

void TensorFile::incomplete(const std::string &why) const {
  fail(QML_BAD_FILE, "%.300s is not a complete safetensors file (%.120s). Was it truncated?", path_.c_str(), why.c_str());
}

void TensorFile::altered(const std::string &why) const {
  fail(QML_BAD_FILE, "%.250s is a qml-lightning model file with a part missing or altered (%.150s).", path_.c_str(),
       why.c_str());
}

// Read, not mapped: a file that shrinks meanwhile would end the process.
void TensorFile::read() {
  const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path_.c_str(), "rb"), fclose);
  if (!file)
    fail(QML_BAD_ARGUMENT, "The model file %.300s cannot be opened: %.100s.", path_.c_str(), std::strerror(errno));
  char part[1 << 16];
  size_t count;
  while ((count = fread(part, 1, sizeof(part), file.get())) > 0) {
    bytes_.append(part, count);
    if (bytes_.size() > size_t(1) << 40) incomplete("it has no end");
  }
  if (ferror(file.get()))
    fail(QML_BAD_ARGUMENT, "The model file %.300s cannot be read: %.100s.", path_.c_str(), std::strerror(errno));
}

Json TensorFile::read_header() {
  if (bytes_.size() < 8) incomplete("it has " + std::to_string(bytes_.size()) + " bytes");
  uint64_t length = 0;
  for (size_t k = 0; k < 8; ++k) length |= uint64_t(static_cast<unsigned char>(bytes_[k])) << (8 * k);
  if (length > longest_header || length > bytes_.size() - 8)
    incomplete("a header of " + std::to_string(length) + " bytes");
  data_ = 8 + size_t(length);
  Json header = parse_json("The header of " + path_.substr(0, 200), bytes_.data() + 8, size_t(length));
  if (header.kind != Json::object) incomplete("its header is not an object");
  return header;
}

// Tensors lie end to end and fill the file, as the format demands.
void TensorFile::list_tensors(const Json &header) {
  const size_t size = bytes_.size() - data_;
  for (const auto &[name, value] : header.members) {
    if (name == "__metadata__") continue;
    const Json *type = value.find("dtype"), *shape = value.find("shape"), *offsets = value.find("data_offsets");
    if (!type || type->kind != Json::text || !shape || shape->kind != Json::list || !offsets ||
        offsets->kind != Json::list || offsets->items.size() != 2)
      incomplete("a tensor without type, shape or place");
    const int64_t begin = whole(offsets->items[0]), end = whole(offsets->items[1]);
    if (begin < 0 || end < begin || uint64_t(end) > size) incomplete("a tensor beyond its end");
    Entry entry = {name, type->words, {}, size_t(begin), size_t(end)};
    const int64_t width = int64_t(width_of(entry.type));
    int64_t count = 1;
    for (const Json &item : shape->items) {
      const int64_t dimension = whole(item);
      if (dimension < 0) incomplete("a tensor of no shape");
      if (dimension > 0 && count > int64_t(size) / dimension) incomplete("a tensor larger than the file");
      count *= dimension;
      entry.shape.push_back(dimension);
    }
    if (width && (count > int64_t(size) / width || count * width != end - begin))
      incomplete("a tensor whose shape is not that of its bytes");
    entries_.push_back(std::move(entry));
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry &a, const Entry &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  size_t end = 0;
  for (const Entry &entry : entries_) {
    if (entry.begin != end) incomplete("tensors that do not lie end to end");
    end = entry.end;
  }
  if (end != size) incomplete("bytes that belong to no tensor");
}

void TensorFile::read_metadata(const Json &header, const char *format, int64_t newest_version) {
  const Json *metadata = header.find("__metadata__"), *document = metadata ? metadata->find(format) : nullptr;
  if (!document || document->kind != Json::text)
    fail(QML_BAD_FILE, "%.300s is a safetensors file, but not a %s model file.", path_.c_str(), format);
  header_ = parse_json("Our header in " + path_.substr(0, 200), document->words.data(), document->words.size());
  if (header_.kind != Json::object) altered("the header");
  const Json *version = header_.find("format_version"), *sum = metadata->find("sha256");
  const int64_t found = version ? whole(*version) : 0;
  if (found < 0) altered("format_version");
  if (found > newest_version)
    fail(QML_BAD_FILE, "%.250s has format version %lld; this library reads up to %lld. Update it: pip install -U "
         "qml-lightning.", path_.c_str(), (long long)found, (long long)newest_version);
  if ((sum || header_.find("checksum")) && !(sum && sum->kind == Json::text && sum->words == checksum()))
    fail(QML_BAD_FILE, "%.250s is damaged: its content does not have the checksum that was written with it. Restore it "
         "from a copy, or make it again.", path_.c_str());
}

// SHA-256 of the SHA-256 of blocks, in which the digits of the checksum count as zeros.
std::string TensorFile::checksum() {
  const size_t at = 8 + std::strlen(opening);
  if (bytes_.size() < at + digits) return "";
  const std::string kept = bytes_.substr(at, digits);
  bytes_.replace(at, digits, digits, '0');
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(bytes_.data());
  const int64_t n_blocks = int64_t((bytes_.size() + block - 1) / block);
  std::vector<uint8_t> parts(size_t(n_blocks) * 32);
#pragma omp parallel for schedule(dynamic) if (n_blocks > 1)
  for (int64_t k = 0; k < n_blocks; ++k) {
    const size_t begin = size_t(k) * block;
    const auto digest = sha256(bytes + begin, std::min(block, bytes_.size() - begin));
    std::copy(digest.begin(), digest.end(), parts.begin() + 32 * k);
  }
  bytes_.replace(at, digits, kept);
  std::string out;
  for (const uint8_t byte : sha256(parts.data(), parts.size()))
    out += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return out;
}

const TensorFile::Entry *TensorFile::entry(const std::string &name) const {
  for (const Entry &entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::vector<int64_t> TensorFile::shape(const std::string &name) const {
  const Entry *found = entry(name);
  return found ? found->shape : std::vector<int64_t>();
}

std::vector<double> TensorFile::doubles(const std::string &name, std::initializer_list<int64_t> shape) const {
  const Entry *found = entry(name);
  if (!found) altered(name);
  if (found->shape != std::vector<int64_t>(shape))
    altered(name + " of shape " + dimensions(shape) + ", found " + dimensions(found->shape));
  const size_t width = width_of(found->type);
  if (width == 0) altered(name + " of type " + found->type.substr(0, 20));
  std::vector<double> out((found->end - found->begin) / width);
  const char *bytes = bytes_.data() + data_ + found->begin;
  if (found->type == "F64") widen<double>(bytes, out);
  else if (found->type == "F32") widen<float>(bytes, out);
  else if (found->type == "I64") widen<int64_t>(bytes, out);
  else widen<int8_t>(bytes, out);
  for (const double value : out)
    if (!std::isfinite(value)) altered(name + " without NaN and infinity");
  return out;
}

} // namespace qml

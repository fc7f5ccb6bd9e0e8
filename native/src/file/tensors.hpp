// A safetensors file with one JSON header of ours and a checksum (docs/conventions.md), read whole into memory.
#pragma once

#include "file/json.hpp"

#include <initializer_list>

namespace qml {

class TensorFile {
public:
  // Fails in words where the file is missing, cut, altered, or not of this `format`.
  TensorFile(const char *path, const char *format, int64_t newest_version);

  const std::string &path() const { return path_; }
  const Json &header() const { return header_; }
  bool has(const std::string &name) const { return entry(name) != nullptr; }
  // The numbers of a tensor of that shape, all of them finite. Fails where there is none.
  std::vector<double> doubles(const std::string &name, std::initializer_list<int64_t> shape) const;
  // The dimensions of a tensor; empty where there is none.
  std::vector<int64_t> shape(const std::string &name) const;

  // Fails with the words "... with a part missing or altered (why)".
  [[noreturn]] void altered(const std::string &why) const;

private:
  struct Entry {
    std::string name, type;
    std::vector<int64_t> shape;
    size_t begin, end; // in the bytes after the header
  };

  std::string path_, bytes_;
  size_t data_ = 0; // where the bytes after the header begin
  std::vector<Entry> entries_;
  Json header_;

  [[noreturn]] void incomplete(const std::string &why) const;
  void read();
  Json read_header();
  void list_tensors(const Json &header);
  void read_metadata(const Json &header, const char *format, int64_t newest_version);
  std::string checksum();
  const Entry *entry(const std::string &name) const;
};

} // namespace qml

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

/// A regular file open for reading; a folder, pipe or device is refused, never waited for. All that
/// goes wrong is thrown as Error with the file's name and the reason.
class GRAPHTUNE_API InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }  ///< when it was opened
  /// At most `size` bytes; 0 at the end of the file.
  [[nodiscard]] std::size_t read_some(void* data, std::size_t size);
  /// Exactly `size` bytes: a shorter file is an error.
  void read(void* data, std::size_t size);

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// A file that appears under its name only when it is complete: written beside it, then renamed. A
/// link to a file stays one. What exists and is no regular file (/dev/null, a pipe, a folder) is
/// refused: a file would take its place. Errors as InputFile's.
class GRAPHTUNE_API OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();  ///< removes what was not committed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path unfinished_;
  int descriptor_;
};

/// The whole file, if it has at most `max_size` bytes.
[[nodiscard]] GRAPHTUNE_API std::string read_file(const std::filesystem::path& path,
                                                  std::uint64_t max_size);

}  // namespace graphtune

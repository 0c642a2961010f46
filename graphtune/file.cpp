#include "graphtune/file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

// Linux transfers no more at once.
constexpr std::size_t kMaxTransfer = 0x7ffff000;

[[noreturn]] void throw_file_error(const std::filesystem::path& path, const char* what) {
  throw Error(
      fmt::format("{} {}: {}", path.string(), what, std::generic_category().message(errno)));
}

std::filesystem::path unfinished_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> count{0};
  std::filesystem::path name = path;
  name += fmt::format(".{}-{}.unfinished", ::getpid(), count++);
  return name;
}

}  // namespace

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    fail("can't be opened");
  }
  struct ::stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const int reason = known ? (S_ISDIR(status.st_mode) ? EISDIR : EINVAL) : errno;
    ::close(descriptor_);
    errno = reason;
    fail("is no file that can be read");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

std::size_t InputFile::read_some(void* data, std::size_t size) {
  for (;;) {
    const ::ssize_t count = ::read(descriptor_, data, std::min(size, kMaxTransfer));
    if (count >= 0) {
      return static_cast<std::size_t>(count);
    }
    if (errno != EINTR) {
      fail("can't be read");
    }
  }
}

void InputFile::read(void* data, std::size_t size) {
  auto* target = static_cast<std::byte*>(data);
  while (size > 0) {
    const std::size_t count = read_some(target, size);
    if (count == 0) {
      throw Error(fmt::format("{} ends {} bytes too early", path_.string(), size));
    }
    target += count;
    size -= count;
  }
}

void InputFile::fail(const char* what) const { throw_file_error(path_, what); }

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)),
      unfinished_(unfinished_name(path_)),
      descriptor_(::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) {
    fail("can't be written");
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(unfinished_.c_str());
  }
}

void OutputFile::write(const void* data, std::size_t size) {
  const auto* source = static_cast<const std::byte*>(data);
  while (size > 0) {
    const ::ssize_t count = ::write(descriptor_, source, std::min(size, kMaxTransfer));
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail("can't be written");
    }
    source += count;
    size -= static_cast<std::size_t>(count);
  }
}

void OutputFile::commit() {
  // What close() reports (a full disk on a network file system) is the last chance to hear of it.
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!closed || std::rename(unfinished_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(unfinished_.c_str());
    errno = reason;
    fail("can't be written");
  }
}

void OutputFile::fail(const char* what) const { throw_file_error(path_, what); }

std::string read_file(const std::filesystem::path& path, std::uint64_t max_size) {
  InputFile file(path);
  if (file.size() > max_size) {
    throw Error(fmt::format("{} has {} bytes, more than the {} allowed", path.string(), file.size(),
                            max_size));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), text.size());
  return text;
}

}  // namespace graphtune

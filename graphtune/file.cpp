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

const char* kind_of(::mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

[[noreturn]] void refuse_kind(const std::filesystem::path& path, ::mode_t mode) {
  throw Error(fmt::format("{} is {}, not a regular file: give the path of a file", path.string(),
                          kind_of(mode)));
}

/// Where a file of this name really lies: a link to a file stays one. Refuses what a file must not
/// take the place of.
std::filesystem::path writable_path(std::filesystem::path path) {
  if (path.empty()) {
    throw Error("the path of the file to write is empty");
  }
  struct ::stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return path;  // new; why it can't be made is said when it is tried
  }
  if (!S_ISREG(status.st_mode)) {
    refuse_kind(path, status.st_mode);
  }
  std::error_code error;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target;
}

std::filesystem::path unfinished_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> count{0};
  std::filesystem::path name = path;
  name += fmt::format(".{}-{}.unfinished", ::getpid(), count++);
  return name;
}

}  // namespace

InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)),
      // Without O_NONBLOCK a pipe would be waited for.
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (descriptor_ < 0) {
    fail("can't be opened");
  }
  struct ::stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    const int reason = errno;
    ::close(descriptor_);
    errno = reason;
    fail("can't be read");
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    refuse_kind(path_, status.st_mode);
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
    : path_(writable_path(std::move(path))),
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

#include "palmist/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "palmist/base/text.h"

namespace palmist {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
constexpr mode_t kNewFileMode = 0666;  // Less the umask.
constexpr mode_t kModeBits = 07777;

/// An open file, closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  /// Returns false where the last write only now turns out to have failed.
  bool Close() {
    const bool ok = fd_ < 0 || ::close(fd_) == 0;
    fd_ = -1;
    return ok;
  }

 private:
  int fd_;
};

std::string Reason(int code) {
  switch (code) {
    case ENOENT:
      return "no such file or folder";
    case EACCES:
    case EPERM:
      return "permission denied";
    case EISDIR:
      return "it is a folder";
    case ENOTDIR:
      return "a part of the path is not a folder";
    case EROFS:
      return "the file system is read-only";
    case ENOSPC:
      return "no space is left on the disk";
    case EDQUOT:
      return "the disk quota is used up";
    case EFBIG:
      return "the file would be larger than allowed";
    case ENAMETOOLONG:
      return "the name is too long";
    case EMFILE:
    case ENFILE:
      return "too many files are open";
    default:
      return std::generic_category().message(code);
  }
}

Error ReadError(const std::string& path, int code) {
  return InputError({}, "cannot read " + Quote(path, 4096) + ": " + Reason(code));
}

Error WriteError(const std::string& path, int code) {
  const bool failed_while_writing = code == ENOSPC || code == EDQUOT || code == EIO ||
                                    code == EFBIG || code == EMFILE || code == ENFILE;
  return Error(failed_while_writing ? ErrorKind::kRuntime : ErrorKind::kInput,
               "cannot write " + Quote(path, 4096) + ": " + Reason(code));
}

Error TooLarge(const std::string& path, std::int64_t max_bytes) {
  return InputError({},
                    "cannot read " + Quote(path, 4096) + ": expected at most " +
                        FormatBytes(static_cast<double>(max_bytes)) + ", it is larger");
}

/// Writes all of `content`; returns 0 or the errno.
int WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Writes to a pipe or device, where there is nothing to replace.
Result<void> WriteDirectly(const std::string& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) return WriteError(path, errno);
  if (const int code = WriteAll(file.get(), content)) return WriteError(path, code);
  if (!file.Close()) return WriteError(path, errno);
  return {};
}

/// Makes the rename durable; a file system that cannot do so is no failure.
void SyncFolder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.is_open()) ::fsync(descriptor.get());
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, std::int64_t max_bytes) {
  // Without O_NONBLOCK, opening a pipe that has no writer would wait for ever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return ReadError(path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return ReadError(path, errno);
  if (S_ISDIR(info.st_mode)) return ReadError(path, EISDIR);
  if (S_ISREG(info.st_mode) && info.st_size > max_bytes) return TooLarge(path, max_bytes);
  if (::fcntl(file.get(), F_SETFL, O_RDONLY) != 0) return ReadError(path, errno);

  std::string content;
  if (S_ISREG(info.st_mode)) content.reserve(static_cast<std::size_t>(info.st_size));
  const auto limit = static_cast<std::size_t>(max_bytes);
  while (true) {
    const std::size_t size = content.size();
    // One byte beyond the limit is asked for, to tell a file that just fits from one that does not.
    content.resize(size + std::min(kChunkBytes, limit + 1 - size));
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    content.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadError(path, errno);
    if (got == 0) return content;
    if (content.size() > limit) return TooLarge(path, max_bytes);
  }
}

namespace {

/// A new file beside the one it will replace.
struct Temporary {
  std::string target;  ///< `path` with links followed
  std::string name;
  int descriptor = -1;
  mode_t mode = 0;  ///< of the file that was there; 0 where there was none
};

/// Opens a temporary file in the folder of `path`, which is no folder and no device.
Result<Temporary> OpenTemporary(const std::string& path) {
  std::string target = path;
  mode_t mode = 0;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    // The rename would not ask the file itself, only its folder.
    if (::access(path.c_str(), W_OK) != 0) return WriteError(path, errno);
    std::error_code failure;
    target = std::filesystem::canonical(path, failure).string();
    if (failure) return WriteError(path, failure.value());
    mode = info.st_mode & kModeBits;
  }
  static std::atomic<int> counter = 0;
  std::string name =
      target + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(++counter);
  const int descriptor =
      ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
  if (descriptor < 0) return WriteError(path, errno);
  return Temporary{std::move(target), std::move(name), descriptor, mode};
}

/// What `path` is, as far as writing cares.
enum class Place { kFolder, kFile, kOther };

Place PlaceOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return Place::kFile;
  return S_ISDIR(info.st_mode) ? Place::kFolder : Place::kOther;
}

}  // namespace

Result<void> CheckWritable(const std::string& path) {
  const Place place = PlaceOf(path);
  if (place == Place::kFolder) return WriteError(path, EISDIR);
  if (place == Place::kOther) return {};
  PALMIST_ASSIGN_OR_RETURN(const Temporary temporary, OpenTemporary(path));
  const Descriptor file(temporary.descriptor);
  ::unlink(temporary.name.c_str());
  return {};
}

Result<void> WriteFileAtomic(const std::string& path, std::string_view content) {
  const Place place = PlaceOf(path);
  if (place == Place::kFolder) return WriteError(path, EISDIR);
  if (place == Place::kOther) return WriteDirectly(path, content);
  PALMIST_ASSIGN_OR_RETURN(const Temporary temporary, OpenTemporary(path));
  Descriptor file(temporary.descriptor);
  int code = 0;
  if (temporary.mode != 0 && ::fchmod(file.get(), temporary.mode) != 0) code = errno;
  if (code == 0) code = WriteAll(file.get(), content);
  if (code == 0 && ::fsync(file.get()) != 0) code = errno;
  if (!file.Close() && code == 0) code = errno;
  if (code == 0 && std::rename(temporary.name.c_str(), temporary.target.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(temporary.name.c_str());
    return WriteError(path, code);
  }
  SyncFolder(temporary.target);
  return {};
}

}  // namespace palmist

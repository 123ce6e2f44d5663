/// Reads and writes whole files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "palmist/base/result.h"
#include "palmist/base/units.h"

namespace palmist {

inline constexpr std::int64_t kDefaultMaxFileBytes = 64 * kMiB;

/// Returns the bytes of the file at `path`, or an input error that names the path and says whether
/// it is missing, forbidden, a folder or larger than `max_bytes`.
///
/// Pipes and devices are read too, up to the limit; the size that a file claims is never trusted.
Result<std::string> ReadFile(const std::string& path,
                             std::int64_t max_bytes = kDefaultMaxFileBytes);

/// Writes `content` to `path` so that a reader sees the old file or the new one, never a part: to a
/// temporary name in the same folder, then renamed. On failure the temporary is removed.
///
/// Keeps the mode of a file that was there, and follows a link. What is no regular file, such as
/// /dev/stdout, is written directly.
/// @returns an error naming the path: kInput for a path that cannot be written, kRuntime for a
/// failure while writing, such as a full disk.
Result<void> WriteFileAtomic(const std::string& path, std::string_view content);

/// Returns whether `WriteFileAtomic` can begin to write `path`, so that long work is not done for
/// nothing; the error is what that would return. Leaves nothing behind.
Result<void> CheckWritable(const std::string& path);

}  // namespace palmist

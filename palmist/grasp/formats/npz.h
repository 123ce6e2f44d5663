/// NumPy's .npz: a ZIP archive of .npy arrays, stored or deflated.
///
/// Source: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", 6.3.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "palmist/base/npy.h"
#include "palmist/base/result.h"
#include "palmist/base/units.h"

namespace palmist::grasp {

/// Arrays by name, without the ending ".npy".
using NpzArrays = std::map<std::string, NpyArray>;

inline constexpr std::int64_t kDefaultMaxNpzBytes = 2 * kGiB;

/// Returns the arrays of an archive, or an input error that names the member: damaged (CRC-32),
/// encrypted, compressed otherwise, or not an .npy array. Arrays together hold at most `max_bytes`;
/// no member is inflated beyond what its .npy header says that it holds.
Result<NpzArrays> ParseNpz(std::string_view bytes, std::int64_t max_bytes = kDefaultMaxNpzBytes);
Result<NpzArrays> ReadNpz(const std::string& path, std::int64_t max_bytes = kDefaultMaxNpzBytes);

/// Writes the arrays deflated, in the order of their names, the same bytes each time; an input
/// error where an array or the archive is beyond 4 GiB, which would need ZIP64.
Result<void> WriteNpz(const std::string& path, const NpzArrays& arrays);

}  // namespace palmist::grasp

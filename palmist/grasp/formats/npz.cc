#include "palmist/grasp/formats/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "palmist/base/text.h"
#include "palmist/grasp/formats/inflate.h"
#include "palmist/grasp/formats/parse_file.h"

namespace palmist::grasp {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kDirectoryEnd = 0x06054b50;
constexpr std::uint32_t kZip64DirectoryEnd = 0x06064b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::size_t kLocalHeaderBytes = 30;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kZip64LocatorBytes = 20;
constexpr std::size_t kZip64EndBytes = 56;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint16_t kEncryptedFlag = 1;
constexpr std::uint32_t kInZip64 = 0xffffffff;  // "See the ZIP64 field".
constexpr std::string_view kNpyEnding = ".npy";

Error Bad(const std::string& message) { return InputError({}, "bad .npz file: " + message); }

struct Member {
  std::string name;
  std::uint16_t method = kStored;
  std::uint32_t crc = 0;
  std::uint64_t packed_bytes = 0, plain_bytes = 0;
  std::uint64_t header_offset = 0;
};

/// Returns the `size` bytes at `offset`, or nothing where the file has not that many.
std::string_view Slice(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return {};
  return bytes.substr(offset, size);
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, members = 0;
};

Result<Directory> FindDirectory(std::string_view bytes) {
  constexpr std::size_t kMaxCommentBytes = 0xffff;
  if (bytes.size() < kEndBytes) return Bad("it is too short to be a ZIP archive");
  const std::size_t last = bytes.size() - kEndBytes;
  std::size_t end = last;
  while (LoadAs<std::uint32_t>(bytes.data() + end) != kDirectoryEnd) {
    if (end == 0 || last - end == kMaxCommentBytes) {
      return Bad("it has no ZIP directory at its end; is it cut off?");
    }
    --end;
  }
  const char* record = bytes.data() + end;
  Directory directory{LoadAs<std::uint32_t>(record + 16),
                      LoadAs<std::uint32_t>(record + 12),
                      LoadAs<std::uint16_t>(record + 10)};
  if (end < kZip64LocatorBytes) return directory;
  const char* locator = record - kZip64LocatorBytes;
  if (LoadAs<std::uint32_t>(locator) != kZip64Locator) return directory;
  const std::string_view zip64 = Slice(bytes, LoadAs<std::uint64_t>(locator + 8), kZip64EndBytes);
  if (zip64.empty() || LoadAs<std::uint32_t>(zip64.data()) != kZip64DirectoryEnd) {
    return Bad("its ZIP64 directory is missing");
  }
  return Directory{LoadAs<std::uint64_t>(zip64.data() + 48),
                   LoadAs<std::uint64_t>(zip64.data() + 40),
                   LoadAs<std::uint64_t>(zip64.data() + 32)};
}

/// Replaces sizes and offset by those of the extra field 1, which has only the ones that are
/// needed.
void ApplyZip64(std::string_view extra, Member& member) {
  while (extra.size() >= 4) {
    const auto id = LoadAs<std::uint16_t>(extra.data());
    const auto size = LoadAs<std::uint16_t>(extra.data() + 2);
    std::string_view field = extra.substr(4, size);
    extra.remove_prefix(std::min<std::size_t>(4U + size, extra.size()));
    if (id != kZip64Extra) continue;
    for (std::uint64_t* value :
         {&member.plain_bytes, &member.packed_bytes, &member.header_offset}) {
      if (*value != kInZip64 || field.size() < 8) continue;
      *value = LoadAs<std::uint64_t>(field.data());
      field.remove_prefix(8);
    }
  }
}

Result<std::vector<Member>> ListMembers(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(bytes));
  std::string_view rest = Slice(bytes, directory.offset, directory.bytes);
  if (rest.size() / kEntryBytes < directory.members) {
    return Bad(fmt::format(
        "its directory of {} bytes cannot hold {} members", rest.size(), directory.members));
  }
  std::vector<Member> members(directory.members);
  for (Member& member : members) {
    if (rest.size() < kEntryBytes || LoadAs<std::uint32_t>(rest.data()) != kDirectoryEntry) {
      return Bad("its directory is damaged");
    }
    const auto flags = LoadAs<std::uint16_t>(rest.data() + 8);
    member.method = LoadAs<std::uint16_t>(rest.data() + 10);
    member.crc = LoadAs<std::uint32_t>(rest.data() + 16);
    member.packed_bytes = LoadAs<std::uint32_t>(rest.data() + 20);
    member.plain_bytes = LoadAs<std::uint32_t>(rest.data() + 24);
    const std::size_t name_bytes = LoadAs<std::uint16_t>(rest.data() + 28);
    const std::size_t extra_bytes = LoadAs<std::uint16_t>(rest.data() + 30);
    const std::size_t comment_bytes = LoadAs<std::uint16_t>(rest.data() + 32);
    member.header_offset = LoadAs<std::uint32_t>(rest.data() + 42);
    rest.remove_prefix(kEntryBytes);
    if (rest.size() < name_bytes + extra_bytes + comment_bytes) {
      return Bad("its directory is cut off");
    }
    member.name = rest.substr(0, name_bytes);
    ApplyZip64(rest.substr(name_bytes, extra_bytes), member);
    rest.remove_prefix(name_bytes + extra_bytes + comment_bytes);
    if ((flags & kEncryptedFlag) != 0) return InputError(Printable(member.name), "is encrypted");
  }
  return members;
}

/// Checks that the plain size of a deflated member is what its .npy header says.
Result<void> CheckPlainSize(std::string_view packed, std::uint64_t plain_bytes) {
  // Enough for the longest header that ParseNpy takes.
  constexpr std::uint64_t kStartBytes = 12 + 64 * 1024;
  const std::string start =
      InflateStart(packed, Wrapping::kNone, std::min(kStartBytes, plain_bytes));
  PALMIST_ASSIGN_OR_RETURN(const std::uint64_t npy_bytes, NpyFileBytes(start));
  if (npy_bytes == plain_bytes) return {};
  return Bad(fmt::format(
      "its .npy header makes {} bytes, the ZIP directory says {}", npy_bytes, plain_bytes));
}

Result<NpyArray> ReadMember(std::string_view bytes, const Member& member) {
  const std::string_view header = Slice(bytes, member.header_offset, kLocalHeaderBytes);
  if (header.empty() || LoadAs<std::uint32_t>(header.data()) != kLocalHeader) {
    return Bad("its header is missing");
  }
  const std::uint64_t data_offset = member.header_offset + kLocalHeaderBytes +
                                    LoadAs<std::uint16_t>(header.data() + 26) +
                                    LoadAs<std::uint16_t>(header.data() + 28);
  const std::string_view packed = Slice(bytes, data_offset, member.packed_bytes);
  if (packed.size() != member.packed_bytes) return Bad("it is cut off");
  std::string inflated;
  std::string_view plain = packed;
  if (member.method == kDeflated) {
    if (member.plain_bytes / kMaxDeflateRatio > packed.size()) {
      return Bad(
          fmt::format("{} compressed bytes cannot hold {}", packed.size(), member.plain_bytes));
    }
    PALMIST_RETURN_IF_ERROR(CheckPlainSize(packed, member.plain_bytes));
    PALMIST_ASSIGN_OR_RETURN(inflated, Inflate(packed, Wrapping::kNone, member.plain_bytes));
    plain = inflated;
  } else if (member.method != kStored) {
    return Bad(fmt::format("expected it stored or deflated, got ZIP's method {}", member.method));
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(plain.data()), plain.size());
  if (plain.size() != member.plain_bytes || crc != member.crc) {
    return Bad("its size or its checksum (CRC-32) is wrong");
  }
  return ParseNpy(plain);
}

}  // namespace

Result<NpzArrays> ParseNpz(std::string_view bytes, std::int64_t max_bytes) {
  PALMIST_ASSIGN_OR_RETURN(const std::vector<Member> members, ListMembers(bytes));
  std::uint64_t budget = static_cast<std::uint64_t>(max_bytes);
  NpzArrays arrays;
  for (const Member& member : members) {
    const std::string shown = Printable(member.name);
    if (!member.name.ends_with(kNpyEnding)) return InputError(shown, "expected an .npy array");
    if (member.plain_bytes > budget) {
      return InputError(
          shown,
          fmt::format("the arrays hold more than {}", FormatBytes(static_cast<double>(max_bytes))));
    }
    budget -= member.plain_bytes;
    auto array = ReadMember(bytes, member);
    if (!array.ok()) return array.error().WithFieldPrefix(shown);
    const std::string name = member.name.substr(0, member.name.size() - kNpyEnding.size());
    if (!arrays.emplace(name, std::move(*array)).second) {
      return InputError(shown, "occurs twice");
    }
  }
  return arrays;
}

Result<NpzArrays> ReadNpz(const std::string& path, std::int64_t max_bytes) {
  // Packed data is smaller than the arrays, but for what the archive adds.
  return ParseFile(
      path, max_bytes + kMiB, [&](std::string_view bytes) { return ParseNpz(bytes, max_bytes); });
}

Result<void> WriteNpz(const std::string& path, const NpzArrays& arrays) {
  constexpr std::uint16_t kVersion = 20;              // Of ZIP: deflate.
  constexpr std::uint32_t kFirstDosDay = 0x00210000;  // 1 January 1980, 0:00: no clock in the file.
  std::string file;
  std::string directory;
  for (const auto& [name, array] : arrays) {
    const std::string plain = WriteNpy(array);
    const std::string member = name + std::string(kNpyEnding);
    if (plain.size() >= kInZip64 || member.size() > 0xffff || arrays.size() >= 0xffff) {
      return InputError(path + ": " + member, "expected less than 4 GiB, it is larger");
    }
    const std::string packed = Deflate(plain);
    std::string common;
    AppendBytes(common, kVersion);
    AppendBytes(common, std::uint16_t{0});
    AppendBytes(common, kDeflated);
    AppendBytes(common, kFirstDosDay);
    AppendBytes(common,
                static_cast<std::uint32_t>(
                    crc32_z(0, reinterpret_cast<const Bytef*>(plain.data()), plain.size())));
    AppendBytes(common, static_cast<std::uint32_t>(packed.size()));
    AppendBytes(common, static_cast<std::uint32_t>(plain.size()));
    AppendBytes(common, static_cast<std::uint16_t>(member.size()));
    AppendBytes(common, std::uint16_t{0});

    AppendBytes(directory, kDirectoryEntry);
    AppendBytes(directory, kVersion);
    directory += common;
    // No comment, first disk, no attributes.
    directory.append(10, '\0');
    AppendBytes(directory, static_cast<std::uint32_t>(file.size()));
    directory += member;

    AppendBytes(file, kLocalHeader);
    file += common + member + packed;
    if (file.size() + directory.size() >= kInZip64) {
      return InputError(path, "expected an archive of less than 4 GiB, it is larger");
    }
  }
  const auto directory_offset = static_cast<std::uint32_t>(file.size());
  file += directory;
  AppendBytes(file, kDirectoryEnd);
  AppendBytes(file, std::uint32_t{0});
  AppendBytes(file, static_cast<std::uint16_t>(arrays.size()));
  AppendBytes(file, static_cast<std::uint16_t>(arrays.size()));
  AppendBytes(file, static_cast<std::uint32_t>(directory.size()));
  AppendBytes(file, directory_offset);
  AppendBytes(file, std::uint16_t{0});
  return WriteFileAtomic(path, file);
}

}  // namespace palmist::grasp

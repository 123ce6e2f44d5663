/// Walks the checkout's own files, for tests of what sources may hold.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace palmist::test {

/// Returns the files below a folder whose names end in one of `endings`, in no order.
inline std::vector<std::string> FilesBelow(const std::filesystem::path& folder,
                                           std::initializer_list<std::string_view> endings) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    for (const std::string_view ending : endings) {
      if (entry.is_regular_file() && path.ends_with(ending)) found.push_back(path);
    }
  }
  return found;
}

}  // namespace palmist::test

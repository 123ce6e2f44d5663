/// Files carried inside the program; `palmist_embed_files` (cmake/EmbedFiles.cmake) makes them.
#pragma once

#include <string_view>

namespace palmist {

/// One file of the checkout as the build found it.
struct EmbeddedFile {
  std::string_view name;     ///< Path below the base folder, such as `zoo/gpt2.json`.
  std::string_view content;  ///< The bytes, followed by a zero byte that is not counted.
};

}  // namespace palmist

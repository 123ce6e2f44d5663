#include <torch/version.h>

#define PALMIST_STRING(x) #x
#define PALMIST_EXPANDED_STRING(x) PALMIST_STRING(x)

// What the library was compiled against. The ABI of torch holds for a minor version alone, so the
// Python package reads this from the file before it loads the library.
extern "C" __attribute__((used, visibility("default"))) const char palmist_torch_version[] =
    "palmist-torch-version:" PALMIST_EXPANDED_STRING(
        TORCH_VERSION_MAJOR) "." PALMIST_EXPANDED_STRING(TORCH_VERSION_MINOR);

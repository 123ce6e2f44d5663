# The warnings of our own code. Linked privately, so that users of the libraries do not inherit them.
add_library(palmist_warnings INTERFACE)
target_compile_options(palmist_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(PALMIST_WARNINGS_AS_ERRORS)
  target_compile_options(palmist_warnings INTERFACE -Werror)
endif()

# Sanitizers apply to the whole build: a mix of instrumented and plain objects reports nonsense.
set(PALMIST_SANITIZE "" CACHE STRING "Sanitizer of the whole build: empty, address or thread")
set_property(CACHE PALMIST_SANITIZE PROPERTY STRINGS "" address thread)

if(PALMIST_SANITIZE STREQUAL "address")
  set(palmist_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(PALMIST_SANITIZE STREQUAL "thread")
  set(palmist_sanitize_flags -fsanitize=thread)
elseif(PALMIST_SANITIZE)
  message(FATAL_ERROR "PALMIST_SANITIZE: expected empty, address or thread, got ${PALMIST_SANITIZE}")
endif()

if(palmist_sanitize_flags)
  add_compile_options(${palmist_sanitize_flags} -fno-omit-frame-pointer)
  add_link_options(${palmist_sanitize_flags})
endif()

if(PALMIST_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PALMIST_BUILD_FUZZERS needs clang; use `cmake --preset fuzz`.")
  endif()
  if(PALMIST_SANITIZE)
    message(FATAL_ERROR "PALMIST_BUILD_FUZZERS brings its own sanitizers; leave PALMIST_SANITIZE empty.")
  endif()
  add_compile_options(
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

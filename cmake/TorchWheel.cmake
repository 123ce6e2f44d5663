# libtorch, from a wheel of torch or a libtorch archive. Sets PALMIST_HAS_TORCH.
#
#   PALMIST_WITH_TORCH    ON, OFF or AUTO (ON where it is found)
#   PALMIST_TORCH_PREFIX  folder with include/ and lib/ of libtorch; default: the torch of .venv
#
# find_package(Torch) is not called: it stops on a CUDA wheel where no CUDA toolkit is. Only
# libtorch_cpu and libc10 are linked; operators reach CUDA through torch's dispatcher.
set(PALMIST_HAS_TORCH OFF)
if(NOT PALMIST_WITH_TORCH)
  return()
endif()

set(PALMIST_TORCH_PREFIX "" CACHE PATH "Folder with include/ and lib/ of libtorch")
if(PALMIST_TORCH_PREFIX)
  set(prefix ${PALMIST_TORCH_PREFIX})
else()
  file(GLOB prefix ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
endif()
if(NOT EXISTS "${prefix}/lib/libtorch_cpu.so" OR NOT EXISTS "${prefix}/include/ATen/core/Tensor.h")
  if(PALMIST_TORCH_PREFIX OR NOT PALMIST_WITH_TORCH STREQUAL "AUTO")
    message(FATAL_ERROR "PALMIST_WITH_TORCH: expected lib/libtorch_cpu.so and include/ below "
      "'${prefix}'. Run tools/setup.sh torch, or set PALMIST_TORCH_PREFIX to a libtorch, or "
      "PALMIST_WITH_TORCH=OFF.")
  endif()
  message(STATUS "libtorch: not found, so no operators (tools/setup.sh torch installs it)")
  # Looked for again when CMake runs next; `make python` sees to that.
  return()
endif()
set(PALMIST_HAS_TORCH ON)
message(STATUS "libtorch: ${prefix}")

foreach(library IN ITEMS c10 torch_cpu)
  add_library(palmist_torch_${library} SHARED IMPORTED GLOBAL)
  set_target_properties(palmist_torch_${library} PROPERTIES
    IMPORTED_LOCATION ${prefix}/lib/lib${library}.so)
endforeach()
add_library(palmist_torch INTERFACE)
target_include_directories(palmist_torch SYSTEM INTERFACE
  ${prefix}/include ${prefix}/include/torch/csrc/api/include)
# Registrations sit in libtorch_cpu, which refers to CUDA libraries that a CPU machine may lack.
target_link_options(palmist_torch INTERFACE -Wl,--no-as-needed -Wl,--allow-shlib-undefined)
target_link_libraries(palmist_torch INTERFACE palmist_torch_torch_cpu palmist_torch_c10)

# Links `target` against libtorch, and compiles it with one narrow precompiled header: torch/torch.h
# costs 14 s a file, this set 4 s. The first target makes the header, the others take it over.
function(palmist_use_torch target)
  # How the library finds libtorch: beside it in site-packages, or where it was built.
  set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH "$ORIGIN/../../torch/lib")
  # An installed library leaves it to its user to link a libtorch.
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:palmist_torch>)
  get_property(owner GLOBAL PROPERTY PALMIST_TORCH_PCH_OWNER)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    set_property(GLOBAL PROPERTY PALMIST_TORCH_PCH_OWNER ${target})
    target_precompile_headers(${target} PRIVATE
      <ATen/core/Tensor.h> <torch/library.h> <torch/csrc/autograd/custom_function.h>)
  endif()
endfunction()

# libtorch, from a wheel of torch or a libtorch archive. Sets PALMIST_HAS_TORCH.
#
#   PALMIST_WITH_TORCH    ON, OFF or AUTO (ON where it is found)
#   PALMIST_TORCH_PREFIX  folder with include/ and lib/ of libtorch; default: the torch of .venv
#
# find_package(Torch) is not called: it stops on a CUDA wheel where no CUDA toolkit is. Only
# libtorch_cpu and libc10 are linked; operators reach CUDA through torch's dispatcher.
#
#   PALMIST_WITH_CUDA     ON builds the CUDA kernels and libpalmist_ops_cuda too; needs nvcc and a
#                         libtorch with CUDA, no GPU
option(PALMIST_WITH_CUDA "Build the CUDA kernels of operators" OFF)
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
# at::parallel_for is a header over OpenMP; a wheel brings the runtime that torch itself runs on.
target_compile_options(palmist_torch INTERFACE -fopenmp)
if(EXISTS ${prefix}/lib/libgomp.so.1)
  target_link_libraries(palmist_torch INTERFACE ${prefix}/lib/libgomp.so.1)
else()
  target_link_libraries(palmist_torch INTERFACE gomp)
endif()

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

if(PALMIST_WITH_CUDA)
  enable_language(CUDA)
  # CMake 3.25 has not heard of nvcc's C++20; CMAKE_CXX_STANDARD is the standard of both.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  find_package(CUDAToolkit REQUIRED)
  if(NOT EXISTS ${prefix}/lib/libc10_cuda.so)
    message(FATAL_ERROR "PALMIST_WITH_CUDA: expected a libtorch with CUDA, but '${prefix}' has no "
      "lib/libc10_cuda.so. Install a CUDA build of torch, or set PALMIST_WITH_CUDA=OFF.")
  endif()
  add_library(palmist_torch_c10_cuda SHARED IMPORTED GLOBAL)
  set_target_properties(palmist_torch_c10_cuda PROPERTIES
    IMPORTED_LOCATION ${prefix}/lib/libc10_cuda.so)
  target_include_directories(palmist_torch_c10_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  # The runtime that torch itself runs on: a second one would not know torch's errors.
  target_link_libraries(palmist_torch_c10_cuda INTERFACE CUDA::cudart)
endif()

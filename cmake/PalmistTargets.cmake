# The functions by which each folder declares its library, tests, benchmarks and fuzzers.
include(GNUInstallDirs)
include(GoogleTest)

define_property(TARGET PROPERTY PALMIST_LAYER
  BRIEF_DOCS "Layer of a palmist library; its dependencies are at lower layers")

# The aliases palmist::x of the folder names in DEPS.
function(palmist_aliases result)
  list(TRANSFORM ARGN PREPEND "palmist::")
  set(${result} ${ARGN} PARENT_SCOPE)
endfunction()

# palmist_add_library(NAME cost LAYER 2 SOURCES a.cc HEADERS a.h DEPS base model
#                     [PRIVATE_LIBS lib...] [PUBLIC_LIBS lib...] [INTERNAL] [SHARED] [TORCH])
#
# Makes the library palmist_<name> with the alias palmist::<name>, installs it with its headers
# unless it is INTERNAL to the program, and stops the configuration on a dependency at an equal or
# higher layer. Static unless SHARED: the Python package loads those from lib/. TORCH links libtorch
# and compiles with the precompiled header of TorchWheel.cmake.
function(palmist_add_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "INTERNAL;SHARED;TORCH" "NAME;LAYER" "SOURCES;HEADERS;DEPS;PRIVATE_LIBS;PUBLIC_LIBS")
  palmist_check_arguments(palmist_add_library "NAME;LAYER;SOURCES")
  foreach(dep IN LISTS arg_DEPS)
    palmist_check_layer(${arg_NAME} ${arg_LAYER} ${dep})
  endforeach()

  set(target palmist_${arg_NAME})
  if(arg_SHARED)
    add_library(${target} SHARED ${arg_SOURCES})
    set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
      CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON)
  else()
    add_library(${target} STATIC ${arg_SOURCES})
  endif()
  if(arg_TORCH)
    palmist_use_torch(${target})
  endif()
  add_library(palmist::${arg_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${arg_NAME}
    PALMIST_LAYER ${arg_LAYER}
    POSITION_INDEPENDENT_CODE ON)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  palmist_aliases(deps ${arg_DEPS})
  target_link_libraries(${target}
    PUBLIC ${deps} ${arg_PUBLIC_LIBS}
    PRIVATE ${arg_PRIVATE_LIBS} $<BUILD_INTERFACE:palmist_warnings>)
  if(NOT arg_INTERNAL)
    install(TARGETS ${target} EXPORT palmistTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
endfunction()

# palmist_add_test(NAME pareto_test LABEL unit|slow|dist|gpu|web SOURCES test/pareto_test.cc
#                  DEPS solve [LIBS lib...] [TIMEOUT seconds])
#
# Makes a GoogleTest program (gmock and RapidCheck are linked too). The macro PALMIST_SOURCE_DIR
# holds the root of the checkout, for the paths of test data. LABEL is unit where left out.
function(palmist_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;LABEL;TIMEOUT" "SOURCES;DEPS;LIBS")
  palmist_check_arguments(palmist_add_test "NAME;SOURCES")
  if(NOT PALMIST_BUILD_TESTS)
    return()
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  palmist_aliases(deps ${arg_DEPS})
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  target_compile_definitions(${arg_NAME} PRIVATE PALMIST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE
    ${deps} ${arg_LIBS} GTest::gtest_main GTest::gmock rapidcheck palmist_warnings)
  gtest_discover_tests(${arg_NAME}
    DISCOVERY_MODE PRE_TEST
    TEST_PREFIX "${arg_NAME}/"
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

# palmist_add_benchmark(NAME x_benchmark SOURCES benchmark/x_benchmark.cc DEPS symbolic [LIBS lib...])
#
# Makes a Google Benchmark program in bin/benchmarks, with main() from the library.
function(palmist_add_benchmark)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS;LIBS")
  palmist_check_arguments(palmist_add_benchmark "NAME;SOURCES")
  if(NOT PALMIST_BUILD_BENCHMARKS)
    return()
  endif()
  palmist_aliases(deps ${arg_DEPS})
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/benchmarks)
  target_compile_definitions(${arg_NAME} PRIVATE PALMIST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${arg_NAME} PRIVATE
    ${deps} ${arg_LIBS} benchmark::benchmark_main benchmark::benchmark palmist_warnings)
endfunction()

# palmist_add_study(NAME plan_quality SOURCES quality.cc DEPS planner)
#
# Makes a program in bin/studies that takes minutes and prints a table.
function(palmist_add_study)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS;LIBS")
  palmist_check_arguments(palmist_add_study "NAME;SOURCES")
  palmist_aliases(deps ${arg_DEPS})
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/studies)
  target_link_libraries(${arg_NAME} PRIVATE ${deps} ${arg_LIBS} palmist_warnings)
endfunction()

# palmist_add_fuzzer(NAME config_fuzzer SOURCES test/config_fuzzer.cc DEPS model
#                    CORPUS testdata/fuzz/config)
#
# Makes a libFuzzer program (preset fuzz, clang) and a ten-second smoke run as a test, which works
# on a copy of the corpus so that the checkout stays as it is.
function(palmist_add_fuzzer)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;CORPUS" "SOURCES;DEPS;LIBS")
  palmist_check_arguments(palmist_add_fuzzer "NAME;SOURCES;CORPUS")
  if(NOT PALMIST_BUILD_FUZZERS)
    return()
  endif()
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
  if(NOT IS_DIRECTORY ${corpus})
    message(FATAL_ERROR "palmist_add_fuzzer: ${arg_NAME} has no corpus folder ${corpus}")
  endif()
  palmist_aliases(deps ${arg_DEPS})
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/fuzzers)
  target_link_libraries(${arg_NAME} PRIVATE ${deps} ${arg_LIBS} palmist_warnings)
  target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET palmist_fuzzers)
    add_custom_target(palmist_fuzzers COMMENT "All fuzzers, and the libraries they need")
  endif()
  add_dependencies(palmist_fuzzers ${arg_NAME})
  add_test(NAME ${arg_NAME}.smoke
    COMMAND ${CMAKE_COMMAND}
      -DFUZZER=$<TARGET_FILE:${arg_NAME}> -DCORPUS=${corpus}
      -DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.smoke
      -P ${PROJECT_SOURCE_DIR}/cmake/RunFuzzer.cmake)
  set_tests_properties(${arg_NAME}.smoke PROPERTIES LABELS slow TIMEOUT 120)
endfunction()

# Stops the configuration where the caller of `function` left out a required argument or added one
# that is not known. A macro: it reads the caller's arg_ variables.
macro(palmist_check_arguments function required)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}(${arg_NAME}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(name ${required})
    if(NOT DEFINED arg_${name})
      message(FATAL_ERROR "${function}(${arg_NAME}): ${name} is missing")
    endif()
  endforeach()
endmacro()

# What the build needs, and a project outside the tree that builds on it.
find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(nlohmann_json 3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(benchmark REQUIRED)
find_package(GTest REQUIRED)
find_package(xtensor REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
find_path(RANDOM123_INCLUDE Random123/philox.h REQUIRED)

# Peers: kernel sets that exist when their library does.
find_library(OPENBLAS_LIBRARY openblas)
find_path(OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp
                                                ${CMAKE_LIBRARY_ARCHITECTURE})
find_library(DNNL_LIBRARY dnnl)
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.h)
find_package(OpenMP)

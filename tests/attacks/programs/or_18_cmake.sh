# CMake: configuring with tests of the compiler, a library and a program in two languages, parallel building, ctest, installing.
set -euo pipefail
cd /tmp && mkdir -p project && cd project
cat > CMakeLists.txt << 'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(ordinary C CXX)
include(CheckFunctionExists)
include(CheckIncludeFile)
check_function_exists(pthread_create HAS_THREADS)
check_include_file(sys/epoll.h HAS_EPOLL)
find_package(Threads REQUIRED)
configure_file(config.h.in config.h)
add_library(sum SHARED sum.c)
add_executable(program main.cpp)
target_include_directories(program PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(program sum Threads::Threads)
enable_testing()
add_test(NAME works COMMAND program 20 22)
add_test(NAME fails COMMAND program x)
set_tests_properties(fails PROPERTIES WILL_FAIL TRUE)
install(TARGETS program sum RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
CMAKE
echo '#cmakedefine HAS_EPOLL' > config.h.in
echo 'int sum(int a, int b) { return a + b; }' > sum.c
cat > main.cpp << 'CPP'
#include <future>
#include <iostream>
#include <string>
#include "config.h"
#ifndef HAS_EPOLL
#error configure did not find epoll
#endif
extern "C" int sum(int, int);
int main(int, char **argv) {
    auto later = std::async(std::launch::async, [&] { return sum(std::stoi(argv[1]), std::stoi(argv[2])); });
    try {
        std::cout << later.get() << std::endl;
    } catch (const std::exception &) {
        return 1;
    }
}
CPP
cmake -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/tmp/root > log 2>&1 || { cat log; exit 1; }
cmake --build build -j 4 > log 2>&1 || { cat log; exit 1; }
[ "$(build/program 20 22)" = 42 ]
(cd build && ctest -j 2 > log 2>&1) || { cat build/log; exit 1; }
cmake --install build > /dev/null && [ "$(LD_LIBRARY_PATH=/tmp/root/lib /tmp/root/bin/program 1 2)" = 3 ]
echo done

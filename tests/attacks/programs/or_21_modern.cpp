// C++: exceptions through many frames, threads, futures, files, clocks, what the library has.
#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <numeric>
#include <random>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

struct Guard {
    std::atomic<int> &alive;
    explicit Guard(std::atomic<int> &count) : alive(count) { ++alive; }
    ~Guard() { --alive; }
};

static int deep(int n, std::atomic<int> &alive) {
    Guard guard(alive);
    if (n == 0) throw std::runtime_error("bottom");
    return deep(n - 1, alive) + 1;
}

int main() {
    std::atomic<int> alive{0};
    try {
        deep(1000, alive);
        return 1;
    } catch (const std::exception &error) {
        assert(std::string(error.what()) == "bottom" && alive == 0);
    }
    std::promise<int> promise;
    std::thread([&] {
        try {
            throw 42;
        } catch (...) {
            promise.set_exception(std::current_exception());
        }
    }).join();
    try {
        promise.get_future().get();
        return 2;
    } catch (int number) {
        assert(number == 42);
    }

    std::vector<std::future<long>> parts;
    for (int i = 0; i < 8; i++)
        parts.push_back(std::async(std::launch::async, [i] {
            std::vector<long> all(100000);
            std::iota(all.begin(), all.end(), i);
            return std::accumulate(all.begin(), all.end(), 0L);
        }));
    long sum = 0;
    for (auto &part : parts) sum += part.get();
    assert(sum == 8 * 4999950000L + 28 * 100000L);

    std::mutex lock;
    std::condition_variable changed;
    std::shared_mutex readers;
    bool ready = false;
    std::thread waiter([&] {
        std::unique_lock held(lock);
        changed.wait(held, [&] { return ready; });
    });
    { std::lock_guard held(lock); ready = true; }
    changed.notify_all();
    waiter.join();
    thread_local int mine = 5;
    std::thread([] { mine = 6; }).join();
    assert(mine == 5);

    namespace fs = std::filesystem;
    fs::create_directories("/tmp/deep/er");
    std::ofstream("/tmp/deep/er/file") << "text 12 and 34";
    fs::copy("/tmp/deep", "/tmp/copy", fs::copy_options::recursive);
    std::ifstream in("/tmp/copy/er/file");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    assert(text.substr(text.rfind(' ') + 1) == "34" && fs::file_size("/tmp/copy/er/file") == 14 && fs::space("/tmp").available > 0 && fs::remove_all("/tmp/deep") == 3);
    auto begun = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    assert(std::chrono::steady_clock::now() - begun >= std::chrono::milliseconds(5));
    std::mt19937_64 random(std::random_device{}());
    std::variant<int, std::string> either = "text";
    assert(random() != random() && std::get<std::string>(either) == "text" && std::thread::hardware_concurrency() > 0);
    std::cout << "done" << std::endl;
}

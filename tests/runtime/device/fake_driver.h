// FakeDriver: a CUDA driver made of host memory, for tests. Device pointers are host pointers, memory handles are
// memory files that other processes can map, streams run at once, kernels are what the test hands in.
//
// It keeps the driver's own rules where plait could break them: alignment of tensor maps, calls that a capture forbids,
// events of another capture, sizes beyond the device. Every object is counted, every call can be made to fail.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/driver.h"

namespace plait {

struct FakeLaunch {
    cu::Stream stream = nullptr;
    unsigned grid = 0, block = 0, shared_bytes = 0;
    bool cooperative = false, captured = false;
    std::vector<unsigned char> args;
};

struct FakeDriverOptions {
    int devices = 2;
    int sms = 132;
    int major = 9, minor = 0;
    int occupancy = 1;
    int clusters = 66;  // that run at once
    std::uint64_t memory_bytes = 8ull << 30;
    std::size_t parameter_bytes = 0;  // of every kernel
    int version = 13000;
};

class FakeDriver {
public:
    using Options = FakeDriverOptions;
    explicit FakeDriver(Options options = {});
    ~FakeDriver();

    std::shared_ptr<const Driver> table() const { return table_; }

    // What a kernel does; called at the launch, in the launching thread.
    std::function<void(const FakeLaunch&)> on_launch;
    // The call of `member` that comes after `calls` more of them fails, once.
    void fail(const std::string& member, cu::Result result, int calls = 0);
    void set_capturing(cu::Stream stream, bool capturing);
    // Copies and stream writes wait until their stream is synchronised, as on a busy device; those of a stream that was
    // destroyed before are counted.
    void hold_copies(bool hold);
    int abandoned_copies() const;
    void set_parameter_bytes(std::size_t bytes);

    int calls(const std::string& member) const;
    std::vector<FakeLaunch> launches() const;
    std::vector<std::string> log() const;  // stream-ordered calls: `wait 0x.. external`, `launch`, `record`
    void clear_log();
    // Objects that were made and not given back, by kind; empty when nothing leaked.
    std::map<std::string, int> live() const;
    int capture_violations() const;  // calls that would have spoilt a capture

private:
    struct Memory;
    struct Mapping;
    friend struct FakeEntries;

    cu::Result begin(const std::string& member);
    cu::Result now_or_held(cu::Stream stream, std::function<void()> work);
    cu::Result unsafe(const std::string& member);  // begin(), refused under capture
    template <typename Handle>
    Handle make(const std::string& kind);
    template <typename Handle>
    cu::Result drop(const std::string& kind, Handle handle);
    void fill_devices(Driver& driver);
    void fill_virtual_memory(Driver& driver);
    void fill_memory(Driver& driver);
    void fill_streams(Driver& driver);
    void fill_code(Driver& driver);

    Options options_;
    std::shared_ptr<const Driver> table_;
    mutable std::recursive_mutex mutex_;
    std::map<std::string, int> calls_;
    std::map<std::string, std::vector<std::pair<int, cu::Result>>> failures_;
    std::map<std::string, std::set<std::uint64_t>> objects_;
    std::map<std::uint64_t, std::size_t> sizes_;  // of reservations, mappings, allocations
    std::map<std::uint64_t, int> files_;          // handle -> memory file
    std::set<cu::Stream> capturing_;
    bool hold_ = false;
    int abandoned_ = 0;
    std::map<cu::Stream, std::vector<std::function<void()>>> held_;
    std::map<cu::Event, cu::Stream> recorded_;  // while copies are held
    std::map<std::thread::id, cu::CaptureMode> modes_;
    std::map<std::thread::id, std::vector<cu::Context>> contexts_;
    std::map<int, int> retained_;
    std::vector<FakeLaunch> launches_;
    std::vector<std::string> log_;
    std::uint64_t next_ = 0x1000, used_bytes_ = 0;
    int violations_ = 0;
};

}  // namespace plait

#include "tests/runtime/device/fake_driver.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace plait {
namespace {

constexpr std::size_t kGranularity = 2u << 20;
constexpr cu::Result kCaptureIsolation = 905;

void* at(cu::DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

}  // namespace

FakeDriver::FakeDriver(Options options) : options_(options) {
    auto driver = std::make_shared<Driver>();
    fill_devices(*driver);
    fill_virtual_memory(*driver);
    fill_memory(*driver);
    fill_streams(*driver);
    fill_code(*driver);
    table_ = driver;
}

FakeDriver::~FakeDriver() {
    for (const auto& [handle, file] : files_) close(file);
}

void FakeDriver::fail(const std::string& member, cu::Result result, int calls) {
    const std::lock_guard lock(mutex_);
    failures_[member].push_back({calls_[member] + calls + 1, result});
}

void FakeDriver::set_capturing(cu::Stream stream, bool capturing) {
    const std::lock_guard lock(mutex_);
    if (capturing)
        capturing_.insert(stream);
    else
        capturing_.erase(stream);
}

void FakeDriver::hold_copies(bool hold) {
    const std::lock_guard lock(mutex_);
    hold_ = hold;
}

int FakeDriver::abandoned_copies() const {
    const std::lock_guard lock(mutex_);
    return abandoned_;
}

cu::Result FakeDriver::now_or_held(cu::Stream stream, std::function<void()> work) {
    if (hold_)
        held_[stream].push_back(std::move(work));
    else
        work();
    return cu::kSuccess;
}

void FakeDriver::set_parameter_bytes(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    options_.parameter_bytes = bytes;
}

int FakeDriver::calls(const std::string& member) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(member);
    return found == calls_.end() ? 0 : found->second;
}

std::vector<FakeLaunch> FakeDriver::launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
}

std::vector<std::string> FakeDriver::log() const {
    const std::lock_guard lock(mutex_);
    return log_;
}

void FakeDriver::clear_log() {
    const std::lock_guard lock(mutex_);
    log_.clear();
}

std::map<std::string, int> FakeDriver::live() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, int> live;
    for (const auto& [kind, handles] : objects_) {
        if (!handles.empty()) live[kind] = static_cast<int>(handles.size());
    }
    for (const auto& [device, count] : retained_) {
        if (count != 0) live[fmt::format("primary context {}", device)] = count;
    }
    const auto pushed = contexts_.find(std::this_thread::get_id());  // other threads take theirs with them
    if (pushed != contexts_.end() && !pushed->second.empty())
        live["pushed context"] = static_cast<int>(pushed->second.size());
    return live;
}

int FakeDriver::capture_violations() const {
    const std::lock_guard lock(mutex_);
    return violations_;
}

cu::Result FakeDriver::begin(const std::string& member) {
    const int count = ++calls_[member];
    auto& failures = failures_[member];
    for (auto failure = failures.begin(); failure != failures.end(); ++failure) {
        if (failure->first != count) continue;
        const cu::Result result = failure->second;
        failures.erase(failure);
        return result;
    }
    return cu::kSuccess;
}

// Captures are taken to be in global mode: they forbid unsafe calls of every thread that has not opted out.
cu::Result FakeDriver::unsafe(const std::string& member) {
    if (const cu::Result result = begin(member)) return result;
    const auto mode = modes_.find(std::this_thread::get_id());
    if (capturing_.empty() || (mode != modes_.end() && mode->second != cu::CaptureMode::Global)) return cu::kSuccess;
    ++violations_;
    return cu::kErrorStreamCaptureFirst;
}

template <typename Handle>
Handle FakeDriver::make(const std::string& kind) {
    const std::uint64_t handle = next_ += 0x10;
    objects_[kind].insert(handle);
    if constexpr (std::is_pointer_v<Handle>)
        return reinterpret_cast<Handle>(handle);
    else
        return handle;
}

template <typename Handle>
cu::Result FakeDriver::drop(const std::string& kind, Handle handle) {
    std::uint64_t key = 0;
    if constexpr (std::is_pointer_v<Handle>)
        key = reinterpret_cast<std::uint64_t>(handle);
    else
        key = handle;
    return objects_[kind].erase(key) == 1 ? cu::kSuccess : cu::kErrorInvalidValue;
}

#define FAKE_BEGIN(check)               \
    const std::lock_guard lock(mutex_); \
    if (const cu::Result result = check) return result

void FakeDriver::fill_devices(Driver& driver) {
    driver.init = [this](unsigned) -> cu::Result {
        FAKE_BEGIN(begin("init"));
        return cu::kSuccess;
    };
    driver.driver_version = [this](int* version) -> cu::Result {
        FAKE_BEGIN(begin("driver_version"));
        *version = options_.version;
        return cu::kSuccess;
    };
    driver.error_name = [](cu::Result error, const char** name) -> cu::Result {
        *name = error == cu::kErrorOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
                : error == cu::kErrorLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
                                                  : "CUDA_ERROR_FAKE";
        return cu::kSuccess;
    };
    driver.error_string = [](cu::Result, const char** text) -> cu::Result {
        *text = "made up";
        return cu::kSuccess;
    };
    driver.device_count = [this](int* count) -> cu::Result {
        *count = options_.devices;
        return cu::kSuccess;
    };
    driver.device_get = [this](cu::Device* device, int ordinal) -> cu::Result {
        FAKE_BEGIN(begin("device_get"));
        if (ordinal < 0 || ordinal >= options_.devices) return 101;
        *device = ordinal;
        return cu::kSuccess;
    };
    driver.device_attribute = [this](int* value, int attribute, cu::Device) -> cu::Result {
        FAKE_BEGIN(begin("device_attribute"));
        const std::map<int, int> values = {{cu::kMultiprocessorCount, options_.sms},
                                           {cu::kComputeCapabilityMajor, options_.major},
                                           {cu::kComputeCapabilityMinor, options_.minor},
                                           {cu::kMaxRegistersPerMultiprocessor, 65536},
                                           {cu::kMaxSharedMemoryPerBlockOptin, 232448}};
        const auto found = values.find(attribute);
        *value = found == values.end() ? 1 : found->second;
        return cu::kSuccess;
    };
    driver.device_name = [](char* name, int length, cu::Device device) -> cu::Result {
        fmt::format_to_n(name, length - 1, "Fake {}{}", device, '\0');
        return cu::kSuccess;
    };
    driver.device_uuid = [](cu::Uuid* uuid, cu::Device device) -> cu::Result {
        *uuid = {};
        uuid->bytes[0] = static_cast<unsigned char>(device + 1);
        return cu::kSuccess;
    };
    driver.primary_context_retain = [this](cu::Context* context, cu::Device device) -> cu::Result {
        FAKE_BEGIN(begin("primary_context_retain"));
        ++retained_[device];
        *context = reinterpret_cast<cu::Context>(static_cast<std::uintptr_t>(0x100 + device));
        return cu::kSuccess;
    };
    driver.primary_context_release = [this](cu::Device device) -> cu::Result {
        FAKE_BEGIN(begin("primary_context_release"));
        return --retained_[device] >= 0 ? cu::kSuccess : cu::kErrorInvalidValue;
    };
    driver.context_push = [this](cu::Context context) -> cu::Result {
        FAKE_BEGIN(begin("context_push"));
        contexts_[std::this_thread::get_id()].push_back(context);
        return cu::kSuccess;
    };
    driver.context_pop = [this](cu::Context* context) -> cu::Result {
        FAKE_BEGIN(begin("context_pop"));
        auto& stack = contexts_[std::this_thread::get_id()];
        if (stack.empty()) return cu::kErrorInvalidValue;
        *context = stack.back();
        stack.pop_back();
        return cu::kSuccess;
    };
}

void FakeDriver::fill_virtual_memory(Driver& driver) {
    driver.memory_granularity = [](std::size_t* bytes, const cu::MemoryProperties*, int) -> cu::Result {
        *bytes = kGranularity;
        return cu::kSuccess;
    };
    driver.address_reserve = [this](cu::DevicePointer* pointer, std::size_t bytes, std::size_t alignment,
                                    cu::DevicePointer, unsigned long long) -> cu::Result {
        FAKE_BEGIN(unsafe("address_reserve"));
        if (bytes % kGranularity != 0) return cu::kErrorInvalidValue;
        // Reserves more and keeps the aligned part: mmap knows pages only.
        auto* whole = static_cast<char*>(
            mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (whole == MAP_FAILED) return cu::kErrorOutOfMemory;
        const std::size_t lead = (alignment - reinterpret_cast<std::uintptr_t>(whole) % alignment) % alignment;
        if (lead > 0) munmap(whole, lead);
        if (alignment - lead > 0) munmap(whole + lead + bytes, alignment - lead);
        *pointer = reinterpret_cast<cu::DevicePointer>(whole + lead);
        objects_["reservation"].insert(*pointer);
        return cu::kSuccess;
    };
    driver.address_free = [this](cu::DevicePointer pointer, std::size_t bytes) -> cu::Result {
        FAKE_BEGIN(unsafe("address_free"));
        munmap(at(pointer), bytes);
        return drop("reservation", pointer);
    };
    driver.memory_create = [this](cu::MemoryHandle* handle, std::size_t bytes, const cu::MemoryProperties* properties,
                                  unsigned long long) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_create"));
        if (bytes == 0 || bytes % kGranularity != 0 || properties->type != cu::kAllocationPinned)
            return cu::kErrorInvalidValue;
        if (bytes > options_.memory_bytes) return cu::kErrorOutOfMemory;
        const int file = memfd_create("fake-gpu", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return cu::kErrorOutOfMemory;
        *handle = make<cu::MemoryHandle>("memory handle");
        files_[*handle] = file;
        return cu::kSuccess;
    };
    driver.memory_release = [this](cu::MemoryHandle handle) -> cu::Result {
        FAKE_BEGIN(begin("memory_release"));
        const cu::Result result = drop("memory handle", handle);
        if (result == cu::kSuccess) close(files_.extract(handle).mapped());
        return result;
    };
    driver.memory_map = [this](cu::DevicePointer pointer, std::size_t bytes, std::size_t offset,
                               cu::MemoryHandle handle, unsigned long long) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_map"));
        const auto file = files_.find(handle);
        if (file == files_.end() || pointer % kGranularity != 0) return cu::kErrorInvalidValue;
        if (mmap(at(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file->second, static_cast<off_t>(offset)) ==
            MAP_FAILED)
            return cu::kErrorOutOfMemory;
        objects_["mapping"].insert(pointer);
        return cu::kSuccess;
    };
    driver.memory_unmap = [this](cu::DevicePointer pointer, std::size_t bytes) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_unmap"));
        mmap(at(pointer), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        return drop("mapping", pointer);
    };
    driver.memory_set_access = [this](cu::DevicePointer pointer, std::size_t bytes, const cu::MemoryAccess* access,
                                      std::size_t) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_set_access"));
        if (access->location.type != cu::kLocationDevice || access->flags != cu::kAccessReadWrite)
            return cu::kErrorInvalidValue;
        return mprotect(at(pointer), bytes, PROT_READ | PROT_WRITE) == 0 ? cu::kSuccess : cu::kErrorInvalidValue;
    };
    driver.memory_export = [this](void* shareable, cu::MemoryHandle handle, int type,
                                  unsigned long long) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_export"));
        if (type != cu::kHandlePosixFileDescriptor || files_.count(handle) == 0) return cu::kErrorInvalidValue;
        *static_cast<int*>(shareable) = dup(files_[handle]);
        return cu::kSuccess;
    };
    driver.memory_import = [this](cu::MemoryHandle* handle, void* shareable, int type) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_import"));
        if (type != cu::kHandlePosixFileDescriptor) return cu::kErrorInvalidValue;
        *handle = make<cu::MemoryHandle>("memory handle");
        files_[*handle] = dup(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
        return cu::kSuccess;
    };
}

void FakeDriver::fill_memory(Driver& driver) {
    driver.memory_alloc = [this](cu::DevicePointer* pointer, std::size_t bytes) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_alloc"));
        void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
        std::memset(memory, 0xa5, bytes);  // device memory is not zeroed
        *pointer = reinterpret_cast<cu::DevicePointer>(memory);
        objects_["device memory"].insert(*pointer);
        return cu::kSuccess;
    };
    driver.memory_free = [this](cu::DevicePointer pointer) -> cu::Result {
        FAKE_BEGIN(unsafe("memory_free"));
        if (drop("device memory", pointer) != cu::kSuccess) return cu::kErrorInvalidValue;
        std::free(at(pointer));
        return cu::kSuccess;
    };
    driver.host_alloc = [this](void** pointer, std::size_t bytes, unsigned flags) -> cu::Result {
        FAKE_BEGIN(unsafe("host_alloc"));
        if ((flags & cu::kHostAllocDeviceMap) == 0) return cu::kErrorInvalidValue;
        *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        std::memset(*pointer, 0xa5, bytes);
        objects_["host memory"].insert(reinterpret_cast<std::uint64_t>(*pointer));
        return cu::kSuccess;
    };
    driver.host_free = [this](void* pointer) -> cu::Result {
        FAKE_BEGIN(unsafe("host_free"));
        if (drop("host memory", pointer) != cu::kSuccess) return cu::kErrorInvalidValue;
        std::free(pointer);
        return cu::kSuccess;
    };
    driver.host_device_pointer = [this](cu::DevicePointer* pointer, void* host, unsigned) -> cu::Result {
        FAKE_BEGIN(begin("host_device_pointer"));
        *pointer = reinterpret_cast<cu::DevicePointer>(host);
        return cu::kSuccess;
    };
    driver.copy_async = [this](cu::DevicePointer destination, cu::DevicePointer source, std::size_t bytes,
                               cu::Stream stream) -> cu::Result {
        FAKE_BEGIN(begin("copy_async"));
        return now_or_held(stream, [=] { std::memmove(at(destination), at(source), bytes); });
    };
    driver.set_bytes_async = [this](cu::DevicePointer destination, unsigned char value, std::size_t bytes,
                                    cu::Stream) -> cu::Result {
        FAKE_BEGIN(begin("set_bytes_async"));
        std::memset(at(destination), value, bytes);
        return cu::kSuccess;
    };
}

void FakeDriver::fill_streams(Driver& driver) {
    driver.stream_create = [this](cu::Stream* stream, unsigned) -> cu::Result {
        FAKE_BEGIN(begin("stream_create"));
        *stream = make<cu::Stream>("stream");
        return cu::kSuccess;
    };
    driver.stream_destroy = [this](cu::Stream stream) -> cu::Result {
        FAKE_BEGIN(begin("stream_destroy"));
        abandoned_ += static_cast<int>(held_[stream].size());
        return drop("stream", stream);
    };
    driver.stream_synchronize = [this](cu::Stream stream) -> cu::Result {
        FAKE_BEGIN(begin("stream_synchronize"));
        for (const auto& work : std::exchange(held_[stream], {})) work();
        if (capturing_.count(stream) == 0) return cu::kSuccess;
        ++violations_;
        return cu::kErrorStreamCaptureFirst;
    };
    driver.stream_query = [this](cu::Stream) -> cu::Result {
        FAKE_BEGIN(unsafe("stream_query"));
        return cu::kSuccess;
    };
    driver.stream_wait_event = [this](cu::Stream stream, cu::Event event, unsigned flags) -> cu::Result {
        FAKE_BEGIN(begin("stream_wait_event"));
        const bool external = (flags & cu::kEventWaitExternal) != 0;
        if (external != (capturing_.count(stream) > 0)) return external ? cu::kErrorInvalidValue : kCaptureIsolation;
        log_.push_back(
            fmt::format("wait {} event {}{}", fmt::ptr(stream), fmt::ptr(event), external ? " external" : ""));
        return cu::kSuccess;
    };
    driver.stream_is_capturing = [this](cu::Stream stream, cu::CaptureStatus* status) -> cu::Result {
        FAKE_BEGIN(begin("stream_is_capturing"));
        *status = capturing_.count(stream) > 0 ? cu::CaptureStatus::Active : cu::CaptureStatus::None;
        return cu::kSuccess;
    };
    driver.stream_write_value = [this](cu::Stream stream, cu::DevicePointer address, std::uint64_t value,
                                       unsigned) -> cu::Result {
        FAKE_BEGIN(begin("stream_write_value"));
        return now_or_held(stream, [=] {
            __atomic_store_n(static_cast<std::uint64_t*>(at(address)), value, __ATOMIC_RELEASE);
        });
    };
    driver.exchange_capture_mode = [this](cu::CaptureMode* mode) -> cu::Result {
        FAKE_BEGIN(begin("exchange_capture_mode"));
        std::swap(modes_[std::this_thread::get_id()], *mode);
        return cu::kSuccess;
    };
    driver.event_create = [this](cu::Event* event, unsigned) -> cu::Result {
        FAKE_BEGIN(begin("event_create"));
        *event = make<cu::Event>("event");
        return cu::kSuccess;
    };
    driver.event_destroy = [this](cu::Event event) -> cu::Result {
        FAKE_BEGIN(begin("event_destroy"));
        return drop("event", event);
    };
    driver.event_record = [this](cu::Event event, cu::Stream stream, unsigned flags) -> cu::Result {
        FAKE_BEGIN(begin("event_record"));
        const bool external = (flags & cu::kEventRecordExternal) != 0;
        if (external && capturing_.count(stream) == 0) return cu::kErrorInvalidValue;
        recorded_[event] = stream;
        log_.push_back(
            fmt::format("record {} event {}{}", fmt::ptr(stream), fmt::ptr(event), external ? " external" : ""));
        return cu::kSuccess;
    };
    driver.event_query = [this](cu::Event event) -> cu::Result {
        FAKE_BEGIN(unsafe("event_query"));
        const auto stream = recorded_.find(event);
        if (stream != recorded_.end() && !held_[stream->second].empty()) return cu::kErrorNotReady;
        return cu::kSuccess;
    };
    driver.event_synchronize = [this](cu::Event) -> cu::Result {
        FAKE_BEGIN(unsafe("event_synchronize"));
        return cu::kSuccess;
    };
    driver.context_synchronize = [this]() -> cu::Result {
        FAKE_BEGIN(unsafe("context_synchronize"));
        return cu::kSuccess;
    };
    driver.event_elapsed = [this](float* milliseconds, cu::Event, cu::Event) -> cu::Result {
        FAKE_BEGIN(begin("event_elapsed"));
        *milliseconds = 0;
        return cu::kSuccess;
    };
}

void FakeDriver::fill_code(Driver& driver) {
    driver.module_load = [this](cu::Module* module, const void* image) -> cu::Result {
        FAKE_BEGIN(unsafe("module_load"));
        if (std::strncmp(static_cast<const char*>(image), "cubin", 5) != 0) return cu::kErrorInvalidImage;
        *module = make<cu::Module>("module");
        return cu::kSuccess;
    };
    driver.module_unload = [this](cu::Module module) -> cu::Result {
        FAKE_BEGIN(unsafe("module_unload"));
        return drop("module", module);
    };
    driver.module_function = [this](cu::Function* function, cu::Module module, const char* name) -> cu::Result {
        FAKE_BEGIN(begin("module_function"));
        if (std::strcmp(name, "plait_kernel") != 0) return cu::kErrorNotFound;
        *function = reinterpret_cast<cu::Function>(module);
        return cu::kSuccess;
    };
    driver.function_load = [this](cu::Function) -> cu::Result {
        FAKE_BEGIN(unsafe("function_load"));
        return cu::kSuccess;
    };
    driver.function_parameter = [this](cu::Function, std::size_t index, std::size_t* offset,
                                       std::size_t* bytes) -> cu::Result {
        FAKE_BEGIN(begin("function_parameter"));
        if (index != 0) return cu::kErrorInvalidValue;
        *offset = 0;
        *bytes = options_.parameter_bytes;
        return cu::kSuccess;
    };
    driver.function_set_attribute = [this](cu::Function, int, int value) -> cu::Result {
        FAKE_BEGIN(begin("function_set_attribute"));
        return value <= 232448 ? cu::kSuccess : cu::kErrorInvalidValue;
    };
    driver.function_attribute = [this](int* value, int, cu::Function) -> cu::Result {
        FAKE_BEGIN(begin("function_attribute"));
        *value = 0;
        return cu::kSuccess;
    };
    driver.occupancy = [this](int* blocks, cu::Function, int, std::size_t) -> cu::Result {
        FAKE_BEGIN(begin("occupancy"));
        *blocks = options_.occupancy;
        return cu::kSuccess;
    };
    driver.active_clusters = [this](int* clusters, cu::Function, const cu::LaunchConfig*) -> cu::Result {
        FAKE_BEGIN(begin("active_clusters"));
        *clusters = options_.clusters;
        return cu::kSuccess;
    };
    driver.launch = [this](const cu::LaunchConfig* config, cu::Function, void** parameters, void**) -> cu::Result {
        FakeLaunch launch;
        {
            FAKE_BEGIN(begin("launch"));
            launch.stream = config->stream;
            launch.grid = config->grid_x, launch.block = config->block_x, launch.shared_bytes = config->shared_bytes;
            for (unsigned i = 0; i < config->attribute_count; ++i) {
                if (config->attributes[i].id == cu::kAttributeCooperative)
                    launch.cooperative = config->attributes[i].value.cooperative != 0;
            }
            if (launch.cooperative && launch.grid > static_cast<unsigned>(options_.sms * options_.occupancy))
                return cu::kErrorCooperativeLaunchTooLarge;
            launch.captured = capturing_.count(config->stream) > 0;
            const auto* args = static_cast<const unsigned char*>(parameters[0]);
            launch.args.assign(args, args + options_.parameter_bytes);
            launches_.push_back(launch);
            log_.push_back(fmt::format("launch {}", fmt::ptr(config->stream)));
        }
        if (on_launch && !launch.captured) on_launch(launch);
        return cu::kSuccess;
    };
    driver.encode_tiled = [this](cu::EncodedTensorMap* map, int, unsigned rank, void* address,
                                 const std::uint64_t* extent, const std::uint64_t* stride, const unsigned* box,
                                 const unsigned*, int, int swizzle, int, int) -> cu::Result {
        FAKE_BEGIN(begin("encode_tiled"));
        const auto where = reinterpret_cast<std::uintptr_t>(address);
        bool fits = rank == 3 && where != 0 && where % 16 == 0 && reinterpret_cast<std::uintptr_t>(map) % 64 == 0 &&
                    swizzle == cu::kSwizzle128B;
        for (unsigned d = 0; d < 3; ++d)
            fits = fits && extent[d] >= 1 && extent[d] <= (1ull << 32) && box[d] >= 1 && box[d] <= 256;
        for (unsigned d = 0; d < 2; ++d)
            fits = fits && stride[d] % 16 == 0 && stride[d] > 0 && stride[d] < (1ull << 40);
        if (!fits || box[0] > 64) return cu::kErrorInvalidValue;
        *map = {};
        map->word[0] = where;
        for (unsigned d = 0; d < 3; ++d) map->word[1 + d] = extent[d];
        return cu::kSuccess;
    };
}

#undef FAKE_BEGIN

}  // namespace plait

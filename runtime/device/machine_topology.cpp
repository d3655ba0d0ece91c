#include "runtime/device/machine_topology.h"

#include <fmt/format.h>

#include <array>

#include "runtime/base/error.h"

namespace plait {
namespace {

struct Gpu {
    std::string name;
    int sms = 0, shared_memory_bytes = 0, registers = 0, major = 0, minor = 0;
};

Gpu read_gpu(const Driver& driver, int ordinal) {
    cu::Device device = 0;
    check_driver(driver, driver.device_get(&device, ordinal), fmt::format("opening GPU {}", ordinal));
    std::array<char, 256> name{};
    check_driver(driver, driver.device_name(name.data(), static_cast<int>(name.size()), device), "reading a GPU's name");
    Gpu gpu;
    gpu.name = name.data();
    const auto read = [&](int* value, int attribute) {
        check_driver(driver, driver.device_attribute(value, attribute, device), fmt::format("reading attribute {} of GPU {}", attribute, ordinal));
    };
    read(&gpu.sms, cu::kMultiprocessorCount);
    read(&gpu.shared_memory_bytes, cu::kMaxSharedMemoryPerBlockOptin);
    read(&gpu.registers, cu::kMaxRegistersPerMultiprocessor);
    read(&gpu.major, cu::kComputeCapabilityMajor);
    read(&gpu.minor, cu::kComputeCapabilityMinor);
    return gpu;
}

}  // namespace

Topology machine_topology(const Driver& driver, int nodes, int gpus_per_node) {
    int count = 0;
    check_driver(driver, driver.device_count(&count), "counting GPUs");
    if (count == 0) throw DeviceError("the driver shows no GPU", "simulate with --topology NxG, or check CUDA_VISIBLE_DEVICES");
    const Gpu first = read_gpu(driver, 0);
    if (first.major != 9 || first.minor != 0)
        throw DeviceError(fmt::format("{} has compute capability {}.{}, sm_90a code needs 9.0", first.name, first.major, first.minor));
    for (int i = 1; i < count; ++i) {
        const Gpu other = read_gpu(driver, i);
        if (other.sms != first.sms || other.shared_memory_bytes != first.shared_memory_bytes || other.major != first.major)
            throw DeviceError(fmt::format("GPU 0 is {} with {} SMs, GPU {} is {} with {}", first.name, first.sms, i, other.name, other.sms),
                              "one artifact serves all ranks: make only like GPUs visible");
    }
    Topology topology = Topology::simulated(fmt::format("{}x{}", nodes, gpus_per_node));
    topology.name = topology.label();
    topology.gpu_name = first.name;
    topology.arch = "sm_90a";
    topology.sms = first.sms;
    topology.shared_memory_bytes = first.shared_memory_bytes;
    topology.registers_per_sm = first.registers;
    return topology;
}

}  // namespace plait

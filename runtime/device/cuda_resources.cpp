#include "runtime/device/cuda_resources.h"

#include <fmt/format.h>

#include <cstring>

namespace plait {

PrimaryContext::PrimaryContext(std::shared_ptr<const Driver> driver, int ordinal) : driver_(std::move(driver)) {
    int devices = 0;
    check_driver(*driver_, driver_->device_count(&devices), "counting devices");
    check_driver(*driver_, driver_->device_get(&device_, ordinal),
                 fmt::format("opening device {} of {}", ordinal, devices),
                 "device ordinals count what CUDA_VISIBLE_DEVICES leaves visible");
    check_driver(*driver_, driver_->primary_context_retain(&context_, device_),
                 fmt::format("retaining the context of device {}", ordinal));
}

PrimaryContext::~PrimaryContext() { driver_->primary_context_release(device_); }

DeviceMemory::DeviceMemory(std::shared_ptr<const Driver> driver, std::size_t bytes, const std::string& what)
    : driver_(std::move(driver)) {
    check_driver(*driver_, driver_->memory_alloc(&pointer_, bytes),
                 fmt::format("allocating {} bytes of device memory for {}", bytes, what));
}

DeviceMemory::~DeviceMemory() { driver_->memory_free(pointer_); }

PinnedMemory::PinnedMemory(std::shared_ptr<const Driver> driver, std::size_t bytes, const std::string& what)
    : driver_(std::move(driver)) {
    check_driver(*driver_, driver_->host_alloc(&host_, bytes, cu::kHostAllocPortable | cu::kHostAllocDeviceMap),
                 fmt::format("allocating {} bytes of pinned memory for {}", bytes, what),
                 "raise the limit on locked memory");
    std::memset(host_, 0, bytes);
    try {
        check_driver(*driver_, driver_->host_device_pointer(&device_, host_, 0),
                     fmt::format("mapping pinned memory for {}", what));
    } catch (...) {
        driver_->host_free(host_);
        throw;
    }
}

PinnedMemory::~PinnedMemory() { driver_->host_free(host_); }

PrivateStream::PrivateStream(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
    check_driver(*driver_, driver_->stream_create(&stream_, cu::kStreamNonBlocking), "creating a stream");
}

PrivateStream::~PrivateStream() { driver_->stream_destroy(stream_); }

void PrivateStream::synchronize(const std::string& what) const {
    check_driver(*driver_, driver_->stream_synchronize(stream_), what);
}

OrderingEvent::OrderingEvent(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
    check_driver(*driver_, driver_->event_create(&event_, cu::kEventDisableTiming), "creating an event");
}

OrderingEvent::~OrderingEvent() { driver_->event_destroy(event_); }

int device_attribute(const Driver& driver, cu::Device device, int attribute) {
    int value = 0;
    check_driver(driver, driver.device_attribute(&value, attribute, device),
                 fmt::format("asking device {} for attribute {}", device, attribute));
    return value;
}

}  // namespace plait

// Owners of driver objects. Each is destroyed with the session's context current; none throws then.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "runtime/device/driver.h"

namespace plait {

// The primary context of a device: what torch and everyone else in the process uses as well.
class PrimaryContext {
public:
    PrimaryContext(std::shared_ptr<const Driver> driver, int ordinal);
    ~PrimaryContext();
    PrimaryContext(const PrimaryContext&) = delete;
    PrimaryContext& operator=(const PrimaryContext&) = delete;
    cu::Context get() const { return context_; }
    cu::Device device() const { return device_; }

private:
    std::shared_ptr<const Driver> driver_;
    cu::Device device_ = 0;
    cu::Context context_ = nullptr;
};

class DeviceMemory {
public:
    DeviceMemory(std::shared_ptr<const Driver> driver, std::size_t bytes, const std::string& what);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    cu::DevicePointer get() const { return pointer_; }

private:
    std::shared_ptr<const Driver> driver_;
    cu::DevicePointer pointer_ = 0;
};

// Page-locked host memory, zeroed, mapped into every context.
class PinnedMemory {
public:
    PinnedMemory(std::shared_ptr<const Driver> driver, std::size_t bytes, const std::string& what);
    ~PinnedMemory();
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;
    unsigned char* host() const { return static_cast<unsigned char*>(host_); }
    cu::DevicePointer device() const { return device_; }

private:
    std::shared_ptr<const Driver> driver_;
    void* host_ = nullptr;
    cu::DevicePointer device_ = 0;
};

// A stream that does not synchronise with the legacy default stream.
class PrivateStream {
public:
    explicit PrivateStream(std::shared_ptr<const Driver> driver);
    ~PrivateStream();
    PrivateStream(const PrivateStream&) = delete;
    PrivateStream& operator=(const PrivateStream&) = delete;
    cu::Stream get() const { return stream_; }
    void synchronize(const std::string& what) const;

private:
    std::shared_ptr<const Driver> driver_;
    cu::Stream stream_ = nullptr;
};

class OrderingEvent {  // without timing
public:
    explicit OrderingEvent(std::shared_ptr<const Driver> driver);
    ~OrderingEvent();
    OrderingEvent(const OrderingEvent&) = delete;
    OrderingEvent& operator=(const OrderingEvent&) = delete;
    cu::Event get() const { return event_; }

private:
    std::shared_ptr<const Driver> driver_;
    cu::Event event_ = nullptr;
};

int device_attribute(const Driver& driver, cu::Device device, int attribute);

}  // namespace plait

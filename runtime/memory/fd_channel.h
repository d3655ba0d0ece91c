// FdChannel: hands file descriptors to other processes of this machine (SCM_RIGHTS over unix sockets, unix(7)).
//
// Every rank listens on an abstract address of its own; who knows the address and its token may send. Sending does not
// wait for the receiver to accept, so all ranks may send first and receive afterwards. One thread uses a channel.
#pragma once
#include <cstdint>
#include <string>

namespace plait {

// Owns a descriptor.
class FileDescriptor {
public:
    explicit FileDescriptor(int number = -1) : number_(number) {}
    FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    ~FileDescriptor();
    int get() const { return number_; }
    int release();

private:
    int number_;
};

class FdChannel {
public:
    FdChannel();  // TransportError
    const std::string& address() const { return address_; }

    // TransportError, naming the sender's errno.
    void send(const std::string& address, std::uint32_t sender, std::uint32_t tag, int descriptor);
    struct Received {
        std::uint32_t sender = 0, tag = 0;
        FileDescriptor descriptor;
    };
    // The next message that carries this channel's token. TransportError on timeout.
    Received receive(std::uint64_t timeout_ns);

private:
    FileDescriptor listener_;
    std::string address_;  // name + token
    std::uint64_t token_ = 0;
};

}  // namespace plait

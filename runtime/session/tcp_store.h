// TcpStore: the serving end of the TCP rendezvous, a thread of rank 0. And the few bytes that both ends speak.
//
// One request a connection: a header, key, value; one reply: a header, value. A get is answered once the key is set,
// or never where the asker gives up first. Both ends are of one build on machines of one byte order.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/memory/fd_channel.h"

namespace plait {

inline constexpr std::uint64_t kTcpMagic = 0x31'74'69'61'6c'70ull;  // plait1
enum class TcpRequest : std::uint64_t { Set = 1, Get = 2, Leave = 3 };
struct TcpHeader {
    std::uint64_t magic, kind, key_bytes, value_bytes;  // of a reply: kind 1 yes, 0 no; no key
};
inline constexpr std::uint64_t kTcpMaxKeyBytes = 4096, kTcpMaxValueBytes = 64 << 20;

// TransportError: the other end is gone.
void send_all(int socket, const void* data, std::size_t bytes);

class TcpStore {
public:
    // TransportError: the port cannot be had. `world` ranks use it, this one included.
    TcpStore(const std::string& port, int world);
    // Waits a little for the other ranks to leave: one that is slower may still have keys to read.
    ~TcpStore();
    TcpStore(const TcpStore&) = delete;
    TcpStore& operator=(const TcpStore&) = delete;

private:
    struct Connection {
        FileDescriptor socket;
        std::string received;
        std::string waits_for;  // the key of a get that is not set yet
        bool over = false;
    };

    void serve();
    void accept_one();
    bool read_from(Connection& connection);  // false: the connection is over
    bool answer(Connection& connection);
    void reply(Connection& connection, bool yes, const std::string& value);
    void answer_waiting(const std::string& key);

    FileDescriptor listener_, wake_;
    int others_;
    std::map<std::string, std::string> values_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::thread thread_;
};

}  // namespace plait

// Makes one session per rank where making one waits for the others: a thread each, one running at a time, so that what
// they share (a fake NIC) needs no lock.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/net/exchange.h"
#include "runtime/net/proxy_session.h"

namespace plait::testing {

class Meeting {
public:
    // A value that nobody left can set any more is an error at once.
    Exchange exchange() {
        return {[this](const std::string& key, const std::string& value) {
                    values_[key] = value;
                    changed_.notify_all();
                },
                [this](const std::string& key, std::uint64_t) {
                    const auto waited = waited_.insert(key);
                    changed_.wait(turn_, [&] { return has(key) || stuck(); });
                    waited_.erase(waited);
                    if (!has(key)) throw TransportError(fmt::format("no value for {}", key));
                    return tamper ? tamper(key, values_[key]) : values_[key];
                }};
    }
    // Rethrows the first exception.
    std::vector<std::unique_ptr<ProxySession>> make(
        std::uint32_t world, const std::function<std::unique_ptr<ProxySession>(std::uint32_t)>& make_one) {
        std::vector<std::unique_ptr<ProxySession>> sessions(world);
        std::exception_ptr failure;
        running_ = world;
        std::vector<std::thread> threads;
        for (std::uint32_t rank = 0; rank < world; ++rank)
            threads.emplace_back([&, rank] {
                std::unique_lock lock(turn_);
                try {
                    sessions[rank] = make_one(rank);
                } catch (...) {
                    if (!failure) failure = std::current_exception();
                }
                --running_;
                changed_.notify_all();
            });
        for (std::thread& thread : threads) thread.join();
        if (failure) {
            sessions.clear();
            std::rethrow_exception(failure);
        }
        return sessions;
    }

    std::function<std::string(const std::string& key, const std::string& value)> tamper;

private:
    bool has(const std::string& key) const { return values_.count(key) != 0; }
    bool stuck() const {
        return waited_.size() >= running_ &&
               std::none_of(waited_.begin(), waited_.end(), [this](const std::string& key) { return has(key); });
    }

    std::mutex turn_;
    std::condition_variable_any changed_;
    std::map<std::string, std::string> values_;
    std::multiset<std::string> waited_;
    std::size_t running_ = 0;
};

inline std::vector<std::uint32_t> others(std::uint32_t rank, std::uint32_t world) {
    std::vector<std::uint32_t> peers;
    for (std::uint32_t peer = 0; peer < world; ++peer)
        if (peer != rank) peers.push_back(peer);
    return peers;
}

}  // namespace plait::testing

#include "runtime/session/rendezvous.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "runtime/base/error.h"

namespace plait {
namespace {

class ProcessRendezvous : public Rendezvous {
public:
    void set(const std::string& key, const std::string& value) override {
        {
            const std::lock_guard lock(mutex_);
            if (!values_.emplace(key, value).second) {
                throw TransportError(fmt::format("rendezvous key `{}` is set already", key),
                                     "give each session a rendezvous of its own");
            }
        }
        changed_.notify_all();
    }

    std::string get(const std::string& key, std::uint64_t timeout_ns) override {
        std::unique_lock lock(mutex_);
        const auto there = [&] { return values_.count(key) > 0; };
        if (!changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), there)) {
            throw TransportError(fmt::format("rendezvous: nobody set `{}` within {} ms", key, timeout_ns / 1'000'000),
                                 "did all ranks start");
        }
        return values_[key];
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::string> values_;
};

class CallbackRendezvous : public Rendezvous {
public:
    CallbackRendezvous(std::function<void(const std::string&, const std::string&)> set,
                       std::function<std::string(const std::string&, std::uint64_t)> get)
        : set_(std::move(set)), get_(std::move(get)) {}
    void set(const std::string& key, const std::string& value) override { set_(key, value); }
    std::string get(const std::string& key, std::uint64_t timeout_ns) override { return get_(key, timeout_ns); }

private:
    std::function<void(const std::string&, const std::string&)> set_;
    std::function<std::string(const std::string&, std::uint64_t)> get_;
};

class PrefixedRendezvous : public Rendezvous {
public:
    PrefixedRendezvous(std::shared_ptr<Rendezvous> inner, std::string prefix)
        : inner_(std::move(inner)), prefix_(std::move(prefix)) {}
    void set(const std::string& key, const std::string& value) override { inner_->set(prefix_ + key, value); }
    std::string get(const std::string& key, std::uint64_t timeout_ns) override {
        return inner_->get(prefix_ + key, timeout_ns);
    }

private:
    std::shared_ptr<Rendezvous> inner_;
    std::string prefix_;
};

}  // namespace

std::shared_ptr<Rendezvous> make_process_rendezvous() { return std::make_shared<ProcessRendezvous>(); }

std::shared_ptr<Rendezvous> make_callback_rendezvous(
    std::function<void(const std::string&, const std::string&)> set,
    std::function<std::string(const std::string&, std::uint64_t)> get) {
    return std::make_shared<CallbackRendezvous>(std::move(set), std::move(get));
}

std::shared_ptr<Rendezvous> make_prefixed_rendezvous(std::shared_ptr<Rendezvous> inner, const std::string& prefix) {
    return std::make_shared<PrefixedRendezvous>(std::move(inner), prefix);
}

}  // namespace plait

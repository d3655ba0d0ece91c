#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/session/rendezvous.h"

namespace plait {
namespace {

// A value is written beside its key and linked into place: readers see all of it or nothing, and link() refuses a key
// that exists, also on network file systems.
class DirectoryRendezvous : public Rendezvous {
public:
    explicit DirectoryRendezvous(std::string path) : path_(std::move(path)) {
        std::error_code error;
        std::filesystem::create_directories(path_, error);
        if (error)
            throw TransportError(fmt::format("rendezvous directory {} cannot be made: {}", path_, error.message()));
    }

    void set(const std::string& key, const std::string& value) override {
        const std::string target = file_of(key);
        std::string draft = target + ".XXXXXX";
        const int file = mkstemp(draft.data());
        if (file < 0) fail("cannot be created", draft);
        bool written = true;
        for (std::size_t done = 0; done < value.size();) {
            const ssize_t step = write(file, value.data() + done, value.size() - done);
            if (step < 0 && errno == EINTR) continue;
            if (step <= 0) {
                written = false;
                break;
            }
            done += static_cast<std::size_t>(step);
        }
        int why = written ? 0 : errno;
        if (close(file) != 0 && why == 0) why = errno;
        if (why == 0 && link(draft.c_str(), target.c_str()) != 0) why = errno;
        unlink(draft.c_str());
        if (why == EEXIST) {
            throw TransportError(fmt::format("rendezvous key `{}` is set already in {}", key, path_),
                                 "give each session a directory of its own");
        }
        errno = why;
        if (why != 0) fail("cannot be written", target);
    }

    std::string get(const std::string& key, std::uint64_t timeout_ns) override {
        const std::string target = file_of(key);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
        auto pause = std::chrono::microseconds(50);
        for (;;) {
            std::string value;
            if (read_file(target, &value)) return value;
            if (std::chrono::steady_clock::now() >= deadline) {
                throw TransportError(
                    fmt::format("rendezvous: nobody set `{}` in {} within {} ms", key, path_, timeout_ns / 1'000'000),
                    "did all ranks start, and do they see this directory");
            }
            std::this_thread::sleep_for(pause);
            if (pause < std::chrono::milliseconds(20)) pause *= 2;
        }
    }

private:
    // Keys hold slashes; one flat file each. `%` itself is escaped, so the mapping is unique.
    std::string file_of(const std::string& key) const {
        std::string name;
        for (char c : key) {
            const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
            name += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
        }
        return path_ + "/" + name;
    }

    bool read_file(const std::string& target, std::string* value) const {
        const int file = open(target.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) {
            if (errno == ENOENT || errno == ESTALE) return false;
            fail("cannot be read", target);
        }
        char buffer[4096];
        ssize_t step = 0;
        do {
            step = read(file, buffer, sizeof(buffer));
            if (step > 0) value->append(buffer, static_cast<std::size_t>(step));
        } while (step > 0 || (step < 0 && errno == EINTR));
        const int why = errno;
        close(file);
        if (step == 0) return true;
        errno = why;
        fail("cannot be read", target);
    }

    [[noreturn]] void fail(const char* what, const std::string& target) const {
        throw TransportError(fmt::format("rendezvous file {} {}: {}", target, what, std::strerror(errno)));
    }

    std::string path_;
};

}  // namespace

std::shared_ptr<Rendezvous> make_directory_rendezvous(const std::string& path) {
    return std::make_shared<DirectoryRendezvous>(path);
}

}  // namespace plait

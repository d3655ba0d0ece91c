#include "runtime/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/base/error.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& action, const std::string& path, int error) {
    throw ArgumentError(fmt::format("cannot {} {}: {}", action, path, std::strerror(error)));
}

// Closes on every way out; close() errors of written files surface in fsync before.
class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }

private:
    int fd_;
};

std::string parent_of(const std::string& path) {
    const std::string parent = fs::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
}

void sync_path(const std::string& path, int flags) {
    const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
    if (file.get() < 0) fail("open", path, errno);
    if (::fsync(file.get()) != 0) fail("flush", path, errno);
}

void write_all(int fd, const std::string& path, std::string_view content) {
    while (!content.empty()) {
        const ssize_t written = ::write(fd, content.data(), content.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail("write", path, errno);
        content.remove_prefix(static_cast<std::size_t>(written));
    }
}

std::string holder_of(int descriptor) {
    char text[32] = {};
    const ssize_t size = ::pread(descriptor, text, sizeof(text) - 1, 0);
    return size > 0 ? fmt::format("process {}", std::string(text, static_cast<std::size_t>(size)))
                    : std::string("another process");
}

}  // namespace

std::string read_file(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) fail("read", path, errno);
    std::string content;
    char block[65536];
    for (;;) {
        const ssize_t size = ::read(file.get(), block, sizeof(block));
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) fail("read", path, errno);
        if (size == 0) return content;
        content.append(block, static_cast<std::size_t>(size));
    }
}

bool file_exists(const std::string& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

void make_directories(const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail("make folder", path, error.value());
}

void write_file_atomically(const std::string& path, std::string_view content) {
    std::string temporary = path + ".tmp.XXXXXX";
    const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (file.get() < 0) fail("write", temporary, errno);
    try {
        write_all(file.get(), temporary, content);
        if (::fchmod(file.get(), 0644) != 0) fail("set permissions of", temporary, errno);
        if (::fsync(file.get()) != 0) fail("flush", temporary, errno);
        if (::rename(temporary.c_str(), path.c_str()) != 0) fail("replace", path, errno);
    } catch (const ArgumentError&) {
        ::unlink(temporary.c_str());
        throw;
    }
    sync_path(parent_of(path), O_RDONLY | O_DIRECTORY);
}

void add_line_once(const std::string& path, const std::string& line) {
    const std::string parent = parent_of(path);
    if (!file_exists(parent)) make_directories(parent);
    const FileLock lock(path + ".lock");
    std::string content = file_exists(path) ? read_file(path) : "";
    const std::size_t whole = content.rfind('\n') == std::string::npos ? 0 : content.rfind('\n') + 1;
    if (("\n" + content.substr(0, whole)).find("\n" + line + "\n") != std::string::npos) return;
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (file.get() < 0) fail("write", path, errno);
    if (::ftruncate(file.get(), static_cast<off_t>(whole)) != 0) fail("cut", path, errno);
    if (::lseek(file.get(), 0, SEEK_END) < 0) fail("write", path, errno);
    write_all(file.get(), path, line + "\n");
}

std::string make_temporary_directory(const std::string& parent) {
    make_directories(parent);
    std::string path = parent + "/.tmp.XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) fail("make a folder in", parent, errno);
    if (::chmod(path.c_str(), 0755) != 0) fail("set permissions of", path, errno);
    return path;
}

bool publish_directory(const std::string& staged, const std::string& target) {
    std::error_code error;
    for (fs::recursive_directory_iterator it(staged, error), end; !error && it != end; it.increment(error)) {
        if (it->is_regular_file()) sync_path(it->path().string(), O_RDONLY);
    }
    if (error) fail("read folder", staged, error.value());
    sync_path(staged, O_RDONLY | O_DIRECTORY);
    // rename(2) replaces an empty folder and refuses one with content: the first publisher wins
    if (::rename(staged.c_str(), target.c_str()) != 0) {
        const int reason = errno;
        if (reason != ENOTEMPTY && reason != EEXIST) fail(fmt::format("rename {} to", staged), target, reason);
        remove_recursively(staged);
        return false;
    }
    sync_path(parent_of(target), O_RDONLY | O_DIRECTORY);
    return true;
}

void remove_recursively(const std::string& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail("remove", path, error.value());
}

FileLock::FileLock(const std::string& path, std::chrono::milliseconds timeout) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail("open lock", path, errno);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
        const int reason = errno;
        const bool late = std::chrono::steady_clock::now() >= deadline;
        if ((reason == EWOULDBLOCK && !late) || reason == EINTR) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            continue;
        }
        const std::string holder = holder_of(descriptor_);
        ::close(descriptor_);
        if (reason != EWOULDBLOCK) fail("lock", path, reason);
        throw ArgumentError(fmt::format("lock {} is still held by {} after {} ms", path, holder, timeout.count()),
                            "end that process, or wait for it");
    }
    const std::string holder = std::to_string(::getpid());
    if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, holder.data(), holder.size(), 0) < 0) {
        const int reason = errno;
        ::close(descriptor_);
        fail("write lock", path, reason);
    }
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace plait

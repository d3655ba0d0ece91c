#include "runtime/memory/fd_channel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(FdChannel, SendsBeforeTheReceiverAccepts) {
    FdChannel one, two;
    const FileDescriptor file(memfd_create("shared", MFD_CLOEXEC));
    ASSERT_EQ(write(file.get(), "hello", 5), 5);
    one.send(two.address(), 1, 7, file.get());
    const FdChannel::Received received = two.receive(kSecond);
    EXPECT_EQ(received.sender, 1u);
    EXPECT_EQ(received.tag, 7u);
    char text[5] = {};
    ASSERT_EQ(pread(received.descriptor.get(), text, 5, 0), 5);
    EXPECT_EQ(std::string(text, 5), "hello");
}

TEST(FdChannel, CrossesProcesses) {
    FdChannel channel;
    const std::string address = channel.address();
    const pid_t child = fork();
    if (child == 0) {
        FdChannel own;
        const FileDescriptor file(memfd_create("child", MFD_CLOEXEC));
        if (write(file.get(), "child", 5) != 5) _exit(1);
        own.send(address, 3, 0, file.get());
        _exit(0);
    }
    const FdChannel::Received received = channel.receive(10 * kSecond);
    char text[5] = {};
    EXPECT_EQ(pread(received.descriptor.get(), text, 5, 0), 5);
    EXPECT_EQ(std::string(text, 5), "child");
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST(FdChannel, DropsWhoDoesNotKnowTheToken) {
    FdChannel one, two;
    const FileDescriptor file(memfd_create("shared", MFD_CLOEXEC));
    std::string forged = two.address();
    forged.back() = forged.back() == '0' ? '1' : '0';
    one.send(forged, 1, 1, file.get());
    one.send(two.address(), 1, 2, file.get());
    EXPECT_EQ(two.receive(kSecond).tag, 2u);
}

TEST(FdChannel, NamesTheTimeoutAndTheDeadPeer) {
    FdChannel one;
    std::string gone;
    {
        FdChannel two;
        gone = two.address();
    }
    const FileDescriptor file(memfd_create("shared", MFD_CLOEXEC));
    EXPECT_THROW(one.send(gone, 0, 0, file.get()), TransportError);
    try {
        one.receive(5'000'000);
        FAIL();
    } catch (const TransportError& error) {
        EXPECT_NE(std::string(error.what()).find("within 5 ms"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace plait

#include "runtime/session/rank_hello.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

RankHello hello(const std::string& host, const std::string& gpu, int sm_budget = 0) {
    RankHello result;
    result.abi_version = 1;
    result.host = host, result.gpu = gpu;
    result.network = "ordered";
    result.sms = 132, result.sm_budget = sm_budget;
    return result;
}

Topology two_nodes(Transport transport) {
    Topology topology = Topology::simulated("2x2");
    for (NicInfo& nic : topology.nics) nic.transport = transport;
    return topology;
}

std::string refusal(const std::vector<RankHello>& hellos, const Topology& topology) {
    try {
        check_hellos(hellos, topology);
    } catch (const ArgumentError& error) {
        return error.what();
    }
    return "";
}

TEST(RankHello, TextKeepsEveryField) {
    RankHello original = hello("machine", "uuid", 12);
    original.topology = "{\"nodes\": 2}";
    EXPECT_EQ(RankHello::from_text(original.to_text(), 0).to_text(), original.to_text());
    EXPECT_THROW(RankHello::from_text("{}", 3), TransportError);
    EXPECT_THROW(RankHello::from_text("hello", 3), TransportError);
}

TEST(RankHello, NodesMayBeMachinesButANodeIsOne) {
    const std::vector<RankHello> two_machines = {hello("m0", "a"), hello("m0", "b"), hello("m1", "a"),
                                                 hello("m1", "b")};
    EXPECT_EQ(refusal(two_machines, two_nodes(Transport::Rc)), "");
    const std::vector<RankHello> torn = {hello("m0", "a"), hello("m1", "b"), hello("m1", "a"), hello("m1", "c")};
    EXPECT_NE(
        refusal(torn, two_nodes(Transport::Rc)).find("ranks 0 and 1 must be on one machine, they are on m0 and m1"),
        std::string::npos);
    // Loopback NICs emulate a network within one machine.
    EXPECT_NE(refusal(two_machines, two_nodes(Transport::Loopback)).find("ranks 0 and 2 must be on one machine"),
              std::string::npos);
}

TEST(RankHello, ContractsMustAgree) {
    std::vector<RankHello> hellos = {hello("m", "a"), hello("m", "b"), hello("m", "c"), hello("m", "d")};
    hellos[2].network = "unordered";
    EXPECT_NE(refusal(hellos, two_nodes(Transport::Loopback))
                  .find("rank 2 has another network contract than rank 0: unordered and ordered"),
              std::string::npos);
}

TEST(SmShare, DividesAGpuAmongItsRanks) {
    const std::vector<RankHello> hellos = {hello("m", "a"), hello("m", "b"), hello("m", "a"), hello("m", "a")};
    EXPECT_EQ(sm_share(hellos, 0).ctas, 44);
    EXPECT_EQ(sm_share(hellos, 0).ranks_on_gpu, 3);
    EXPECT_EQ(sm_share(hellos, 1).ctas, 132);
    EXPECT_EQ(sm_share({hello("m0", "a"), hello("m1", "a")}, 0).ranks_on_gpu, 1);  // a UUID of another machine
}

TEST(SmShare, TakesBudgetsAndRefusesTheirSumBeyondTheGpu) {
    EXPECT_EQ(sm_share({hello("m", "a", 32), hello("m", "a", 100)}, 1).ctas, 100);
    EXPECT_THROW(sm_share({hello("m", "a", 33), hello("m", "a", 100)}, 0), ArgumentError);
    EXPECT_THROW(sm_share({hello("m", "a", 133)}, 0), ArgumentError);
}

}  // namespace
}  // namespace plait

// The dumbbell of benchmarks/dumbbell.py in ns-3: one CUBIC and one BBR flow, 100 Mbit/s, 40 ms, one BDP of drop-tail, bulk data.
// Build: g++ -O2 -std=c++17 ns3_dumbbell.cc -o ns3_dumbbell -lns3-core -lns3-network -lns3-internet -lns3-point-to-point -lns3-applications -lns3-traffic-control
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr uint32_t kPacketBytes = 1500;

// Joins two nodes without a traffic-control layer: the device's drop-tail queue is the only one, as in the simulator under test.
NetDeviceContainer Join(NodeContainer nodes, const std::string& rate, const std::string& delay, uint32_t packets, Ipv4AddressHelper& addresses,
                        Ipv4InterfaceContainer* interfaces) {
  PointToPointHelper link;
  link.SetDeviceAttribute("DataRate", StringValue(rate));
  link.SetChannelAttribute("Delay", StringValue(delay));
  link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(packets) + "p"));
  NetDeviceContainer devices = link.Install(nodes);
  *interfaces = addresses.Assign(devices);
  addresses.NewNetwork();
  TrafficControlHelper().Uninstall(devices);
  return devices;
}

}  // namespace

int main(int argc, char* argv[]) {
  double seconds = 60;
  CommandLine options;
  options.AddValue("seconds", "simulated time", seconds);
  options.Parse(argc, argv);

  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));

  const uint32_t bdp_packets = static_cast<uint32_t>(100e6 * 0.040 / 8 / kPacketBytes);
  InternetStackHelper stack;
  Ipv4AddressHelper addresses;
  addresses.SetBase("10.0.0.0", "255.255.255.0");
  NodeContainer routers;
  routers.Create(2);
  stack.Install(routers);
  Ipv4InterfaceContainer interfaces;
  Join(routers, "100Mbps", "19ms", bdp_packets, addresses, &interfaces);

  const std::vector<std::string> controllers = {"ns3::TcpCubic", "ns3::TcpBbr"};
  std::vector<Ptr<PacketSink>> sinks;
  for (const std::string& controller : controllers) {
    NodeContainer ends;
    ends.Create(2);
    stack.Install(ends);
    Join(NodeContainer(ends.Get(0), routers.Get(0)), "1Gbps", "0.5ms", 20000, addresses, &interfaces);
    Join(NodeContainer(routers.Get(1), ends.Get(1)), "1Gbps", "0.5ms", 20000, addresses, &interfaces);
    ends.Get(0)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", TypeIdValue(TypeId::LookupByName(controller)));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 5000));
    source.SetAttribute("SendSize", UintegerValue(65536));
    source.Install(ends.Get(0)).Stop(Seconds(seconds));
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    sinks.push_back(DynamicCast<PacketSink>(sink.Install(ends.Get(1)).Get(0)));
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();
  Simulator::Stop(Seconds(seconds));
  Simulator::Run();
  for (size_t i = 0; i < sinks.size(); ++i) {
    std::cout << controllers[i] << " " << static_cast<double>(sinks[i]->GetTotalRx()) * 8 / seconds / 1e6 << " Mbit/s\n";
  }
  Simulator::Destroy();
}

// The network of benchmarks/constellation_network.py in ns-3, as Hypatia builds it: every satellite and place a node, every link a point-to-point channel with
// drop-tail, static forwarding tables; one TCP flow of CUBIC per path at an application rate of 10 Mbit/s.
// Input: "nodes N", then "link A B DELAY_NS RATE_BPS QUEUE_BYTES" and "path N0 N1 … Nk" (from receiver to sender) lines.
// Build: g++ -O2 -std=c++17 ns3_network.cc -o ns3_network -lns3-core -lns3-network -lns3-internet -lns3-point-to-point -lns3-applications -lns3-traffic-control
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

struct Port {
  uint32_t interface;
  Ipv4Address peer;
};

uint64_t g_hops = 0;

void CountHop(Ptr<const Packet>) { ++g_hops; }

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main(int argc, char* argv[]) {
  double seconds = 1;
  std::string input;
  CommandLine options;
  options.AddValue("seconds", "simulated time", seconds);
  options.AddValue("input", "file of nodes, links and paths", input);
  options.Parse(argc, argv);

  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpCubic")));

  InternetStackHelper stack;
  Ipv4StaticRoutingHelper routing;
  stack.SetRoutingHelper(routing);
  NodeContainer nodes;
  Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
  std::map<std::pair<uint32_t, uint32_t>, Port> ports;
  std::vector<std::vector<uint32_t>> paths;
  std::ifstream file(input);
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (kind == "nodes") {
      uint32_t count = 0;
      line >> count;
      nodes.Create(count);
      stack.Install(nodes);
    } else if (kind == "link") {
      uint32_t a = 0;
      uint32_t b = 0;
      uint64_t delay_ns = 0;
      uint64_t rate_bps = 0;
      uint64_t queue_bytes = 0;
      line >> a >> b >> delay_ns >> rate_bps >> queue_bytes;
      PointToPointHelper link;
      link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate_bps)));
      link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
      link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(queue_bytes) + "B"));
      NetDeviceContainer devices = link.Install(nodes.Get(a), nodes.Get(b));
      Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
      addresses.NewNetwork();
      TrafficControlHelper().Uninstall(devices);
      for (uint32_t end = 0; end < 2; ++end) {
        devices.Get(end)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&CountHop));
      }
      ports[{a, b}] = {interfaces.Get(0).second, interfaces.GetAddress(1)};
      ports[{b, a}] = {interfaces.Get(1).second, interfaces.GetAddress(0)};
    } else if (kind == "path") {
      std::vector<uint32_t> path;
      for (uint32_t node = 0; line >> node;) path.push_back(node);
      paths.push_back(path);
    }
  }
  std::vector<Ptr<PacketSink>> sinks;
  uint16_t port = 5000;
  for (const std::vector<uint32_t>& path : paths) {
    // Every place has one path here, so the addresses of its only link tell the paths apart.
    const size_t last = path.size() - 1;
    const Ipv4Address ends[2] = {ports.at({path[1], path[0]}).peer, ports.at({path[last - 1], path[last]}).peer};
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      const Port& onward = ports.at({path[i], path[i + 1]});
      routing.GetStaticRouting(nodes.Get(path[i])->GetObject<Ipv4>())->AddHostRouteTo(ends[1], onward.peer, onward.interface);
      const Port& back = ports.at({path[i + 1], path[i]});
      routing.GetStaticRouting(nodes.Get(path[i + 1])->GetObject<Ipv4>())->AddHostRouteTo(ends[0], back.peer, back.interface);
    }
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(ends[0], port));
    sinks.push_back(DynamicCast<PacketSink>(sink.Install(nodes.Get(path.front())).Get(0)));
    OnOffHelper source("ns3::TcpSocketFactory", InetSocketAddress(ends[0], port));
    source.SetConstantRate(DataRate("10Mbps"), 12500);
    source.Install(nodes.Get(path.back())).Stop(Seconds(seconds));
    ++port;
  }
  const double ready_s = CpuSeconds();
  Simulator::Stop(Seconds(seconds));
  Simulator::Run();
  uint64_t bytes = 0;
  for (const auto& sink : sinks) bytes += sink->GetTotalRx();
  std::cout << "{\"setup_s\": " << ready_s << ", \"simulation_s\": " << CpuSeconds() - ready_s << ", \"packet_hops\": " << g_hops
            << ", \"delivered_bytes\": " << bytes << "}\n";
  Simulator::Destroy();
}

//! A host's device as a network interface: addresses, routes and counters, by rtnetlink.

use crate::address::{Addresses, IPV6_MTU};
use crate::error::EmuError;
use crate::netlink::{index, with_netlink};
use futures_util::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::RouteType;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Queue length of a TUN device [packets]. With the default of 500, bursts were dropped silently at 500 Mbit/s.
const QUEUE_PACKETS: u32 = 20_000;

/// Queueing discipline of a TUN device: in order, drops only when its ring is full. The machine's default (`net.core.default_qdisc`) may schedule flows,
/// drop early or pace, and so change the path.
const TUN_QDISC: &str = "pfifo_fast";

/// Kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `/dev/net/tun`.
    Tun,
    /// A pair of virtual Ethernet devices and a packet socket.
    Veth,
}

/// Brings the loopback and `device` up in the calling thread's namespace; returns its queueing discipline.
///
/// # Errors
/// [`EmuError::Interface`].
pub fn configure(
    end: &'static str,
    (device, kind): (&str, Kind),
    addresses: Addresses,
    mtu: u16,
    has_default_route: bool,
) -> Result<String, EmuError> {
    let name = device.to_owned();
    with_netlink(end, |handle| async move {
        let failed = |operation| move |e: rtnetlink::Error| EmuError::Interface { end, operation, reason: e.to_string() };
        let lo = index(&handle, "lo").await.map_err(failed("loopback"))?;
        handle.link().set(LinkUnspec::new_with_index(lo).up().build()).execute().await.map_err(failed("loopback up"))?;
        let device = index(&handle, device).await.map_err(failed("the host's device"))?;
        let up = LinkUnspec::new_with_index(device).mtu(mtu.into()).txqueuelen(QUEUE_PACKETS).up().build();
        handle.link().set(up).execute().await.map_err(failed("the host's device up"))?;
        if kind == Kind::Tun {
            queue_in_order(handle.clone(), device).await.map_err(failed("the device's queueing discipline"))?;
        }
        let v4 = IpAddr::V4(addresses.v4);
        handle.address().add(device, v4, 24).execute().await.map_err(failed("IPv4 address"))?;
        let v6 = mtu >= IPV6_MTU && handle.address().add(device, IpAddr::V6(addresses.v6), 64).execute().await.is_ok();
        if has_default_route {
            let route = RouteMessageBuilder::<Ipv4Addr>::new().output_interface(device).build();
            handle.route().add(route).execute().await.map_err(failed("IPv4 default route"))?;
            if v6 {
                let route = RouteMessageBuilder::<Ipv6Addr>::new().output_interface(device).build();
                handle.route().add(route).execute().await.map_err(failed("IPv6 default route"))?;
            }
        }
        let link = handle.link().get().match_name(name).execute().try_next().await.map_err(failed("the host's device"))?;
        let mut kinds =
            link.into_iter().flat_map(|l| l.attributes).filter_map(|a| if let LinkAttribute::Qdisc(kind) = a { Some(kind) } else { None });
        Ok(kinds.next_back().unwrap_or_default())
    })
}

/// Gives `device` [`TUN_QDISC`]; the library has no request for it.
async fn queue_in_order(mut handle: Handle, device: u32) -> Result<(), rtnetlink::Error> {
    let mut message = TcMessage::with_index(i32::try_from(device).unwrap_or_default());
    message.header.parent = TcHandle::ROOT;
    message.attributes.push(TcAttribute::Kind(TUN_QDISC.to_owned()));
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    let mut answers = handle.request(request)?;
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(error) = answer.payload
            && error.code.is_some()
        {
            return Err(rtnetlink::Error::NetlinkError(error));
        }
    }
    Ok(())
}

/// Adds unreachable routes to `addresses` in the calling thread's namespace, so that connections fail at once, although they are in its network.
///
/// # Errors
/// [`EmuError::Interface`].
pub fn reject_destination(end: &'static str, addresses: Addresses) -> Result<(), EmuError> {
    with_netlink(end, |handle| async move {
        let failed = |e: rtnetlink::Error| EmuError::Interface { end, operation: "unreachable route", reason: e.to_string() };
        let v4 = RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(addresses.v4, 32).kind(RouteType::Unreachable);
        handle.route().add(v4.build()).execute().await.map_err(failed)?;
        let v6 = RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(addresses.v6, 128).kind(RouteType::Unreachable);
        let _ = handle.route().add(v6.build()).execute().await; // a kernel without IPv6
        Ok(())
    })
}

/// Packets that a device dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Before the relay could read them.
    pub unread: u64,
    /// After the relay wrote them. Only a veth pair does this: it passes packets through a per-processor queue (`net.core.netdev_max_backlog`).
    pub written: u64,
}

impl Dropped {
    /// All drops without those that the kernel reported to the relay (`ENOBUFS`), as newer kernels do: the relay counts these as `kernel_rejected`.
    #[must_use]
    pub const fn unreported(&self, reported: u64) -> u64 {
        self.unread + self.written.saturating_sub(reported)
    }
}

/// Reads the drop counters of `device`.
///
/// # Errors
/// [`EmuError::Interface`].
pub fn dropped(end: &'static str, device: &str, kind: Kind) -> Result<Dropped, EmuError> {
    with_netlink(end, |handle| async move {
        let failed = |e: rtnetlink::Error| EmuError::Interface { end, operation: "counters", reason: e.to_string() };
        let link = handle.link().get().match_name(device.to_owned()).execute().try_next().await.map_err(failed)?;
        let stats = link.into_iter().flat_map(|l| l.attributes).find_map(|a| match a {
            LinkAttribute::Stats64(stats) => {
                Some(Dropped { unread: stats.tx_dropped, written: if kind == Kind::Veth { stats.rx_dropped } else { 0 } })
            }
            _ => None,
        });
        Ok(stats.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_reported_to_the_relay_are_counted_once() {
        let dropped = Dropped { unread: 2, written: 10 };
        assert_eq!([0, 7, 12].map(|reported| dropped.unreported(reported)), [12, 5, 2]);
    }
}

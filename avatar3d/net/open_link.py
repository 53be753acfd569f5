"""Opens the ends of a link by its name; no package of a protocol is loaded before such a link is opened."""

from __future__ import annotations

from avatar3d.net.link import Inlet, LinkName, Outlet
from avatar3d.net.udp import UdpInlet, UdpOutlet
from avatar3d.net.websocket import WebSocketInlet, WebSocketOutlet
from avatar3d.net.zenoh import ZenohInlet, ZenohOutlet


def open_outlet(name: LinkName, token: bytes) -> Outlet:
    """The sending end: UDP to an address, a WebSocket server for those who know the token, or a zenoh publisher.

    Raises InputError for an unknown machine, WorkError when a port or a package is missing.
    """
    if name.scheme == "ws":
        return WebSocketOutlet(name, token)
    if name.scheme == "zenoh":
        return ZenohOutlet(name)
    return UdpOutlet(name)


def open_inlet(name: LinkName, token: bytes) -> Inlet:
    """The receiving end: a UDP port, a connection to a WebSocket sender, or a zenoh subscriber. Raises as `open_outlet`."""
    if name.scheme == "ws":
        return WebSocketInlet(name, token)
    if name.scheme == "zenoh":
        return ZenohInlet(name)
    return UdpInlet(name)

//! The options of TCP connections, listeners and datagram sockets: what is set is read again, and no time is taken for another.

use super::tcp::pair;
use crate::kit::{runtime, watchdog};
use std::io;
use std::net::Shutdown;
use std::time::Duration;
use tasuki_rt::net::{TcpListener, UdpSocket};

#[test]
fn options_and_addresses() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let (client, server) = pair().await.unwrap();
        assert_eq!(client.local_addr().unwrap(), server.peer_addr().unwrap());
        assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
        client.set_nodelay(true).unwrap();
        assert!(client.nodelay().unwrap() && !server.nodelay().unwrap());
        assert!(!client.keepalive().unwrap());
        client.set_keepalive(Some(Duration::from_secs(60))).unwrap();
        assert!(client.keepalive().unwrap());
        client.set_keepalive(None).unwrap();
        assert!(!client.keepalive().unwrap());
        client.set_ttl(9).unwrap();
        assert_eq!(client.ttl().unwrap(), 9);
        client.set_linger(Some(Duration::from_secs(3))).unwrap();
        assert_eq!(client.linger().unwrap(), Some(Duration::from_secs(3)));
        client.set_linger(Some(Duration::ZERO)).unwrap();
        assert_eq!((client.linger().unwrap(), server.linger().unwrap()), (Some(Duration::ZERO), None));
        assert!(client.take_error().unwrap().is_none());
        client.shutdown(Shutdown::Both).unwrap();
    });
}

/// The system counts whole seconds or milliseconds, and zero means something else each time: a shorter time is not taken for it, nor is one beyond the last number.
#[test]
fn short_and_long_times_of_options_are_not_zero() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let (client, _server) = pair().await.unwrap();
        let socket = socket2::SockRef::from(&client);
        let (short, second) = (Duration::from_micros(1), Duration::from_secs(1));
        let (late, last) = (Duration::from_secs(1 << 32), Duration::from_secs(i32::MAX as u64));
        for (linger, set) in [
            (Duration::ZERO, Duration::ZERO),
            (short, second),
            (second, second),
            (second + short, 2 * second),
            (late, last),
            (Duration::MAX, last),
        ] {
            client.set_linger(Some(linger)).unwrap();
            if cfg!(target_os = "linux") {
                assert_eq!(socket.linger().unwrap(), Some(set), "{linger:?}");
            }
        }
        client.set_linger(None).unwrap();
        client.set_keepalive(Some(short)).unwrap();
        assert!(client.keepalive().unwrap());
        client.set_keepalive(None).unwrap();
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_keepalive_time().unwrap(), second);
            for refused in [Duration::ZERO, late] {
                assert!(client.set_keepalive(Some(refused)).is_err());
                assert!(!client.keepalive().unwrap(), "as before");
            }
            client.set_user_timeout(Some(short)).unwrap();
            assert_eq!(client.user_timeout().unwrap(), Some(Duration::from_millis(1)));
            let error = client.set_user_timeout(Some(Duration::ZERO)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            client.set_user_timeout(None).unwrap();
            assert_eq!(client.user_timeout().unwrap(), None);
        }
    });
}

#[test]
fn options_of_a_listener() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.set_ttl(9).unwrap();
        assert_eq!(listener.ttl().unwrap(), 9);
        assert!(listener.take_error().unwrap().is_none());
    });
}

#[test]
fn options_of_a_datagram_socket() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        assert!(!socket.broadcast().unwrap());
        socket.set_broadcast(true).unwrap();
        socket.set_ttl(9).unwrap();
        assert!(socket.broadcast().unwrap() && socket.ttl().unwrap() == 9);
        assert!(socket.take_error().unwrap().is_none());
    });
}

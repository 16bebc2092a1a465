//! `lookup_host` and `ToSocketAddrs`: host names are resolved by the system's resolver, which blocks, on a thread for blocking work.

use crate::context::charge;
use crate::handle::Handle;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs as _};

/// What [`ToSocketAddrs`] means.
#[derive(Debug)]
pub enum Addresses {
    /// Known without asking the resolver.
    One(SocketAddr),
    /// As above, several.
    Many(Vec<SocketAddr>),
    /// To be asked of the resolver, in the form `name:port`.
    Name(String),
}

/// What can be given as an address: a [`SocketAddr`], a pair of an IP address or a name and a port, a slice of addresses, or a string `name:port`. Names are looked up
/// as by [`lookup_host`]. Sealed.
pub trait ToSocketAddrs: sealed::Sealed {
    /// The addresses that this value stands for.
    #[doc(hidden)]
    fn addresses(&self) -> Addresses;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! known {
    ($($of:ty: |$this:ident| $addresses:expr;)*) => {$(
        impl sealed::Sealed for $of {}
        impl ToSocketAddrs for $of {
            fn addresses(&self) -> Addresses {
                let $this = self;
                $addresses
            }
        }
    )*};
}

known! {
    SocketAddr: |this| Addresses::One(*this);
    SocketAddrV4: |this| Addresses::One((*this).into());
    SocketAddrV6: |this| Addresses::One((*this).into());
    (IpAddr, u16): |this| Addresses::One((*this).into());
    (Ipv4Addr, u16): |this| Addresses::One((*this).into());
    (Ipv6Addr, u16): |this| Addresses::One((*this).into());
    ([u8; 4], u16): |this| Addresses::One((*this).into());
    [SocketAddr]: |this| Addresses::Many(this.to_vec());
}

impl sealed::Sealed for str {}
impl ToSocketAddrs for str {
    fn addresses(&self) -> Addresses {
        self.parse().map_or_else(|_| Addresses::Name(self.to_owned()), Addresses::One)
    }
}

impl sealed::Sealed for String {}
impl ToSocketAddrs for String {
    fn addresses(&self) -> Addresses {
        self.as_str().addresses()
    }
}

impl sealed::Sealed for (&str, u16) {}
impl ToSocketAddrs for (&str, u16) {
    fn addresses(&self) -> Addresses {
        let (name, port) = *self;
        match name.parse::<IpAddr>() {
            Ok(ip) => Addresses::One((ip, port).into()),
            Err(_) => Addresses::Name(format!("{name}:{port}")),
        }
    }
}

impl sealed::Sealed for (String, u16) {}
impl ToSocketAddrs for (String, u16) {
    fn addresses(&self) -> Addresses {
        (self.0.as_str(), self.1).addresses()
    }
}

impl<T: sealed::Sealed + ?Sized> sealed::Sealed for &T {}
impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    fn addresses(&self) -> Addresses {
        (**self).addresses()
    }
}

/// Looks up the addresses of a host, by the system's resolver, on a thread for blocking work. An address in numbers needs no lookup.
///
/// # Cancel safety
///
/// Nothing is lost. A lookup that has begun runs on, and its answer is dropped.
///
/// # Errors
///
/// Those of the resolver; if the runtime shuts down before it answers.
///
/// # Panics
///
/// Outside a runtime, if there is a name to look up.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async {
///     let addresses = tasuki_rt::net::lookup_host("127.0.0.1:80").await.unwrap();
///     assert_eq!(addresses, ["127.0.0.1:80".parse().unwrap()]);
/// });
/// ```
pub async fn lookup_host(host: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    charge().await;
    match host.addresses() {
        Addresses::One(address) => Ok(vec![address]),
        Addresses::Many(addresses) => Ok(addresses),
        Addresses::Name(name) => {
            // No handle is kept across the await.
            let resolved = match Handle::try_current() {
                Ok(runtime) => runtime.spawn_blocking(move || Ok(name.to_socket_addrs()?.collect())),
                Err(_) => panic!(
                    "no runtime on this thread to look up `{name}`: do it inside a task or `block_on`, or give the address in numbers"
                ),
            };
            resolved.await.map_err(io::Error::other)?
        }
    }
}

/// The first address of a host. One that is known costs nothing.
pub(super) async fn first(host: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    if let Addresses::One(address) = host.addresses() {
        return Ok(address);
    }
    lookup_host(host).await?.first().copied().ok_or_else(no_address)
}

pub(super) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the name has no address")
}

/// The first address for which it succeeds; otherwise the last error.
pub(super) async fn first_of<T>(
    host: impl ToSocketAddrs,
    mut with: impl AsyncFnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = no_address();
    for address in lookup_host(host).await? {
        match with(address).await {
            Ok(made) => return Ok(made),
            Err(error) => last = error,
        }
    }
    Err(last)
}

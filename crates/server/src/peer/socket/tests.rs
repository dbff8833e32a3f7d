#![cfg(target_os = "linux")]

use std::net::{Ipv6Addr, TcpListener, TcpStream};

use super::diag::SockDiagClient;
use super::{SocketAddr, SocketFacts, find_in_table, find_in_tables, spell};

const TABLE: &[u8] = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 00000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 22 1 00000000 20 4 30 10 -1
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 33 1 00000000 20 4 30 10 -1
   3: 0100007F:C351 0100007F:1F90 06 00000000:00000000 03:00001760 00000000     0        0 0 3 00000000
";

#[cfg(target_endian = "little")]
#[test]
fn table_gives_the_inode_of_one_end() {
    let find = |here: &str, there: &str| {
        let row = [here, there].map(|text| spell(text.parse().unwrap()));
        find_in_table(TABLE, &row).map(|facts| (facts.inode, facts.uid))
    };
    assert_eq!(find("127.0.0.1:50000", "127.0.0.1:8080"), Some((33, 1000)));
    assert_eq!(find("127.0.0.1:8080", "127.0.0.1:50000"), Some((22, 1000)));
    assert_eq!(find("127.0.0.1:50001", "127.0.0.1:8080"), None, "closed");
    assert_eq!(find("127.0.0.1:50002", "127.0.0.1:8080"), None, "absent");
}

/// Loopback connections as the two sides see them, over each kind of address.
fn connect_each_way() -> Vec<(TcpStream, TcpStream)> {
    let dual = TcpListener::bind("[::]:0").unwrap();
    let port = dual.local_addr().unwrap().port();
    let only_v4 = TcpListener::bind("127.0.0.1:0").unwrap();
    let mapped: Ipv6Addr = "::ffff:127.0.0.1".parse().unwrap();
    [
        (&only_v4, only_v4.local_addr().unwrap()),
        (
            &only_v4,
            (mapped, only_v4.local_addr().unwrap().port()).into(),
        ),
        (&dual, (Ipv6Addr::LOCALHOST, port).into()),
        (&dual, ([127, 0, 0, 1], port).into()),
    ]
    .map(|(listener, address): (_, SocketAddr)| {
        let client = TcpStream::connect(address).unwrap();
        (client, listener.accept().unwrap().0)
    })
    .into()
}

#[test]
fn kernel_and_tables_agree() {
    let mut diag = SockDiagClient::default();
    for (client, server) in connect_each_way() {
        let [peer, local] = [server.peer_addr(), server.local_addr()]
            .map(|address| address.unwrap())
            .map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
        let from_tables = find_in_tables(peer, local).unwrap();
        assert!(from_tables.is_some(), "{client:?}");
        let from_kernel = diag.find(peer, local);
        assert!(from_kernel.is_some_and(|facts| facts.cookie.is_some()));
        let common = from_kernel.map(|facts| SocketFacts {
            cookie: None,
            cgroup: None,
            ..facts
        });
        assert_eq!(common, from_tables, "{client:?}");
    }
}

#[test]
fn listener_is_not_taken_for_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap();
    let nobody = "127.0.0.1:1".parse().unwrap();
    assert_eq!(SockDiagClient::default().find(here, nobody), None);
    assert_eq!(find_in_tables(here, nobody).unwrap(), None);
}

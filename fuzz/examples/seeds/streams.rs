//! What players and receivers say.

use towpath_media::rtp::{Block, Header, Sent, feedback, goodbye, receiver_report, sender_report};
use towpath_media::send::Feedback;

type Seeds = Vec<(&'static str, Vec<u8>)>;

/// Of every target that has to do with streams; `clips` are transport streams.
pub fn all(clips: Seeds) -> [(&'static str, Seeds); 4] {
    let datagrams = datagrams(&clips);
    [
        ("media_rtp", reports()),
        ("media_rtsp", requests()),
        ("media_send", clips),
        ("media_receive", datagrams),
    ]
}

/// RTP and RTCP.
fn reports() -> Seeds {
    let header = Header { marker: false, payload_type: 33, sequence: 1, timestamp: 2, ssrc: 3 };
    let mut packet = header.emit().to_vec();
    packet.extend([0x47; 20]);
    let mut sender = Vec::new();
    let sent = Sent { ssrc: 3, ntp: 4, timestamp: 5, packets: 6, octets: 7 };
    sender_report(&mut sender, &sent, "sender");
    goodbye(&mut sender, 3);
    let mut receiver = Vec::new();
    receiver_report(&mut receiver, 9, Some(&Block { ssrc: 3, ..Block::default() }), "receiver");
    feedback(&mut receiver, 9, Feedback::SlowDown);
    vec![("packet", packet), ("sender", sender), ("receiver", receiver)]
}

/// A player from its first word to its last, and what it must not do.
fn requests() -> Seeds {
    const ID: &str = "01010101010101010101010101010101";
    let line = |method: &str, more: &str| {
        format!("{method} rtsp://h/a.ts RTSP/1.0\r\nCSeq: 1\r\n{more}\r\n")
    };
    let session = format!("Session: {ID}\r\n");
    let udp = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
    let whole = [
        line("OPTIONS", ""),
        line("DESCRIBE", "Accept: application/sdp\r\n"),
        line("SETUP", udp),
        line("PLAY", &format!("{session}Range: npt=1.5-\r\nScale: 2\r\n")),
        line("PAUSE", &session),
        line("GET_PARAMETER", &session),
        line("TEARDOWN", &session),
    ];
    let tcp = line("SETUP", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n");
    let stolen = format!("{}\0{}", line("SETUP", udp), line("PLAY", &session));
    vec![
        ("whole", whole.concat().into_bytes()),
        ("interleaved", format!("{tcp}$\u{1}\u{1}").into_bytes()),
        ("stolen", stolen.into_bytes()),
    ]
}

/// A clip in datagrams, each after its time and length.
fn datagrams(clips: &[(&str, Vec<u8>)]) -> Seeds {
    let mut bytes = Vec::new();
    for datagram in clips.iter().flat_map(|(_, clip)| clip.chunks(7 * 188)).take(20) {
        let [low, high] = (datagram.len() as u16).to_le_bytes();
        bytes.extend([10, low, high]);
        bytes.extend(datagram);
    }
    vec![("clip", bytes)]
}

//! Parsed packets and frames back into bytes.

use towpath_wire::Frame;
use towpath_wire::bytes::Writer;
use towpath_wire::coding;
use towpath_wire::frame;
use towpath_wire::packet::{
    DATA_HEADER, INITIATION_HEADER, Initiation, Packet, RESPONSE_HEADER, Response,
};

/// The packet's bytes. A data packet's sealed content is taken from the datagram it came in;
/// fields that the wire ignores are emitted as they should be, so that the bytes may differ.
pub fn packet(packet: &Packet<'_>, datagram: &[u8]) -> Vec<u8> {
    match packet {
        Packet::Data(data) => {
            let mut out = datagram.to_vec();
            out[..DATA_HEADER].fill(0);
            data.emit(&mut out);
            assert_eq!(out, datagram, "a data header has no spare bits");
            out
        }
        Packet::Initiation(i) => initiation(i, datagram),
        Packet::Response(r) => response(r, datagram),
        Packet::Cookie(cookie) => cookie.emit().to_vec(),
        Packet::Versions(versions) => versions.emit().to_vec(),
    }
}

fn initiation(i: &Initiation<'_>, datagram: &[u8]) -> Vec<u8> {
    let mut out = vec![0; INITIATION_HEADER];
    Initiation::emit_header(&mut out, i.versions, &i.admission, i.sender);
    // A member's token fields are ignored, but `before_mac1` covers them as they came.
    if i.admission == towpath_wire::Admission::Member {
        out[8..32].copy_from_slice(&datagram[8..32]);
    }
    out.extend_from_slice(i.noise);
    assert_eq!(out.len(), i.before_mac1.len());
    out.extend_from_slice(&i.mac1);
    assert_eq!(out.len(), i.before_mac2.len());
    out.extend_from_slice(&i.mac2);
    assert_eq!(out, datagram);
    out
}

fn response(r: &Response<'_>, datagram: &[u8]) -> Vec<u8> {
    let mut out = vec![0; RESPONSE_HEADER];
    Response::emit_header(&mut out, r.version, r.receiver, r.sender);
    out[2..4].copy_from_slice(&datagram[2..4]);
    out.extend_from_slice(r.noise);
    assert_eq!(out.len(), r.before_mac1.len());
    out.extend_from_slice(&r.mac1);
    assert_eq!(out, datagram);
    out
}

/// The frame's bytes; `None` for kinds that no machine of this version emits.
pub fn frame(frame: &Frame<'_>) -> Option<Vec<u8>> {
    let body = if let Frame::Data(p) = frame { p.bytes.len() } else { 0 };
    let mut out = vec![0; 512 + body];
    let mut w = Writer::new(&mut out);
    match frame {
        Frame::Pad => w.u8(0),
        Frame::Ping => frame::emit_ping(&mut w),
        Frame::Ack(ack) => {
            let words: Vec<u64> = ack.words().collect();
            assert_eq!(ack.span(), 64 * words.len() as u64);
            frame::emit_ack(&mut w, ack.path, ack.delay_us, ack.largest, &words);
            assert_eq!(w.used(), frame::ack_len(words.len()));
        }
        Frame::Marks { path, marked } => {
            frame::emit_marks(&mut w, *path, *marked);
            assert_eq!(w.used(), frame::MARKS_LEN);
        }
        Frame::AckRate { path, every, delay_us } => {
            frame::emit_ack_rate(&mut w, *path, *every, *delay_us);
            assert_eq!(w.used(), frame::ACK_RATE_LEN);
        }
        Frame::PathAdd { path, link, remote } => {
            frame::emit_path_add(&mut w, *path, *link, *remote);
            assert_eq!(w.used(), frame::PATH_ADD_LEN);
        }
        Frame::PathRetire { path, reason } => {
            frame::emit_path_retire(&mut w, *path, *reason);
            assert_eq!(w.used(), frame::PATH_RETIRE_LEN);
        }
        Frame::Note(bytes) => {
            frame::emit_note(&mut w, bytes);
            assert_eq!(w.used(), frame::NOTE_OVERHEAD + bytes.len());
        }
        Frame::Open(open) => {
            frame::emit_open(&mut w, open);
            assert_eq!(w.used(), frame::open_len(open));
        }
        Frame::Data(p) => {
            let len = p.bytes.len() as u16;
            frame::emit_data_header(&mut w, p.channel, p.message, p.message_len, p.offset, len);
            assert_eq!(w.used(), frame::DATA_OVERHEAD);
            w.put(p.bytes);
        }
        Frame::Limit { channel, limit } => frame::emit_limit(&mut w, *channel, *limit),
        Frame::CloseChannel { channel, messages, reason } => {
            frame::emit_close_channel(&mut w, *channel, *reason, *messages);
        }
        Frame::Close { reason, text } => frame::emit_close(&mut w, *reason, text),
        Frame::Skip { channel, message, charge } => {
            frame::emit_skip(&mut w, *channel, *message, *charge);
            assert_eq!(w.used(), frame::SKIP_LEN);
        }
        Frame::PathResponse(token) => frame::emit_path_response(&mut w, *token),
        Frame::Parity(parity) => {
            out.resize(512 + parity.symbol.len(), 0);
            w = Writer::new(&mut out);
            coding::emit_parity(&mut w, parity);
            assert_eq!(w.used(), coding::PARITY_OVERHEAD + parity.symbol.len());
        }
        Frame::Rebuilt(rebuilt) => {
            coding::emit_rebuilt(&mut w, rebuilt.path, rebuilt.number);
            assert_eq!(w.used(), coding::REBUILT_LEN);
        }
        // What is coded stands behind its frame.
        Frame::Coded(_) | Frame::PathChallenge(_) | Frame::Extension(_) => return None,
    }
    let used = w.used();
    out.truncate(used);
    Some(out)
}

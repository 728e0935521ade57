//! Requests, and data between them, out of the bytes of a connection (RFC 2326 §4, §10.12).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

/// Bytes of a request before its body.
pub const HEAD_MAX: usize = 8192;
/// Lines of a request's head.
pub const HEADERS_MAX: usize = 64;
/// Bytes of a body: nobody sends us long ones.
pub const BODY_MAX: usize = 4096;

/// What stands next in a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A request.
    Request(Request<'a>),
    /// Data of a channel.
    Data {
        /// Which.
        channel: u8,
        /// It.
        payload: &'a [u8],
    },
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// In capitals, as sent.
    pub method: &'a str,
    /// As sent.
    pub uri: &'a str,
    /// `RTSP/1.0`, or what else it says.
    pub version: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    /// Mostly nothing.
    pub body: &'a [u8],
}

/// A connection that does not speak RTSP: it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RtspError {
    /// No end of the head within its limit.
    #[error("a head of more than {HEAD_MAX} bytes")]
    LongHead,
    /// More lines than the limit.
    #[error("more than {HEADERS_MAX} headers")]
    Headers,
    /// Not text.
    #[error("a head that is not UTF-8")]
    NotText,
    /// Not a method, an address and a version.
    #[error("a first line that is no request")]
    FirstLine,
    /// A line without colon.
    #[error("a header without a colon")]
    Header,
    /// A length that is no number, or beyond the limit.
    #[error("a Content-Length that is no number up to {BODY_MAX}")]
    Length,
}

/// The first item of `bytes` and how long it is; `None` where it is not complete.
pub fn item(bytes: &[u8]) -> Result<Option<(Item<'_>, usize)>, RtspError> {
    if let [b'$', rest @ ..] = bytes {
        let [channel, high, low, rest @ ..] = rest else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let data = rest.get(..len).map(|payload| Item::Data { channel: *channel, payload });
        return Ok(data.map(|data| (data, 4 + len)));
    }
    // Empty lines before a request are passed.
    let lead = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    if lead > HEAD_MAX {
        return Err(RtspError::LongHead);
    }
    let text = &bytes[lead..];
    let window = &text[..text.len().min(HEAD_MAX)];
    let Some(end) = end_of_head(window) else {
        return if text.len() >= HEAD_MAX { Err(RtspError::LongHead) } else { Ok(None) };
    };
    let head = core::str::from_utf8(&text[..end]).map_err(|_| RtspError::NotText)?;
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split_ascii_whitespace();
    let (Some(method), Some(uri), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(RtspError::FirstLine);
    };
    if !version.starts_with("RTSP/") || !method.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    {
        return Err(RtspError::FirstLine);
    }
    let mut headers = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if headers.len() == HEADERS_MAX {
            return Err(RtspError::Headers);
        }
        let (name, value) = line.split_once(':').ok_or(RtspError::Header)?;
        headers.push((name.trim(), value.trim()));
    }
    let mut request = Request { method, uri, version, headers, body: &[] };
    let length = request.header("Content-Length").map_or(Some(0), |value| value.parse().ok());
    let length: usize = length.filter(|n| *n <= BODY_MAX).ok_or(RtspError::Length)?;
    let Some(body) = text.get(end..end + length) else { return Ok(None) };
    request.body = body;
    Ok(Some((Item::Request(request), lead + end + length)))
}

/// Bytes up to and with the empty line.
fn end_of_head(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(n) = text[at..].iter().position(|b| *b == b'\n') {
        let next = at + n + 1;
        match &text[next..] {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => at = next,
        }
    }
    None
}

impl<'a> Request<'a> {
    /// The value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// The path of its address without the leading slash and the track, decoded; `None` where it
    /// is none.
    pub fn path(&self) -> Option<Cow<'a, str>> {
        let rest =
            self.uri.strip_prefix("rtsp://").or_else(|| self.uri.strip_prefix("rtspu://"))?;
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = path.strip_suffix('/').unwrap_or(path);
        let path =
            path.strip_suffix("trackID=0").map_or(path, |p| p.strip_suffix('/').unwrap_or(p));
        decode(path)
    }
}

/// `%20` and its like.
fn decode(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(path.into());
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    fn request(bytes: &[u8]) -> Request<'_> {
        match item(bytes) {
            Ok(Some((Item::Request(request), _))) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_and_data_follow_each_other() {
        let text = b"\r\nSETUP rtsp://h:554/a%20b/c.ts/trackID=0 RTSP/1.0\r\ncseq: 3\r\n\
            Content-Length: 2\r\n\r\nhi$\x01\x00\x03abcOPTIONS * RTSP/1.0\n\n";
        let found = request(text);
        assert_eq!((found.method, found.body), ("SETUP", &b"hi"[..]));
        assert_eq!(found.header("CSeq"), Some("3"));
        assert_eq!(found.path().as_deref(), Some("a b/c.ts"));
        let (_, n) = item(text).expect("right").expect("whole");
        let data = Item::Data { channel: 1, payload: b"abc" };
        assert_eq!(item(&text[n..]), Ok(Some((data, 7))));
        let last = request(&text[n + 7..]);
        assert_eq!((last.method, last.path()), ("OPTIONS", None));
        let whole = text[n + 7..].len();
        assert!(matches!(item(&text[n + 7..]), Ok(Some((_, end))) if end == whole));
        assert_eq!(item(&text[n + 7..n + 6 + whole]), Ok(None));
        for end in 0..n {
            assert_eq!(item(&text[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_is_no_request_is_told() {
        let fault = |text: &str| item(text.as_bytes()).expect_err(text);
        assert_eq!(fault("GET / HTTP/1.1\r\n\r\n"), RtspError::FirstLine);
        assert_eq!(fault("PLAY x RTSP/1.0\r\nnonsense\r\n\r\n"), RtspError::Header);
        assert_eq!(fault("PLAY x RTSP/1.0\r\nContent-Length: -1\r\n\r\n"), RtspError::Length);
        assert_eq!(fault("PLAY x RTSP/1.0\r\nContent-Length: 99999\r\n\r\n"), RtspError::Length);
        assert_eq!(fault(&"x".repeat(HEAD_MAX)), RtspError::LongHead);
        let many = format!("PLAY x RTSP/1.0\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert_eq!(fault(&many), RtspError::Headers);
        assert_eq!(item(b"PLAY \xff RTSP/1.0\r\n\r\n"), Err(RtspError::NotText));
        for bad in ["rtsp://h/%", "rtsp://h/%f", "rtsp://h/%ff", "http://h/a"] {
            assert_eq!(
                request(format!("PLAY {bad} RTSP/1.0\n\n").as_bytes()).path(),
                None,
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_item_or_not(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            text in "[A-Z]{0,9} rtsp://[a-z/%0-9]{0,20} RTSP/1.0\r\n([a-zA-Z-]{0,15}:[ -~]{0,20}\r\n){0,4}\r\n",
        ) {
            for bytes in [&bytes[..], text.as_bytes()] {
                if let Ok(Some((item, n))) = item(bytes) {
                    prop_assert!(n > 0 && n <= bytes.len());
                    if let Item::Request(request) = item {
                        let _ = request.path();
                    }
                }
            }
        }
    }
}
